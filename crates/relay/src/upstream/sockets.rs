//! Limits the sockets to upstreams and destinations over all threads: clients' requests must leave descriptors for listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of sockets that are open or being opened, and its limit.
#[derive(Debug)]
pub(crate) struct Sockets {
    open: AtomicUsize,
    max: AtomicUsize,
}

/// Counts one socket until it is dropped.
#[derive(Debug)]
pub(crate) struct Socket(Arc<Sockets>);

impl Sockets {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Sockets { open: AtomicUsize::new(0), max: AtomicUsize::new(max) })
    }

    /// Sets another limit; open sockets stay open.
    pub(crate) fn resize(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts one more socket, if the limit permits.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Socket> {
        let max = self.max.load(Ordering::Relaxed);
        let more = |open: usize| (open < max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Socket(Arc::clone(self)))
    }

    /// Counts one more socket in place of one that is being closed.
    pub(crate) fn replace(self: &Arc<Self>) -> Socket {
        self.open.fetch_add(1, Ordering::Relaxed);
        Socket(Arc::clone(self))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_limited_and_returned() {
        let sockets = Sockets::new(2);
        let (first, second) = (sockets.take().unwrap(), sockets.take());
        assert!(second.is_some() && sockets.take().is_none());
        drop(first);
        assert!(sockets.take().is_some());
        sockets.resize(0);
        assert!(sockets.take().is_none());
        let replacing = sockets.replace();
        drop((second, replacing));
        assert_eq!(sockets.open.load(Ordering::Relaxed), 0);
    }
}
