//! Writes the text of a record: a JSON object, member by member, in one buffer.

use std::fmt::{Display, Write as _};

/// Whether a byte of a text is written in another way in JSON. All of them are characters by themselves.
fn is_escaped(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The text of a record that is being written. Members without a value are left out.
#[derive(Debug, Clone)]
pub struct RecordText(String);

impl RecordText {
    /// A record of a kind.
    pub fn new(kind: &str) -> Self {
        let mut text = Self(String::with_capacity(512));
        text.0.push('{');
        text.text("kind", kind);
        text
    }

    /// The name of a member is a word of the program.
    fn name(&mut self, name: &'static str) {
        debug_assert!(!name.bytes().any(is_escaped), "{name}");
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn string(&mut self, text: &str) {
        self.0.push('"');
        let mut rest = text;
        while let Some(place) = rest.bytes().position(is_escaped) {
            self.0.push_str(&rest[..place]);
            match rest.as_bytes()[place] {
                b'"' => self.0.push_str("\\\""),
                b'\\' => self.0.push_str("\\\\"),
                control => drop(write!(self.0, "\\u{control:04x}")),
            }
            rest = &rest[place + 1..];
        }
        self.0.push_str(rest);
        self.0.push('"');
    }

    /// A text.
    pub fn text(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.name(name);
        self.string(value);
        self
    }

    /// A text, if there is one.
    pub fn maybe(&mut self, name: &'static str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Something that is written as a text without quotes or backslashes, such as an address.
    pub fn shown(&mut self, name: &'static str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            self.name(name);
            let _ = write!(self.0, "\"{value}\"");
        }
        self
    }

    /// A number that is left out if it is 0.
    pub fn number(&mut self, name: &'static str, value: u64) -> &mut Self {
        if value != 0 {
            self.name(name);
            self.0.push_str(itoa::Buffer::new().format(value));
        }
        self
    }

    /// Bytes as a text of hexadecimal digits in lower case.
    pub fn digest(&mut self, name: &'static str, value: &[u8; 32]) -> &mut Self {
        let mut digits = [0; 64];
        hex::encode_to_slice(value, &mut digits).expect("twice as long");
        self.name(name);
        self.0.push('"');
        self.0.push_str(std::str::from_utf8(&digits).expect("digits"));
        self.0.push('"');
        self
    }

    /// Numbers, unless there are none.
    pub fn numbers(&mut self, name: &'static str, values: &[u32]) -> &mut Self {
        for (i, value) in values.iter().enumerate() {
            if i == 0 {
                self.name(name);
            }
            self.0.push(if i == 0 { '[' } else { ',' });
            self.0.push_str(itoa::Buffer::new().format(*value));
        }
        self.close(values.is_empty())
    }

    /// Texts, unless there are none.
    pub fn texts<'t>(&mut self, name: &'static str, values: impl IntoIterator<Item = &'t str>) -> &mut Self {
        let mut count = 0;
        for value in values {
            if count == 0 {
                self.name(name);
            }
            self.0.push(if count == 0 { '[' } else { ',' });
            self.string(value);
            count += 1;
        }
        self.close(count == 0)
    }

    fn close(&mut self, is_empty: bool) -> &mut Self {
        if !is_empty {
            self.0.push(']');
        }
        self
    }

    /// The whole object. Nothing is left here.
    pub fn finish(&mut self) -> Vec<u8> {
        self.0.push('}');
        std::mem::take(&mut self.0).into_bytes()
    }
}

/// The text of a record for people: characters that a terminal does not print, or that change the order in which it prints others, are
/// escaped as JSON has it, so that the text has the same meaning.
pub fn printable(entry: &[u8]) -> String {
    let mut shown = String::with_capacity(entry.len());
    for c in String::from_utf8_lossy(entry).chars() {
        let is_bidirectional =
            matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || is_bidirectional || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn records_are_json() {
        let hostile = "a\"b\\c\n\u{0}\u{1f}é\u{2028}";
        let record = RecordText::new("request")
            .text("text", hostile)
            .maybe("none", None)
            .maybe("some", Some(""))
            .shown("address", Some(std::net::Ipv6Addr::LOCALHOST))
            .shown("nowhere", None::<u8>)
            .number("zero", 0)
            .number("many", u64::MAX)
            .digest("digest", &[0xa5; 32])
            .numbers("empty", &[])
            .numbers("versions", &[1, 20])
            .texts("no", [])
            .texts("roles", ["pci", hostile])
            .finish();
        let expected = json!({
            "kind": "request", "text": hostile, "some": "", "address": "::1", "many": u64::MAX, "digest": "a5".repeat(32),
            "versions": [1, 20], "roles": ["pci", hostile],
        });
        assert_eq!(serde_json::from_slice::<Value>(&record).expect("JSON"), expected);
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let hostile = "\u{7f}\u{9b}31m\u{85}\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}\u{2028}\u{feff}é 字 \u{1f512}";
        let record = RecordText::new("request").text("text", hostile).finish();
        let shown = printable(&record);
        assert!(
            shown.chars().all(|c| !c.is_control() && !"\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{feff}".contains(c)),
            "{shown:?}"
        );
        assert!(shown.contains("é 字 \u{1f512}"), "{shown}");
        let (printed, written): (Value, Value) =
            (serde_json::from_str(&shown).expect("JSON"), serde_json::from_slice(&record).expect("JSON"));
        assert_eq!(printed, written);
        assert_eq!(printable(b"\xff\n"), "\u{fffd}\\u000a");
    }
}
