//! A log whose records are durable in a store elsewhere, so that its folder may be lost with the machine: a start writes it again from
//! there, with the same records, the same tree, and checkpoints of the same log.

use std::path::Path;
use std::sync::Arc;

use crate::appender::{LogAppender, LogRules, Recovery};
use crate::error::LogError;
use crate::folder::{CHECKPOINT, FilesWriting, LogFolder, MINIMUM, STORED, TILES};
use crate::frames::{FrameStore, KeptFrames, StoredJournal};
use crate::journal::{frame_hashes, segments};
use crate::log::{AuditLog, enter};
use crate::merkle::{Hashes as _, MerkleTree, ROW_BITS};
use crate::note::NoteSigner;
use crate::pruning::PruneStatement;
use crate::publisher::LogPublisher;
use crate::reader::LogReader;
use crate::tile::push_entry;

/// Bytes of frames that are read at once, or written as one when a log that was in its folder alone is handed in.
const BATCH_BYTES: usize = 4 << 20;

impl AuditLog {
    /// Opens a log whose entries are durable in a store: the folder may be on a disk that does not outlive a restart, and is written again
    /// then. A log that was in its folder alone is handed in. From then on its folder does not open without the store, which may have more.
    ///
    /// # Errors
    /// As [`AuditLog::open`]; [`LogError::NotStored`].
    pub fn open_stored(
        path: &Path,
        signer: NoteSigner,
        rules: LogRules,
        store: Arc<dyn FrameStore>,
    ) -> Result<(Self, Recovery), LogError> {
        let lock = enter(path, &signer)?;
        let folder = LogFolder::new(path);
        forget_begun(&folder, &*store)?;
        let frames = KeptFrames::new(store, &signer);
        let (appender, old_segments, mut recovery) = LogAppender::load(path, &signer, rules, Arc::clone(&lock))?;
        let mut log = Self { appender, publisher: LogPublisher::new(path, signer, lock) };
        recovery.replayed += recover(&mut log, frames, old_segments)?;
        let mark = || {
            let mut writing = FilesWriting::begin(&folder)?;
            writing.write(STORED, b"keystore\n")?;
            writing.finish()
        };
        mark().map_err(|fault| LogError::Io { path: folder.path(STORED), fault })?;
        Ok((log, recovery))
    }
}

/// Removes tiles of a first publication that did not end, in a folder that was being written again: the store has all of it.
fn forget_begun(folder: &LogFolder, store: &dyn FrameStore) -> Result<(), LogError> {
    let at = |fault| LogError::Io { path: folder.path(TILES), fault };
    let is_begun = folder.path(TILES).exists() && !folder.path(CHECKPOINT).exists();
    if is_begun
        && segments(folder).map_err(at)?.is_empty()
        && store.is_known().map_err(|fault| LogError::NotStored { fault })?
    {
        folder.remove_folder(TILES).map_err(at)?;
    }
    Ok(())
}

/// Brings the folder of a log and its frames to the same entries; from then on, entries are durable as frames. Returns how many entries the
/// folder lacked.
pub(crate) fn recover(log: &mut AuditLog, frames: KeptFrames, old_segments: Vec<u64>) -> Result<u64, LogError> {
    let held = frames.store.take_over().map_err(|fault| LogError::NotStored { fault })?;
    let damaged = |log: &AuditLog, what: String| LogError::Damaged { path: log.appender.path().to_owned(), what };
    let base = held.base.as_deref().map(|base| frames.open_base(base));
    let base =
        base.map(|base| base.ok_or_else(|| damaged(log, "the base of its frames is none".to_owned()))).transpose()?;
    let (before, pruned) = (log.size(), base.as_ref().map_or(0, MerkleTree::size));
    let known = if before == 0 { pruned } else { before };
    if let Some(base) = base.filter(|_| before == 0) {
        let (minimum, root, origin) = (base.size(), base.root(), frames.origin.clone());
        let statement = PruneStatement { origin, minimum, root, size: minimum };
        let folder = LogFolder::new(log.appender.path());
        let write = || {
            let mut writing = FilesWriting::begin(&folder)?;
            writing.write(MINIMUM, log.publisher.sign(&statement).as_bytes())?;
            writing.finish()
        };
        write().map_err(|fault| LogError::Io { path: folder.path(MINIMUM), fault })?;
        log.appender.begin_at(base);
    }
    loop {
        let from = log.size();
        let found = frames.store.read(from, BATCH_BYTES).map_err(|fault| LogError::NotStored { fault })?;
        for frame in found {
            let (start, size) = (frame.start, log.size());
            let opened = frames.open(frame, size).ok_or_else(|| damaged(log, format!("frame {start} was changed")))?;
            if start > size {
                return Err(damaged(log, format!("the frames from {size} to {start} are missing")));
            }
            if start == size && opened.2 != log.appender.tree().root() {
                return Err(damaged(log, format!("frame {start} does not continue what is before it")));
            }
            log.appender.take_in(&opened.0, &opened.1);
            if log.appender.has_many_fresh() {
                log.publish()?;
            }
        }
        if log.size() == from {
            break;
        }
    }
    let lacked = log.size() - known;
    log.appender.replace_journal(Box::new(StoredJournal { frames: frames.clone(), old_segments }));
    log.publish()?;
    if log.size() > 0 {
        hand_in(log, &frames, held.end, pruned)?;
    }
    log.publisher.keep_frames(frames);
    Ok(lacked)
}

/// Stores what the folder has and the store lacks, and removes from the store what the folder has pruned.
fn hand_in(log: &AuditLog, frames: &KeptFrames, end: u64, pruned: u64) -> Result<(), LogError> {
    let path = log.appender.path();
    let failed = |error| LogError::of_reading(path, error);
    let reader = LogReader::open(path, log.publisher.key()).map_err(failed)?;
    let first = reader.minimum() >> ROW_BITS << ROW_BITS;
    if first > pruned {
        frames.prune(&reader, first)?;
    }
    let mut start = end.max(first);
    while start < reader.size() {
        let root = reader.root(0, start).map_err(failed)?;
        let (mut bundle, mut next) = (Vec::new(), start);
        while next < reader.size() && bundle.len() < BATCH_BYTES {
            let (at, entries) = reader.bundle_of(next.max(reader.minimum())).map_err(failed)?;
            let skipped = (next - at) as usize;
            entries.iter().skip(skipped).for_each(|entry| push_entry(entry, &mut bundle));
            next = at + entries.len() as u64;
        }
        frames.put((start, &root), &bundle, &frame_hashes(&bundle).expect("made of entries"))?;
        start = next;
    }
    Ok(())
}
