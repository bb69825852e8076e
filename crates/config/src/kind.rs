//! The types of settings: the syntax in files, environment variables and flags, the accepted values, and the JSON Schema.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use toml::de::DeValue;

use crate::duration::DURATION_PATTERN;
use crate::size::SIZE_PATTERN;
use crate::{DURATION_MAX, parse_duration, parse_size, write_duration, write_size};

/// A value that is valid for its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// `true` or `false`.
    Flag(bool),
    /// A count, or a size in bytes.
    Number(u64),
    /// A duration.
    Time(Duration),
    /// A choice, path or name.
    Text(String),
    /// A list.
    List(Vec<String>),
    /// An address to listen on or connect to.
    Address(SocketAddr),
    /// An optional address to listen on.
    OptionalAddress(Option<SocketAddr>),
}

/// A value before validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw<'a> {
    /// `true` or `false`, without quotation marks.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// A string.
    Text(&'a str),
    /// A list of strings.
    List(Vec<&'a str>),
    /// Text from the environment or a flag, which has no types.
    Untyped(&'a str),
    /// Any other value.
    Other,
}

impl<'a> Raw<'a> {
    /// Converts a TOML value.
    pub fn of(value: &'a DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Raw::Text(text),
            DeValue::Integer(integer) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).map_or(Raw::Other, Raw::Number)
            }
            DeValue::Boolean(flag) => Raw::Flag(*flag),
            DeValue::Array(list) => {
                let texts: Option<Vec<&str>> = list.iter().map(|item| item.get_ref().as_str()).collect();
                texts.map_or(Raw::Other, Raw::List)
            }
            _ => Raw::Other,
        }
    }
}

/// The accepted values of a setting; bounds are inclusive.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count(u64, u64),
    /// Bytes.
    Size(u64, u64),
    /// A duration from this many milliseconds to [`DURATION_MAX`].
    Time(u64),
    /// One of these words.
    Choice(&'static [ChoiceWord]),
    /// A path.
    Path,
    /// A path, or the word for none.
    OptionalPath,
    /// Any text.
    AnyText,
    /// Text of 1 to this many bytes, without control characters.
    Text(usize),
    /// A list whose items the setting's owner validates.
    List(ListItem),
    /// An IP address and a port.
    Address,
    /// An IP address and a port, or the word for none.
    OptionalAddress,
}

/// A word of a choice.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceWord {
    /// The word.
    pub name: &'static str,
    /// Its meaning, in a sentence; may be empty.
    pub about: &'static str,
}

/// The items of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListItem {
    /// The plural noun, with examples.
    pub about: &'static str,
    /// Whether a text is a valid item.
    pub is_valid: fn(&str) -> bool,
}

/// The word for no address; an empty text means the same.
const OFF: &str = "off";

impl Kind {
    /// Validates a value.
    ///
    /// # Errors
    /// The requirement, as the end of a sentence: "must be a whole number from 1 to 9".
    pub fn read(&self, raw: &Raw<'_>) -> Result<SettingValue, String> {
        let text = match *raw {
            Raw::Text(text) | Raw::Untyped(text) => Some(text),
            _ => None,
        };
        let value = match self {
            Self::Flag => flag(raw).map(SettingValue::Flag),
            Self::Count(min, max) => {
                whole(raw).filter(|number| (min..=max).contains(&number)).map(SettingValue::Number)
            }
            Self::Size(min, max) => {
                let size = whole(raw).or_else(|| text.and_then(parse_size));
                size.filter(|size| (min..=max).contains(&size)).map(SettingValue::Number)
            }
            Self::Time(min_ms) => {
                let bounds = Duration::from_millis(*min_ms)..=DURATION_MAX;
                text.and_then(parse_duration).filter(|time| bounds.contains(time)).map(SettingValue::Time)
            }
            Self::Choice(words) => text.filter(|text| words.iter().any(|word| word.name == *text)).map(text_value),
            Self::Path => text.filter(|text| !text.is_empty()).map(text_value),
            Self::OptionalPath => text.map(|text| if text.is_empty() { OFF } else { text }).map(text_value),
            Self::AnyText => text.map(text_value),
            Self::Text(max) => {
                let is_valid = |text: &&str| (1..=*max).contains(&text.len()) && !text.chars().any(char::is_control);
                text.filter(is_valid).map(text_value)
            }
            Self::List(item) => list(raw, item.is_valid).map(SettingValue::List),
            Self::Address => text.and_then(|text| text.parse().ok()).map(SettingValue::Address),
            Self::OptionalAddress => match text {
                Some("" | OFF) => Some(SettingValue::OptionalAddress(None)),
                text => {
                    text.and_then(|text| text.parse().ok()).map(|address| SettingValue::OptionalAddress(Some(address)))
                }
            },
        };
        value.ok_or_else(|| format!("must be {self}{}", self.hint(raw)))
    }

    /// Suggests a replacement if it is certain.
    fn hint(&self, raw: &Raw<'_>) -> String {
        let (Raw::Text(text) | Raw::Untyped(text)) = raw else { return String::new() };
        match self {
            Self::Flag => match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "1" | "true" => format!(": write true, not \"{text}\""),
                "no" | "off" | "0" | "false" => format!(": write false, not \"{text}\""),
                _ => String::new(),
            },
            Self::Size(..) | Self::Count(..) if matches!(raw, Raw::Text(_)) && text.parse::<u64>().is_ok() => {
                format!(": write {text} without quotation marks")
            }
            Self::List(_) if matches!(raw, Raw::Text(_)) => {
                let items: Vec<String> = text.split_whitespace().map(quoted).collect();
                format!(": write [{}]", items.join(", "))
            }
            _ => String::new(),
        }
    }

    /// Writes a value as TOML; numbers, texts and lists are JSON as well.
    pub fn write(&self, value: &SettingValue) -> String {
        match (self, value) {
            (_, SettingValue::Flag(flag)) => flag.to_string(),
            (Self::Size(..), SettingValue::Number(number)) => {
                let text = write_size(*number);
                if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { quoted(&text) }
            }
            (_, SettingValue::Number(number)) => number.to_string(),
            (_, SettingValue::Time(time)) => quoted(&write_duration(*time)),
            (_, SettingValue::Text(text)) => quoted(text),
            (_, SettingValue::List(items)) => {
                format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
            }
            (_, SettingValue::Address(address) | SettingValue::OptionalAddress(Some(address))) => {
                format!("\"{address}\"")
            }
            (_, SettingValue::OptionalAddress(None)) => quoted(OFF),
        }
    }

    /// Returns the JSON Schema (draft 2020-12) of a value in a file. It accepts every valid value; bounds of durations and of sizes with a
    /// unit are in extension keywords, which other validators ignore.
    pub fn schema(&self) -> serde_json::Value {
        match self {
            Self::Flag => json!({"type": "boolean"}),
            Self::Count(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Size(min, max) => json!({
                "type": ["integer", "string"], "minimum": min, "maximum": max, "pattern": SIZE_PATTERN,
            }),
            Self::Time(min_ms) => json!({
                "type": "string", "pattern": DURATION_PATTERN, "durationMinimum": write_duration(Duration::from_millis(*min_ms)),
            }),
            Self::Choice(words) if words.iter().all(|word| word.about.is_empty()) => {
                json!({"enum": words.iter().map(|word| word.name).collect::<Vec<_>>()})
            }
            Self::Choice(words) => {
                let one = |word: &ChoiceWord| json!({"const": word.name, "description": word.about.trim_start()});
                json!({"oneOf": words.iter().map(one).collect::<Vec<_>>()})
            }
            Self::Path => json!({"type": "string", "minLength": 1, "format": "path"}),
            Self::OptionalPath => json!({"type": "string", "format": "path-or-off"}),
            Self::AnyText => json!({"type": "string"}),
            Self::Text(max) => json!({"type": "string", "minLength": 1, "maxLength": max}),
            Self::List(item) => json!({"type": "array", "items": {"type": "string"}, "description": item.about}),
            Self::Address => json!({"type": "string", "format": "address"}),
            Self::OptionalAddress => json!({"type": "string", "format": "address-or-off"}),
        }
    }
}

fn text_value(text: &str) -> SettingValue {
    SettingValue::Text(text.to_owned())
}

fn flag(raw: &Raw<'_>) -> Option<bool> {
    match raw {
        Raw::Flag(flag) => Some(*flag),
        Raw::Untyped("true") => Some(true),
        Raw::Untyped("false") => Some(false),
        _ => None,
    }
}

fn whole(raw: &Raw<'_>) -> Option<u64> {
    match raw {
        Raw::Number(number) => Some(*number),
        Raw::Untyped(text) => text.parse().ok(),
        _ => None,
    }
}

/// Reads a list. In untyped text, items are separated by spaces.
fn list(raw: &Raw<'_>, is_valid: fn(&str) -> bool) -> Option<Vec<String>> {
    let items: Vec<&str> = match raw {
        Raw::List(items) => items.clone(),
        Raw::Untyped(text) => text.split_whitespace().collect(),
        _ => return None,
    };
    items.iter().all(|item| is_valid(item)).then(|| items.into_iter().map(str::to_owned).collect())
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Count(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Size(min, max) => {
                write!(f, "a size from {} to {}, such as 65536 or \"64KiB\"", write_size(*min), write_size(*max))
            }
            Self::Time(min_ms) => {
                let (min, max) = (write_duration(Duration::from_millis(*min_ms)), write_duration(DURATION_MAX));
                write!(f, "a duration from {min} to {max}, such as \"500ms\", \"15s\" or \"2m\"")
            }
            Self::Choice(words) => {
                f.write_str("one of ")?;
                for (i, word) in words.iter().enumerate() {
                    write!(f, "{}\"{}\"", if i > 0 { ", " } else { "" }, word.name)?;
                }
                Ok(())
            }
            Self::Path => f.write_str("a path"),
            Self::OptionalPath => write!(f, "a path, or \"{OFF}\""),
            Self::AnyText => f.write_str("text in quotation marks"),
            Self::Text(max) => write!(f, "text of 1 to {max} bytes"),
            Self::List(item) => write!(f, "a list of {}", item.about),
            Self::Address => f.write_str("an IP address and a port, such as \"0.0.0.0:3443\" or \"[::1]:3443\""),
            Self::OptionalAddress => {
                write!(f, "an IP address and a port, such as \"127.0.0.1:3444\", or \"{OFF}\"")
            }
        }
    }
}

impl SettingValue {
    /// A text, or the word for none.
    pub(crate) fn optional_text(text: Option<String>) -> Self {
        Self::Text(text.unwrap_or_else(|| OFF.to_owned()))
    }

    /// Returns the flag. Like the methods below, panics for a value of another kind.
    pub fn flag(&self) -> bool {
        let Self::Flag(flag) = self else { panic!("a key of another kind") };
        *flag
    }

    /// The number.
    pub fn number(&self) -> u64 {
        let Self::Number(number) = self else { panic!("a key of another kind") };
        *number
    }

    /// The duration.
    pub fn time(&self) -> Duration {
        let Self::Time(time) = self else { panic!("a key of another kind") };
        *time
    }

    /// The text.
    pub fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("a key of another kind") };
        text
    }

    /// The items of a list.
    pub fn list(&self) -> &[String] {
        let Self::List(items) = self else { panic!("a key of another kind") };
        items
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        let Self::Address(address) = self else { panic!("a key of another kind") };
        *address
    }

    /// The path, if there is one.
    pub fn optional_path(&self) -> Option<&str> {
        let Self::Text(path) = self else { panic!("a key of another kind") };
        Some(path.as_str()).filter(|path| *path != OFF)
    }

    /// The address, if there is one.
    pub fn optional_address(&self) -> Option<SocketAddr> {
        let Self::OptionalAddress(address) = self else { panic!("a key of another kind") };
        *address
    }
}

/// Quotes a string for TOML and JSON.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Kind = Kind::Time(1);
    const SIZE: Kind = Kind::Size(0, 1 << 40);
    const WORDS: Kind = Kind::List(ListItem { about: "words", is_valid: |word| word != "bad" });

    fn choice() -> Kind {
        Kind::Choice(&[ChoiceWord { name: "a", about: "" }, ChoiceWord { name: "b", about: "" }])
    }

    #[test]
    fn values_are_read_and_written_back() {
        let ms = |ms| SettingValue::Time(Duration::from_millis(ms));
        let cases = [
            (Kind::Flag, "true", SettingValue::Flag(true)),
            (Kind::Flag, "false", SettingValue::Flag(false)),
            (TIME, "\"15s\"", ms(15_000)),
            (TIME, "\"250ms\"", ms(250)),
            (TIME, "\"15m\"", ms(900_000)),
            (SIZE, "\"256MiB\"", SettingValue::Number(256 << 20)),
            (SIZE, "1023", SettingValue::Number(1023)),
            (SIZE, "0", SettingValue::Number(0)),
            (Kind::Count(0, 9), "7", SettingValue::Number(7)),
            (choice(), "\"b\"", SettingValue::Text("b".into())),
            (Kind::Path, "\"a\\\"b\"", SettingValue::Text("a\"b".into())),
            (Kind::OptionalPath, "\"a\"", SettingValue::Text("a".into())),
            (Kind::OptionalPath, "\"off\"", SettingValue::Text("off".into())),
            (Kind::Address, "\"[::1]:3443\"", SettingValue::Address("[::1]:3443".parse().unwrap())),
            (Kind::OptionalAddress, "\"[::1]:9\"", SettingValue::OptionalAddress(Some("[::1]:9".parse().unwrap()))),
            (Kind::OptionalAddress, "\"off\"", SettingValue::OptionalAddress(None)),
        ];
        for (kind, written, value) in cases {
            assert_eq!(kind.write(&value), written);
            let text = written.trim_matches('"').replace("\\\"", "\"");
            assert_eq!(kind.read(&Raw::Untyped(&text)), Ok(value), "{written}");
        }
        let items = SettingValue::List(vec!["x".into(), "y\"".into()]);
        assert_eq!(WORDS.read(&Raw::Untyped(" x  y\" ")), Ok(items.clone()));
        assert_eq!(WORDS.read(&Raw::List(vec!["x", "y\""])), Ok(items.clone()));
        assert_eq!(WORDS.write(&items), r#"["x", "y\""]"#);
        let path = |text| Kind::OptionalPath.read(&Raw::Text(text)).expect("a path").optional_path().map(str::to_owned);
        assert_eq!((path("a"), path(""), path("off")), (Some("a".to_owned()), None, None));
        assert_eq!(Kind::OptionalAddress.read(&Raw::Text("")), Ok(SettingValue::OptionalAddress(None)));
    }

    #[test]
    fn errors_say_what_to_write() {
        let cases = [
            (TIME, Raw::Number(15), "must be a duration from 1ms to 8760h, such as"),
            (TIME, Raw::Text("15"), "such as"),
            (TIME, Raw::Text("15 parsecs"), "such as"),
            (TIME, Raw::Text("0s"), "from 1ms"),
            (TIME, Raw::Text("8761h"), "to 8760h"),
            (SIZE, Raw::Text("12"), "write 12 without quotation marks"),
            (SIZE, Raw::Text("2000GiB"), "to 1024GiB"),
            (Kind::Count(1, 9), Raw::Number(0), "from 1 to 9"),
            (Kind::Count(1, 9), Raw::Text("1"), "write 1 without quotation marks"),
            (Kind::Count(1, 9), Raw::Untyped("-1"), "must be a whole number"),
            (choice(), Raw::Text("c"), "must be one of \"a\", \"b\""),
            (Kind::Path, Raw::Text(""), "must be a path"),
            (Kind::Flag, Raw::Text("yes"), "must be true or false: write true, not \"yes\""),
            (Kind::Flag, Raw::Untyped("no"), "must be true or false: write false, not \"no\""),
            (Kind::Flag, Raw::Text("true"), "write true, not \"true\""),
            (Kind::Flag, Raw::Number(1), "must be true or false"),
            (WORDS, Raw::List(vec!["good", "bad"]), "must be a list of words"),
            (WORDS, Raw::Text("a b"), "write [\"a\", \"b\"]"),
            (Kind::Address, Raw::Text("localhost:1"), "an IP address"),
            (Kind::OptionalAddress, Raw::Text("on"), "or \"off\""),
        ];
        for (kind, raw, part) in cases {
            let message = kind.read(&raw).expect_err(part);
            assert!(message.contains(part), "{raw:?}: {message}");
        }
    }

    /// Whether a value conforms to the part of a schema that other validators know; patterns are not evaluated.
    fn conforms(schema: &serde_json::Value, value: &serde_json::Value) -> bool {
        if let Some(words) = schema["enum"].as_array() {
            return words.contains(value);
        }
        if let Some(words) = schema["oneOf"].as_array() {
            return words.iter().any(|word| word["const"] == *value);
        }
        let is = |name: &str| {
            schema["type"] == name || schema["type"].as_array().is_some_and(|all| all.contains(&json!(name)))
        };
        let bound = |name: &str, unbounded: u64| schema[name].as_u64().unwrap_or(unbounded);
        match value {
            serde_json::Value::Bool(_) => is("boolean"),
            serde_json::Value::Number(number) => {
                let in_bounds = |number| (bound("minimum", 0)..=bound("maximum", u64::MAX)).contains(&number);
                is("integer") && number.as_u64().is_some_and(in_bounds)
            }
            serde_json::Value::String(text) => {
                let size = text.len() as u64;
                is("string") && (bound("minLength", 0)..=bound("maxLength", u64::MAX)).contains(&size)
            }
            serde_json::Value::Array(items) => is("array") && items.iter().all(|item| conforms(&schema["items"], item)),
            _ => false,
        }
    }

    #[test]
    fn a_schema_accepts_every_valid_value() {
        const DESCRIBED: Kind =
            Kind::Choice(&[ChoiceWord { name: "a", about: " A." }, ChoiceWord { name: "x", about: " X." }]);
        let kinds = [
            Kind::Flag,
            Kind::Count(1, 9),
            SIZE,
            TIME,
            choice(),
            DESCRIBED,
            Kind::Path,
            Kind::OptionalPath,
            Kind::AnyText,
            Kind::Text(2),
            WORDS,
            Kind::Address,
            Kind::OptionalAddress,
        ];
        let texts = ["", "a", "x", "b2", "abc", "5s", "7KiB", "off", "[::1]:1"];
        let texts = texts.map(|text| (Raw::Text(text), json!(text)));
        let numbers = [0, 1, 9, 10, 1 << 41].map(|number| (Raw::Number(number), json!(number)));
        let rest =
            [(Raw::Flag(true), json!(true)), (Raw::List(vec!["a", "b"]), json!(["a", "b"])), (Raw::Other, json!(null))];
        let values: Vec<_> = texts.into_iter().chain(numbers).chain(rest).collect();
        for kind in kinds {
            let schema = kind.schema();
            for (raw, value) in &values {
                let (is_valid, conforms) = (kind.read(raw).is_ok(), conforms(&schema, value));
                assert!(conforms || !is_valid, "{kind}: {value}");
                // Durations, sizes with a unit and addresses are patterns, or bounds in keywords of our own.
                let has_pattern = schema.get("pattern").or(schema.get("format")).is_some() && value.is_string();
                assert!(is_valid || !conforms || has_pattern, "{kind}: {value}");
            }
        }
        assert_eq!(DESCRIBED.schema()["oneOf"][1], json!({"const": "x", "description": "X."}));
    }
}
