//! Places for handshakes, apart from those of connections: who has not shown a certificate yet takes no place from those who
//! have. When all are taken the oldest handshake gives way: an honest one is over in milliseconds, so that the oldest is the
//! likeliest to be somebody who only holds a place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// All handshakes that are going on.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By age, the oldest first.
    running: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one handshake; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    handshakes: Arc<Handshakes>,
    number: u64,
    displaced: Arc<Notify>,
}

impl Handshakes {
    pub(crate) fn new(max: usize) -> Self {
        Handshakes { max, state: Mutex::default() }
    }

    /// Takes a place, if need be that of the oldest.
    pub(crate) fn begin(self: &Arc<Self>) -> Place {
        let mut state = self.lock();
        while state.running.len() >= self.max
            && let Some((_, oldest)) = state.running.pop_first()
        {
            oldest.notify_one();
        }
        let number = state.next;
        state.next += 1;
        let displaced = Arc::new(Notify::new());
        state.running.insert(number, Arc::clone(&displaced));
        drop(state);
        Place { handshakes: Arc::clone(self), number, displaced }
    }

    /// How many are going on.
    pub(crate) fn count(&self) -> usize {
        self.lock().running.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while this is locked")
    }
}

impl Place {
    /// Ready when the place has gone to another handshake.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.handshakes.lock().running.remove(&self.number);
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
        let handshakes = Arc::new(Handshakes::new(2));
        let first = handshakes.begin();
        let second = handshakes.begin();
        assert!(!is_displaced(&first) && !is_displaced(&second));
        let third = handshakes.begin();
        assert!(is_displaced(&first) && !is_displaced(&second) && !is_displaced(&third));
        assert_eq!(handshakes.count(), 2);
        drop(first);
        assert_eq!(handshakes.count(), 2, "its place is another's");
        drop(second);
        let fourth = handshakes.begin();
        assert!(!is_displaced(&third) && !is_displaced(&fourth), "there was room");
        drop((third, fourth));
        assert_eq!(handshakes.count(), 0);
    }
}
