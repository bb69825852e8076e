//! Parses YAML to a tree in which every node has its position, so that errors can be reported with line and column. Merge keys (`<<`) are
//! resolved as js-yaml does, with which Artillery reads its files.

use std::collections::{HashMap, HashSet};
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use thiserror::Error;

/// Maximum bytes of a file.
pub const TEXT_SIZE_MAX: usize = 1 << 20;
/// Maximum nodes of a file, aliases expanded: a few bytes of aliases of aliases could expand to billions.
const NODES_MAX: usize = 200_000;
/// Maximum nesting of lists and maps.
const DEPTH_MAX: usize = 64;
/// The key whose value, a map or a list of maps, adds its keys to the map that it is in.
const MERGE_KEY: &str = "<<";
/// Maximum maps in the list of a merge key.
const MERGED_MAX: usize = 100;

/// A position in a file, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct YamlPosition {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl YamlPosition {
    fn of(marker: Marker) -> Self {
        YamlPosition { line: marker.line(), column: marker.col() + 1 }
    }
}

impl fmt::Display for YamlPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A problem in a file, with its position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {message}")]
pub struct YamlProblem {
    /// Its position.
    pub place: YamlPosition,
    /// The error and the expected input, in one line.
    pub message: String,
}

impl YamlProblem {
    /// Creates a problem. The message is kept to one line even if it quotes the file.
    pub(crate) fn new(place: YamlPosition, message: impl fmt::Display) -> Self {
        let message = message.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        YamlProblem { place, message }
    }
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    /// Its start.
    pub place: YamlPosition,
    /// Its content.
    pub content: NodeContent,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub(super) enum NodeContent {
    /// Text, and whether it is unquoted, so that it may be a number, a boolean or null.
    Scalar(String, bool),
    /// A list.
    List(Vec<YamlNode>),
    /// A map in the order of the file, without duplicate keys.
    Map(Vec<(YamlNode, YamlNode)>),
}

impl YamlNode {
    fn nothing(place: YamlPosition) -> Self {
        YamlNode { place, content: NodeContent::Scalar(String::new(), true) }
    }

    /// Whether it is empty: `null`, `~`, or missing.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.content, NodeContent::Scalar(text, true) if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Scalar(text, _) => Some(text),
            NodeContent::List(_) | NodeContent::Map(_) => None,
        }
    }

    /// Replaces what `changes` has, as Artillery does with an environment: maps are merged key by key, lists item by item, and everything
    /// else is replaced.
    pub(super) fn overlay(&mut self, changes: &YamlNode) {
        match (&mut self.content, &changes.content) {
            (NodeContent::Map(pairs), NodeContent::Map(changes)) => {
                let own: HashMap<String, usize> =
                    pairs.iter().map(|(key, _)| key.text().unwrap_or_default().to_owned()).zip(0..).collect();
                for (key, value) in changes {
                    match own.get(key.text().unwrap_or_default()) {
                        Some(index) => pairs[*index].1.overlay(value),
                        None => pairs.push((key.clone(), value.clone())),
                    }
                }
            }
            (NodeContent::List(items), NodeContent::List(changes)) => {
                let (replaced, added) = changes.split_at(items.len().min(changes.len()));
                items.iter_mut().zip(replaced).for_each(|(item, change)| item.overlay(change));
                items.extend_from_slice(added);
            }
            _ => *self = changes.clone(),
        }
    }

    fn count(&self) -> usize {
        1 + match &self.content {
            NodeContent::Scalar(..) => 0,
            NodeContent::List(nodes) => nodes.iter().map(YamlNode::count).sum(),
            NodeContent::Map(pairs) => pairs.iter().map(|(key, value)| key.count() + value.count()).sum(),
        }
    }
}

/// Parses `text`, which must be a single document.
///
/// # Errors
/// Fails if the text is not YAML, has several documents or a duplicate key, or exceeds a limit.
pub(super) fn read(text: &str) -> Result<YamlNode, YamlProblem> {
    if text.len() > TEXT_SIZE_MAX {
        let message = format!("a scenario file must be at most {TEXT_SIZE_MAX} bytes");
        return Err(YamlProblem::new(YamlPosition { line: 1, column: 1 }, message));
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            YamlProblem::new(YamlPosition::of(*error.marker()), format_args!("not YAML: {}", error.info()))
        })?;
        builder.take(event, YamlPosition::of(span.start))?;
    }
    Ok(builder.root.unwrap_or_else(|| YamlNode::nothing(YamlPosition { line: 1, column: 1 })))
}

/// An unfinished list or map; a map's keys and values alternate.
struct OpenNode {
    place: YamlPosition,
    anchor: usize,
    is_map: bool,
    nodes: Vec<YamlNode>,
}

#[derive(Default)]
struct Builder {
    open: Vec<OpenNode>,
    anchors: HashMap<usize, (YamlNode, usize)>,
    root: Option<YamlNode>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: YamlPosition) -> Result<(), YamlProblem> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let content = NodeContent::Scalar(text.into_owned(), style == ScalarStyle::Plain);
                self.add(YamlNode { place, content }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(place, anchor, false),
            Event::MappingStart(anchor, _) => self.begin(place, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop().expect("the parser closes what it has opened");
                let content =
                    if open.is_map { NodeContent::Map(pairs(open.nodes)?) } else { NodeContent::List(open.nodes) };
                self.add(YamlNode { place: open.place, content }, open.anchor)
            }
            Event::Alias(anchor) => {
                let Some((node, count)) = self.anchors.get(&anchor) else {
                    return Err(YamlProblem::new(place, "an alias of one of its own ancestors"));
                };
                let (node, count) = (node.clone(), *count);
                // Counts its children; the node itself is counted when it is added.
                self.count(count - 1, place)?;
                self.add(YamlNode { place, ..node }, 0)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn begin(&mut self, place: YamlPosition, anchor: usize, is_map: bool) -> Result<(), YamlProblem> {
        if self.open.len() == DEPTH_MAX {
            return Err(YamlProblem::new(
                place,
                format_args!("lists and maps must be nested at most {DEPTH_MAX} deep"),
            ));
        }
        self.open.push(OpenNode { place, anchor, is_map, nodes: Vec::new() });
        Ok(())
    }

    fn add(&mut self, node: YamlNode, anchor: usize) -> Result<(), YamlProblem> {
        self.count(1, node.place)?;
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), node.count()));
        }
        match self.open.last_mut() {
            Some(open) => open.nodes.push(node),
            None if self.root.is_some() => {
                return Err(YamlProblem::new(node.place, "a scenario file must have exactly one document"));
            }
            None => self.root = Some(node),
        }
        Ok(())
    }

    fn count(&mut self, count: usize, place: YamlPosition) -> Result<(), YamlProblem> {
        self.nodes += count;
        if self.nodes > NODES_MAX {
            return Err(YamlProblem::new(
                place,
                format_args!("a scenario file must have at most {NODES_MAX} values, aliases expanded"),
            ));
        }
        Ok(())
    }
}

/// Pairs keys with values. Refuses duplicate keys, which are ambiguous. Keys of merged maps come last, and only those that the map does not
/// have itself; of several merged maps the first has precedence.
fn pairs(nodes: Vec<YamlNode>) -> Result<Vec<(YamlNode, YamlNode)>, YamlProblem> {
    let mut pairs: Vec<(YamlNode, YamlNode)> = Vec::with_capacity(nodes.len() / 2);
    let (mut seen, mut merged) = (HashSet::new(), Vec::new());
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        let NodeContent::Scalar(name, is_plain) = &key.content else {
            return Err(YamlProblem::new(key.place, "a key must be text"));
        };
        if *is_plain && name == MERGE_KEY {
            merge(value, &mut merged)?;
            continue;
        }
        if !seen.insert(name.clone()) {
            return Err(YamlProblem::new(key.place, format_args!("duplicate key `{}`", short(name))));
        }
        pairs.push((key, value));
    }
    pairs.extend(merged.into_iter().filter(|(key, _)| key.text().is_some_and(|name| seen.insert(name.to_owned()))));
    Ok(pairs)
}

/// Appends the pairs of a merge key's value.
fn merge(value: YamlNode, merged: &mut Vec<(YamlNode, YamlNode)>) -> Result<(), YamlProblem> {
    let place = value.place;
    let maps = match value.content {
        NodeContent::List(maps) if maps.len() <= MERGED_MAX => maps,
        NodeContent::List(_) => {
            return Err(YamlProblem::new(place, format_args!("`<<`: must have at most {MERGED_MAX} maps")));
        }
        content => vec![YamlNode { place, content }],
    };
    for map in maps {
        match map.content {
            NodeContent::Map(pairs) => merged.extend(pairs),
            _ => return Err(YamlProblem::new(map.place, "`<<`: must be a map or a list of maps, such as `*anchor`")),
        }
    }
    Ok(())
}

/// Shortens text for a message: a value may be a megabyte long.
pub(super) fn short(text: &str) -> String {
    const LENGTH: usize = 60;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        read(text).expect_err(text).to_string()
    }

    #[test]
    fn nodes_know_their_places() {
        let root = read("a: 1\nb:\n  - x\n  - { c: 'd' }\n").unwrap();
        let NodeContent::Map(pairs) = &root.content else { panic!("{root:?}") };
        assert_eq!(pairs.len(), 2);
        let NodeContent::List(items) = &pairs[1].1.content else { panic!("{root:?}") };
        assert_eq!(items[1].place, YamlPosition { line: 4, column: 5 });
        let NodeContent::Map(inner) = &items[1].content else { panic!("{root:?}") };
        assert_eq!(inner[0].1.place, YamlPosition { line: 4, column: 10 });
        assert!(matches!(&inner[0].1.content, NodeContent::Scalar(text, false) if text == "d"));
        assert!(read("").unwrap().is_nothing() && read("# nothing\n").unwrap().is_nothing());
    }

    #[test]
    fn aliases_are_written_out_and_bounded() {
        let root = read("a: &x [1, 2]\nb: *x\n").unwrap();
        let NodeContent::Map(pairs) = &root.content else { panic!("{root:?}") };
        assert!(matches!(&pairs[1].1.content, NodeContent::List(items) if items.len() == 2));
        let mut bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for level in 1..12 {
            let before = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
        }
        assert!(problem(&bomb).contains("must have at most 200000 values"));
        assert!(problem("a: &x [*x]").contains("an alias of one of its own ancestors"));
    }

    /// The tree as text, without places.
    fn shown(node: &YamlNode) -> String {
        match &node.content {
            NodeContent::Scalar(text, _) => text.clone(),
            NodeContent::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            NodeContent::Map(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| format!("{}={}", shown(key), shown(value)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn merge_keys_add_what_a_map_does_not_have() {
        for (text, expected) in [
            ("{ <<: { a: 1, b: 2 }, b: 3 }", "{b=3 a=1}"),
            ("{ b: 3, <<: { a: 1, b: 2 } }", "{b=3 a=1}"),
            ("{ <<: [{ a: 1 }, { a: 2, b: 2 }] }", "{a=1 b=2}"),
            ("{ <<: { a: 1 }, <<: { a: 2, c: 3 } }", "{a=1 c=3}"),
            ("{ <<: [], a: 1 }", "{a=1}"),
            ("{ <<: { <<: { a: 1, b: 1 }, b: 2 }, c: 3 }", "{c=3 b=2 a=1}"),
            ("{ '<<': { a: 1 } }", "{<<={a=1}}"),
            ("[{ x: &x { a: 1 } }, { <<: *x, a: 2 }]", "[{x={a=1}} {a=2}]"),
        ] {
            assert_eq!(shown(&read(text).expect(text)), expected, "{text}");
        }
        for text in ["{ <<: 1 }", "{ <<: }", "{ <<: [1] }", "{ <<: [[{ a: 1 }]] }"] {
            assert!(problem(text).contains("`<<`: must be a map or a list of maps"), "{text}");
        }
        assert!(problem("{ <<: { a: 1 }, a: 1, a: 2 }").contains("duplicate key `a`"));
    }

    #[test]
    fn an_overlay_merges_maps_and_lists_and_replaces_the_rest() {
        for (base, changes, expected) in [
            ("{ a: 1, b: { c: 2 } }", "{ b: { d: 3 }, e: 4 }", "{a=1 b={c=2 d=3} e=4}"),
            ("[{ a: 1 }, { b: 2 }]", "[{ a: 3 }]", "[{a=3} {b=2}]"),
            ("[{ a: 1 }]", "[{ b: 3 }, { c: 4 }]", "[{a=1 b=3} {c=4}]"),
            ("{ a: [1] }", "{ a: { b: 2 } }", "{a={b=2}}"),
            ("{ a: { b: 2 } }", "{ a: [1] }", "{a=[1]}"),
            ("{ a: 1 }", "{ a: null }", "{a=null}"),
        ] {
            let mut node = read(base).expect(base);
            node.overlay(&read(changes).expect(changes));
            assert_eq!(shown(&node), expected, "{base} {changes}");
        }
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_position() {
        for (text, expected) in [
            ("a: [1, 2\nb: 3\n", "2:"),
            ("a: 1\na: 2\n", "2:1: duplicate key `a`"),
            ("a: 1\n---\nb: 2\n", "3:1: a scenario file must have exactly one document"),
            ("? [a]\n: 1\n", "1:3: a key must be text"),
            ("a: *b\n", "1:4: not YAML: "),
            ("a:\n\tb: 1\n", "2:"),
        ] {
            let found = problem(text);
            assert!(found.starts_with(expected), "{text:?}: {found}");
        }
        assert!(problem(&"[".repeat(100)).contains("deep"));
        assert!(problem(&" ".repeat(TEXT_SIZE_MAX + 1)).contains("must be at most"));
    }
}
