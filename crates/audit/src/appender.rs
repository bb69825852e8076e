//! Makes entries durable in the journal, and keeps what no checkpoint covers until it is published.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::durable::{DiskJournal, Journal};
use crate::error::LogError;
use crate::folder::{CHECKPOINT, LogFolder, TILES};
use crate::journal::{JournalKey, NextFrame, OldJournalSegment, frame_hashes, segment_path};
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
    journal: Box<dyn Journal>,
    _lock: Arc<File>,
}

impl LogAppender {
    pub(crate) fn open(
        path: &Path,
        signer: &NoteSigner,
        rules: LogRules,
        lock: Arc<File>,
    ) -> Result<(Self, Recovery), LogError> {
        let (mut appender, _, recovery) = Self::load(path, signer, rules, lock)?;
        appender.journal.begin(&appender.tree)?;
        Ok((appender, recovery))
    }

    /// What the folder has, and the starts of the journal's segments in it. Nothing is written.
    pub(crate) fn load(
        path: &Path,
        signer: &NoteSigner,
        rules: LogRules,
        lock: Arc<File>,
    ) -> Result<(Self, Vec<u64>, Recovery), LogError> {
        let folder = LogFolder::new(path);
        let key = signer.public().clone();
        let journal = DiskJournal::find(&folder, signer.journal_key(), key.name(), rules.segment_bytes)?;
        let starts = journal.starts().to_vec();
        let mut appender = Self {
            path: path.to_owned(),
            folder,
            key,
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
            journal: Box::new(journal),
            _lock: lock,
        };
        appender.load_published(starts.first() == Some(&0))?;
        let recovery = appender.replay(&starts)?;
        Ok((appender, starts, recovery))
    }

    /// Makes entries durable elsewhere from now on.
    pub(crate) fn replace_journal(&mut self, journal: Box<dyn Journal>) {
        self.journal = journal;
    }

    /// Begins, before there are entries, after those of a tree.
    pub(crate) fn begin_at(&mut self, tree: MerkleTree) {
        self.tree = tree;
    }

    pub(crate) fn tree(&self) -> &MerkleTree {
        &self.tree
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
        let old_segments = self.journal.take_covered();
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
        let hashes = frame_hashes(frame).expect("made of entries");
        self.journal.append(&self.tree, frame, &hashes)?;
        self.take_in(frame, &hashes);
        Ok(())
    }

    /// Takes durable entries into the tree.
    pub(crate) fn take_in(&mut self, frame: &[u8], hashes: &[NodeHash]) {
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

    fn damaged(&self, what: impl Into<String>) -> LogError {
        LogError::Damaged { path: self.path.clone(), what: what.into() }
    }

    /// Loads the tree of the checkpoint, and the entries of its last bundle. Before the first checkpoint, the journal has all entries.
    fn load_published(&mut self, has_all: bool) -> Result<(), LogError> {
        let loaded = LogReader::open(&self.path, &self.key).and_then(|reader| {
            let entries = match reader.size().checked_sub(1) {
                Some(last) => reader.bundle_of(last)?.1,
                None => Vec::new(),
            };
            Ok((reader, entries))
        });
        let (reader, entries) = match loaded {
            Ok(loaded) => loaded,
            Err(ReadError::Absent) if self.folder.path(TILES).exists() && !has_all => {
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
    fn replay(&mut self, starts: &[u64]) -> Result<Recovery, LogError> {
        let mut recovery = Recovery::default();
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
