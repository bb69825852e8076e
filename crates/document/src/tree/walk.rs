//! The walk along the node list of a query in a filter, no further than its use requires.

use super::steps::StepBudget;
use super::tape::{ChildKey, Tape, TapeNode};
use super::value::ValueSource;
use crate::error::DocumentError;
use crate::selector::ast::{Reach, Selector, index_selects};
use crate::selector::code::QueryUse;

/// The result of a node list: its length, counted no further than needed, and one of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeListResult {
    pub(super) count: u64,
    pub(super) node: Option<u32>,
}

/// A walk. Nodes to visit are on a stack that walks share, together with the number of the segment that applies to them.
#[derive(Debug)]
pub(super) struct NodeWalk {
    query: u32,
    wanted: QueryUse,
    start: u32,
    /// The bottom of its own nodes on the stack.
    base: u32,
    /// The current segment, the next value to visit, the end of the values, and the next of its selectors.
    segment: u32,
    child: u32,
    end: u32,
    selector: u32,
    /// Whether a filter was evaluated for the child and has its verdict.
    has_asked: bool,
    answer: NodeListResult,
}

/// The progress of a walk.
pub(super) enum Reached {
    End,
    Stop,
    /// A filter must be evaluated for a node first.
    Asks {
        filter: u32,
        node: u32,
    },
}

impl NodeWalk {
    pub(super) fn new(query: u32, wanted: QueryUse, start: u32, pending: &mut Vec<(u32, u32)>) -> Self {
        let base = pending.len() as u32;
        pending.push((start, 0));
        NodeWalk {
            query,
            wanted,
            start,
            base,
            segment: 0,
            child: 0,
            end: 0,
            selector: 0,
            has_asked: false,
            answer: NodeListResult::default(),
        }
    }

    pub(super) fn query(&self) -> u32 {
        self.query
    }

    pub(super) fn wanted(&self) -> QueryUse {
        self.wanted
    }

    pub(super) fn answer(&self) -> NodeListResult {
        self.answer
    }

    /// Continues; `verdict` is that of the filter it requested last.
    pub(super) fn advance(
        &mut self,
        source: ValueSource<'_>,
        steps: &mut StepBudget,
        pending: &mut Vec<(u32, u32)>,
        verdict: bool,
    ) -> Result<Reached, DocumentError> {
        let segments = &source.code.query(self.query).1.segments;
        if segments.is_empty() {
            pending.truncate(self.base as usize);
            self.answer = NodeListResult { count: 1, node: Some(self.start) };
            return Ok(Reached::End);
        }
        if std::mem::take(&mut self.has_asked) && verdict {
            self.found(segments.len(), pending);
        }
        loop {
            if self.is_enough() {
                pending.truncate(self.base as usize);
                return Ok(Reached::End);
            }
            if steps.is_over() {
                return Ok(Reached::Stop);
            }
            if self.child >= self.end {
                if pending.len() <= self.base as usize {
                    return Ok(Reached::End);
                }
                let (parent, segment) = pending.pop().expect("counted above");
                (self.segment, self.selector) = (segment, 0);
                (self.child, self.end) = (parent + 1, source.tape.node(parent).next);
                steps.take(1)?;
                continue;
            }
            let segment = &segments[self.segment as usize];
            let Some(selector) = segment.selectors.get(self.selector as usize) else {
                self.selector = 0;
                self.child = match segment.reach {
                    Reach::Children => source.tape.node(self.child).next,
                    Reach::Descendants => self.child + 1,
                };
                continue;
            };
            steps.take(1)?;
            self.selector += 1;
            if let Selector::Filter(filter) = selector {
                self.has_asked = true;
                return Ok(Reached::Asks { filter: *filter, node: self.child });
            }
            if selects_by_position(source.tape, source.document, selector, source.tape.node(self.child))? {
                self.found(segments.len(), pending);
            }
        }
    }

    /// Handles a selected child: it is a result, or the next segment applies to it.
    fn found(&mut self, segments: usize, pending: &mut Vec<(u32, u32)>) {
        let is_singular = self.wanted == QueryUse::Singular;
        if self.segment as usize + 1 == segments {
            let count = if is_singular { 1 } else { self.answer.count + 1 };
            self.answer = NodeListResult { count, node: Some(self.child) };
            return;
        }
        if is_singular {
            pending.truncate(self.base as usize);
        }
        pending.push((self.child, self.segment + 1));
    }

    fn is_enough(&self) -> bool {
        match self.wanted {
            QueryUse::Exists => self.answer.count > 0,
            QueryUse::Single => self.answer.count > 1,
            QueryUse::Count | QueryUse::Singular => false,
        }
    }
}

/// Whether a selector without a filter selects a value, by its position in its parent.
///
/// # Errors
/// The name is refused because of its case.
pub(super) fn selects_by_position(
    tape: &Tape,
    document: &[u8],
    selector: &Selector,
    node: &TapeNode,
) -> Result<bool, DocumentError> {
    let length = || i64::from(tape.node(node.parent).children);
    Ok(match (selector, node.child_key()) {
        (Selector::Wildcard, _) => true,
        (Selector::Name(name), ChildKey::Member { .. }) => tape.has_name(document, node, name)?,
        (Selector::Index(selector), ChildKey::Element(index)) => index_selects(*selector, i64::from(index), length()),
        (Selector::Slice(slice), ChildKey::Element(index)) => slice.selects(i64::from(index), length()),
        _ => false,
    })
}
