//! Converts lists of native values between JavaScript and requests or answers.

use std::ops::Range;

use leafseal_protocol::{RawValues, Scalar};
use napi::ValueType;

use crate::fault::{Code, Result, fault, invalid_params, of_content};
use crate::js::{Js, Maker};

/// The largest integer up to which a JavaScript number is exact.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// The values of a JavaScript array. One buffer holds the text of all strings.
pub(crate) struct TakenValues {
    text: String,
    items: Vec<JsItem>,
}

/// A value; a string is a range of the text.
enum JsItem {
    Text(Range<usize>),
    Other(Scalar<'static>),
}

impl TakenValues {
    /// Reads the values of an array whose strings have at most `size_max` bytes in total.
    pub(crate) fn of(array: Js, size_max: usize) -> Result<TakenValues> {
        if array.kind()? != ValueType::Object || !array.is_array()? {
            return Err(invalid_params("values: expected an array"));
        }
        let mut text = Vec::new();
        let mut items = Vec::with_capacity(array.array_length()? as usize);
        array.for_each_element(|index, value| {
            items.push(take(index, value, &mut text)?);
            if text.len() + items.len() > size_max {
                return Err(fault(Code::TooLarge, format!("the values pass the limit of {size_max} bytes")));
            }
            Ok(())
        })?;
        // Node writes only UTF-8; this is verified nevertheless.
        let text = String::from_utf8(text).map_err(|_| fault(Code::Internal, "Node wrote what is not UTF-8"))?;
        Ok(TakenValues { text, items })
    }

    pub(crate) fn scalars(&self) -> impl ExactSizeIterator<Item = Scalar<'_>> + Clone {
        self.items.iter().map(|item| match item {
            JsItem::Text(range) => Scalar::from(&self.text[range.clone()]),
            JsItem::Other(scalar) => *scalar,
        })
    }
}

/// The strings of a JavaScript array, in one buffer.
pub(crate) struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Reads an array of strings, which `name` names in errors, of at most `size_max` bytes in total.
    pub(crate) fn of(array: Js, name: &str, size_max: usize) -> Result<Texts> {
        if array.kind()? != ValueType::Object || !array.is_array()? {
            return Err(invalid_params(format!("{name}: expected an array of strings")));
        }
        let (mut text, mut ends) = (Vec::new(), Vec::with_capacity(array.array_length()? as usize));
        array.for_each_element(|index, value| {
            if value.kind()? != ValueType::String {
                return Err(invalid_params(format!("{name}, index {index}: expected a string")));
            }
            value.append_text(&mut text, || format!("{name}, index {index}"))?;
            ends.push(text.len());
            match text.len() + ends.len() > size_max {
                true => Err(fault(Code::TooLarge, format!("{name} exceed the limit of {size_max} bytes"))),
                false => Ok(()),
            }
        })?;
        let text = String::from_utf8(text).map_err(|_| fault(Code::Internal, "Node wrote what is not UTF-8"))?;
        Ok(Texts { text, ends })
    }

    /// Every string, in order.
    pub(crate) fn all(&self) -> Vec<&str> {
        let mut start = 0;
        let slice = |&end: &usize| &self.text[std::mem::replace(&mut start, end)..end];
        self.ends.iter().map(slice).collect()
    }

    /// Maximum bytes of the strings in a message, each with its head.
    pub(crate) fn size(&self) -> usize {
        self.text.len() + self.ends.len() * 5
    }
}

fn take(index: u32, value: Js, text: &mut Vec<u8>) -> Result<JsItem> {
    let scalar = match value.kind()? {
        ValueType::String => {
            let start = text.len();
            let size = value.append_text(text, || format!("values, index {index}"))?;
            return Ok(JsItem::Text(start..start + size));
        }
        ValueType::Null => Some(Scalar::Nil),
        ValueType::Boolean => Some(Scalar::Bool(value.boolean()?)),
        ValueType::Number => scalar_of_number(value.number()?),
        ValueType::BigInt => match value.unsigned()? {
            Some(number) => Some(Scalar::UInt(number)),
            None => value.signed()?.map(Scalar::Int),
        },
        _ => None,
    };
    let expected = "expected a string, a finite number, a BigInt of 64 bits, a boolean or null";
    scalar.map(JsItem::Other).ok_or_else(|| invalid_params(format!("values, index {index}: {expected}")))
}

/// Encodes exact integers as integers and other numbers as floats; `None` for NaN and infinities.
fn scalar_of_number(number: f64) -> Option<Scalar<'static>> {
    let is_integer = number.fract() == 0.0 && number.abs() <= SAFE_INTEGER_MAX;
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    match number {
        number if !number.is_finite() => None,
        number if is_integer && !is_negative_zero && number < 0.0 => Some(Scalar::Int(number as i64)),
        number if is_integer && !is_negative_zero => Some(Scalar::UInt(number as u64)),
        number => Some(Scalar::Float(number)),
    }
}

/// Returns the values of an answer as an array. Integers beyond the exact range of a number become BigInts.
pub(crate) fn give(make: Maker, values: RawValues<'_>) -> Result<Js> {
    let mut scalars = values.iter();
    make.array(values.count(), || {
        let scalar = scalars.next().ok_or_else(|| fault(Code::Internal, "a list is shorter than it says"))?;
        match scalar.map_err(|error| of_content(&error.into()))? {
            Scalar::Str(text) => make.text(text.as_bytes()),
            Scalar::Nil => make.null(),
            Scalar::Bool(boolean) => make.boolean(boolean),
            Scalar::UInt(number) if number as f64 <= SAFE_INTEGER_MAX => make.number(number as f64),
            Scalar::UInt(number) => make.unsigned(number),
            Scalar::Int(number) if number as f64 >= -SAFE_INTEGER_MAX => make.number(number as f64),
            Scalar::Int(number) => make.signed(number),
            Scalar::Float(number) => make.number(number),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_integers_where_they_are_exact() {
        let cases = [
            (0.0, Some(Scalar::UInt(0))),
            (-0.0, Some(Scalar::Float(-0.0))),
            (42.0, Some(Scalar::UInt(42))),
            (-7.0, Some(Scalar::Int(-7))),
            (12.5, Some(Scalar::Float(12.5))),
            (SAFE_INTEGER_MAX, Some(Scalar::UInt((1 << 53) - 1))),
            (-SAFE_INTEGER_MAX, Some(Scalar::Int(1 - (1 << 53)))),
            (SAFE_INTEGER_MAX + 1.0, Some(Scalar::Float(SAFE_INTEGER_MAX + 1.0))),
            (1e300, Some(Scalar::Float(1e300))),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
        ];
        for (number, scalar) in cases {
            assert_eq!(scalar_of_number(number), scalar, "{number}");
        }
        let negative_zero = scalar_of_number(-0.0);
        assert!(matches!(negative_zero, Some(Scalar::Float(zero)) if zero.is_sign_negative()));
    }
}
