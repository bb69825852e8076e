//! The operands of filters, and their comparison (RFC 9535, section 2.3.5.2.2).

use std::borrow::Cow;
use std::cmp::Ordering;

use super::decimal;
use super::tape::{ChildKey, NodeKind, Tape};
use super::text::{NotUnicode, StringText, TextReader};
use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::DocumentLimits;
use crate::selector::ast::Literal;
use crate::selector::code::FilterCode;
use crate::text::{may_unescape_to, unescape};

/// The values that filters are evaluated on.
#[derive(Clone, Copy)]
pub(super) struct ValueSource<'v> {
    pub(super) tape: &'v Tape,
    pub(super) document: &'v [u8],
    pub(super) code: &'v FilterCode,
}

/// An operand: a value, or Nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Nothing,
    Node(u32),
    /// The literal with this number.
    Literal(u32),
    Integer(u64),
}

/// A primitive value for comparison.
#[derive(Clone, Debug)]
pub(super) enum Primitive<'v> {
    String(StringText<'v>),
    Number(Cow<'v, [u8]>),
    Boolean(bool),
    Null,
}

/// Limits of comparable operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparisonLimits {
    comparison_max: usize,
    members_max: usize,
    /// Whether values that parsers read differently are refused.
    is_unambiguous: bool,
}

impl ComparisonLimits {
    pub(super) fn new(limits: &DocumentLimits, is_unambiguous: bool) -> Self {
        let (comparison_max, members_max) = (limits.filter_comparison_max, limits.filter_members_max);
        ComparisonLimits { comparison_max, members_max, is_unambiguous }
    }
}

impl<'v> ValueSource<'v> {
    /// An operand as a primitive value; `None` if it is not one.
    pub(super) fn primitive(self, operand: Operand) -> Option<Primitive<'v>> {
        match operand {
            Operand::Nothing => None,
            Operand::Integer(integer) => Some(Primitive::Number(integer.to_string().into_bytes().into())),
            Operand::Literal(number) => Some(match self.code.literal(number) {
                Literal::String(text) => Primitive::String(StringText::Plain(text.as_bytes())),
                Literal::Number(text) => Primitive::Number(text.as_bytes().into()),
                Literal::Boolean(boolean) => Primitive::Boolean(*boolean),
                Literal::Null => Primitive::Null,
            }),
            Operand::Node(number) => {
                let node = self.tape.node(number);
                let token = node.token(self.document);
                match node.kind {
                    NodeKind::Object | NodeKind::Array => None,
                    NodeKind::String => Some(Primitive::String(StringText::of_token(token, false))),
                    NodeKind::EscapedString => Some(Primitive::String(StringText::of_token(token, true))),
                    NodeKind::Number => Some(Primitive::Number(token.into())),
                    NodeKind::Boolean => Some(Primitive::Boolean(token[0] == b't')),
                    NodeKind::Null => Some(Primitive::Null),
                }
            }
        }
    }

    /// The text of an operand that is a string.
    pub(super) fn text(self, operand: Operand) -> Option<StringText<'v>> {
        match self.primitive(operand) {
            Some(Primitive::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Checks that parsers read a text alike, if that is required: those in C end one at a NUL.
    pub(super) fn check_text(self, operand: Operand, bounds: ComparisonLimits) -> Result<(), DocumentError> {
        match self.text(operand) {
            // An escaped backslash before `u0000` is refused in vain.
            Some(StringText::Escaped(text))
                if bounds.is_unambiguous && memchr::memmem::find(text, b"\\u0000").is_some() =>
            {
                self.placed(Err(Unfit::Ambiguous), operand, bounds)
            }
            _ => Ok(()),
        }
    }

    /// Maximum bytes that comparing an operand reads.
    pub(super) fn size(self, operand: Operand) -> usize {
        match operand {
            Operand::Nothing | Operand::Integer(_) => 0,
            Operand::Literal(number) => match self.code.literal(number) {
                Literal::String(text) | Literal::Number(text) => text.len(),
                Literal::Boolean(_) | Literal::Null => 0,
            },
            Operand::Node(number) => {
                let node = self.tape.node(number);
                if node.scalar().is_some() { node.token(self.document).len() } else { 0 }
            }
        }
    }

    /// The order of two operands that are not both containers. Only numbers and strings are ordered; others are equal, or `None`.
    pub(super) fn order(
        self,
        left: Operand,
        right: Operand,
        bounds: ComparisonLimits,
    ) -> Result<Option<Ordering>, DocumentError> {
        self.check_text(left, bounds)?;
        self.check_text(right, bounds)?;
        let order = match (self.primitive(left), self.primitive(right)) {
            (Some(Primitive::Number(left)), Some(Primitive::Number(right))) => {
                compared_numbers(&left, &right, bounds).map(Some)
            }
            (Some(Primitive::String(left)), Some(Primitive::String(right))) => compared_texts(left, right, bounds),
            _ => return Ok(self.are_equal(left, right, bounds)?.then_some(Ordering::Equal)),
        };
        self.placed(order, node_of(left, right), bounds)
    }

    /// Whether two operands that are not both containers are equal.
    pub(super) fn are_equal(
        self,
        left: Operand,
        right: Operand,
        bounds: ComparisonLimits,
    ) -> Result<bool, DocumentError> {
        if left == Operand::Nothing && right == Operand::Nothing {
            return Ok(true);
        }
        self.check_text(left, bounds)?;
        self.check_text(right, bounds)?;
        let equal = match (self.primitive(left), self.primitive(right)) {
            (Some(Primitive::Number(left)), Some(Primitive::Number(right))) => {
                compared_numbers(&left, &right, bounds).map(Ordering::is_eq)
            }
            (Some(Primitive::String(left)), Some(Primitive::String(right))) => are_equal_texts(left, right, bounds),
            (Some(Primitive::Boolean(left)), Some(Primitive::Boolean(right))) => Ok(left == right),
            (Some(Primitive::Null), Some(Primitive::Null)) => Ok(true),
            _ => Ok(false),
        };
        self.placed(equal, node_of(left, right), bounds)
    }

    /// An object's members by name, the last one of equal names; `None` if a name is not Unicode.
    pub(super) fn members(
        self,
        object: u32,
        bounds: ComparisonLimits,
    ) -> Result<Option<Vec<Member<'v>>>, DocumentError> {
        let node = self.tape.node(object);
        if node.children as usize > bounds.members_max {
            let kind = DocumentErrorKind::TooManyMembers(bounds.members_max);
            return Err(DocumentError::new(kind, node.start as usize));
        }
        let mut members = Vec::with_capacity(node.children as usize);
        let mut size = 0;
        for child in self.tape.children(object) {
            let ChildKey::Member { start, end, escaped } = self.tape.node(child).child_key() else {
                continue;
            };
            let token = &self.document[start as usize..end as usize];
            size += token.len() - 2;
            if size > bounds.comparison_max {
                return Err(too_long(bounds, start as usize));
            }
            let Some(name) = name_of(token, escaped) else { return Ok(None) };
            members.push((name, child));
        }
        // Equal names stay in their order, so that the last of them is kept.
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        members.reverse();
        members.dedup_by(|(later, _), (kept, _)| later == kept);
        Ok(Some(members))
    }

    fn placed<T>(
        self,
        result: Result<T, Unfit>,
        operand: Operand,
        bounds: ComparisonLimits,
    ) -> Result<T, DocumentError> {
        let offset = match operand {
            Operand::Node(number) => self.tape.node(number).start as usize,
            _ => 0,
        };
        result.map_err(|unfit| match unfit {
            Unfit::TooLong => too_long(bounds, offset),
            Unfit::Ambiguous => DocumentError::new(DocumentErrorKind::AmbiguousOperand, offset),
        })
    }
}

/// A member: its name, and its value.
pub(super) type Member<'v> = (Cow<'v, str>, u32);

/// Why values are not compared.
#[derive(Debug)]
enum Unfit {
    /// They exceed the limit of comparisons.
    TooLong,
    /// Parsers read them differently.
    Ambiguous,
}

/// The operand that is a value of the document.
fn node_of(left: Operand, right: Operand) -> Operand {
    if matches!(left, Operand::Node(_)) { left } else { right }
}

fn too_long(bounds: ComparisonLimits, offset: usize) -> DocumentError {
    DocumentError::new(DocumentErrorKind::ComparisonTooLong(bounds.comparison_max), offset)
}

fn name_of(token: &[u8], is_escaped: bool) -> Option<Cow<'_, str>> {
    if !is_escaped {
        return std::str::from_utf8(&token[1..token.len() - 1]).ok().map(Cow::Borrowed);
    }
    let mut scratch = String::new();
    unescape(token, &mut scratch).ok()?;
    Some(scratch.into())
}

fn compared_numbers(left: &[u8], right: &[u8], bounds: ComparisonLimits) -> Result<Ordering, Unfit> {
    if left.len().max(right.len()) > bounds.comparison_max {
        return Err(Unfit::TooLong);
    }
    let order = decimal::compare(left, right);
    if bounds.is_unambiguous && doubles(left, right) != Some(order) {
        return Err(Unfit::Ambiguous);
    }
    Ok(order)
}

/// The order of two numbers in double precision, as most parsers read them.
fn doubles(left: &[u8], right: &[u8]) -> Option<Ordering> {
    let double = |text| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    double(left)?.partial_cmp(&double(right)?)
}

/// Compares two texts; `None` if one of them is not Unicode. UTF-8 sorts like the Unicode scalar values by which the RFC compares.
fn compared_texts(
    left: StringText<'_>,
    right: StringText<'_>,
    bounds: ComparisonLimits,
) -> Result<Option<Ordering>, Unfit> {
    if let (StringText::Plain(left), StringText::Plain(right)) = (left, right)
        && left.len().min(right.len()) <= bounds.comparison_max
    {
        return Ok(Some(left.cmp(right)));
    }
    let (Some(left), Some(right)) = (decoded(left, bounds)?, decoded(right, bounds)?) else { return Ok(None) };
    Ok(Some(left.cmp(&right)))
}

fn are_equal_texts(left: StringText<'_>, right: StringText<'_>, bounds: ComparisonLimits) -> Result<bool, Unfit> {
    let cannot_equal = |escaped: &[u8], size: usize| size >= escaped.len() || !may_unescape_to(escaped, size);
    let differ = match (left, right) {
        (StringText::Plain(left), StringText::Plain(right)) => left.len() != right.len(),
        (StringText::Plain(plain), StringText::Escaped(escaped))
        | (StringText::Escaped(escaped), StringText::Plain(plain)) => cannot_equal(escaped, plain.len()),
        (StringText::Escaped(_), StringText::Escaped(_)) => false,
    };
    Ok(!differ && compared_texts(left, right, bounds)? == Some(Ordering::Equal))
}

/// The decoded text; `None` if it is not Unicode.
fn decoded<'v>(text: StringText<'v>, bounds: ComparisonLimits) -> Result<Option<Cow<'v, [u8]>>, Unfit> {
    if text.size() > bounds.comparison_max {
        return Err(Unfit::TooLong);
    }
    match text {
        StringText::Plain(bytes) => Ok(Some(bytes.into())),
        StringText::Escaped(_) => {
            let mut reader = TextReader::default();
            let mut bytes = Vec::with_capacity(text.size());
            loop {
                match reader.next(text, usize::MAX) {
                    Ok([]) => return Ok(Some(bytes.into())),
                    Ok(piece) => bytes.extend_from_slice(piece),
                    Err(NotUnicode) => return Ok(None),
                }
            }
        }
    }
}
