//! Lists of native values, iterated in place in the frame.
//!
//! Values are plaintext: their `Debug` gives kinds and sizes, so that no log of a message can hold one.

use std::fmt;

use thiserror::Error;

use crate::field::{Field, WireType};
use crate::number::{self, NumberBuffer, NumberFault};
use crate::wire::{HeadError, ValueHead, WireReader};
use crate::words::TextKind;

/// Strings up to this size are read without checking [`Values::up_to`].
const SHORT_SIZE_MAX: u32 = u8::MAX as u32;

/// UTF-8 text in a frame or a column.
///
/// Kept as bytes, which is what is sealed and opened. It was found to be UTF-8 when it was read, mostly by the quick test
/// for ASCII; that proof cannot become a `&str` without unsafe code, so [`Text::as_str`] checks once more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// The text of bytes, if they are UTF-8.
    #[inline]
    pub fn checked(bytes: &'a [u8]) -> Option<Self> {
        (is_ascii(bytes) || std::str::from_utf8(bytes).is_ok()).then_some(Text(bytes))
    }

    /// The text's UTF-8.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text as a string; some nanoseconds for the second check.
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.0).expect("checked when the text was made")
    }
}

impl<'a> From<&'a str> for Text<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Text(text.as_bytes())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Eight bytes at a time. `str::from_utf8` reaches its wide loop only on aligned bytes, which the strings of a frame are
/// not: on 32 bytes it takes 7 ns more than reading them, this takes 1.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    let high = words.iter().fold(0, |high, word| high | u64::from_ne_bytes(*word));
    let tail = tail.iter().fold(0, |high, byte| high | byte);
    high & 0x8080_8080_8080_8080 == 0 && tail < 0x80
}

/// One native value.
#[derive(Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// Nothing; never encrypted.
    Nil,
    /// `true` or `false`.
    Bool(bool),
    /// An integer that is not negative.
    UInt(u64),
    /// A negative integer.
    Int(i64),
    /// A finite float. A `float 32` is widened by its shortest decimal text.
    Float(f64),
    /// UTF-8 text.
    Str(Text<'a>),
}

impl<'a> From<&'a str> for Scalar<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Scalar::Str(text.into())
    }
}

impl fmt::Debug for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Str(text) => write!(f, "a string of {text:?}"),
            other => other.kind().fmt(f),
        }
    }
}

impl<'a> Scalar<'a> {
    /// The text that an envelope holds for this value, and its type; nothing for nil.
    ///
    /// Integers become decimal digits, floats the text of ECMAScript's `Number::toString`. Strings are borrowed, numbers
    /// are written to `buffer`. The bytes are UTF-8.
    #[inline]
    pub fn text<'s>(&self, buffer: &'s mut NumberBuffer) -> Option<(TextKind, &'s [u8])>
    where
        'a: 's,
    {
        match *self {
            Scalar::Str(text) => Some((TextKind::String, text.as_bytes())),
            Scalar::Nil => None,
            Scalar::Bool(true) => Some((TextKind::Boolean, b"true")),
            Scalar::Bool(false) => Some((TextKind::Boolean, b"false")),
            Scalar::UInt(value) => Some((TextKind::Number, buffer.unsigned(value).as_bytes())),
            Scalar::Int(value) => Some((TextKind::Number, buffer.negative(value).as_bytes())),
            Scalar::Float(value) => Some((TextKind::Number, buffer.float(value).as_bytes())),
        }
    }

    /// The type of the value.
    pub fn kind(&self) -> WireType {
        match self {
            Scalar::Nil => WireType::Nil,
            Scalar::Bool(_) => WireType::Boolean,
            Scalar::UInt(_) | Scalar::Int(_) => WireType::Integer,
            Scalar::Float(_) => WireType::Float,
            Scalar::Str(_) => WireType::String,
        }
    }

    /// The native value of a number's JSON text: an integer where the text is one and fits 64 bits (signed or not),
    /// else the nearest float. `-0` is a float, for its sign.
    ///
    /// # Errors
    /// When the text is no JSON number, or its magnitude is beyond a 64-bit float.
    pub fn from_number_text(text: &str) -> Result<Scalar<'static>, NumberFault> {
        parse_number(text)
    }
}

/// An element of a list that the method cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("field `{field}`, index {index}: {fault}")]
pub struct ValueError {
    /// The list.
    pub field: Field,
    /// Position in the list, from 0. Of 64 bits, so that a value's result is laid out without repacking, which took more
    /// time than reading the value.
    pub index: u64,
    /// The fault.
    pub fault: ValueFault,
}

/// A fault of an element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ValueFault {
    /// Neither nil, boolean, number nor string.
    #[error("expected nil, a boolean, a number or a string, found {0}")]
    NotAScalar(WireType),
    /// A list of strings holds something else.
    #[error("expected a string, found {0}")]
    NotAString(WireType),
    /// A float without a JSON representation.
    #[error("NaN and infinities cannot be represented in JSON")]
    NotFinite,
    /// A string that is not UTF-8.
    #[error("the string is not UTF-8")]
    InvalidUtf8,
    /// A string with more bytes than [`Values::up_to`] allows.
    #[error("the string is longer than expected")]
    TooLong,
    /// The bytes end early or hold 0xc1. Cannot happen to a frame that the scanner passed.
    #[error("not well-formed MessagePack")]
    Malformed,
}

/// A list of values in a frame, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct RawValues<'a> {
    field: Field,
    count: u32,
    reader: WireReader<'a>,
}

impl<'a> RawValues<'a> {
    /// `bytes` begin with `count` values; others may follow, but only the end of the message's containers does.
    pub(crate) fn new(field: Field, count: u32, bytes: &'a [u8]) -> Self {
        RawValues { field, count, reader: WireReader::new(bytes) }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// How many values the list has. Up to `Limits::elements_max`; allocate by it only after the bound has been set so
    /// that the memory is yours to spend.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether the list has no value.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the encoded list; at least as many as all its strings together.
    pub fn size(&self) -> usize {
        self.reader.rest().len()
    }

    /// The values in order. The first error ends the iteration.
    pub fn iter(&self) -> Values<'a> {
        self.iter_from(ValuesPosition::default())
    }

    /// The value at a position if it is a string of more than `size_max` bytes and more than 255, with the position after it: for
    /// strings too long to check at once ([`Values::up_to`]). It is not checked for UTF-8.
    pub fn long_string_at(&self, position: ValuesPosition, size_max: usize) -> Option<(&'a [u8], ValuesPosition)> {
        let mut values = self.iter_from(position).up_to(size_max);
        if values.index == values.count {
            return None;
        }
        match values.reader.head() {
            Ok(ValueHead::String(size)) if size > values.string_size_max => {
                let bytes = values.reader.take(size).ok()?;
                values.index += 1;
                Some((bytes, values.position()))
            }
            _ => None,
        }
    }

    /// Goes on where [`Values::position`] was taken, in the same list (or a copy of its frame). A position of another list
    /// gives errors or wrong values, but no panic.
    pub fn iter_from(&self, position: ValuesPosition) -> Values<'a> {
        let rest = self.reader.rest().get(position.offset..).unwrap_or_default();
        let index = position.index.min(self.count);
        let (size, reader) = (self.size(), WireReader::new(rest));
        Values { field: self.field, index, count: self.count, size, reader, string_size_max: u32::MAX }
    }

    /// The values in order, for lists that hold only strings.
    pub fn strings(&self) -> Strings<'a> {
        Strings { values: self.iter() }
    }

    /// As [`RawValues::iter_from`], for lists that hold only strings.
    pub fn strings_from(&self, position: ValuesPosition) -> Strings<'a> {
        Strings { values: self.iter_from(position) }
    }
}

impl<'a> IntoIterator for RawValues<'a> {
    type Item = Result<Scalar<'a>, ValueError>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

/// A place between two values of a list: all that a request cut into slices must remember, or that another worker needs
/// to start there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuesPosition {
    index: u32,
    offset: usize,
}

impl ValuesPosition {
    /// Index of the next value.
    pub fn index(self) -> u32 {
        self.index
    }
}

/// Iterates over a [`RawValues`]. Costs a few nanoseconds a value and allocates nothing.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    field: Field,
    index: u32,
    count: u32,
    /// Size of the whole list, to compute offsets from the remaining bytes.
    size: usize,
    reader: WireReader<'a>,
    string_size_max: u32,
}

impl<'a> Values<'a> {
    /// The same values, but a string of more than `size_max` bytes and more than 255 is the error [`ValueFault::TooLong`] and is
    /// not validated ([`RawValues::long_string_at`]).
    #[must_use]
    pub fn up_to(self, size_max: usize) -> Self {
        let string_size_max = u32::try_from(size_max).unwrap_or(u32::MAX).max(SHORT_SIZE_MAX);
        Values { string_size_max, ..self }
    }

    /// The current position.
    pub fn position(&self) -> ValuesPosition {
        ValuesPosition { index: self.index, offset: self.size - self.reader.rest().len() }
    }

    /// Passes over up to `count` values without looking at what they are; stops at the end of the list. With
    /// [`Values::position`] it cuts a list into parts for several workers.
    ///
    /// # Errors
    /// [`ValueFault::Malformed`] only.
    pub fn skip_values(&mut self, count: u32) -> Result<(), ValueError> {
        let count = count.min(self.count - self.index);
        if self.reader.skip(u64::from(count)).is_err() {
            return Err(self.fail(ValueFault::Malformed));
        }
        self.index += count;
        Ok(())
    }

    /// As [`Values::skip_values`], but stops after the value that exceeds `size_max` encoded bytes: to cut a list into parts that
    /// are bounded in both. Skips at least one value, if there is one.
    ///
    /// # Errors
    /// [`ValueFault::Malformed`] only.
    pub fn skip_bounded(&mut self, count_max: u32, size_max: usize) -> Result<(), ValueError> {
        let begin = self.reader.rest().len();
        let end = self.index.saturating_add(count_max.max(1)).min(self.count);
        while self.index < end {
            if self.reader.take_short_string().is_none() && self.reader.skip(1).is_err() {
                return Err(self.fail(ValueFault::Malformed));
            }
            self.index += 1;
            if begin - self.reader.rest().len() >= size_max {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn read(&mut self) -> Result<Scalar<'a>, ValueFault> {
        let bytes = match self.reader.take_short_string() {
            Some(bytes) => bytes,
            None => match self.reader.head()? {
                ValueHead::String(size) if size > self.string_size_max => return Err(ValueFault::TooLong),
                ValueHead::String(size) => self.reader.take(size)?,
                other => return read_other(other),
            },
        };
        Text::checked(bytes).map(Scalar::Str).ok_or(ValueFault::InvalidUtf8)
    }

    /// Ends the iteration: after a fault the positions of further values are unknown.
    #[cold]
    fn fail(&mut self, fault: ValueFault) -> ValueError {
        let error = ValueError { field: self.field, index: u64::from(self.index), fault };
        self.index = self.count;
        error
    }
}

impl From<HeadError> for ValueFault {
    fn from(_: HeadError) -> Self {
        ValueFault::Malformed
    }
}

/// Every scalar but strings.
fn read_other<'a>(head: ValueHead) -> Result<Scalar<'a>, ValueFault> {
    match head {
        ValueHead::Nil => Ok(Scalar::Nil),
        ValueHead::Boolean(value) => Ok(Scalar::Bool(value)),
        ValueHead::Unsigned(value) => Ok(Scalar::UInt(value)),
        ValueHead::Negative(value) => Ok(Scalar::Int(value)),
        ValueHead::Float32(value) if value.is_finite() => Ok(Scalar::Float(number::widen(value))),
        ValueHead::Float64(value) if value.is_finite() => Ok(Scalar::Float(value)),
        ValueHead::Float32(_) | ValueHead::Float64(_) => Err(ValueFault::NotFinite),
        ValueHead::String(_)
        | ValueHead::Binary(_)
        | ValueHead::Array(_)
        | ValueHead::Map(_)
        | ValueHead::Extension(_) => Err(ValueFault::NotAScalar(head.kind())),
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Scalar<'a>, ValueError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count {
            return None;
        }
        match self.read() {
            Ok(scalar) => {
                self.index += 1;
                Some(Ok(scalar))
            }
            Err(fault) => Some(Err(self.fail(fault))),
        }
    }

    /// The upper bound is exact without errors; the lower is zero, since an error ends the iteration.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some((self.count - self.index) as usize))
    }
}

impl std::iter::FusedIterator for Values<'_> {}

/// Iterates over the strings of a [`RawValues`].
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    values: Values<'a>,
}

impl Strings<'_> {
    /// As [`Values::up_to`].
    #[must_use]
    pub fn up_to(self, size_max: usize) -> Self {
        Strings { values: self.values.up_to(size_max) }
    }

    /// The current position.
    pub fn position(&self) -> ValuesPosition {
        self.values.position()
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = Result<Text<'a>, ValueError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = u64::from(self.values.index);
        let kind = match self.values.next()? {
            Ok(Scalar::Str(text)) => return Some(Ok(text)),
            Ok(other) => other.kind(),
            Err(ValueError { fault: ValueFault::NotAScalar(kind), .. }) => kind,
            Err(other) => return Some(Err(other)),
        };
        self.values.index = self.values.count;
        Some(Err(ValueError { field: self.values.field, index, fault: ValueFault::NotAString(kind) }))
    }
}

impl std::iter::FusedIterator for Strings<'_> {}

/// See [`Scalar::from_number_text`].
fn parse_number(text: &str) -> Result<Scalar<'static>, NumberFault> {
    let shape = number::number_shape(text.as_bytes()).ok_or(NumberFault::NotANumber)?;
    // −0 is no integer: as one it would lose its sign.
    if shape == number::NumberShape::Integer && text != "-0" {
        if let Ok(value) = text.parse() {
            return Ok(Scalar::UInt(value));
        }
        if let Ok(value) = text.parse() {
            return Ok(Scalar::Int(value));
        }
    }
    let value: f64 = text.parse().map_err(|_| NumberFault::NotANumber)?;
    if value.is_finite() { Ok(Scalar::Float(value)) } else { Err(NumberFault::OutOfRange) }
}
