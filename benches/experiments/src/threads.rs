//! Threads with their own runtime, for loads that must not wait for each other.

use tokio::sync::oneshot;

use leafseal_load::LoadError;

/// Starts `work` on its own thread; the future waits for its result.
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
        // Sending fails if the receiver was dropped.
        let _ = done.send(outcome);
    });
    async move {
        thread.map_err(|error| LoadError::system("a thread", error))?;
        result.await.expect("the thread sends before it ends, and does not panic")
    }
}
