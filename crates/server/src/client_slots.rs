//! The share of each client in the network threads. The runtime serves ready connections in order and does not distinguish clients, so a
//! client with a thousand busy connections would get a thousand turns for each of another client.
//!
//! Here each client has a few slots. A connection takes a slot for its turn and returns it when the thread comes round to it again, so that
//! all others had theirs meanwhile; the next waiting connection of the client gets the slot. Connections of a client with no more of them
//! than slots never wait, and pay only for a check. A connection that waits as a bulk connection (`BulkQueue`) holds no slot meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Turns of a client per round of a network thread.
pub(crate) const SLOTS_PER_THREAD: usize = 8;

/// The slots of one client.
#[derive(Debug)]
pub(crate) struct ClientSlots {
    slots: usize,
    state: Mutex<ClientSlotsState>,
}

#[derive(Debug, Default)]
struct ClientSlotsState {
    connections: usize,
    /// Slots that are taken, or handed to a connection that has not run yet.
    taken: usize,
    /// Numbers of connections in the order of their requests; closed ones are skipped.
    queue: VecDeque<u64>,
    waiting: HashMap<u64, Wait>,
}

#[derive(Debug)]
enum Wait {
    /// Waiting for a slot.
    ForSlot(Waker),
    /// Woken, with a slot.
    Over,
}

/// A connection's claim on one of the slots.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    client: Arc<ClientSlots>,
    /// The connection's number.
    number: u64,
    has_slot: bool,
}

impl ClientSlots {
    /// Creates the slots of a client whose connections are served by this many threads.
    pub(crate) fn new(threads: usize) -> Self {
        ClientSlots { slots: threads * SLOTS_PER_THREAD, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ClientSlotsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) -> Option<Waker> {
        self.lock().release()
    }
}

impl ClientSlotsState {
    /// Releases a slot, or hands it to the next waiting connection, whose waker is returned.
    fn release(&mut self) -> Option<Waker> {
        while let Some(number) = self.queue.pop_front() {
            if let Some(wait) = self.waiting.get_mut(&number)
                && let Wait::ForSlot(waker) = std::mem::replace(wait, Wait::Over)
            {
                return Some(waker);
            }
        }
        self.taken -= 1;
        None
    }
}

impl ClientSlot {
    /// Creates the claim of the connection with this number, which is unique for the client.
    pub(crate) fn new(client: Arc<ClientSlots>, number: u64) -> Self {
        client.lock().connections += 1;
        ClientSlot { client, number, has_slot: false }
    }

    /// Releases the slot of the last turn, because the thread has come round since.
    pub(crate) fn begin_round(&mut self) {
        if std::mem::take(&mut self.has_slot)
            && let Some(next) = self.client.release()
        {
            next.wake();
        }
    }

    /// Whether the connection may have its turn now. Otherwise `waker` is woken when it may.
    pub(crate) fn enter(&mut self, waker: &Waker) -> bool {
        self.begin_round();
        let mut state = self.client.lock();
        let ClientSlotsState { taken, queue, waiting, .. } = &mut *state;
        self.has_slot = match waiting.get_mut(&self.number) {
            Some(Wait::ForSlot(known)) => {
                known.clone_from(waker);
                false
            }
            Some(Wait::Over) => {
                waiting.remove(&self.number);
                true
            }
            None if *taken < self.client.slots => {
                *taken += 1;
                true
            }
            None => {
                queue.push_back(self.number);
                waiting.insert(self.number, Wait::ForSlot(waker.clone()));
                false
            }
        };
        self.has_slot
    }

    /// Ends the turn. If the client has so many connections that they may have to wait for one another, and this one has moved bytes, it
    /// keeps its slot until it is served again: `waker` is woken at once for that.
    pub(crate) fn leave(&mut self, has_moved: bool, waker: &Waker) {
        if has_moved && self.client.lock().connections > self.client.slots {
            waker.wake_by_ref();
        } else {
            self.begin_round();
        }
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut state = self.client.lock();
        state.connections -= 1;
        let was_handed_one = matches!(state.waiting.remove(&self.number), Some(Wait::Over));
        let next = if self.has_slot || was_handed_one { state.release() } else { None };
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct TestConnection {
        slot: ClientSlot,
        woken: Arc<Count>,
    }

    impl TestConnection {
        fn enters(&mut self) -> bool {
            self.slot.enter(&Waker::from(Arc::clone(&self.woken)))
        }

        fn leaves(&mut self, has_moved: bool) {
            self.slot.leave(has_moved, &Waker::from(Arc::clone(&self.woken)));
        }

        fn woken(&self) -> usize {
            self.woken.0.swap(0, Ordering::Relaxed)
        }
    }

    fn connections<const N: usize>(slots: usize) -> (Arc<ClientSlots>, [TestConnection; N]) {
        let client = Arc::new(ClientSlots { slots, state: Mutex::default() });
        let connection = |number| TestConnection {
            slot: ClientSlot::new(Arc::clone(&client), number as u64),
            woken: Arc::default(),
        };
        (Arc::clone(&client), std::array::from_fn(connection))
    }

    fn assert_empty(client: &ClientSlots) {
        let ClientSlotsState { connections, taken, ref queue, ref waiting } = *client.lock();
        assert_eq!((connections, taken, queue.len(), waiting.len()), (0, 0, 0, 0));
    }

    #[test]
    fn slots_rotate_in_the_order_of_requests() {
        let (client, [mut a, mut b, mut c]) = connections(1);
        assert!(a.enters());
        a.leaves(true);
        assert!(!b.enters() && !c.enters() && !b.enters(), "the slot is kept until the thread has come round");
        assert_eq!((a.woken(), b.woken(), c.woken()), (1, 0, 0));
        assert!(!a.enters(), "it was handed on");
        assert_eq!((b.woken(), c.woken()), (1, 0));
        assert!(!c.enters());
        assert!(b.enters());
        b.leaves(false);
        assert_eq!((b.woken(), c.woken(), a.woken()), (0, 1, 0), "who moved nothing keeps nothing");
        assert!(c.enters());
        c.leaves(true);
        assert!(!c.enters());
        assert_eq!((c.woken(), a.woken()), (1, 1));
        assert!(a.enters());
        a.leaves(false);
        assert!(c.enters());
        c.leaves(false);
        drop((a, b, c));
        assert_empty(&client);
    }

    #[test]
    fn few_connections_never_wait() {
        let (_client, [mut a, mut b]) = connections(2);
        for _ in 0..3 {
            assert!(a.enters() && b.enters());
            a.leaves(true);
            b.leaves(true);
        }
        assert_eq!((a.woken(), b.woken()), (0, 0));
    }

    #[test]
    fn a_connection_that_ends_keeps_nobody_waiting() {
        for ending in ["with a slot", "waiting", "handed a slot"] {
            let (client, [mut a, mut b, mut c]) = connections(1);
            assert!(a.enters());
            a.leaves(true);
            assert!(!b.enters() && !c.enters());
            if ending == "waiting" {
                drop(b);
                drop(a);
                assert!(c.woken() == 1 && c.enters(), "{ending}");
                drop(c);
            } else {
                drop(a);
                assert_eq!((b.woken(), c.woken()), (1, 0), "{ending}");
                if ending == "with a slot" {
                    assert!(b.enters());
                }
                drop(b);
                assert!(c.woken() == 1 && c.enters(), "{ending}");
                drop(c);
            }
            assert_empty(&client);
        }
    }
}
