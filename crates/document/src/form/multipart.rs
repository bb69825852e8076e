//! `multipart/form-data` (RFC 7578 over RFC 2046), parsed strictly.
//!
//! Nothing precedes the first boundary or follows the last, lines end in CRLF, and the boundary occurs only between parts, so that more
//! lenient parsers find the same parts.

use std::ops::Range;
use std::sync::Arc;

use super::media_type::{BOUNDARY_SIZE_MAX, MediaType, is_token, parameter};
use super::names::{Meaning, has_one_reading, own_reading};
use super::{
    CHARSET_FIELD, CHARSET_SIZE_MAX, FieldNames, FormError, FormErrorKind, FormLimits, WantedFields, check_charset,
};
use crate::WalkProgress;

/// The field that names a part.
const DISPOSITION: &str = "content-disposition";
/// Maximum number of parameters of that field: clients write two or three.
const PARAMETERS_MAX: usize = 8;
/// How often a byte of a part's header is read at most.
const HEADER_READINGS: u64 = 16;
/// Steps after which a call of [`PartReader::read`] returns, unless the name of a part takes more.
const STEPS_PER_CALL: u64 = 64 << 10;
/// Bytes that are searched for a boundary at once.
const WINDOW_SIZE: usize = 64 << 10;

/// A selected part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartPart {
    /// Its content.
    pub content: Range<usize>,
    /// Whether it has a file name: its content is bytes and not text.
    pub is_file: bool,
    /// The header line, including its line end, that states the length of the content, which a replacement would make wrong.
    pub length_line: Option<Range<usize>>,
}

/// The header of a part as the relay reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// The name.
    pub name: String,
    /// The file's name, without a path by backslashes.
    pub file_name: Option<String>,
    /// The type of the content in lower case, without parameters.
    pub media_type: Option<String>,
    /// Whether the part is selected.
    pub is_selected: bool,
}

impl PartHead {
    /// Appends the header, with the empty line that ends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut quoted = |before: &str, text: &str| {
            out.extend_from_slice(before.as_bytes());
            // As browsers write it (HTML, section 4.10.21.8).
            out.extend_from_slice(text.replace('"', "%22").as_bytes());
            out.push(b'"');
        };
        quoted("Content-Disposition: form-data; name=\"", &self.name);
        if let Some(file_name) = &self.file_name {
            quoted("; filename=\"", file_name);
        }
        if let Some(media_type) = &self.media_type {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(media_type.as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Reads the parts of a body in calls of bounded work. The body is passed in each call.
#[derive(Debug)]
pub struct PartReader {
    names: Arc<FieldNames>,
    limits: FormLimits,
    wanted: WantedFields,
    /// Two dashes and the boundary.
    dashes: Vec<u8>,
    /// Where the part begins that is read, after the line end of its boundary; 0 before the first.
    start: usize,
    /// Where the search for its end continues.
    searched: usize,
    count: usize,
    parts: Vec<MultipartPart>,
    heads: Vec<PartHead>,
    steps: u64,
}

impl PartReader {
    /// How many steps a byte of a body takes at most: it is searched for the boundary, read as part of a header, and of a name.
    pub const STEPS_PER_BYTE: u64 = 2 + HEADER_READINGS + 2 + super::names::NAME_READINGS;

    /// Starts to read a body: with [`Wanted::Selected`] the selected parts, with [`Wanted::All`] all, with their headers; those that have
    /// more than one reading are refused then.
    ///
    /// # Errors
    /// If the boundary is not one.
    pub fn new(
        boundary: &str,
        names: Arc<FieldNames>,
        limits: FormLimits,
        wanted: WantedFields,
    ) -> Result<Self, FormError> {
        if boundary.is_empty() || boundary.len() > BOUNDARY_SIZE_MAX || !boundary.bytes().all(is_boundary_byte) {
            return Err(FormError::new(FormErrorKind::NoBoundary, 0));
        }
        let dashes = [b"--", boundary.as_bytes()].concat();
        let (parts, heads) = (Vec::new(), Vec::new());
        Ok(PartReader { names, limits, wanted, dashes, start: 0, searched: 0, count: 0, parts, heads, steps: 0 })
    }

    /// Reads on: at most about 64 KiB, less where names take much work.
    ///
    /// # Errors
    /// The first violation of RFC 7578, or ambiguity between parsers.
    pub fn read(&mut self, body: &[u8]) -> Result<WalkProgress, FormError> {
        let until = self.steps + STEPS_PER_CALL;
        if self.start == 0 {
            if !body.starts_with(&self.dashes) {
                return Err(FormError::new(FormErrorKind::NoBoundary, 0));
            }
            if self.begin_part(body, self.dashes.len())? == WalkProgress::Done {
                return Ok(WalkProgress::Done);
            }
        }
        while self.steps < until {
            if let Some(next) = self.next_boundary(body)?
                && self.end_part(body, next)? == WalkProgress::Done
            {
                return Ok(WalkProgress::Done);
            }
        }
        Ok(WalkProgress::More)
    }

    /// The parts that have been read.
    pub fn into_parts(self) -> Vec<MultipartPart> {
        self.parts
    }

    /// The same with their headers, if all were wanted.
    pub fn into_parts_with_heads(self) -> Vec<(MultipartPart, PartHead)> {
        self.parts.into_iter().zip(self.heads).collect()
    }

    /// The work so far, in bytes read: at most [`PartReader::STEPS_PER_BYTE`] times the body.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// After a boundary, which is the last one if the form is done.
    fn begin_part(&mut self, body: &[u8], at: usize) -> Result<WalkProgress, FormError> {
        let error = |kind, offset| Err(FormError::new(kind, offset));
        let rest = &body[at..];
        if let Some(epilogue) = rest.strip_prefix(b"--") {
            return match epilogue {
                b"" | b"\r\n" => Ok(WalkProgress::Done),
                _ => error(FormErrorKind::TrailingData, at + 2),
            };
        }
        if !rest.starts_with(b"\r\n") {
            let kind = if rest.is_empty() { FormErrorKind::UnexpectedEnd } else { FormErrorKind::StrayBoundary };
            return error(kind, at);
        }
        self.count += 1;
        if self.count > self.limits.fields_max {
            return error(FormErrorKind::TooManyFields(self.limits.fields_max), at);
        }
        (self.start, self.searched) = (at + 2, at + 2);
        Ok(WalkProgress::More)
    }

    /// The next boundary, if it begins in the next window of the body.
    fn next_boundary(&mut self, body: &[u8]) -> Result<Option<usize>, FormError> {
        let end = body.len().min(self.searched + WINDOW_SIZE);
        let found = memchr::memmem::find(&body[self.searched..end], &self.dashes).map(|at| self.searched + at);
        self.steps += (found.unwrap_or(end) - self.searched + self.dashes.len()) as u64;
        if found.is_none() && end == body.len() {
            return Err(FormError::new(FormErrorKind::UnexpectedEnd, body.len()));
        }
        // A boundary may begin in this window and end in the next.
        self.searched = found.unwrap_or(end - (self.dashes.len() - 1));
        Ok(found)
    }

    /// Reads the part that ends before the boundary at `next`.
    fn end_part(&mut self, body: &[u8], next: usize) -> Result<WalkProgress, FormError> {
        // The line end before a boundary belongs to the boundary.
        let start = self.start;
        let Some(end) = next.checked_sub(2).filter(|&end| end >= start && &body[end..next] == b"\r\n") else {
            return Err(FormError::new(FormErrorKind::StrayBoundary, next));
        };
        self.part(body, start, end)?;
        self.begin_part(body, next + self.dashes.len())
    }

    /// Parses the part from `start` to `end`.
    fn part(&mut self, body: &[u8], start: usize, end: usize) -> Result<(), FormError> {
        let error = |kind| FormError::new(kind, start);
        let size_max = self.limits.part_header_size_max;
        let head = &body[start..end.min(start.saturating_add(size_max))];
        // A header without lines would have no name.
        let length = memchr::memmem::find(head, b"\r\n\r\n");
        let Some(length) = length else {
            return Err(error(FormErrorKind::HeaderTooLong(size_max)));
        };
        self.steps += HEADER_READINGS * length as u64;
        let header = Header::read(&head[..length]).map_err(error)?;
        if header.has_parts {
            return Err(error(FormErrorKind::EncodedPart));
        }
        let content = start + length + 4..end;
        if header.names.iter().any(|name| name.as_bytes() == CHARSET_FIELD) {
            let value = &body[content.clone()];
            let size = value.len().min(CHARSET_SIZE_MAX);
            check_charset(&value[..size], size < value.len(), start)?;
        }
        let meaning = header.meaning(&self.names, self.limits.name_size_max, &mut self.steps).map_err(error)?;
        let is_selected = meaning == Meaning::Selected;
        if !is_selected && self.wanted != WantedFields::All {
            return Ok(());
        }
        if header.is_encoded || (header.is_foreign && !header.is_file) {
            return Err(error(FormErrorKind::EncodedPart));
        }
        let length_line = header.length_line.clone().map(|line| start + line.start..start + line.end);
        self.parts.push(MultipartPart { content, is_file: header.is_file, length_line });
        if self.wanted == WantedFields::All {
            self.heads.push(header.into_head(is_selected).map_err(error)?);
        }
        Ok(())
    }
}

/// Finds the selected parts of a body, in order.
///
/// # Errors
/// As [`PartReader::read`].
pub fn find_parts(
    body: &[u8],
    boundary: &str,
    names: &FieldNames,
    limits: &FormLimits,
) -> Result<Vec<MultipartPart>, FormError> {
    let mut reader = PartReader::new(boundary, Arc::new(names.clone()), limits.clone(), WantedFields::Selected)?;
    while reader.read(body)? == WalkProgress::More {}
    Ok(reader.into_parts())
}

/// RFC 2046, section 5.1.1, without the space that mail allows, and without the comma, at which PHP and Rack end a boundary.
fn is_boundary_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+_-./:=?".contains(&byte)
}

/// The content of a part's header.
#[derive(Default)]
struct Header {
    /// The possible readings of the name: escapes of quoted strings decoded or not, those of browsers decoded or not.
    names: Vec<String>,
    /// Whether all parsers agree on the text of the name: it has no escape, nor a `;`, at which some end a parameter.
    has_plain_name: bool,
    is_file: bool,
    /// The file's name, if it can be read.
    file_name: Option<String>,
    is_encoded: bool,
    /// Whether its content is text in a charset other than UTF-8.
    is_foreign: bool,
    has_parts: bool,
    /// The values of `Content-Type`, without parameters; `None` for one that cannot be parsed.
    media_types: Vec<Option<String>>,
    length_line: Option<Range<usize>>,
}

impl Header {
    /// Classifies the part by its name, in any of its readings. A guard refuses a name that has several.
    fn meaning(&self, names: &FieldNames, size_max: usize, steps: &mut u64) -> Result<Meaning, FormErrorKind> {
        if names.is_guarded() {
            if self.names.iter().any(|name| name.len() > size_max) {
                return Err(FormErrorKind::NameTooLong(size_max));
            }
            let is_plain = self.has_plain_name && self.names.iter().all(|name| has_one_reading(name.as_bytes()));
            if !is_plain {
                return Err(FormErrorKind::AmbiguousName);
            }
        }
        let mut found = Meaning::Other;
        for name in &self.names {
            match names.meaning(name.as_bytes(), steps) {
                Meaning::Selected => found = Meaning::Selected,
                Meaning::Ambiguous => return Err(FormErrorKind::AmbiguousName),
                Meaning::Other => {}
            }
        }
        Ok(found)
    }

    /// The header as it is written again.
    fn into_head(self, is_selected: bool) -> Result<PartHead, FormErrorKind> {
        if self.is_file && self.file_name.as_ref().is_none_or(|name| names_a_name(name)) {
            return Err(FormErrorKind::InvalidDisposition);
        }
        let name = self.names.into_iter().next().ok_or(FormErrorKind::InvalidDisposition)?;
        let name = match is_selected {
            true => String::from_utf8_lossy(own_reading(name.as_bytes())).into_owned(),
            false => name,
        };
        let media_type = match <[Option<String>; 1]>::try_from(self.media_types) {
            Ok([Some(media_type)]) => Some(media_type),
            // A text in a type that cannot be parsed has been refused.
            Ok([None]) => Some("application/octet-stream".to_owned()),
            Err(types) if types.is_empty() => None,
            Err(_) => return Err(FormErrorKind::InvalidHeader),
        };
        Ok(PartHead { name, file_name: self.file_name, media_type, is_selected })
    }

    fn read(bytes: &[u8]) -> Result<Header, FormErrorKind> {
        let text = std::str::from_utf8(bytes).map_err(|_| FormErrorKind::InvalidHeader)?;
        let mut header = Header::default();
        let mut next = 0;
        for line in text.split("\r\n") {
            let start = next;
            // The line end of the last line precedes the empty line.
            next += line.len() + 2;
            let (name, value) = line.split_once(':').ok_or(FormErrorKind::InvalidHeader)?;
            // Some parsers treat Unicode separators as line ends.
            let is_text = |c: char| c == '\t' || !(c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
            if !is_token(name) || !value.chars().all(is_text) {
                return Err(FormErrorKind::InvalidHeader);
            }
            let value = value.trim_matches([' ', '\t']);
            let is_disposition = name.eq_ignore_ascii_case(DISPOSITION);
            // Rack searches the whole head for the word.
            if !is_disposition && line.to_ascii_lowercase().contains(DISPOSITION) {
                return Err(FormErrorKind::InvalidDisposition);
            }
            match name.to_ascii_lowercase().as_str() {
                DISPOSITION if header.names.is_empty() => header.read_disposition(value)?,
                DISPOSITION => return Err(FormErrorKind::InvalidDisposition),
                "content-transfer-encoding" => {
                    header.is_encoded |= !["7bit", "8bit", "binary"].contains(&value.to_ascii_lowercase().as_str());
                }
                "content-length" if header.length_line.is_some() => return Err(FormErrorKind::InvalidHeader),
                "content-length" => header.length_line = Some(start..next),
                "content-encoding" => header.is_encoded = true,
                "content-type" => {
                    header.has_parts |= value.to_ascii_lowercase().starts_with("multipart/");
                    let media = MediaType::parse(value.as_bytes());
                    header.is_foreign |= media.as_ref().is_none_or(|media| !media.is_utf8());
                    header.media_types.push(media.map(|media| media.essence));
                }
                _ => {}
            }
        }
        if header.names.is_empty() { Err(FormErrorKind::InvalidDisposition) } else { Ok(header) }
    }

    fn read_disposition(&mut self, value: &str) -> Result<(), FormErrorKind> {
        let invalid = FormErrorKind::InvalidDisposition;
        let (kind, mut rest) = value.split_at(value.find(';').ok_or(invalid)?);
        if !kind.trim_end().eq_ignore_ascii_case("form-data") {
            return Err(invalid);
        }
        let mut seen = Vec::new();
        while let Some(after) = rest.strip_prefix(';') {
            let after = after.trim_start_matches([' ', '\t']);
            let (name, value, tail) = parameter(after).ok_or(invalid)?;
            let raw = &after[name.len() + 1..after.len() - tail.len()];
            rest = tail.trim_start_matches([' ', '\t']);
            let name = name.to_ascii_lowercase();
            if names_a_name(raw) || quotes_singly(&name, raw) || seen.contains(&name) || seen.len() == PARAMETERS_MAX {
                return Err(invalid);
            }
            match name.as_str() {
                // Encoded words of mail (RFC 2047) are decoded by some. For an empty name Rack takes that of the file, or the type.
                "name" if raw.contains("=?") || value.is_empty() => return Err(invalid),
                "name" => {
                    self.names = readings(raw, value);
                    self.has_plain_name = self.names.len() == 1 && !self.names[0].contains(';');
                }
                // The name comes first, as all clients write it: some parsers search for the first `name=`, and not behind a colon.
                _ if self.names.is_empty() => return Err(invalid),
                "filename" if seen.iter().any(|name| name == "filename*") => {}
                "filename" => (self.is_file, self.file_name) = (true, Some(file_name(raw))),
                "filename*" => (self.is_file, self.file_name) = (true, extended_file_name(raw)),
                // Names in pieces or with a charset (RFC 2231), which RFC 7578, section 4.2, forbids and only some parsers support.
                other if other.contains('*') || other.ends_with("name") => return Err(invalid),
                _ => {}
            }
            seen.push(name);
        }
        if rest.is_empty() && !self.names.is_empty() { Ok(()) } else { Err(invalid) }
    }
}

/// Whether a parser that splits parameters differently could find the parameter `name` inside this value.
fn names_a_name(raw: &str) -> bool {
    let text = raw.to_ascii_lowercase();
    text.match_indices("name").any(|(at, word)| {
        let behind = text[at + word.len()..].trim_start_matches([' ', '\t']);
        behind.starts_with('=') || behind.starts_with('*')
    })
}

/// Whether PHP, which treats `'` like `"`, would read another value than this one, or end it elsewhere.
fn quotes_singly(name: &str, raw: &str) -> bool {
    // `filename*=utf-8''a` has two, with a language in between.
    let expected = if name == "filename*" { 2 } else { 0 };
    let count = if raw.starts_with('"') { 0 } else { raw.matches('\'').count() };
    count != 0 && count != expected
}

/// The possible readings of a name: `raw` with quotation marks, and `unquoted` with decoded escapes.
fn readings(raw: &str, unquoted: String) -> Vec<String> {
    let literal = without_quotes(raw);
    let browser = literal.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n");
    let mut readings = vec![unquoted, literal.to_owned(), browser];
    readings.dedup();
    readings
}

fn without_quotes(raw: &str) -> &str {
    raw.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(raw)
}

/// The name of a file: with the escapes of quoted strings decoded, and without the path that old browsers wrote before it.
fn file_name(raw: &str) -> String {
    let name = without_quotes(raw).replace("\\\\", "\\").replace("\\\"", "\"");
    name.rsplit('\\').next().unwrap_or_default().to_owned()
}

/// The value of `filename*` (RFC 8187) in UTF-8.
fn extended_file_name(raw: &str) -> Option<String> {
    let (charset, rest) = raw.split_once('\'')?;
    let (_, encoded) = rest.split_once('\'')?;
    let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8().ok()?;
    let is_text = charset.eq_ignore_ascii_case("utf-8") && has_one_reading(decoded.as_bytes());
    is_text.then(|| decoded.rsplit('\\').next().unwrap_or_default().to_owned())
}
