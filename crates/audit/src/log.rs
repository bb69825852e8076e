//! A log that is open for writing: one for each folder. It has two halves, which may work on two threads.
//!
//! ```text
//! append:  frame to the journal, flushed                     now the entries are durable
//! publish: full rows and bundles, then the last ones, then the checkpoint, each flushed; then old segments of the journal go
//! open:    the tree of the checkpoint from its last rows, and the frames of the journal after it
//! ```
//!
//! A checkpoint is signed only over entries that are durable, so that no start signs one that contradicts it.

use std::fmt;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::appender::{LogAppender, LogRules, Recovery};
use crate::error::LogError;
use crate::folder::{FilesWriting, KEY, LOCK, LogFolder, STORED, sync_folder};
use crate::journal::FRAME_SIZE_MAX;
use crate::note::NoteSigner;
use crate::publisher::LogPublisher;
use crate::tile::{ENTRY_SIZE_MAX, push_entry};

/// How often, and after which pauses, the lock of a log is tried again.
const LOCK_RETRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A log that is open for writing.
pub struct AuditLog {
    pub(crate) appender: LogAppender,
    pub(crate) publisher: LogPublisher,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog")
            .field("path", &self.appender.path())
            .field("size", &self.size())
            .field("published", &self.published())
            .finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Opens the log in a folder, or begins one if the folder is empty or not there.
    ///
    /// # Errors
    /// [`LogError`]. Nothing that was acknowledged is ever dropped: where that cannot be shown, the log is [`LogError::Damaged`].
    pub fn open(path: &Path, signer: NoteSigner, rules: LogRules) -> Result<(Self, Recovery), LogError> {
        let lock = enter(path, &signer)?;
        if let Some(kept_in) = LogFolder::new(path).read(STORED).ok().flatten() {
            let kept_in = String::from_utf8_lossy(&kept_in).trim_end().to_owned();
            return Err(LogError::KeptElsewhere { path: path.to_owned(), kept_in });
        }
        let (appender, recovery) = LogAppender::open(path, &signer, rules, Arc::clone(&lock))?;
        Ok((Self { appender, publisher: LogPublisher::new(path, signer, lock) }, recovery))
    }

    /// Entries that are durable.
    pub fn size(&self) -> u64 {
        self.appender.size()
    }

    /// The last entry; empty if there is none.
    pub fn last_entry(&self) -> &[u8] {
        self.appender.last_entry()
    }

    /// Entries that the newest checkpoint covers.
    pub fn published(&self) -> u64 {
        self.appender.published()
    }

    /// Appends entries. They are durable when this returns. After an error none of them counts, if they have at most 33 MiB, and it may be
    /// tried again.
    ///
    /// # Errors
    /// [`LogError::EntrySize`], [`LogError::Io`].
    pub fn append<'e>(&mut self, entries: impl IntoIterator<Item = &'e [u8]>) -> Result<(), LogError> {
        let mut frame = Vec::new();
        for entry in entries {
            if entry.len() > ENTRY_SIZE_MAX {
                return Err(LogError::EntrySize { size: entry.len() });
            }
            if frame.len() + 2 + entry.len() > FRAME_SIZE_MAX {
                self.append_frame(&std::mem::take(&mut frame))?;
            }
            push_entry(entry, &mut frame);
        }
        if frame.is_empty() { Ok(()) } else { self.append_frame(&frame) }
    }

    fn append_frame(&mut self, frame: &[u8]) -> Result<(), LogError> {
        if self.appender.is_lagging() {
            self.publish()?;
        }
        self.appender.append(frame)
    }

    /// Writes and signs a checkpoint over all entries, if there are new ones. What it covers can be read and verified.
    ///
    /// # Errors
    /// [`LogError::Io`]; it may be tried again, and no entry is lost.
    pub fn publish(&mut self) -> Result<(), LogError> {
        if let Some(publication) = self.appender.publication() {
            self.publisher.add(publication);
        }
        let done = self.publisher.publish();
        let done = done.map_err(|fault| LogError::Io { path: self.appender.path().to_owned(), fault })?;
        if let Some(done) = done {
            self.appender.acknowledge(done);
        }
        Ok(())
    }

    /// Removes bundles and tiles that only entries before `minimum` need, after a signed statement that says so. Everything from it on can
    /// still be read and verified. Returns how many files were removed.
    ///
    /// # Errors
    /// [`LogError::Io`], [`LogError::Damaged`].
    pub fn prune(&mut self, minimum: u64) -> Result<u64, LogError> {
        self.publisher.prune(minimum)
    }
}

/// Makes the folder, and checks that it is this log's; returns its lock.
pub(crate) fn enter(path: &Path, signer: &NoteSigner) -> Result<Arc<File>, LogError> {
    let at = |fault| LogError::Io { path: path.to_owned(), fault };
    std::fs::create_dir_all(path).map_err(at)?;
    // The names of the folder and of the one around it, which may have been made with it.
    path.ancestors().skip(1).take(2).filter(|folder| folder.is_dir()).try_for_each(sync_folder).map_err(at)?;
    let folder = LogFolder::new(path);
    let lock = Arc::new(lock(&folder, path)?);
    own(&folder, path, signer)?;
    Ok(lock)
}

fn lock(folder: &LogFolder, path: &Path) -> Result<File, LogError> {
    let at = |fault| LogError::Io { path: folder.path(LOCK), fault };
    let file = File::options().create(true).truncate(false).write(true).open(folder.path(LOCK)).map_err(at)?;
    for attempt in 0..=LOCK_RETRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // Another engine holds the log of one that has ended for a moment, to sign what that one could not.
            Err(TryLockError::WouldBlock) if attempt < LOCK_RETRIES => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(fault)) => return Err(at(fault)),
        }
    }
    Err(LogError::InUse { path: path.to_owned() })
}

/// Checks that the folder's log has this key; in a folder without one, writes it.
fn own(folder: &LogFolder, path: &Path, signer: &NoteSigner) -> Result<(), LogError> {
    let at = |fault| LogError::Io { path: folder.path(KEY), fault };
    let expected = signer.public().to_text();
    if let Some(found) = folder.read(KEY).map_err(at)? {
        let found = String::from_utf8_lossy(&found).trim_end().to_owned();
        if found == expected {
            return Ok(());
        }
        return Err(LogError::Foreign { path: path.to_owned(), found, expected });
    }
    let others = folder.files().map_err(at)?;
    if let Some(other) = others.iter().find(|name| *name != LOCK) {
        let what = format!("it has {other} and no file {KEY:?}");
        return Err(LogError::Damaged { path: path.to_owned(), what });
    }
    let mut writing = FilesWriting::begin(folder).map_err(at)?;
    writing.write(KEY, format!("{expected}\n").as_bytes()).map_err(at)?;
    writing.finish().map_err(at)
}
