//! The report of a request: what each selector matched, values that were already encrypted, and envelopes that failed to decrypt.
//!
//! All workers of a request write to one tally; it contains counts and the positions of the first failures, in input order regardless of
//! which worker finds them first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The action for an envelope that fails to decrypt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The request fails.
    #[default]
    Fail,
    /// The text stays unchanged.
    Leave,
    /// It is replaced by `null`.
    Null,
}

/// The report of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestReport {
    /// The number of scalars that each selector selected, including `null`, in the order of the selectors. Empty without selectors.
    pub matched: Vec<u64>,
    /// Encrypted values that were envelopes already: they are now encrypted twice.
    pub resealed: u64,
    /// Number of envelopes that `skip_sealed` skipped.
    pub skipped: u64,
    /// Number of envelopes to a public key that `reseal` made symmetric ones of.
    pub rewrapped: u64,
    /// Number of values that were sealed, or opened, with a symmetric key; the others have envelopes to a public key.
    pub symmetric: u64,
    /// Number of envelopes that failed to decrypt, if the request has an action for them.
    pub failed: u64,
    /// The first of those, in the order of the input: at most `failure_paths_max`.
    pub failures: Vec<Failure>,
}

/// The position of an envelope that failed to decrypt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its byte offset in a document, or its index in a list.
    pub position: u64,
    /// Its normalized path (RFC 9535) in a document; empty in a list.
    pub path: String,
}

/// The results of a request's workers so far.
#[derive(Default)]
pub(crate) struct Tally {
    /// Symmetric values that are not in `shared`: while there is one worker and nothing else to record.
    symmetric: u64,
    /// Created when there is something to record, or a second worker.
    shared: Option<Arc<SharedReport>>,
}

#[derive(Default)]
struct SharedReport {
    resealed: AtomicU64,
    skipped: AtomicU64,
    rewrapped: AtomicU64,
    symmetric: AtomicU64,
    failed: AtomicU64,
    /// Paths by position.
    failures: Mutex<BTreeMap<u64, String>>,
}

impl Tally {
    fn shared(&mut self) -> &SharedReport {
        self.shared.get_or_insert_default()
    }

    /// The same tally for another worker.
    pub(crate) fn fork(&mut self) -> Self {
        let symmetric = std::mem::take(&mut self.symmetric);
        let shared = Arc::clone(self.shared.get_or_insert_default());
        shared.symmetric.fetch_add(symmetric, Ordering::Relaxed);
        Self { symmetric: 0, shared: Some(shared) }
    }

    /// Counts values that were sealed, or opened, with a symmetric key.
    pub(crate) fn add_symmetric(&mut self, count: u64) {
        match &self.shared {
            // Whichever worker reports, reports this.
            Some(shared) => _ = shared.symmetric.fetch_add(count, Ordering::Relaxed),
            None => self.symmetric += count,
        }
    }

    pub(crate) fn add_resealed(&mut self, count: u64) {
        if count > 0 {
            self.shared().resealed.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_skipped(&mut self, count: u64) {
        if count > 0 {
            self.shared().skipped.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_rewrapped(&mut self, count: u64) {
        if count > 0 {
            self.shared().rewrapped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Records an envelope that failed to decrypt, with its position if it is among the first `paths_max`.
    pub(crate) fn add_failure(&mut self, position: u64, paths_max: usize, path: impl FnOnce() -> String) {
        let shared = self.shared();
        shared.failed.fetch_add(1, Ordering::Relaxed);
        let lock = || shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_among_first = |failures: &BTreeMap<u64, String>| {
            failures.len() < paths_max || failures.last_key_value().is_some_and(|(&last, _)| position < last)
        };
        if paths_max == 0 || !is_among_first(&lock()) {
            return;
        }
        // Created outside the lock, because other workers may wait for it.
        let path = path();
        let mut failures = lock();
        failures.insert(position, path);
        if failures.len() > paths_max {
            failures.pop_last();
        }
    }

    /// The results so far, without selector matches.
    pub(crate) fn report(&self) -> RequestReport {
        let Some(shared) = &self.shared else {
            return RequestReport { symmetric: self.symmetric, ..RequestReport::default() };
        };
        let failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        RequestReport {
            matched: Vec::new(),
            resealed: shared.resealed.load(Ordering::Relaxed),
            skipped: shared.skipped.load(Ordering::Relaxed),
            rewrapped: shared.rewrapped.load(Ordering::Relaxed),
            symmetric: self.symmetric + shared.symmetric.load(Ordering::Relaxed),
            failed: shared.failed.load(Ordering::Relaxed),
            failures: failures.iter().map(|(&position, path)| Failure { position, path: path.clone() }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failures_are_kept_in_whatever_order_they_are_found() {
        for order in [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 5, 1, 2, 4]] {
            let mut tally = Tally::default();
            tally.add_symmetric(1);
            let mut other = tally.fork();
            tally.add_symmetric(2);
            for (turn, position) in order.into_iter().enumerate() {
                let tally = if turn % 2 == 0 { &mut tally } else { &mut other };
                tally.add_failure(position, 2, || format!("$[{position}]"));
            }
            other.add_skipped(2);
            other.add_rewrapped(4);
            other.add_symmetric(7);
            tally.add_resealed(3);
            let report = tally.report();
            assert_eq!(report, other.report());
            assert_eq!(report.symmetric, 10);
            assert_eq!((report.failed, report.skipped, report.resealed, report.rewrapped), (5, 2, 3, 4));
            let failures: Vec<&str> = report.failures.iter().map(|failure| failure.path.as_str()).collect();
            assert_eq!(failures, ["$[1]", "$[2]"]);
        }
        let mut tally = Tally::default();
        tally.add_failure(1, 0, || unreachable!("no path is wanted"));
        assert_eq!((tally.report().failed, tally.report().failures.len()), (1, 0));
    }
}
