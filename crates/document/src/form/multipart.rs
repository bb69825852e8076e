//! `multipart/form-data` (RFC 7578 over RFC 2046), parsed strictly.
//!
//! Nothing precedes the first boundary or follows the last, lines end in CRLF, and the boundary occurs only between parts, so that more
//! lenient parsers find the same parts.

use std::ops::Range;

use super::media_type::{BOUNDARY_SIZE_MAX, MediaType, is_token, parameter};
use super::names::Meaning;
use super::{CHARSET_FIELD, FieldNames, FormError, FormErrorKind, FormLimits, check_charset};

/// The field that names a part.
const DISPOSITION: &str = "content-disposition";

/// A selected part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its content.
    pub content: Range<usize>,
    /// Whether it has a file name: its content is bytes and not text.
    pub is_file: bool,
    /// The header line, including its line end, that states the length of the content, which a replacement would make wrong.
    pub length_line: Option<Range<usize>>,
}

/// Finds the selected parts of a body, in order.
///
/// # Errors
/// The first violation of RFC 7578, or ambiguity between parsers.
pub fn find_parts(
    body: &[u8],
    boundary: &str,
    names: &FieldNames,
    limits: &FormLimits,
) -> Result<Vec<Part>, FormError> {
    let error = |kind, offset| Err(FormError::new(kind, offset));
    if boundary.is_empty() || boundary.len() > BOUNDARY_SIZE_MAX || !boundary.bytes().all(is_boundary_byte) {
        return error(FormErrorKind::NoBoundary, 0);
    }
    let dashes = [b"--", boundary.as_bytes()].concat();
    let finder = Finder::new(&dashes);
    if !body.starts_with(&dashes) {
        return error(FormErrorKind::NoBoundary, 0);
    }
    let mut found = Vec::new();
    let mut at = dashes.len();
    for count in 0.. {
        let rest = &body[at..];
        if let Some(epilogue) = rest.strip_prefix(b"--") {
            return match epilogue {
                b"" | b"\r\n" => Ok(found),
                _ => error(FormErrorKind::TrailingData, at + 2),
            };
        }
        if !rest.starts_with(b"\r\n") {
            let kind = if rest.is_empty() { FormErrorKind::UnexpectedEnd } else { FormErrorKind::StrayBoundary };
            return error(kind, at);
        }
        if count >= limits.fields_max {
            return error(FormErrorKind::TooManyFields(limits.fields_max), at);
        }
        let start = at + 2;
        let Some(next) = finder.find(body, start) else {
            return error(FormErrorKind::UnexpectedEnd, body.len());
        };
        // The line end before a boundary belongs to the boundary.
        let Some(end) = next.checked_sub(2).filter(|&end| end >= start && &body[end..next] == b"\r\n") else {
            return error(FormErrorKind::StrayBoundary, next);
        };
        found.extend(part(body, start, end, names, limits)?);
        at = next + dashes.len();
    }
    unreachable!("the loop has no end of its own")
}

/// RFC 2046, section 5.1.1, without the space that mail allows, and without the comma, at which PHP and Rack end a boundary.
fn is_boundary_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+_-./:=?".contains(&byte)
}

/// Parses the part from `start` to `end`; returns it if it is selected.
fn part(
    body: &[u8],
    start: usize,
    end: usize,
    names: &FieldNames,
    limits: &FormLimits,
) -> Result<Option<Part>, FormError> {
    let error = |kind| FormError::new(kind, start);
    let size_max = limits.part_header_size_max;
    let head = &body[start..end.min(start.saturating_add(size_max))];
    // A header without lines would have no name.
    let Some(length) = memchr::memmem::find(head, b"\r\n\r\n") else {
        return Err(error(FormErrorKind::HeaderTooLong(size_max)));
    };
    let header = Header::read(&head[..length]).map_err(error)?;
    if header.has_parts {
        return Err(error(FormErrorKind::EncodedPart));
    }
    if header.names.iter().any(|name| name.as_bytes() == CHARSET_FIELD) {
        check_charset(&body[start + length + 4..end], start)?;
    }
    match header.meaning(names) {
        Meaning::Selected => {}
        Meaning::Other => return Ok(None),
        Meaning::Ambiguous => return Err(error(FormErrorKind::AmbiguousName)),
    }
    if header.is_encoded || (header.is_foreign && !header.is_file) {
        return Err(error(FormErrorKind::EncodedPart));
    }
    let length_line = header.length_line.map(|line| start + line.start..start + line.end);
    Ok(Some(Part { content: start + length + 4..end, is_file: header.is_file, length_line }))
}

/// The content of a part's header.
#[derive(Default)]
struct Header {
    /// The possible readings of the name: escapes of quoted strings decoded or not, those of browsers decoded or not.
    names: Vec<String>,
    is_file: bool,
    is_encoded: bool,
    /// Whether its content is text in a charset other than UTF-8.
    is_foreign: bool,
    has_parts: bool,
    length_line: Option<Range<usize>>,
}

impl Header {
    /// Classifies the part by its name, in any of its readings.
    fn meaning(&self, names: &FieldNames) -> Meaning {
        let meanings = || self.names.iter().map(|name| names.meaning(name.as_bytes()));
        let is = |meaning| meanings().any(|found| found == meaning);
        // Some parsers decode the escapes of a few characters, and leave other backslashes. Some end a parameter at every `;`, even in
        // quoted strings.
        let is_in_doubt = || {
            let mut plain = self.names.iter().map(|name| name.replace('\\', ""));
            plain.any(|name| {
                let start = name.split_once(';').map(|(start, _)| start);
                names.doubts(name.as_bytes()) || start.is_some_and(|start| names.doubts(start.as_bytes()))
            })
        };
        match (is(Meaning::Selected), is(Meaning::Ambiguous) || is_in_doubt()) {
            (true, _) => Meaning::Selected,
            (false, true) => Meaning::Ambiguous,
            (false, false) => Meaning::Other,
        }
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
                    header.is_foreign |= MediaType::parse(value.as_bytes()).is_none_or(|media| !media.is_utf8());
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
            if names_a_name(raw) || quotes_singly(&name, raw) || seen.contains(&name) {
                return Err(invalid);
            }
            match name.as_str() {
                // Encoded words of mail (RFC 2047) are decoded by some. For an empty name Rack takes that of the file, or the type.
                "name" if raw.contains("=?") || value.is_empty() => return Err(invalid),
                "name" => self.names = readings(raw, value),
                // The name comes first, as all clients write it: some parsers search for the first `name=`, and not behind a colon.
                _ if self.names.is_empty() => return Err(invalid),
                "filename" | "filename*" => self.is_file = true,
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
    let literal = raw.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(raw);
    let browser = literal.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n");
    let mut readings = vec![unquoted, literal.to_owned(), browser];
    readings.dedup();
    readings
}

/// Searches for one string repeatedly.
struct Finder<'n>(memchr::memmem::Finder<'n>);

impl<'n> Finder<'n> {
    fn new(needle: &'n [u8]) -> Self {
        Finder(memchr::memmem::Finder::new(needle))
    }

    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        self.0.find(&text[from..]).map(|at| from + at)
    }
}
