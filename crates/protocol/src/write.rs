//! Appends MessagePack values to a buffer, each in its shortest format.
//!
//! The elements of messages, for callers that encode answers directly into the outgoing buffer. Lengths and counts above 2^32 − 1
//! cannot be written and are a bug of the caller (the engine limits its answers much earlier).

use crate::values::Scalar;

/// Appends nil.
pub fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Appends a boolean.
pub fn boolean(value: bool, out: &mut Vec<u8>) {
    out.push(if value { 0xc3 } else { 0xc2 });
}

/// Appends an integer that is not negative.
pub fn unsigned(value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
    } else if let Ok(value) = u8::try_from(value) {
        out.extend_from_slice(&[0xcc, value]);
    } else if let Ok(value) = u16::try_from(value) {
        marked(0xcd, value.to_be_bytes(), out);
    } else if let Ok(value) = u32::try_from(value) {
        marked(0xce, value.to_be_bytes(), out);
    } else {
        marked(0xcf, value.to_be_bytes(), out);
    }
}

/// Appends an integer.
pub fn signed(value: i64, out: &mut Vec<u8>) {
    if let Ok(value) = u64::try_from(value) {
        unsigned(value, out);
    } else if value >= -32 {
        out.push(value as u8);
    } else if let Ok(value) = i8::try_from(value) {
        marked(0xd0, value.to_be_bytes(), out);
    } else if let Ok(value) = i16::try_from(value) {
        marked(0xd1, value.to_be_bytes(), out);
    } else if let Ok(value) = i32::try_from(value) {
        marked(0xd2, value.to_be_bytes(), out);
    } else {
        marked(0xd3, value.to_be_bytes(), out);
    }
}

/// Appends a float, as `float 64`.
pub fn float(value: f64, out: &mut Vec<u8>) {
    marked(0xcb, value.to_be_bytes(), out);
}

/// Appends a string.
#[inline]
pub fn string(text: &str, out: &mut Vec<u8>) {
    string_bytes(text.as_bytes(), out);
}

#[inline]
fn string_bytes(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEAD_SIZE_MAX + text.len());
    string_header(text.len(), out);
    out.extend_from_slice(text);
}

/// Appends the head of a string; its `size` bytes of UTF-8 have to follow.
#[inline]
pub fn string_header(size: usize, out: &mut Vec<u8>) {
    match size {
        0..=31 => out.push(0xa0 | size as u8),
        32..=0xff => out.extend_from_slice(&[0xd9, size as u8]),
        _ => out.extend_from_slice(StringHeader::new(size).as_slice()),
    }
}

/// Appends a binary.
pub fn binary(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEAD_SIZE_MAX + bytes.len());
    binary_header(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends the head of a binary; its `size` bytes have to follow.
pub fn binary_header(size: usize, out: &mut Vec<u8>) {
    let size = length(size);
    if let Ok(size) = u8::try_from(size) {
        out.extend_from_slice(&[0xc4, size]);
    } else if let Ok(size) = u16::try_from(size) {
        marked(0xc5, size.to_be_bytes(), out);
    } else {
        marked(0xc6, size.to_be_bytes(), out);
    }
}

/// Appends the head of an array; its elements have to follow.
pub fn array_header(count: usize, out: &mut Vec<u8>) {
    container(0x90, [0xdc, 0xdd], count, out);
}

/// Appends the head of a map; `count` pairs have to follow.
pub fn map_header(count: usize, out: &mut Vec<u8>) {
    container(0x80, [0xde, 0xdf], count, out);
}

/// Appends a native value.
#[inline]
pub fn scalar(value: &Scalar<'_>, out: &mut Vec<u8>) {
    match *value {
        Scalar::Str(text) => string_bytes(text.as_bytes(), out),
        Scalar::Nil => nil(out),
        Scalar::Bool(value) => boolean(value, out),
        Scalar::UInt(value) => unsigned(value, out),
        Scalar::Int(value) => signed(value, out),
        Scalar::Float(value) => float(value, out),
    }
}

/// Longest head of a string, binary, array or map.
pub const HEAD_SIZE_MAX: usize = 5;

/// The head of a string of known size, to be copied before many strings of that size (the envelopes of a batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringHeader {
    bytes: [u8; HEAD_SIZE_MAX],
    size: u8,
}

impl StringHeader {
    /// The head of a string of `string_size` bytes.
    #[inline]
    pub fn new(string_size: usize) -> Self {
        let length = length(string_size);
        let [high, second, third, low] = length.to_be_bytes();
        let (bytes, size) = match length {
            0..=31 => ([0xa0 | low, 0, 0, 0, 0], 1),
            32..=0xff => ([0xd9, low, 0, 0, 0], 2),
            0x100..=0xffff => ([0xda, third, low, 0, 0], 3),
            _ => ([0xdb, high, second, third, low], 5),
        };
        StringHeader { bytes, size }
    }

    /// The bytes of the head: 1, 2, 3 or 5.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }
}

/// A binary whose size is known only when it is written: its head has the long format and is filled in at the end.
#[must_use = "the binary's size is written by `finish`"]
#[derive(Debug)]
pub struct OpenBinary {
    content_start: usize,
}

impl OpenBinary {
    /// Begins a binary at the end of `out`. Bytes appended from now on belong to it.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        marked(0xc6, [0; 4], out);
        OpenBinary { content_start: out.len() }
    }

    /// Ends the binary: everything in `out` since its begin.
    pub fn finish(self, out: &mut [u8]) {
        self.finish_at(out.len(), out);
    }

    /// Ends a binary that continues in other buffers: `end` is the total size of `head`, in which it began, and of the rest.
    pub fn finish_at(self, end: usize, head: &mut [u8]) {
        let size = length(end - self.content_start);
        head[self.content_start - 4..self.content_start].copy_from_slice(&size.to_be_bytes());
    }
}

fn container(short: u8, long: [u8; 2], count: usize, out: &mut Vec<u8>) {
    let count = length(count);
    if count < 16 {
        out.push(short | count as u8);
    } else if let Ok(count) = u16::try_from(count) {
        marked(long[0], count.to_be_bytes(), out);
    } else {
        marked(long[1], count.to_be_bytes(), out);
    }
}

fn marked<const N: usize>(marker: u8, content: [u8; N], out: &mut Vec<u8>) {
    out.push(marker);
    out.extend_from_slice(&content);
}

fn length(length: usize) -> u32 {
    u32::try_from(length).expect("MessagePack carries lengths below 2^32")
}
