//! Why a log cannot be opened or written.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::folder::LogFolder;
use crate::reader::ReadError;
use crate::tile::ENTRY_SIZE_MAX;

/// Why a store does not take or return frames.
pub type FrameFault = Box<dyn Error + Send + Sync>;

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
    /// Its records are durable elsewhere, where more of them may be.
    #[error("the records of the audit log in {} are kept in the {kept_in}: set audit.durable to that", path.display())]
    KeptElsewhere {
        /// The folder.
        path: PathBuf,
        /// Where.
        kept_in: String,
    },
    /// The store that keeps its records does not.
    #[error("the audit log's records are not kept: {fault}")]
    NotStored {
        /// Why.
        fault: FrameFault,
    },
    /// Tiles and checkpoints are written more slowly than entries are appended: what they lack has reached its bound.
    #[error("the audit log's checkpoints lag behind its records")]
    Lagging,
    /// The wall clock has jumped ahead, so that it cannot be believed about what is old.
    #[error("the clock of this machine jumped ahead by {} s: no old records are removed until it is back, or for a day", ahead.as_secs())]
    ClockAhead {
        /// By how much.
        ahead: Duration,
    },
    /// More than an entry may have.
    #[error("a record of {size} bytes; at most {ENTRY_SIZE_MAX} fit")]
    EntrySize {
        /// Its bytes.
        size: usize,
    },
}

impl LogError {
    /// Of what a reader found in a log's folder.
    pub(crate) fn of_reading(path: &Path, error: ReadError) -> Self {
        match error {
            ReadError::Io { name, fault } => Self::Io { path: LogFolder::new(path).path(&name), fault },
            error => Self::Damaged { path: path.to_owned(), what: error.to_string() },
        }
    }
}
