//! Times of records: RFC 3339 in UTC with microseconds, so that their texts sort as they do.

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// `2026-03-14T09:26:53.589793Z`; the last microsecond of the year 9999, beyond which the format has no times, for everything later.
pub(crate) fn time_text(unix_us: u64) -> String {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let since = SignedDuration::from_micros(i64::try_from(unix_us).unwrap_or(i64::MAX));
    format!("{:.6}Z", EPOCH.saturating_add(since))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }
}
