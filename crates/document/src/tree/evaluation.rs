//! Evaluation of whole selections on a tape, in steps that can be interrupted between any two values.
//!
//! It processes sets of nodes segment by segment, so a node reached twice counts once and no segment visits a value more than once:
//! time is the number of values times the number of segments, plus the predicates of filters.

use super::bits::Bits;
use super::predicate::Predicates;
use super::tape::{NodeKind, Tape};
use super::value::ValueSource;
use super::walk::selects_by_position;
use crate::error::DocumentError;
use crate::limits::DocumentLimits;
use crate::selector::Selection;
use crate::selector::ast::{PathSegment, Reach, Selector};

/// Values counted in one step: some microseconds.
const COUNTED_IN_STEP: usize = 4096;

/// Whether an evaluation is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluated {
    More,
    Done,
}

/// The evaluation of a selection on one document.
#[derive(Debug)]
pub(crate) struct Evaluation {
    selection: Selection,
    tape: Tape,
    predicates: Predicates,
    query: usize,
    segment: usize,
    /// The nodes that the segment is applied to, and those that it selects.
    current: Bits,
    selected: Bits,
    /// The nodes that the queries so far have selected.
    result: Bits,
    /// The number of scalars of each, including those below selected containers.
    matched: Vec<u64>,
    cursor: VisitCursor,
    /// The value that is being evaluated.
    pending: Option<PendingValue>,
}

/// A value, and the progress of evaluating whether a segment selects it.
#[derive(Clone, Copy, Debug)]
struct PendingValue {
    child: u32,
    /// The next of the segment's selectors.
    selector: usize,
    /// Whether that is a filter whose evaluation has begun.
    is_begun: bool,
}

/// A position among the values that a segment visits.
#[derive(Debug, Default)]
struct VisitCursor {
    /// The next node of the current set.
    parent: u32,
    /// The next value to visit, and the end of those below the parent.
    child: u32,
    end: u32,
}

/// A step of the cursor.
enum CursorStep {
    Parent,
    Child(u32),
}

impl Evaluation {
    /// For a document that is to be read into [`Evaluation::tape_mut`].
    pub(crate) fn new(selection: &Selection, limits: &DocumentLimits) -> Self {
        Evaluation {
            selection: selection.clone(),
            predicates: Predicates::new(selection.code(), limits, selection.is_unambiguous()),
            query: 0,
            segment: 0,
            current: Bits::default(),
            selected: Bits::default(),
            result: Bits::default(),
            matched: Vec::new(),
            cursor: VisitCursor::default(),
            pending: None,
            tape: Tape::new(limits.tree_nodes_max, selection),
        }
    }

    /// Starts again with another document, within these limits.
    pub(crate) fn restart(&mut self, limits: &DocumentLimits) {
        self.predicates.restart(limits);
        self.matched.clear();
        self.tape.clear();
    }

    /// The tape that the document is read into.
    pub(crate) fn tape_mut(&mut self) -> &mut Tape {
        &mut self.tape
    }

    /// Starts before the first query. The document has been read.
    pub(crate) fn begin(&mut self) {
        let length = self.tape.len();
        for nodes in [&mut self.current, &mut self.selected, &mut self.result] {
            nodes.begin(length);
        }
        self.current.insert(0);
        (self.query, self.segment, self.cursor, self.pending) = (0, 0, VisitCursor::default(), None);
    }

    /// Continues for about `steps_max` values.
    pub(crate) fn run(&mut self, document: &[u8], steps_max: usize) -> Result<Evaluated, DocumentError> {
        self.predicates.steps.begin_run(steps_max);
        let selection = self.selection.clone();
        while let Some(query) = selection.queries().get(self.query) {
            let Some(segment) = query.segments.get(self.segment) else {
                if self.count_scalars() == Evaluated::More {
                    return Ok(Evaluated::More);
                }
                self.finish_query();
                continue;
            };
            if self.apply(document, segment)? == Evaluated::More {
                return Ok(Evaluated::More);
            }
            self.finish_segment();
        }
        Ok(Evaluated::Done)
    }

    /// Continues with a segment.
    fn apply(&mut self, document: &[u8], segment: &PathSegment) -> Result<Evaluated, DocumentError> {
        loop {
            if let Some(pending) = self.pending.take()
                && self.evaluate_value(document, segment, pending)? == Evaluated::More
            {
                return Ok(Evaluated::More);
            }
            if self.predicates.steps.is_over() {
                return Ok(Evaluated::More);
            }
            match self.next_visit(segment.reach) {
                None => return Ok(Evaluated::Done),
                Some(CursorStep::Parent) => self.predicates.steps.take(1)?,
                Some(CursorStep::Child(child)) => {
                    self.pending = Some(PendingValue { child, selector: 0, is_begun: false })
                }
            }
        }
    }

    /// Continues evaluating whether a segment selects a value, and records it if so.
    fn evaluate_value(
        &mut self,
        document: &[u8],
        segment: &PathSegment,
        mut pending: PendingValue,
    ) -> Result<Evaluated, DocumentError> {
        while let Some(selector) = segment.selectors.get(pending.selector) {
            let is_selected = match selector {
                Selector::Filter(filter) => {
                    let source = ValueSource { tape: &self.tape, document, code: self.selection.code() };
                    if !std::mem::replace(&mut pending.is_begun, true) {
                        self.predicates.steps.take(1)?;
                        self.predicates.begin(source.code, *filter, pending.child);
                    }
                    let Some(verdict) = self.predicates.resume(source)? else {
                        self.pending = Some(pending);
                        return Ok(Evaluated::More);
                    };
                    verdict
                }
                selector => {
                    self.predicates.steps.take(1)?;
                    selects_by_position(&self.tape, document, selector, self.tape.node(pending.child))?
                }
            };
            if is_selected {
                self.selected.insert(pending.child);
                break;
            }
            pending = PendingValue { selector: pending.selector + 1, is_begun: false, ..pending };
        }
        Ok(Evaluated::Done)
    }

    /// The steps of filters so far.
    pub(crate) fn steps(&self) -> u64 {
        self.predicates.steps.taken()
    }

    /// Its memory in bytes, excluding compiled patterns.
    pub(crate) fn memory(&self) -> usize {
        self.tape.memory() + self.current.memory() + self.selected.memory() + self.result.memory()
    }

    /// The number of selected scalars by query, at the end.
    pub(crate) fn matched(&self) -> &[u64] {
        &self.matched
    }

    /// Continues counting the scalars that the query selects. This uses no steps of filters, which are for visits.
    fn count_scalars(&mut self) -> Evaluated {
        if self.matched.len() == self.query {
            self.matched.push(0);
        }
        let cursor = &mut self.cursor;
        for _ in 0..COUNTED_IN_STEP {
            if cursor.child >= cursor.end {
                let Some(found) = self.current.next(cursor.parent.max(cursor.end)) else { return Evaluated::Done };
                cursor.parent = found + 1;
                (cursor.child, cursor.end) = (found, self.tape.node(found).next);
            }
            self.matched[self.query] += u64::from(self.tape.node(cursor.child).scalar().is_some());
            cursor.child += 1;
        }
        Evaluated::More
    }

    /// Advances to the next value that a segment of this reach visits, or to the next parent.
    fn next_visit(&mut self, reach: Reach) -> Option<CursorStep> {
        let cursor = &mut self.cursor;
        if cursor.child < cursor.end {
            let child = cursor.child;
            cursor.child = match reach {
                Reach::Children => self.tape.node(child).next,
                Reach::Descendants => child + 1,
            };
            return Some(CursorStep::Child(child));
        }
        let parent = self.current.next(cursor.parent)?;
        cursor.parent = parent + 1;
        let parent_end = self.tape.node(parent).next;
        (cursor.child, cursor.end) = match reach {
            Reach::Children => (parent + 1, parent_end),
            // If an ancestor's descendants were visited, everything below this parent was: `end` is after it.
            Reach::Descendants => (cursor.end.max(parent + 1), cursor.end.max(parent_end)),
        };
        Some(CursorStep::Parent)
    }

    fn finish_segment(&mut self) {
        self.segment += 1;
        self.cursor = VisitCursor::default();
        std::mem::swap(&mut self.current, &mut self.selected);
        self.selected.clear();
    }

    /// Adds the last segment's nodes to the result and begins the next query at the root.
    fn finish_query(&mut self) {
        self.result.add_all(&self.current);
        self.query += 1;
        self.segment = 0;
        self.cursor = VisitCursor::default();
        self.current.clear();
        self.current.insert(0);
    }
}

/// The selected nodes of a document, in document order.
#[derive(Debug)]
pub(crate) struct SelectedNodes {
    evaluation: Box<Evaluation>,
    next: u32,
    /// Everything before this node is below a selected one.
    settled: u32,
}

impl SelectedNodes {
    /// Those of an evaluation that is complete.
    pub(crate) fn new(evaluation: Box<Evaluation>) -> Self {
        SelectedNodes { evaluation, next: 0, settled: 0 }
    }

    /// The evaluation, to be used again.
    pub(crate) fn into_evaluation(self) -> Box<Evaluation> {
        self.evaluation
    }

    /// The next node that is selected or below a selected one.
    pub(crate) fn next_below(&mut self) -> Option<u32> {
        if self.next >= self.settled {
            self.next = self.evaluation.result.next(self.next)?;
        }
        let number = self.next;
        let node = self.evaluation.tape.node(number);
        if matches!(node.kind, NodeKind::Object | NodeKind::Array) && number >= self.settled {
            self.settled = node.next;
        }
        self.next += 1;
        Some(number)
    }

    /// The next node that is itself selected, and its number.
    pub(crate) fn next_selected(&mut self) -> Option<u32> {
        let number = self.evaluation.result.next(self.next)?;
        self.next = number + 1;
        Some(number)
    }

    /// Their memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.evaluation.memory()
    }

    pub(crate) fn tape(&self) -> &Tape {
        &self.evaluation.tape
    }
}
