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
use super::steps::Steps;
use super::tape::Kind;
use super::text::{PIECE_SIZE, TextReader, characters};
use super::value::{Bounds, Operand, Source};
use super::walk::{self, Answer, NodeWalk};
use crate::error::DocumentError;
use crate::limits::Limits;
use crate::selector::ast::{Operator, Origin};
use crate::selector::code::{Code, Instruction, Use};

/// Unfinished work.
#[derive(Debug)]
enum Task {
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
    Stop(Task),
    /// Another task must be completed first.
    Needs(Task, Task),
}

/// The machine, for one document.
#[derive(Debug)]
pub(crate) struct Predicates {
    pub(super) steps: Steps,
    bounds: Bounds,
    /// Results of the queries from `$`.
    roots: Vec<Option<Answer>>,
    patterns: Patterns,
    tasks: Vec<Task>,
    operands: Vec<Operand>,
    /// Nodes to visit, each with the number of the segment that applies to it.
    pending: Vec<(u32, u32)>,
    verdict: bool,
}

impl Predicates {
    pub(super) fn new(code: &Code, limits: &Limits, is_unambiguous: bool) -> Self {
        Predicates {
            steps: Steps::new(limits.filter_steps_max),
            bounds: Bounds::new(limits, is_unambiguous),
            roots: vec![None; code.root_queries()],
            patterns: Patterns::new(code, limits),
            tasks: Vec::new(),
            operands: Vec::new(),
            pending: Vec::new(),
            verdict: false,
        }
    }

    /// Starts again with another document, and as many steps.
    pub(super) fn restart(&mut self, limits: &Limits) {
        self.steps = Steps::new(limits.filter_steps_max);
        self.roots.fill(None);
        self.patterns.forget_computed();
        self.tasks.clear();
        self.operands.clear();
        self.pending.clear();
    }

    /// Starts evaluating a filter for `current`.
    pub(super) fn begin(&mut self, code: &Code, filter: u32, current: u32) {
        self.tasks.push(Task::Filter { at: code.start(filter), current });
    }

    /// Continues; returns the verdict, unless the run ends before.
    pub(super) fn resume(&mut self, source: Source<'_>) -> Result<Option<bool>, DocumentError> {
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

    fn advance(&mut self, source: Source<'_>, task: Task) -> Result<Reached, DocumentError> {
        match task {
            Task::Filter { at, current } => self.run_code(source, at, current),
            Task::Walk(walk) => self.walk_on(source, walk),
            Task::Length { text, reader, count } => self.measure(source, text, reader, count),
            Task::Compare(comparison) => self.compare_on(source, comparison),
            Task::Match(matching) => self.match_on(source, matching),
        }
    }

    /// Runs the code of a filter up to an operation that may take long.
    fn run_code(&mut self, source: Source<'_>, mut at: u32, current: u32) -> Result<Reached, DocumentError> {
        loop {
            if self.steps.is_over() {
                return Ok(Reached::Stop(Task::Filter { at, current }));
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
                return Ok(Reached::Needs(Task::Filter { at, current }, first));
            }
        }
    }

    fn put(&mut self, operand: Operand) -> Option<Task> {
        self.operands.push(operand);
        None
    }

    fn decide(&mut self, verdict: bool) -> Option<Task> {
        self.verdict = verdict;
        None
    }

    fn take_operand(&mut self) -> Operand {
        self.operands.pop().expect("code puts an operand before it takes one")
    }

    /// Starts the walk of a query, unless its result is known.
    fn begin_walk(&mut self, source: Source<'_>, query: u32, wanted: Use, current: u32) -> Option<Task> {
        let start = match source.code.query(query).0 {
            Origin::Current => current,
            Origin::Root(slot) => match self.roots[slot as usize] {
                Some(answer) => {
                    self.settle(wanted, answer);
                    return None;
                }
                None => 0,
            },
        };
        Some(Task::Walk(NodeWalk::new(query, wanted, start, &mut self.pending)))
    }

    fn walk_on(&mut self, source: Source<'_>, mut walk: NodeWalk) -> Result<Reached, DocumentError> {
        Ok(match walk.advance(source, &mut self.steps, &mut self.pending, self.verdict)? {
            walk::Reached::Stop => Reached::Stop(Task::Walk(walk)),
            walk::Reached::Asks { filter, node } => {
                let filter = Task::Filter { at: source.code.start(filter), current: node };
                Reached::Needs(Task::Walk(walk), filter)
            }
            walk::Reached::End => {
                if let Origin::Root(slot) = source.code.query(walk.query()).0 {
                    self.roots[slot as usize] = Some(walk.answer());
                }
                self.settle(walk.wanted(), walk.answer());
                Reached::End
            }
        })
    }

    /// The result of a walk.
    fn settle(&mut self, wanted: Use, answer: Answer) {
        let operand = match wanted {
            Use::Exists => {
                self.verdict = answer.count > 0;
                return;
            }
            Use::Count => Operand::Integer(answer.count),
            Use::Single | Use::Singular => match answer.node.filter(|_| answer.count == 1) {
                Some(node) => Operand::Node(node),
                None => Operand::Nothing,
            },
        };
        self.operands.push(operand);
    }

    /// The function `length` (section 2.4.4): characters, elements or members; Nothing for other values.
    fn length(&mut self, source: Source<'_>) -> Option<Task> {
        let operand = self.take_operand();
        if let Operand::Node(number) = operand
            && let node = source.tape.node(number)
            && matches!(node.kind, Kind::Object | Kind::Array)
        {
            return self.put(Operand::Integer(node.children.into()));
        }
        match source.text(operand) {
            None => self.put(Operand::Nothing),
            Some(_) => Some(Task::Length { text: operand, reader: Box::default(), count: 0 }),
        }
    }

    fn measure(
        &mut self,
        source: Source<'_>,
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
                return Ok(Reached::Stop(Task::Length { text: operand, reader, count }));
            }
        }
    }

    /// Compares two operands: two containers value by value, in steps; everything else at once.
    fn compare(&mut self, source: Source<'_>, operator: Operator) -> Result<Option<Task>, DocumentError> {
        let (right, left) = (self.take_operand(), self.take_operand());
        self.steps.take_bytes(source.size(left).saturating_add(source.size(right)))?;
        if operator != Operator::Less
            && let (Operand::Node(left), Operand::Node(right)) = (left, right)
            && source.tape.node(left).scalar().is_none()
            && source.tape.node(right).scalar().is_none()
        {
            return Ok(Some(Task::Compare(Comparison::new(left, right, operator == Operator::NotEqual))));
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

    fn compare_on(&mut self, source: Source<'_>, mut comparison: Comparison) -> Result<Reached, DocumentError> {
        match comparison.advance(source, &mut self.steps, self.bounds)? {
            Some(verdict) => {
                self.verdict = verdict;
                Ok(Reached::End)
            }
            None => Ok(Reached::Stop(Task::Compare(comparison))),
        }
    }

    /// The functions `match` and `search` (sections 2.4.6 and 2.4.7), with a compiled pattern, if it is valid.
    fn begin_match(&mut self, source: Source<'_>, pattern: Option<usize>) -> Result<Option<Task>, DocumentError> {
        let operand = self.take_operand();
        source.check_text(operand, self.bounds)?;
        Ok(match (pattern, source.text(operand)) {
            (Some(pattern), Some(_)) => Some(Task::Match(self.patterns.begin(pattern, operand))),
            _ => self.decide(false),
        })
    }

    fn match_on(&mut self, source: Source<'_>, mut matching: Matching) -> Result<Reached, DocumentError> {
        match self.patterns.advance(&mut matching, source, &mut self.steps)? {
            Some(verdict) => {
                self.verdict = verdict;
                Ok(Reached::End)
            }
            None => Ok(Reached::Stop(Task::Match(matching))),
        }
    }
}
