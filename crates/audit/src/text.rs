//! Writes the text of a record: a JSON object, member by member, in one buffer.

use std::fmt::{Display, Write as _};

/// The text of a record that is being written. Members without a value are left out.
#[derive(Debug, Clone)]
pub struct RecordText(String);

impl RecordText {
    /// A record of a kind.
    pub fn new(kind: &str) -> Self {
        let mut text = Self(String::with_capacity(512));
        text.0.push('{');
        text.text("kind", kind)
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.string(name);
        self.0.push(':');
    }

    fn string(&mut self, text: &str) {
        self.0.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.0.extend(['\\', c]),
                c if c < ' ' => drop(write!(self.0, "\\u{:04x}", u32::from(c))),
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    /// A text.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.string(value);
        self
    }

    /// A text, if there is one.
    pub fn maybe(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Something that is written as a text without quotes or backslashes, such as an address.
    pub fn shown(mut self, name: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.name(name);
            let _ = write!(self.0, "\"{value}\"");
        }
        self
    }

    /// A number that is left out if it is 0.
    pub fn number(mut self, name: &str, value: u64) -> Self {
        if value != 0 {
            self.name(name);
            let _ = write!(self.0, "{value}");
        }
        self
    }

    /// Numbers, unless there are none.
    pub fn numbers(mut self, name: &str, values: &[u32]) -> Self {
        for (i, value) in values.iter().enumerate() {
            if i == 0 {
                self.name(name);
            }
            let _ = write!(self.0, "{}{value}", if i == 0 { '[' } else { ',' });
        }
        self.close(values.is_empty())
    }

    /// Texts, unless there are none.
    pub fn texts<'t>(mut self, name: &str, values: impl IntoIterator<Item = &'t str>) -> Self {
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

    fn close(mut self, is_empty: bool) -> Self {
        if !is_empty {
            self.0.push(']');
        }
        self
    }

    /// The whole object.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.push('}');
        self.0.into_bytes()
    }
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
            .numbers("empty", &[])
            .numbers("versions", &[1, 20])
            .texts("no", [])
            .texts("roles", ["pci", hostile])
            .finish();
        let expected = json!({
            "kind": "request", "text": hostile, "some": "", "address": "::1", "many": u64::MAX, "versions": [1, 20],
            "roles": ["pci", hostile],
        });
        assert_eq!(serde_json::from_slice::<Value>(&record).expect("JSON"), expected);
    }
}
