//! Frames: entries that are durable in a store elsewhere than in the log's folder, sealed under the log's key.
//!
//! ```text
//! frame = a segment of a journal with one frame: it names the log, its first entry and the root of all before      (journal.rs)
//! base  = title ‖ first entry (u64) ‖ hashes of each level's last row ‖ mac      mac = HMAC(key, title ‖ origin ‖ "\n" ‖ the rest)
//! ```
//!
//! Who has the store can drop the newest frames, as who has a disk can drop the newest records: kept checkpoints and witnesses show it.
//! They can change, move or drop none in the middle, and read all: the store has the records' texts.

use std::sync::Arc;

use leafseal_crypto::hash::{hmac_sha256, hmac_sha256_verify};

use crate::durable::Journal;
use crate::error::{FrameFault, LogError};
use crate::journal::{JournalKey, NextFrame, OldJournalSegment, sealed_frame};
use crate::merkle::{MerkleTree, NodeHash, ROW_BITS, row_levels, row_width};
use crate::note::NoteSigner;
use crate::reader::{LogReader, ReadError};
use crate::tile::{bundle_entries, push_entry};

const BASE_TITLE: &[u8; 8] = b"LSAUDITB";

/// Entries that became durable together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFrame {
    /// The index of the first.
    pub start: u64,
    /// The index after the last.
    pub end: u64,
    /// The entries, sealed: their store can neither change nor move them unnoticed.
    pub content: Vec<u8>,
}

/// What a store has of a log.
#[derive(Debug, Clone, Default)]
pub struct StoredFrames {
    /// What stands for the entries that were pruned.
    pub base: Option<Vec<u8>>,
    /// The index after the last entry.
    pub end: u64,
}

/// Keeps the frames of one log for its writer. Each call may wait, within bounds.
pub trait FrameStore: Send + Sync {
    /// Whether it has been this log's. Changes nothing.
    ///
    /// # Errors
    /// [`FrameFault`].
    fn is_known(&self) -> Result<bool, FrameFault>;

    /// Makes this the only writer, and returns what is there.
    ///
    /// # Errors
    /// [`FrameFault`].
    fn take_over(&self) -> Result<StoredFrames, FrameFault>;

    /// Adds a frame, or puts it in the place of the one that begins where it does. Durable when this returns.
    ///
    /// # Errors
    /// [`FrameFault`]. The frame may be durable, or become it.
    fn put(&self, frame: StoredFrame) -> Result<(), FrameFault>;

    /// The first frames that have entries from an index on, in order: about so many bytes, but at least one.
    ///
    /// # Errors
    /// [`FrameFault`].
    fn read(&self, from: u64, bytes: usize) -> Result<Vec<StoredFrame>, FrameFault>;

    /// Removes frames that have only entries before an index; `base` stands for these.
    ///
    /// # Errors
    /// [`FrameFault`].
    fn remove_before(&self, index: u64, base: &[u8]) -> Result<(), FrameFault>;
}

/// The frames of one log, and the key that seals them.
#[derive(Clone)]
pub(crate) struct KeptFrames {
    pub(crate) store: Arc<dyn FrameStore>,
    key: Arc<JournalKey>,
    pub(crate) origin: String,
}

impl KeptFrames {
    pub(crate) fn new(store: Arc<dyn FrameStore>, signer: &NoteSigner) -> Self {
        Self { store, key: Arc::new(signer.journal_key()), origin: signer.public().name().to_owned() }
    }

    pub(crate) fn put(
        &self,
        (start, root): (u64, &NodeHash),
        entries: &[u8],
        hashes: &[NodeHash],
    ) -> Result<(), LogError> {
        let content = sealed_frame(&self.key, &self.origin, start, root, (entries, hashes));
        let end = start + hashes.len() as u64;
        self.store.put(StoredFrame { start, end, content }).map_err(|fault| LogError::NotStored { fault })
    }

    /// Removes what is before an entry, or less: what remains begins at the first of 256.
    pub(crate) fn prune(&self, reader: &LogReader, minimum: u64) -> Result<(), LogError> {
        let minimum = minimum >> ROW_BITS << ROW_BITS;
        let base =
            self.base(reader, minimum).map_err(|error| LogError::of_reading(&reader.folder().path(""), error))?;
        self.store.remove_before(minimum, &base).map_err(|fault| LogError::NotStored { fault })
    }

    fn base_message(&self, body: &[u8]) -> Vec<u8> {
        [&BASE_TITLE[..], self.origin.as_bytes(), b"\n", body].concat()
    }

    /// What stands for the entries before one that is the first of 256.
    fn base(&self, reader: &LogReader, minimum: u64) -> Result<Vec<u8>, ReadError> {
        let mut body = minimum.to_be_bytes().to_vec();
        for level in 0..row_levels(minimum) as u32 {
            let width = row_width(minimum, level);
            if width > 0 {
                let row = reader.row(level, minimum >> (ROW_BITS * (level + 1)))?;
                body.extend_from_slice(row[..width].as_flattened());
            }
        }
        let mac = hmac_sha256(self.key.expose(), &self.base_message(&body));
        Ok([&BASE_TITLE[..], &body, &mac].concat())
    }

    /// The tree before the first entry; `None` for what this log's key has not sealed.
    pub(crate) fn open_base(&self, base: &[u8]) -> Option<MerkleTree> {
        let rest = base.strip_prefix(BASE_TITLE)?;
        let (body, mac) = rest.split_last_chunk::<32>()?;
        if !hmac_sha256_verify(self.key.expose(), &self.base_message(body), mac) {
            return None;
        }
        let (minimum, hashes) = body.split_first_chunk()?;
        let minimum = u64::from_be_bytes(*minimum);
        let (mut hashes, rest) = hashes.as_chunks::<32>();
        let mut rows = Vec::new();
        for level in 0..row_levels(minimum) as u32 {
            let (row, others) = hashes.split_at_checked(row_width(minimum, level))?;
            rows.push(row.to_vec());
            hashes = others;
        }
        MerkleTree::from_rows(minimum, rows).filter(|_| rest.is_empty() && hashes.is_empty())
    }

    /// Entries of a frame from an index on, as a bundle, their hashes, and the root of the tree before the frame.
    pub(crate) fn open(&self, frame: StoredFrame, from: u64) -> Option<(Vec<u8>, Vec<NodeHash>, NodeHash)> {
        let StoredFrame { start, end, content } = frame;
        let mut segment = OldJournalSegment::of_content(content, &self.key, &self.origin, start)?;
        let NextFrame::Frame(entries, mut hashes) = segment.next(&self.key) else { return None };
        let NextFrame::End = segment.next(&self.key) else { return None };
        if end != start + hashes.len() as u64 {
            return None;
        }
        let mut rest = Vec::new();
        let known = from.saturating_sub(start) as usize;
        bundle_entries(&entries).skip(known).flatten().for_each(|entry| push_entry(entry, &mut rest));
        hashes.drain(..known.min(hashes.len()));
        Some((rest, hashes, segment.root))
    }
}

/// A journal in a store.
pub(crate) struct StoredJournal {
    pub(crate) frames: KeptFrames,
    /// Segments of a journal that the folder had before.
    pub(crate) old_segments: Vec<u64>,
}

impl Journal for StoredJournal {
    fn begin(&mut self, _: &MerkleTree) -> Result<(), LogError> {
        Ok(())
    }

    fn append(&mut self, tree: &MerkleTree, frame: &[u8], hashes: &[NodeHash]) -> Result<(), LogError> {
        self.frames.put((tree.size(), &tree.root()), frame, hashes)
    }

    fn take_covered(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.old_segments)
    }
}
