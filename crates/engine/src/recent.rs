//! The key versions of an app that decrypted values most recently: values that are stored together are of few versions, so the search for a
//! version begins with these.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Versions that are remembered: as many as a store has by default, so that few are forgotten that are in use.
const COUNT_MAX: usize = 256;

/// Key versions, the one that decrypted last first. Shared by all requests for an app; no secret.
#[derive(Debug, Default)]
pub(crate) struct RecentVersions {
    latest_first: Mutex<Vec<u32>>,
    /// Whether a value was decrypted since it was last asked.
    is_used: AtomicBool,
}

impl RecentVersions {
    /// Records that a value of an ephemeral key that was not known before was of this version.
    pub(crate) fn note(&self, version: u32) {
        self.is_used.store(true, Ordering::Relaxed);
        let mut versions = self.lock();
        match versions.iter().position(|known| *known == version) {
            Some(place) => versions[..=place].rotate_right(1),
            None => {
                versions.truncate(COUNT_MAX - 1);
                versions.insert(0, version);
            }
        }
    }

    /// Whether a value was decrypted since the last call.
    pub(crate) fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// The first `count` versions, latest first.
    pub(crate) fn versions(&self, count: usize) -> Vec<u32> {
        self.lock().iter().copied().take(count).collect()
    }

    /// How many versions decrypted after each of `versions` did, up to all that are remembered: their places in a search.
    pub(crate) fn places(&self, versions: &[u32]) -> Vec<usize> {
        let latest_first = self.lock();
        let mut places: Vec<(u32, usize)> = latest_first.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let place = |version| places.binary_search_by_key(&version, |(known, _)| *known).map(|index| places[index].1);
        versions.iter().map(|version| place(*version).unwrap_or(latest_first.len())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.latest_first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_come_first_and_only_some_are_kept() {
        let recent = RecentVersions::default();
        assert!(recent.versions(8).is_empty() && !recent.take_use());
        [3, 1, 3, 3].into_iter().for_each(|version| recent.note(version));
        assert_eq!(recent.versions(8), [3, 1]);
        assert!(recent.take_use() && !recent.take_use(), "once");
        assert_eq!(recent.versions(1), [3]);
        assert_eq!(recent.places(&[4, 1, 3]), [2, 1, 0]);
        let count = COUNT_MAX as u32;
        (10..10 + count).for_each(|version| recent.note(version));
        assert_eq!(recent.versions(usize::MAX), (10..10 + count).rev().collect::<Vec<_>>());
        recent.note(14);
        assert_eq!(recent.versions(3), [14, 9 + count, 8 + count]);
        assert_eq!(recent.versions(usize::MAX).len(), COUNT_MAX);
    }
}
