//! Node's C interface: arguments, results, errors. Every handle is used only during the call that it belongs to, on its thread.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use napi_sys as sys;

/// Most arguments that an entry point takes.
pub(crate) const ARGUMENTS_MAX: usize = 7;

/// A call from JavaScript.
pub(crate) struct Call {
    pub(crate) env: sys::napi_env,
    /// The arguments; those that are missing are undefined.
    pub(crate) arguments: [sys::napi_value; ARGUMENTS_MAX],
    data: *mut c_void,
}

/// Bytes of a JavaScript buffer, valid until JavaScript runs again or, while a job holds the buffer, until the job ends.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) start: *mut u8,
    pub(crate) size: usize,
}

/// The failure of a call of Node's interface, which has left a JavaScript exception pending or will be thrown as one.
#[derive(Debug)]
pub(crate) struct JsError(pub(crate) &'static str);

pub(crate) type Result<T> = std::result::Result<T, JsError>;

/// Whether a call of Node's interface succeeded.
pub(crate) fn check(status: sys::napi_status, what: &'static str) -> Result<()> {
    if status == sys::Status::napi_ok { Ok(()) } else { Err(JsError(what)) }
}

impl Call {
    /// Reads the arguments of the current call.
    ///
    /// # Safety
    /// `env` and `info` belong to the current call.
    #[inline]
    pub(crate) unsafe fn new(env: sys::napi_env, info: sys::napi_callback_info) -> Self {
        let mut call = Self { env, arguments: [ptr::null_mut(); ARGUMENTS_MAX], data: ptr::null_mut() };
        let mut count = ARGUMENTS_MAX;
        // SAFETY: env and info are those of the current call; `count` is the room in `arguments`.
        unsafe {
            sys::napi_get_cb_info(env, info, &mut count, call.arguments.as_mut_ptr(), ptr::null_mut(), &mut call.data);
        }
        call
    }

    /// The data that the function was created with.
    pub(crate) fn data<T>(&self) -> *const T {
        self.data.cast()
    }

    /// The bytes of a Buffer, a typed array or a DataView.
    #[inline]
    pub(crate) fn bytes(&self, index: usize) -> Result<Bytes> {
        let (mut start, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the handle belongs to the current call; both results are written through valid pointers.
        let status = unsafe { sys::napi_get_buffer_info(self.env, self.arguments[index], &mut start, &mut size) };
        check(status, "an argument must be a buffer")?;
        // An empty buffer may have no address, which slices do not allow.
        let start = if start.is_null() { ptr::NonNull::<u8>::dangling().as_ptr() } else { start.cast() };
        Ok(Bytes { start, size })
    }

    /// A number.
    #[inline]
    pub(crate) fn number(&self, index: usize) -> Result<f64> {
        let mut number = 0.0;
        // SAFETY: as in `bytes`.
        let status = unsafe { sys::napi_get_value_double(self.env, self.arguments[index], &mut number) };
        check(status, "an argument must be a number")?;
        Ok(number)
    }

    /// The value of a handle, which JavaScript must keep during the call.
    ///
    /// # Safety
    /// The argument, if it is a handle, was made by [`make_handle`] for this type.
    pub(crate) unsafe fn handle<T>(&self, index: usize) -> Result<&T> {
        let mut data = ptr::null_mut();
        // SAFETY: as in `bytes`.
        let status = unsafe { sys::napi_get_value_external(self.env, self.arguments[index], &mut data) };
        check(status, "an argument must be a handle")?;
        // SAFETY: the caller's promise; the handle is an argument of the current call, and keeps its value alive.
        Ok(unsafe { &*data.cast::<T>() })
    }

    /// Creates a number.
    pub(crate) fn make_number(&self, number: f64) -> Result<sys::napi_value> {
        let mut value = ptr::null_mut();
        // SAFETY: env belongs to the current call.
        check(unsafe { sys::napi_create_double(self.env, number, &mut value) }, "cannot create a number")?;
        Ok(value)
    }
}

/// Creates a handle of JavaScript for a value, which is dropped with it.
pub(crate) fn make_handle<T>(env: sys::napi_env, value: T) -> Result<sys::napi_value> {
    /// # Safety
    /// Node passes what the handle was created with, once.
    unsafe extern "C" fn drop_value<T>(_: sys::napi_env, data: *mut c_void, _: *mut c_void) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(data.cast::<T>()) });
    }
    let data = Box::into_raw(Box::new(value)).cast();
    let mut handle = ptr::null_mut();
    // SAFETY: env belongs to the current call; the value lives until the finalizer drops it.
    let status = unsafe { sys::napi_create_external(env, data, Some(drop_value::<T>), ptr::null_mut(), &mut handle) };
    check(status, "cannot create a handle")?;
    Ok(handle)
}

/// A reference to a JavaScript value that outlives a call. Used and dropped on the thread of its environment.
pub(crate) struct Reference {
    env: sys::napi_env,
    reference: sys::napi_ref,
}

impl Reference {
    /// Keeps a value.
    pub(crate) fn strong(env: sys::napi_env, value: sys::napi_value) -> Result<Self> {
        Self::with_count(env, value, 1)
    }

    /// Refers to an object without keeping it.
    pub(crate) fn weak(env: sys::napi_env, value: sys::napi_value) -> Result<Self> {
        Self::with_count(env, value, 0)
    }

    fn with_count(env: sys::napi_env, value: sys::napi_value, count: u32) -> Result<Self> {
        let mut reference = ptr::null_mut();
        // SAFETY: the handle belongs to the current call.
        check(unsafe { sys::napi_create_reference(env, value, count, &mut reference) }, "cannot refer to a value")?;
        Ok(Self { env, reference })
    }

    /// The value, in the current call; none if it has been collected.
    pub(crate) fn value(&self) -> Option<sys::napi_value> {
        let mut value = ptr::null_mut();
        // SAFETY: the reference is valid until it is dropped, and this is the thread of its environment.
        unsafe { sys::napi_get_reference_value(self.env, self.reference, &mut value) };
        (!value.is_null()).then_some(value)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: as in `value`; there is no other copy of the reference.
        unsafe { sys::napi_delete_reference(self.env, self.reference) };
    }
}

/// Creates a string.
pub(crate) fn make_text(env: sys::napi_env, text: &str) -> Result<sys::napi_value> {
    let mut value = ptr::null_mut();
    // SAFETY: env belongs to the current call; Node copies the bytes of `text`.
    let status = unsafe { sys::napi_create_string_utf8(env, text.as_ptr().cast(), text.len() as isize, &mut value) };
    check(status, "cannot create a string")?;
    Ok(value)
}

/// Creates an object without properties.
pub(crate) fn make_object(env: sys::napi_env) -> Result<sys::napi_value> {
    let mut value = ptr::null_mut();
    // SAFETY: env belongs to the current call.
    check(unsafe { sys::napi_create_object(env, &mut value) }, "cannot create an object")?;
    Ok(value)
}

/// Creates a function; `data` is passed to each call of it.
pub(crate) fn make_function(
    env: sys::napi_env,
    name: &CStr,
    callback: sys::napi_callback,
    data: *mut c_void,
) -> Result<sys::napi_value> {
    let (name, size) = (name.as_ptr(), name.count_bytes() as isize);
    let mut function = ptr::null_mut();
    // SAFETY: env belongs to the current call; the name ends with a zero, and its length is given.
    let status = unsafe { sys::napi_create_function(env, name, size, callback, data, &mut function) };
    check(status, "cannot create a function")?;
    Ok(function)
}

/// Sets a property of an object.
pub(crate) fn set(env: sys::napi_env, object: sys::napi_value, name: &CStr, value: sys::napi_value) -> Result<()> {
    // SAFETY: all handles belong to the current call; the name ends with a zero.
    check(unsafe { sys::napi_set_named_property(env, object, name.as_ptr(), value) }, "cannot set a property")
}

/// Runs the body of an entry point; errors and panics become JavaScript exceptions.
#[inline]
pub(crate) fn guard(env: sys::napi_env, body: impl FnOnce() -> Result<sys::napi_value>) -> sys::napi_value {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(JsError(message))) => message,
        Err(_) => "internal error: please report it",
    };
    throw(env, message);
    ptr::null_mut()
}

#[cold]
fn throw(env: sys::napi_env, message: &str) {
    let mut is_pending = false;
    // SAFETY: env belongs to the current call. An exception that is pending already stays.
    unsafe {
        sys::napi_is_exception_pending(env, &mut is_pending);
        if let (false, Ok(text)) = (is_pending, make_text(env, message)) {
            let mut error = ptr::null_mut();
            if sys::napi_create_error(env, ptr::null_mut(), text, &mut error) == sys::Status::napi_ok {
                sys::napi_throw(env, error);
            }
        }
    }
}
