//! Times as people and log collectors read them.

/// Unix seconds as UTC: `2026-03-14T09:26:53Z` (RFC 3339).
pub fn utc(unix_s: u64) -> String {
    format!("{}Z", date_and_time(unix_s))
}

/// Unix milliseconds as UTC: `2026-03-14T09:26:53.589Z` (RFC 3339).
pub fn utc_milliseconds(unix_ms: u64) -> String {
    format!("{}.{:03}Z", date_and_time(unix_ms / 1000), unix_ms % 1000)
}

fn date_and_time(unix_s: u64) -> String {
    const DAY: u64 = 86_400;
    let (days, second) = (unix_s / DAY, unix_s % DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// The date of the Gregorian calendar, so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from 1 March of the year 0, so that the leap day comes last; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
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
    }

    /// Every day of 400 years follows the one before it.
    #[test]
    fn days_count_up() {
        let mut before = date(0);
        for days in 1..146_097 {
            let (year, month, day) = date(days);
            let next_day = (year, month) == (before.0, before.1) && day == before.2 + 1;
            let next_month = day == 1 && (12 * year + month) == (12 * before.0 + before.1) + 1 && before.2 >= 28;
            assert!(next_day || next_month, "{before:?} then {:?}", (year, month, day));
            before = (year, month, day);
        }
        assert_eq!(date(146_097), (2370, 1, 1));
    }
}
