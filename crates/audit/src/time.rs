//! Times of records: RFC 3339 in UTC with microseconds, so that their texts sort as they do.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// The last microsecond of the year 9999.
const TIME_MAX_US: u64 = 253_402_300_799_999_999;

/// `2026-03-14T09:26:53.589793Z`; the last microsecond of the year 9999, beyond which the format has no times, for everything later.
pub(crate) fn time_text(unix_us: u64) -> String {
    let since = SignedDuration::from_micros(i64::try_from(unix_us).unwrap_or(i64::MAX));
    format!("{:.6}Z", EPOCH.saturating_add(since))
}

/// Texts of times that follow each other: the same as [`time_text`], which is asked once for each second.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeText {
    /// The second that the text is of, and the next one after it.
    seconds: std::ops::Range<u64>,
    text: Vec<u8>,
}

impl TimeText {
    pub(crate) fn of(&mut self, unix_us: u64) -> &[u8] {
        let unix_us = unix_us.min(TIME_MAX_US);
        let second = unix_us / 1_000_000;
        if !self.seconds.contains(&second) {
            (self.seconds, self.text) = (second..second + 1, time_text(unix_us).into_bytes());
        }
        let end = self.text.len() - 1;
        let mut rest = unix_us % 1_000_000;
        for digit in self.text[end - 6..end].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.text
    }
}

/// The time of Unix seconds, as records write times.
pub fn unix_time_text(unix_s: u64) -> String {
    time_text(unix_s.saturating_mul(1_000_000))
}

/// The time of a text of RFC 3339, as records write times.
///
/// Returns `None` for another text, and for times before 1970.
pub fn record_time(text: &str) -> Option<String> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_microsecond()).ok().map(time_text)
}

/// The time of a record as text, which sorts as times do; an empty one for what is no record.
pub fn time_of_record(entry: &[u8]) -> &str {
    let text = std::str::from_utf8(entry).unwrap_or_default();
    text.strip_prefix("{\"time\":\"").and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

/// The time of a record in microseconds, if it begins as records do.
pub(crate) fn entry_time(entry: &[u8]) -> Option<u64> {
    let rest = std::str::from_utf8(entry).ok()?.strip_prefix("{\"time\":\"")?;
    let (text, _) = rest.split_once("Z\"")?;
    let since = text.parse::<DateTime>().ok()?.duration_since(EPOCH);
    u64::try_from(since.as_micros()).ok()
}

/// The index of the first record of the era that a record is in: 0 in the first.
pub(crate) fn entry_era(entry: &[u8]) -> u64 {
    let digits = std::str::from_utf8(entry).ok().and_then(|text| {
        let rest = text.strip_prefix("{\"time\":\"")?;
        rest.split_once("\",\"era\":").filter(|(time, _)| !time.contains('"'))?.1.split(',').next()
    });
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_are_those_of_the_record() {
        for (entry, expected) in [
            (r#"{"time":"x","era":12,"kind":"start"}"#, 12),
            (r#"{"time":"x","kind":"start"}"#, 0),
            (r#"{"time":"x","kind":"a","era":12,"b":1}"#, 0),
            (r#"{"time":"x","kind":"\",\"era\":7,","b":1}"#, 0),
            (r#"{"time":"x","era":-1,"kind":"start"}"#, 0),
            ("", 0),
        ] {
            assert_eq!(entry_era(entry.as_bytes()), expected, "{entry}");
        }
    }

    #[test]
    fn times_are_written_to_the_last_of_the_format() {
        for (unix_us, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_007, "2000-02-29T00:00:00.000007Z"),
            (1_773_480_413_589_793, "2026-03-14T09:26:53.589793Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "9999-12-31T23:59:59.999999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(time_text(unix_us), expected);
            let mut texts = TimeText::default();
            // In one second and in the next, to and fro.
            for other in [0, 1, 999_999, 1_000_000, 59_999_999] {
                let other = unix_us.saturating_sub(other);
                assert_eq!(texts.of(other), time_text(other).as_bytes());
                assert_eq!(texts.of(unix_us), expected.as_bytes());
            }
            let entry = format!("{{\"time\":\"{expected}\",\"kind\":\"gap\"}}");
            assert_eq!(entry_time(entry.as_bytes()), Some(unix_us.min(253_402_300_799_999_999)));
        }
        for (text, expected) in [
            ("2026-11-28T09:00:00Z", Some("2026-11-28T09:00:00.000000Z")),
            ("2026-11-28T09:00:00.5+01:00", Some("2026-11-28T08:00:00.500000Z")),
            ("2026-11-28", None),
            ("2026-11-28T09:00:00", None),
            ("1969-12-31T23:59:59Z", None),
            ("yesterday", None),
        ] {
            assert_eq!(record_time(text).as_deref(), expected, "{text}");
        }
        for other in [
            "",
            "{}",
            "{\"time\":\"x\"}",
            "{\"time\":\"2026-13-01T00:00:00.000000Z\"}",
            "{\"time\":\"1969-01-01T00:00:00.0Z\"}",
        ] {
            assert_eq!(entry_time(other.as_bytes()), None, "{other}");
        }
    }
}
