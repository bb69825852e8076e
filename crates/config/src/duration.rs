//! Durations: a decimal number and one unit, such as `500ms`, `1.5s`, `2m` or `1h`.

use std::time::Duration;

/// Units in nanoseconds, largest first.
const UNITS: [(&str, u128); 4] =
    [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)];
/// Maximum digits after the decimal point: with more, no unit is a whole number of nanoseconds.
const FRACTION_DIGITS_MAX: usize = 12;

/// The syntax of [`parse_duration`] as a regular expression of JSON Schema.
pub(crate) const DURATION_PATTERN: &str = r"^[0-9]+(\.[0-9]+)? *(ms|s|m|h)$";

/// The longest duration that a setting accepts: a year.
pub const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

/// Parses a duration: digits, optionally a point and more digits, then `ms`, `s`, `m` or `h`. Spaces may precede the unit.
///
/// Returns `None` for any other text, for a duration that is not a whole number of nanoseconds, and for one that does not fit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = (&text[..end], text[end..].trim_start_matches(' '));
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor)?;
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut nanoseconds = u128::from(whole.parse::<u64>().ok()?).checked_mul(*factor)?;
    if let Some(fraction) = fraction {
        nanoseconds = nanoseconds.checked_add(part_of(fraction, *factor)?)?;
    }
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    Some(Duration::new(seconds.try_into().ok()?, rest.try_into().ok()?))
}

/// Returns the fraction with these digits of a unit; `None` if it is not a whole number of nanoseconds.
fn part_of(digits: &str, factor: u128) -> Option<u128> {
    if !(1..=FRACTION_DIGITS_MAX).contains(&digits.len()) {
        return None;
    }
    let divisor = 10_u128.pow(u32::try_from(digits.len()).ok()?);
    let product = u128::from(digits.parse::<u64>().ok()?) * factor;
    product.is_multiple_of(divisor).then_some(product / divisor)
}

/// Writes a duration in the largest unit of which it is a whole number, or else as a decimal number of milliseconds. Zero is `0s`.
///
/// [`parse_duration`] parses the text as the same duration.
pub fn write_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    match UNITS.iter().find(|(_, factor)| nanoseconds.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", nanoseconds / factor),
        None => {
            let digits = format!("{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000);
            format!("{}ms", digits.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_they_are_parsed() {
        let us = Duration::from_micros;
        for (text, duration) in [
            ("0s", Duration::ZERO),
            ("1ms", us(1000)),
            ("500ms", us(500_000)),
            ("0.25ms", us(250)),
            ("1500ms", us(1_500_000)),
            ("15s", us(15_000_000)),
            ("90s", us(90_000_000)),
            ("2m", us(120_000_000)),
            ("8760h", DURATION_MAX),
            ("0.000001ms", Duration::from_nanos(1)),
        ] {
            assert_eq!(parse_duration(text), Some(duration), "{text}");
            assert_eq!(write_duration(duration), text);
        }
        for (text, duration) in
            [("1.5s", us(1_500_000)), ("0ms", Duration::ZERO), ("60m", us(3_600_000_000)), ("5 s", us(5_000_000))]
        {
            assert_eq!(parse_duration(text), Some(duration), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_durations() {
        for text in [
            "",
            "5",
            "s",
            ".5s",
            "5.s",
            "5 parsecs",
            "-5s",
            "+5s",
            "1e3s",
            "1.5.5s",
            "5S",
            "5sec",
            "5s ",
            " 5s",
            "1h30m",
            "5\ts",
            "5M",
            "5min",
            "0.0000000001s",
            "99999999999999999999h",
            "0.1234567890123h",
            "٥s",
        ] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
        assert!(parse_duration("18446744073709551615s").is_some());
        assert_eq!(parse_duration("18446744073709551615h"), None);
    }
}
