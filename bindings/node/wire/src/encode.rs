//! Encodes requests and notifications, each to one Buffer.

use std::ffi::CStr;

use fieldseal_protocol::{Curve, DecryptOptions, EncryptOptions, Keying, Limits, Scalar, ValuesResult, request};
use napi::bindgen_prelude::BufferSlice;
use napi::{Env, ValueType};
use napi_derive::napi;

use crate::decode::{Answer, whole_number};
use crate::fault::{Code, Fault, Result, fault, invalid_argument, of_content, of_node};
use crate::js::Js;
use crate::values::Taken;

/// Messages up to this size are copied into Node's memory, which is cheaper than a Buffer with foreign memory.
const COPY_SIZE_MAX: usize = 4096;
/// Maximum bytes of a request's fixed parts with the longest options, reserved in advance.
const FIXED_SIZE: usize = 256;

/// Encodes `encrypt` of an array of values.
#[napi(catch_unwind)]
pub fn encode_encrypt<'env>(env: &'env Env, id: Js, options: Js, values: Js) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let taken = Taken::of(values, options.size_max)?;
    let encoded = encoded(&options, taken.scalars(), |values, out| {
        request::encrypt(id, &options.for_encrypt(), values, out);
    });
    options.buffer(env, encoded)
}

/// Encodes `encrypt` of fields of one size that `content` contains one after another.
#[napi(catch_unwind)]
pub fn encode_encrypt_fields<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    content: &[u8],
    field_size: Js,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let field_size = whole_number(field_size, "fieldSize", 1.0, f64::from(u32::MAX))? as usize;
    if !content.len().is_multiple_of(field_size) {
        let size = content.len();
        return Err(invalid_argument(format!("content: {size} bytes are no multiple of fieldSize {field_size}")));
    }
    // Validates UTF-8 of the whole content first, which takes a tenth of the time of validating each field.
    let text = std::str::from_utf8(content).map_err(|error| no_utf8(error.valid_up_to() / field_size))?;
    let count = text.len() / field_size;
    if let Some(index) = (1..count).find(|index| !text.is_char_boundary(index * field_size)) {
        return Err(no_utf8(index - 1));
    }
    let fields = (0..count).map(|index| Scalar::from(&text[index * field_size..][..field_size]));
    let encoded = encoded(&options, fields, |values, out| {
        request::encrypt(id, &options.for_encrypt(), values, out);
    });
    options.buffer(env, encoded)
}

fn no_utf8(index: usize) -> Fault {
    invalid_argument(format!("content: field {index} is not UTF-8"))
}

/// Encodes `decrypt` of an array of values.
#[napi(catch_unwind)]
pub fn encode_decrypt<'env>(env: &'env Env, id: Js, options: Js, values: Js) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let taken = Taken::of(values, options.size_max)?;
    let encoded = encoded(&options, taken.scalars(), |values, out| {
        request::decrypt(id, &options.for_decrypt(), values, out);
    });
    options.buffer(env, encoded)
}

/// Encodes `decrypt` of the values of an answer without creating JavaScript values.
#[napi(catch_unwind)]
pub fn encode_decrypt_answer<'env>(env: &'env Env, id: Js, options: Js, answer: &Answer) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let ValuesResult { values, .. } = answer.list()?;
    let scalars = values.iter().collect::<std::result::Result<Vec<_>, _>>();
    let scalars = scalars.map_err(|error| of_content(&error.into()))?;
    let encoded = encoded(&options, scalars.into_iter(), |values, out| {
        request::decrypt(id, &options.for_decrypt(), values, out);
    });
    options.buffer(env, encoded)
}

/// Encodes `health`.
#[napi(catch_unwind)]
pub fn encode_health<'env>(env: &'env Env, id: Js) -> Result<BufferSlice<'env>> {
    let mut out = Vec::new();
    request::health(message_id(id)?, &mut out);
    buffer(env, out)
}

/// Encodes the notification `cancel` of a request.
#[napi(catch_unwind)]
pub fn encode_cancel<'env>(env: &'env Env, id: Js) -> Result<BufferSlice<'env>> {
    let mut out = Vec::new();
    request::cancel(message_id(id)?, &mut out);
    buffer(env, out)
}

/// The options of a request.
struct Options {
    app: String,
    curve: Option<Curve>,
    keying: Option<Keying>,
    role: Option<String>,
    deadline_ms: Option<u32>,
    /// Maximum bytes of the encoded message.
    size_max: usize,
}

impl Options {
    fn of(options: Js) -> Result<Options> {
        if options.kind()? != ValueType::Object {
            return Err(invalid_argument("options: expected an object"));
        }
        let word = |name| text(options, name);
        let number = |name: &CStr| -> Result<Option<f64>> {
            let number = options.property(name)?;
            number.map(|number| whole_number(number, &name.to_string_lossy(), 1.0, f64::from(u32::MAX))).transpose()
        };
        let size_max = number(c"frameSizeMax")?.map_or(Limits::default().frame_size_max, |size| size as usize);
        Ok(Options {
            app: word(c"app")?.ok_or_else(|| invalid_argument("app: expected a string"))?,
            curve: known(word(c"curve")?, "curve", Curve::parse, "r1 or k1")?,
            keying: known(word(c"keying")?, "keying", Keying::parse, "field, request or session")?,
            role: word(c"role")?,
            deadline_ms: number(c"deadlineMs")?.map(|number| number as u32),
            size_max,
        })
    }

    fn for_encrypt(&self) -> EncryptOptions<'_> {
        EncryptOptions {
            curve: self.curve,
            keying: self.keying,
            role: self.role.as_deref(),
            deadline_ms: self.deadline_ms,
            ..EncryptOptions::new(&self.app)
        }
    }

    fn for_decrypt(&self) -> DecryptOptions<'_> {
        let (role, deadline_ms) = (self.role.as_deref(), self.deadline_ms);
        DecryptOptions { role, deadline_ms, ..DecryptOptions::new(&self.app) }
    }

    fn buffer<'env>(&self, env: &'env Env, message: Vec<u8>) -> Result<BufferSlice<'env>> {
        let (size, size_max) = (message.len(), self.size_max);
        if size > size_max {
            return Err(fault(Code::TooLarge, format!("the request of {size} bytes exceeds the limit of {size_max}")));
        }
        buffer(env, message)
    }
}

/// Encodes the values with `write` into a buffer that is large enough from the start.
fn encoded<'v, V>(options: &Options, values: V, write: impl FnOnce(V, &mut Vec<u8>)) -> Vec<u8>
where
    V: ExactSizeIterator<Item = Scalar<'v>> + Clone,
{
    /// Maximum bytes of a value's head, and of a value that is not a string.
    const BESIDE_TEXT: usize = 9;
    let size = |value: Scalar<'_>| match value {
        Scalar::Str(text) => text.as_bytes().len() + BESIDE_TEXT,
        _ => BESIDE_TEXT,
    };
    let words = options.app.len() + options.role.as_ref().map_or(0, String::len);
    let mut out = Vec::with_capacity(FIXED_SIZE + words + values.clone().map(size).sum::<usize>());
    write(values, &mut out);
    out
}

fn buffer<'env>(env: &'env Env, message: Vec<u8>) -> Result<BufferSlice<'env>> {
    let made = if message.len() <= COPY_SIZE_MAX {
        BufferSlice::copy_from(env, message)
    } else {
        BufferSlice::from_data(env, message)
    };
    made.map_err(|error| of_node(&error))
}

fn message_id(id: Js) -> Result<u32> {
    whole_number(id, "id", 0.0, f64::from(u32::MAX)).map(|id| id as u32)
}

fn text(options: Js, name: &CStr) -> Result<Option<String>> {
    let Some(value) = options.property(name)? else { return Ok(None) };
    let expected = || invalid_argument(format!("{}: expected a string", name.to_string_lossy()));
    if value.kind()? != ValueType::String {
        return Err(expected());
    }
    let mut bytes = Vec::new();
    value.append_text(&mut bytes)?;
    String::from_utf8(bytes).map(Some).map_err(|_| expected())
}

fn known<T>(word: Option<String>, name: &str, parse: fn(&str) -> Option<T>, expected: &str) -> Result<Option<T>> {
    let Some(word) = word else { return Ok(None) };
    parse(&word).map(Some).ok_or_else(|| invalid_argument(format!("{name}: expected {expected}")))
}
