//! `application/x-www-form-urlencoded` as browsers write and parse it (WHATWG URL, section 5); queries have the same syntax.

use std::ops::Range;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::names::{Meaning, has_one_reading, is_padding, own_reading};
use super::{CHARSET_FIELD, CHARSET_SIZE_MAX, FieldNames, FormError, FormErrorKind, FormLimits, check_charset};
use crate::WalkProgress;

/// Steps after which a call of [`FieldReader::read`] returns, unless the name of a field takes more.
const STEPS_PER_CALL: u64 = 64 << 10;
/// Maximum bytes of a value that are searched for its end at once.
const WINDOW_SIZE: usize = 64 << 10;

/// A selected field's value: the bytes between its `=` and the next `&`, still encoded.
pub type FieldValue = Range<usize>;

/// A field, as byte ranges in the form, still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    /// The name: what precedes the first `=`.
    pub name: Range<usize>,
    /// The value; a field without `=` has none.
    pub value: Option<FieldValue>,
    /// Whether it is selected.
    pub is_selected: bool,
}

/// Which fields a reader returns, and what it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedFields {
    /// The selected fields that have a value.
    Selected,
    /// All fields. A guard also refuses names that have more than one reading: they are to be written again.
    All,
    /// The first field that is selected, or that some parser reads as a selected one, whether it separates fields at `&` alone or at `;`
    /// too. Refuses nothing: any bytes are read.
    Any,
}

/// Reads the fields of an urlencoded form or query in calls of bounded work. The form is passed in each call.
#[derive(Debug)]
pub struct FieldReader {
    names: Arc<FieldNames>,
    limits: FormLimits,
    wanted: WantedFields,
    at: usize,
    /// The text as read by parsers that separate fields at `&` alone.
    field: Name,
    /// The text after a `;`, as read by parsers that separate fields there too.
    piece: Name,
    /// The end of the field's name, and its meaning, once known.
    named: Option<(usize, Meaning)>,
    count: usize,
    fields: Vec<FormField>,
    steps: u64,
}

impl FieldReader {
    /// How many steps a byte of a form takes at most: it is passed once, and its name is read by parsers of two kinds.
    pub const STEPS_PER_BYTE: u64 = 1 + 2 * super::names::NAME_READINGS;

    /// Starts to read a form.
    pub fn new(names: Arc<FieldNames>, limits: FormLimits, wanted: WantedFields) -> Self {
        let (field, piece) = (Name::new(&names, &limits), Name { is_open: false, ..Name::new(&names, &limits) });
        FieldReader { names, limits, wanted, at: 0, field, piece, named: None, count: 1, fields: Vec::new(), steps: 0 }
    }

    /// Reads on: at most about 64 KiB, less where names take much work.
    ///
    /// # Errors
    /// More fields than the limits permit, including those between two `;`; a charset other than UTF-8; a field that is selected only by
    /// parsers that separate fields at `;`; and a name that [`FieldNames::guarded`] refuses, or that is too long for it.
    pub fn read(&mut self, body: &[u8]) -> Result<WalkProgress, FormError> {
        let until = self.steps + STEPS_PER_CALL;
        while self.steps < until {
            if self.has_found() {
                return Ok(WalkProgress::Done);
            }
            match body.get(self.at) {
                Some(&byte) => self.advance(body, byte)?,
                None => {
                    self.end_field(body)?;
                    return Ok(WalkProgress::Done);
                }
            }
        }
        Ok(WalkProgress::More)
    }

    /// The fields that have been read.
    pub fn into_fields(self) -> Vec<FormField> {
        self.fields
    }

    /// Whether a field has been found of those that [`Wanted::Any`] looks for.
    pub fn has_found(&self) -> bool {
        self.wanted == WantedFields::Any && !self.fields.is_empty()
    }

    /// The work so far, in bytes read: at most [`FieldReader::STEPS_PER_BYTE`] times the form.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn advance(&mut self, body: &[u8], byte: u8) -> Result<(), FormError> {
        if !(self.field.is_reading() || self.piece.is_reading()) {
            return self.skip(body);
        }
        self.steps += 1;
        match byte {
            b'&' => self.separate(body)?,
            b';' => self.begin_piece()?,
            b'=' => self.equals(body)?,
            _ => {
                let (byte, size) = decoded(&body[self.at..]);
                self.steps += size as u64 - 1;
                self.field.push(byte);
                self.piece.push(byte);
                self.at += size;
            }
        }
        Ok(())
    }

    /// Passes bytes that belong to no name.
    fn skip(&mut self, body: &[u8]) -> Result<(), FormError> {
        let window = &body[self.at..body.len().min(self.at + WINDOW_SIZE)];
        let awaits_equals = self.field.is_open || self.piece.is_open;
        let found = match awaits_equals {
            true => memchr::memchr3(b'&', b';', b'=', window),
            false => memchr::memchr2(b'&', b';', window),
        };
        let size = found.unwrap_or(window.len());
        self.steps += size as u64 + 1;
        self.at += size;
        for name in [&mut self.field, &mut self.piece] {
            name.size += if name.is_open { size } else { 0 };
        }
        match found.map(|at| window[at]) {
            None => Ok(()),
            Some(b'&') => self.separate(body),
            Some(b';') => self.begin_piece(),
            Some(_) => self.equals(body),
        }
    }

    /// At an `&`.
    fn separate(&mut self, body: &[u8]) -> Result<(), FormError> {
        self.end_field(body)?;
        self.at += 1;
        self.field.begin(self.at);
        self.piece.is_open = false;
        self.named = None;
        self.count_one()
    }

    /// At a `;`.
    fn begin_piece(&mut self) -> Result<(), FormError> {
        self.field.push(b';');
        self.at += 1;
        if matches!(self.named, Some((_, Meaning::Selected))) {
            return Ok(());
        }
        self.piece.begin(self.at);
        self.count_one()
    }

    fn count_one(&mut self) -> Result<(), FormError> {
        self.count += 1;
        if self.count > self.limits.fields_max && self.wanted != WantedFields::Any {
            return self.error(FormErrorKind::TooManyFields(self.limits.fields_max));
        }
        Ok(())
    }

    fn error<T>(&self, kind: FormErrorKind) -> Result<T, FormError> {
        Err(FormError::new(kind, self.field.start))
    }

    /// At an `=`.
    fn equals(&mut self, body: &[u8]) -> Result<(), FormError> {
        if std::mem::take(&mut self.field.is_open) {
            let meaning = self.meaning_of_field(body)?;
            self.named = Some((self.at, meaning));
            if meaning == Meaning::Selected {
                self.piece.is_open = false;
            }
        }
        if std::mem::take(&mut self.piece.is_open) && self.piece.meaning(&self.names, &mut self.steps) != Meaning::Other
        {
            match self.wanted {
                WantedFields::Any => self.found(self.piece.start..self.at, None),
                WantedFields::Selected | WantedFields::All => return self.error(FormErrorKind::Semicolon),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Classifies the field by the name that ends here.
    fn meaning_of_field(&mut self, body: &[u8]) -> Result<Meaning, FormError> {
        let meaning = self.field.meaning(&self.names, &mut self.steps);
        if self.wanted == WantedFields::Any {
            if meaning != Meaning::Other {
                self.found(self.field.start..self.at, None);
            }
            return Ok(meaning);
        }
        if self.field.size > self.limits.name_size_max {
            if self.names.is_guarded() {
                return self.error(FormErrorKind::NameTooLong(self.limits.name_size_max));
            }
            return Ok(if self.names.is_everything() { Meaning::Selected } else { Meaning::Other });
        }
        let raw = &body[self.field.start..self.at];
        let meaning = match meaning {
            // Long white space may stand around a selected name, and nothing else.
            Meaning::Selected if self.field.is_cut() => {
                let whole: Vec<u8> = PercentDecoded(raw).collect();
                match self.names.has(&whole) {
                    true => Meaning::Selected,
                    false => self.names.meaning_of_other(&self.field.text, &mut self.steps),
                }
            }
            meaning => meaning,
        };
        let is_written = self.wanted == WantedFields::All && self.names.is_guarded();
        let is_plain = || {
            has_one_reading(&self.field.text)
                || has_one_reading(own_reading(&self.field.text)) && meaning == Meaning::Selected
        };
        if meaning == Meaning::Ambiguous || is_written && !is_plain() {
            return self.error(FormErrorKind::AmbiguousName);
        }
        Ok(meaning)
    }

    fn found(&mut self, name: Range<usize>, value: Option<FieldValue>) {
        self.fields.push(FormField { name, value, is_selected: true });
    }

    /// At the end of a field.
    fn end_field(&mut self, body: &[u8]) -> Result<(), FormError> {
        let end = self.at;
        let Some((equals, meaning)) = self.named else {
            // A name without `=` has no value that could be hidden.
            if self.wanted == WantedFields::All {
                let meaning = self.meaning_of_field(body)?;
                let is_selected = meaning == Meaning::Selected;
                self.fields.push(FormField { name: self.field.start..end, value: None, is_selected });
            }
            return Ok(());
        };
        let value = equals + 1..end;
        if self.field.text == CHARSET_FIELD && self.wanted != WantedFields::Any {
            let encoded = &body[value.clone()];
            // Three characters encode one.
            let charset: Vec<u8> = PercentDecoded(&encoded[..encoded.len().min(3 * CHARSET_SIZE_MAX)]).collect();
            check_charset(&charset, encoded.len() > 3 * CHARSET_SIZE_MAX, self.field.start)?;
        }
        let is_selected = meaning == Meaning::Selected;
        if self.wanted == WantedFields::All || self.wanted == WantedFields::Selected && is_selected {
            self.fields.push(FormField { name: self.field.start..equals, value: Some(value), is_selected });
        }
        Ok(())
    }
}

/// The name that is being read, decoded, as far as it determines a meaning.
#[derive(Debug)]
struct Name {
    start: usize,
    /// The first bytes, without padding beyond `padding_max`.
    text: Vec<u8>,
    /// The decoded size so far.
    size: usize,
    is_padding: bool,
    /// Whether no `=` has ended it yet.
    is_open: bool,
    padding_max: usize,
    size_max: usize,
}

impl Name {
    fn new(names: &FieldNames, limits: &FormLimits) -> Self {
        let (padding_max, size_max) = (names.padding_max(), limits.name_size_max);
        Name { start: 0, text: Vec::new(), size: 0, is_padding: true, is_open: true, padding_max, size_max }
    }

    fn begin(&mut self, start: usize) {
        (self.start, self.size, self.is_padding, self.is_open) = (start, 0, true, true);
        self.text.clear();
    }

    /// Whether further bytes determine the meaning.
    fn is_reading(&self) -> bool {
        self.is_open && self.text.len() < self.size_max
    }

    fn push(&mut self, byte: u8) {
        if !self.is_open {
            return;
        }
        self.size += 1;
        let is_dropped = self.is_padding && self.text.len() >= self.padding_max && is_padding(byte);
        if self.text.len() < self.size_max && !is_dropped {
            self.is_padding &= is_padding(byte);
            self.text.push(byte);
        }
    }

    /// Whether bytes of the name were dropped.
    fn is_cut(&self) -> bool {
        self.size > self.text.len()
    }

    fn meaning(&self, names: &FieldNames, steps: &mut u64) -> Meaning {
        names.meaning(&self.text, steps)
    }
}

/// The values of the selected fields, in order. A field without `=` has no value and is skipped.
///
/// # Errors
/// As [`FieldReader::read`].
pub fn find_fields(body: &[u8], names: &FieldNames, limits: &FormLimits) -> Result<Vec<FieldValue>, FormError> {
    let mut reader = FieldReader::new(Arc::new(names.clone()), limits.clone(), WantedFields::Selected);
    while reader.read(body)? == WalkProgress::More {}
    Ok(reader.into_fields().into_iter().filter_map(|field| field.value).collect())
}

/// Whether a parser that reads any bytes as a form finds a field in them that is selected, or that some parsers read as a selected one.
/// See [`Wanted::Any`].
pub fn holds_field(bytes: &[u8], names: &FieldNames, limits: &FormLimits) -> bool {
    let mut reader = FieldReader::new(Arc::new(names.clone()), limits.clone(), WantedFields::Any);
    while reader.read(bytes) == Ok(WalkProgress::More) {}
    reader.has_found()
}

/// How a name or value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// In a form: letters, digits and `*-._` unchanged, a space as `+`, the rest as `%XX`.
    Form,
    /// In a query: unreserved characters unchanged, the rest as `%XX`. A space becomes `%20`, which all parsers decode; some do not decode
    /// `+`.
    Query,
}

impl Syntax {
    /// Appends a text.
    pub fn encode(self, text: &[u8], out: &mut Vec<u8>) {
        let (set, start) = (if self == Syntax::Form { IN_FORM } else { IN_QUERY }, out.len());
        out.reserve(text.len());
        percent_encode(text, set).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        if self == Syntax::Form {
            out[start..].iter_mut().filter(|byte| **byte == b' ').for_each(|space| *space = b'+');
        }
    }

    /// Appends what about `size` bytes at the start of a longer text encode, in either syntax. Returns how many they are: no escape is
    /// divided.
    pub fn decode(encoded: &[u8], size: usize, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while at < size {
            let (byte, taken) = decoded(&encoded[at..]);
            out.push(byte);
            at += taken;
        }
        at
    }

    /// Appends an encoded name as the relay reads it: decoded, up to a null byte and without surrounding white space if that is a selected
    /// name, and encoded again.
    pub fn encode_name(self, encoded: &[u8], is_selected: bool, out: &mut Vec<u8>) {
        let name: Vec<u8> = PercentDecoded(encoded).collect();
        self.encode(if is_selected { own_reading(&name) } else { &name }, out);
    }

    /// Appends an encoded value unchanged, except for `;`, at which some parsers separate fields.
    pub fn copy_value(encoded: &[u8], out: &mut Vec<u8>) {
        let mut pieces = encoded.split(|&byte| byte == b';');
        out.extend_from_slice(pieces.next().unwrap_or_default());
        for piece in pieces {
            out.extend_from_slice(b"%3B");
            out.extend_from_slice(piece);
        }
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
    out.extend(PercentDecoded(encoded));
}

/// The decoded bytes.
struct PercentDecoded<'e>(&'e [u8]);

impl Iterator for PercentDecoded<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        if self.0.is_empty() {
            return None;
        }
        let (byte, size) = decoded(self.0);
        self.0 = &self.0[size..];
        Some(byte)
    }
}

/// The first byte of an encoded text, which is not empty, and the size of its encoding.
#[inline]
fn decoded(encoded: &[u8]) -> (u8, usize) {
    match encoded {
        [b'%', digits @ ..] => match digits.first_chunk::<2>().and_then(hex) {
            Some(byte) => (byte, 3),
            None => (b'%', 1),
        },
        [b'+', ..] => (b' ', 1),
        _ => (encoded[0], 1),
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
