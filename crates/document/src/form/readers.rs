//! How parsers read the names of form fields: the steps to a value, from the outside in.
//!
//! A name is read from left to right, and only while some selected name begins with the same steps.

use std::collections::HashMap;

/// A parser of names.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    /// How it reads a selected name.
    selected: Syntax,
    /// How it reads any other.
    read: Syntax,
}

pub(super) const READERS: [Reader; 6] = [
    Reader { selected: Syntax::Whole, read: Syntax::Whole },
    Reader { selected: Syntax::Php, read: Syntax::Php },
    Reader { selected: Syntax::Qs, read: Syntax::Qs },
    Reader { selected: Syntax::Bracketed, read: Syntax::Bracketed },
    Reader { selected: Syntax::Dotted, read: Syntax::Dotted },
    Reader { selected: Syntax::Whole, read: Syntax::BeforeColon },
];

/// How a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// Go, Python, Java: the name unchanged.
    Whole,
    /// PHP (`php_register_variable_ex`).
    Php,
    /// The npm package `qs`: the text before the first complete brackets, and the text in all complete ones.
    Qs,
    /// Rack: the text between brackets, complete or not.
    Bracketed,
    /// Spring, gorilla/schema, `qs` with `allowDots`: dots are brackets.
    Dotted,
    /// Zope: a type may follow the name.
    BeforeColon,
}

/// The selected names as one parser reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    children: HashMap<Box<str>, usize>,
    /// Whether a selected name ends here.
    is_end: bool,
}

impl Tree {
    pub(super) fn new(reader: &Reader, names: &[String]) -> Self {
        let mut nodes = vec![Node::default()];
        for name in names {
            let mut at = 0;
            steps(reader.selected, name, |step| {
                let next = nodes.len();
                let child = *nodes[at].children.entry(step.into()).or_insert(next);
                if child == next {
                    nodes.push(Node::default());
                }
                at = child;
                true
            });
            nodes[at].is_end |= at != 0;
        }
        Tree { nodes }
    }

    /// The names of one step.
    pub(super) fn singles(&self) -> impl Iterator<Item = &str> {
        self.nodes[0].children.iter().filter(|(_, child)| self.nodes[**child].is_end).map(|(step, _)| &**step)
    }

    /// Whether the parser reads the name as a selected one, or as one below it.
    pub(super) fn takes(&self, reader: &Reader, name: &str) -> bool {
        let (mut at, mut is_taken) = (0, false);
        steps(reader.read, name, |step| {
            let child = self.nodes[at].children.get(step);
            at = child.copied().unwrap_or(0);
            is_taken = self.nodes[at].is_end;
            child.is_some() && !is_taken
        });
        is_taken
    }
}

/// Calls `take` with each step of a name until it returns false.
fn steps(syntax: Syntax, name: &str, take: impl FnMut(&str) -> bool) {
    let mut steps = Steps { take, is_first: true };
    match syntax {
        Syntax::Whole => steps.whole(name),
        Syntax::BeforeColon => steps.whole(name.split(':').next().unwrap_or(name)),
        Syntax::Bracketed => name.split(['[', ']']).all(|step| steps.push(step)),
        Syntax::Dotted => name.split(['[', ']', '.']).all(|step| steps.push(step)),
        Syntax::Qs => qs(name, &mut steps),
        Syntax::Php => php(name, &mut steps),
    };
}

/// Receives the steps of a name.
struct Steps<F> {
    take: F,
    is_first: bool,
}

impl<F: FnMut(&str) -> bool> Steps<F> {
    /// Takes a name that is one step.
    fn whole(&mut self, name: &str) -> bool {
        (self.take)(name)
    }

    /// Takes the next step. An empty one is none. Elements of a list belong to the list, whether numbered or appended.
    fn push(&mut self, step: &str) -> bool {
        let step = step.trim().trim_matches(['"', '\'']);
        let is_element = !self.is_first && step.bytes().all(|byte| byte.is_ascii_digit());
        if step.is_empty() || is_element {
            return true;
        }
        self.is_first = false;
        (self.take)(step)
    }
}

fn php<F: FnMut(&str) -> bool>(name: &str, steps: &mut Steps<F>) -> bool {
    let plain = |text: &str| text.replace([' ', '.'], "_");
    let Some(open) = name.find('[') else { return steps.whole(&plain(name)) };
    let (root, mut rest) = (plain(&name[..open]), &name[open..]);
    if !rest.contains(']') {
        return steps.whole(&format!("{root}_{}", rest[1..].replace([' ', '.', '['], "_")));
    }
    let mut goes_on = steps.push(&root);
    while let Some((step, behind)) = rest.strip_prefix('[').filter(|_| goes_on).and_then(|inner| inner.split_once(']'))
    {
        goes_on = steps.push(step);
        rest = behind;
    }
    goes_on
}

fn qs<F: FnMut(&str) -> bool>(name: &str, steps: &mut Steps<F>) -> bool {
    let (mut open, mut has_root) = (None, false);
    for (at, byte) in name.bytes().enumerate() {
        match (byte, open) {
            (b'[', _) => open = Some(at),
            (b']', Some(start)) => {
                if !std::mem::replace(&mut has_root, true) && !steps.push(&name[..start]) {
                    return false;
                }
                if !steps.push(&name[start + 1..at]) {
                    return false;
                }
                open = None;
            }
            _ => {}
        }
    }
    has_root || steps.push(name)
}
