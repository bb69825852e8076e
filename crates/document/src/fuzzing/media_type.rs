//! Media types: re-encoded they parse the same, and parsers that only search for a word find the same parameters.

use crate::form::MediaType;

/// Treats any bytes as the value of `Content-Type`.
pub fn check_media_type(bytes: &[u8]) {
    let Some(media) = MediaType::parse(bytes) else { return };
    let text = std::str::from_utf8(bytes).expect("a media type is text");
    check_written(&media);
    assert_eq!(essence(text), media.essence);
    let kinds = [media.is_json(), media.is_urlencoded(), media.is_multipart()];
    assert!(kinds.into_iter().filter(|&is_kind| is_kind).count() <= 1, "a body is of one kind");
    let found = [("boundary", media.boundary.clone()), ("charset", media.charset.clone())];
    for (word, value) in found {
        // Neither parser decodes escapes, so a value with escapes would be read as another.
        let value = value.map(|value| value.to_ascii_lowercase());
        assert_eq!(after_word(text, word), value, "a reader that looks for {word}=");
        assert_eq!(parameter(text, word), value, "a reader that splits at every semicolon");
        assert_eq!(before_comma(text, word), value, "a reader that ends a value at a comma, quoted or not");
    }
}

/// Written again, it parses the same.
pub(super) fn check_written(media: &MediaType) {
    let mut written = media.essence.to_ascii_uppercase();
    for (name, value) in [("boundary", &media.boundary), ("CharSet", &media.charset)] {
        let Some(value) = value else { continue };
        written.push_str(&format!(" ;{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    assert_eq!(MediaType::parse(written.as_bytes()).as_ref(), Some(media), "{written}");
}

/// The type as Express and Flask read it.
fn essence(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// PHP, and Rails: the first occurrence of the word before an equals sign, in lower case. `None` for a parameter of another name.
fn after_word(text: &str, word: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let found = text.find(&format!("{word}="))?;
    let value = &text[found + word.len() + 1..];
    let value = match value.strip_prefix('"') {
        Some(quoted) => &quoted[..quoted.find('"')?],
        None => value.split([',', ';']).next().unwrap_or_default().trim_end(),
    };
    Some(value.to_owned())
}

/// Rack: up to a quotation mark, a semicolon or a comma.
fn before_comma(text: &str, word: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (_, value) = text.rsplit_once(&format!("{word}="))?;
    let until = |value: &str| value.split(['"', ';', ',']).next().unwrap_or_default().to_owned();
    // Without quotation marks it keeps white space at the end too: a boundary that no body contains.
    Some(value.strip_prefix('"').map_or_else(|| until(value).trim_end().to_owned(), until))
}

/// A parser that accepts quotation marks only around a whole value.
fn parameter(text: &str, word: &str) -> Option<String> {
    let pieces = text.split(';').skip(1);
    let named = pieces.filter_map(|piece| piece.split_once('='));
    let mut values = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case(word)).map(|(_, value)| value.trim());
    let value = values.next()?;
    assert!(values.next().is_none(), "a parameter that is given twice is refused");
    let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    Some(unquoted.to_ascii_lowercase())
}
