//! Threads with a runtime each, for loads that must not wait for one another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::error::LoadError;

/// Runs `work` on a thread of its own, from now on; the future waits for its result.
pub(crate) fn on_own_thread<F, T>(
    name: &str,
    work: impl FnOnce() -> F + Send + 'static,
) -> impl Future<Output = Result<T, LoadError>>
where
    F: Future<Output = Result<T, LoadError>>,
    T: Send + 'static,
{
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = match runtime {
            Ok(runtime) => runtime.block_on(work()),
            Err(error) => Err(LoadError::system("a runtime", error)),
        };
        // Who no longer waits has been told to stop.
        let _ = done.send(outcome);
    });
    async move {
        thread.map_err(|error| LoadError::system("a thread", error))?;
        result.await.expect("the thread sends before it ends, and does not panic")
    }
}

/// A thread that keeps a core busy, until this is dropped.
pub(crate) struct BusyThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BusyThread {
    pub(crate) fn start() -> Result<Self, LoadError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("load-busy".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let thread = thread.map_err(|error| LoadError::system("a thread", error))?;
        Ok(BusyThread { stop, thread: Some(thread) })
    }
}

impl Drop for BusyThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does nothing that could fail.
            let _ = thread.join();
        }
    }
}
