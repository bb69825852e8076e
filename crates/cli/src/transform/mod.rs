//! The common part of `encrypt`, `decrypt` and `rewrap`: a job, and two backends that run it, the local store and a running engine.

mod lines;
mod local;
mod remote;
mod report;

pub(crate) use lines::transform_lines;
pub(crate) use local::Local;
pub(crate) use remote::{Connection, Remote, client_settings, connect, curve_on_the_wire, keying_on_the_wire};
pub(crate) use report::Report;

use leafseal_engine::{BYTE_ORDER_MARK, Curve, Keying, OnFailure};

use crate::failure::Outcome;
use crate::input::Block;
use crate::progress::Progress;

/// The operation on each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Values to envelopes.
    Encrypt,
    /// Envelopes to values.
    Decrypt,
    /// Envelopes to envelopes of the newest key version.
    Rewrap,
}

impl Operation {
    /// The past participle of the operation.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypted",
            Self::Decrypt => "decrypted",
            Self::Rewrap => "rewrapped",
        }
    }
}

/// The operation, the app and the options.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The operation.
    pub operation: Operation,
    /// The app.
    pub app: String,
    /// JSONPath selectors; empty selects everything.
    pub select: Vec<String>,
    /// The curve, if specified.
    pub curve: Option<Curve>,
    /// The keying, if specified.
    pub keying: Option<Keying>,
    /// The data role.
    pub role: Option<String>,
    /// Whether envelopes that decrypt are skipped instead of encrypted again.
    pub skip_sealed: bool,
    /// The action for envelopes that fail to decrypt.
    pub on_failure: OnFailure,
}

/// Runs a job.
pub(crate) trait Backend: Sync {
    /// Transforms a document; returns the result and its report.
    fn document(&self, document: Vec<u8>, progress: &Progress) -> Outcome<(Vec<u8>, Report)>;

    /// Transforms each line that is not blank as a document and appends all to `out`, with their line breaks; returns the combined report.
    ///
    /// A failure names its line; `out` then contains the lines before it.
    fn lines(&self, block: &Block, out: &mut Vec<u8>) -> Outcome<Report>;

    /// Transforms a file as a whole.
    fn file(&self, content: Vec<u8>) -> Outcome<Vec<u8>>;
}

/// Whether a line is blank, or has only a byte order mark.
fn is_blank(line: &[u8]) -> bool {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).iter().all(u8::is_ascii_whitespace)
}
