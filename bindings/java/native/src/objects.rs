//! Objects that Java refers to by a `long`: their address.
//!
//! An object lives until Java's cleaner frees it, when no Java object that holds the number is reachable. It is locked while it is used: a
//! second thread at the same time is an error of the caller, which must not corrupt memory.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use jni_sys::jlong;

use crate::jvm::{Jvm, Thrown};

/// Objects that Java holds.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// How many objects Java holds.
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Gives an object to Java.
pub(crate) fn give<T>(object: T) -> jlong {
    LIVE.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(Box::new(object)) as jlong
}

/// An object that Java holds.
///
/// # Safety
/// `address` came from [`give`] for the same type, and is not freed before the native method returns.
pub(crate) unsafe fn borrow<'a, T>(address: jlong) -> &'a T {
    assert_ne!(address, 0, "an object that exists");
    // SAFETY: by this function's own requirement.
    unsafe { &*(address as *const T) }
}

/// Frees an object.
///
/// # Safety
/// `address` came from [`give`] for the same type, and is not used again.
pub(crate) unsafe fn free<T>(address: jlong) {
    if address != 0 {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: by this function's own requirement.
        drop(unsafe { Box::from_raw(address as *mut T) });
    }
}

/// A value that one thread at a time may use. It never waits.
pub(crate) struct Exclusive<T> {
    is_used: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached between taking and releasing the flag, on one thread at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// Releases the flag, also when the use panics.
struct TakenFlag<'a>(&'a AtomicBool);

impl Drop for TakenFlag<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_used: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Uses the value; throws `ConcurrentModificationException` if another thread uses it.
    pub(crate) fn with<R>(&self, jvm: Jvm, body: impl FnOnce(&mut T) -> Result<R, Thrown>) -> Result<R, Thrown> {
        if self.is_used.swap(true, Ordering::Acquire) {
            return Err(jvm.misused());
        }
        let _taken = TakenFlag(&self.is_used);
        // SAFETY: the flag was free and is taken now, so that no other reference exists.
        body(unsafe { &mut *self.value.get() })
    }
}
