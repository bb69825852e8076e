//! The queue itself, without threads: round robin in the order of arrival, bounded by items and by bytes.
//!
//! An item is held from its admission to its release, waiting or being worked on; both bounds count what is held.

use std::collections::VecDeque;

use thiserror::Error;

/// Why something was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// As many jobs or bytes are held as the settings allow.
    #[error("the queue is full")]
    Overloaded,
    /// The pool shuts down.
    #[error("the pool shuts down")]
    ShuttingDown,
}

/// Whether new items are admitted and old ones handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Nothing new; what is held is finished.
    Draining,
    /// Nothing new; nothing is handed out.
    Stopped,
}

/// An item that has left the waiting line and still counts.
#[derive(Debug)]
#[must_use = "an item goes back or is released, or the bounds leak"]
pub(crate) struct Held<T> {
    pub(crate) item: T,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: VecDeque<Held<T>>,
    items: usize,
    items_max: usize,
    bytes: usize,
    bytes_max: usize,
    phase: Phase,
}

impl<T> Queue<T> {
    pub(crate) fn new(items_max: usize, bytes_max: usize) -> Self {
        Queue { waiting: VecDeque::new(), items: 0, items_max, bytes: 0, bytes_max, phase: Phase::Open }
    }

    /// Puts an item at the end, or gives it back.
    pub(crate) fn admit(&mut self, item: T, bytes: usize) -> Result<(), (T, Rejection)> {
        if self.phase != Phase::Open {
            return Err((item, Rejection::ShuttingDown));
        }
        if self.items >= self.items_max || bytes > self.bytes_max - self.bytes {
            return Err((item, Rejection::Overloaded));
        }
        self.items += 1;
        self.bytes += bytes;
        self.waiting.push_back(Held { item, bytes });
        Ok(())
    }

    /// The first waiting item.
    pub(crate) fn take(&mut self) -> Option<Held<T>> {
        if self.phase == Phase::Stopped {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Puts an item that is not done behind all that wait.
    pub(crate) fn put_back(&mut self, held: Held<T>) {
        self.waiting.push_back(held);
    }

    /// Stops counting an item.
    pub(crate) fn release(&mut self, bytes: usize) {
        assert!(self.items > 0 && self.bytes >= bytes, "only what is held is released");
        self.items -= 1;
        self.bytes -= bytes;
    }

    pub(crate) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Items that wait, when the queue has stopped and nobody will take them.
    pub(crate) fn abandon(&mut self) -> VecDeque<Held<T>> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn items(&self) -> usize {
        self.items
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl<T> Held<T> {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_hold_at_the_item_and_at_the_byte() {
        let mut queue = Queue::new(2, 10);
        assert_eq!(queue.admit('a', 11), Err(('a', Rejection::Overloaded)));
        queue.admit('b', 10).unwrap();
        assert_eq!(queue.admit('c', 1), Err(('c', Rejection::Overloaded)));
        queue.admit('d', 0).unwrap();
        assert_eq!(queue.admit('e', 0), Err(('e', Rejection::Overloaded)));

        let held = queue.take().unwrap();
        assert_eq!(queue.admit('f', 0), Err(('f', Rejection::Overloaded)), "taken items count");
        queue.release(held.bytes());
        queue.admit('g', 10).unwrap();
        assert_eq!((queue.items(), queue.bytes(), queue.waiting()), (2, 10, 2));
    }

    #[test]
    fn phases_close_first_the_entrance_then_the_exit() {
        let mut queue = Queue::new(9, 9);
        queue.admit(1, 1).unwrap();
        queue.admit(2, 1).unwrap();
        queue.set_phase(Phase::Draining);
        assert_eq!(queue.admit(3, 0), Err((3, Rejection::ShuttingDown)));
        assert_eq!(queue.take().map(|held| held.item), Some(1));
        queue.set_phase(Phase::Stopped);
        assert!(queue.take().is_none());
        assert_eq!(queue.abandon().len(), 1);
    }

    /// Items to admit as (arrival time in slices, length in slices), in any order of arrival.
    fn schedules() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
        (1usize..4, prop::collection::vec((0u32..60, 1u32..40), 1..40))
    }

    proptest! {
        /// Simulates workers in lock step: each takes an item, works one slice, puts it back or releases it. No item waits
        /// longer between two of its slices than it takes the workers to do one slice of every other item held.
        #[test]
        fn nobody_waits_for_more_than_one_slice_of_each_other((workers, mut arrivals) in schedules()) {
            arrivals.sort();
            let mut queue = Queue::new(arrivals.len(), arrivals.len());
            let mut next = arrivals.iter().enumerate().peekable();
            // Per item: slices left, and by which round it must run again.
            let mut left: Vec<u32> = arrivals.iter().map(|&(_, length)| length).collect();
            let mut due = vec![0; arrivals.len()];
            let mut round = 0;
            while next.peek().is_some() || queue.items() > 0 {
                while let Some((index, _)) = next.next_if(|(_, (time, _))| *time <= round) {
                    queue.admit(index, 1).unwrap();
                    due[index] = round + queue.waiting().div_ceil(workers) as u32;
                }
                let taken: Vec<_> = std::iter::from_fn(|| queue.take()).take(workers).collect();
                for held in taken {
                    let index = held.item;
                    prop_assert!(round < due[index], "item {index} ran in round {round}, due before {}", due[index]);
                    left[index] -= 1;
                    if left[index] == 0 {
                        queue.release(held.bytes());
                    } else {
                        queue.put_back(held);
                        due[index] = round + 1 + queue.waiting().div_ceil(workers) as u32;
                    }
                }
                round += 1;
            }
            prop_assert!(left.iter().all(|&slices| slices == 0));
            prop_assert_eq!((queue.items(), queue.bytes()), (0, 0));
        }
    }
}
