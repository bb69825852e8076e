//! Files that are checked at intervals; a change of one triggers a reload.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval_at};

/// Detects changes of a file without reading it: device, inode, size, and modification time in seconds and nanoseconds. Links are followed,
/// so that changing a link is a change too.
type FileFingerprint = Option<(u64, u64, u64, i64, i64)>;

/// Some files, and their state at the last check.
pub(crate) struct WatchedFiles {
    /// `None` if they are not checked.
    ticks: Option<Interval>,
    files: Vec<PathBuf>,
    seen: Vec<FileFingerprint>,
}

impl WatchedFiles {
    /// Checks `files` every `period`; never if that is zero. Call it on a runtime.
    pub(crate) fn new(period: Duration, files: Vec<PathBuf>) -> Self {
        let ticks = (!period.is_zero()).then(|| {
            let mut ticks = interval_at(tokio::time::Instant::now() + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        let seen = look(&files);
        Self { ticks, files, seen }
    }

    /// Waits until one of the files has changed, appeared or disappeared.
    pub(crate) async fn changed(&mut self) {
        let Some(ticks) = &mut self.ticks else { return std::future::pending().await };
        loop {
            ticks.tick().await;
            let seen = look(&self.files);
            if seen != self.seen {
                self.seen = seen;
                return;
            }
        }
    }

    /// The files are about to be read: earlier changes do not count any more.
    pub(crate) fn mark(&mut self) {
        self.seen = look(&self.files);
    }

    /// They could not be loaded: the next check takes them for changed, since what was in the way may be gone by then.
    pub(crate) fn retry(&mut self) {
        self.seen.clear();
    }

    /// Replaces the files.
    pub(crate) fn set(&mut self, files: Vec<PathBuf>) {
        if files != self.files {
            self.seen = look(&files);
            self.files = files;
        }
    }
}

fn look(files: &[PathBuf]) -> Vec<FileFingerprint> {
    files.iter().map(|file| fingerprint(file)).collect()
}

fn fingerprint(file: &Path) -> FileFingerprint {
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_that_change_appear_and_go_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, other] = ["file", "link", "other"].map(|name| folder.path().join(name));
        std::fs::write(&file, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let mut watched = WatchedFiles::new(Duration::from_millis(1), vec![file.clone(), link.clone()]);
        std::fs::write(&file, "longer").unwrap();
        watched.changed().await;
        std::os::unix::fs::symlink(&file, &link).unwrap();
        watched.changed().await;
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        watched.changed().await;
        std::fs::remove_file(&file).unwrap();
        watched.changed().await;
        watched.retry();
        watched.changed().await;
    }
}
