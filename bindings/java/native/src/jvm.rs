//! Calls of the Java virtual machine (the JNI specification, "JNI Functions"), each with its obligation.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use jni_sys::{JNIEnv, jbyte, jbyteArray, jclass, jint, jobject, jstring};

/// The interface pointer of the calling thread. Valid until the native method returns.
#[derive(Clone, Copy)]
pub(crate) struct Jvm(NonNull<JNIEnv>);

/// An exception is pending, or a function of the virtual machine failed: the native method must return at once.
#[derive(Debug)]
pub(crate) struct Thrown;

/// Calls a function of the interface table. Every function of JNI 1.6 is present in each virtual machine that Java 17 runs on.
macro_rules! call {
    ($jvm:expr, $version:ident, $name:ident $(, $argument:expr)*) => {
        ((**$jvm.0.as_ptr()).$version.$name)($jvm.0.as_ptr() $(, $argument)*)
    };
}

impl Jvm {
    /// Throws an exception of the class, if none is pending yet.
    pub(crate) fn throw(self, class: &CStr, message: &CStr) {
        // SAFETY: the interface pointer is that of this thread; both strings end with a zero; FindClass returns a local reference or null
        // with an exception of its own pending.
        unsafe {
            if call!(self, v1_2, ExceptionCheck) {
                return;
            }
            let class: jclass = call!(self, v1_1, FindClass, class.as_ptr());
            if !class.is_null() {
                call!(self, v1_1, ThrowNew, class, message.as_ptr());
            }
        }
    }

    /// Throws what a caller gets whose threads use one object at the same time.
    pub(crate) fn misused(self) -> Thrown {
        self.throw(
            c"java/util/ConcurrentModificationException",
            c"two threads use one object of the Leafseal provider at the same time",
        );
        Thrown
    }

    /// Copies `out.len()` bytes that begin at `offset` of the array.
    pub(crate) fn read(self, array: jbyteArray, offset: usize, out: &mut [u8]) -> Result<(), Thrown> {
        let (Ok(start), Ok(size)) = (jint::try_from(offset), jint::try_from(out.len())) else { return Err(Thrown) };
        // SAFETY: the array is a live reference, which the caller received from Java; the virtual machine checks the range; `out` has room.
        unsafe {
            call!(self, v1_1, GetByteArrayRegion, array, start, size, out.as_mut_ptr().cast::<jbyte>());
            self.pending()
        }
    }

    /// Copies `bytes` to the array, from `offset` on.
    pub(crate) fn write(self, array: jbyteArray, offset: usize, bytes: &[u8]) -> Result<(), Thrown> {
        let (Ok(start), Ok(size)) = (jint::try_from(offset), jint::try_from(bytes.len())) else { return Err(Thrown) };
        // SAFETY: as in `read`.
        unsafe {
            call!(self, v1_1, SetByteArrayRegion, array, start, size, bytes.as_ptr().cast::<jbyte>());
            self.pending()
        }
    }

    /// Bytes of an array.
    pub(crate) fn length(self, array: jbyteArray) -> usize {
        // SAFETY: the array is a live reference.
        let length = unsafe { call!(self, v1_1, GetArrayLength, array) };
        usize::try_from(length).unwrap_or(0)
    }

    /// The bytes of a whole array, which may hold a secret: the caller wipes them.
    pub(crate) fn bytes(self, array: jbyteArray) -> Result<Vec<u8>, Thrown> {
        if array.is_null() {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; self.length(array)];
        self.read(array, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// A new string.
    pub(crate) fn string(self, text: &CStr) -> Result<jstring, Thrown> {
        // SAFETY: the text ends with a zero and is ASCII, which modified UTF-8 contains; returns a local reference, or null with an
        // exception pending.
        let string = unsafe { call!(self, v1_1, NewStringUTF, text.as_ptr()) };
        if string.is_null() { Err(Thrown) } else { Ok(string) }
    }

    /// The address of a direct buffer's first byte; `None` for one without memory.
    pub(crate) fn address(self, buffer: jobject) -> Option<NonNull<u8>> {
        // SAFETY: the buffer is a live reference to a java.nio.Buffer.
        NonNull::new(unsafe { call!(self, v1_4, GetDirectBufferAddress, buffer) }.cast())
    }

    /// Begins a critical section: until [`Critical`] is dropped, the thread must not call the virtual machine or block.
    pub(crate) fn critical(self, array: jbyteArray, mode: Release) -> Result<Critical, Thrown> {
        let mut is_copy = false;
        // SAFETY: the array is a live reference; no other function of the interface is called before the release, except for a second
        // array.
        let start = unsafe { call!(self, v1_2, GetPrimitiveArrayCritical, array, &mut is_copy) };
        match NonNull::new(start) {
            Some(start) => Ok(Critical { jvm: self, array, start, mode }),
            None => Err(Thrown),
        }
    }

    /// Whether an exception is pending.
    fn pending(self) -> Result<(), Thrown> {
        // SAFETY: the interface pointer is that of this thread.
        if unsafe { call!(self, v1_2, ExceptionCheck) } { Err(Thrown) } else { Ok(()) }
    }
}

/// The action at the end of a critical section if the virtual machine has handed out a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// The copy is written back.
    Commit,
    /// The copy is discarded: nothing was written to it.
    Abort,
}

/// A critical section of one array.
pub(crate) struct Critical {
    jvm: Jvm,
    array: jbyteArray,
    start: NonNull<c_void>,
    mode: Release,
}

impl Critical {
    /// The address of the array's first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr().cast()
    }
}

impl Drop for Critical {
    fn drop(&mut self) {
        let mode = match self.mode {
            Release::Commit => 0,
            Release::Abort => jni_sys::JNI_ABORT,
        };
        // SAFETY: ends the section that `Jvm::critical` began, once.
        unsafe { call!(self.jvm, v1_2, ReleasePrimitiveArrayCritical, self.array, self.start.as_ptr(), mode) }
    }
}

/// Runs the body of a native method. A panic and a failed call of the virtual machine become an exception, and `fallback` is returned.
pub(crate) fn enter<T>(environment: *mut JNIEnv, fallback: T, body: impl FnOnce(Jvm) -> Result<T, Thrown>) -> T {
    let Some(environment) = NonNull::new(environment) else { return fallback };
    let jvm = Jvm(environment);
    match catch_unwind(AssertUnwindSafe(|| body(jvm))) {
        Ok(Ok(value)) => value,
        Ok(Err(Thrown)) => {
            jvm.throw(c"java/lang/OutOfMemoryError", c"the virtual machine gave no access to an array");
            fallback
        }
        Err(_) => {
            jvm.throw(c"java/lang/InternalError", c"leafseal: an internal check failed");
            fallback
        }
    }
}
