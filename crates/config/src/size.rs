//! Sizes in bytes: a whole number and a binary unit, such as `64KiB`.

/// Units in bytes, largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The syntax of [`parse_size`] as a regular expression of JSON Schema.
pub(crate) const SIZE_PATTERN: &str = r"^[0-9]+ *(B|KiB|MiB|GiB)$";

/// Parses a size: digits, then `B`, `KiB`, `MiB` or `GiB`. Spaces may precede the unit.
///
/// Returns `None` for any other text, for a number without a unit, and for a size that does not fit.
pub fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = text[end..].trim_start_matches(' ');
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor)?;
    text[..end].parse::<u64>().ok()?.checked_mul(*factor)
}

/// Writes a size in the largest unit of which it is a whole number; bytes are written without a unit.
pub fn write_size(size: u64) -> String {
    match UNITS.iter().find(|(_, factor)| size != 0 && size.is_multiple_of(*factor)) {
        Some((unit, factor)) if *factor > 1 => format!("{}{unit}", size / factor),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_parsed() {
        for (text, size) in [("1KiB", 1 << 10), ("64KiB", 64 << 10), ("256MiB", 256 << 20), ("1024GiB", 1 << 40)] {
            assert_eq!(parse_size(text), Some(size), "{text}");
            assert_eq!(write_size(size), text);
        }
        assert_eq!(
            (parse_size("12B"), parse_size("12 KiB"), parse_size("1024KiB")),
            (Some(12), Some(12 << 10), Some(1 << 20))
        );
        assert_eq!((write_size(0), write_size(1023)), ("0".to_owned(), "1023".to_owned()));
    }

    /// Ambiguous texts are refused: `64k` and `64KB` may mean 64,000.
    #[test]
    fn other_texts_are_not_sizes() {
        for text in [
            "",
            "12",
            "KiB",
            "64k",
            "64KB",
            "64kib",
            "1.5GiB",
            "-1B",
            "1 TiB",
            "99999999999999999999B",
            "17179869184GiB",
            "1\nB",
        ] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }
}
