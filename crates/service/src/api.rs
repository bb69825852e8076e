//! The work of the HTTPS API's calls as requests: a body is used in place, and the answer is written to the outgoing buffer. The engine
//! checks the caller's permission when the work begins, whatever the network side has checked.

mod document;
mod file;
mod inspect;
mod keys;
mod token;

use std::sync::{Arc, OnceLock};

use leafseal_engine::{Caller, CaseFold, DecryptOptions, EncryptOptions, Engine, RequestReport};
use leafseal_protocol::{self as wire, ErrorCode, ErrorObject, OwnedOptions};
use serde_json::Value;

use crate::rpc::convert;
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
    /// The caller whose permission is checked.
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
    /// JSONPath selectors, in their order; empty selects everything.
    pub select: Vec<String>,
    /// Options that the protocol has, too.
    pub given: OwnedOptions,
}

/// The report about a finished call.
#[derive(Debug, Default)]
pub struct CallReport {
    /// The number of encrypted or decrypted values.
    pub count: u64,
    /// Matches of selectors, skipped values and failures.
    pub report: RequestReport,
    /// Whether the call has an action for envelopes that fail to decrypt.
    pub reports_failures: bool,
}

/// The place where the work stores its report for the answer.
pub type ReportSlot = Arc<OnceLock<CallReport>>;

impl CallInput {
    fn encrypt_options(&self) -> EncryptOptions<'_> {
        convert::encrypt_options(&wire::EncryptOptions::of(&self.app, &self.options.given))
    }

    fn decrypt_options(&self) -> DecryptOptions<'_> {
        convert::decrypt_options(&wire::DecryptOptions::of(&self.app, &self.options.given))
    }

    /// The action for names that differ from those of selectors and contexts only in case.
    fn other_case(&self) -> CaseFold {
        convert::other_case(wire::EncryptOptions::of(&self.app, &self.options.given).other_case)
    }

    /// Whether every selector must match something.
    fn is_strict(&self) -> bool {
        wire::EncryptOptions::of(&self.app, &self.options.given).strict
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
