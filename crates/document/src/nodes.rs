//! The nodes that a selection selects, including containers, with their normalized paths (RFC 9535, section 2.7).
//!
//! For tests, for trying out selectors and for displaying their result; documents are rewritten through the walker. A node that is selected
//! several times is returned once, in document order: a rewrite needs that, whereas RFC 9535's result is a list that may repeat nodes and
//! order them differently.

use std::sync::Arc;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DOCUMENT_SIZE_CEILING, DocumentLimits};
use crate::machine::{Container, FallibleSink, GrammarScalar, Reach, Sink};
use crate::path::{push_index, push_name_whole};
use crate::selector::Selection;
use crate::selector::automaton::Detail;
use crate::tracker::{Lengths, Tracker};
use crate::tree::{ChildKey, Evaluated, Evaluation, SelectedNodes, Tape};
use crate::walker::Pass;

/// How a selection is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// As the walker does: streaming if the selectors permit it.
    Automatic,
    /// On the tree, for any selectors. It must yield the same nodes.
    Tree,
}

/// A selected node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedNode {
    /// Offset of the value's first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
    /// Its normalized path. A lone surrogate in a member name, which no path can contain, is written as U+FFFD.
    pub path: String,
}

/// All selected nodes of a document, in document order, each once.
///
/// # Errors
/// As [`crate::Walk::next_batch`] and [`crate::Walk::new`].
pub fn select(
    document: &[u8],
    selection: &Selection,
    limits: &DocumentLimits,
    strategy: Strategy,
) -> Result<Vec<SelectedNode>, DocumentError> {
    let size_max = limits.document_size_max.min(DOCUMENT_SIZE_CEILING);
    if document.len() > size_max {
        return Err(DocumentError::new(DocumentErrorKind::TooLarge(size_max), document.len()));
    }
    let program = match (selection.program(), strategy) {
        (Some(program), Strategy::Automatic) => Arc::clone(program),
        _ => return select_on_tree(document, selection, limits),
    };
    let lengths = match program.needs_lengths() {
        true => Some(read(document, limits, Lengths::default())?),
        false => None,
    };
    let tracker = Tracker::new(program, Detail::Nodes, lengths);
    let collector = Collector { tracker, path: "$".to_owned(), open: Vec::new(), found: Vec::new(), refused: None };
    Ok(read(document, limits, collector)?.found)
}

fn read<S: FallibleSink>(document: &[u8], limits: &DocumentLimits, mut sink: S) -> Result<S, DocumentError> {
    let mut pass = Pass::checking(limits);
    while pass.run(document, usize::MAX, &mut sink)? == Reach::Stopped {}
    Ok(sink)
}

fn select_on_tree(
    document: &[u8],
    selection: &Selection,
    limits: &DocumentLimits,
) -> Result<Vec<SelectedNode>, DocumentError> {
    let mut evaluation = Box::new(Evaluation::new(selection, limits));
    *evaluation.tape_mut() = read(document, limits, Tape::new(limits.tree_nodes_max, selection))?;
    evaluation.begin();
    while evaluation.run(document, usize::MAX)? == Evaluated::More {}
    let mut nodes = SelectedNodes::new(evaluation);
    let mut selected = Vec::new();
    while let Some(number) = nodes.next_selected() {
        let node = nodes.tape().node(number);
        let path = path_on_tape(document, nodes.tape(), number);
        selected.push(SelectedNode { start: node.start as usize, end: node.end as usize, path });
    }
    Ok(selected)
}

fn path_on_tape(document: &[u8], tape: &Tape, number: u32) -> String {
    let mut keys = Vec::new();
    let mut node = tape.node(number);
    while node.child_key() != ChildKey::Root {
        keys.push(node.child_key());
        node = tape.node(node.parent);
    }
    let mut path = "$".to_owned();
    for child_key in keys.into_iter().rev() {
        match child_key {
            ChildKey::Root => {}
            ChildKey::Element(index) => push_index(&mut path, index),
            ChildKey::Member { start, end, .. } => push_name_whole(&mut path, &document[start as usize..end as usize]),
        }
    }
    path
}

/// Collects what the automaton selects.
struct Collector {
    tracker: Tracker,
    /// The path of the current value.
    path: String,
    open: Vec<OpenContainer>,
    found: Vec<SelectedNode>,
    /// The refused name.
    refused: Option<DocumentError>,
}

/// An open container: the length of its path, its elements so far, and its index among the found nodes if it is selected.
struct OpenContainer {
    path_length: usize,
    container: Container,
    elements: u32,
    found: Option<usize>,
}

impl Collector {
    /// Records a value that begins, if it is selected, and returns its index among the found nodes.
    fn begin(&mut self, start: usize, end: usize, container: Option<Container>) -> Option<usize> {
        if let Some(parent) = self.open.last_mut().filter(|parent| parent.container == Container::Array) {
            self.path.truncate(parent.path_length);
            push_index(&mut self.path, parent.elements);
            parent.elements += 1;
        }
        let set = self.tracker.value();
        let is_selected = set.is_selected();
        if is_selected {
            self.found.push(SelectedNode { start, end, path: self.path.clone() });
        }
        if let Some(container) = container {
            self.tracker.open(set, container);
        }
        is_selected.then(|| self.found.len() - 1)
    }
}

impl FallibleSink for Collector {
    fn fault(&self) -> Option<DocumentError> {
        self.refused
    }
}

impl Sink for Collector {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        let token = &document[start..end];
        if let Err(kind) = self.tracker.name(token, escaped) {
            self.refused.get_or_insert(DocumentError::new(kind, start));
        }
        if let Some(parent) = self.open.last() {
            self.path.truncate(parent.path_length);
            push_name_whole(&mut self.path, token);
        }
    }

    fn scalar(&mut self, _document: &[u8], start: usize, end: usize, _scalar: GrammarScalar) {
        self.begin(start, end, None);
    }

    fn open(&mut self, start: usize, container: Container) {
        let found = self.begin(start, start, Some(container));
        self.open.push(OpenContainer { path_length: self.path.len(), container, elements: 0, found });
    }

    fn close(&mut self, end: usize) {
        self.tracker.close();
        if let Some(OpenContainer { found: Some(found), .. }) = self.open.pop() {
            self.found[found].end = end;
        }
    }

    fn is_full(&self) -> bool {
        self.refused.is_some()
    }
}
