//! Slots for operations that any peer may begin and that an honest peer finishes in milliseconds: handshakes, and calls at the operator
//! port. When all are taken the oldest is displaced, because it is the most likely to be idle on purpose. A client at its own limit
//! displaces its own oldest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use thiserror::Error;
use tokio::sync::Notify;

use crate::client::ClientBound;

/// Displaced connections that may still be closing, beyond a listener's limit.
pub const CLOSING_MAX: usize = 16;

/// Why there is no place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Full {
    /// The listener is at its limit, and no connection can be displaced.
    #[error("too many connections")]
    Listener,
    /// The client is at its limit, and none of its connections can be displaced.
    #[error("too many connections of one client")]
    Client,
}

/// A bounded number of places.
#[derive(Debug)]
pub struct ConnectionSlots {
    max: usize,
    clients: ClientBound,
    state: Mutex<SlotsState>,
    /// Slots in use, including displaced ones that have not been dropped.
    held: AtomicUsize,
    ended: Notify,
}

#[derive(Debug, Default)]
struct SlotsState {
    next: u64,
    /// Ordered by age, the oldest first.
    taken: BTreeMap<u64, TakenSlots>,
    clients: HashMap<IpAddr, BTreeSet<u64>>,
}

#[derive(Debug)]
struct TakenSlots {
    displaced: Arc<Notify>,
    client: Option<IpAddr>,
}

impl SlotsState {
    fn remove(&mut self, number: u64) -> Option<Arc<Notify>> {
        let TakenSlots { displaced, client } = self.taken.remove(&number)?;
        if let Some(client) = client
            && let Some(numbers) = self.clients.get_mut(&client)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.clients.remove(&client);
            }
        }
        Some(displaced)
    }
}

/// A slot in use, released on drop.
#[derive(Debug)]
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    displaced: Arc<Notify>,
}

impl ConnectionSlots {
    /// Creates `max` free slots.
    pub fn new(max: usize, clients: ClientBound) -> Self {
        ConnectionSlots { max, clients, state: Mutex::default(), held: AtomicUsize::new(0), ended: Notify::new() }
    }

    /// Takes a slot for a client at `address`, displacing the client's oldest, or the oldest of all, if necessary.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> ConnectionSlot {
        let client = self.clients.client(address);
        let mut state = self.lock();
        let of_client = client.and_then(|client| state.clients.get(&client));
        let oldest = match of_client {
            Some(numbers) if numbers.len() >= self.clients.connections_max => numbers.first().copied(),
            _ if state.taken.len() >= self.max => state.taken.keys().next().copied(),
            _ => None,
        };
        if let Some(displaced) = oldest.and_then(|oldest| state.remove(oldest)) {
            displaced.notify_one();
        }
        let number = state.next;
        state.next += 1;
        let displaced = Arc::new(Notify::new());
        state.taken.insert(number, TakenSlots { displaced: Arc::clone(&displaced), client });
        if let Some(client) = client {
            state.clients.entry(client).or_default().insert(number);
        }
        drop(state);
        self.held.fetch_add(1, Ordering::Relaxed);
        ConnectionSlot { slots: Arc::clone(self), number, displaced }
    }

    /// Waits while too many displaced connections still hold their sockets.
    pub async fn room(&self) {
        loop {
            let ended = self.ended.notified();
            if self.held.load(Ordering::Relaxed) < self.max + CLOSING_MAX {
                return;
            }
            ended.await;
        }
    }

    /// The number of slots in use.
    pub fn count(&self) -> usize {
        self.lock().taken.len()
    }

    fn lock(&self) -> MutexGuard<'_, SlotsState> {
        self.state.lock().expect("nothing panics while this is locked")
    }
}

impl ConnectionSlot {
    /// Completes when the slot is displaced.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().remove(self.number);
        self.slots.held.fetch_sub(1, Ordering::Relaxed);
        self.slots.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_displaced(slot: &ConnectionSlot) -> bool {
        pin!(slot.displaced()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn slots(max: usize, of_client: usize) -> Arc<ConnectionSlots> {
        let clients = ClientBound { connections_max: of_client, trusted_balancers: Vec::new() };
        Arc::new(ConnectionSlots::new(max, clients))
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn only_the_oldest_is_displaced() {
        let slots = slots(2, 2);
        let first = slots.take(HERE);
        let second = slots.take(HERE);
        assert!(!is_displaced(&first) && !is_displaced(&second));
        let third = slots.take(HERE);
        assert!(is_displaced(&first) && !is_displaced(&second) && !is_displaced(&third));
        assert_eq!(slots.count(), 2);
        drop(first);
        assert_eq!(slots.count(), 2, "its place is another's");
        drop(second);
        let fourth = slots.take(HERE);
        assert!(!is_displaced(&third) && !is_displaced(&fourth), "there was room");
        drop((third, fourth));
        assert_eq!((slots.count(), slots.lock().clients.len()), (0, 0));
    }

    #[test]
    fn a_client_displaces_its_own() {
        let slots = slots(3, 2);
        let other = slots.take("192.0.2.1".parse().unwrap());
        let (first, second, third) = (slots.take(HERE), slots.take(HERE), slots.take(HERE));
        assert!(!is_displaced(&other) && is_displaced(&first));
        assert!(!is_displaced(&second) && !is_displaced(&third));
        assert_eq!(slots.count(), 3);
    }

    #[tokio::test]
    async fn there_is_no_room_while_those_that_gave_way_hold_their_sockets() {
        let slots = slots(1, 1);
        let mut held: Vec<ConnectionSlot> = (0..CLOSING_MAX).map(|_| slots.take(HERE)).collect();
        slots.room().await;
        held.push(slots.take(HERE));
        let has_room = |room: std::pin::Pin<&mut dyn Future<Output = ()>>| {
            room.poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let mut room = pin!(slots.room());
        assert!(!has_room(room.as_mut()));
        held.pop();
        assert!(has_room(room.as_mut()));
    }
}
