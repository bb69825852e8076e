//! Evaluates whether a value satisfies a filter (RFC 9535, sections 2.3.5 and 2.4), with a machine that can stop between any two visits
//! when its time is up.
//!
//! Unfinished work is on a stack of tasks: the code of a filter, the walk along a query's node list, a comparison of two containers, a text
//! that is measured or matched. Queries inside a filter yield node lists in which a node can occur twice, as `count` requires. Each visited
//! value is a step, and steps are limited. A query from `$` has the same result throughout the document and is evaluated once. With
//! duplicate names, an existence test or `count` sees all such members, a comparison the last of them.

use std::cmp::Ordering;

use super::comparison::Comparison;
use super::matching::{Matching, Patterns};
use super::steps::StepBudget;
use super::tape::NodeKind;
use super::text::{PIECE_SIZE, TextReader, characters};
use super::value::{ComparisonLimits, Operand, ValueSource};
use super::walk::{self, NodeListResult, NodeWalk};
use crate::error::DocumentError;
use crate::limits::DocumentLimits;
use crate::selector::ast::{Operator, QueryOrigin};
use crate::selector::code::{FilterCode, Instruction, QueryUse};

/// Unfinished work.
#[derive(Debug)]
enum PredicateTask {
    /// A filter's code, from `at` on, for the value `current`.
    Filter {
        at: u32,
        current: u32,
    },
    Walk(NodeWalk),
    /// The length of a text in characters.
    Length {
        text: Operand,
        reader: Box<TextReader>,
        count: u64,
    },
    Compare(Comparison),
    Match(Matching),
}

/// The progress of a task.
enum Reached {
    /// It is complete.
    End,
    /// It stops for this run.
    Stop(PredicateTask),
    /// Another task must be completed first.
    Needs(PredicateTask, PredicateTask),
}

/// The machine, for one document.
#[derive(Debug)]
pub(crate) struct Predicates {
    pub(super) steps: StepBudget,
    bounds: ComparisonLimits,
    /// Results of the queries from `$`.
    roots: Vec<Option<NodeListResult>>,
    patterns: Patterns,
    tasks: Vec<PredicateTask>,
    operands: Vec<Operand>,
    /// Nodes to visit, each with the number of the segment that applies to it.
    pending: Vec<(u32, u32)>,
    verdict: bool,
}

impl Predicates {
    pub(super) fn new(code: &FilterCode, limits: &DocumentLimits, is_unambiguous: bool) -> Self {
        Predicates {
            steps: StepBudget::new(limits.filter_steps_max),
            bounds: ComparisonLimits::new(limits, is_unambiguous),
            roots: vec![None; code.root_queries()],
            patterns: Patterns::new(code, limits),
            tasks: Vec::new(),
            operands: Vec::new(),
            pending: Vec::new(),
            verdict: false,
        }
    }

    /// Starts again with another document, and as many steps.
    pub(super) fn restart(&mut self, limits: &DocumentLimits) {
        self.steps = StepBudget::new(limits.filter_steps_max);
        self.roots.fill(None);
        self.patterns.forget_computed();
        self.tasks.clear();
        self.operands.clear();
        self.pending.clear();
    }

    /// Starts evaluating a filter for `current`.
    pub(super) fn begin(&mut self, code: &FilterCode, filter: u32, current: u32) {
        self.tasks.push(PredicateTask::Filter { at: code.start(filter), current });
    }

    /// Continues; returns the verdict, unless the run ends before.
    pub(super) fn resume(&mut self, source: ValueSource<'_>) -> Result<Option<bool>, DocumentError> {
        while let Some(task) = self.tasks.pop() {
            match self.advance(source, task)? {
                Reached::End => {}
                Reached::Stop(task) => {
                    self.tasks.push(task);
                    return Ok(None);
                }
                Reached::Needs(task, first) => {
                    self.tasks.push(task);
                    self.tasks.push(first);
                }
            }
        }
        Ok(Some(self.verdict))
    }

    fn advance(&mut self, source: ValueSource<'_>, task: PredicateTask) -> Result<Reached, DocumentError> {
        match task {
            PredicateTask::Filter { at, current } => self.run_code(source, at, current),
            PredicateTask::Walk(walk) => self.walk_on(source, walk),
            PredicateTask::Length { text, reader, count } => self.measure(source, text, reader, count),
            PredicateTask::Compare(comparison) => self.compare_on(source, comparison),
            PredicateTask::Match(matching) => self.match_on(source, matching),
        }
    }

    /// Runs the code of a filter up to an operation that may take long.
    fn run_code(&mut self, source: ValueSource<'_>, mut at: u32, current: u32) -> Result<Reached, DocumentError> {
        loop {
            if self.steps.is_over() {
                return Ok(Reached::Stop(PredicateTask::Filter { at, current }));
            }
            let instruction = source.code.instruction(at);
            at += 1;
            let first = match instruction {
                Instruction::Walk(query, wanted) => self.begin_walk(source, query, wanted, current),
                Instruction::Literal(number) => self.put(Operand::Literal(number)),
                Instruction::Length => self.length(source),
                Instruction::Compare(operator) => self.compare(source, operator)?,
                Instruction::MatchFixed(number) => {
                    let pattern = self.patterns.fixed(source.code, number, &mut self.steps)?;
                    self.begin_match(source, pattern)?
                }
                Instruction::MatchComputed(extent) => {
                    let operand = self.take_operand();
                    let pattern = self.patterns.computed(source, operand, extent, &mut self.steps)?;
                    self.begin_match(source, pattern)?
                }
                Instruction::Not => self.decide(!self.verdict),
                Instruction::Jump { when, to } => {
                    at = if self.verdict == when { to } else { at };
                    None
                }
                Instruction::End => return Ok(Reached::End),
            };
            if let Some(first) = first {
                return Ok(Reached::Needs(PredicateTask::Filter { at, current }, first));
            }
        }
    }

    fn put(&mut self, operand: Operand) -> Option<PredicateTask> {
        self.operands.push(operand);
        None
    }

    fn decide(&mut self, verdict: bool) -> Option<PredicateTask> {
        self.verdict = verdict;
        None
    }

    fn take_operand(&mut self) -> Operand {
        self.operands.pop().expect("code puts an operand before it takes one")
    }

    /// Starts the walk of a query, unless its result is known.
    fn begin_walk(
        &mut self,
        source: ValueSource<'_>,
        query: u32,
        wanted: QueryUse,
        current: u32,
    ) -> Option<PredicateTask> {
        let start = match source.code.query(query).0 {
            QueryOrigin::Current => current,
            QueryOrigin::Root(slot) => match self.roots[slot as usize] {
                Some(answer) => {
                    self.settle(wanted, answer);
                    return None;
                }
                None => 0,
            },
        };
        Some(PredicateTask::Walk(NodeWalk::new(query, wanted, start, &mut self.pending)))
    }

    fn walk_on(&mut self, source: ValueSource<'_>, mut walk: NodeWalk) -> Result<Reached, DocumentError> {
        Ok(match walk.advance(source, &mut self.steps, &mut self.pending, self.verdict)? {
            walk::Reached::Stop => Reached::Stop(PredicateTask::Walk(walk)),
            walk::Reached::Asks { filter, node } => {
                let filter = PredicateTask::Filter { at: source.code.start(filter), current: node };
                Reached::Needs(PredicateTask::Walk(walk), filter)
            }
            walk::Reached::End => {
                if let QueryOrigin::Root(slot) = source.code.query(walk.query()).0 {
                    self.roots[slot as usize] = Some(walk.answer());
                }
                self.settle(walk.wanted(), walk.answer());
                Reached::End
            }
        })
    }

    /// The result of a walk.
    fn settle(&mut self, wanted: QueryUse, answer: NodeListResult) {
        let operand = match wanted {
            QueryUse::Exists => {
                self.verdict = answer.count > 0;
                return;
            }
            QueryUse::Count => Operand::Integer(answer.count),
            QueryUse::Single | QueryUse::Singular => match answer.node.filter(|_| answer.count == 1) {
                Some(node) => Operand::Node(node),
                None => Operand::Nothing,
            },
        };
        self.operands.push(operand);
    }

    /// The function `length` (section 2.4.4): characters, elements or members; Nothing for other values.
    fn length(&mut self, source: ValueSource<'_>) -> Option<PredicateTask> {
        let operand = self.take_operand();
        if let Operand::Node(number) = operand
            && let node = source.tape.node(number)
            && matches!(node.kind, NodeKind::Object | NodeKind::Array)
        {
            return self.put(Operand::Integer(node.children.into()));
        }
        match source.text(operand) {
            None => self.put(Operand::Nothing),
            Some(_) => Some(PredicateTask::Length { text: operand, reader: Box::default(), count: 0 }),
        }
    }

    fn measure(
        &mut self,
        source: ValueSource<'_>,
        operand: Operand,
        mut reader: Box<TextReader>,
        mut count: u64,
    ) -> Result<Reached, DocumentError> {
        let text = source.text(operand).expect("looked at before");
        loop {
            match reader.next(text, PIECE_SIZE) {
                Ok([]) => {
                    self.put(Operand::Integer(count));
                    return Ok(Reached::End);
                }
                Ok(piece) => {
                    count += characters(piece);
                    self.steps.take_bytes(piece.len())?;
                    self.steps.take_decoded(reader.decoded())?;
                }
                Err(_) => {
                    self.put(Operand::Nothing);
                    return Ok(Reached::End);
                }
            }
            if self.steps.is_over() {
                return Ok(Reached::Stop(PredicateTask::Length { text: operand, reader, count }));
            }
        }
    }

    /// Compares two operands: two containers value by value, in steps; everything else at once.
    fn compare(&mut self, source: ValueSource<'_>, operator: Operator) -> Result<Option<PredicateTask>, DocumentError> {
        let (right, left) = (self.take_operand(), self.take_operand());
        self.steps.take_bytes(source.size(left).saturating_add(source.size(right)))?;
        if operator != Operator::Less
            && let (Operand::Node(left), Operand::Node(right)) = (left, right)
            && source.tape.node(left).scalar().is_none()
            && source.tape.node(right).scalar().is_none()
        {
            return Ok(Some(PredicateTask::Compare(Comparison::new(left, right, operator == Operator::NotEqual))));
        }
        let are_equal = || source.are_equal(left, right, self.bounds);
        let order = || source.order(left, right, self.bounds);
        let verdict = match operator {
            Operator::Equal => are_equal()?,
            Operator::NotEqual => !are_equal()?,
            Operator::Less => order()? == Some(Ordering::Less),
            Operator::LessOrEqual => order()?.is_some_and(Ordering::is_le),
        };
        Ok(self.decide(verdict))
    }

    fn compare_on(&mut self, source: ValueSource<'_>, mut comparison: Comparison) -> Result<Reached, DocumentError> {
        match comparison.advance(source, &mut self.steps, self.bounds)? {
            Some(verdict) => {
                self.verdict = verdict;
                Ok(Reached::End)
            }
            None => Ok(Reached::Stop(PredicateTask::Compare(comparison))),
        }
    }

    /// The functions `match` and `search` (sections 2.4.6 and 2.4.7), with a compiled pattern, if it is valid.
    fn begin_match(
        &mut self,
        source: ValueSource<'_>,
        pattern: Option<usize>,
    ) -> Result<Option<PredicateTask>, DocumentError> {
        let operand = self.take_operand();
        source.check_text(operand, self.bounds)?;
        Ok(match (pattern, source.text(operand)) {
            (Some(pattern), Some(_)) => Some(PredicateTask::Match(self.patterns.begin(pattern, operand))),
            _ => self.decide(false),
        })
    }

    fn match_on(&mut self, source: ValueSource<'_>, mut matching: Matching) -> Result<Reached, DocumentError> {
        match self.patterns.advance(&mut matching, source, &mut self.steps)? {
            Some(verdict) => {
                self.verdict = verdict;
                Ok(Reached::End)
            }
            None => Ok(Reached::Stop(PredicateTask::Match(matching))),
        }
    }
}
