//! The audit log: records in an append-only log in files, as C2SP `tlog-tiles` with signed checkpoints, so that no record can be changed,
//! removed, added or moved unnoticed.
//!
//! `merkle` hashes (RFC 6962), `tile` and `note` are the formats of C2SP, `journal` makes records durable before anything is signed, `log`
//! is the one writer of a folder, `recorder` the thread that many others give records to, `reader` finds records, and `verify` checks all
//! of a log.

mod checkpoint;
mod folder;
mod journal;
mod log;
mod merkle;
mod note;
mod reader;
mod recorder;
mod text;
mod tile;
mod time;
mod verify;

pub use checkpoint::{Checkpoint, CheckpointFault};
pub use log::{AuditLog, LogError, LogRules, Recovery};
pub use merkle::{Hashes, MerkleTree, NodeHash, leaf_hash, verify_consistency, verify_inclusion};
pub use note::{NoteFault, NoteSigner, VerifierKey};
pub use reader::{LogReader, ReadError};
pub use recorder::{Clock, Durability, RECORD_SIZE_MAX, RecordRefusal, RecordTicket, Recorder, RecorderRules};
pub use text::RecordText;
pub use time::record_time;
pub use verify::{LogFault, LogReport, VerifyOptions, verify_log};
