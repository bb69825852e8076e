//! Where entries are durable before a checkpoint covers them: the one step of an append that waits.

use crate::error::LogError;
use crate::folder::LogFolder;
use crate::journal::{JournalKey, JournalSegment, segment_path, segments};
use crate::merkle::{MerkleTree, NodeHash};

/// Makes entries durable.
pub(crate) trait Journal: Send {
    /// Gets ready for entries after those of a tree.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn begin(&mut self, tree: &MerkleTree) -> Result<(), LogError>;

    /// Appends entries, as in a bundle, with their hashes, after those of a tree. They are durable when this returns; after an error none
    /// of them counts, and they may be tried again.
    ///
    /// # Errors
    /// Why they are not durable.
    fn append(&mut self, tree: &MerkleTree, frame: &[u8], hashes: &[NodeHash]) -> Result<(), LogError>;

    /// The starts of segments in the folder that a checkpoint over all entries replaces. Each is returned once.
    fn take_covered(&mut self) -> Vec<u64>;
}

/// The journal in the log's folder.
pub(crate) struct DiskJournal {
    folder: LogFolder,
    key: JournalKey,
    origin: String,
    segment_bytes: u64,
    /// `None` after a failed write.
    segment: Option<JournalSegment>,
    /// Starts of the segments that are kept, in order, with the one that is written.
    starts: Vec<u64>,
}

impl DiskJournal {
    /// The journal with the segments that are there.
    pub(crate) fn find(
        folder: &LogFolder,
        key: JournalKey,
        origin: &str,
        segment_bytes: u64,
    ) -> Result<Self, LogError> {
        let starts = segments(folder).map_err(|fault| LogError::Io { path: folder.path(""), fault })?;
        let (folder, origin) = (folder.clone(), origin.to_owned());
        Ok(Self { folder, key, origin, segment_bytes, segment: None, starts })
    }

    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }
}

impl Journal for DiskJournal {
    /// Begins a segment.
    fn begin(&mut self, tree: &MerkleTree) -> Result<(), LogError> {
        let (start, root) = (tree.size(), tree.root());
        let segment = JournalSegment::create(&self.folder, &self.key, &self.origin, start, &root);
        let segment = segment.map_err(|fault| LogError::Io { path: segment_path(&self.folder, start), fault })?;
        if self.starts.last() != Some(&start) {
            self.starts.push(start);
        }
        self.segment = Some(segment);
        Ok(())
    }

    fn append(&mut self, tree: &MerkleTree, frame: &[u8], hashes: &[NodeHash]) -> Result<(), LogError> {
        if self.segment.as_ref().is_none_or(|segment| segment.size >= self.segment_bytes) {
            self.begin(tree)?;
        }
        let segment = self.segment.as_mut().expect("begun");
        segment.append(&self.key, frame, hashes).map_err(|fault| {
            // What the file ends with now is not known. The next segment begins where this frame would have begun, which excludes it.
            self.segment = None;
            let start = *self.starts.last().expect("the one that is written");
            LogError::Io { path: segment_path(&self.folder, start), fault }
        })
    }

    /// Every segment before the one that is written.
    fn take_covered(&mut self) -> Vec<u64> {
        self.starts.drain(..self.starts.len().saturating_sub(1)).collect()
    }
}
