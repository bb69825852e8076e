//! How the one writing thread sleeps, and who may wake it: a record that nobody waits for must not cost a wake-up while the writer gathers
//! others.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What wakes a sleeper, each with those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum WakeReason {
    /// The end, or news of another thread.
    Control = 1,
    /// A record that someone waits for, or many that nobody waits for.
    Awaited,
    /// Any record.
    Record,
}

const AWAKE: u8 = 0;

/// Sleep of one thread.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    /// [`AWAKE`], or the last [`WakeReason`] that wakes.
    level: AtomicU8,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Sleep {
    /// Wakes the thread if it sleeps and this wakes it. Whatever it is to find is to be in place before, under a lock that `has_come` of
    /// [`Sleep::until`] takes, too: it then either finds it, or its sleep is seen here.
    pub(crate) fn wake(&self, reason: WakeReason) {
        if self.level.load(Ordering::SeqCst) >= reason as u8 && self.level.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_one();
        }
    }

    /// Sleeps until a reason up to this one, or some time has passed; not at all if what is waited for `has_come`.
    pub(crate) fn until(&self, reason: WakeReason, most: Duration, has_come: impl FnOnce() -> bool) {
        self.level.store(reason as u8, Ordering::SeqCst);
        if !has_come() {
            let deadline = Instant::now().checked_add(most);
            let mut asleep = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            while self.level.load(Ordering::SeqCst) != AWAKE {
                let left = deadline.map_or(most, |deadline| deadline.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    break;
                }
                asleep = self.woken.wait_timeout(asleep, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        self.level.store(AWAKE, Ordering::SeqCst);
    }
}
