//! Threads that work on the store, step by step, so that neither requests nor maintenance wait for it: one scans it for edits, one does
//! what is due.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use leafseal_service::Service;

/// How long after the start the first step comes: the first requests come before it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a step that panicked.
const PANIC_PAUSE: Duration = Duration::from_secs(60);

/// A thread that makes steps with pauses; it ends on drop.
pub(crate) struct StoreThread {
    /// Dropped first, which ends the thread's pause.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// The thread that calls [`Service::scan`].
    pub(crate) fn scan<S: Service>(service: Arc<S>) -> io::Result<Self> {
        Self::start("leafseal-scan", move || service.scan())
    }

    /// The thread that calls [`Service::upkeep`].
    pub(crate) fn upkeep<S: Service>(service: Arc<S>) -> io::Result<Self> {
        Self::start("leafseal-upkeep", move || service.upkeep())
    }

    fn start(name: &'static str, step: impl Fn() -> Option<Duration> + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut pause = FIRST_PAUSE;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = match catch_unwind(AssertUnwindSafe(&step)) {
                    Ok(Some(pause)) => pause,
                    Ok(None) => return,
                    Err(_) => {
                        tracing::error!(thread = name, "work on the keystore panicked");
                        PANIC_PAUSE
                    }
                };
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It catches the service's panics, so its result is of no interest.
            let _ = thread.join();
        }
    }
}
