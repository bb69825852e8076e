//! Log lines: the engine, the relay and the access log write the same field names in the same two formats.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize as _;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::calendar::utc_milliseconds;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// `name=value` pairs; values with spaces, quotes or control characters are quoted as JSON strings.
    Logfmt,
}

/// A line being built: `time`, `level` and `message` first, then the other fields in the order in which they are added.
#[derive(Debug)]
pub struct LogLine {
    format: LogFormat,
    text: Vec<u8>,
}

impl LogLine {
    /// Begins a line with the current time and `level`, such as `info`.
    pub fn new(format: LogFormat, level: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = Self { format, text: Vec::with_capacity(256) };
        line.text("time", &utc_milliseconds(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)));
        line.text("level", level);
        line
    }

    /// Adds a text field.
    pub fn text(&mut self, name: &str, value: &str) {
        self.begin(name);
        match self.format {
            LogFormat::Logfmt if is_bare(value) => self.text.extend_from_slice(value.as_bytes()),
            _ => quote(value, &mut self.text),
        }
    }

    /// Adds a number or a Boolean, which both formats write without quotes.
    pub fn bare(&mut self, name: &str, value: impl Display) {
        self.begin(name);
        let _ = write!(self.text, "{value}");
    }

    /// Adds the text that `value` formats.
    pub fn display(&mut self, name: &str, value: fmt::Arguments<'_>) {
        match value.as_str() {
            Some(text) => self.text(name, text),
            None => self.text(name, &value.to_string()),
        }
    }

    /// Returns the line, without a line break at its end.
    pub fn finish(mut self) -> String {
        if self.format == LogFormat::Json {
            self.text.push(b'}');
        }
        String::from_utf8(self.text).expect("texts and what is printed between them are UTF-8")
    }

    fn begin(&mut self, name: &str) {
        let is_first = self.text.is_empty();
        match self.format {
            LogFormat::Json => {
                self.text.push(if is_first { b'{' } else { b',' });
                quote(name, &mut self.text);
                self.text.push(b':');
            }
            LogFormat::Logfmt => {
                self.text.extend_from_slice(if is_first { b"" } else { b" " });
                self.text.extend_from_slice(name.as_bytes());
                self.text.push(b'=');
            }
        }
    }
}

/// Whether logfmt parsers read `value` as one value without quotes.
fn is_bare(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\'))
}

/// Appends a JSON string.
fn quote(value: &str, out: &mut Vec<u8>) {
    let written = value.serialize(&mut Serializer::with_formatter(out, ForTerminals));
    written.expect("a buffer takes everything");
}

/// JSON for terminals: non-ASCII control characters and Unicode's line breaks are escaped too.
struct ForTerminals;

impl Formatter for ForTerminals {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let acts = |character: char| character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
        let mut rest = fragment;
        while let Some((at, character)) = rest.char_indices().find(|&(_, character)| acts(character)) {
            write!(writer, "{}\\u{:04x}", &rest[..at], u32::from(character))?;
            rest = &rest[at + character.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat) -> String {
        let mut line = LogLine::new(format, "warn");
        line.text("message", "two words");
        line.text("path", "/a=b");
        line.text("plain", "127.0.0.1:3443");
        line.text("empty", "");
        line.text("odd", "\"\\\n\u{1b}[2J\u{9b}\u{2028}é");
        line.bare("count", 7);
        line.bare("whole", true);
        line.display("error", format_args!("no {}", "way"));
        line.finish()
    }

    #[test]
    fn json_lines_are_json() {
        let read: serde_json::Value = serde_json::from_str(&line(LogFormat::Json)).unwrap();
        assert_eq!(
            (&read["level"], &read["message"], &read["count"]),
            (&"warn".into(), &"two words".into(), &7.into())
        );
        assert_eq!((&read["odd"], &read["whole"]), (&"\"\\\n\u{1b}[2J\u{9b}\u{2028}é".into(), &true.into()));
        assert!(read["time"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{read}");
    }

    #[test]
    fn logfmt_quotes_what_needs_it() {
        let text = line(LogFormat::Logfmt);
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.starts_with("time=20"), "{time}");
        assert_eq!(
            rest,
            "level=warn message=\"two words\" path=\"/a=b\" plain=127.0.0.1:3443 empty=\"\" \
             odd=\"\\\"\\\\\\n\\u001b[2J\\u009b\\u2028é\" count=7 whole=true error=\"no way\""
        );
    }

    #[test]
    fn no_text_begins_a_line_of_its_own() {
        for format in [LogFormat::Json, LogFormat::Logfmt] {
            let text = line(format);
            assert!(!text.contains(['\n', '\u{1b}', '\u{9b}', '\u{2028}']), "{text}");
        }
    }
}
