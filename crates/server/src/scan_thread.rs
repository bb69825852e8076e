//! The thread that scans the store for edits, step by step, so that neither requests nor maintenance wait for it.

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

/// The thread that calls [`Service::scan`]; it ends on drop.
pub(crate) struct StoreScanThread {
    /// Dropped first, which ends the thread's pause.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreScanThread {
    pub(crate) fn start<S: Service>(service: Arc<S>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("leafseal-scan".to_owned()).spawn(move || {
            let mut pause = FIRST_PAUSE;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = match catch_unwind(AssertUnwindSafe(|| service.scan())) {
                    Ok(Some(pause)) => pause,
                    Ok(None) => return,
                    Err(_) => {
                        tracing::error!("the scan of the keystore panicked");
                        PANIC_PAUSE
                    }
                };
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for StoreScanThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It catches the service's panics, so its result is of no interest.
            let _ = thread.join();
        }
    }
}
