//! How far a follower of a log is, in a file of its own, and what comes next.
//!
//! A place further on than the follower is would skip records, so the file is authenticated with a key that the log's key yields. One from
//! before can be put back: then records come once more.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use leafseal_crypto::hash::sha256;

use crate::cursor_key::CursorKey;
use crate::folder::{create_temporary, sync_folder};
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

    /// The same records in two batches, the first half first. A batch of one record has an empty second half.
    pub fn split(mut self) -> (Self, Self) {
        let rest = self.records.split_off(self.records.len().div_ceil(2));
        let next = rest.first().map_or(self.next, |(index, _)| *index);
        let second = Self { records: rest, ..self.clone_empty() };
        (Self { next, ..self }, second)
    }

    fn clone_empty(&self) -> Self {
        let (origin, checkpoint) = (self.origin.clone(), self.checkpoint.clone());
        Self { origin, checkpoint, next: self.next, records: Vec::new() }
    }
}

/// The first line of a cursor.
const TITLE: &str = "leafseal audit cursor 1";
/// Longest file that is read.
const FILE_SIZE_MAX: u64 = 4096;

/// A follower's place in a log, which outlives it.
#[derive(Debug, Clone)]
pub struct LogCursor {
    file: PathBuf,
    key: CursorKey,
    follower: String,
    origin: String,
    next: u64,
    was_forged: bool,
}

impl LogCursor {
    /// The cursor of a follower of a log, in a folder of cursors; at the log's beginning if there is none, or if the file is not what the
    /// log's engine has written.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(folder: &Path, follower: &str, origin: &str, key: &CursorKey) -> io::Result<Self> {
        let file = folder.join(format!("{follower}-{}", &hex(&sha256(&[origin.as_bytes()]))[..16]));
        let mut cursor = Self {
            file,
            key: key.clone(),
            follower: follower.to_owned(),
            origin: origin.to_owned(),
            next: 0,
            was_forged: false,
        };
        let mut found = String::new();
        match File::open(&cursor.file).and_then(|file| file.take(FILE_SIZE_MAX).read_to_string(&mut found)) {
            Ok(_) => {
                let next = found.lines().nth(3).and_then(|next| next.parse().ok());
                // Hashes, so that the time of comparing them shows nothing of the MAC.
                let is_own = |next: &u64| sha256(&[cursor.text(*next).as_bytes()]) == sha256(&[found.as_bytes()]);
                let next = next.filter(is_own);
                (cursor.next, cursor.was_forged) = (next.unwrap_or(0), next.is_none());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => cursor.was_forged = true,
            Err(error) => return Err(error),
        }
        Ok(cursor)
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether the file was not what the log's engine had written, so that the cursor began at the log's beginning.
    pub fn was_forged(&self) -> bool {
        self.was_forged
    }

    /// Where it is kept.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Goes on to a record. Everything before has arrived.
    ///
    /// # Errors
    /// When the file cannot be written: after a start, records may then be sent once more.
    pub fn advance(&mut self, next: u64) -> io::Result<()> {
        self.next = next;
        let folder = self.file.parent().expect("a file in a folder");
        fs::create_dir_all(folder)?;
        let mut temporary = self.file.clone().into_os_string();
        temporary.push(".tmp");
        let mut file = create_temporary(Path::new(&temporary))?;
        file.write_all(self.text(next).as_bytes())?;
        file.sync_data()?;
        fs::rename(&temporary, &self.file)?;
        sync_folder(folder)
    }

    fn text(&self, next: u64) -> String {
        let text = format!("{TITLE}\n{}\n{}\n{next}\n", self.origin, self.follower);
        let mac = self.key.mac(text.as_bytes());
        format!("{text}{}\n", hex(&mac))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
