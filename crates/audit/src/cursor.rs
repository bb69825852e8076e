//! How far a follower of a log is, in a file of its own, and what comes next.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::reader::{LogReader, ReadError};

/// Bytes of records from which on a batch ends.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Records of a log that go to a sink together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordBatch {
    /// The log.
    pub origin: String,
    /// The newest checkpoint, as a signed note.
    pub checkpoint: String,
    /// The number after the last record that was looked at.
    pub next: u64,
    /// Records that are wanted, with their numbers.
    pub records: Vec<(u64, Vec<u8>)>,
}

impl RecordBatch {
    /// The next records of a log from `next` on, at most one bundle of 256, of which those are kept that are wanted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(reader: &LogReader, next: u64, wants: impl Fn(&[u8]) -> bool) -> Result<Self, ReadError> {
        let origin = reader.checkpoint().origin.clone();
        let mut batch = Self { origin, checkpoint: reader.note().to_owned(), next, records: Vec::new() };
        if next >= reader.size() {
            return Ok(batch);
        }
        let (start, entries) = reader.bundle_of(next)?;
        let mut bytes = 0;
        for (index, entry) in (start..).zip(entries).skip((next - start) as usize) {
            batch.next = index + 1;
            if wants(&entry) {
                bytes += entry.len();
                batch.records.push((index, entry));
            }
            if bytes >= BATCH_BYTES_MAX {
                break;
            }
        }
        Ok(batch)
    }
}

/// A follower's place in a log, which outlives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCursor {
    file: PathBuf,
    origin: String,
    next: u64,
}

impl LogCursor {
    /// The cursor in a file; at the log's beginning if there is no file, or if it is of another log.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of a cursor.
    pub fn open(file: &Path, origin: &str) -> io::Result<Self> {
        let next = match fs::read_to_string(file) {
            Ok(text) => match text.split('\n').collect::<Vec<_>>()[..] {
                [found, next, ""] if found == origin => {
                    next.parse().map_err(|_| io::Error::other(format!("{} is no cursor", file.display())))?
                }
                _ => 0,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { file: file.to_owned(), origin: origin.to_owned(), next })
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Goes on to a record. Everything before has arrived.
    ///
    /// # Errors
    /// When the file cannot be written: after a start, records may then be sent once more.
    pub fn advance(&mut self, next: u64) -> io::Result<()> {
        self.next = next;
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        let temporary = self.file.with_extension("tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(format!("{}\n{next}\n", self.origin).as_bytes())?;
        file.sync_data()?;
        fs::rename(&temporary, &self.file)
    }
}
