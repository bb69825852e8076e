//! JavaScript values through Node's C interface: reads arguments and creates results.
//!
//! Contains all unsafe code of the module. Every handle is used only during the call that it belongs to, on its thread.

use std::ffi::CStr;
use std::ptr;

use napi::bindgen_prelude::{FromNapiValue, ToNapiValue, TypeName, ValidateNapiValue};
use napi::{Env, ValueType, sys};

use crate::fault::{Code, Result, check, fault, invalid_params};

/// Buffer size for a string of unknown size; the size of longer strings is queried first.
const TEXT_ROOM: usize = 256;

/// U+FFFD in UTF-8.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// A JavaScript value, valid until the call that it belongs to returns.
#[derive(Clone, Copy)]
pub struct Js {
    env: sys::napi_env,
    value: sys::napi_value,
}

impl FromNapiValue for Js {
    // SAFETY: the handle is not used here; the caller guarantees that both belong to the current call.
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        Ok(Js { env, value })
    }
}

impl ToNapiValue for Js {
    // SAFETY: a handle that came in the same call, or was made in it, is handed back.
    unsafe fn to_napi_value(_: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        Ok(value.value)
    }
}

impl TypeName for Js {
    fn type_name() -> &'static str {
        "any"
    }

    fn value_type() -> ValueType {
        ValueType::Unknown
    }
}

impl ValidateNapiValue for Js {}

impl Js {
    pub(crate) fn kind(self) -> Result<ValueType> {
        let mut kind = 0;
        // SAFETY: `env` and `value` belong to the current call, `kind` is written through a valid pointer.
        check(unsafe { sys::napi_typeof(self.env, self.value, &mut kind) })?;
        Ok(ValueType::from(kind))
    }

    /// The value of a number.
    pub(crate) fn number(self) -> Result<f64> {
        let mut number = 0.0;
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_get_value_double(self.env, self.value, &mut number) })?;
        Ok(number)
    }

    pub(crate) fn boolean(self) -> Result<bool> {
        let mut boolean = false;
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_get_value_bool(self.env, self.value, &mut boolean) })?;
        Ok(boolean)
    }

    /// A BigInt that fits an unsigned 64-bit integer.
    pub(crate) fn unsigned(self) -> Result<Option<u64>> {
        let (mut number, mut lossless) = (0, false);
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_get_value_bigint_uint64(self.env, self.value, &mut number, &mut lossless) })?;
        Ok(lossless.then_some(number))
    }

    /// A BigInt that fits a signed 64-bit integer.
    pub(crate) fn signed(self) -> Result<Option<i64>> {
        let (mut number, mut lossless) = (0, false);
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_get_value_bigint_int64(self.env, self.value, &mut number, &mut lossless) })?;
        Ok(lossless.then_some(number))
    }

    /// Appends a string as UTF-8. Returns its size in bytes. Refuses a lone surrogate, for which Node would write U+FFFD: the engine would
    /// encrypt another text. `name` names the string in the error.
    pub(crate) fn append_text(self, out: &mut Vec<u8>, name: impl FnOnce() -> String) -> Result<usize> {
        // Node terminates its output with a zero and never splits a character.
        let mut size = self.copy_text(out, TEXT_ROOM)?;
        if size + 4 >= TEXT_ROOM {
            out.truncate(out.len() - size);
            // SAFETY: as in `kind`; without a buffer only the size is written.
            check(unsafe { sys::napi_get_value_string_utf8(self.env, self.value, ptr::null_mut(), 0, &mut size) })?;
            size = self.copy_text(out, size + 1)?;
        }
        let written = &out[out.len() - size..];
        let has_replacement = !written.is_ascii() && written.windows(3).any(|bytes| bytes == REPLACEMENT);
        if has_replacement && !self.is_well_formed()? {
            return Err(invalid_params(format!("{}: the string has a lone surrogate", name())));
        }
        Ok(size)
    }

    /// Whether every surrogate of a string belongs to a pair.
    fn is_well_formed(self) -> Result<bool> {
        let mut length = 0;
        // SAFETY: as in `kind`; without a buffer only the length is written.
        check(unsafe { sys::napi_get_value_string_utf16(self.env, self.value, ptr::null_mut(), 0, &mut length) })?;
        // With the terminating zero.
        let mut units = vec![0_u16; length + 1];
        // SAFETY: as in `kind`; Node writes at most as many units as `units` has.
        check(unsafe {
            sys::napi_get_value_string_utf16(self.env, self.value, units.as_mut_ptr(), units.len(), &mut length)
        })?;
        Ok(char::decode_utf16(units).all(|unit| unit.is_ok()))
    }

    /// Appends as much of the string as fits into `room` bytes together with a terminating zero, which is not kept.
    fn copy_text(self, out: &mut Vec<u8>, room: usize) -> Result<usize> {
        out.reserve(room);
        let (start, mut size) = (out.len(), 0);
        let spare = out.spare_capacity_mut();
        // SAFETY: as in `kind`; `spare` has at least `room` bytes, of which Node writes `size` and a zero.
        check(unsafe {
            sys::napi_get_value_string_utf8(self.env, self.value, spare.as_mut_ptr().cast(), room, &mut size)
        })?;
        // SAFETY: `size` is below `room`, the room was reserved, and Node has written those bytes.
        unsafe { out.set_len(start + size) };
        Ok(size)
    }

    /// Returns a property; `None` if it is undefined or null.
    pub(crate) fn property(self, name: &CStr) -> Result<Option<Js>> {
        let mut value = ptr::null_mut();
        // SAFETY: as in `kind`; `name` ends with a zero. A getter that throws leaves an error.
        check(unsafe { sys::napi_get_named_property(self.env, self.value, name.as_ptr(), &mut value) })?;
        let property = Js { env: self.env, value };
        Ok(match property.kind()? {
            ValueType::Undefined | ValueType::Null => None,
            _ => Some(property),
        })
    }

    pub(crate) fn is_array(self) -> Result<bool> {
        let mut is_array = false;
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_is_array(self.env, self.value, &mut is_array) })?;
        Ok(is_array)
    }

    /// Returns the length of an array.
    pub(crate) fn array_length(self) -> Result<u32> {
        let mut length = 0;
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_get_array_length(self.env, self.value, &mut length) })?;
        Ok(length)
    }

    /// Returns an element of an array; undefined beyond its end.
    pub(crate) fn element(self, index: u32) -> Result<Js> {
        let mut value = ptr::null_mut();
        // SAFETY: as in `kind`.
        check(unsafe { sys::napi_get_element(self.env, self.value, index, &mut value) })?;
        Ok(Js { env: self.env, value })
    }

    /// Calls `read` for each element with its index. Handles are released in groups, so that a long array holds few.
    pub(crate) fn for_each_element(self, mut read: impl FnMut(u32, Js) -> Result<()>) -> Result<()> {
        let length = self.array_length()?;
        in_groups(self.env, length, |index| read(index, self.element(index)?))
    }
}

/// The text of a string; `name` names it in the error.
pub(crate) fn string(value: Js, name: &str) -> Result<String> {
    let expected = || invalid_params(format!("{name}: expected a string"));
    if value.kind()? != ValueType::String {
        return Err(expected());
    }
    let mut bytes = Vec::new();
    value.append_text(&mut bytes, || name.to_owned())?;
    String::from_utf8(bytes).map_err(|_| expected())
}

/// Calls `each` for the indexes of an array, and releases the created handles after every 1,024 elements.
fn in_groups(env: sys::napi_env, length: u32, mut each: impl FnMut(u32) -> Result<()>) -> Result<()> {
    const GROUP: u32 = 1024;
    let mut start = 0;
    while start < length {
        let end = length.min(start.saturating_add(GROUP));
        let scope = Scope::open(env)?;
        (start..end).try_for_each(&mut each)?;
        drop(scope);
        start = end;
    }
    Ok(())
}

/// A scope of handles: handles created while it is open are released when it is dropped.
struct Scope {
    env: sys::napi_env,
    scope: sys::napi_handle_scope,
}

impl Scope {
    fn open(env: sys::napi_env) -> Result<Scope> {
        let mut scope = ptr::null_mut();
        // SAFETY: `env` belongs to the current call; the scope is closed by `drop`, within that call.
        check(unsafe { sys::napi_open_handle_scope(env, &mut scope) })?;
        Ok(Scope { env, scope })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: the scope was opened in this call and scopes are closed in the reverse order, as they are locals. Closing fails
        // only for a scope that is not open.
        unsafe { sys::napi_close_handle_scope(self.env, self.scope) };
    }
}

/// Creates JavaScript values for the current call.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    env: sys::napi_env,
}

impl Maker {
    pub(crate) fn new(env: &Env) -> Maker {
        Maker { env: env.raw() }
    }

    fn made(self, make: impl FnOnce(*mut sys::napi_value) -> sys::napi_status) -> Result<Js> {
        let mut value = ptr::null_mut();
        check(make(&mut value))?;
        Ok(Js { env: self.env, value })
    }

    pub(crate) fn null(self) -> Result<Js> {
        // SAFETY: `env` belongs to the current call, the result is written through a valid pointer.
        self.made(|value| unsafe { sys::napi_get_null(self.env, value) })
    }

    pub(crate) fn boolean(self, boolean: bool) -> Result<Js> {
        // SAFETY: as in `null`.
        self.made(|value| unsafe { sys::napi_get_boolean(self.env, boolean, value) })
    }

    pub(crate) fn number(self, number: f64) -> Result<Js> {
        // SAFETY: as in `null`.
        self.made(|value| unsafe { sys::napi_create_double(self.env, number, value) })
    }

    /// A BigInt.
    pub(crate) fn unsigned(self, number: u64) -> Result<Js> {
        // SAFETY: as in `null`.
        self.made(|value| unsafe { sys::napi_create_bigint_uint64(self.env, number, value) })
    }

    /// A BigInt.
    pub(crate) fn signed(self, number: i64) -> Result<Js> {
        // SAFETY: as in `null`.
        self.made(|value| unsafe { sys::napi_create_bigint_int64(self.env, number, value) })
    }

    /// Creates a string of one character for each byte.
    pub(crate) fn latin1(self, text: &[u8]) -> Result<Js> {
        let size = isize::try_from(text.len()).map_err(|_| fault(Code::TooLarge, "a string is too long"))?;
        // SAFETY: as in `null`; Node copies `size` bytes from `text`.
        self.made(|value| unsafe { sys::napi_create_string_latin1(self.env, text.as_ptr().cast(), size, value) })
    }

    /// Creates a string from UTF-8. Fails if it is longer than JavaScript supports (2^29 bytes).
    pub(crate) fn text(self, text: &[u8]) -> Result<Js> {
        let size = isize::try_from(text.len()).map_err(|_| fault(Code::TooLarge, "a string is too long"))?;
        let start = text.as_ptr().cast();
        if text.is_ascii() {
            // SAFETY: as in `null`; Node copies `size` bytes from `text`.
            return self.made(|value| unsafe { sys::napi_create_string_latin1(self.env, start, size, value) });
        }
        // SAFETY: as in `null`; Node copies `size` bytes from `text`.
        self.made(|value| unsafe { sys::napi_create_string_utf8(self.env, start, size, value) })
    }

    /// Creates an array of `count` elements, each returned by `next`.
    pub(crate) fn array(self, count: u32, mut next: impl FnMut() -> Result<Js>) -> Result<Js> {
        // SAFETY: as in `null`.
        let array =
            self.made(|value| unsafe { sys::napi_create_array_with_length(self.env, count as usize, value) })?;
        in_groups(self.env, count, |index| {
            let element = next()?;
            // SAFETY: as in `null`; array and element are alive.
            check(unsafe { sys::napi_set_element(self.env, array.value, index, element.value) })
        })?;
        Ok(array)
    }
}
