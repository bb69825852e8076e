//! The patterns of paths as a tree of segments, followed along a path with all branches at once.

use std::collections::HashMap;

use hyper::Method;
use memchr::memmem;

use super::FirstOf;
use crate::policy::path::{PathError, Steps};
use crate::policy::route::Segment;

/// The steps of a comparison of a segment with one pattern, or of a look at one node.
pub(super) const COMPARISON_STEPS: usize = 16;

/// A place in `Trie::nodes`.
type NodeId = usize;

/// The root.
const ROOT: NodeId = 0;

pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Literal segments, so that each segment of a path is hashed once, however many nodes are looked at.
    literals: HashMap<Box<[u8]>, usize>,
    children: HashMap<(NodeId, usize), NodeId>,
}

#[derive(Default)]
struct Node {
    /// Behind `*`.
    star: Option<NodeId>,
    /// Behind segments with `*` and other characters.
    globs: Option<Box<Globs>>,
    /// Behind `**`.
    deep: Option<NodeId>,
    /// Whether it is behind `**`, so that it takes any further segments too.
    is_deep: bool,
    /// The entries whose pattern ends here.
    end: FirstOf,
    /// The first entry of this node and those below it.
    first: usize,
}

/// Segments with `*` and other characters: by prefix, then by suffix.
#[derive(Default)]
struct Globs {
    by_prefix: HashMap<Box<[u8]>, Suffixes>,
    /// The lengths of the prefixes, ascending.
    lengths: Vec<usize>,
}

#[derive(Default)]
struct Suffixes {
    by_suffix: HashMap<Box<[u8]>, Vec<Middle>>,
    lengths: Vec<usize>,
}

/// What a segment has between prefix and suffix, with anything around and between the parts.
struct Middle {
    parts: Vec<Box<[u8]>>,
    node: NodeId,
}

impl Default for Trie {
    fn default() -> Self {
        Trie { nodes: vec![Node::new(usize::MAX)], literals: HashMap::new(), children: HashMap::new() }
    }
}

impl Node {
    fn new(first: usize) -> Self {
        Node { first, ..Node::default() }
    }
}

impl Trie {
    /// Adds a pattern of an entry; those of earlier entries have been added. `**` behind `**` changes nothing.
    pub(super) fn add(&mut self, pattern: &[Segment], methods: &[Method], entry: usize) {
        let mut at = ROOT;
        self.nodes[at].first = self.nodes[at].first.min(entry);
        for segment in pattern {
            at = self.child(at, segment, entry);
        }
        self.nodes[at].end.add(methods, entry);
    }

    fn child(&mut self, at: NodeId, segment: &Segment, entry: usize) -> NodeId {
        let next = self.nodes.len();
        let node = &mut self.nodes[at];
        if node.is_deep && *segment == Segment::Any {
            return at;
        }
        let child = match segment {
            Segment::Any => *node.deep.get_or_insert(next),
            Segment::Like(text) if **text == *b"*" => *node.star.get_or_insert(next),
            Segment::Like(text) if text.contains(&b'*') => node.globs.get_or_insert_default().child(text, next),
            Segment::Like(text) => {
                let literals = self.literals.len();
                let literal = *self.literals.entry(text.clone()).or_insert(literals);
                *self.children.entry((at, literal)).or_insert(next)
            }
        };
        if child == next {
            self.nodes.push(Node { is_deep: *segment == Segment::Any, ..Node::new(entry) });
        }
        child
    }

    /// The first entry before `found` whose pattern matches the segments, or else `found`; `None` among them is any number of any segments.
    /// No method means any.
    pub(super) fn first<'p>(
        &self,
        segments: impl Iterator<Item = Option<&'p [u8]>>,
        method: Option<&str>,
        found: Option<usize>,
        steps: &mut Steps,
    ) -> Result<Option<usize>, PathError> {
        let mut walk = Walk { trie: self, method, found, next: Vec::new() };
        walk.enter(ROOT);
        let mut nodes = Vec::new();
        for segment in segments {
            std::mem::swap(&mut nodes, &mut walk.next);
            walk.next.clear();
            if nodes.is_empty() {
                break;
            }
            // A node that is reached in several ways is looked at once.
            nodes.sort_unstable();
            nodes.dedup();
            let literal = segment.and_then(|segment| self.literals.get(segment)).copied();
            for &node in &nodes {
                walk.advance(node, segment, literal, steps)?;
            }
        }
        for &node in &walk.next {
            walk.found = super::first(walk.found, self.nodes[node].end.get(method));
        }
        Ok(walk.found)
    }
}

/// A walk along a path.
struct Walk<'t> {
    trie: &'t Trie,
    method: Option<&'t str>,
    found: Option<usize>,
    /// The nodes that the segments so far lead to.
    next: Vec<NodeId>,
}

impl Walk<'_> {
    fn enter(&mut self, id: NodeId) {
        let node = &self.trie.nodes[id];
        if node.is_deep {
            // It takes the rest of the path, whatever that is.
            self.found = super::first(self.found, node.end.get(self.method));
        }
        // Below it are only later entries than the one found.
        if self.found.is_none_or(|found| node.first < found) {
            self.next.push(id);
            if let Some(deep) = node.deep {
                self.enter(deep);
            }
        }
    }

    fn advance(
        &mut self,
        id: NodeId,
        segment: Option<&[u8]>,
        literal: Option<usize>,
        steps: &mut Steps,
    ) -> Result<(), PathError> {
        steps.spend(COMPARISON_STEPS)?;
        let node = &self.trie.nodes[id];
        if self.found.is_some_and(|found| node.first >= found) {
            return Ok(());
        }
        if node.is_deep {
            self.enter(id);
        }
        let Some(segment) = segment else { return Ok(()) };
        if let Some(&child) = literal.and_then(|literal| self.trie.children.get(&(id, literal))) {
            self.enter(child);
        }
        if let Some(child) = node.star {
            self.enter(child);
        }
        match &node.globs {
            Some(globs) => globs.each(segment, steps, |child| self.enter(child)),
            None => Ok(()),
        }
    }
}

impl Globs {
    /// The node of a segment, which is `next` if it is a new one.
    fn child(&mut self, text: &[u8], next: NodeId) -> NodeId {
        let mut parts: Vec<&[u8]> = text.split(|&byte| byte == b'*').collect();
        let suffix = parts.pop().unwrap_or_default();
        let prefix = parts.remove(0);
        let parts: Vec<Box<[u8]>> = parts.into_iter().filter(|part| !part.is_empty()).map(Box::from).collect();
        add_length(&mut self.lengths, prefix.len());
        let suffixes = self.by_prefix.entry(prefix.into()).or_default();
        add_length(&mut suffixes.lengths, suffix.len());
        let middles = suffixes.by_suffix.entry(suffix.into()).or_default();
        if let Some(known) = middles.iter().find(|middle| middle.parts == parts) {
            return known.node;
        }
        middles.push(Middle { parts, node: next });
        next
    }

    /// Calls `found` with the node of each that the segment matches.
    fn each(&self, segment: &[u8], steps: &mut Steps, mut found: impl FnMut(NodeId)) -> Result<(), PathError> {
        for &length in self.lengths.iter().take_while(|&&length| length <= segment.len()) {
            steps.spend(COMPARISON_STEPS + length)?;
            let (prefix, rest) = segment.split_at(length);
            if let Some(suffixes) = self.by_prefix.get(prefix) {
                suffixes.each(rest, steps, &mut found)?;
            }
        }
        Ok(())
    }
}

impl Suffixes {
    fn each(&self, text: &[u8], steps: &mut Steps, found: &mut impl FnMut(NodeId)) -> Result<(), PathError> {
        for &length in self.lengths.iter().take_while(|&&length| length <= text.len()) {
            steps.spend(COMPARISON_STEPS + length)?;
            let (between, suffix) = text.split_at(text.len() - length);
            for middle in self.by_suffix.get(suffix).into_iter().flatten() {
                if !middle.parts.is_empty() {
                    steps.spend(COMPARISON_STEPS + between.len())?;
                }
                if middle.matches(between) {
                    found(middle.node);
                }
            }
        }
        Ok(())
    }
}

impl Middle {
    /// Each part is taken where it occurs first, which leaves the most for the others.
    fn matches(&self, mut text: &[u8]) -> bool {
        self.parts.iter().all(|part| {
            let found = memmem::find(text, part);
            text = found.map_or(text, |at| &text[at + part.len()..]);
            found.is_some()
        })
    }
}

fn add_length(lengths: &mut Vec<usize>, length: usize) {
    if let Err(place) = lengths.binary_search(&length) {
        lengths.insert(place, length);
    }
}
