//! Numbers as text and back.
//!
//! An envelope holds a number as JSON text. On its way in, an integer becomes its decimal digits and a float the text
//! that ECMAScript's `Number::toString` gives it (ECMA-262, 6.1.6.1.20), which is what the SDKs in JavaScript seal. On
//! its way out, the text becomes the narrowest native number that holds it.

use thiserror::Error;

/// Room for the text of one number. Reused from value to value, so that no text is allocated.
pub struct NumberBuffer {
    integer: itoa::Buffer,
    float: ryu_js::Buffer,
}

impl NumberBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        NumberBuffer { integer: itoa::Buffer::new(), float: ryu_js::Buffer::new() }
    }

    pub(crate) fn unsigned(&mut self, value: u64) -> &str {
        self.integer.format(value)
    }

    pub(crate) fn negative(&mut self, value: i64) -> &str {
        self.integer.format(value)
    }

    /// `value` is finite; −0 becomes `0`, as in ECMAScript.
    pub(crate) fn float(&mut self, value: f64) -> &str {
        assert!(value.is_finite(), "a scalar's float is finite");
        self.float.format_finite(value)
    }
}

impl Default for NumberBuffer {
    fn default() -> Self {
        NumberBuffer::new()
    }
}

/// Why a text is no native number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NumberFault {
    /// Not a number by JSON's grammar (RFC 8259, section 6).
    #[error("not a JSON number")]
    NotANumber,
    /// Too large for a 64-bit float, which would make it infinite.
    #[error("number beyond the range of a 64-bit float")]
    OutOfRange,
}

/// The f64 whose shortest decimal text is that of `value`: 0.1f32 becomes 0.1, not 0.10000000149011612. `value` is finite.
pub(crate) fn widen(value: f32) -> f64 {
    let mut buffer = ryu_js::Buffer::new();
    buffer.format_finite(value).parse().expect("ECMAScript's number text parses as a float")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberShape {
    Integer,
    Fraction,
}

/// Which of JSON's number forms `text` has: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
pub(crate) fn number_shape(text: &[u8]) -> Option<NumberShape> {
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    rest = match rest {
        [b'0', after @ ..] => after,
        _ => strip_digits(rest)?,
    };
    let integer_end = rest.len();
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = strip_digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let digits = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        rest = strip_digits(digits)?;
    }
    let shape = if rest.len() == integer_end { NumberShape::Integer } else { NumberShape::Fraction };
    rest.is_empty().then_some(shape)
}

/// Removes one or more leading digits.
fn strip_digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Scalar;
    use proptest::prelude::*;

    #[test]
    fn number_texts_become_the_narrowest_native_number() {
        let rows: &[(&str, Scalar<'static>)] = &[
            ("0", Scalar::UInt(0)),
            ("42", Scalar::UInt(42)),
            ("-1", Scalar::Int(-1)),
            ("18446744073709551615", Scalar::UInt(u64::MAX)),
            ("18446744073709551616", Scalar::Float(18446744073709551616.0)),
            ("-9223372036854775808", Scalar::Int(i64::MIN)),
            ("-9223372036854775809", Scalar::Float(-9223372036854775808.0)),
            ("-0", Scalar::Float(-0.0)),
            ("12.50", Scalar::Float(12.5)),
            ("1e2", Scalar::Float(100.0)),
            ("1E+21", Scalar::Float(1e21)),
            ("1e-400", Scalar::Float(0.0)),
        ];
        for (text, expected) in rows {
            assert_eq!(Scalar::from_number_text(text), Ok(*expected), "{text}");
        }
        let Ok(Scalar::Float(zero)) = Scalar::from_number_text("-0") else { panic!("−0 is a float") };
        assert!(zero.is_sign_negative());
    }

    #[test]
    fn invalid_numbers_are_refused() {
        for text in [
            "", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x1", "NaN", "inf", "infinity", " 1", "1 ", "--1", "1_0",
            "١",
        ] {
            assert_eq!(Scalar::from_number_text(text), Err(NumberFault::NotANumber), "{text:?}");
        }
        assert_eq!(Scalar::from_number_text("1e400"), Err(NumberFault::OutOfRange));
        assert_eq!(Scalar::from_number_text("-1e400"), Err(NumberFault::OutOfRange));
    }

    #[test]
    fn floats_are_written_as_ecmascript_writes_them() {
        let rows = [
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1e-7, "1e-7"),
            (0.000001, "0.000001"),
            (-0.0, "0"),
            (12.5, "12.5"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (100.0, "100"),
        ];
        for (value, expected) in rows {
            assert_eq!(NumberBuffer::new().float(value), expected);
        }
    }

    #[test]
    fn a_short_float_widens_by_its_shortest_text() {
        assert_eq!(widen(0.1), 0.1);
        assert_eq!(widen(f32::MAX), 3.4028235e38);
        assert_eq!(widen(16_777_216.0), 16_777_216.0);
    }

    proptest! {
        #[test]
        fn every_float_survives_its_text(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let mut buffer = NumberBuffer::new();
            let back: f64 = buffer.float(value).parse().expect("a float");
            prop_assert_eq!(back, value);
        }

        #[test]
        fn a_widened_float_narrows_to_itself(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(widen(value) as f32, value);
        }

        #[test]
        fn integers_survive_their_text(value: i64, large: u64) {
            let mut buffer = NumberBuffer::new();
            let text = buffer.negative(value).to_owned();
            let back = match Scalar::from_number_text(&text) {
                Ok(Scalar::UInt(back)) => i128::from(back),
                Ok(Scalar::Int(back)) => i128::from(back),
                other => panic!("no integer but {other:?}"),
            };
            prop_assert_eq!(back, i128::from(value));
            prop_assert_eq!(Scalar::from_number_text(buffer.unsigned(large)), Ok(Scalar::UInt(large)));
        }
    }
}
