//! Delivers outcomes to event loops from threads that are not Python's.
//!
//! While an interpreter ends, it stops every such thread that enters it, in the middle of native code, which aborts the process. So [`end`]
//! runs before that: it waits for deliveries that have begun, and later ones do not enter the interpreter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::fault::CallFault;
use crate::work::{CallWork, Done};

pub(crate) type WorkOutcome = Result<(Done, Arc<CallWork>), CallFault>;

/// Where the outcome of a call waits for its event loop.
pub(crate) type OutcomeSlot = Arc<Mutex<Option<WorkOutcome>>>;

/// Deliveries that may be inside the interpreter.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// How long the end of the interpreter waits for a delivery, which takes microseconds.
const DELIVERY_MAX: Duration = Duration::from_secs(10);

/// Where the outcome of one call goes.
pub(crate) struct Delivery {
    slot: OutcomeSlot,
    event_loop: Py<PyAny>,
    notify: Py<PyAny>,
}

impl Delivery {
    pub(crate) fn new(slot: &OutcomeSlot, event_loop: Py<PyAny>, notify: Py<PyAny>) -> Self {
        Self { slot: Arc::clone(slot), event_loop, notify }
    }

    pub(crate) fn send(self, outcome: WorkOutcome) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        RUNNING.fetch_add(1, Ordering::SeqCst);
        if !IS_ENDING.load(Ordering::SeqCst) {
            // The loop may be closed: then nothing waits.
            let _ = Python::try_attach(|py| self.event_loop.call_method1(py, "call_soon_threadsafe", (&self.notify,)));
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Call it when the interpreter begins to end.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let began = Instant::now();
        while RUNNING.load(Ordering::SeqCst) > 0 && began.elapsed() < DELIVERY_MAX {
            sleep(Duration::from_millis(1));
        }
    });
}

/// Call it in a process that was forked: the deliveries of its parent do not run there.
#[pyfunction]
pub(crate) fn forked() {
    RUNNING.store(0, Ordering::SeqCst);
}
