//! Writes tiles, bundles and checkpoints over entries that are durable in the journal.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::error::LogError;
use crate::folder::{CHECKPOINT, FilesWriting, LogFolder, remove};
use crate::frames::KeptFrames;
use crate::journal::segment_path;
use crate::merkle::{Hashes as _, MerkleTree, ROW_BITS, TileRow, row_width};
use crate::note::{NoteSigner, VerifierKey};
use crate::pruning::{PruneStatement, prune};
use crate::reader::LogReader;
use crate::tile::{TileKind, TileName};

/// What is to be published: a tree, and what became full since the publication before.
pub(crate) struct Publication {
    pub(crate) tree: MerkleTree,
    /// Entries after the last full bundle.
    pub(crate) bundle: Vec<u8>,
    pub(crate) full: Vec<(TileName, Vec<u8>)>,
    /// Bytes of entries since the publication before.
    pub(crate) bytes: usize,
    /// Starts of segments of the journal that it replaces.
    pub(crate) old_segments: Vec<u64>,
}

/// What was published.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PublishedSize {
    /// Entries that the checkpoint covers.
    pub(crate) size: u64,
    /// Bytes of those that none before covered.
    pub(crate) bytes: usize,
}

/// The half of a log that publishes.
pub(crate) struct LogPublisher {
    path: PathBuf,
    folder: LogFolder,
    signer: NoteSigner,
    /// What could not be written yet.
    pending: Option<Publication>,
    /// Where entries are kept besides.
    frames: Option<KeptFrames>,
    _lock: Arc<File>,
}

impl LogPublisher {
    pub(crate) fn new(path: &Path, signer: NoteSigner, lock: Arc<File>) -> Self {
        Self { path: path.to_owned(), folder: LogFolder::new(path), signer, pending: None, frames: None, _lock: lock }
    }

    /// Prunes these, too.
    pub(crate) fn keep_frames(&mut self, frames: KeptFrames) {
        self.frames = Some(frames);
    }

    pub(crate) fn sign(&self, statement: &PruneStatement) -> String {
        statement.sign(&self.signer)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes what is to be published, with what is still pending.
    pub(crate) fn add(&mut self, mut publication: Publication) {
        if let Some(mut before) = self.pending.take() {
            before.full.append(&mut publication.full);
            before.old_segments.append(&mut publication.old_segments);
            let (bytes, full, old_segments) = (before.bytes + publication.bytes, before.full, before.old_segments);
            publication = Publication { bytes, full, old_segments, ..publication };
        }
        self.pending = Some(publication);
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Writes and signs a checkpoint over what is pending, which stays pending after an error.
    pub(crate) fn publish(&mut self) -> io::Result<Option<PublishedSize>> {
        let Some(publication) = &self.pending else { return Ok(None) };
        self.write(publication)?;
        // What stays is of no consequence: readers compare it with the full tiles, and starts pass over it.
        let _ = self.tidy(publication);
        let done = PublishedSize { size: publication.tree.size(), bytes: publication.bytes };
        self.pending = None;
        Ok(Some(done))
    }

    /// Removes what is before `minimum`, and says so; at most up to the last entry, whose time the next start reads.
    pub(crate) fn prune(&mut self, minimum: u64) -> Result<u64, LogError> {
        let failed = |error| LogError::of_reading(&self.path, error);
        let reader = LogReader::open(&self.path, self.signer.public()).map_err(failed)?;
        let minimum = minimum.min(reader.size().saturating_sub(1));
        if minimum <= reader.minimum() {
            return Ok(0);
        }
        let root = reader.root(0, minimum).map_err(failed)?;
        let origin = self.signer.public().name().to_owned();
        let statement = PruneStatement { origin, minimum, root, size: reader.size() };
        let removed = prune(&self.path, &self.signer, &statement);
        let removed = removed.map_err(|fault| LogError::Io { path: self.path.clone(), fault })?;
        if let Some(frames) = &self.frames {
            // Tried again with the next, and by a start.
            frames.prune(&reader, minimum)?;
        }
        Ok(removed)
    }

    pub(crate) fn key(&self) -> &VerifierKey {
        self.signer.public()
    }

    fn write(&self, publication: &Publication) -> io::Result<()> {
        let Publication { tree, bundle, full, .. } = publication;
        let mut writing = FilesWriting::begin(&self.folder)?;
        for (name, content) in full {
            writing.write(&name.path(), content)?;
        }
        let size = tree.size();
        let width = row_width(size, 0);
        if width > 0 {
            let name = TileName { kind: TileKind::Entries, index: size >> ROW_BITS, width };
            writing.write(&name.path(), bundle)?;
        }
        for row in tree.partial_rows() {
            let (name, content) = tile(row);
            writing.write(&name.path(), &content)?;
        }
        writing.finish()?;
        let origin = self.signer.public().name().to_owned();
        let checkpoint = Checkpoint { origin, size, root: tree.root() };
        let mut writing = FilesWriting::begin(&self.folder)?;
        writing.write(CHECKPOINT, checkpoint.sign(&self.signer).as_bytes())?;
        writing.finish()
    }

    /// Removes what the published files replace: segments of the journal, and parts of rows that are full now.
    fn tidy(&self, publication: &Publication) -> io::Result<()> {
        for (name, _) in &publication.full {
            self.folder.remove_folder(&name.parts_path())?;
        }
        publication.old_segments.iter().try_for_each(|start| remove(&segment_path(&self.folder, *start)))
    }
}

pub(crate) fn tile(row: TileRow) -> (TileName, Vec<u8>) {
    let TileRow { level, index, hashes } = row;
    (TileName { kind: TileKind::Level(level), index, width: hashes.len() }, hashes.concat())
}
