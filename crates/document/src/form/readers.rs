//! How parsers read the names of form fields: the steps to a value, from the outside in.
//!
//! A name is read from left to right, and only while some selected name begins with the same steps or may have them anywhere. Each step is
//! looked up once, however many names are selected.

use std::collections::{BTreeMap, BTreeSet};

use crate::selector::{FieldPath, before_parenthesis};

/// A parser of names.
#[derive(Clone, Copy)]
pub(super) struct NameReader {
    /// How it reads a selected name.
    selected: Syntax,
    /// How it reads any other.
    read: Syntax,
}

pub(super) const READERS: [NameReader; 6] = [
    NameReader { selected: Syntax::Whole, read: Syntax::Whole },
    NameReader { selected: Syntax::Php, read: Syntax::Php },
    NameReader { selected: Syntax::Qs, read: Syntax::Qs },
    NameReader { selected: Syntax::Bracketed, read: Syntax::Bracketed },
    NameReader { selected: Syntax::Dotted, read: Syntax::Dotted },
    NameReader { selected: Syntax::Whole, read: Syntax::BeforeColon },
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
    /// Rack: the text between brackets, complete or not. Rails assigns `date(1i)`, a part of an attribute, to the attribute.
    Bracketed,
    /// Spring, gorilla/schema, `qs` with `allowDots`: dots are brackets.
    Dotted,
    /// Zope: a type may follow the name.
    BeforeColon,
}

/// The selected names as one parser reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// The number of each step of a selected name.
    numbers: BTreeMap<Box<str>, usize>,
    nodes: Vec<NameNode>,
    /// Steps by which a name is selected wherever it has them, by number.
    open: BTreeMap<usize, RequiredStep>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NameNode {
    /// By the number of a step.
    children: BTreeMap<usize, usize>,
    /// Whether a selected name ends here.
    is_end: bool,
}

/// Where a name must have a step to be selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RequiredStep {
    anywhere: bool,
    /// Anywhere behind the first step.
    below_any: bool,
    /// Behind one of these first steps.
    below: BTreeSet<usize>,
}

impl Tree {
    /// `names`: the selected names. `open`: those of other paths, which are not [`FieldPath::Exactly`].
    pub(super) fn new(reader: &NameReader, names: &[String], open: &[FieldPath]) -> Self {
        let mut tree = Tree { numbers: BTreeMap::new(), nodes: vec![NameNode::default()], open: BTreeMap::new() };
        for name in names {
            tree.add(reader, name);
        }
        for path in open {
            tree.add_open(reader, path);
        }
        tree
    }

    fn number(&mut self, step: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(step.into()).or_insert(next)
    }

    fn add(&mut self, reader: &NameReader, name: &str) {
        let mut at = 0;
        steps(reader.selected, name, |step| {
            let (number, next) = (self.number(step), self.nodes.len());
            let child = *self.nodes[at].children.entry(number).or_insert(next);
            if child == next {
                self.nodes.push(NameNode::default());
            }
            at = child;
            true
        });
        self.nodes[at].is_end |= at != 0;
    }

    fn add_open(&mut self, reader: &NameReader, path: &FieldPath) {
        // A parser may write a name otherwise where it is the first.
        let read_first = |name: &str| {
            let mut read = None;
            steps(reader.selected, name, |step| {
                read = Some(step.to_owned());
                false
            });
            read
        };
        match path {
            FieldPath::Exactly(name) => self.add(reader, name),
            FieldPath::Anywhere(name) => {
                for step in [Some(name.clone()), read_first(name)].into_iter().flatten() {
                    let number = self.number(&step);
                    self.open.entry(number).or_default().anywhere = true;
                }
            }
            FieldPath::Below { first, name } => {
                let first = first.as_ref().map(|first| read_first(first).map(|first| self.number(&first)));
                let number = self.number(name);
                let open = self.open.entry(number).or_default();
                match first {
                    None => open.below_any = true,
                    Some(first) => open.below.extend(first),
                }
            }
        }
    }

    /// The names of one step.
    pub(super) fn singles(&self) -> impl Iterator<Item = &str> {
        let is_end = |number| self.nodes[0].children.get(number).is_some_and(|&child| self.nodes[child].is_end);
        let is_single = move |number| is_end(number) || self.open.get(number).is_some_and(|open| open.anywhere);
        self.numbers.iter().filter(move |(_, number)| is_single(number)).map(|(step, _)| &**step)
    }

    /// Whether the parser reads the name as a selected one, or as one below it.
    pub(super) fn takes(&self, reader: &NameReader, name: &str) -> bool {
        let (mut at, mut first, mut is_taken) = (Some(0), None, false);
        steps(reader.read, name, |step| {
            let number = self.numbers.get(step).copied();
            at = at.and_then(|at: usize| self.nodes[at].children.get(&number?).copied());
            is_taken = at.is_some_and(|at| self.nodes[at].is_end) || self.takes_open(number, first);
            first = first.or(Some(number));
            !is_taken && (at.is_some() || !self.open.is_empty())
        });
        is_taken
    }

    /// Whether a name is selected by a step of this number. `first`: the number of its first step, if this is another.
    fn takes_open(&self, number: Option<usize>, first: Option<Option<usize>>) -> bool {
        let Some(open) = number.and_then(|number| self.open.get(&number)) else { return false };
        match first {
            None => open.anywhere,
            Some(first) => open.anywhere || open.below_any || first.is_some_and(|first| open.below.contains(&first)),
        }
    }
}

/// Calls `take` with each step of a name until it returns false.
fn steps(syntax: Syntax, name: &str, take: impl FnMut(&str) -> bool) {
    let mut steps = StepReceiver { take, is_first: true };
    match syntax {
        Syntax::Whole => steps.whole(name),
        Syntax::BeforeColon => steps.whole(name.split(':').next().unwrap_or(name)),
        Syntax::Bracketed => name.split(['[', ']']).all(|step| steps.push(before_parenthesis(step))),
        Syntax::Dotted => name.split(['[', ']', '.']).all(|step| steps.push(step)),
        Syntax::Qs => qs(name, &mut steps),
        Syntax::Php => php(name, &mut steps),
    };
}

/// Receives the steps of a name.
struct StepReceiver<F> {
    take: F,
    is_first: bool,
}

impl<F: FnMut(&str) -> bool> StepReceiver<F> {
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

fn php<F: FnMut(&str) -> bool>(name: &str, steps: &mut StepReceiver<F>) -> bool {
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

fn qs<F: FnMut(&str) -> bool>(name: &str, steps: &mut StepReceiver<F>) -> bool {
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
