//! Reads a log: what it returns is in the tree of the log's checkpoint, checked tile by tile from the root down.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use thiserror::Error;

use crate::checkpoint::{Checkpoint, CheckpointFault};
use crate::folder::{CHECKPOINT, COSIGNED, LogFolder, MINIMUM};
use crate::merkle::{
    Hashes, MerkleTree, NodeHash, ROW_BITS, ROW_WIDTH, leaf_hash, perfect_root, row_levels, row_width,
};
use crate::note::VerifierKey;
use crate::pruning::PruneStatement;
use crate::tile::{TileKind, TileName, bundle_entries, tile_hashes};
use crate::time::{entry_era, time_of_record};

/// Rows above the entries' that are kept: those of 2^24 entries.
const ROWS_KEPT_MAX: usize = 512;

/// Why a part of a log cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The disk refuses.
    #[error("{name}: {fault}")]
    Io {
        /// Which file.
        name: String,
        /// Why.
        fault: io::Error,
    },
    /// There is no checkpoint.
    #[error("no audit log: it has no file {CHECKPOINT:?}")]
    Absent,
    /// The checkpoint is not one of this log.
    #[error("{CHECKPOINT}: {0}")]
    Checkpoint(#[from] CheckpointFault),
    /// The statement about the first entry is not one of this log.
    #[error("{MINIMUM}: {0}")]
    Minimum(CheckpointFault),
    /// A file that the checkpoint covers is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A file has not the content that the checkpoint covers.
    #[error("{0} was changed")]
    Changed(String),
    /// An entry is before the minimum index, or beyond the checkpoint.
    #[error("entry {index} is not in this log: it has entries {minimum} to {size}")]
    Outside {
        /// Which.
        index: u64,
        /// The first that there is.
        minimum: u64,
        /// The number of all.
        size: u64,
    },
}

/// Rows by level and index.
type Rows = HashMap<(u32, u64), Rc<Vec<NodeHash>>>;

/// A log, as its newest checkpoint at the time of opening shows it.
#[derive(Debug)]
pub struct LogReader {
    folder: LogFolder,
    checkpoint: Checkpoint,
    /// The checkpoint with its signatures.
    note: String,
    minimum: u64,
    /// The last rows, which the root covers.
    last: MerkleTree,
    /// Full rows that were checked, above the entries' level.
    rows: RefCell<Rows>,
    /// The last one of the entries' level that was checked.
    leaves: RefCell<Option<(u64, Rc<Vec<NodeHash>>)>>,
}

impl LogReader {
    /// Opens the log in a folder; `key` is that of the log, from a trustworthy place.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path, key: &VerifierKey) -> Result<Self, ReadError> {
        let folder = LogFolder::new(path);
        // Before the checkpoint, which may be of later.
        let statement = statement(&folder, key)?;
        let note = read(&folder, CHECKPOINT)?.ok_or(ReadError::Absent)?;
        let checkpoint = Checkpoint::open(&note, key)?;
        let size = checkpoint.size;
        let rows: Result<Vec<_>, _> =
            (0..row_levels(size)).map(|level| last_row(&folder, size, level as u32)).collect();
        let last = MerkleTree::from_rows(size, rows?).filter(|tree| tree.root() == checkpoint.root);
        let last = last.ok_or_else(|| ReadError::Changed("one of the last tiles".to_owned()))?;
        let minimum = statement.as_ref().map_or(0, |statement| statement.minimum);
        let note = String::from_utf8_lossy(&note).into_owned();
        let (rows, leaves) = (RefCell::default(), RefCell::default());
        let reader = Self { folder, checkpoint, note, minimum, last, rows, leaves };
        let is_of_another =
            |statement: &PruneStatement| Ok::<_, ReadError>(reader.root(0, statement.minimum)? != statement.root);
        if let Some(statement) = &statement
            && (statement.minimum > size || statement.size > size || is_of_another(statement)?)
        {
            return Err(ReadError::Minimum(CheckpointFault::Origin));
        }
        Ok(reader)
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The signed note of the checkpoint, with the signatures of others.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Entries.
    pub fn size(&self) -> u64 {
        self.checkpoint.size
    }

    /// The first entry that was not pruned, by a signed statement of the log.
    pub fn minimum(&self) -> u64 {
        self.minimum
    }

    /// Entries of the newest checkpoint that enough witnesses have cosigned; 0 if there is none.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn cosigned(&self, key: &VerifierKey) -> Result<u64, ReadError> {
        let note = read(&self.folder, COSIGNED)?;
        note.map_or(Ok(0), |note| Ok(Checkpoint::open(&note, key)?.size))
    }

    /// Its tree, to which more can be added.
    pub(crate) fn into_tree(self) -> MerkleTree {
        self.last
    }

    pub(crate) fn folder(&self) -> &LogFolder {
        &self.folder
    }

    /// The first index of a bundle and all of its entries.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn bundle_of(&self, index: u64) -> Result<(u64, Vec<Vec<u8>>), ReadError> {
        let bundle = index >> ROW_BITS;
        if index >= self.size() || index < self.minimum {
            return Err(ReadError::Outside { index, minimum: self.minimum, size: self.size() });
        }
        let hashes = self.row(0, bundle)?;
        let (path, content) = read_tile(&self.folder, TileKind::Entries, bundle, hashes.len())?;
        // A full bundle has more.
        let entries: Option<Vec<&[u8]>> = bundle_entries(&content).take(hashes.len()).collect();
        let entries = entries.filter(|entries| entries.iter().map(|entry| leaf_hash(entry)).eq(hashes.iter().copied()));
        let entries = entries.ok_or(ReadError::Changed(path))?;
        Ok((bundle << ROW_BITS, entries.into_iter().map(<[u8]>::to_vec).collect()))
    }

    /// The ranges of entries within which times do not go back, from the first: the clock was set back between them.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn eras(&self) -> Result<Vec<Range<u64>>, ReadError> {
        let (mut eras, mut end) = (Vec::new(), self.size());
        while end > self.minimum {
            let (start, entries) = self.bundle_of(end - 1)?;
            // No record is before its era. One that says otherwise has none.
            let era = Some(entry_era(&entries[(end - 1 - start) as usize])).filter(|era| *era < end);
            let first = era.unwrap_or(0).max(self.minimum);
            eras.push(first..end);
            end = first;
        }
        eras.reverse();
        Ok(eras)
    }

    /// The first record from a time on, as [`record_time`](crate::record_time) writes it, of the first era that has one; the number of all
    /// records if none has.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn first_since(&self, time: &str) -> Result<u64, ReadError> {
        for era in self.eras()? {
            let first = self.partition_point(&era, |entry| time_of_record(entry) < time)?;
            if first < era.end {
                return Ok(first);
            }
        }
        Ok(self.size())
    }

    /// The first entry of a range for which `is_before` is false, if it is true for some and then false for all the others: of a bundle,
    /// the first entry is looked at.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn partition_point(
        &self,
        range: &Range<u64>,
        mut is_before: impl FnMut(&[u8]) -> bool,
    ) -> Result<u64, ReadError> {
        let (first, end) = (range.start.max(self.minimum), range.end.min(self.size()));
        let (mut low, mut high) = (first >> ROW_BITS, end.div_ceil(ROW_WIDTH as u64));
        // Of bundles below `low`, the first entry is before; of those from `high` on, it is not.
        while low < high {
            let middle = low + (high - low) / 2;
            let index = (middle << ROW_BITS).max(first);
            let (start, entries) = self.bundle_of(index)?;
            if is_before(&entries[(index - start) as usize]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(bundle) = low.checked_sub(1).filter(|bundle| *bundle >= first >> ROW_BITS) else {
            return Ok(first);
        };
        let (start, entries) = self.bundle_of((bundle << ROW_BITS).max(first))?;
        let (from, to) = (first.saturating_sub(start) as usize, (end - start).min(entries.len() as u64) as usize);
        Ok(start + (from + entries[from..to].partition_point(|entry| is_before(entry))) as u64)
    }

    /// A row of hashes that the checkpoint covers.
    pub(crate) fn row(&self, level: u32, index: u64) -> Result<Rc<Vec<NodeHash>>, ReadError> {
        let last = self.size().checked_shr(ROW_BITS * (level + 1)).unwrap_or(0);
        if index >= last {
            let row = self.last.partial_rows().find(|row| u32::from(row.level) == level && row.index == index);
            return row.map(|row| Rc::new(row.hashes)).ok_or(ReadError::Outside { index, minimum: 0, size: last });
        }
        if let Some(known) = self.known(level, index) {
            return Ok(known);
        }
        let parent = self.row(level + 1, index >> ROW_BITS)?;
        let path = TileName { kind: TileKind::Level(level as u8), index, width: ROW_WIDTH }.path();
        let content = read(&self.folder, &path)?.ok_or_else(|| ReadError::Missing(path.clone()))?;
        let row = tile_hashes(&content, ROW_WIDTH)
            .filter(|row| perfect_root(row) == parent[index as usize % ROW_WIDTH])
            .ok_or(ReadError::Changed(path))?;
        let row = Rc::new(row);
        self.keep(level, index, &row);
        Ok(row)
    }

    fn known(&self, level: u32, index: u64) -> Option<Rc<Vec<NodeHash>>> {
        if level > 0 {
            return self.rows.borrow().get(&(level, index)).cloned();
        }
        self.leaves.borrow().as_ref().filter(|(known, _)| *known == index).map(|(_, row)| Rc::clone(row))
    }

    fn keep(&self, level: u32, index: u64, row: &Rc<Vec<NodeHash>>) {
        if level == 0 {
            *self.leaves.borrow_mut() = Some((index, Rc::clone(row)));
            return;
        }
        let mut rows = self.rows.borrow_mut();
        if rows.len() >= ROWS_KEPT_MAX {
            rows.clear();
        }
        rows.insert((level, index), Rc::clone(row));
    }
}

impl Hashes for LogReader {
    type Error = ReadError;

    fn perfect(&self, height: u32, index: u64) -> Result<NodeHash, ReadError> {
        let (level, within) = (height / ROW_BITS, height % ROW_BITS);
        let start = index << within;
        let row = self.row(level, start >> ROW_BITS)?;
        let start = start as usize % ROW_WIDTH;
        let hashes = row.get(start..start + (1 << within));
        hashes.map(perfect_root).ok_or(ReadError::Outside { index, minimum: self.minimum, size: self.size() })
    }
}

/// The log's statement about what was pruned.
pub(crate) fn statement(folder: &LogFolder, key: &VerifierKey) -> Result<Option<PruneStatement>, ReadError> {
    let note = read(folder, MINIMUM)?;
    note.map(|note| PruneStatement::open(&note, key).map_err(ReadError::Minimum)).transpose()
}

fn read(folder: &LogFolder, name: &str) -> Result<Option<Vec<u8>>, ReadError> {
    folder.read(name).map_err(|fault| ReadError::Io { name: name.to_owned(), fault })
}

fn last_row(folder: &LogFolder, size: u64, level: u32) -> Result<Vec<NodeHash>, ReadError> {
    let width = row_width(size, level);
    if width == 0 {
        return Ok(Vec::new());
    }
    let index = size.checked_shr(ROW_BITS * (level + 1)).unwrap_or(0);
    let (path, content) = read_tile(folder, TileKind::Level(level as u8), index, width)?;
    // A full tile has more.
    let hashes = content.get(..width * size_of::<NodeHash>()).and_then(|hashes| tile_hashes(hashes, width));
    hashes.ok_or(ReadError::Changed(path))
}

/// Reads a tile of this width, or the full one that has replaced it meanwhile.
fn read_tile(folder: &LogFolder, kind: TileKind, index: u64, width: usize) -> Result<(String, Vec<u8>), ReadError> {
    let path = TileName { kind, index, width }.path();
    if let Some(content) = read(folder, &path)? {
        return Ok((path, content));
    }
    let full = TileName { kind, index, width: ROW_WIDTH }.path();
    match read(folder, &full)? {
        Some(content) => Ok((full, content)),
        None => Err(ReadError::Missing(path)),
    }
}
