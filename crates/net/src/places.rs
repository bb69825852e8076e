//! Places for calls whose callers nothing identifies but their address, shared fairly: a client with few displaces the newest call of
//! the one with most, so that a client with many long calls does not keep others out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::client::client_of;

/// A bounded number of places.
#[derive(Debug, Default)]
pub struct FairPlaces {
    state: Mutex<PlacesState>,
}

#[derive(Debug, Default)]
struct PlacesState {
    next: u64,
    taken: usize,
    /// Calls by client and number, the newest last.
    clients: HashMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
    /// Clients by the number of their calls.
    by_calls: BTreeSet<(usize, IpAddr)>,
}

/// A place of a call, released on drop.
#[derive(Debug)]
pub struct CallPermit {
    places: Arc<FairPlaces>,
    client: IpAddr,
    number: u64,
    displaced: Arc<Notify>,
}

impl PlacesState {
    fn calls_of(&self, client: IpAddr) -> usize {
        self.clients.get(&client).map_or(0, BTreeMap::len)
    }

    fn add(&mut self, client: IpAddr, displaced: &Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.taken += 1;
        let calls = self.clients.entry(client).or_default();
        calls.insert(number, Arc::clone(displaced));
        let now = calls.len();
        self.recount(client, now - 1, now);
        number
    }

    /// Removes a call; without a number, the newest of the client.
    fn remove(&mut self, client: IpAddr, number: Option<u64>) -> Option<Arc<Notify>> {
        let calls = self.clients.get_mut(&client)?;
        let removed = match number {
            Some(number) => calls.remove(&number),
            None => calls.pop_last().map(|(_, displaced)| displaced),
        }?;
        let now = calls.len();
        if now == 0 {
            self.clients.remove(&client);
        }
        self.recount(client, now + 1, now);
        self.taken -= 1;
        Some(removed)
    }

    fn recount(&mut self, client: IpAddr, before: usize, now: usize) {
        self.by_calls.remove(&(before, client));
        if now > 0 {
            self.by_calls.insert((now, client));
        }
    }
}

impl FairPlaces {
    /// Takes one of `max` places for a call from `address`. If all are taken, the client with most loses its newest, or there is none if
    /// that client has no more than one call more than this one.
    pub fn take(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<CallPermit> {
        let client = client_of(address);
        let mut state = self.lock();
        if state.taken >= max {
            let &(most, busiest) = state.by_calls.last()?;
            if most <= state.calls_of(client) + 1 {
                return None;
            }
            if let Some(displaced) = state.remove(busiest, None) {
                displaced.notify_one();
            }
        }
        let displaced = Arc::new(Notify::new());
        let number = state.add(client, &displaced);
        drop(state);
        Some(CallPermit { places: Arc::clone(self), client, number, displaced })
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        self.state.lock().expect("nothing panics while this is locked")
    }
}

impl CallPermit {
    /// Completes when another client has got the place.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.places.lock().remove(self.client, Some(self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_displaced(place: &CallPermit) -> bool {
        pin!(place.displaced()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn a_client_with_few_calls_displaces_the_newest_of_the_one_with_most() {
        let places = Arc::new(FairPlaces::default());
        let mut busy: Vec<CallPermit> = (0..4).map(|_| places.take(client(1), 4).unwrap()).collect();
        assert!(places.take(client(1), 4).is_none(), "it displaces none of its own");
        let others = [2, 2].map(|number| places.take(client(number), 4).unwrap());
        assert_eq!(busy.iter().map(is_displaced).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(places.take(client(2), 4).is_none(), "both have two");
        assert!(places.take(client(3), 4).is_some(), "it displaces one of client 2, and leaves");
        assert!(is_displaced(&others[1]) && !is_displaced(&others[0]));
        // A displaced entry has no place to release.
        busy.drain(2..).for_each(drop);
        let third = places.take(client(3), 4).unwrap();
        assert!(!is_displaced(&busy[0]) && !is_displaced(&busy[1]));
        drop((busy, others, third));
        let state = places.lock();
        assert!(state.taken == 0 && state.clients.is_empty() && state.by_calls.is_empty());
    }

    #[test]
    fn where_each_has_one_nobody_is_displaced() {
        let places = Arc::new(FairPlaces::default());
        let taken: Vec<CallPermit> = (0..64).map(|number| places.take(client(number), 64).unwrap()).collect();
        assert!(places.take(client(200), 64).is_none());
        assert!(taken.iter().all(|place| !is_displaced(place)));
    }
}
