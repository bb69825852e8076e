//! Queues bulk connections on the threads of a runtime, so that together they delay sparse connections by one turn.
//!
//! A runtime serves ready connections in order, so a small request waits for a turn of every connection that moves megabytes. Here, as in
//! FQ-CoDel (RFC 8290, section 4.2), a connection that has used up a turn is bulk until it is served again, and bulk connections wait in a
//! queue. A dispatcher per thread wakes the next of them only when the thread has served all other ready connections and has polled its
//! sockets again.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::yield_now;

/// The queue of one listener's bulk connections. Clients take turns, however many connections each has, and so do the connections of a
/// client. Clones share the queue.
#[derive(Debug)]
pub struct BulkQueue<Client>(Arc<Mutex<BulkWaiters<Client>>>);

#[derive(Debug)]
struct BulkWaiters<Client> {
    /// Clients with waiting connections, each once, in the order in which they are served.
    order: VecDeque<Client>,
    waiting: HashMap<Client, VecDeque<Arc<BulkTicket>>>,
    /// Tasks that wake connections, at most one per thread.
    dispatchers: usize,
}

/// The waker of a waiting connection.
#[derive(Debug, Default)]
struct BulkTicket(Mutex<BulkWait>);

#[derive(Debug, Default)]
enum BulkWait {
    /// The connection is sparse, or its turn has come.
    #[default]
    Over,
    /// The connection waits in the queue.
    ForTurn(Waker),
}

/// One connection as a member of the queue.
#[derive(Debug)]
pub struct BulkMember<Client> {
    queue: BulkQueue<Client>,
    client: Client,
    ticket: Arc<BulkTicket>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Client> Clone for BulkQueue<Client> {
    fn clone(&self) -> Self {
        BulkQueue(Arc::clone(&self.0))
    }
}

impl<Client> Default for BulkQueue<Client> {
    fn default() -> Self {
        let queue = BulkWaiters { order: VecDeque::new(), waiting: HashMap::new(), dispatchers: 0 };
        BulkQueue(Arc::new(Mutex::new(queue)))
    }
}

impl<Client: Copy + Eq + Hash + Send + 'static> BulkWaiters<Client> {
    fn push(&mut self, client: Client, ticket: Arc<BulkTicket>) {
        let of_client = self.waiting.entry(client).or_default();
        if of_client.is_empty() {
            self.order.push_back(client);
        }
        of_client.push_back(ticket);
    }

    fn pop(&mut self) -> Option<Arc<BulkTicket>> {
        let client = self.order.pop_front()?;
        let of_client = self.waiting.get_mut(&client)?;
        let ticket = of_client.pop_front();
        if of_client.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.order.push_back(client);
        }
        ticket
    }
}

impl<Client: Copy + Eq + Hash + Send + 'static> BulkQueue<Client> {
    /// Adds a new connection of `client`, which is sparse.
    pub fn join(&self, client: Client) -> BulkMember<Client> {
        BulkMember { queue: self.clone(), client, ticket: Arc::default() }
    }

    /// Whether no connection waits for a turn.
    pub fn is_empty(&self) -> bool {
        let is_over = |ticket: &Arc<BulkTicket>| matches!(*lock(&ticket.0), BulkWait::Over);
        lock(&self.0).waiting.values().flatten().all(is_over)
    }

    /// Removes the next waiting connection. If there is none, the calling dispatcher has ended.
    fn next(&self) -> Option<Waker> {
        let mut queue = lock(&self.0);
        while let Some(ticket) = queue.pop() {
            // A connection that has ended does not wait any more.
            if let BulkWait::ForTurn(waker) = std::mem::take(&mut *lock(&ticket.0)) {
                return Some(waker);
            }
        }
        queue.dispatchers -= 1;
        None
    }

    async fn dispatch(self) {
        loop {
            // The runtime resumes this task after all tasks that are already woken, and those that its sockets wake.
            yield_now().await;
            let Some(next) = self.next() else { return };
            next.wake();
        }
    }
}

impl<Client: Copy + Eq + Hash + Send + 'static> BulkMember<Client> {
    /// Ready when the connection may have a turn; otherwise it is woken when it may. It waits even if woken for another reason.
    pub fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *lock(&self.ticket.0) {
            BulkWait::Over => Poll::Ready(()),
            BulkWait::ForTurn(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Ends a turn that is used up: the next comes after those of all others. Call it within a runtime, when [`poll_turn`](Self::poll_turn)
    /// was ready.
    pub fn end_turn(&mut self, cx: &mut Context<'_>) {
        *lock(&self.ticket.0) = BulkWait::ForTurn(cx.waker().clone());
        let runtime = Handle::current();
        let mut queue = lock(&self.queue.0);
        queue.push(self.client, Arc::clone(&self.ticket));
        if queue.dispatchers < runtime.metrics().num_workers() {
            queue.dispatchers += 1;
            runtime.spawn(self.queue.clone().dispatch());
        }
    }
}

impl<Client> Drop for BulkMember<Client> {
    fn drop(&mut self) {
        *lock(&self.ticket.0) = BulkWait::Over;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncReadExt;
    use tokio::task::JoinSet;

    use super::*;

    const BULK: usize = 24;

    /// A connection that always has bytes to move: one turn after the other.
    async fn busy(mut turns: BulkMember<u32>, mut turn: impl FnMut()) {
        poll_fn(|cx| {
            if turns.poll_turn(cx).is_ready() {
                turn();
                turns.end_turn(cx);
            }
            Poll::Pending
        })
        .await
    }

    fn current_thread() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    #[test]
    fn bulk_connections_have_their_turns_in_order() {
        current_thread().block_on(async {
            let (queue, order) = (BulkQueue::default(), Arc::new(Mutex::new(Vec::new())));
            let mut tasks = JoinSet::new();
            for number in 0..BULK {
                let order = Arc::clone(&order);
                tasks.spawn(busy(queue.join(0), move || lock(&order).push(number)));
            }
            while lock(&order).len() < 10 * BULK {
                yield_now().await;
            }
            let order = lock(&order);
            assert!(order.chunks_exact(BULK).all(|round| round.iter().copied().eq(0..BULK)), "{order:?}");
        });
    }

    #[test]
    fn a_client_with_many_connections_has_the_turns_of_one() {
        current_thread().block_on(async {
            let (queue, order) = (BulkQueue::default(), Arc::new(Mutex::new(Vec::new())));
            let mut tasks = JoinSet::new();
            for number in 0..BULK as u32 {
                let client = number.saturating_sub(BULK as u32 - 2);
                let order = Arc::clone(&order);
                tasks.spawn(busy(queue.join(client), move || lock(&order).push(client)));
            }
            while lock(&order).len() < 10 * BULK {
                yield_now().await;
            }
            // All run once before they wait for one another.
            let order = lock(&order);
            let (many, one): (Vec<u32>, Vec<u32>) = order[BULK..].iter().partition(|client| **client == 0);
            assert!(many.len().abs_diff(one.len()) <= 1, "{order:?}");
        });
    }

    #[test]
    fn a_sparse_connection_waits_for_one_bulk_turn_and_not_for_all() {
        current_thread().block_on(async {
            let (queue, turns) = (BulkQueue::default(), Arc::new(AtomicUsize::new(0)));
            let (asks, asked) = UnixStream::pair().expect("a pair of sockets");
            asked.set_nonblocking(true).expect("a socket");
            let mut asked = tokio::net::UnixStream::from_std(asked).expect("a socket");
            let mut tasks = JoinSet::new();
            // Asks for turns occasionally, and records how many turns of others passed meanwhile.
            let asked_after = Arc::new(AtomicUsize::new(0));
            for _ in 0..BULK {
                let (turns, asked_after) = (Arc::clone(&turns), Arc::clone(&asked_after));
                let mut asks = asks.try_clone().expect("a socket");
                tasks.spawn(busy(queue.join(0), move || {
                    let turn = turns.fetch_add(1, Ordering::Relaxed) + 1;
                    if turn.is_multiple_of(100) {
                        asked_after.store(turn, Ordering::Relaxed);
                        asks.write_all(&[0]).expect("the socket is open");
                    }
                }));
            }
            for _ in 0..20 {
                asked.read_u8().await.expect("the socket is open");
                let waited = turns.load(Ordering::Relaxed) - asked_after.load(Ordering::Relaxed);
                assert!(waited <= 1, "it waited for {waited} turns of bulk connections");
            }
        });
    }

    #[test]
    fn a_connection_that_ends_while_it_waits_delays_nobody() {
        current_thread().block_on(async {
            let (queue, turns) = (BulkQueue::default(), Arc::new(AtomicUsize::new(0)));
            let mut tasks = JoinSet::new();
            for number in 0..BULK {
                let turns = Arc::clone(&turns);
                let handle = tasks.spawn(busy(queue.join(0), move || {
                    turns.fetch_add(1, Ordering::Relaxed);
                }));
                yield_now().await;
                if number > 0 {
                    handle.abort();
                }
            }
            let before = turns.load(Ordering::Relaxed);
            while turns.load(Ordering::Relaxed) < before + 10 * BULK {
                yield_now().await;
            }
            let queue = lock(&queue.0);
            assert!(
                queue.waiting.values().map(VecDeque::len).sum::<usize>() <= 1 && queue.dispatchers <= 1,
                "{queue:?}"
            );
        });
    }

    #[test]
    fn every_thread_of_a_runtime_serves_bulk_connections() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().expect("a runtime");
        runtime.block_on(async {
            let (queue, turns) = (BulkQueue::default(), Arc::new(AtomicUsize::new(0)));
            let mut tasks = JoinSet::new();
            for _ in 0..BULK {
                let turns = Arc::clone(&turns);
                tasks.spawn(busy(queue.join(0), move || {
                    turns.fetch_add(1, Ordering::Relaxed);
                }));
            }
            let mut dispatchers = 0;
            while turns.load(Ordering::Relaxed) < 10_000 || dispatchers < 3 {
                dispatchers = lock(&queue.0).dispatchers;
                assert!(dispatchers <= 3, "{dispatchers}");
                yield_now().await;
            }
        });
    }
}
