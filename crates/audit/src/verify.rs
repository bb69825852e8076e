//! Verifies all of a log: its checkpoint, each tile and entry from the root down, each file that lies in its folder, and that checkpoints
//! which were kept elsewhere are of the same log.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::checkpoint::{Checkpoint, CheckpointFault};
use crate::folder::{CARRIED, CHECKPOINT, COSIGNED, JOURNAL, KEY, LOCK, MINIMUM, STORED};
use crate::merkle::{Hashes as _, ROW_BITS, ROW_WIDTH, leaf_hash};
use crate::note::{Note, VerifierKey};
use crate::reader::{LogReader, ReadError, statement};
use crate::tile::{TileKind, TileName, bundle_entries};
use crate::time::time_text;

/// How often the checkpoint of a log that is being written is read again, if files are beyond it.
const LOOKS_MAX: u32 = 50;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What is wrong with a log.
#[derive(Debug)]
pub enum LogFault {
    /// A part of it is missing or was changed.
    Read(ReadError),
    /// A file that no log has.
    Unknown(String),
    /// A tile or bundle beyond the checkpoint.
    Beyond(String),
    /// The log says that entries before this number were pruned, and more than may be.
    Pruned(u64),
    /// The checkpoint that witnesses have cosigned is none of this log, or was cut off or replaced.
    Cosigned(Box<LogFault>),
    /// Fewer witnesses than were asked for have cosigned a checkpoint.
    Witnesses {
        /// Those that have.
        found: usize,
        /// Those that must.
        wanted: usize,
        /// Since when they must have.
        since: Option<u64>,
    },
    /// A checkpoint that was kept elsewhere is none of this log.
    Foreign(usize, CheckpointFault),
    /// The log has less entries than a checkpoint that was kept elsewhere: the newest were cut off.
    CutOff {
        /// Which of the checkpoints.
        checkpoint: usize,
        /// Entries that it covers.
        size: u64,
    },
    /// The log is another one than a checkpoint that was kept elsewhere covers: entries before its size were replaced.
    Replaced {
        /// Which of the checkpoints.
        checkpoint: usize,
        /// Entries that it covers.
        size: u64,
    },
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Unknown(name) => write!(f, "{name} is no part of a log"),
            Self::Beyond(name) => write!(f, "{name} is beyond the checkpoint"),
            Self::Pruned(minimum) => write!(f, "records before {minimum} were removed"),
            Self::Cosigned(fault) => write!(f, "{COSIGNED}: {fault}"),
            Self::Witnesses { found, wanted, since } => {
                write!(f, "{found} of the witnesses have cosigned a checkpoint")?;
                if let Some(since) = since {
                    write!(f, " since {}", time_text(since.saturating_mul(1_000_000)))?;
                }
                write!(f, "; {wanted} must have")
            }
            Self::Foreign(number, fault) => write!(f, "kept checkpoint {number}: {fault}"),
            Self::CutOff { checkpoint, size } => {
                write!(f, "the newest records were cut off: kept checkpoint {checkpoint} covers {size}")
            }
            Self::Replaced { checkpoint, size } => {
                write!(f, "records before {size} were replaced: kept checkpoint {checkpoint} is of another log")
            }
        }
    }
}

impl From<ReadError> for LogFault {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// A checkpoint that covers fewer records than the log has removed: what it covers cannot be compared with the log any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldCheckpoint {
    /// Which of the checkpoints that were kept elsewhere; `None` for the one that witnesses have cosigned.
    pub kept: Option<usize>,
    /// Entries that it covers.
    pub size: u64,
    /// The first entry that the log still has.
    pub minimum: u64,
}

impl fmt::Display for OldCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kept {
            Some(number) => write!(f, "kept checkpoint {number}")?,
            None => f.write_str(COSIGNED)?,
        }
        let Self { size, minimum, .. } = self;
        write!(f, " covers {size} records, and those before {minimum} were removed: it is too old to be compared")
    }
}

/// What to verify a log against.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Checkpoints that were kept where the log's host could not change them, each a signed note.
    pub kept: Vec<Vec<u8>>,
    /// Entries from this number on must be there; if not given, those that the log says it has not pruned.
    pub minimum: Option<u64>,
    /// Keys of witnesses, of [`VerifierKey::of_witness`].
    pub witnesses: Vec<VerifierKey>,
    /// How many of the witnesses must have cosigned one checkpoint of the log.
    pub witnesses_min: usize,
    /// The time in Unix seconds since when they must have.
    pub witnessed_since: Option<u64>,
    /// Faults after which verification ends; 0: none ends it.
    pub faults_max: usize,
}

/// What a verification found.
#[derive(Debug)]
pub struct LogReport {
    /// The log's checkpoint; `None` if it is no checkpoint of the log.
    pub checkpoint: Option<Checkpoint>,
    /// How many of the witnesses have cosigned, and how many entries the checkpoint covers under which most of them have.
    pub witnessed: (usize, u64),
    /// The first entry that was verified.
    pub first: u64,
    /// Entries that were verified.
    pub entries: u64,
    /// Everything that is wrong, in the order in which it was found.
    pub faults: Vec<LogFault>,
    /// Checkpoints that are too old to say anything about the log.
    pub too_old: Vec<OldCheckpoint>,
}

/// Verifies the log in a folder. `key` is the log's, from a trustworthy place; `each` receives each entry that was verified, in order.
pub fn verify_log(
    path: &Path,
    key: &VerifierKey,
    options: &VerifyOptions,
    mut each: impl FnMut(u64, &[u8]),
) -> LogReport {
    let (faults, too_old) = (Vec::new(), Vec::new());
    let mut report = LogReport { checkpoint: None, witnessed: (0, 0), first: 0, entries: 0, faults, too_old };
    let reader = match LogReader::open(path, key) {
        Ok(reader) => reader,
        Err(error) => {
            report.faults.push(error.into());
            return report;
        }
    };
    report.checkpoint = Some(reader.checkpoint().clone());
    report.first = reader.minimum();
    let is_enough = |report: &LogReport| options.faults_max > 0 && report.faults.len() >= options.faults_max;
    if options.minimum.is_some_and(|minimum| reader.minimum() > minimum) {
        report.faults.push(LogFault::Pruned(reader.minimum()));
    }
    for (number, note) in options.kept.iter().enumerate() {
        match compare(&reader, key, number, note) {
            Ok(KeptSize::Covered) => {}
            Ok(KeptSize::TooOld(size)) => {
                report.too_old.push(OldCheckpoint { kept: Some(number), size, minimum: reader.minimum() });
            }
            Err(fault) => report.faults.push(fault),
        }
    }
    report.witnessed = witnessed(&reader, key, options, &mut report);
    let bundles = reader.minimum() >> ROW_BITS..reader.size().div_ceil(ROW_WIDTH as u64);
    for bundle in bundles {
        match reader.bundle_of((bundle << ROW_BITS).max(reader.minimum())) {
            Ok((start, entries)) => {
                let first = reader.minimum().saturating_sub(start) as usize;
                for (index, entry) in (start..).zip(&entries).skip(first) {
                    each(index, entry);
                    report.entries += 1;
                }
            }
            // The log may have pruned it meanwhile.
            Err(_) if is_pruned(&reader, key, (bundle + 1) << ROW_BITS) => {}
            Err(error) => report.faults.push(error.into()),
        }
        if is_enough(&report) {
            return report;
        }
    }
    match reader.folder().files() {
        Ok(files) => {
            // The files may be of a checkpoint that was written since: of the next reader, all that it does not know are beyond.
            let newest = covering(LogReader::open(path, key).unwrap_or(reader), path, key, &files);
            report.faults.extend(files.iter().filter_map(|name| file_fault(&newest, key, name)));
            if !files.iter().any(|name| name == KEY) {
                report.faults.push(LogFault::Read(ReadError::Missing(KEY.to_owned())));
            }
        }
        Err(fault) => report.faults.push(LogFault::Read(ReadError::Io { name: path.display().to_string(), fault })),
    }
    report
}

/// A reader of a checkpoint that covers all of these files, if a writer is about to write one: it has the files for a moment before.
fn covering(mut reader: LogReader, path: &Path, key: &VerifierKey, files: &[String]) -> LogReader {
    for _ in 0..LOOKS_MAX {
        let is_beyond = |name: &String| matches!(file_fault(&reader, key, name), Some(LogFault::Beyond(_)));
        if !files.iter().any(is_beyond) || !reader.folder().is_being_written() {
            break;
        }
        std::thread::sleep(LOOK_INTERVAL);
        reader = LogReader::open(path, key).unwrap_or(reader);
    }
    reader
}

/// Whether the newest statement of the log says that everything before `end` was pruned.
fn is_pruned(reader: &LogReader, key: &VerifierKey, end: u64) -> bool {
    statement(reader.folder(), key).is_ok_and(|statement| statement.is_some_and(|statement| end <= statement.minimum))
}

/// How many witnesses have cosigned the newest checkpoint or the one before that they were asked for, and how many entries that covers.
fn witnessed(reader: &LogReader, key: &VerifierKey, options: &VerifyOptions, report: &mut LogReport) -> (usize, u64) {
    let mut notes = vec![reader.note().as_bytes().to_vec()];
    match reader.folder().read(COSIGNED) {
        // Also without a witness's key: the log has signed it.
        Ok(Some(note)) => match compare(reader, key, 0, &note) {
            Ok(KeptSize::Covered) => notes.push(note),
            Ok(KeptSize::TooOld(size)) => {
                report.too_old.push(OldCheckpoint { kept: None, size, minimum: reader.minimum() });
            }
            Err(fault) => report.faults.push(LogFault::Cosigned(Box::new(fault))),
        },
        Ok(None) => {}
        Err(fault) => report.faults.push(LogFault::Read(ReadError::Io { name: COSIGNED.to_owned(), fault })),
    }
    let since = options.witnessed_since.unwrap_or(0);
    let count = |note: &Vec<u8>| {
        let size = Checkpoint::open(note, key).ok()?.size;
        let parsed = Note::parse(note).ok()?;
        let has_signed = |witness: &&VerifierKey| parsed.cosigned_at(witness).is_ok_and(|time| time >= since);
        Some((options.witnesses.iter().filter(has_signed).count(), size))
    };
    let (found, size) = notes.iter().filter_map(count).max().unwrap_or((0, 0));
    if found < options.witnesses_min {
        let (wanted, since) = (options.witnesses_min, options.witnessed_since);
        report.faults.push(LogFault::Witnesses { found, wanted, since });
    }
    (found, size)
}

/// What a checkpoint that was kept elsewhere says about a log that does not contradict it.
enum KeptSize {
    /// The log has what it covers.
    Covered,
    /// The log has removed more than the entries that it covers.
    TooOld(u64),
}

/// Compares a log with a checkpoint that was kept elsewhere.
fn compare(reader: &LogReader, key: &VerifierKey, number: usize, note: &[u8]) -> Result<KeptSize, LogFault> {
    let kept = Checkpoint::open(note, key).map_err(|fault| LogFault::Foreign(number, fault))?;
    let size = kept.size;
    if size > reader.size() {
        return Err(LogFault::CutOff { checkpoint: number, size });
    }
    match reader.root(0, size) {
        Ok(root) if root == kept.root => Ok(KeptSize::Covered),
        Ok(_) => Err(LogFault::Replaced { checkpoint: number, size }),
        // What is left of the entries before the minimum is their root, and that of some tiles.
        Err(ReadError::Missing(_)) if size < reader.minimum() => Ok(KeptSize::TooOld(size)),
        Err(error) => Err(error.into()),
    }
}

/// What is wrong with a file that lies in the folder, beyond what reading all entries has shown.
fn file_fault(reader: &LogReader, key: &VerifierKey, name: &str) -> Option<LogFault> {
    let is_journal = name.strip_prefix(JOURNAL).is_some_and(|rest| rest.starts_with('/'));
    if [CARRIED, CHECKPOINT, COSIGNED, LOCK, MINIMUM, STORED].contains(&name) || is_journal {
        return None;
    }
    if name == KEY {
        let text = reader.folder().read(KEY).ok().flatten();
        let is_same = text.is_some_and(|text| text == format!("{}\n", key.to_text()).as_bytes());
        return (!is_same).then(|| LogFault::Read(ReadError::Changed(name.to_owned())));
    }
    let Some(tile) = TileName::parse(name) else { return Some(LogFault::Unknown(name.to_owned())) };
    let level = match tile.kind {
        TileKind::Entries => 0,
        TileKind::Level(level) => u32::from(level),
    };
    if tile.end().is_none_or(|end| end > reader.size()) {
        return Some(LogFault::Beyond(name.to_owned()));
    }
    if tile.end().is_some_and(|end| end <= reader.minimum()) {
        // It is to be removed, and what would show its content may be gone.
        return None;
    }
    let content = match reader.folder().read(name) {
        Ok(Some(content)) => content,
        // The writer has replaced it by a full one.
        Ok(None) => return None,
        Err(fault) => return Some(LogFault::Read(ReadError::Io { name: name.to_owned(), fault })),
    };
    let row = match reader.row(level, tile.index) {
        Ok(row) => row,
        Err(error) => return Some(error.into()),
    };
    let expected = row[..tile.width].iter().copied();
    let is_same = match tile.kind {
        TileKind::Entries => bundle_entries(&content).map(|entry| entry.map(leaf_hash)).eq(expected.map(Some)),
        TileKind::Level(_) => content == row[..tile.width].concat(),
    };
    if is_same { None } else { Some(LogFault::Read(ReadError::Changed(name.to_owned()))) }
}
