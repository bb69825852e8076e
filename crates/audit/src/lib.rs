//! The audit log: records in an append-only log in files, as C2SP `tlog-tiles` with signed checkpoints, so that no record can be changed,
//! removed, added or moved unnoticed.
//!
//! `merkle` hashes (RFC 6962), `tile` and `note` are the formats of C2SP, `journal` makes records durable before anything is signed.
//! `durable` says where that is: in the folder, or as `frames` in a store elsewhere, from which `stored` writes the folder again. `log` is
//! the one writer of a folder: its half `appender` makes records durable, its half `publisher` writes tiles and checkpoints. `recorder` is
//! what many threads give records to, `rings` hold these until `writing` takes them, on a thread of its own, and `publishing` is the thread
//! that publishes them. `reader` finds records, `verify` checks all of a log, `pruning` and `retention` remove what is old. `export` has
//! records in the forms of others, `proof` proofs of one record, `witness` the cosignatures of other logs, `sink` and `cursor` what goes to
//! others while the log grows.

mod appender;
mod change_export;
mod checkpoint;
mod cursor;
mod cursor_key;
mod durable;
mod error;
mod export;
mod figures;
mod folder;
mod frames;
mod journal;
mod log;
mod merkle;
mod note;
mod proof;
mod pruning;
mod publisher;
mod publishing;
mod reader;
mod recorder;
mod recorder_state;
mod retention;
mod rings;
mod sink;
mod sleep;
mod stored;
mod text;
mod tile;
mod time;
mod verify;
mod witness;
mod writing;

pub use appender::{LogRules, Recovery};
pub use checkpoint::{Checkpoint, CheckpointFault};
pub use cursor::{LogCursor, RecordBatch};
pub use cursor_key::CursorKey;
pub use error::{FrameFault, LogError};
pub use export::{ExportFormat, export_record};
pub use figures::RecorderFigures;
pub use folder::CARRIED;
pub use frames::{FrameStore, StoredFrame, StoredFrames};
pub use log::AuditLog;
pub use merkle::{Hashes, MerkleTree, NodeHash, leaf_hash, verify_consistency, verify_inclusion};
pub use note::{NoteFault, NoteSigner, VerifierKey};
pub use proof::{ProofFault, ProvedRecord, prove_record, verify_proof};
pub use reader::{LogReader, ReadError};
pub use recorder::Recorder;
pub use recorder_state::{Clock, RecorderRules};
pub use rings::{Durability, RECORD_SIZE_MAX, RecordRefusal, RecordTicket};
pub use sink::{SinkTarget, SinkTransport, SinkUrl, WitnessTarget, webhook_signature};
pub use text::{RecordText, printable};
pub use time::{record_time, time_of_record, unix_time_text};
pub use verify::{LogFault, LogReport, OldCheckpoint, VerifyOptions, verify_log};
pub use witness::{
    LogWitness, WITNESS_REQUEST_SIZE_MAX, WitnessAnswer, WitnessFault, WitnessRequest, write_cosigned_checkpoint,
};
