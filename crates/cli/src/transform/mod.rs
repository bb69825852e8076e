//! The common part of `encrypt`, `decrypt` and `rewrap`: a job, and two backends that run it, the local store and a running engine.

mod lines;
mod local;
mod remote;
mod report;

pub(crate) use lines::transform_lines;
pub(crate) use local::Local;
pub(crate) use remote::{Remote, RemoteEngine, client_settings, connect, curve_on_the_wire, keying_on_the_wire};
pub(crate) use report::TransformReport;

use leafseal_client::{DecryptOptions, EncryptOptions, OtherCase, OwnedOptions, RewrapOptions};
use leafseal_engine::BYTE_ORDER_MARK;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::LineBlock;
use crate::progress::TerminalProgress;

/// The operation on each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueOperation {
    /// Values to envelopes.
    Encrypt,
    /// Envelopes to values.
    Decrypt,
    /// Envelopes to envelopes of the newest key version.
    Rewrap,
}

impl ValueOperation {
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
pub(crate) struct TransformJob {
    /// The operation.
    pub operation: ValueOperation,
    /// The app.
    pub app: String,
    /// JSONPath selectors; empty selects everything.
    pub select: Vec<String>,
    /// The options of the protocol that are set.
    pub options: OwnedOptions,
    /// Whether each selector must match something, in each line where the input is lines.
    pub strict: bool,
}

impl TransformJob {
    pub(crate) fn encrypt_options(&self) -> EncryptOptions<'_> {
        EncryptOptions::of(&self.app, &self.options)
    }

    pub(crate) fn decrypt_options(&self) -> DecryptOptions<'_> {
        DecryptOptions::of(&self.app, &self.options)
    }

    pub(crate) fn rewrap_options(&self) -> RewrapOptions<'_> {
        RewrapOptions::of(&self.app, &self.options)
    }

    /// The action for names that differ from those of selectors and contexts only in case: every operation has that option.
    pub(crate) fn other_case(&self) -> Option<OtherCase> {
        self.encrypt_options().other_case
    }

    /// Fails if the job is strict and a selector matched nothing in the document of this report; call it before the output is put in
    /// place.
    pub(crate) fn check(&self, report: &TransformReport) -> CommandOutcome {
        let unmatched = report.unmatched(&self.select);
        if !self.strict || unmatched.is_empty() {
            return Ok(());
        }
        let message = unmatched.iter().map(|selector| no_match(selector)).collect::<Vec<_>>().join("; ");
        Err(CommandFailure::failed(message).advise("correct the selector, or omit --strict (input.strict)"))
    }
}

/// The report of a selector without a match.
pub(crate) fn no_match(selector: &str) -> String {
    format!("the selector {selector} matched no value")
}

/// Runs a job.
pub(crate) trait TransformBackend: Sync {
    /// Transforms a document; returns the result and its report.
    fn document(&self, document: Vec<u8>, progress: &TerminalProgress) -> CommandOutcome<(Vec<u8>, TransformReport)>;

    /// Transforms each line that is not blank as a document and appends all to `out`, with their line breaks; returns the combined report.
    ///
    /// A failure names its line, also that of a line in which a strict job finds nothing; `out` then contains the lines before it.
    fn lines(&self, block: &LineBlock, out: &mut Vec<u8>) -> CommandOutcome<TransformReport>;

    /// Transforms a file as a whole.
    fn file(&self, content: Vec<u8>) -> CommandOutcome<Vec<u8>>;
}

/// Whether a line is blank, or has only a byte order mark.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).iter().all(u8::is_ascii_whitespace)
}
