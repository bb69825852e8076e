//! The thread that writes tiles and checkpoints, so that no record waits for them on its way to the disk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::LogError;
use crate::publisher::{LogPublisher, Publication, PublishedSize};

/// What the thread does besides.
pub(crate) trait Publishing: Send {
    /// An attempt to publish has ended.
    fn attempted(&self);

    /// Other work with what is published.
    ///
    /// # Errors
    /// What is wrong. It is shown, and nothing else waits for it.
    fn tidy(&mut self, publisher: &mut LogPublisher) -> Result<(), LogError>;
}

/// A publisher on a thread of its own. It has at most one publication at a time.
pub(crate) struct PublishingThread {
    shared: Arc<PublishingShared>,
    thread: JoinHandle<LogPublisher>,
}

struct PublishingShared {
    state: Mutex<PublishingState>,
    news: Condvar,
    retry_interval: Duration,
}

#[derive(Default)]
struct PublishingState {
    next: Option<Publication>,
    /// Has something that is not published.
    is_busy: bool,
    done: Option<PublishedSize>,
    fault: Option<String>,
    /// Why other work has failed.
    tidy_fault: Option<String>,
    is_closed: bool,
}

impl PublishingThread {
    pub(crate) fn start(publisher: LogPublisher, retry_interval: Duration, besides: Box<dyn Publishing>) -> Self {
        let shared = Arc::new(PublishingShared { state: Mutex::default(), news: Condvar::new(), retry_interval });
        let own = EndOfPublishing { shared: Arc::clone(&shared), besides };
        let run = move || own.run(publisher);
        let thread = std::thread::Builder::new().name("leafseal-tiles".to_owned()).spawn(run).expect("a thread");
        Self { shared, thread }
    }

    /// Whether it takes a publication.
    pub(crate) fn is_idle(&self) -> bool {
        !self.shared.lock().is_busy
    }

    /// Gives it a publication.
    pub(crate) fn hand_over(&self, publication: Publication) {
        let mut state = self.shared.lock();
        state.is_busy = true;
        state.next = Some(publication);
        drop(state);
        self.shared.news.notify_one();
    }

    /// Whether the last publication has ended, and was not taken.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.lock().done.is_some()
    }

    /// What was published since the last call.
    pub(crate) fn take_done(&self) -> Option<PublishedSize> {
        self.shared.lock().done.take()
    }

    /// Why the last attempt has failed.
    pub(crate) fn fault(&self) -> Option<String> {
        self.shared.lock().fault.clone()
    }

    /// Why the last attempt, or other work, has failed.
    pub(crate) fn any_fault(&self) -> Option<String> {
        let state = self.shared.lock();
        state.fault.clone().or_else(|| state.tidy_fault.clone())
    }

    /// Whether an attempt has ended since the last [`PublishingThread::take_done`].
    pub(crate) fn has_news(&self) -> bool {
        let state = self.shared.lock();
        state.done.is_some() || state.fault.is_some()
    }

    /// Ends after one more attempt to publish what there is, and returns what was published besides. `None` after a panic.
    pub(crate) fn close(self) -> Option<(LogPublisher, Option<PublishedSize>)> {
        self.shared.lock().is_closed = true;
        self.shared.news.notify_one();
        let publisher = self.thread.join().ok()?;
        Some((publisher, self.shared.lock().done.take()))
    }
}

impl PublishingShared {
    fn lock(&self) -> MutexGuard<'_, PublishingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread has. Lets nobody wait for it when it has ended, also by a panic.
struct EndOfPublishing {
    shared: Arc<PublishingShared>,
    besides: Box<dyn Publishing>,
}

impl EndOfPublishing {
    fn run(mut self, mut publisher: LogPublisher) -> LogPublisher {
        loop {
            let mut state = self.shared.lock();
            while state.next.is_none() && !state.is_closed {
                let (waited, timeout) = match publisher.has_pending() {
                    true => {
                        let waited = self.shared.news.wait_timeout(state, self.shared.retry_interval);
                        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                        (state, timeout.timed_out())
                    }
                    false => (self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner), false),
                };
                state = waited;
                if timeout {
                    break;
                }
            }
            let (next, is_last) = (state.next.take(), state.is_closed);
            drop(state);
            if let Some(next) = next {
                publisher.add(next);
            }
            self.attempt(&mut publisher);
            if is_last {
                return publisher;
            }
            let fault = self.besides.tidy(&mut publisher).err().map(|error| error.to_string());
            self.shared.lock().tidy_fault = fault;
        }
    }

    fn attempt(&self, publisher: &mut LogPublisher) {
        let published = publisher.publish();
        let mut state = self.shared.lock();
        state.fault = published.as_ref().err().map(|error| format!("{}: {error}", publisher.path().display()));
        if let Ok(Some(done)) = published {
            let bytes = done.bytes + state.done.map_or(0, |before| before.bytes);
            state.done = Some(PublishedSize { bytes, ..done });
            state.is_busy = false;
        }
        drop(state);
        self.besides.attempted();
    }
}

impl Drop for EndOfPublishing {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if !state.is_closed {
            state.fault = Some("its thread has ended, which is a bug".to_owned());
        }
        drop(state);
        self.besides.attempted();
    }
}
