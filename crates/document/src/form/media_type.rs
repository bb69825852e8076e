//! The value of `Content-Type` (RFC 9110, section 8.3.1), as far as it determines how to parse a body.

/// Maximum length of a boundary in characters (RFC 2046, section 5.1.1).
pub const BOUNDARY_SIZE_MAX: usize = 70;

const BOUNDARY: &str = "boundary";
const CHARSET: &str = "charset";

/// The type of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType {
    /// `type/subtype` in lower case.
    pub essence: String,
    /// The parameter `boundary`, unquoted.
    pub boundary: Option<String>,
    /// The parameter `charset` in lower case.
    pub charset: Option<String>,
}

impl MediaType {
    /// Reads the value of the header field. Nothing where it is malformed, names a boundary or charset twice, or where two readers
    /// could take different parameters from it: those of RFC 2231, which only some put together; escapes, semicolons and commas in
    /// quotation marks; and the word `boundary` or `charset` in the name or value of another parameter.
    pub fn parse(value: &[u8]) -> Option<MediaType> {
        let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
        let (essence, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        let essence = essence.trim_end_matches([' ', '\t']).to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/')?;
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let mut media = MediaType { essence, boundary: None, charset: None };
        let lower = text.to_ascii_lowercase();
        while let Some(after) = rest.strip_prefix(';') {
            let after = after.trim_start_matches([' ', '\t']);
            if after.is_empty() || after.starts_with(';') {
                rest = after;
                continue;
            }
            let (name, value, tail) = parameter(after)?;
            let written = &after[name.len() + 1..after.len() - tail.len()];
            if name.contains('*') || written.contains([';', ',', '\\']) {
                return None;
            }
            rest = tail.trim_start_matches([' ', '\t']);
            let name = name.to_ascii_lowercase();
            let whole = after[..after.len() - tail.len()].to_ascii_lowercase();
            // Some only search for the word, wherever it first or last occurs; clients write it into their boundaries.
            let is_elsewhere = |word: &str| match whole.strip_prefix(word) {
                Some(rest) if name == word => rest.contains(&format!("{word}=")),
                _ => whole.contains(word),
            };
            if [BOUNDARY, CHARSET].into_iter().any(is_elsewhere) {
                return None;
            }
            let place = match name.as_str() {
                BOUNDARY => &mut media.boundary,
                CHARSET => &mut media.charset,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return None;
            }
            let at = text.len() - after.len();
            if lower.find(&name) != Some(at) {
                return None;
            }
        }
        if let Some(charset) = &mut media.charset {
            charset.make_ascii_lowercase();
        }
        rest.is_empty().then_some(media)
    }

    /// Whether text is in UTF-8 or a subset of it.
    pub fn is_utf8(&self) -> bool {
        self.charset.as_deref().is_none_or(is_utf8)
    }

    /// Whether it is `application/json` or has a `+json` suffix.
    pub fn is_json(&self) -> bool {
        matches!(self.essence.as_str(), "application/json" | "text/json") || self.essence.ends_with("+json")
    }

    /// Whether it is `application/x-www-form-urlencoded`.
    pub fn is_urlencoded(&self) -> bool {
        self.essence == "application/x-www-form-urlencoded"
    }

    /// Whether it is `multipart/form-data`.
    pub fn is_multipart(&self) -> bool {
        self.essence == "multipart/form-data"
    }
}

/// Splits `name=value` or `name="value"` into name, value and rest.
pub(super) fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, after) = text.split_once('=')?;
    if !is_token(name) {
        return None;
    }
    let Some(quoted) = after.strip_prefix('"') else {
        let end = after.find([';', ' ', '\t']).unwrap_or(after.len());
        let (value, tail) = after.split_at(end);
        return is_token(value).then(|| (name, value.to_owned(), tail));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((name, value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}

/// Whether a charset's name, in lower case, means UTF-8 or a subset of it.
pub(super) fn is_utf8(charset: &str) -> bool {
    matches!(charset, "utf-8" | "utf8" | "us-ascii")
}

/// Whether it is a token (RFC 9110, section 5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}
