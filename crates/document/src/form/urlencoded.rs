//! `application/x-www-form-urlencoded`, as browsers write and read it (WHATWG URL, section 5).

use std::ops::Range;

use super::{CHARSET_FIELD, FieldNames, FormError, FormErrorKind, FormLimits, check_charset};

/// A selected field's value: the bytes between its `=` and the next `&`, still encoded.
pub type FieldValue = Range<usize>;

/// The values of the selected fields, in order. A field without `=` has no value and is passed over.
///
/// # Errors
/// More fields than the limits allow, a charset that is not UTF-8, and a field that is selected only where `;` cuts as `&` does.
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
            let is_meant = names.has(&name);
            if is_meant {
                found.push(start + equals + 1..start + field.len());
            }
            if name == CHARSET_FIELD {
                let mut charset = Vec::new();
                decode_bytes(&field[equals + 1..], &mut charset);
                check_charset(&charset, start)?;
            }
            if !is_meant && has_behind_semicolon(field, names, &mut name) {
                return Err(FormError::new(FormErrorKind::Semicolon, start));
            }
        }
        start += field.len() + 1;
    }
    Ok(found)
}

/// Whether a reader for whom `;` cuts fields finds a selected one behind the first.
fn has_behind_semicolon(field: &[u8], names: &FieldNames, name: &mut Vec<u8>) -> bool {
    field.split(|&byte| byte == b';').skip(1).any(|piece| {
        name.clear();
        decode_bytes(piece.split(|&byte| byte == b'=').next().unwrap_or_default(), name);
        names.has(name)
    })
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
