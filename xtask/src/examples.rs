//! Writes example documents of any size: customers with cards, addresses and orders, the kind of data that Leafseal protects.
//!
//! Deterministic: the same order produces the same bytes on every machine. Streaming: memory does not grow with the document.
//! Fictitious: names are combined at random, hosts and telephone numbers are those reserved for examples, card numbers are in a
//! test range. `null`s are written but not counted, because they are never encrypted.

use std::io::{self, Write};

use thiserror::Error;

/// Maximum scalar values of a document.
const FIELDS_MAX: u64 = 10_000_000;

/// Minimum size of a document in bytes: enough for the frame around the records and one record.
const BYTES_MIN: u64 = 1024;

/// The size of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// One document of this many strings, numbers, `true`s and `false`s.
    Fields(u64),
    /// One document of this many bytes, padded with white space after the last record.
    Bytes(u64),
    /// This many records, one per line.
    Lines(u64),
}

/// The documents to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExampleOrder {
    size: Size,
    seed: u64,
}

/// Errors of the arguments.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum OrderError {
    /// Not exactly one of `--fields`, `--bytes`, `--lines`.
    #[error("examples: give one of --fields N, --bytes N, --lines N")]
    OneSize,
    /// An unknown argument.
    #[error("examples: unknown argument {0}")]
    Unknown(String),
    /// A number is missing, malformed or out of range.
    #[error("examples: {0} needs a number in its range; see `cargo xtask help`")]
    Number(String),
}

impl ExampleOrder {
    /// Reads `--fields N`, `--bytes N` or `--lines N`, and `--seed N`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, OrderError> {
        let (mut size, mut seed) = (None, 1);
        for pair in arguments.chunks(2) {
            let name = pair[0].as_str();
            let value = || pair.get(1).and_then(|text| text.parse::<u64>().ok());
            let number = |range: std::ops::RangeInclusive<u64>| {
                value().filter(|number| range.contains(number)).ok_or_else(|| OrderError::Number(name.to_owned()))
            };
            let new = match name {
                "--fields" => Size::Fields(number(1..=FIELDS_MAX)?),
                "--bytes" => Size::Bytes(number(BYTES_MIN..=u64::MAX)?),
                "--lines" => Size::Lines(number(1..=FIELDS_MAX)?),
                "--seed" => {
                    seed = number(0..=u64::MAX)?;
                    continue;
                }
                _ => return Err(OrderError::Unknown(name.to_owned())),
            };
            if size.replace(new).is_some() {
                return Err(OrderError::OneSize);
            }
        }
        size.map(|size| Self { size, seed }).ok_or(OrderError::OneSize)
    }
}

/// Writes the documents of `order` to `out`.
pub(crate) fn write(order: &ExampleOrder, out: &mut impl Write) -> io::Result<()> {
    let mut random = SplitMix64(order.seed);
    match order.size {
        Size::Fields(fields) => write_fields(&mut random, fields, out)?,
        Size::Bytes(bytes) => write_bytes(&mut random, bytes, out)?,
        Size::Lines(lines) => {
            for _ in 0..lines {
                writeln!(out, "{}", record(&mut random, usize::MAX).text)?;
            }
        }
    }
    out.flush()
}

const OPENING: &str = "{\"records\": [\n  ";
const BETWEEN: &str = ",\n  ";
const CLOSING: &str = "\n]}\n";

fn write_fields(random: &mut SplitMix64, fields: u64, out: &mut impl Write) -> io::Result<()> {
    let mut left = fields;
    let mut before = OPENING;
    while left > 0 {
        let record = record(random, usize::try_from(left).unwrap_or(usize::MAX));
        write!(out, "{before}{}", record.text)?;
        left -= record.fields as u64;
        before = BETWEEN;
    }
    write!(out, "{CLOSING}")
}

fn write_bytes(random: &mut SplitMix64, bytes: u64, out: &mut impl Write) -> io::Result<()> {
    let mut left = bytes - CLOSING.len() as u64;
    let mut before = OPENING;
    loop {
        let record = record(random, usize::MAX);
        let length = (before.len() + record.text.len()) as u64;
        if length > left {
            break;
        }
        write!(out, "{before}{}", record.text)?;
        left -= length;
        before = BETWEEN;
    }
    io::copy(&mut io::Read::take(io::repeat(b' '), left), out)?;
    write!(out, "{CLOSING}")
}

/// One customer as JSON text.
struct CustomerRecord {
    text: String,
    /// Number of scalars in it, without `null`s.
    fields: usize,
}

/// Writes a customer's members up to the first `fields_max` scalars. A name `a.b` means member `b` of the object `a`.
fn record(random: &mut SplitMix64, fields_max: usize) -> CustomerRecord {
    let members = members(random);
    let mut text = String::from("{");
    let (mut fields, mut group) = (0, "");
    for (name, value) in &members {
        if fields == fields_max {
            break;
        }
        let (own_group, own_name) = name.split_once('.').unwrap_or(("", name));
        if own_group != group && !group.is_empty() {
            text.push('}');
        }
        if !text.ends_with('{') {
            text.push_str(", ");
        }
        if own_group != group && !own_group.is_empty() {
            text.push_str(&format!("\"{own_group}\": {{"));
        }
        text.push_str(&format!("\"{own_name}\": {value}"));
        fields += usize::from(value != "null");
        group = own_group;
    }
    text.push_str(if group.is_empty() { "}" } else { "}}" });
    CustomerRecord { text, fields }
}

const GIVEN: [&str; 12] =
    ["Ada", "Björn", "Chloé", "Dmitri", "Eilidh", "Fatima", "Grace", "Håkon", "Inês", "Jürgen", "太郎", "Zoë"];
const FAMILY: [&str; 12] = [
    "Lovelace",
    "O'Neill",
    "Müller",
    "Nguyễn",
    "Okafor",
    "Petrović",
    "Smith",
    "Šimek",
    "Tanaka",
    "山田",
    "Williams",
    "Łukasiewicz",
];
const STREETS: [&str; 6] =
    ["Market Street", "Rue de l’Église", "Königsallee", "Station Road", "Calle Mayor", "High Street"];
const TOWNS: [(&str, &str); 6] =
    [("Dublin", "IE"), ("Paris", "FR"), ("Köln", "DE"), ("Leeds", "GB"), ("Málaga", "ES"), ("Ōsaka", "JP")];
const NOTES: [&str; 6] = [
    r#""prefers \"no calls\"""#,
    r#""line one\nline two""#,
    r#""ключ у соседа""#,
    r#""said it with \ud83d\ude00, twice 😀""#,
    r#""""#,
    "null",
];
const AMOUNTS: [&str; 5] = ["1e+21", "-0.5", "0", "12.50", "9007199254740993"];

/// Names and JSON values of one customer. Members of the same object are adjacent.
fn members(random: &mut SplitMix64) -> Vec<(&'static str, String)> {
    let (given, family) = (random.pick(&GIVEN), random.pick(&FAMILY));
    let (town, country) = *random.pick(&TOWNS);
    let text = |value: String| format!("\"{value}\"");
    let number = random.below(1_000_000);
    let amount = match random.below(8) {
        0 => (*random.pick(&AMOUNTS)).to_owned(),
        _ => format!("{}.{:02}", random.below(5_000), random.below(100)),
    };
    vec![
        ("id", text(format!("cus_{:012x}", random.below(1 << 48)))),
        ("name", text(format!("{given} {family}"))),
        ("contact.email", text(format!("customer{number}@example.com"))),
        ("contact.phone", text(format!("+44 7700 900{:03}", random.below(1000)))),
        ("contact.newsletter", (random.below(2) == 1).to_string()),
        ("card.number", text(card_number(random))),
        ("card.expiry", text(format!("{:02}/{}", 1 + random.below(12), 27 + random.below(6)))),
        ("card.cvc", text(format!("{:03}", random.below(1000)))),
        ("address.line1", text(format!("{} {}", 1 + random.below(200), random.pick(&STREETS)))),
        ("address.town", text(town.to_owned())),
        ("address.postcode", text(format!("{:05}", random.below(100_000)))),
        ("address.country", text(country.to_owned())),
        ("balance", amount),
        ("orders", random.below(500).to_string()),
        ("note", (*random.pick(&NOTES)).to_owned()),
    ]
}

/// Sixteen digits in the test range 4000 00; the last one is the Luhn check digit (ISO/IEC 7812-1 annex B).
fn card_number(random: &mut SplitMix64) -> String {
    let digits = format!("400000{:09}", random.below(1_000_000_000));
    let sum: u32 = digits.bytes().rev().enumerate().map(|(index, byte)| luhn(index + 1, byte)).sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

/// The contribution of the digit `byte` to the Luhn sum at `place`, counted from the check digit at 0.
fn luhn(place: usize, byte: u8) -> u32 {
    let digit = u32::from(byte - b'0');
    match (place % 2, 2 * digit) {
        (0, _) => digit,
        (_, doubled @ 0..=9) => doubled,
        (_, doubled) => doubled - 9,
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small and portable. Not used for secrets.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, by remainder: the slight bias does not matter here.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[(self.next() % choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn written(size: Size, seed: u64) -> String {
        let mut out = Vec::new();
        write(&ExampleOrder { size, seed }, &mut out).expect("a vector takes everything");
        String::from_utf8(out).expect("the text is UTF-8")
    }

    fn scalars(value: &Value) -> u64 {
        match value {
            Value::Null => 0,
            Value::Array(items) => items.iter().map(scalars).sum(),
            Value::Object(members) => members.values().map(scalars).sum(),
            _ => 1,
        }
    }

    #[test]
    fn a_document_has_exactly_the_requested_fields() {
        for fields in (1..=40).chain([150, 2000, 60_000]) {
            let value: Value = serde_json::from_str(&written(Size::Fields(fields), fields)).expect("it is JSON");
            assert_eq!(scalars(&value), fields);
        }
    }

    #[test]
    fn a_document_has_exactly_the_requested_bytes() {
        for bytes in (BYTES_MIN..BYTES_MIN + 700).step_by(97).chain([1 << 20]) {
            let text = written(Size::Bytes(bytes), 7);
            assert_eq!(text.len() as u64, bytes);
            let value: Value = serde_json::from_str(&text).expect("it is JSON");
            assert!(scalars(&value) > 0);
        }
    }

    #[test]
    fn seeds_decide_and_nothing_else_does() {
        let fields = |seed| written(Size::Fields(60), seed);
        assert_eq!(fields(1), fields(1));
        assert_ne!(fields(1), fields(2));
    }

    #[test]
    fn the_export_in_the_repository_is_current() {
        let path = crate::source::root().join("examples/customers.jsonl");
        let export = std::fs::read_to_string(path).expect("the export is in the repository");
        assert!(
            export == written(Size::Lines(200), 1),
            "write it again: cargo xtask examples --lines 200 > examples/customers.jsonl"
        );
    }

    #[test]
    fn card_numbers_carry_their_check_digit() {
        let sum =
            |number: &str| -> u32 { number.bytes().rev().enumerate().map(|(place, byte)| luhn(place, byte)).sum() };
        assert_eq!(sum("4242424242424242") % 10, 0);
        assert_ne!(sum("4242424242424241") % 10, 0);
        let mut random = SplitMix64(3);
        for _ in 0..100 {
            let number = card_number(&mut random);
            assert_eq!((number.len(), sum(&number) % 10), (16, 0), "{number}");
        }
    }

    #[test]
    fn the_random_sequence_is_the_published_one() {
        let mut random = SplitMix64(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |text: &str| ExampleOrder::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parse("--fields 3 --seed 9"), Ok(ExampleOrder { size: Size::Fields(3), seed: 9 }));
        assert_eq!(parse("--bytes 1024"), Ok(ExampleOrder { size: Size::Bytes(1024), seed: 1 }));
        assert_eq!(parse(""), Err(OrderError::OneSize));
        assert_eq!(parse("--fields 3 --lines 3"), Err(OrderError::OneSize));
        for bad in ["--fields 0", "--fields", "--fields x", "--bytes 1023", "--fields 10000001"] {
            assert!(matches!(parse(bad), Err(OrderError::Number(_))), "{bad}");
        }
        assert_eq!(parse("--size 3"), Err(OrderError::Unknown("--size".into())));
    }
}
