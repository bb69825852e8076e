//! Threads for long pieces of work on bytes. They are not those on which names are looked up, so that a name server which does not
//! answer holds up nobody's body.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Work on up to so many bytes is done between two others' turns.
const INLINE_SIZE_MAX: usize = 32 << 10;

/// The threads; begun when they are needed, and not waited for at the end.
pub(crate) struct ApartThreads {
    runtime: Option<Runtime>,
}

/// A way to these threads.
#[derive(Clone)]
pub(crate) struct Apart {
    handle: Handle,
}

impl ApartThreads {
    /// At most `threads_max` of them.
    pub(crate) fn new(threads_max: usize) -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().max_blocking_threads(threads_max).thread_name("fieldseal-apart").build()?;
        Ok(ApartThreads { runtime: Some(runtime) })
    }

    pub(crate) fn way(&self) -> Apart {
        Apart { handle: self.runtime.as_ref().expect("only taken when dropped").handle().clone() }
    }
}

impl Drop for ApartThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Apart {
    /// Runs work on `size` bytes: at once where they are few, else where nobody's traffic waits for it.
    pub(crate) async fn run<T: Send + 'static>(&self, size: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
        if size <= INLINE_SIZE_MAX {
            return work();
        }
        match self.handle.spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn work_goes_on_while_the_threads_for_names_are_taken() {
        let apart = ApartThreads::new(1).unwrap();
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        let (release, released) = channel::<()>();
        runtime.block_on(async {
            // A name server that does not answer.
            let looking = tokio::task::spawn_blocking(move || released.recv());
            let work = apart.way();
            let done = timeout(
                Duration::from_secs(60),
                work.run(1 << 20, || std::thread::current().name().map(str::to_owned)),
            );
            assert_eq!(done.await.expect("nobody waits for a name").as_deref(), Some("fieldseal-apart"));
            let here = std::thread::current().id();
            assert_eq!(work.run(10, || std::thread::current().id()).await, here);
            release.send(()).unwrap();
            looking.await.unwrap().unwrap();
        });
    }
}
