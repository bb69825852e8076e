//! The work of the HTTPS API's calls as requests: a body is used in place, and the answer is written to the outgoing buffer. The engine
//! checks the caller's permission when the work begins, whatever the network side has checked.

mod document;
mod file;
mod inspect;
mod keys;
mod token;

use std::sync::{Arc, OnceLock};

use leafseal_engine::{Caller, Curve, DecryptOptions, EncryptOptions, Engine, Keying, OnFailure, Report};
use leafseal_protocol::{ErrorCode, ErrorObject};
use serde_json::Value;

use crate::rpc::parts::OwnsDocument;

pub use document::{decrypt_document, encrypt_document};
pub use file::{decrypt_file, encrypt_file};
pub use inspect::{envelope_of, inspect};
pub use keys::public_keys;
pub use token::{Expiry, expiry, issue_token};

/// The caller and the parameters of a call.
pub struct CallInput {
    /// The engine that does the work.
    pub engine: Engine,
    /// Whose permission is checked.
    pub caller: Caller,
    /// The app whose keys are used.
    pub app: String,
    /// The options of the call's query.
    pub options: CallOptions,
    /// The whole body.
    pub body: Vec<u8>,
    /// Whether the body is JSON Lines: a document on each line.
    pub is_lines: bool,
    /// Where the report goes.
    pub report: ReportSlot,
}

/// The options of encryption and decryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// The data role: written on encryption, required on decryption.
    pub role: Option<String>,
    /// The curve of the recipient's key, if not the configured one.
    pub curve: Option<Curve>,
    /// How many values share a data key, if not as configured.
    pub keying: Option<Keying>,
    /// JSONPath selectors, in their order; empty selects everything.
    pub select: Vec<String>,
    /// Whether a selector that matches nothing is an error.
    pub strict: Option<bool>,
    /// Whether values that are encrypted already stay as they are.
    pub skip_sealed: Option<bool>,
    /// What becomes of envelopes that fail to decrypt.
    pub on_failure: Option<OnFailure>,
}

/// The report about a finished call.
#[derive(Debug, Default)]
pub struct CallReport {
    /// The number of encrypted or decrypted values.
    pub count: u64,
    /// Matches of selectors, skipped values and failures.
    pub report: Report,
    /// Whether the call has an action for envelopes that fail to decrypt.
    pub reports_failures: bool,
}

/// The place where the work stores its report for the answer.
pub type ReportSlot = Arc<OnceLock<CallReport>>;

impl CallInput {
    fn encrypt_options(&self) -> EncryptOptions<'_> {
        let CallOptions { role, curve, keying, skip_sealed, .. } = &self.options;
        let skip_sealed = skip_sealed.unwrap_or(false);
        EncryptOptions { app: &self.app, curve: *curve, keying: *keying, role: role.as_deref(), skip_sealed }
    }

    fn decrypt_options(&self) -> DecryptOptions<'_> {
        let on_failure = self.options.on_failure.unwrap_or_default();
        DecryptOptions { app: &self.app, role: self.options.role.as_deref(), on_failure }
    }
}

impl OwnsDocument for CallInput {
    fn document(&self) -> &[u8] {
        &self.body
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a buffer takes everything");
}

fn invalid(message: &str) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, message)
}
