//! A document as a tape: its values in document order, each with its position and the end of its subtree.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::chunks::ChunkedValues;
use crate::error::{DocumentError, DocumentErrorKind};
use crate::fold::{CaseFold, folded};
use crate::machine::{Container, FallibleSink, GrammarScalar, Sink};
use crate::selector::Selection;
use crate::text::{may_unescape_to, unescape};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Object,
    Array,
    String,
    /// A string with escape sequences.
    EscapedString,
    Number,
    Boolean,
    Null,
}

/// The position of a value in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildKey {
    Root,
    /// The element with this index.
    Element(u32),
    /// The member whose name's token begins there; `escaped` if it contains a backslash.
    Member {
        start: u32,
        end: u32,
        escaped: bool,
    },
}

/// A value; 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapeNode {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The number of the first node after the subtree, which is the next sibling if there is one.
    pub(crate) next: u32,
    pub(crate) parent: u32,
    /// The number of elements or members.
    pub(crate) children: u32,
    name_start: u32,
    /// The name's end, or the element's index.
    name_end_or_index: u32,
    pub(crate) kind: NodeKind,
    child_key: ChildKeyKind,
}

#[derive(Clone, Copy, Debug)]
enum ChildKeyKind {
    Root,
    Element,
    Member,
    EscapedMember,
}

const _: () = assert!(size_of::<TapeNode>() == 32, "the memory stated in Limits::tree_nodes_max");

/// Memory of a hash in a set: its bytes, a byte of control, and the set's free room.
const HASH_SIZE: usize = 11;

impl TapeNode {
    pub(crate) fn child_key(&self) -> ChildKey {
        let (start, end) = (self.name_start, self.name_end_or_index);
        match self.child_key {
            ChildKeyKind::Root => ChildKey::Root,
            ChildKeyKind::Element => ChildKey::Element(self.name_end_or_index),
            ChildKeyKind::Member => ChildKey::Member { start, end, escaped: false },
            ChildKeyKind::EscapedMember => ChildKey::Member { start, end, escaped: true },
        }
    }

    /// The kind of scalar, unless it is a container.
    pub(crate) fn scalar(&self) -> Option<GrammarScalar> {
        match self.kind {
            NodeKind::Object | NodeKind::Array => None,
            NodeKind::String => Some(GrammarScalar::String { escaped: false }),
            NodeKind::EscapedString => Some(GrammarScalar::String { escaped: true }),
            NodeKind::Number => Some(GrammarScalar::Number),
            NodeKind::Boolean => Some(GrammarScalar::Boolean),
            NodeKind::Null => Some(GrammarScalar::Null),
        }
    }

    /// Its bytes in the document.
    pub(crate) fn token<'d>(&self, document: &'d [u8]) -> &'d [u8] {
        &document[self.start as usize..self.end as usize]
    }
}

/// All values of a document; node 0 is the root.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    nodes: ChunkedValues<TapeNode>,
    nodes_max: usize,
    other_case: CaseFold,
    /// Open containers.
    open: Vec<u32>,
    /// The token of the last name.
    name: Option<(u32, u32, bool)>,
    /// The names of the open containers, if none may occur twice in an object.
    names: Option<SeenNames>,
    fault: Option<DocumentError>,
}

/// The names that have occurred in each open container, by their hash. A collision, which cannot be provoked because the hash is keyed,
/// refuses a document in vain.
#[derive(Debug, Default)]
struct SeenNames {
    hasher: RandomState,
    open: Vec<HashSet<u64>>,
    /// Whether names that differ only in case are the same.
    is_case_ignored: bool,
    scratch: String,
}

impl SeenNames {
    /// Records a name of the innermost container; returns whether it is new there.
    fn insert(&mut self, token: &[u8]) -> bool {
        let hash = match unescape(token, &mut self.scratch) {
            Ok(name) => {
                // Parsers in C end a name at a NUL.
                let name = name.split('\0').next().unwrap_or(name);
                if self.is_case_ignored { self.hasher.hash_one(folded(name)) } else { self.hasher.hash_one(name) }
            }
            // A name that is not Unicode.
            Err(_) => self.hasher.hash_one(token),
        };
        self.open.last_mut().is_none_or(|names| names.insert(hash))
    }
}

impl Tape {
    pub(crate) fn new(nodes_max: usize, selection: &Selection) -> Self {
        let other_case = selection.other_case();
        let is_case_ignored = other_case == CaseFold::Same;
        let names = selection.is_unambiguous().then(|| SeenNames { is_case_ignored, ..SeenNames::default() });
        Tape { nodes_max, other_case, names, ..Tape::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Removes all values, for another document.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.open.clear();
        (self.name, self.fault) = (None, None);
        if let Some(names) = &mut self.names {
            names.open.clear();
        }
    }

    /// Its memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let hashes = self.names.iter().flat_map(|names| &names.open).map(HashSet::capacity).sum::<usize>();
        self.nodes.memory() + hashes * HASH_SIZE
    }

    pub(crate) fn node(&self, number: u32) -> &TapeNode {
        &self.nodes[number as usize]
    }

    /// The numbers of a value's children, in document order.
    pub(crate) fn children(&self, parent: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.node(parent).next;
        let mut child = parent + 1;
        std::iter::from_fn(move || {
            let found = (child < end).then_some(child)?;
            child = self.node(child).next;
            Some(found)
        })
    }

    /// Whether a member's unescaped name is `name`. A name that is not Unicode equals none.
    ///
    /// # Errors
    /// The name is refused because of its case.
    pub(crate) fn has_name(&self, document: &[u8], node: &TapeNode, name: &str) -> Result<bool, DocumentError> {
        let ChildKey::Member { start, end, escaped } = node.child_key() else {
            return Ok(false);
        };
        let token = &document[start as usize..end as usize];
        let is_exact = match escaped {
            false => &token[1..token.len() - 1] == name.as_bytes(),
            true => {
                may_unescape_to(token, name.len()) && unescape(token, &mut String::new()).is_ok_and(|text| text == name)
            }
        };
        if is_exact || self.other_case == CaseFold::Other || !is_alike(token, name) {
            return Ok(is_exact);
        }
        match self.other_case {
            CaseFold::Refuse => Err(DocumentError::new(DocumentErrorKind::AmbiguousName, start as usize)),
            CaseFold::Same | CaseFold::Other => Ok(true),
        }
    }

    fn push(&mut self, start: usize, end: usize, kind: NodeKind) {
        let number = self.nodes.len() as u32;
        let parent = self.open.last().copied();
        let name = self.name.take();
        let (child_key, name_start, name_end_or_index) = match (name, parent) {
            (Some((start, end, false)), _) => (ChildKeyKind::Member, start, end),
            (Some((start, end, true)), _) => (ChildKeyKind::EscapedMember, start, end),
            (None, Some(parent)) => (ChildKeyKind::Element, 0, self.node(parent).children),
            (None, None) => (ChildKeyKind::Root, 0, 0),
        };
        if let Some(parent) = parent {
            self.nodes[parent as usize].children += 1;
        }
        // Sizes were checked against DOCUMENT_SIZE_CEILING before the walk, so offsets fit.
        self.nodes.push(TapeNode {
            start: start as u32,
            end: end as u32,
            next: number + 1,
            parent: parent.unwrap_or(0),
            children: 0,
            name_start,
            name_end_or_index,
            kind,
            child_key,
        });
        if self.nodes.len() > self.nodes_max {
            let kind = DocumentErrorKind::TooManyNodes(self.nodes_max);
            self.fault.get_or_insert(DocumentError::new(kind, start));
        }
    }
}

/// Whether the text of a name's token equals `name` when case is ignored, up to its first NUL.
fn is_alike(token: &[u8], name: &str) -> bool {
    if !may_unescape_to(token, name.len().saturating_mul(4)) {
        return false;
    }
    let mut text = String::new();
    let text = unescape(token, &mut text).unwrap_or_default();
    folded(text.split('\0').next().unwrap_or_default()) == folded(name)
}

impl Sink for Tape {
    #[inline(always)]
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        self.name = Some((start as u32, end as u32, escaped));
        if let Some(names) = &mut self.names
            && !names.insert(&document[start..end])
        {
            self.fault.get_or_insert(DocumentError::new(DocumentErrorKind::DuplicateName, start));
        }
    }

    #[inline(always)]
    fn scalar(&mut self, _document: &[u8], start: usize, end: usize, scalar: GrammarScalar) {
        let kind = match scalar {
            GrammarScalar::String { escaped: false } => NodeKind::String,
            GrammarScalar::String { escaped: true } => NodeKind::EscapedString,
            GrammarScalar::Number => NodeKind::Number,
            GrammarScalar::Boolean => NodeKind::Boolean,
            GrammarScalar::Null => NodeKind::Null,
        };
        self.push(start, end, kind);
    }

    fn open(&mut self, start: usize, container: Container) {
        let number = self.nodes.len() as u32;
        let kind = if container == Container::Object { NodeKind::Object } else { NodeKind::Array };
        self.push(start, start, kind);
        self.open.push(number);
        if let Some(names) = &mut self.names {
            names.open.push(HashSet::new());
        }
    }

    fn close(&mut self, end: usize) {
        let next = self.nodes.len() as u32;
        if let Some(names) = &mut self.names {
            names.open.pop();
        }
        if let Some(number) = self.open.pop() {
            let node = &mut self.nodes[number as usize];
            node.end = end as u32;
            node.next = next;
        }
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.fault.is_some()
    }
}

impl FallibleSink for Tape {
    fn fault(&self) -> Option<DocumentError> {
        self.fault
    }
}
