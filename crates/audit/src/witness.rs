//! Witnesses (C2SP `tlog-witness`): who cosigns a checkpoint of another log if it continues the one before, and who asks for that.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_crypto::hash::sha256;
use thiserror::Error;

use crate::checkpoint::{Checkpoint, CheckpointFault};
use crate::folder::{COSIGNED, FilesWriting, LogFolder, sync_folder, write_cosigned};
use crate::merkle::{Hashes as _, NodeHash, verify_consistency};
use crate::note::{Note, NoteFault, NoteSigner, VerifierKey};
use crate::reader::{LogReader, ReadError};

/// Most hashes of a proof.
const HASHES_MAX: usize = 63;
/// Longest body of a request that is read: a proof and a note.
pub const WITNESS_REQUEST_SIZE_MAX: usize = 16 << 10;

/// New checkpoints of one log that a witness signs in a second, in the long run.
const WRITES_PER_SECOND: f64 = 1.0;
/// How many it signs at once, after a pause.
const WRITES_MAX: f64 = 60.0;

/// What a witness answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// HTTP's status.
    pub status: u16,
    /// HTTP's `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
    /// That the log's key has signed two histories, with words for people. The witness keeps both checkpoints.
    pub fork: Option<String>,
}

impl WitnessAnswer {
    /// An answer in words.
    pub fn refused(status: u16, why: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n"), fork: None }
    }

    /// The client does not know what the witness has signed last.
    fn conflict(size: u64) -> Self {
        Self { status: 409, content_type: "text/x.tlog.size", body: format!("{size}\n"), fork: None }
    }
}

/// How many new checkpoints of a log a witness writes: each costs its disk a flush.
#[derive(Debug, Clone, Copy)]
struct WriteBudget {
    left: f64,
    at: Instant,
}

impl WriteBudget {
    fn new(now: Instant) -> Self {
        Self { left: WRITES_MAX, at: now }
    }

    /// Takes one, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let more = now.saturating_duration_since(self.at).as_secs_f64() * WRITES_PER_SECOND;
        *self = Self { left: (self.left + more).min(WRITES_MAX), at: now };
        let has_one = self.left >= 1.0;
        self.left -= f64::from(u8::from(has_one));
        has_one
    }
}

/// A witness of some logs. One process may use a folder at a time.
#[derive(Debug)]
pub struct LogWitness {
    signer: NoteSigner,
    logs: Vec<VerifierKey>,
    folder: LogFolder,
    /// By origin.
    budgets: HashMap<String, WriteBudget>,
}

/// A request in its parts.
struct AddCheckpoint<'r> {
    old: u64,
    proof: Vec<NodeHash>,
    note: &'r str,
}

impl<'r> AddCheckpoint<'r> {
    fn parse(body: &'r [u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= WITNESS_REQUEST_SIZE_MAX)?;
        let (head, note) = text.split_once("\n\n")?;
        let mut lines = head.split('\n');
        let number = lines.next()?.strip_prefix("old ")?;
        let old: u64 = number.parse().ok().filter(|old: &u64| old.to_string() == number)?;
        let hash = |line| STANDARD.decode(line).ok()?.try_into().ok();
        let proof: Vec<NodeHash> = lines.map(hash).collect::<Option<_>>()?;
        (proof.len() <= HASHES_MAX).then_some(Self { old, proof, note })
    }
}

impl LogWitness {
    /// A witness that keeps what it has signed in a folder, which is made. `signer` is of [`NoteSigner::of_witness`], `logs` are the keys
    /// of the logs that it knows.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn open(signer: NoteSigner, logs: Vec<VerifierKey>, folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        // Its name, and that of the folder around it, must outlive the machine: a witness without memory signs any history.
        folder.ancestors().skip(1).take(2).filter(|folder| folder.is_dir()).try_for_each(sync_folder)?;
        Ok(Self { signer, logs, folder: LogFolder::new(folder), budgets: HashMap::new() })
    }

    /// Its public key.
    pub fn public(&self) -> &VerifierKey {
        self.signer.public()
    }

    /// Answers `add-checkpoint` at a time in seconds. What it signs is durable before. Errors of its disk are answered with 500.
    pub fn add_checkpoint(&mut self, body: &[u8], unix_s: u64) -> WitnessAnswer {
        let Some(request) = AddCheckpoint::parse(body) else {
            return WitnessAnswer::refused(400, "not a request: it must be an old size, a proof, and a checkpoint");
        };
        let origin = request.note.split('\n').next().unwrap_or_default();
        let Some(log) = self.logs.iter().find(|log| log.name() == origin).cloned() else {
            return WitnessAnswer::refused(404, "this log is not known");
        };
        let checkpoint = match Checkpoint::open(request.note.as_bytes(), &log) {
            Ok(checkpoint) => checkpoint,
            Err(CheckpointFault::Note(NoteFault::Unsigned | NoteFault::Signature)) => {
                return WitnessAnswer::refused(403, "not signed by the log's key");
            }
            Err(fault) => return WitnessAnswer::refused(400, &fault.to_string()),
        };
        match self.cosign(&request, &log, &checkpoint, unix_s) {
            Ok(answer) => answer,
            Err(fault) => WitnessAnswer::refused(500, &fault),
        }
    }

    fn cosign(
        &mut self,
        request: &AddCheckpoint<'_>,
        log: &VerifierKey,
        checkpoint: &Checkpoint,
        unix_s: u64,
    ) -> Result<WitnessAnswer, String> {
        if request.old > checkpoint.size {
            return Ok(WitnessAnswer::refused(400, "the old size is above the checkpoint's"));
        }
        let name = state_name("log", log.name());
        let known = self.folder.read(&name).map_err(|fault| fault.to_string())?;
        let known = known.map(|note| Checkpoint::open(&note, log)).transpose();
        let known = known.map_err(|fault| format!("what was signed last cannot be read: {fault}"))?;
        let (size, root) = known.map_or((0, sha256(&[])), |known| (known.size, known.root));
        if size == checkpoint.size && root != checkpoint.root {
            self.keep_fork(log, request.note).map_err(|fault| fault.to_string())?;
            let fork = format!("{} has signed two histories with {size} records", log.name());
            return Ok(WitnessAnswer { fork: Some(fork), ..WitnessAnswer::conflict(size) });
        }
        if request.old != size {
            return Ok(WitnessAnswer::conflict(size));
        }
        if !verify_consistency(size, &root, checkpoint.size, &checkpoint.root, &request.proof) {
            return Ok(WitnessAnswer::refused(422, "the proof does not lead from the last checkpoint to this one"));
        }
        let parsed = Note::parse(request.note.as_bytes()).map_err(|fault| fault.to_string())?;
        // One that is signed already needs no write: strangers can repeat it as often as they like.
        if size != checkpoint.size {
            let now = Instant::now();
            let budget = self.budgets.entry(log.name().to_owned()).or_insert_with(|| WriteBudget::new(now));
            if !budget.take(now) {
                return Ok(WitnessAnswer::refused(429, "too many checkpoints of this log: ask less often"));
            }
            self.write(&name, request.note).map_err(|fault| fault.to_string())?;
        }
        let body = self.signer.cosign(parsed.text, unix_s);
        Ok(WitnessAnswer { status: 200, content_type: "text/plain; charset=utf-8", body, fork: None })
    }

    fn write(&self, name: &str, note: &str) -> io::Result<()> {
        let mut writing = FilesWriting::begin(&self.folder)?;
        writing.write(name, note.as_bytes())?;
        writing.finish()
    }

    /// Keeps the first checkpoint that contradicts the one that was signed: with it, it proves that the log's key has signed both.
    fn keep_fork(&self, log: &VerifierKey, note: &str) -> io::Result<()> {
        let name = state_name("fork", log.name());
        if self.folder.read(&name)?.is_some() { Ok(()) } else { self.write(&name, note) }
    }
}

/// The file of a log that a witness knows: origins are no names of files.
fn state_name(folder: &str, origin: &str) -> String {
    let hash = sha256(&[origin.as_bytes()]);
    let hex = hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    format!("{folder}/{hex}")
}

/// Why a witness has not signed.
#[derive(Debug, Error)]
pub enum WitnessFault {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It has signed another size of this log than was thought, and this one is to be tried.
    #[error("it has signed {0} records of the log")]
    Conflict(u64),
    /// It has signed more than the log has now: the log was cut off, or is another one.
    #[error("it has signed {0} records of the log, which has fewer now: the newest were cut off")]
    Ahead(u64),
    /// It has refused.
    #[error("it has refused: {status} {why}")]
    Refused {
        /// HTTP's status.
        status: u16,
        /// Its words, cut.
        why: String,
    },
    /// Its answer is no cosignature of its key.
    #[error("its answer is no cosignature: {0}")]
    Cosignature(NoteFault),
}

/// A checkpoint for which a witness is asked.
#[derive(Debug, Clone)]
pub struct WitnessRequest {
    /// The body of `add-checkpoint`.
    pub body: String,
    text: String,
    size: u64,
}

impl WitnessRequest {
    /// Asks for a cosignature of a log's checkpoint from a witness that has signed `old` records last.
    ///
    /// # Errors
    /// [`WitnessFault::Ahead`], [`WitnessFault::Read`].
    pub fn new(reader: &LogReader, old: u64) -> Result<Self, WitnessFault> {
        let checkpoint = reader.checkpoint();
        if old > checkpoint.size {
            return Err(WitnessFault::Ahead(old));
        }
        let mut body = format!("old {old}\n");
        for hash in reader.consistency(old, checkpoint.size)? {
            let _ = writeln!(body, "{}", STANDARD.encode(hash));
        }
        let text = checkpoint.text();
        // Other signatures are of no interest to it.
        let signature = reader.note().split_once("\n\n").and_then(|(_, lines)| lines.lines().next());
        let _ = write!(body, "\n{text}\n{}\n", signature.unwrap_or_default());
        Ok(Self { body, text, size: checkpoint.size })
    }

    /// The cosignature of an answer: a line to be added to the checkpoint.
    ///
    /// # Errors
    /// [`WitnessFault`].
    pub fn cosignature(&self, witness: &VerifierKey, status: u16, body: &[u8]) -> Result<String, WitnessFault> {
        let text = String::from_utf8_lossy(body);
        match status {
            200 => {
                let note = format!("{}\n{text}", self.text);
                let parsed = Note::parse(note.as_bytes()).map_err(WitnessFault::Cosignature)?;
                parsed.line_of(witness).map_err(WitnessFault::Cosignature)
            }
            409 => match text.trim_end().parse() {
                Ok(size) if size > self.size => Err(WitnessFault::Ahead(size)),
                Ok(size) => Err(WitnessFault::Conflict(size)),
                Err(_) => Err(WitnessFault::Refused { status, why: shortened(&text) }),
            },
            _ => Err(WitnessFault::Refused { status, why: shortened(&text) }),
        }
    }
}

/// Writes a log's checkpoint with the cosignatures of witnesses beside the newest checkpoint, which may be one later, if at least `min`
/// have cosigned it. Those that others of the witnesses have given for the same checkpoint before stay. Returns how many have.
///
/// # Errors
/// When the disk refuses.
pub fn write_cosigned_checkpoint(
    reader: &LogReader,
    cosignatures: &[String],
    witnesses: &[VerifierKey],
    min: usize,
) -> io::Result<usize> {
    let mut lines = cosignatures.to_vec();
    let before = reader.folder().read(COSIGNED)?.unwrap_or_default();
    let text = reader.checkpoint().text();
    if let Some(before) = Note::parse(&before).ok().filter(|before| before.text == text) {
        let new = format!("{text}\n{}", lines.concat());
        let new = Note::parse(new.as_bytes()).ok();
        let is_new = |witness: &&VerifierKey| new.is_none_or(|new| new.line_of(witness).is_err());
        let earlier: Vec<_> =
            witnesses.iter().filter(is_new).filter_map(|witness| before.line_of(witness).ok()).collect();
        lines.extend(earlier);
    }
    if lines.len() >= min.max(1) && !cosignatures.is_empty() {
        write_cosigned(reader.folder(), &(reader.note().to_owned() + &lines.concat()))?;
    }
    Ok(lines.len())
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_log_has_so_many_writes_and_no_more() {
        let start = Instant::now();
        let mut budget = WriteBudget::new(start);
        let mut take = |now: Instant, attempts: u32| (0..attempts).filter(|_| budget.take(now)).count();
        assert_eq!(take(start, 1000), 60);
        assert_eq!(take(start + Duration::from_millis(10_500), 1000), 10);
        assert_eq!(take(start + Duration::from_secs(11), 1000), 1);
        assert_eq!(take(start + Duration::from_secs(86_400), 1000), 60);
    }
}
