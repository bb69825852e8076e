//! Columns: Arrow arrays as lists of values, read in place, and arrays made from results.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, GenericStringArray, Int64Array,
    LargeBinaryArray, LargeStringArray, NullArray, OffsetSizeTrait, StringArray, StringViewArray, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use leafseal_protocol::{ErrorCode, Scalar, ValueFault};

use crate::fault::Fault;
use crate::options::Direction;
use crate::values::{Cell, Source, Values};

/// One chunk of a column, as a list of values.
pub(crate) enum Column {
    Null(NullArray),
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float64Array),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
}

impl Source for Column {
    fn len(&self) -> usize {
        self.array().len()
    }

    #[inline]
    fn scalar(&self, index: usize) -> Scalar<'_> {
        match self {
            Self::Utf8(array) => text(array.is_null(index), || array.value(index)),
            Self::LargeUtf8(array) => text(array.is_null(index), || array.value(index)),
            Self::Utf8View(array) => text(array.is_null(index), || array.value(index)),
            other => other.other_scalar(index),
        }
    }
}

#[inline]
fn text<'a>(is_null: bool, value: impl FnOnce() -> &'a str) -> Scalar<'a> {
    if is_null { Scalar::Nil } else { Scalar::from(value()) }
}

impl Column {
    /// Prepares a chunk. Values are converted only where the format has one type for several of Arrow's; a dictionary is decoded, so
    /// that equal values do not get equal envelopes.
    pub(crate) fn new(array: &ArrayRef, direction: Direction, first: usize) -> Result<Self, Fault> {
        let column = Self::of(array, first)?;
        match direction {
            Direction::Encrypt => column.check_finite(first)?,
            Direction::Decrypt if !column.is_text() => {
                let kind = array.data_type();
                return Err(Fault::argument(format!(
                    "a column of envelopes or documents must contain strings, and this one is {kind}"
                )));
            }
            Direction::Decrypt => {}
        }
        Ok(column)
    }

    fn of(array: &ArrayRef, first: usize) -> Result<Self, Fault> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null(NullArray::new(array.len())),
            DataType::Boolean => Self::Bool(array.as_boolean().clone()),
            DataType::Int64 => Self::Int(array.as_primitive::<Int64Type>().clone()),
            DataType::Int8 | DataType::Int16 | DataType::Int32 => {
                Self::Int(cast_to(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::UInt64 => Self::UInt(array.as_primitive::<UInt64Type>().clone()),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
                Self::UInt(cast_to(array, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
            }
            DataType::Float64 => Self::Float(array.as_primitive::<Float64Type>().clone()),
            DataType::Float32 => Self::Float(widened(array.as_primitive::<Float32Type>())),
            DataType::Float16 => {
                Self::Float(widened(cast_to(array, &DataType::Float32)?.as_primitive::<Float32Type>()))
            }
            DataType::Utf8 => Self::Utf8(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string::<i64>().clone()),
            DataType::Utf8View => Self::Utf8View(array.as_string_view().clone()),
            DataType::Binary => {
                let binary: &BinaryArray = array.as_binary();
                Self::Utf8(StringArray::try_from_binary(binary.clone()).map_err(|_| not_text(array, first))?)
            }
            DataType::LargeBinary => {
                let binary: &LargeBinaryArray = array.as_binary();
                Self::LargeUtf8(LargeStringArray::try_from_binary(binary.clone()).map_err(|_| not_text(array, first))?)
            }
            DataType::BinaryView => {
                let text = array.as_binary_view().clone().to_string_view();
                Self::Utf8View(text.map_err(|_| not_text(array, first))?)
            }
            DataType::Dictionary(_, values) => Self::of(&cast_to(array, values)?, first)?,
            other => {
                return Err(Fault::argument(format!(
                    "a column of type {other} has no form in an envelope: convert it to strings or numbers first"
                )));
            }
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Null(array) => array,
            Self::Bool(array) => array,
            Self::Int(array) => array,
            Self::UInt(array) => array,
            Self::Float(array) => array,
            Self::Utf8(array) => array,
            Self::LargeUtf8(array) => array,
            Self::Utf8View(array) => array,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Null(_) | Self::Utf8(_) | Self::LargeUtf8(_) | Self::Utf8View(_))
    }

    /// The type of the column of envelopes that this one becomes.
    pub(crate) fn encrypted_type(&self) -> DataType {
        match self {
            Self::LargeUtf8(_) | Self::Utf8View(_) => DataType::LargeUtf8,
            _ => DataType::Utf8,
        }
    }

    fn other_scalar(&self, index: usize) -> Scalar<'_> {
        if self.array().is_null(index) || matches!(self, Self::Null(_)) {
            return Scalar::Nil;
        }
        match self {
            Self::Bool(array) => Scalar::Bool(array.value(index)),
            Self::Int(array) => match array.value(index) {
                value @ 0.. => Scalar::UInt(value.cast_unsigned()),
                value => Scalar::Int(value),
            },
            Self::UInt(array) => Scalar::UInt(array.value(index)),
            Self::Float(array) => Scalar::Float(array.value(index)),
            Self::Null(_) | Self::Utf8(_) | Self::LargeUtf8(_) | Self::Utf8View(_) => Scalar::Nil,
        }
    }

    fn check_finite(&self, first: usize) -> Result<(), Fault> {
        let Self::Float(array) = self else { return Ok(()) };
        let wrong = array.iter().position(|value| value.is_some_and(|value| !value.is_finite()));
        wrong.map_or(Ok(()), |index| Err(Fault::value(first + index, &ValueFault::NotFinite)))
    }
}

fn cast_to(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, Fault> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, kind, &options)
        .map_err(|error| Fault::argument(format!("the column cannot be read: {error}")))
}

/// A 32-bit float stands for its shortest decimal text, as in the protocol.
fn widened(array: &Float32Array) -> Float64Array {
    array.unary(|value| value.to_string().parse().unwrap_or(f64::from(value)))
}

/// The error of the first value that is not UTF-8.
fn not_text(array: &ArrayRef, first: usize) -> Fault {
    let wrong = |index: &usize| {
        let bytes = match array.data_type() {
            DataType::Binary => array.as_binary::<i32>().value(*index),
            DataType::LargeBinary => array.as_binary::<i64>().value(*index),
            _ => array.as_binary_view().value(*index),
        };
        array.is_valid(*index) && std::str::from_utf8(bytes).is_err()
    };
    let index = (0..array.len()).find(wrong).unwrap_or_default();
    Fault::value(first + index, &ValueFault::InvalidUtf8)
}

/// Up to here a 64-bit float represents every integer.
const FLOAT_INTEGER_MAX: i128 = 1 << 53;

/// The type of decrypted values, if the caller has not set one: that of all of them.
pub(crate) fn common_type(chunks: &[Values], text_type: &DataType) -> Result<DataType, Fault> {
    let (mut texts, mut bools, mut numbers) = (false, false, Numbers::default());
    for cell in chunks.iter().flat_map(|chunk| &chunk.cells) {
        match *cell {
            Cell::Nil => {}
            Cell::Bool(_) => bools = true,
            Cell::UInt(value) => numbers.add(value.into()),
            Cell::Int(value) => numbers.add(value.into()),
            Cell::Float(_) => numbers.float = true,
            Cell::Text { .. } => texts = true,
        }
    }
    match (texts, bools, numbers.kind()) {
        (_, false, None) => Ok(text_type.clone()),
        (false, true, None) => Ok(DataType::Boolean),
        (false, false, Some(kind)) => kind,
        _ => Err(Fault::argument("the column contains values of different types: set `type`, or decrypt a list")),
    }
}

/// The numbers of a column.
#[derive(Default)]
struct Numbers {
    /// The least and the largest integer.
    integers: Option<(i128, i128)>,
    float: bool,
}

impl Numbers {
    fn add(&mut self, value: i128) {
        let (least, largest) = self.integers.unwrap_or((value, value));
        self.integers = Some((least.min(value), largest.max(value)));
    }

    /// The type that holds all of them exactly, if there are any.
    fn kind(&self) -> Option<Result<DataType, Fault>> {
        let Some((least, largest)) = self.integers else { return self.float.then_some(Ok(DataType::Float64)) };
        let fits = |min: i128, max: i128| min <= least && largest <= max;
        let kinds = [
            (DataType::Int64, !self.float && fits(i64::MIN.into(), i64::MAX.into())),
            (DataType::UInt64, !self.float && fits(0, u64::MAX.into())),
            (DataType::Float64, fits(-FLOAT_INTEGER_MAX, FLOAT_INTEGER_MAX)),
        ];
        let kind = kinds.into_iter().find_map(|(kind, holds)| holds.then_some(kind));
        Some(kind.ok_or_else(|| {
            Fault::argument("no type holds all numbers of the column exactly: set `type`, or decrypt a list")
        }))
    }
}

/// Makes an array of `kind` from values, which begin at value `first` of the call's column.
pub(crate) fn array(values: Values, kind: &DataType, first: usize) -> Result<ArrayRef, Fault> {
    let wrong = |index: usize| {
        let message = format!("value {} is not of the type {kind}", first + index);
        Fault::at(ErrorCode::InvalidParams, first + index, message)
    };
    let range = |index: usize| {
        let message = format!("value {} is beyond the range of {kind}", first + index);
        Fault::at(ErrorCode::NumberOutOfRange, first + index, message)
    };
    Ok(match kind {
        DataType::Utf8 => Arc::new(strings::<i32>(values, wrong)?),
        DataType::LargeUtf8 => Arc::new(strings::<i64>(values, wrong)?),
        DataType::Utf8View => Arc::new(StringViewArray::from(&strings::<i64>(values, wrong)?)),
        DataType::Binary => Arc::new(BinaryArray::from(strings::<i32>(values, wrong)?)),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from(strings::<i64>(values, wrong)?)),
        DataType::Null => Arc::new(NullArray::new(values.cells.len())),
        DataType::Boolean => {
            let cells = values.cells.iter().enumerate().map(|(index, cell)| match *cell {
                Cell::Nil => Ok(None),
                Cell::Bool(value) => Ok(Some(value)),
                _ => Err(wrong(index)),
            });
            Arc::new(cells.collect::<Result<BooleanArray, Fault>>()?)
        }
        DataType::Int64 | DataType::Int8 | DataType::Int16 | DataType::Int32 => {
            narrowed(integers(&values, kind, wrong, range)?, kind)?
        }
        DataType::UInt64 | DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
            narrowed(unsigned(&values, kind, wrong, range)?, kind)?
        }
        DataType::Float64 | DataType::Float32 => {
            #[allow(clippy::cast_precision_loss, reason = "the nearest float is meant")]
            let cells = values.cells.iter().enumerate().map(|(index, cell)| match *cell {
                Cell::Nil => Ok(None),
                Cell::UInt(value) => Ok(Some(value as f64)),
                Cell::Int(value) => Ok(Some(value as f64)),
                Cell::Float(value) => Ok(Some(value)),
                _ => Err(wrong(index)),
            });
            let floats = cells.collect::<Result<Float64Array, Fault>>()?;
            if *kind == DataType::Float32 {
                check_single(&floats).map_err(range)?;
            }
            narrowed(Arc::new(floats), kind)?
        }
        other => return Err(Fault::argument(format!("`type` must be a type that envelopes can hold, not {other}"))),
    })
}

fn integers(
    values: &Values,
    kind: &DataType,
    wrong: impl Fn(usize) -> Fault,
    range: impl Fn(usize) -> Fault,
) -> Result<ArrayRef, Fault> {
    let limits = match kind {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    let cells = values.cells.iter().enumerate().map(|(index, cell)| {
        let value = match *cell {
            Cell::Nil => return Ok(None),
            Cell::UInt(value) => i64::try_from(value).map_err(|_| range(index))?,
            Cell::Int(value) => value,
            _ => return Err(wrong(index)),
        };
        if value < limits.0 || value > limits.1 { Err(range(index)) } else { Ok(Some(value)) }
    });
    Ok(Arc::new(cells.collect::<Result<Int64Array, Fault>>()?))
}

fn unsigned(
    values: &Values,
    kind: &DataType,
    wrong: impl Fn(usize) -> Fault,
    range: impl Fn(usize) -> Fault,
) -> Result<ArrayRef, Fault> {
    let limit = match kind {
        DataType::UInt8 => u8::MAX.into(),
        DataType::UInt16 => u16::MAX.into(),
        DataType::UInt32 => u32::MAX.into(),
        _ => u64::MAX,
    };
    let cells = values.cells.iter().enumerate().map(|(index, cell)| match *cell {
        Cell::Nil => Ok(None),
        Cell::UInt(value) if value <= limit => Ok(Some(value)),
        Cell::UInt(_) | Cell::Int(_) => Err(range(index)),
        _ => Err(wrong(index)),
    });
    Ok(Arc::new(cells.collect::<Result<UInt64Array, Fault>>()?))
}

/// Checks that no number becomes infinite as a 32-bit float; returns the index of the first that does.
fn check_single(floats: &Float64Array) -> Result<(), usize> {
    #[allow(clippy::cast_possible_truncation, reason = "what the cast does is looked at")]
    let is_beyond = |value: f64| (value as f32).is_infinite();
    floats.iter().position(|value| value.is_some_and(is_beyond)).map_or(Ok(()), Err)
}

fn narrowed(array: ArrayRef, kind: &DataType) -> Result<ArrayRef, Fault> {
    if array.data_type() == kind { Ok(array) } else { cast_to(&array, kind) }
}

/// Strings, whose text is already in the order of the cells.
fn strings<O: OffsetSizeTrait>(values: Values, wrong: impl Fn(usize) -> Fault) -> Result<GenericStringArray<O>, Fault> {
    let count = values.cells.len();
    let too_large = || {
        Fault::new(
            ErrorCode::TooLarge.as_str(),
            ErrorCode::TooLarge.retry(),
            "the result has more than 2 GiB, the limit of the type string: use large_string, or several chunks",
        )
    };
    O::from_usize(values.text().len()).ok_or_else(too_large)?;
    let mut offsets = Vec::with_capacity(count + 1);
    let (mut end, mut nulls) = (0, 0);
    offsets.push(O::default());
    for (index, cell) in values.cells.iter().enumerate() {
        match *cell {
            Cell::Nil => nulls += 1,
            Cell::Text { start, size } => {
                debug_assert_eq!(start, end, "text in the order of the cells");
                end = start + size as usize;
            }
            _ => return Err(wrong(index)),
        }
        offsets.push(O::usize_as(end));
    }
    let valid = (nulls > 0).then(|| values.cells.iter().map(|cell| !matches!(cell, Cell::Nil)).collect::<NullBuffer>());
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let text = Buffer::from_vec(values.into_text().into_bytes());
    GenericStringArray::try_new(offsets, text, valid).map_err(|error| Fault::argument(error.to_string()))
}
