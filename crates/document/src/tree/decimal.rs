//! Exact comparison of JSON numbers by their text.
//!
//! RFC 9535, section 2.3.5.2.2, compares numbers mathematically. Doubles would make 2^53 and 2^53 + 1 equal, and a filter on an account
//! number would then select the wrong record; so the digits are compared, regardless of their number and exponent.

use std::cmp::Ordering;

/// A parsed number: its value is 0.DIGITS × 10^exponent, the first digit not zero; no digits is zero.
struct Decimal<'a> {
    is_negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// Compares two numbers that follow RFC 8259's grammar.
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    let (left, right) = (Decimal::new(left), Decimal::new(right));
    match (left.sign(), right.sign()) {
        (1, 1) => left.magnitude(&right),
        (-1, -1) => right.magnitude(&left),
        (left, right) => left.cmp(&right),
    }
}

impl<'a> Decimal<'a> {
    fn new(text: &'a [u8]) -> Self {
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let mark = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let written = text.get(mark + 1..).map_or(0, exponent_of);
        let point = text[..mark].iter().position(|&byte| byte == b'.').unwrap_or(mark);
        let integer = trim_leading_zeros(&text[..point]);
        let fraction = trim_trailing_zeros(text.get(point + 1..mark).unwrap_or_default());
        if integer.is_empty() {
            let significant = trim_leading_zeros(fraction);
            let zeros = (fraction.len() - significant.len()) as i64;
            return Decimal { is_negative, integer, fraction: significant, exponent: written.saturating_sub(zeros) };
        }
        let exponent = written.saturating_add(integer.len() as i64);
        // Without a fraction, trailing zeros of the integer are insignificant too.
        let integer = if fraction.is_empty() { trim_trailing_zeros(integer) } else { integer };
        Decimal { is_negative, integer, fraction, exponent }
    }

    fn sign(&self) -> i8 {
        match (self.integer.is_empty() && self.fraction.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        }
    }

    /// Compares without the sign; neither is zero.
    fn magnitude(&self, other: &Self) -> Ordering {
        let digits = self.integer.iter().chain(self.fraction);
        self.exponent.cmp(&other.exponent).then_with(|| digits.cmp(other.integer.iter().chain(other.fraction)))
    }
}

/// An exponent's value, saturating at the range of `i64`: only numbers with more digits than a document can contain would differ.
fn exponent_of(text: &[u8]) -> i64 {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let magnitude =
        digits.iter().fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if is_negative { -magnitude } else { magnitude }
}

fn trim_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    &digits[zeros..]
}

fn trim_trailing_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    &digits[..digits.len() - zeros]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_values_are_equal_however_they_are_written() {
        let rows = [
            ["0", "-0", "0.0", "-0e5", "0E-99999999999999999999999"].as_slice(),
            &["1", "1.0", "10e-1", "0.1e1", "0.001E+3", "1e0", "100e-2"],
            &["-120", "-1.2e2", "-0.12e3", "-12e1", "-120.000"],
            &["1e400", "10e399", "0.1e401"],
            &["1.05", "105e-2", "0.0105e2"],
            &["9007199254740993", "9007199254740993.0", "900719925474099.3e1"],
        ];
        for (left, right) in rows.iter().flat_map(|row| row.iter().flat_map(|left| row.iter().map(move |r| (left, r))))
        {
            assert_eq!(compare(left.as_bytes(), right.as_bytes()), Ordering::Equal, "{left} {right}");
        }
    }

    #[test]
    fn order_is_that_of_the_values() {
        let ascending = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-10",
            "-9",
            "-1.5",
            "-1.05",
            "-1e-400",
            "0",
            "1e-400",
            "0.09",
            "0.1",
            "0.11",
            "1",
            "1.05",
            "1.5",
            "9",
            "10",
            "10.01",
            "9007199254740992",
            "9007199254740993",
            "1e399",
            "1e400",
        ];
        for (i, left) in ascending.iter().enumerate() {
            for (j, right) in ascending.iter().enumerate() {
                assert_eq!(compare(left.as_bytes(), right.as_bytes()), i.cmp(&j), "{left} {right}");
            }
        }
    }

    proptest! {
        #[test]
        fn integers_with_shifted_points_compare_like_integers(
            left in -100_000_i64..100_000, right in -100_000_i64..100_000, shift in 0_u32..4,
        ) {
            // left × 10^shift × 10^-shift, compared with right.
            let scaled = format!("{}e-{shift}", left * 10_i64.pow(shift));
            let right_text = format!("{right}.00");
            prop_assert_eq!(compare(scaled.as_bytes(), right_text.as_bytes()), left.cmp(&right));
        }
    }
}
