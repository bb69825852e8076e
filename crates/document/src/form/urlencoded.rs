//! `application/x-www-form-urlencoded` as browsers write and parse it (WHATWG URL, section 5); queries have the same syntax.

use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::names::{Meaning, push_name_byte};
use super::{CHARSET_FIELD, FieldNames, FormError, FormErrorKind, FormLimits, check_charset};

/// A selected field's value: the bytes between its `=` and the next `&`, still encoded.
pub type FieldValue = Range<usize>;

/// The values of the selected fields, in order. A field without `=` has no value and is skipped.
///
/// # Errors
/// More fields than the limits permit, including those between two `;`; a charset other than UTF-8; a field that is selected only by
/// parsers that separate fields at `;`; and a name that [`FieldNames::guarded`] refuses.
pub fn find_fields(body: &[u8], names: &FieldNames, limits: &FormLimits) -> Result<Vec<FieldValue>, FormError> {
    let mut found = Vec::new();
    let mut reader = NameReader::new(names, limits.fields_max);
    let (mut start, mut count) = (0, 0);
    for field in body.split(|&byte| byte == b'&') {
        count += 1;
        if count > limits.fields_max {
            return Err(FormError::new(FormErrorKind::TooManyFields(limits.fields_max), start));
        }
        if let Some(name) = encoded_name(field) {
            let value = name.len() + 1;
            let meaning = reader.meaning(name);
            if reader.name == CHARSET_FIELD {
                let mut charset = Vec::new();
                decode_bytes(&field[value..], &mut charset);
                check_charset(&charset, start)?;
            }
            match meaning {
                Meaning::Selected => found.push(start + value..start + field.len()),
                Meaning::Ambiguous => return Err(FormError::new(FormErrorKind::AmbiguousName, start)),
                Meaning::Other => {
                    // Everything that could be a field is counted.
                    let left = limits.fields_max - count;
                    count += reader.pass_semicolons(field, left).map_err(|kind| FormError::new(kind, start))?;
                }
            }
        }
        start += field.len() + 1;
    }
    Ok(found)
}

/// Whether a parser that reads any bytes as a form finds a field in them that is selected, or that some parsers read as a selected one,
/// whether it separates fields at `&` alone or at `;` too. In one pass, regardless of the number of fields.
pub fn holds_field(bytes: &[u8], names: &FieldNames) -> bool {
    let mut reader = NameReader::new(names, usize::MAX);
    let mut is_meant = |field: &[u8]| encoded_name(field).is_some_and(|name| reader.meaning(name) != Meaning::Other);
    bytes
        .split(|&byte| byte == b'&')
        .any(|field| is_meant(field) || field.split(|&byte| byte == b';').any(&mut is_meant))
}

/// The name of a field; without `=` it has no value that could be hidden.
fn encoded_name(field: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b'=', field).map(|equals| &field[..equals])
}

/// Decodes names, reusing its memory.
struct NameReader<'n> {
    names: &'n FieldNames,
    head_size: usize,
    padding_max: usize,
    fields_max: usize,
    name: Vec<u8>,
}

impl<'n> NameReader<'n> {
    fn new(names: &'n FieldNames, fields_max: usize) -> Self {
        NameReader {
            names,
            head_size: names.head_size(),
            padding_max: names.padding_max(),
            fields_max,
            name: Vec::new(),
        }
    }

    /// Classifies a field by its encoded name.
    fn meaning(&mut self, encoded: &[u8]) -> Meaning {
        self.name.clear();
        let mut is_whole = true;
        for byte in Decoded(encoded) {
            if self.name.len() >= self.head_size {
                is_whole = false;
                break;
            }
            is_whole &= push_name_byte(byte, &mut self.name, self.padding_max);
        }
        match self.names.meaning(&self.name) {
            Meaning::Selected if !is_whole => self.meaning_of_whole(encoded),
            meaning => meaning,
        }
    }

    /// Classifies a field of which the bytes that were kept are a selected name: long white space may stand around it, and nothing else.
    #[cold]
    fn meaning_of_whole(&self, encoded: &[u8]) -> Meaning {
        let whole: Vec<u8> = Decoded(encoded).collect();
        match self.names.has(&whole) {
            true => Meaning::Selected,
            false => self.names.meaning_of_other(&self.name),
        }
    }

    /// Refuses a field in which a parser that separates fields at `;` finds a selected one after the first. Returns how many there
    /// could be, at most `count_max`.
    fn pass_semicolons(&mut self, field: &[u8], count_max: usize) -> Result<usize, FormErrorKind> {
        let Some(first) = memchr::memchr(b';', field) else { return Ok(0) };
        let mut count = 0;
        for piece in field[first + 1..].split(|&byte| byte == b';') {
            count += 1;
            if count > count_max {
                return Err(FormErrorKind::TooManyFields(self.fields_max));
            }
            if encoded_name(piece).is_some_and(|name| self.meaning(name) != Meaning::Other) {
                return Err(FormErrorKind::Semicolon);
            }
        }
        Ok(count)
    }
}

/// The text of an encoded name or value. A `%` without two hexadecimal digits is literal, as in browsers and servers.
///
/// # Errors
/// If the decoded bytes are not UTF-8; the offset is 0.
pub fn decode_field(encoded: &[u8]) -> Result<String, FormError> {
    let mut bytes = Vec::with_capacity(encoded.len());
    decode_bytes(encoded, &mut bytes);
    String::from_utf8(bytes).map_err(|_| FormError::new(FormErrorKind::InvalidUtf8, 0))
}

fn decode_bytes(encoded: &[u8], out: &mut Vec<u8>) {
    out.extend(Decoded(encoded));
}

/// The decoded bytes.
struct Decoded<'e>(&'e [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let (&byte, tail) = self.0.split_first()?;
        let escaped = if byte == b'%' { tail.first_chunk::<2>().and_then(hex) } else { None };
        self.0 = if escaped.is_some() { &tail[2..] } else { tail };
        Some(escaped.unwrap_or(if byte == b'+' { b' ' } else { byte }))
    }
}

fn hex(digits: &[u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? << 4 | digit(digits[1])?) as u8)
}

/// Characters that a form encodes: all but letters, digits and `*-._`. A space becomes `+`.
const IN_FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_').remove(b' ');
/// Characters that a query encodes: all but unreserved characters (RFC 3986, section 2.3).
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Appends a text in form encoding: letters, digits and `*-._` unchanged, a space as `+`, the rest as `%XX`.
pub fn encode_field(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    encode(text, IN_FORM, out);
    out[start..].iter_mut().filter(|byte| **byte == b' ').for_each(|space| *space = b'+');
}

/// Appends a text in query encoding: unreserved characters unchanged, the rest as `%XX`. A space becomes `%20`, which all parsers decode;
/// some do not decode `+`.
pub fn encode_query(text: &str, out: &mut Vec<u8>) {
    encode(text, IN_QUERY, out);
}

fn encode(text: &str, encoded: &'static AsciiSet, out: &mut Vec<u8>) {
    out.reserve(text.len());
    utf8_percent_encode(text, encoded).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}
