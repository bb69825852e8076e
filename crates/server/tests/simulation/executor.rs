//! Polls the server's connections one at a time; ready ones in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(crate) struct Executor {
    /// A connection that is being polled is taken out.
    tasks: Mutex<BTreeMap<u64, Option<Task>>>,
    ready: Arc<Ready>,
}

struct Task {
    serving: Serving,
    waker: Waker,
}

#[derive(Default)]
struct Ready {
    state: Mutex<ReadyState>,
}

#[derive(Default)]
struct ReadyState {
    numbers: BTreeSet<u64>,
    driver: Option<Waker>,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.state.lock().unwrap()
    }

    fn add(&self, number: u64) {
        let mut state = self.lock();
        state.numbers.insert(number);
        let driver = state.driver.take();
        drop(state);
        driver.inspect(Waker::wake_by_ref);
    }
}

struct Bell {
    number: u64,
    ready: Arc<Ready>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.number);
    }
}

impl Executor {
    fn tasks(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Task>>> {
        self.tasks.lock().unwrap()
    }

    pub(crate) fn spawn(&self, number: u64, serving: impl Future<Output = ()> + Send + 'static) {
        let waker = Waker::from(Arc::new(Bell { number, ready: Arc::clone(&self.ready) }));
        // Tokio's cooperative budget is for tasks that share a thread.
        let serving: Serving = Box::pin(tokio::task::unconstrained(serving));
        self.tasks().insert(number, Some(Task { serving, waker }));
        self.ready.add(number);
    }

    /// Polls one of the ready tasks, which `choose` selects from their number; returns its number.
    pub(crate) fn poll_one(&self, choose: impl FnOnce(u64) -> u64) -> Option<u64> {
        let number = {
            let mut ready = self.ready.lock();
            let count = ready.numbers.len() as u64;
            if count == 0 {
                return None;
            }
            let index = usize::try_from(choose(count)).expect("small");
            let number = *ready.numbers.iter().nth(index).expect("one of them");
            ready.numbers.remove(&number);
            number
        };
        let task = self.tasks().get_mut(&number).and_then(Option::take);
        let Some(mut task) = task else { return Some(number) };
        let poll = task.serving.as_mut().poll(&mut Context::from_waker(&task.waker));
        match poll {
            Poll::Pending => drop(self.tasks().insert(number, Some(task))),
            Poll::Ready(()) => drop(self.tasks().remove(&number)),
        }
        Some(number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks().is_empty()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.lock().numbers.is_empty()
    }

    pub(crate) fn is_ready(&self, number: u64) -> bool {
        self.ready.lock().numbers.contains(&number)
    }

    /// Waits until a connection is ready.
    pub(crate) async fn wait(&self) {
        poll_fn(|cx| {
            let mut ready = self.ready.lock();
            if !ready.numbers.is_empty() {
                return Poll::Ready(());
            }
            ready.driver = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
