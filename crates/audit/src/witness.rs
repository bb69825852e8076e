//! Witnesses (C2SP `tlog-witness`): who cosigns a checkpoint of another log if it continues the one before, and who asks for that.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_crypto::hash::sha256;
use thiserror::Error;

use crate::checkpoint::{Checkpoint, CheckpointFault};
use crate::folder::{FilesWriting, LogFolder, write_cosigned};
use crate::merkle::{Hashes as _, NodeHash, verify_consistency};
use crate::note::{Note, NoteFault, NoteSigner, VerifierKey};
use crate::reader::{LogReader, ReadError};

/// Most hashes of a proof.
const HASHES_MAX: usize = 63;
/// Longest body of a request that is read: a proof and a note.
pub const WITNESS_REQUEST_SIZE_MAX: usize = 16 << 10;

/// What a witness answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// HTTP's status.
    pub status: u16,
    /// HTTP's `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl WitnessAnswer {
    fn refused(status: u16, why: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    /// The client does not know what the witness has signed last.
    fn conflict(size: u64) -> Self {
        Self { status: 409, content_type: "text/x.tlog.size", body: format!("{size}\n") }
    }
}

/// A witness of some logs. One process may use a folder at a time.
#[derive(Debug)]
pub struct LogWitness {
    signer: NoteSigner,
    logs: Vec<VerifierKey>,
    folder: LogFolder,
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
    /// A witness that keeps what it has signed in a folder. `signer` is of [`NoteSigner::of_witness`], `logs` are the keys of the logs
    /// that it knows.
    pub fn new(signer: NoteSigner, logs: Vec<VerifierKey>, folder: &Path) -> Self {
        Self { signer, logs, folder: LogFolder::new(folder) }
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
        &self,
        request: &AddCheckpoint<'_>,
        log: &VerifierKey,
        checkpoint: &Checkpoint,
        unix_s: u64,
    ) -> Result<WitnessAnswer, String> {
        if request.old > checkpoint.size {
            return Ok(WitnessAnswer::refused(400, "the old size is above the checkpoint's"));
        }
        let name = state_name(log.name());
        let known = self.folder.read(&name).map_err(|fault| fault.to_string())?;
        let known = known.map(|note| Checkpoint::open(&note, log)).transpose();
        let known = known.map_err(|fault| format!("what was signed last cannot be read: {fault}"))?;
        let (size, root) = known.map_or((0, sha256(&[])), |known| (known.size, known.root));
        if request.old != size {
            return Ok(WitnessAnswer::conflict(size));
        }
        if size == checkpoint.size && root != checkpoint.root {
            return Ok(WitnessAnswer::conflict(size));
        }
        if !verify_consistency(size, &root, checkpoint.size, &checkpoint.root, &request.proof) {
            return Ok(WitnessAnswer::refused(422, "the proof does not lead from the last checkpoint to this one"));
        }
        let parsed = Note::parse(request.note.as_bytes()).map_err(|fault| fault.to_string())?;
        let mut writing = FilesWriting::begin(&self.folder).map_err(|fault| fault.to_string())?;
        writing
            .write(&name, request.note.as_bytes())
            .and_then(|()| writing.finish())
            .map_err(|fault| fault.to_string())?;
        let body = self.signer.cosign(parsed.text, unix_s);
        Ok(WitnessAnswer { status: 200, content_type: "text/plain; charset=utf-8", body })
    }
}

/// The file of a log that a witness knows: origins are no names of files.
fn state_name(origin: &str) -> String {
    let hash = sha256(&[origin.as_bytes()]);
    let hex = hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    format!("log/{hex}")
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

/// Writes a log's checkpoint with the cosignatures of witnesses beside the newest checkpoint, which may be one later.
///
/// # Errors
/// When the disk refuses.
pub fn write_cosigned_checkpoint(reader: &LogReader, cosignatures: &[String]) -> std::io::Result<()> {
    write_cosigned(reader.folder(), &(reader.note().to_owned() + &cosignatures.concat()))
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
