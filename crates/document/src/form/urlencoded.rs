//! `application/x-www-form-urlencoded`, as browsers write and read it (WHATWG URL, section 5).

use std::ops::Range;

use super::{FieldNames, FormError, FormErrorKind, FormLimits};

/// A selected field's value: the bytes between its `=` and the next `&`, still encoded.
pub type FieldValue = Range<usize>;

/// The values of the selected fields, in order. A field without `=` has no value and is passed over.
///
/// # Errors
/// More fields than the limits allow.
pub fn find_fields(body: &[u8], names: &FieldNames, limits: &FormLimits) -> Result<Vec<FieldValue>, FormError> {
    let mut found = Vec::new();
    let mut name = Vec::new();
    let mut start = 0;
    for (index, field) in body.split(|&byte| byte == b'&').enumerate() {
        if index >= limits.fields_max {
            return Err(FormError::new(FormErrorKind::TooManyFields(limits.fields_max), start));
        }
        if let Some(equals) = field.iter().position(|&byte| byte == b'=') {
            name.clear();
            decode_bytes(&field[..equals], &mut name);
            if names.has(&name) {
                found.push(start + equals + 1..start + field.len());
            }
        }
        start += field.len() + 1;
    }
    Ok(found)
}

/// The text of an encoded name or value. A `%` without two hexadecimal digits stands for itself, as browsers and servers have it.
///
/// # Errors
/// What is not UTF-8 once decoded; the offset is 0.
pub fn decode_field(encoded: &[u8]) -> Result<String, FormError> {
    let mut bytes = Vec::with_capacity(encoded.len());
    decode_bytes(encoded, &mut bytes);
    String::from_utf8(bytes).map_err(|_| FormError::new(FormErrorKind::InvalidUtf8, 0))
}

fn decode_bytes(encoded: &[u8], out: &mut Vec<u8>) {
    let mut rest = encoded;
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = if byte == b'%' { tail.first_chunk::<2>().and_then(hex) } else { None };
        match escaped {
            Some(decoded) => {
                out.push(decoded);
                rest = &tail[2..];
            }
            None => {
                out.push(if byte == b'+' { b' ' } else { byte });
                rest = tail;
            }
        }
    }
}

fn hex(digits: &[u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? << 4 | digit(digits[1])?) as u8)
}

/// Appends a text as a form encodes it: letters, digits and `*-._` as they are, a space as `+`, the rest as `%XX`.
pub fn encode_field(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => out.push(byte),
            b' ' => out.push(b'+'),
            _ => out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        }
    }
}
