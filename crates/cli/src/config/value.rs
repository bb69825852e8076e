//! What a configuration value can be, how it is written, and what is wrong with one that is not right.
//!
//! One syntax for all three places: a number or a string in the file, the same text in an environment variable or a flag.
//! Lengths of time carry their unit (`15s`), sizes may (`256MiB`), so that nobody has to guess it.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use fieldseal_net::Network;

/// A value that is right for its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A count, or a size in bytes.
    Number(u64),
    /// A length of time, in whole milliseconds.
    Time(Duration),
    /// A choice, path or name.
    Text(String),
    /// IP addresses and networks.
    Networks(Vec<Network>),
    /// Where to listen or connect.
    Address(SocketAddr),
    /// Where to listen, if anywhere.
    OptionalAddress(Option<SocketAddr>),
}

/// A value as it was found, before its key has said what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raw<'a> {
    /// A whole number.
    Number(u64),
    /// Text in quotation marks.
    Text(&'a str),
    /// Text that may mean a number: from the environment or a flag.
    Untyped(&'a str),
}

/// What a key takes; bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Count(u64, u64),
    /// Bytes.
    Size(u64, u64),
    /// A length of time between two numbers of milliseconds.
    Time(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A path; relative ones start at the folder that `--dir` names.
    Path,
    /// A few words for others to read, up to so many bytes.
    Text(usize),
    /// Words with spaces between, or none; up to so many bytes.
    Words(usize),
    /// IP addresses and networks with spaces between, or none.
    Networks,
    /// An IP address and a port.
    Address,
    /// An IP address and a port, or the word that stands for none.
    OptionalAddress,
}

/// The word that stands for no address; an empty text does too.
const OFF: &str = "off";
/// Units of sizes, largest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
/// Units of time in milliseconds, largest first.
const TIMES: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The longest time that a key takes, in milliseconds: a year.
pub const TIME_MAX_MS: u64 = 365 * 24 * 3_600_000;

impl Kind {
    /// Reads a value.
    ///
    /// # Errors
    /// A sentence that says what the key takes.
    pub fn read(self, raw: Raw<'_>) -> Result<Value, String> {
        let value = match (self, raw) {
            (Self::Count(..), Raw::Number(number)) | (Self::Size(..), Raw::Number(number)) => {
                Some(Value::Number(number))
            }
            (Self::Count(..), Raw::Untyped(text)) => text.parse().ok().map(Value::Number),
            (Self::Size(..), Raw::Text(text) | Raw::Untyped(text)) => {
                let plain = text.parse().ok().filter(|_| matches!(raw, Raw::Untyped(_)));
                plain.or_else(|| with_unit(text, &SIZES)).map(Value::Number)
            }
            (Self::Time(..), Raw::Text(text) | Raw::Untyped(text)) => read_time(text).map(Value::Time),
            (Self::Choice(words), Raw::Text(text) | Raw::Untyped(text)) => {
                words.contains(&text).then(|| Value::Text(text.to_owned()))
            }
            (Self::Path, Raw::Text(text) | Raw::Untyped(text)) if !text.is_empty() => {
                Some(Value::Text(text.to_owned()))
            }
            (Self::Text(max), Raw::Text(text) | Raw::Untyped(text)) => {
                let is_fit = (1..=max).contains(&text.len()) && !text.chars().any(char::is_control);
                is_fit.then(|| Value::Text(text.to_owned()))
            }
            (Self::Words(max), Raw::Text(text) | Raw::Untyped(text)) if text.len() <= max => {
                Some(Value::Text(text.split_whitespace().collect::<Vec<_>>().join(" ")))
            }
            (Self::Networks, Raw::Text(text) | Raw::Untyped(text)) => {
                let networks: Result<Vec<Network>, _> = text.split_whitespace().map(str::parse).collect();
                networks.ok().map(Value::Networks)
            }
            (Self::Address, Raw::Text(text) | Raw::Untyped(text)) => text.parse().ok().map(Value::Address),
            (Self::OptionalAddress, Raw::Text("" | OFF) | Raw::Untyped("" | OFF)) => Some(Value::OptionalAddress(None)),
            (Self::OptionalAddress, Raw::Text(text) | Raw::Untyped(text)) => {
                text.parse().ok().map(|address| Value::OptionalAddress(Some(address)))
            }
            _ => None,
        };
        value.filter(|value| self.admits(value)).ok_or_else(|| format!("it takes {self}"))
    }

    fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Count(min, max) | Self::Size(min, max), Value::Number(number)) => (min..=max).contains(number),
            (Self::Time(min, max), Value::Time(time)) => {
                (u128::from(min)..=u128::from(max)).contains(&time.as_millis())
            }
            _ => true,
        }
    }

    /// The value as the file writes it.
    pub fn write(self, value: &Value) -> String {
        match (self, value) {
            (Self::Size(..), Value::Number(number)) => match in_unit(*number, &SIZES) {
                (count, "B") => count.to_string(),
                (count, unit) => format!("\"{count}{unit}\""),
            },
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Time(time)) => format!("\"{}\"", write_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))),
            (_, Value::Text(text)) => quoted(text),
            (_, Value::Networks(networks)) => {
                quoted(&networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            }
            (_, Value::Address(address) | Value::OptionalAddress(Some(address))) => format!("\"{address}\""),
            (_, Value::OptionalAddress(None)) => quoted(OFF),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Size(min, max) => {
                let (min, max) = (write_size(min), write_size(max));
                write!(f, "bytes from {min} to {max}, such as 65536 or \"64KiB\"")
            }
            Self::Time(min, max) => {
                write!(f, "a time from {} to {}, such as \"500ms\", \"15s\" or \"2m\"", write_ms(min), write_ms(max))
            }
            Self::Choice(words) => {
                f.write_str("one of ")?;
                for (i, word) in words.iter().enumerate() {
                    write!(f, "{}\"{word}\"", if i > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Self::Path => f.write_str("a path"),
            Self::Text(max) => write!(f, "a text of 1 to {max} bytes"),
            Self::Words(max) => write!(f, "words with spaces between, {max} bytes at most, or \"\""),
            Self::Networks => {
                f.write_str("IP addresses and networks with spaces between, such as \"10.1.2.3 10.2.0.0/16\", or \"\"")
            }
            Self::Address => f.write_str("an IP address and a port, such as \"0.0.0.0:3443\" or \"[::1]:3443\""),
            Self::OptionalAddress => {
                write!(f, "an IP address and a port, such as \"127.0.0.1:3444\", or \"{OFF}\"")
            }
        }
    }
}

impl Value {
    /// The number; panics for another value, which the key's kind rules out.
    pub fn number(&self) -> u64 {
        let Self::Number(number) = self else { panic!("a key of another kind") };
        *number
    }

    /// The length of time.
    pub fn time(&self) -> Duration {
        let Self::Time(time) = self else { panic!("a key of another kind") };
        *time
    }

    /// The text.
    pub fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("a key of another kind") };
        text
    }

    /// The addresses and networks.
    pub fn networks(&self) -> &[Network] {
        let Self::Networks(networks) = self else { panic!("a key of another kind") };
        networks
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        let Self::Address(address) = self else { panic!("a key of another kind") };
        *address
    }

    /// The address, if there is one.
    pub fn optional_address(&self) -> Option<SocketAddr> {
        let Self::OptionalAddress(address) = self else { panic!("a key of another kind") };
        *address
    }
}

/// A length of time as settings and flags write it: `500ms`, `15s`, `2m`, `1h`.
pub fn read_time(text: &str) -> Option<Duration> {
    with_unit(text, &TIMES).map(Duration::from_millis)
}

/// `15s` by `[("s", 1000)]` is 15,000.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let factor = units.iter().find(|(unit, _)| *unit == text[end..].trim_start()).map(|(_, factor)| factor)?;
    text[..end].parse::<u64>().ok()?.checked_mul(*factor)
}

/// The number in the largest unit that divides it.
fn in_unit<'u>(number: u64, units: &[(&'u str, u64)]) -> (u64, &'u str) {
    let fits = units.iter().find(|(_, factor)| number != 0 && number.is_multiple_of(*factor));
    let (unit, factor) = fits.unwrap_or(&units[units.len() - 1]);
    (number / factor, unit)
}

fn write_ms(ms: u64) -> String {
    let (count, unit) = in_unit(ms, &TIMES);
    format!("{count}{unit}")
}

fn write_size(size: u64) -> String {
    match in_unit(size, &SIZES) {
        (count, "B") => count.to_string(),
        (count, unit) => format!("{count}{unit}"),
    }
}

/// A TOML string.
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

    const TIME: Kind = Kind::Time(1, TIME_MAX_MS);
    const SIZE: Kind = Kind::Size(0, 1 << 40);

    #[test]
    fn values_are_read_and_written_back() {
        let ms = |ms| Value::Time(Duration::from_millis(ms));
        let cases = [
            (TIME, "\"15s\"", ms(15_000)),
            (TIME, "\"250ms\"", ms(250)),
            (TIME, "\"15m\"", ms(900_000)),
            (SIZE, "\"256MiB\"", Value::Number(256 << 20)),
            (SIZE, "1023", Value::Number(1023)),
            (SIZE, "0", Value::Number(0)),
            (Kind::Count(0, 9), "7", Value::Number(7)),
            (Kind::Choice(&["a", "b"]), "\"b\"", Value::Text("b".into())),
            (Kind::Path, "\"a\\\"b\"", Value::Text("a\"b".into())),
            (Kind::Address, "\"[::1]:3443\"", Value::Address("[::1]:3443".parse().unwrap())),
            (Kind::OptionalAddress, "\"[::1]:9\"", Value::OptionalAddress(Some("[::1]:9".parse().unwrap()))),
            (Kind::OptionalAddress, "\"off\"", Value::OptionalAddress(None)),
        ];
        for (kind, written, value) in cases {
            assert_eq!(kind.write(&value), written);
            let text = written.trim_matches('"').replace("\\\"", "\"");
            assert_eq!(kind.read(Raw::Untyped(&text)), Ok(value), "{written}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_would_be_right() {
        let cases = [
            (TIME, Raw::Number(15), "such as"),
            (TIME, Raw::Text("15"), "such as"),
            (TIME, Raw::Text("15 parsecs"), "such as"),
            (TIME, Raw::Text("s"), "such as"),
            (TIME, Raw::Text("0s"), "from 1ms"),
            (TIME, Raw::Text("99999999999999999999h"), "from 1ms"),
            (SIZE, Raw::Text("12"), "64KiB"),
            (SIZE, Raw::Text("2000GiB"), "to 1024GiB"),
            (Kind::Count(1, 9), Raw::Number(0), "from 1 to 9"),
            (Kind::Count(1, 9), Raw::Text("1"), "a whole number"),
            (Kind::Count(1, 9), Raw::Untyped("-1"), "a whole number"),
            (Kind::Choice(&["a", "b"]), Raw::Text("c"), "one of \"a\", \"b\""),
            (Kind::Path, Raw::Text(""), "a path"),
            (Kind::Networks, Raw::Text("10.1.2.3 10.0.0.1/8"), "IP addresses and networks"),
            (Kind::Address, Raw::Text("localhost:1"), "an IP address"),
            (Kind::OptionalAddress, Raw::Text("on"), "or \"off\""),
        ];
        assert_eq!(Kind::OptionalAddress.read(Raw::Text("")), Ok(Value::OptionalAddress(None)));
        for (kind, raw, part) in cases {
            let message = kind.read(raw).expect_err(part);
            assert!(message.contains(part), "{raw:?}: {message}");
        }
    }
}
