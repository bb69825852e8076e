//! Formats times for people and log collectors.

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// Formats Unix seconds as UTC: `2026-03-14T09:26:53Z` (RFC 3339). Times beyond the year 9999, which the format cannot express, become that
/// year's last second.
pub fn utc(unix_s: u64) -> String {
    format!("{:.0}Z", date_and_time(unix_s.saturating_mul(1000)))
}

/// Formats Unix milliseconds as UTC: `2026-03-14T09:26:53.589Z` (RFC 3339), with the same limit as [`utc`].
pub(crate) fn utc_milliseconds(unix_ms: u64) -> String {
    format!("{:.3}Z", date_and_time(unix_ms))
}

/// A date and time without a zone: a certificate that never expires names the end of the year 9999, which is beyond jiff's time stamps.
fn date_and_time(unix_ms: u64) -> DateTime {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    EPOCH.saturating_add(SignedDuration::from_millis(i64::try_from(unix_ms).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_utc_to_the_last_second_of_the_format() {
        for (unix_s, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_773_480_413, "2026-03-14T09:26:53Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(unix_s), expected);
            let with_milliseconds = expected.replace('Z', ".007Z");
            assert_eq!(utc_milliseconds(unix_s * 1000 + 7), with_milliseconds);
        }
        for beyond in [253_402_300_800, u64::MAX] {
            assert_eq!(utc(beyond), "9999-12-31T23:59:59Z");
            assert_eq!(utc_milliseconds(beyond.saturating_mul(1000)), "9999-12-31T23:59:59.999Z");
        }
    }
}
