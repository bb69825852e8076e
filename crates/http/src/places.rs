//! Places for what anybody may begin and what an honest peer ends in milliseconds: handshakes, and calls at the operator port.
//! When all are taken the oldest gives way: it is the likeliest to be somebody who only holds a place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// A bounded number of places.
#[derive(Debug)]
pub struct Places {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By age, the oldest first.
    taken: BTreeMap<u64, Arc<Notify>>,
}

/// A place that is taken; free again when dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    displaced: Arc<Notify>,
}

impl Places {
    /// So many places, all free.
    pub fn new(max: usize) -> Self {
        Places { max, state: Mutex::default() }
    }

    /// Takes a place, if need be that of the oldest.
    pub fn take(self: &Arc<Self>) -> Place {
        let mut state = self.lock();
        while state.taken.len() >= self.max
            && let Some((_, oldest)) = state.taken.pop_first()
        {
            oldest.notify_one();
        }
        let number = state.next;
        state.next += 1;
        let displaced = Arc::new(Notify::new());
        state.taken.insert(number, Arc::clone(&displaced));
        drop(state);
        Place { places: Arc::clone(self), number, displaced }
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.lock().taken.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while this is locked")
    }
}

impl Place {
    /// Ready when the place has gone to somebody else.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_displaced(place: &Place) -> bool {
        pin!(place.displaced()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_gives_way_and_nobody_else() {
        let places = Arc::new(Places::new(2));
        let first = places.take();
        let second = places.take();
        assert!(!is_displaced(&first) && !is_displaced(&second));
        let third = places.take();
        assert!(is_displaced(&first) && !is_displaced(&second) && !is_displaced(&third));
        assert_eq!(places.count(), 2);
        drop(first);
        assert_eq!(places.count(), 2, "its place is another's");
        drop(second);
        let fourth = places.take();
        assert!(!is_displaced(&third) && !is_displaced(&fourth), "there was room");
        drop((third, fourth));
        assert_eq!(places.count(), 0);
    }
}
