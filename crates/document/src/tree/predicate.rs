//! Filters: whether a value satisfies a logical expression (RFC 9535, sections 2.3.5 and 2.4).
//!
//! Queries inside a filter yield node lists in which a node can occur twice, as `count` demands. Each value looked at is a
//! step, and steps are bounded. A query from `$` gives the same answer throughout the document and is asked once.
//! Where an object has a name twice, an existence test or `count` sees all such members, a comparison the last of them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use regex::Regex;

use super::decimal;
use super::evaluation::selects_by_place;
use super::tape::{Kind, Place, Tape};
use crate::error::{DocumentError, DocumentErrorKind};
use crate::selector::ast::{
    Comparable, Comparison, Expression, Extent, FilterQuery, Literal, Operator, Origin, Pattern, PatternTest, Reach,
    Selector,
};
use crate::selector::iregexp;
use crate::text::unescape;

/// Steps that compiling a pattern from the document counts as: about its time in values looked at.
const PATTERN_STEPS: u64 = 10_000;

/// Patterns from the document that are kept compiled.
const PATTERNS_MAX: usize = 64;

/// Bytes of text that comparing or matching passes in about the time of one step.
const BYTES_PER_STEP: usize = 16;

/// The work done, and its bound.
#[derive(Debug)]
pub(crate) struct Steps {
    taken: u64,
    max: u64,
}

impl Steps {
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn take(&mut self, count: u64) -> Result<(), DocumentError> {
        self.taken = self.taken.saturating_add(count);
        match self.taken > self.max {
            true => Err(DocumentError::new(DocumentErrorKind::FilterTooCostly(self.max), 0)),
            false => Ok(()),
        }
    }
}

/// How much of a node list a place in a filter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Whether there is a node.
    Any,
    /// The node, if there is exactly one.
    Single,
    /// How many there are.
    Count,
}

/// What was asked of a node list: its length, no further than wanted, and a node of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    count: u64,
    node: Option<u32>,
}

/// An operand of a comparison: a value, or Nothing.
#[derive(Debug)]
enum Value<'v> {
    Nothing,
    Node(u32),
    Literal(&'v Literal),
    Integer(u64),
}

/// A primitive value, ready to be compared.
#[derive(Debug, PartialEq)]
enum Primitive<'v> {
    String(Cow<'v, str>),
    Number(Cow<'v, [u8]>),
    Boolean(bool),
    Null,
}

/// The evaluator's state over one document.
#[derive(Debug)]
pub(crate) struct Predicates {
    pub(super) steps: Steps,
    /// Answers of the queries from `$`.
    roots: Vec<Option<Answer>>,
    patterns: HashMap<(String, Extent), Option<Regex>>,
    /// Memory for the nodes still to visit.
    pending: Vec<(u32, u32)>,
}

/// A document with its tape.
#[derive(Clone, Copy)]
struct Source<'v> {
    tape: &'v Tape,
    document: &'v [u8],
}

impl Predicates {
    pub(super) fn new(root_queries: usize, steps_max: u64) -> Self {
        Predicates {
            steps: Steps { taken: 0, max: steps_max },
            roots: vec![None; root_queries],
            patterns: HashMap::new(),
            pending: Vec::new(),
        }
    }

    /// Whether a selector selects a value of its parent.
    pub(super) fn selects(
        &mut self,
        tape: &Tape,
        document: &[u8],
        selector: &Selector,
        child: u32,
    ) -> Result<bool, DocumentError> {
        match selector {
            Selector::Filter(expression) => self.holds(Source { tape, document }, expression, child),
            selector => Ok(selects_by_place(tape, document, selector, tape.node(child))),
        }
    }

    fn holds(&mut self, source: Source<'_>, expression: &Expression, current: u32) -> Result<bool, DocumentError> {
        match expression {
            Expression::Or(terms) => {
                for term in terms {
                    if self.holds(source, term, current)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expression::And(terms) => {
                for term in terms {
                    if !self.holds(source, term, current)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expression::Not(inner) => Ok(!self.holds(source, inner, current)?),
            Expression::Exists(query) => Ok(self.answer(source, query, current, Wanted::Any)?.count > 0),
            Expression::Compare(comparison) => self.compares(source, comparison, current),
            Expression::Matches(test) => self.matches(source, test, current),
        }
    }

    fn answer(
        &mut self,
        source: Source<'_>,
        query: &FilterQuery,
        current: u32,
        wanted: Wanted,
    ) -> Result<Answer, DocumentError> {
        match query.origin {
            Origin::Current => self.visit(source, query, current, wanted),
            Origin::Root(slot) => match self.roots[slot] {
                Some(answer) => Ok(answer),
                None => {
                    let answer = self.visit(source, query, 0, wanted)?;
                    self.roots[slot] = Some(answer);
                    Ok(answer)
                }
            },
        }
    }

    /// Walks the node list of a query from `start`, no further than wanted. Nodes wait on a stack beside the number of the
    /// segment that applies to them.
    fn visit(
        &mut self,
        source: Source<'_>,
        query: &FilterQuery,
        start: u32,
        wanted: Wanted,
    ) -> Result<Answer, DocumentError> {
        let segments = &query.query.segments;
        if segments.is_empty() {
            return Ok(Answer { count: 1, node: Some(start) });
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.clear();
        pending.push((start, 0));
        let mut answer = Answer::default();
        while let Some((parent, at)) = pending.pop() {
            let segment = &segments[at as usize];
            let is_last = at as usize + 1 == segments.len();
            let end = source.tape.node(parent).next;
            let mut child = parent + 1;
            while child < end {
                for selector in &segment.selectors {
                    self.steps.take(1)?;
                    if !self.selects(source.tape, source.document, selector, child)? {
                        continue;
                    }
                    if is_last {
                        answer = Answer { count: answer.count + 1, node: Some(child) };
                    } else {
                        pending.push((child, at + 1));
                    }
                }
                if is_enough(&answer, wanted) {
                    self.pending = pending;
                    return Ok(answer);
                }
                child = match segment.reach {
                    Reach::Children => source.tape.node(child).next,
                    Reach::Descendants => child + 1,
                };
            }
        }
        self.pending = pending;
        Ok(answer)
    }

    /// The node of a singular query.
    fn singular(
        &mut self,
        source: Source<'_>,
        query: &FilterQuery,
        current: u32,
    ) -> Result<Option<u32>, DocumentError> {
        let mut node = match query.origin {
            Origin::Current => current,
            Origin::Root(slot) => match self.roots[slot] {
                Some(answer) => return Ok(answer.node),
                None => 0,
            },
        };
        let mut found = Some(node);
        for segment in &query.query.segments {
            let selector = &segment.selectors[0];
            found = None;
            for child in source.tape.children(node) {
                self.steps.take(1)?;
                if selects_by_place(source.tape, source.document, selector, source.tape.node(child)) {
                    found = Some(child);
                }
            }
            match found {
                Some(child) => node = child,
                None => break,
            }
        }
        if let Origin::Root(slot) = query.origin {
            self.roots[slot] = Some(Answer { count: found.is_some().into(), node: found });
        }
        Ok(found)
    }

    fn value<'v>(
        &mut self,
        source: Source<'_>,
        comparable: &'v Comparable,
        current: u32,
    ) -> Result<Value<'v>, DocumentError> {
        let node = match comparable {
            Comparable::Literal(literal) => return Ok(Value::Literal(literal)),
            Comparable::Length(argument) => return self.length(source, argument, current),
            Comparable::Count(query) => {
                return Ok(Value::Integer(self.answer(source, query, current, Wanted::Count)?.count));
            }
            Comparable::Query(query) => self.singular(source, query, current)?,
            Comparable::Value(query) => {
                let answer = self.answer(source, query, current, Wanted::Single)?;
                answer.node.filter(|_| answer.count == 1)
            }
        };
        Ok(node.map_or(Value::Nothing, Value::Node))
    }

    /// The function `length` (section 2.4.4): characters, elements or members; Nothing for all else.
    fn length<'v>(
        &mut self,
        source: Source<'_>,
        argument: &'v Comparable,
        current: u32,
    ) -> Result<Value<'v>, DocumentError> {
        let value = self.value(source, argument, current)?;
        if let Value::Node(node) = value {
            let node = source.tape.node(node);
            if node.scalar().is_none() {
                return Ok(Value::Integer(node.children.into()));
            }
        }
        let Some(Primitive::String(text)) = self.primitive(source, &value)? else {
            return Ok(Value::Nothing);
        };
        Ok(Value::Integer(text.chars().count() as u64))
    }

    /// The functions `match` and `search` (sections 2.4.6 and 2.4.7).
    fn matches(&mut self, source: Source<'_>, test: &PatternTest, current: u32) -> Result<bool, DocumentError> {
        let text = self.value(source, &test.text, current)?;
        let Some(Primitive::String(text)) = self.primitive(source, &text)? else {
            return Ok(false);
        };
        let argument = match &test.pattern {
            Pattern::Fixed(regex) => return Ok(regex.as_ref().is_some_and(|regex| regex.is_match(&text))),
            Pattern::Computed(argument) => self.value(source, argument, current)?,
        };
        let Some(Primitive::String(pattern)) = self.primitive(source, &argument)? else {
            return Ok(false);
        };
        let regex = self.pattern(pattern.into_owned(), test.extent)?;
        Ok(regex.as_ref().is_some_and(|regex| regex.is_match(&text)))
    }

    /// A pattern that came from the document, compiled.
    fn pattern(&mut self, pattern: String, extent: Extent) -> Result<&Option<Regex>, DocumentError> {
        let key = (pattern, extent);
        if !self.patterns.contains_key(&key) {
            self.steps.take(PATTERN_STEPS)?;
            if self.patterns.len() >= PATTERNS_MAX {
                self.patterns.clear();
            }
        }
        let entry = self.patterns.entry(key);
        Ok(entry.or_insert_with_key(|(pattern, extent)| iregexp::compile(pattern, *extent)))
    }

    /// A value as a primitive; nothing where it is none, or a string that is no Unicode text.
    fn primitive<'v>(&mut self, source: Source<'v>, value: &Value<'v>) -> Result<Option<Primitive<'v>>, DocumentError> {
        Ok(match value {
            Value::Nothing => None,
            Value::Integer(integer) => Some(Primitive::Number(integer.to_string().into_bytes().into())),
            Value::Literal(Literal::String(text)) => Some(Primitive::String(text.as_str().into())),
            Value::Literal(Literal::Number(text)) => Some(Primitive::Number(text.as_bytes().into())),
            Value::Literal(Literal::Boolean(boolean)) => Some(Primitive::Boolean(*boolean)),
            Value::Literal(Literal::Null) => Some(Primitive::Null),
            Value::Node(number) => {
                let node = source.tape.node(*number);
                let token = node.token(source.document);
                self.steps.take((token.len() / BYTES_PER_STEP) as u64)?;
                match node.kind {
                    Kind::Object | Kind::Array => None,
                    Kind::String | Kind::EscapedString => text(token).map(Primitive::String),
                    Kind::Number => Some(Primitive::Number(token.into())),
                    Kind::Boolean => Some(Primitive::Boolean(token[0] == b't')),
                    Kind::Null => Some(Primitive::Null),
                }
            }
        })
    }

    fn compares(&mut self, source: Source<'_>, comparison: &Comparison, current: u32) -> Result<bool, DocumentError> {
        let left = self.value(source, &comparison.left, current)?;
        let right = self.value(source, &comparison.right, current)?;
        match comparison.operator {
            Operator::Equal => self.are_equal(source, &left, &right),
            Operator::NotEqual => Ok(!self.are_equal(source, &left, &right)?),
            Operator::Less => self.is_less(source, &left, &right),
            Operator::LessOrEqual => Ok(self.is_less(source, &left, &right)? || self.are_equal(source, &left, &right)?),
        }
    }

    fn is_less<'v>(&mut self, source: Source<'v>, left: &Value<'v>, right: &Value<'v>) -> Result<bool, DocumentError> {
        let (left, right) = (self.primitive(source, left)?, self.primitive(source, right)?);
        Ok(match (left, right) {
            (Some(Primitive::Number(left)), Some(Primitive::Number(right))) => {
                decimal::compare(&left, &right) == Ordering::Less
            }
            // UTF-8 sorts like the Unicode scalar values that the RFC compares by.
            (Some(Primitive::String(left)), Some(Primitive::String(right))) => left < right,
            _ => false,
        })
    }

    fn are_equal<'v>(
        &mut self,
        source: Source<'v>,
        left: &Value<'v>,
        right: &Value<'v>,
    ) -> Result<bool, DocumentError> {
        match (left, right) {
            (Value::Nothing, Value::Nothing) => return Ok(true),
            (Value::Nothing, _) | (_, Value::Nothing) => return Ok(false),
            (Value::Node(left), Value::Node(right)) => return self.nodes_equal(source, *left, *right),
            _ => {}
        }
        let (left, right) = (self.primitive(source, left)?, self.primitive(source, right)?);
        Ok(matches!((left, right), (Some(left), Some(right)) if primitives_equal(&left, &right)))
    }

    /// Deep equality; recursion is bounded by `DEPTH_CEILING`.
    fn nodes_equal(&mut self, source: Source<'_>, left: u32, right: u32) -> Result<bool, DocumentError> {
        self.steps.take(1)?;
        let (left_node, right_node) = (source.tape.node(left), source.tape.node(right));
        match (left_node.kind, right_node.kind) {
            (Kind::Array, Kind::Array) if left_node.children != right_node.children => Ok(false),
            (Kind::Array, Kind::Array) => {
                for (left, right) in source.tape.children(left).zip(source.tape.children(right)) {
                    if !self.nodes_equal(source, left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Kind::Object, Kind::Object) => self.objects_equal(source, left, right),
            _ => {
                let left = self.primitive(source, &Value::Node(left))?;
                let right = self.primitive(source, &Value::Node(right))?;
                Ok(matches!((left, right), (Some(left), Some(right)) if primitives_equal(&left, &right)))
            }
        }
    }

    fn objects_equal(&mut self, source: Source<'_>, left: u32, right: u32) -> Result<bool, DocumentError> {
        self.steps.take((source.tape.node(left).children + source.tape.node(right).children).into())?;
        let (Some(left), Some(right)) = (source.members(left), source.members(right)) else {
            return Ok(false);
        };
        if left.len() != right.len() {
            return Ok(false);
        }
        for ((left_name, left), (right_name, right)) in left.iter().zip(&right) {
            if left_name != right_name || !self.nodes_equal(source, *left, *right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'v> Source<'v> {
    /// An object's members by name, of equal names the last; nothing if a name is no Unicode text.
    fn members(self, object: u32) -> Option<Vec<(Cow<'v, str>, u32)>> {
        let mut members = Vec::with_capacity(self.tape.node(object).children as usize);
        for child in self.tape.children(object) {
            let Place::Member { start, end, .. } = self.tape.node(child).place() else {
                continue;
            };
            members.push((text(&self.document[start as usize..end as usize])?, child));
        }
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        members.reverse();
        members.dedup_by(|(later, _), (kept, _)| later == kept);
        Some(members)
    }
}

fn is_enough(answer: &Answer, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Any => answer.count > 0,
        Wanted::Single => answer.count > 1,
        Wanted::Count => false,
    }
}

fn primitives_equal(left: &Primitive<'_>, right: &Primitive<'_>) -> bool {
    match (left, right) {
        (Primitive::Number(left), Primitive::Number(right)) => decimal::compare(left, right) == Ordering::Equal,
        (left, right) => left == right,
    }
}

/// The text of a string token, unless it has none.
fn text(token: &[u8]) -> Option<Cow<'_, str>> {
    if !token.contains(&b'\\') {
        return std::str::from_utf8(&token[1..token.len() - 1]).ok().map(Cow::Borrowed);
    }
    let mut scratch = String::new();
    unescape(token, &mut scratch).ok()?;
    Some(scratch.into())
}
