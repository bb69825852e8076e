//! Completed operations on their way back to the JavaScript thread, in groups: one wake-up of the event loop hands over all that have
//! ended since the last one.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use napi_sys as sys;

use crate::layout::RESULTS_SIZE;
use crate::pool::POOL;

/// Numbers at the start of a result: id, status, bytes written, bytes of output.
pub(crate) const RESULT_NUMBERS: usize = 4;
/// Bytes of a result before its output: the numbers and a tag.
pub(crate) const RESULT_HEAD: usize = 8 * RESULT_NUMBERS + 16;

/// The end of an operation.
pub(crate) struct Completion {
    pub(crate) id: f64,
    pub(crate) status: u8,
    pub(crate) written: usize,
    pub(crate) tag: [u8; 16],
    /// The bytes to be copied to the target.
    pub(crate) output: Option<Box<[u8]>>,
}

impl Completion {
    fn output(&self) -> &[u8] {
        let output = self.output.as_deref().unwrap_or_default();
        &output[..self.written.min(output.len())]
    }

    /// Bytes of the result in the shared memory.
    fn size(&self) -> usize {
        RESULT_HEAD + self.output().len().next_multiple_of(8)
    }
}

/// The way back to one JavaScript thread.
pub(crate) struct ThreadDelivery {
    state: Mutex<State>,
    /// Slices that are being processed.
    running: AtomicUsize,
    is_closed: AtomicBool,
}

struct State {
    done: VecDeque<Completion>,
    /// Whether the event loop has been woken for what is in `done`.
    is_woken: bool,
    wake: Wake,
}

/// Node's handle to wake the event loop; null before there is one and after the environment has ended.
struct Wake(sys::napi_threadsafe_function);

// SAFETY: Node allows calls of a thread-safe function from any thread until it is released.
unsafe impl Send for Wake {}

/// A slice being processed: the environment waits for its end.
pub(crate) struct Running<'a>(&'a ThreadDelivery);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ThreadDelivery {
    pub(crate) fn new() -> Self {
        let state = State { done: VecDeque::new(), is_woken: false, wake: Wake(ptr::null_mut()) };
        Self { state: Mutex::new(state), running: AtomicUsize::new(0), is_closed: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the handle that wakes the event loop.
    pub(crate) fn set_wake(&self, wake: sys::napi_threadsafe_function) {
        self.lock().wake = Wake(wake);
    }

    /// Enters a slice; none once the environment ends.
    pub(crate) fn begin(&self) -> Option<Running<'_>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(self);
        (!self.is_closed.load(Ordering::SeqCst)).then_some(running)
    }

    /// Hands over an operation that has ended.
    pub(crate) fn push(&self, completion: Completion) {
        let mut state = self.lock();
        if state.wake.0.is_null() {
            return;
        }
        state.done.push_back(completion);
        if !state.is_woken {
            state.is_woken = true;
            wake(state.wake.0);
        }
    }

    /// Writes as many results to `out` as it has room for, and returns how many. If some are left, the event loop is woken again, so
    /// that one turn of it never takes more than a group.
    pub(crate) fn take(&self, out: &mut [u8]) -> usize {
        let mut state = self.lock();
        let (mut count, mut at) = (0, 0);
        while let Some(next) = state.done.front() {
            let size = next.size();
            if at + size > out.len().min(RESULTS_SIZE) {
                break;
            }
            write(next, &mut out[at..at + size]);
            state.done.pop_front();
            (count, at) = (count + 1, at + size);
        }
        state.is_woken = !state.done.is_empty();
        if state.is_woken {
            wake(state.wake.0);
        }
        count
    }

    /// Ends the environment: no job touches its memory after this returns. Waits for slices that are being processed.
    pub(crate) fn close(self: &std::sync::Arc<Self>) {
        self.is_closed.store(true, Ordering::SeqCst);
        POOL.remove(std::sync::Arc::as_ptr(self).cast());
        while self.running.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
        let mut state = self.lock();
        state.done.clear();
        let wake = std::mem::replace(&mut state.wake, Wake(ptr::null_mut()));
        drop(state);
        if !wake.0.is_null() {
            // SAFETY: the handle has not been released before, and no other reference to it remains.
            unsafe { sys::napi_release_threadsafe_function(wake.0, sys::ThreadsafeFunctionReleaseMode::abort) };
        }
    }
}

fn wake(function: sys::napi_threadsafe_function) {
    // SAFETY: the handle is released only after it has been taken out under the lock that the caller holds.
    unsafe {
        sys::napi_call_threadsafe_function(function, ptr::null_mut(), sys::ThreadsafeFunctionCallMode::nonblocking)
    };
}

/// Writes a result: numbers, tag, output, padded to whole numbers.
fn write(completion: &Completion, out: &mut [u8]) {
    let output = completion.output();
    let numbers = [completion.id, f64::from(completion.status), completion.written as f64, output.len() as f64];
    let (head, rest) = out.split_at_mut(8 * RESULT_NUMBERS);
    head.copy_from_slice(numbers.map(f64::to_ne_bytes).as_flattened());
    let (tag, rest) = rest.split_at_mut(16);
    tag.copy_from_slice(&completion.tag);
    rest[..output.len()].copy_from_slice(output);
}
