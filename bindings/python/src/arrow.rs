//! Columns: Arrow arrays as lists of values, read in place, and arrays made from results.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Float32Array, Float64Array, GenericStringArray,
    Int64Array, LargeBinaryArray, NullArray, OffsetSizeTrait, StringViewArray, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field};
use leafseal_protocol::{ErrorCode, Scalar, Text, ValueFault};

use crate::fault::CallFault;
use crate::options::CallDirection;
use crate::values::{ListCell, ListSource, ValueList};

/// One chunk of a column, as a list of values.
///
/// Text stays bytes: an array of strings of another library may contain bytes that are not UTF-8, so [`Column::new`] checks each value.
/// Bytes of nulls, and those outside of a slice, mean nothing and are not read.
pub(crate) enum Column {
    Null(NullArray),
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float64Array),
    Text(BinaryArray),
    LargeText(LargeBinaryArray),
    TextView(BinaryViewArray),
}

impl ListSource for Column {
    fn len(&self) -> usize {
        self.array().len()
    }

    #[inline]
    fn scalar(&self, index: usize) -> Scalar<'_> {
        match self.bytes(index) {
            Some(bytes) => Scalar::Str(Text::checked(bytes).expect("checked when the column was read")),
            None => self.other_scalar(index),
        }
    }
}

impl Column {
    /// Prepares a chunk that begins at value `first` of the column of `field`. Values are converted only where the format has one type for
    /// several of Arrow's; dictionaries and runs are decoded, so that equal values do not get equal envelopes.
    pub(crate) fn new(
        array: &ArrayRef,
        field: &Field,
        direction: CallDirection,
        first: usize,
    ) -> Result<Self, CallFault> {
        let column = Self::read(array, field.extension_type_name())?;
        let wrong = column.first_not_text().map(|index| (index, ValueFault::InvalidUtf8));
        if let Some((index, fault)) = wrong.or(column.first_not_finite().map(|index| (index, ValueFault::NotFinite))) {
            return Err(CallFault::value(first + index, &fault));
        }
        match direction {
            CallDirection::Decrypt if !column.is_text() => {
                let kind = array.data_type();
                Err(CallFault::argument(format!(
                    "a column of envelopes or documents must contain strings, and this one is {kind}"
                )))
            }
            _ => Ok(column),
        }
    }

    /// Reads the array of a field. Values of an extension type mean something else than their storage, unless that is text.
    fn read(array: &ArrayRef, extension: Option<&str>) -> Result<Self, CallFault> {
        let Some(name) = extension else { return Self::of(array) };
        match element_type(array.data_type()) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::of(array),
            DataType::Int8 if name == BOOL8 => Self::of(&cast_to(array, &DataType::Boolean)?),
            _ => Err(CallFault::argument(format!(
                "a column of the extension type {name} has no form in an envelope: convert it to strings or numbers first"
            ))),
        }
    }

    fn of(array: &ArrayRef) -> Result<Self, CallFault> {
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
            DataType::Float16 => Self::Float(cast_to(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            DataType::Utf8 => Self::Text(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string::<i64>().clone().into()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone().to_binary_view()),
            DataType::Binary => Self::Text(array.as_binary().clone()),
            DataType::LargeBinary => Self::LargeText(array.as_binary().clone()),
            DataType::BinaryView => Self::TextView(array.as_binary_view().clone()),
            DataType::Dictionary(_, values) => Self::of(&cast_to(array, values)?)?,
            DataType::RunEndEncoded(_, values) => {
                Self::read(&cast_to(array, values.data_type())?, values.extension_type_name())?
            }
            other => {
                return Err(CallFault::argument(format!(
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
            Self::Text(array) => array,
            Self::LargeText(array) => array,
            Self::TextView(array) => array,
        }
    }

    /// The bytes of a text; nothing for nulls and other values.
    #[inline]
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        match self {
            Self::Text(array) => array.is_valid(index).then(|| array.value(index)),
            Self::LargeText(array) => array.is_valid(index).then(|| array.value(index)),
            Self::TextView(array) => array.is_valid(index).then(|| array.value(index)),
            _ => None,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Null(_) | Self::Text(_) | Self::LargeText(_) | Self::TextView(_))
    }

    fn other_scalar(&self, index: usize) -> Scalar<'_> {
        if self.array().is_null(index) {
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
            Self::Null(_) | Self::Text(_) | Self::LargeText(_) | Self::TextView(_) => Scalar::Nil,
        }
    }

    fn first_not_text(&self) -> Option<usize> {
        if !self.is_text() {
            return None;
        }
        (0..self.len()).find(|index| self.bytes(*index).is_some_and(|bytes| Text::checked(bytes).is_none()))
    }

    fn first_not_finite(&self) -> Option<usize> {
        let Self::Float(array) = self else { return None };
        array.iter().position(|value| value.is_some_and(|value| !value.is_finite()))
    }
}

/// The canonical extension type of booleans of a byte each.
const BOOL8: &str = "arrow.bool8";

/// The type of the values of an encoded column.
fn element_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => element_type(values),
        DataType::RunEndEncoded(_, values) => element_type(values.data_type()),
        other => other,
    }
}

/// The type of the column of texts that a column of `kind` becomes.
pub(crate) fn text_type(kind: &DataType, direction: CallDirection) -> DataType {
    match (element_type(kind), direction) {
        (DataType::Utf8View | DataType::BinaryView, CallDirection::Decrypt) => DataType::Utf8View,
        (DataType::LargeUtf8 | DataType::LargeBinary | DataType::Utf8View | DataType::BinaryView, _) => {
            DataType::LargeUtf8
        }
        (DataType::Null, CallDirection::Decrypt) => DataType::Null,
        _ => DataType::Utf8,
    }
}

fn cast_to(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, CallFault> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, kind, &options)
        .map_err(|error| CallFault::argument(format!("the column cannot be read: {error}")))
}

/// A 32-bit float stands for its shortest decimal text, as in the protocol.
fn widened(array: &Float32Array) -> Float64Array {
    array.unary(|value| value.to_string().parse().unwrap_or(f64::from(value)))
}

/// Up to here a 64-bit float represents every integer.
const FLOAT_INTEGER_MAX: i128 = 1 << 53;

/// The type of decrypted values, if the caller has not set one: that of all of them.
pub(crate) fn common_type(chunks: &[ValueList], text_type: &DataType) -> Result<DataType, CallFault> {
    let (mut texts, mut bools, mut numbers) = (false, false, NumberColumn::default());
    for cell in chunks.iter().flat_map(|chunk| &chunk.cells) {
        match *cell {
            ListCell::Nil => {}
            ListCell::Bool(_) => bools = true,
            ListCell::UInt(value) => numbers.add(value.into()),
            ListCell::Int(value) => numbers.add(value.into()),
            ListCell::Float(_) => numbers.float = true,
            ListCell::Text { .. } => texts = true,
        }
    }
    match (texts, bools, numbers.kind()) {
        (_, false, None) => Ok(text_type.clone()),
        (false, true, None) => Ok(DataType::Boolean),
        (false, false, Some(kind)) => kind,
        _ => Err(CallFault::argument("the column contains values of different types: set `type`, or decrypt a list")),
    }
}

/// The numbers of a column.
#[derive(Default)]
struct NumberColumn {
    /// The least and the largest integer.
    integers: Option<(i128, i128)>,
    float: bool,
}

impl NumberColumn {
    fn add(&mut self, value: i128) {
        let (least, largest) = self.integers.unwrap_or((value, value));
        self.integers = Some((least.min(value), largest.max(value)));
    }

    /// The type that holds all of them exactly, if there are any.
    fn kind(&self) -> Option<Result<DataType, CallFault>> {
        let Some((least, largest)) = self.integers else { return self.float.then_some(Ok(DataType::Float64)) };
        let fits = |min: i128, max: i128| min <= least && largest <= max;
        let kinds = [
            (DataType::Int64, !self.float && fits(i64::MIN.into(), i64::MAX.into())),
            (DataType::UInt64, !self.float && fits(0, u64::MAX.into())),
            (DataType::Float64, fits(-FLOAT_INTEGER_MAX, FLOAT_INTEGER_MAX)),
        ];
        let kind = kinds.into_iter().find_map(|(kind, holds)| holds.then_some(kind));
        Some(kind.ok_or_else(|| {
            CallFault::argument("no type holds all numbers of the column exactly: set `type`, or decrypt a list")
        }))
    }
}

/// Makes an array of `kind` from values, which begin at value `first` of the call's column.
pub(crate) fn array(values: ValueList, kind: &DataType, first: usize) -> Result<ArrayRef, CallFault> {
    let wrong = |index: usize| {
        let message = format!("value {} is not of the type {kind}", first + index);
        CallFault::at(ErrorCode::InvalidParams, first + index, message)
    };
    let range = |index: usize| {
        let message = format!("value {} is beyond the range of {kind}", first + index);
        CallFault::at(ErrorCode::NumberOutOfRange, first + index, message)
    };
    Ok(match kind {
        DataType::Utf8 => Arc::new(strings::<i32>(values, wrong)?),
        DataType::LargeUtf8 => Arc::new(strings::<i64>(values, wrong)?),
        DataType::Utf8View => Arc::new(StringViewArray::from(&strings::<i64>(values, wrong)?)),
        DataType::BinaryView => Arc::new(StringViewArray::from(&strings::<i64>(values, wrong)?).to_binary_view()),
        DataType::Binary => Arc::new(BinaryArray::from(strings::<i32>(values, wrong)?)),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from(strings::<i64>(values, wrong)?)),
        DataType::Null => Arc::new(NullArray::new(values.cells.len())),
        DataType::Boolean => {
            let cells = values.cells.iter().enumerate().map(|(index, cell)| match *cell {
                ListCell::Nil => Ok(None),
                ListCell::Bool(value) => Ok(Some(value)),
                _ => Err(wrong(index)),
            });
            Arc::new(cells.collect::<Result<BooleanArray, CallFault>>()?)
        }
        DataType::Int64 | DataType::Int8 | DataType::Int16 | DataType::Int32 => {
            narrowed(integers(&values, kind, wrong, range)?, kind)?
        }
        DataType::UInt64 | DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
            narrowed(unsigned(&values, kind, wrong, range)?, kind)?
        }
        DataType::Float64 | DataType::Float32 | DataType::Float16 => {
            #[allow(clippy::cast_precision_loss, reason = "the nearest float is meant")]
            let cells = values.cells.iter().enumerate().map(|(index, cell)| match *cell {
                ListCell::Nil => Ok(None),
                ListCell::UInt(value) => Ok(Some(value as f64)),
                ListCell::Int(value) => Ok(Some(value as f64)),
                ListCell::Float(value) => Ok(Some(value)),
                _ => Err(wrong(index)),
            });
            let floats = narrowed(Arc::new(cells.collect::<Result<Float64Array, CallFault>>()?), kind)?;
            first_infinite(&floats)?.map_or(Ok(()), |index| Err(range(index)))?;
            floats
        }
        other => {
            return Err(CallFault::argument(format!("`type` must be a type that envelopes can hold, not {other}")));
        }
    })
}

fn integers(
    values: &ValueList,
    kind: &DataType,
    wrong: impl Fn(usize) -> CallFault,
    range: impl Fn(usize) -> CallFault,
) -> Result<ArrayRef, CallFault> {
    let limits = match kind {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    let cells = values.cells.iter().enumerate().map(|(index, cell)| {
        let value = match *cell {
            ListCell::Nil => return Ok(None),
            ListCell::UInt(value) => i64::try_from(value).map_err(|_| range(index))?,
            ListCell::Int(value) => value,
            _ => return Err(wrong(index)),
        };
        if value < limits.0 || value > limits.1 { Err(range(index)) } else { Ok(Some(value)) }
    });
    Ok(Arc::new(cells.collect::<Result<Int64Array, CallFault>>()?))
}

fn unsigned(
    values: &ValueList,
    kind: &DataType,
    wrong: impl Fn(usize) -> CallFault,
    range: impl Fn(usize) -> CallFault,
) -> Result<ArrayRef, CallFault> {
    let limit = match kind {
        DataType::UInt8 => u8::MAX.into(),
        DataType::UInt16 => u16::MAX.into(),
        DataType::UInt32 => u32::MAX.into(),
        _ => u64::MAX,
    };
    let cells = values.cells.iter().enumerate().map(|(index, cell)| match *cell {
        ListCell::Nil => Ok(None),
        ListCell::UInt(value) if value <= limit => Ok(Some(value)),
        ListCell::UInt(_) | ListCell::Int(_) => Err(range(index)),
        _ => Err(wrong(index)),
    });
    Ok(Arc::new(cells.collect::<Result<UInt64Array, CallFault>>()?))
}

/// The index of the first number that became infinite as a shorter float: envelopes contain finite ones.
fn first_infinite(floats: &ArrayRef) -> Result<Option<usize>, CallFault> {
    let floats = cast_to(floats, &DataType::Float64)?;
    Ok(floats.as_primitive::<Float64Type>().iter().position(|value| value.is_some_and(f64::is_infinite)))
}

fn narrowed(array: ArrayRef, kind: &DataType) -> Result<ArrayRef, CallFault> {
    if array.data_type() == kind { Ok(array) } else { cast_to(&array, kind) }
}

/// Strings, whose text is already in the order of the cells.
fn strings<O: OffsetSizeTrait>(
    values: ValueList,
    wrong: impl Fn(usize) -> CallFault,
) -> Result<GenericStringArray<O>, CallFault> {
    let count = values.cells.len();
    let too_large = || {
        CallFault::new(
            ErrorCode::TooLarge,
            "the result has more than 2 GiB, the limit of the type string: use large_string, or several chunks",
        )
    };
    O::from_usize(values.text().len()).ok_or_else(too_large)?;
    let mut offsets = Vec::with_capacity(count + 1);
    let (mut end, mut nulls) = (0, 0);
    offsets.push(O::default());
    for (index, cell) in values.cells.iter().enumerate() {
        match *cell {
            ListCell::Nil => nulls += 1,
            ListCell::Text { start, size } => {
                debug_assert_eq!(start, end, "text in the order of the cells");
                end = start + size as usize;
            }
            _ => return Err(wrong(index)),
        }
        offsets.push(O::usize_as(end));
    }
    let valid =
        (nulls > 0).then(|| values.cells.iter().map(|cell| !matches!(cell, ListCell::Nil)).collect::<NullBuffer>());
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let text = Buffer::from_vec(values.into_text().into_bytes());
    GenericStringArray::try_new(offsets, text, valid).map_err(|error| CallFault::argument(error.to_string()))
}
