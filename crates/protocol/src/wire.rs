//! MessagePack's byte level: the head of a value (marker, length, or a short value itself) and a cursor over heads.
//!
//! Own code rather than `rmp`: the scanner needs heads that may be cut off anywhere, and reading a list costs less than
//! half of what it does there (`benches/frames.rs`). Formats: <https://github.com/msgpack/msgpack/blob/master/spec.md>. Every
//! encoding that the specification allows is accepted, the shortest or not.

use std::fmt;

use crate::WireType;

/// The head of a value. Lengths are in bytes, counts in elements or pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValueHead {
    Nil,
    Boolean(bool),
    /// Any integer that is not negative, whichever format it came in.
    Unsigned(u64),
    /// A negative integer.
    Negative(i64),
    Float32(f32),
    Float64(f64),
    String(u32),
    Binary(u32),
    Array(u32),
    Map(u32),
    /// Length of the data; the type byte that precedes the data is part of the head.
    Extension(u32),
}

impl ValueHead {
    pub(crate) fn kind(self) -> WireType {
        match self {
            ValueHead::Nil => WireType::Nil,
            ValueHead::Boolean(_) => WireType::Boolean,
            ValueHead::Unsigned(_) | ValueHead::Negative(_) => WireType::Integer,
            ValueHead::Float32(_) | ValueHead::Float64(_) => WireType::Float,
            ValueHead::String(_) => WireType::String,
            ValueHead::Binary(_) => WireType::Binary,
            ValueHead::Array(_) => WireType::Array,
            ValueHead::Map(_) => WireType::Map,
            ValueHead::Extension(_) => WireType::Extension,
        }
    }

    /// Bytes that follow the head and hold no further values.
    pub(crate) fn payload_size(self) -> u64 {
        match self {
            ValueHead::String(size) | ValueHead::Binary(size) | ValueHead::Extension(size) => u64::from(size),
            _ => 0,
        }
    }

    /// Values that follow the head.
    pub(crate) fn values_inside(self) -> u64 {
        match self {
            ValueHead::Array(count) => u64::from(count),
            ValueHead::Map(count) => 2 * u64::from(count),
            _ => 0,
        }
    }
}

/// Why no head could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// The bytes end inside the value.
    Truncated,
    /// 0xc1, which the specification never uses.
    Reserved,
}

/// Reads the head at the front of `bytes`; returns it and its size in bytes.
#[inline]
pub(crate) fn read_head(bytes: &[u8]) -> Result<(ValueHead, usize), HeadError> {
    let marker = *bytes.first().ok_or(HeadError::Truncated)?;
    Ok(match marker {
        0x00..=0x7f => (ValueHead::Unsigned(u64::from(marker)), 1),
        0x80..=0x8f => (ValueHead::Map(u32::from(marker & 0x0f)), 1),
        0x90..=0x9f => (ValueHead::Array(u32::from(marker & 0x0f)), 1),
        0xa0..=0xbf => (ValueHead::String(u32::from(marker & 0x1f)), 1),
        0xd9 => (ValueHead::String(u32::from(u8::from_be_bytes(after_marker(bytes)?))), 2),
        0xc0 => (ValueHead::Nil, 1),
        0xc1 => return Err(HeadError::Reserved),
        0xc2 => (ValueHead::Boolean(false), 1),
        0xc3 => (ValueHead::Boolean(true), 1),
        0xe0..=0xff => (ValueHead::Negative(i64::from(marker as i8)), 1),
        _ => return read_long_head(marker, bytes),
    })
}

/// The formats of two bytes and more, except the common `str 8`.
fn read_long_head(marker: u8, bytes: &[u8]) -> Result<(ValueHead, usize), HeadError> {
    let length_8 = || after_marker(bytes).map(|b| u32::from(u8::from_be_bytes(b)));
    let length_16 = || after_marker(bytes).map(|b| u32::from(u16::from_be_bytes(b)));
    let length_32 = || after_marker(bytes).map(u32::from_be_bytes);
    Ok(match marker {
        0xc4 => (ValueHead::Binary(length_8()?), 2),
        0xc5 => (ValueHead::Binary(length_16()?), 3),
        0xc6 => (ValueHead::Binary(length_32()?), 5),
        // The type byte of an extension follows its length, and counts to the head.
        0xc7 => (ValueHead::Extension(with_type(bytes, 2, length_8()?)?), 3),
        0xc8 => (ValueHead::Extension(with_type(bytes, 3, length_16()?)?), 4),
        0xc9 => (ValueHead::Extension(with_type(bytes, 5, length_32()?)?), 6),
        0xca => (ValueHead::Float32(f32::from_be_bytes(after_marker(bytes)?)), 5),
        0xcb => (ValueHead::Float64(f64::from_be_bytes(after_marker(bytes)?)), 9),
        0xcc => (ValueHead::Unsigned(u64::from(u8::from_be_bytes(after_marker(bytes)?))), 2),
        0xcd => (ValueHead::Unsigned(u64::from(u16::from_be_bytes(after_marker(bytes)?))), 3),
        0xce => (ValueHead::Unsigned(u64::from(u32::from_be_bytes(after_marker(bytes)?))), 5),
        0xcf => (ValueHead::Unsigned(u64::from_be_bytes(after_marker(bytes)?)), 9),
        0xd0 => (signed(i64::from(i8::from_be_bytes(after_marker(bytes)?))), 2),
        0xd1 => (signed(i64::from(i16::from_be_bytes(after_marker(bytes)?))), 3),
        0xd2 => (signed(i64::from(i32::from_be_bytes(after_marker(bytes)?))), 5),
        0xd3 => (signed(i64::from_be_bytes(after_marker(bytes)?)), 9),
        0xd4..=0xd8 => (ValueHead::Extension(with_type(bytes, 1, 1 << (marker - 0xd4))?), 2),
        0xda => (ValueHead::String(length_16()?), 3),
        0xdb => (ValueHead::String(length_32()?), 5),
        0xdc => (ValueHead::Array(length_16()?), 3),
        0xdd => (ValueHead::Array(length_32()?), 5),
        0xde => (ValueHead::Map(length_16()?), 3),
        0xdf => (ValueHead::Map(length_32()?), 5),
        _ => unreachable!("read_head takes every other marker"),
    })
}

#[inline]
fn after_marker<const N: usize>(bytes: &[u8]) -> Result<[u8; N], HeadError> {
    bytes.get(1..).and_then(|rest| rest.first_chunk()).copied().ok_or(HeadError::Truncated)
}

fn with_type(bytes: &[u8], type_at: usize, length: u32) -> Result<u32, HeadError> {
    if bytes.len() > type_at { Ok(length) } else { Err(HeadError::Truncated) }
}

fn signed(value: i64) -> ValueHead {
    u64::try_from(value).map_or(ValueHead::Negative(value), ValueHead::Unsigned)
}

/// A cursor over the values of a frame. It never panics and never moves past the end, whatever the bytes are.
#[derive(Clone, Copy)]
pub(crate) struct WireReader<'a> {
    bytes: &'a [u8],
}

impl fmt::Debug for WireReader<'_> {
    /// The size only: the bytes are plaintext.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        WireReader { bytes }
    }

    /// The bytes not yet read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn head(&mut self) -> Result<ValueHead, HeadError> {
        let (head, size) = read_head(self.bytes)?;
        self.bytes = &self.bytes[size..];
        Ok(head)
    }

    #[inline]
    pub(crate) fn take(&mut self, size: u32) -> Result<&'a [u8], HeadError> {
        let (taken, rest) = self.bytes.split_at_checked(size as usize).ok_or(HeadError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes a string of up to 255 bytes; advances only if there is one. A fast path for lists of strings that bypasses the general
    /// head.
    #[inline]
    pub(crate) fn take_short_string(&mut self) -> Option<&'a [u8]> {
        let (size, content) = match self.bytes {
            [marker @ 0xa0..=0xbf, content @ ..] => (marker & 0x1f, content),
            [0xd9, size, content @ ..] => (*size, content),
            _ => return None,
        };
        let (taken, rest) = content.split_at_checked(usize::from(size))?;
        self.bytes = rest;
        Some(taken)
    }

    /// Passes over `count` values and everything inside them; without recursion, so depth costs nothing.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), HeadError> {
        let mut pending = count;
        while pending > 0 {
            pending = pending - 1 + self.skip_head()?;
        }
        Ok(())
    }

    /// As [`WireReader::skip`], but passes over no more than `values_left` values in all, which it lessens.
    ///
    /// # Errors
    /// Where they end before the values do, the same as for bytes that end.
    pub(crate) fn skip_within(&mut self, count: u64, values_left: &mut u32) -> Result<(), HeadError> {
        let mut pending = count;
        while pending > 0 {
            *values_left = values_left.checked_sub(1).ok_or(HeadError::Truncated)?;
            pending = pending - 1 + self.skip_head()?;
        }
        Ok(())
    }

    /// Passes over a head and its payload; gives the number of values inside.
    #[inline]
    fn skip_head(&mut self) -> Result<u64, HeadError> {
        let head = self.head()?;
        let payload = usize::try_from(head.payload_size()).map_err(|_| HeadError::Truncated)?;
        self.bytes = self.bytes.get(payload..).ok_or(HeadError::Truncated)?;
        Ok(head.values_inside())
    }

    /// Takes everything that is left.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }
}
