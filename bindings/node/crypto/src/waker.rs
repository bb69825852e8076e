//! Wakes the event loop for a copy of the JavaScript when operations of it have ended, and keeps the loop alive while any are in flight.

use std::cell::{Cell, OnceCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use napi_sys as sys;

use crate::delivery::ThreadDelivery;
use crate::js::{Call, JsError, Reference, Result, check, make_text};

/// The way back to a copy of the JavaScript. Used on its thread only, and not moved once it has been started.
pub(crate) struct Waker {
    env: sys::napi_env,
    delivery: Arc<ThreadDelivery>,
    /// Null before the start.
    function: Cell<sys::napi_threadsafe_function>,
    /// The function that is called when operations have ended. The reference is weak: else no copy would ever be collected.
    deliver: OnceCell<Reference>,
    /// Operations in flight.
    pending: Cell<usize>,
}

impl Waker {
    pub(crate) fn new(env: sys::napi_env) -> Self {
        Self {
            env,
            delivery: Arc::new(ThreadDelivery::new()),
            function: Cell::new(ptr::null_mut()),
            deliver: OnceCell::new(),
            pending: Cell::new(0),
        }
    }

    /// Where jobs hand over that they have ended.
    pub(crate) fn delivery(&self) -> &Arc<ThreadDelivery> {
        &self.delivery
    }

    /// Sets the function of JavaScript that is called when operations have ended: argument 0.
    pub(crate) fn start(&self, call: &Call) -> Result<()> {
        if self.deliver.set(Reference::weak(call.env, call.arguments[0])?).is_err() {
            return Err(JsError("`start` must be called once"));
        }
        let name = make_text(call.env, "@leafseal/crypto")?;
        let (none, no_data, waker) = (ptr::null_mut(), ptr::null_mut(), ptr::from_ref(self).cast_mut().cast());
        let mut function = ptr::null_mut();
        // SAFETY: the handles belong to the current call. The waker is valid whenever Node calls `wake_up`: it releases the function when
        // it is dropped, on this thread.
        let status = unsafe {
            sys::napi_create_threadsafe_function(
                call.env,
                none,
                none,
                name,
                0,
                1,
                no_data,
                None,
                waker,
                Some(wake_up),
                &mut function,
            )
        };
        check(status, "cannot create a thread-safe function")?;
        self.function.set(function);
        self.delivery.set_wake(function);
        // SAFETY: this is the thread of the environment. Nothing is in flight, so that the loop may end; the hook runs before those that
        // Node added for the function, as hooks run in reverse order, and before the waker is dropped, which removes it.
        unsafe {
            check(sys::napi_unref_threadsafe_function(call.env, function), "cannot release the event loop")?;
            check(sys::napi_add_env_cleanup_hook(call.env, Some(end), waker), "cannot add a cleanup hook")
        }
    }

    /// Keeps the event loop alive for one more operation.
    pub(crate) fn hold(&self, env: sys::napi_env) -> Result<()> {
        let function = self.function.get();
        if function.is_null() {
            return Err(JsError("`start` must be called first"));
        }
        if self.pending.replace(self.pending.get() + 1) == 0 {
            // SAFETY: the function lives as long as the waker, and this is its thread.
            check(unsafe { sys::napi_ref_threadsafe_function(env, function) }, "cannot keep the event loop alive")?;
        }
        Ok(())
    }

    /// Releases the event loop from operations that have ended. Returns whether none is left.
    pub(crate) fn release(&self, env: sys::napi_env, count: usize) -> Result<bool> {
        let pending = self.pending.get().saturating_sub(count);
        self.pending.set(pending);
        let function = self.function.get();
        if pending == 0 && !function.is_null() {
            // SAFETY: as in `hold`.
            check(unsafe { sys::napi_unref_threadsafe_function(env, function) }, "cannot release the event loop")?;
        }
        Ok(pending == 0)
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.delivery.close();
        if !self.function.get().is_null() {
            // SAFETY: this is the thread of the environment. Removing a hook that has run already is without effect.
            unsafe { sys::napi_remove_env_cleanup_hook(self.env, Some(end), ptr::from_mut(self).cast()) };
        }
    }
}

/// Calls the function of a copy of the JavaScript. The copy is reachable while it has operations in flight.
///
/// # Safety
/// Node passes null or an environment, on its thread, and the waker that the thread-safe function was created with.
unsafe extern "C" fn wake_up(env: sys::napi_env, _: sys::napi_value, waker: *mut c_void, _: *mut c_void) {
    // Without an environment the call is dropped, as the environment ends; the waker may be gone.
    if env.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let waker = unsafe { &*waker.cast::<Waker>() };
    let Some(deliver) = waker.deliver.get().and_then(Reference::value) else { return };
    let (mut receiver, mut result) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the handles belong to the current call. Node reports an exception, which stays pending.
    unsafe {
        sys::napi_get_undefined(env, &mut receiver);
        sys::napi_call_function(env, receiver, deliver, 0, ptr::null(), &mut result);
    }
}

/// Ends the jobs of a copy. Node calls it on the environment's thread when that ends.
///
/// # Safety
/// `waker` is a waker that has not been dropped.
unsafe extern "C" fn end(waker: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { &*waker.cast::<Waker>() }.delivery.close();
}
