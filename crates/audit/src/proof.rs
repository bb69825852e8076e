//! Proofs that one record is in a log, which need neither the log nor its host (C2SP `tlog-proof`).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::checkpoint::{Checkpoint, CheckpointFault};
use crate::merkle::{Hashes as _, NodeHash, leaf_hash, verify_inclusion};
use crate::note::VerifierKey;
use crate::reader::{LogReader, ReadError};

const TITLE: &str = "c2sp.org/tlog-proof@v1";
/// A tree of 2^64 entries has no longer proof.
const HASHES_MAX: usize = 64;

/// Why a text does not prove a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProofFault {
    /// Not a proof.
    #[error("not a proof: it must begin with {TITLE:?}, and have the record in base64 as \"extra\"")]
    Malformed,
    /// The checkpoint is none of this log.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFault),
    /// The record is not in the tree of the checkpoint.
    #[error("the record is not in the log: the proof does not lead to the checkpoint's root")]
    NotIncluded,
}

/// A record that a proof has shown to be in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvedRecord {
    /// Its number.
    pub index: u64,
    /// The record.
    pub record: Vec<u8>,
    /// The checkpoint that covers it.
    pub checkpoint: Checkpoint,
}

/// The proof that an entry is in a log, with the entry as its extra data.
///
/// # Errors
/// [`ReadError`].
pub fn prove_record(reader: &LogReader, index: u64) -> Result<String, ReadError> {
    let (start, entries) = reader.bundle_of(index)?;
    let record = STANDARD.encode(&entries[(index - start) as usize]);
    let mut text = format!("{TITLE}\nextra {record}\nindex {index}\n");
    for hash in reader.inclusion(index, reader.size())? {
        let _ = writeln!(text, "{}", STANDARD.encode(hash));
    }
    Ok(text + "\n" + reader.note())
}

/// Checks a proof of [`prove_record`]; `key` is the log's, from a trustworthy place.
///
/// # Errors
/// [`ProofFault`].
pub fn verify_proof(text: &str, key: &VerifierKey) -> Result<ProvedRecord, ProofFault> {
    let (head, note) = text.split_once("\n\n").ok_or(ProofFault::Malformed)?;
    let mut lines = head.lines();
    let mut field = |name: &str| lines.next().and_then(|line| line.strip_prefix(name)).ok_or(ProofFault::Malformed);
    field(TITLE).and_then(|rest| if rest.is_empty() { Ok(()) } else { Err(ProofFault::Malformed) })?;
    let record = STANDARD.decode(field("extra ")?).map_err(|_| ProofFault::Malformed)?;
    let number = field("index ")?;
    let index: u64 = number.parse().map_err(|_| ProofFault::Malformed)?;
    let hash = |line| STANDARD.decode(line).ok().and_then(|hash| hash.try_into().ok());
    let hashes: Option<Vec<NodeHash>> = lines.map(hash).collect();
    let hashes = hashes.filter(|hashes| hashes.len() <= HASHES_MAX && index.to_string() == number);
    let hashes = hashes.ok_or(ProofFault::Malformed)?;
    let checkpoint = Checkpoint::open(note.as_bytes(), key)?;
    if verify_inclusion(&leaf_hash(&record), index, checkpoint.size, &checkpoint.root, &hashes) {
        Ok(ProvedRecord { index, record, checkpoint })
    } else {
        Err(ProofFault::NotIncluded)
    }
}
