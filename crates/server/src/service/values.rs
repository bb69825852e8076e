//! `encrypt` and `decrypt`: lists of native values, read where they lie in the frame and answered straight into the buffer.

use fieldseal_engine::{Caller, Decryptor, Encryptor, Engine, Opened, Value, ValueType};
use fieldseal_protocol::{
    DecryptParams, EncryptParams, ErrorCode, ErrorObject, NumberBuffer, RawValues, Scalar, ValueError, ValuesPosition,
    answer, write,
};

use super::convert;
use crate::Step;

/// A list of values that is being encrypted.
pub(super) struct EncryptValues {
    encryptor: Encryptor,
    position: ValuesPosition,
    bytes_max: usize,
}

impl EncryptValues {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &EncryptParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::encrypt_options(&params.options);
        let encryptor = engine.encryptor(caller, &options).map_err(convert::error)?;
        answer::begin_values(id, params.values.count(), out);
        let bytes_max = engine.settings().step_bytes_max;
        Ok(Self { encryptor, position: ValuesPosition::default(), bytes_max })
    }

    pub(super) fn step(&mut self, params: &EncryptParams<'_>, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let (scalars, after) = take(params.values, self.position, self.encryptor.step_values_max(), self.bytes_max)?;
        let mut numbers: Vec<NumberBuffer> = Vec::new();
        numbers.resize_with(scalars.len(), NumberBuffer::new);
        let mut values = Vec::with_capacity(scalars.len());
        let mut kept = Vec::with_capacity(scalars.len());
        for (index, (scalar, buffer)) in scalars.iter().zip(&mut numbers).enumerate() {
            let Some((kind, text)) = scalar.text(buffer) else { continue };
            let value = Value { value_type: convert::value_type(kind), text };
            if !self.encryptor.leaves(&value) {
                values.push(value);
                kept.push(index);
            }
        }
        let mut written = 0;
        let sealed = self.encryptor.encrypt(&values, out, |index, size, out| {
            scalars[written..kept[index]].iter().for_each(|left| write::scalar(left, out));
            write::string_header(size, out);
            written = kept[index] + 1;
        });
        sealed.map_err(convert::error)?;
        scalars[written..].iter().for_each(|left| write::scalar(left, out));
        self.position = after;
        Ok(step(after, params.values))
    }
}

/// A list of values that is being decrypted.
pub(super) struct DecryptValues {
    decryptor: Decryptor,
    position: ValuesPosition,
    bytes_max: usize,
}

impl DecryptValues {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &DecryptParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::decrypt_options(&params.options);
        let decryptor = engine.decryptor(caller, &options).map_err(convert::error)?;
        answer::begin_values(id, params.values.count(), out);
        let bytes_max = engine.settings().step_bytes_max;
        Ok(Self { decryptor, position: ValuesPosition::default(), bytes_max })
    }

    pub(super) fn step(&mut self, params: &DecryptParams<'_>, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let (scalars, after) = take(params.values, self.position, self.decryptor.step_values_max(), self.bytes_max)?;
        let first = u64::from(self.position.index());
        let texts: Vec<&[u8]> = scalars.iter().map(sealed_text).collect();
        let mut fault = None;
        let done = self.decryptor.decrypt(&texts, |index, opened| {
            let written = match opened {
                Some(opened) => write_opened(&opened, out),
                None => {
                    write::scalar(&scalars[index], out);
                    Ok(())
                }
            };
            if let Err(error) = written {
                fault.get_or_insert(error.at_index(first + index as u64));
            }
        });
        let done = done.map_err(|error| convert::error_from(error, first))?;
        fault.map_or(Ok(()), Err)?;
        self.position = if done == scalars.len() { after } else { skip(params.values, self.position, done)? };
        Ok(step(self.position, params.values))
    }
}

/// What may be an envelope. Other scalars count as the empty text, which is none.
fn sealed_text<'a>(scalar: &Scalar<'a>) -> &'a [u8] {
    match scalar {
        Scalar::Str(text) => text.as_bytes(),
        _ => b"",
    }
}

fn write_opened(opened: &Opened<'_>, out: &mut Vec<u8>) -> Result<(), ErrorObject> {
    match opened.value_type {
        ValueType::String => write::string(opened.text, out),
        ValueType::Boolean => write::boolean(opened.text == "true", out),
        ValueType::Number => {
            let number = Scalar::from_number_text(opened.text)
                .map_err(|fault| ErrorObject::new(ErrorCode::NumberOutOfRange, fault.to_string()))?;
            write::scalar(&number, out);
        }
    }
    Ok(())
}

/// Up to `count_max` values from `position` on, fewer when their texts have `bytes_max` bytes, at least one; and where they end.
fn take<'a>(
    values: RawValues<'a>,
    position: ValuesPosition,
    count_max: usize,
    bytes_max: usize,
) -> Result<(Vec<Scalar<'a>>, ValuesPosition), ValueError> {
    let mut iterator = values.iter_from(position);
    let mut scalars = Vec::with_capacity(count_max.min((values.count() - position.index()) as usize));
    let mut bytes = 0;
    while scalars.len() < count_max.max(1) && bytes < bytes_max.max(1) {
        let Some(scalar) = iterator.next().transpose()? else { break };
        bytes += sealed_text(&scalar).len();
        scalars.push(scalar);
    }
    Ok((scalars, iterator.position()))
}

fn skip(values: RawValues<'_>, position: ValuesPosition, count: usize) -> Result<ValuesPosition, ValueError> {
    let mut iterator = values.iter_from(position);
    iterator.skip_values(u32::try_from(count).expect("not more than the list has"))?;
    Ok(iterator.position())
}

/// Whether the list is done.
pub(super) fn step(position: ValuesPosition, values: RawValues<'_>) -> Step {
    if position.index() == values.count() { Step::Done } else { Step::More }
}
