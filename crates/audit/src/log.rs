//! The writer of a log: one for each folder.
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
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::folder::{CHECKPOINT, FilesWriting, KEY, LOCK, LogFolder, MINIMUM, TILES, remove, sync_folder};
use crate::journal::{
    FRAME_SIZE_MAX, JournalKey, JournalSegment, NextFrame, OldJournalSegment, segment_path, segments,
};
use crate::merkle::{MerkleTree, ROW_BITS, ROW_WIDTH, TileRow, leaf_hash, row_width};
use crate::note::NoteSigner;
use crate::reader::{LogReader, ReadError};
use crate::tile::{ENTRY_SIZE_MAX, TileKind, TileName, bundle_entries, push_entry};

/// Bounds of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRules {
    /// Bytes of a segment of the journal from which on the next begins.
    pub segment_bytes: u64,
    /// Bytes of entries in memory, not published, from which on [`AuditLog::append`] publishes them.
    pub pending_bytes_max: usize,
}

impl Default for LogRules {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, pending_bytes_max: 32 << 20 }
    }
}

/// Why a log cannot be opened or written.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk refuses.
    #[error("{}: {fault}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        fault: io::Error,
    },
    /// Another process writes it.
    #[error("another process writes the audit log in {}: each engine needs a folder of its own", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It is of another engine or store.
    #[error("the audit log in {} is of {found}, not of {expected}: name another folder", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The key of the log.
        found: String,
        /// The key that was given.
        expected: String,
    },
    /// A file was changed, or is missing.
    #[error("the audit log in {} was changed: {what}. Keep it as evidence, and name another folder", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// Where.
        what: String,
    },
    /// More than an entry may have.
    #[error("a record of {size} bytes; at most {ENTRY_SIZE_MAX} fit")]
    EntrySize {
        /// Its bytes.
        size: usize,
    },
}

/// What the start of a log found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Entries that were durable and in no checkpoint.
    pub replayed: u64,
    /// Bytes of a write that did not end.
    pub torn_bytes: usize,
}

/// A log that is open for writing.
pub struct AuditLog {
    folder: LogFolder,
    path: PathBuf,
    signer: NoteSigner,
    journal_key: JournalKey,
    rules: LogRules,
    tree: MerkleTree,
    published: u64,
    /// Entries after the last full bundle, as a bundle.
    bundle: Vec<u8>,
    /// Empty before the first.
    last_entry: Vec<u8>,
    /// Bundles and rows that are full and not written.
    full: Vec<(TileName, Vec<u8>)>,
    pending_bytes: usize,
    /// `None` after a failed write.
    segment: Option<JournalSegment>,
    /// Starts of the segments that are kept, in order, with the one that is written.
    starts: Vec<u64>,
    _lock: File,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, published, .. } = self;
        let size = self.tree.size();
        f.debug_struct("AuditLog")
            .field("path", path)
            .field("size", &size)
            .field("published", published)
            .finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Opens the log in a folder, or begins one if the folder is empty or not there.
    ///
    /// # Errors
    /// [`LogError`]. Nothing that was acknowledged is ever dropped: where that cannot be shown, the log is [`LogError::Damaged`].
    pub fn open(path: &Path, signer: NoteSigner, rules: LogRules) -> Result<(Self, Recovery), LogError> {
        let at = |fault| LogError::Io { path: path.to_owned(), fault };
        std::fs::create_dir_all(path).map_err(at)?;
        // The names of the folder and of the one around it, which may have been made with it.
        path.ancestors().skip(1).take(2).filter(|folder| folder.is_dir()).try_for_each(sync_folder).map_err(at)?;
        let folder = LogFolder::new(path);
        let lock = lock(&folder, path)?;
        own(&folder, path, &signer)?;
        let mut log = Self {
            path: path.to_owned(),
            journal_key: signer.journal_key(),
            signer,
            rules,
            tree: MerkleTree::default(),
            published: 0,
            bundle: Vec::new(),
            last_entry: Vec::new(),
            full: Vec::new(),
            pending_bytes: 0,
            segment: None,
            starts: segments(&folder).map_err(at)?,
            folder,
            _lock: lock,
        };
        log.load_published()?;
        let recovery = log.replay()?;
        log.begin_segment()?;
        Ok((log, recovery))
    }

    /// Entries that are durable.
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The last entry; empty if there is none.
    pub fn last_entry(&self) -> &[u8] {
        &self.last_entry
    }

    /// Entries that the newest checkpoint covers.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Appends entries. They are durable when this returns; after an error none of them counts, and it may be tried again.
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
        if self.pending_bytes >= self.rules.pending_bytes_max {
            self.publish()?;
        }
        if self.segment.as_ref().is_none_or(|segment| segment.size >= self.rules.segment_bytes) {
            self.begin_segment()?;
        }
        let segment = self.segment.as_mut().expect("begun");
        if let Err(fault) = segment.append(&self.journal_key, frame) {
            // What the file ends with now is not known. The next segment begins where this frame would have begun, which excludes it.
            self.segment = None;
            let start = *self.starts.last().expect("the one that is written");
            return Err(LogError::Io { path: segment_path(&self.folder, start), fault });
        }
        self.take_in(frame);
        Ok(())
    }

    /// Takes durable entries into the tree.
    fn take_in(&mut self, frame: &[u8]) {
        for entry in bundle_entries(frame) {
            let entry = entry.expect("checked when the frame was made or read");
            push_entry(entry, &mut self.bundle);
            self.last_entry.clear();
            self.last_entry.extend_from_slice(entry);
            let full = &mut self.full;
            let before = full.len();
            self.tree.push(leaf_hash(entry), |row| full.push(tile(row)));
            if full.len() > before {
                let index = (self.tree.size() >> ROW_BITS) - 1;
                let name = TileName { kind: TileKind::Entries, index, width: ROW_WIDTH };
                full.push((name, std::mem::take(&mut self.bundle)));
            }
        }
        self.pending_bytes += frame.len();
    }

    /// Writes and signs a checkpoint over all entries, if there are new ones. What it covers can be read and verified.
    ///
    /// # Errors
    /// [`LogError::Io`]; it may be tried again, and no entry is lost.
    pub fn publish(&mut self) -> Result<(), LogError> {
        if self.tree.size() == self.published {
            return Ok(());
        }
        self.write_published().map_err(|fault| LogError::Io { path: self.path.clone(), fault })?;
        self.published = self.tree.size();
        self.pending_bytes = 0;
        let full = std::mem::take(&mut self.full);
        // What stays is of no consequence: readers compare it with the full tiles, and starts pass over it.
        let _ = self.tidy(full.into_iter().map(|(name, _)| name));
        Ok(())
    }

    fn write_published(&self) -> io::Result<()> {
        let mut writing = FilesWriting::begin(&self.folder)?;
        for (name, content) in &self.full {
            writing.write(&name.path(), content)?;
        }
        let size = self.tree.size();
        let width = row_width(size, 0);
        if width > 0 {
            let name = TileName { kind: TileKind::Entries, index: size >> ROW_BITS, width };
            writing.write(&name.path(), &self.bundle)?;
        }
        for row in self.tree.partial_rows() {
            let (name, content) = tile(row);
            writing.write(&name.path(), &content)?;
        }
        writing.finish()?;
        let origin = self.signer.public().name().to_owned();
        let checkpoint = Checkpoint { origin, size, root: self.tree.root() };
        let mut writing = FilesWriting::begin(&self.folder)?;
        writing.write(CHECKPOINT, checkpoint.sign(&self.signer).as_bytes())?;
        writing.finish()
    }

    /// Removes what the published files replace: segments of the journal, and parts of rows that are full now.
    fn tidy(&mut self, full: impl Iterator<Item = TileName>) -> io::Result<()> {
        for name in full {
            self.folder.remove_folder(&name.parts_path())?;
        }
        while let [first, second, ..] = self.starts[..]
            && second <= self.published
        {
            remove(&segment_path(&self.folder, first))?;
            self.starts.remove(0);
        }
        Ok(())
    }

    /// Begins a segment of the journal at the current size.
    fn begin_segment(&mut self) -> Result<(), LogError> {
        let (start, root) = (self.tree.size(), self.tree.root());
        let segment =
            JournalSegment::create(&self.folder, &self.journal_key, self.signer.public().name(), start, &root);
        let segment = segment.map_err(|fault| LogError::Io { path: segment_path(&self.folder, start), fault })?;
        if self.starts.last() != Some(&start) {
            self.starts.push(start);
        }
        self.segment = Some(segment);
        Ok(())
    }

    fn damaged(&self, what: impl Into<String>) -> LogError {
        LogError::Damaged { path: self.path.clone(), what: what.into() }
    }

    /// Loads the tree of the checkpoint, and the entries of its last bundle.
    fn load_published(&mut self) -> Result<(), LogError> {
        let loaded = LogReader::open(&self.path, self.signer.public()).and_then(|reader| {
            let entries = match reader.size().checked_sub(1) {
                Some(last) => reader.bundle_of(last)?.1,
                None => Vec::new(),
            };
            Ok((reader, entries))
        });
        let (reader, entries) = match loaded {
            Ok(loaded) => loaded,
            Err(ReadError::Absent) if self.folder.path(TILES).exists() => {
                return Err(self.damaged(format!("{CHECKPOINT} is missing")));
            }
            Err(ReadError::Absent) => return Ok(()),
            Err(ReadError::Io { name, fault }) => return Err(LogError::Io { path: self.folder.path(&name), fault }),
            Err(error) => return Err(self.damaged(error.to_string())),
        };
        self.tree = reader.into_tree();
        self.published = self.tree.size();
        if row_width(self.published, 0) > 0 {
            entries.iter().for_each(|entry| push_entry(entry, &mut self.bundle));
        }
        self.last_entry = entries.into_iter().next_back().unwrap_or_default();
        Ok(())
    }

    /// Reads the journal after the checkpoint.
    fn replay(&mut self) -> Result<Recovery, LogError> {
        let mut recovery = Recovery::default();
        let starts = self.starts.clone();
        for (number, &start) in starts.iter().enumerate() {
            let next = starts.get(number + 1).copied();
            if next.is_some_and(|next| next <= self.published) {
                // All of it is in the checkpoint: it was to be removed.
                continue;
            }
            self.replay_segment(start, next, &mut recovery)?;
        }
        if self.tree.size() < self.published {
            return Err(self.damaged("entries are missing"));
        }
        recovery.replayed = self.tree.size() - self.published;
        Ok(recovery)
    }

    /// Reads the entries of a segment up to where the next begins; of the last, all.
    fn replay_segment(&mut self, start: u64, next: Option<u64>, recovery: &mut Recovery) -> Result<(), LogError> {
        let path = segment_path(&self.folder, start);
        let shown = format!("journal/{start:020}");
        let origin = self.signer.public().name().to_owned();
        let segment = OldJournalSegment::read(&self.folder, &self.journal_key, &origin, start)
            .map_err(|fault| LogError::Io { path: path.clone(), fault })?;
        let Some(mut segment) = segment else {
            // The last one, at the end of the log, was being begun.
            let is_begun = next.is_none() && start == self.tree.size();
            return if is_begun { Ok(()) } else { Err(self.damaged(format!("{shown} has a wrong head"))) };
        };
        if start > self.tree.size() || start == self.tree.size() && segment.root != self.tree.root() {
            return Err(self.damaged(format!("{shown} does not continue what is before it")));
        }
        let mut place = start;
        while next.is_none_or(|next| place < next) {
            let entries = match segment.next(&self.journal_key) {
                NextFrame::Frame(entries) => entries,
                NextFrame::End if next.is_none() => return Ok(()),
                NextFrame::Torn(bytes) if next.is_none() => {
                    recovery.torn_bytes = bytes;
                    return Ok(());
                }
                _ => return Err(self.damaged(format!("{shown} is damaged after entry {place}"))),
            };
            let count = bundle_entries(&entries).count() as u64;
            if place == self.tree.size() {
                self.take_in(&entries);
            } else if place + count > self.tree.size() {
                return Err(self.damaged(format!("{shown} has a frame across the checkpoint")));
            }
            place += count;
        }
        if next.is_some_and(|next| place > next) {
            Err(self.damaged(format!("{shown} overlaps the next one")))
        } else {
            Ok(())
        }
    }

    /// Removes bundles and tiles that only entries before `minimum` need. Everything from it on can still be read and verified.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn prune(&mut self, minimum: u64) -> Result<u64, LogError> {
        // The last entry stays: the next start reads its time.
        self.prune_files(minimum.min(self.published.saturating_sub(1)))
            .map_err(|fault| LogError::Io { path: self.path.clone(), fault })
    }

    fn prune_files(&self, minimum: u64) -> io::Result<u64> {
        let mut writing = FilesWriting::begin(&self.folder)?;
        writing.write(MINIMUM, format!("{minimum}\n").as_bytes())?;
        writing.finish()?;
        let mut removed = 0;
        for path in self.folder.files()? {
            let end = TileName::parse(&path).and_then(TileName::end);
            if end.is_some_and(|end| end <= minimum) {
                remove(&self.folder.path(&path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn tile(row: TileRow) -> (TileName, Vec<u8>) {
    let TileRow { level, index, hashes } = row;
    (TileName { kind: TileKind::Level(level), index, width: hashes.len() }, hashes.concat())
}

fn lock(folder: &LogFolder, path: &Path) -> Result<File, LogError> {
    let at = |fault| LogError::Io { path: folder.path(LOCK), fault };
    let file = File::options().create(true).truncate(false).write(true).open(folder.path(LOCK)).map_err(at)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LogError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(fault)) => Err(at(fault)),
    }
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
