//! Makes entries durable in the journal, and keeps what no checkpoint covers until it is published.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::LogError;
use crate::folder::{CHECKPOINT, LogFolder, TILES};
use crate::journal::{JournalKey, JournalSegment, NextFrame, OldJournalSegment, frame_hashes, segment_path, segments};
use crate::merkle::{MerkleTree, NodeHash, ROW_BITS, ROW_WIDTH, row_width};
use crate::note::{NoteSigner, VerifierKey};
use crate::publisher::{Publication, PublishedSize, tile};
use crate::reader::{LogReader, ReadError};
use crate::tile::{TileKind, TileName, bundle_entries, push_entry};

/// Bounds of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRules {
    /// Bytes of a segment of the journal from which on the next begins.
    pub segment_bytes: u64,
    /// Bytes of entries that no checkpoint covers, in memory and in the journal. From this on, entries wait until a checkpoint is written.
    pub pending_bytes_max: usize,
}

impl Default for LogRules {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, pending_bytes_max: 32 << 20 }
    }
}

/// What the start of a log found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Entries that were durable and in no checkpoint.
    pub replayed: u64,
    /// Bytes of a write that did not end.
    pub torn_bytes: usize,
}

/// The half of a log that appends.
pub(crate) struct LogAppender {
    path: PathBuf,
    folder: LogFolder,
    key: VerifierKey,
    journal_key: JournalKey,
    rules: LogRules,
    tree: MerkleTree,
    /// Entries that a checkpoint covers.
    published: u64,
    /// Entries that were given to the publisher.
    handed_over: u64,
    /// Entries after the last full bundle, as a bundle.
    bundle: Vec<u8>,
    /// Empty before the first.
    last_entry: Vec<u8>,
    /// Bundles and rows that are full and were not given to the publisher.
    full: Vec<(TileName, Vec<u8>)>,
    /// Bytes of entries after `handed_over`.
    fresh_bytes: usize,
    /// Bytes of entries after `published`.
    pending_bytes: usize,
    /// `None` after a failed write.
    segment: Option<JournalSegment>,
    /// Starts of the segments that are kept, in order, with the one that is written.
    starts: Vec<u64>,
    _lock: Arc<File>,
}

impl LogAppender {
    pub(crate) fn open(
        path: &Path,
        signer: &NoteSigner,
        rules: LogRules,
        lock: Arc<File>,
    ) -> Result<(Self, Recovery), LogError> {
        let folder = LogFolder::new(path);
        let starts = segments(&folder).map_err(|fault| LogError::Io { path: path.to_owned(), fault })?;
        let mut appender = Self {
            path: path.to_owned(),
            folder,
            key: signer.public().clone(),
            journal_key: signer.journal_key(),
            rules,
            tree: MerkleTree::default(),
            published: 0,
            handed_over: 0,
            bundle: Vec::new(),
            last_entry: Vec::new(),
            full: Vec::new(),
            fresh_bytes: 0,
            pending_bytes: 0,
            segment: None,
            starts,
            _lock: lock,
        };
        appender.load_published()?;
        let recovery = appender.replay()?;
        appender.begin_segment()?;
        Ok((appender, recovery))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn size(&self) -> u64 {
        self.tree.size()
    }

    pub(crate) fn published(&self) -> u64 {
        self.published
    }

    pub(crate) fn last_entry(&self) -> &[u8] {
        &self.last_entry
    }

    /// Whether entries have to wait for a checkpoint.
    pub(crate) fn is_lagging(&self) -> bool {
        self.pending_bytes >= self.rules.pending_bytes_max
    }

    /// Whether there are entries that were not given to the publisher.
    pub(crate) fn has_fresh(&self) -> bool {
        self.tree.size() > self.handed_over
    }

    /// Whether they are so many that they should not wait for the next checkpoint's time.
    pub(crate) fn has_many_fresh(&self) -> bool {
        self.fresh_bytes >= self.rules.pending_bytes_max / 4
    }

    /// What is to be published, if there is anything new. All of it stays pending until [`LogAppender::acknowledge`].
    pub(crate) fn publication(&mut self) -> Option<Publication> {
        if !self.has_fresh() {
            return None;
        }
        self.handed_over = self.tree.size();
        // Every segment before the one that is written is covered.
        let old_segments = self.starts.drain(..self.starts.len().saturating_sub(1)).collect();
        Some(Publication {
            tree: self.tree.clone(),
            bundle: self.bundle.clone(),
            full: std::mem::take(&mut self.full),
            bytes: std::mem::take(&mut self.fresh_bytes),
            old_segments,
        })
    }

    pub(crate) fn acknowledge(&mut self, done: PublishedSize) {
        self.published = self.published.max(done.size);
        self.pending_bytes -= done.bytes;
    }

    /// Appends entries, as in a bundle. They are durable when this returns; after an error none of them counts, and it may be tried again.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        if self.is_lagging() {
            return Err(LogError::Lagging);
        }
        if self.segment.as_ref().is_none_or(|segment| segment.size >= self.rules.segment_bytes) {
            self.begin_segment()?;
        }
        let segment = self.segment.as_mut().expect("begun");
        let hashes = frame_hashes(frame).expect("made of entries");
        if let Err(fault) = segment.append(&self.journal_key, frame, &hashes) {
            // What the file ends with now is not known. The next segment begins where this frame would have begun, which excludes it.
            self.segment = None;
            let start = *self.starts.last().expect("the one that is written");
            return Err(LogError::Io { path: segment_path(&self.folder, start), fault });
        }
        self.take_in(frame, &hashes);
        Ok(())
    }

    /// Takes durable entries into the tree.
    fn take_in(&mut self, frame: &[u8], hashes: &[NodeHash]) {
        let mut last: &[u8] = &[];
        for (entry, hash) in bundle_entries(frame).zip(hashes) {
            let entry = entry.expect("checked when its hash was computed");
            push_entry(entry, &mut self.bundle);
            last = entry;
            let full = &mut self.full;
            let before = full.len();
            self.tree.push(*hash, |row| full.push(tile(row)));
            if full.len() > before {
                let index = (self.tree.size() >> ROW_BITS) - 1;
                let name = TileName { kind: TileKind::Entries, index, width: ROW_WIDTH };
                full.push((name, std::mem::take(&mut self.bundle)));
            }
        }
        if !last.is_empty() {
            self.last_entry = last.to_vec();
        }
        self.fresh_bytes += frame.len();
        self.pending_bytes += frame.len();
    }

    /// Begins a segment of the journal at the current size.
    fn begin_segment(&mut self) -> Result<(), LogError> {
        let (start, root) = (self.tree.size(), self.tree.root());
        let segment = JournalSegment::create(&self.folder, &self.journal_key, self.key.name(), start, &root);
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
        let loaded = LogReader::open(&self.path, &self.key).and_then(|reader| {
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
            Err(error) => return Err(LogError::of_reading(&self.path, error)),
        };
        self.tree = reader.into_tree();
        self.published = self.tree.size();
        self.handed_over = self.published;
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
        let origin = self.key.name().to_owned();
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
            let (entries, hashes) = match segment.next(&self.journal_key) {
                NextFrame::Frame(entries, hashes) => (entries, hashes),
                NextFrame::End if next.is_none() => return Ok(()),
                NextFrame::Torn(bytes) if next.is_none() => {
                    recovery.torn_bytes = bytes;
                    return Ok(());
                }
                _ => return Err(self.damaged(format!("{shown} is damaged after entry {place}"))),
            };
            let count = hashes.len() as u64;
            if place == self.tree.size() {
                self.take_in(&entries, &hashes);
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
}
