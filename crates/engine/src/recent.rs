//! The key versions of an app that decrypted values most recently: values that are stored together are of few versions, so the search for a
//! version begins with these.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Versions that are remembered.
const COUNT_MAX: usize = 8;

/// Key versions, the one that decrypted last first. Shared by all requests for an app; no secret.
#[derive(Debug, Default)]
pub(crate) struct RecentVersions {
    /// Versions count from 1; 0 is none.
    latest_first: Mutex<[u32; COUNT_MAX]>,
}

impl RecentVersions {
    /// Records that a value of an ephemeral key that was not known before was of this version.
    pub(crate) fn note(&self, version: u32) {
        let mut versions = self.lock();
        let place = versions.iter().position(|known| *known == version).unwrap_or(COUNT_MAX - 1);
        versions[..=place].rotate_right(1);
        versions[0] = version;
    }

    /// The versions, latest first.
    pub(crate) fn versions(&self) -> impl Iterator<Item = u32> {
        let versions = *self.lock();
        versions.into_iter().filter(|version| *version != 0)
    }

    fn lock(&self) -> MutexGuard<'_, [u32; COUNT_MAX]> {
        self.latest_first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_come_first_and_only_some_are_kept() {
        let recent = RecentVersions::default();
        let versions = || recent.versions().collect::<Vec<_>>();
        assert_eq!(versions(), []);
        [3, 1, 3, 3].into_iter().for_each(|version| recent.note(version));
        assert_eq!(versions(), [3, 1]);
        (10..20).for_each(|version| recent.note(version));
        assert_eq!(versions(), [19, 18, 17, 16, 15, 14, 13, 12]);
        recent.note(14);
        assert_eq!(versions(), [14, 19, 18, 17, 16, 15, 13, 12]);
    }
}
