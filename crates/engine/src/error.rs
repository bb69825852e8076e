//! One error type for all callers: a stable code, a message that says what to do, and the position in the input. No plaintext, no
//! key.

use std::fmt;

use leafseal_document::{DocumentError, DocumentErrorKind, SelectorError};
use leafseal_envelope::{InvalidRole, Malformed, OpenError};
pub use leafseal_errors::{ErrorCode, Side};
use leafseal_pool::hand_over;

/// An error of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place(*.code, *.index, *.offset))]
pub struct Error {
    /// The code.
    pub code: ErrorCode,
    /// For a person.
    pub message: String,
    /// Which value of a list, counted from 0.
    pub index: Option<u64>,
    /// Which byte of a document, counted from 0.
    pub offset: Option<u64>,
    /// Details for the engine's own log only.
    pub(crate) cause: Option<String>,
    /// Nothing has failed: the request waits for a look-up, and is repeated when it is woken.
    pub(crate) awaits_store: bool,
    /// A person has to open the keystore.
    pub(crate) is_sealed: bool,
}

impl Error {
    /// An error without a place.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            index: None,
            offset: None,
            cause: None,
            awaits_store: false,
            is_sealed: false,
        }
    }

    /// The cause of [`ErrorCode::Unavailable`], for the engine's log: it names paths and settings of this machine, so it is not
    /// sent to callers.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The error while the keystore does not answer.
    pub fn silent_store() -> Self {
        Self::new(ErrorCode::Unavailable, "the keystore does not answer: try again later")
    }

    /// The error while a person has to open the keystore.
    pub(crate) fn sealed_store() -> Self {
        let error = Self::new(ErrorCode::Unavailable, "the keystore is sealed: run leafseal unseal");
        Self { is_sealed: true, ..error }
    }

    /// The request must be repeated once the store has answered. A caller that does not repeat it treats it as failed.
    pub(crate) fn awaiting_store() -> Self {
        Self { awaits_store: true, ..Self::silent_store() }
    }

    /// The step needs more than may be done inline: it has changed nothing, and is repeated on a worker.
    pub(crate) fn handed_over() -> Self {
        hand_over();
        Self::awaiting_store()
    }

    /// The one answer to every tag, key and content fault.
    pub(crate) fn decrypt_failed() -> Self {
        Self::new(ErrorCode::DecryptFailed, "decrypt failed")
    }

    /// The error of a selector, counted from 0, that matched nothing.
    pub(crate) fn unmatched_selector(index: usize) -> Self {
        Self::new(ErrorCode::UnmatchedSelector, format!("selector {index} matched no value")).at_index(index as u64)
    }

    /// The same error at a value of a list.
    pub fn at_index(self, index: u64) -> Self {
        Self { index: Some(index), ..self }
    }

    /// The same error at a byte of a document.
    pub fn at_offset(self, offset: usize) -> Self {
        Self { offset: Some(offset as u64), ..self }
    }
}

/// The place after a message.
fn place(code: ErrorCode, index: Option<u64>, offset: Option<u64>) -> impl fmt::Display {
    // Errors about a document's form or a selector name their place themselves.
    let names_its_place = matches!(
        code,
        ErrorCode::InvalidDocument
            | ErrorCode::InvalidSelector
            | ErrorCode::UnmatchedSelector
            | ErrorCode::AmbiguousName
            | ErrorCode::InvalidContext
    );
    let [index, offset] = [index, offset].map(|number| number.filter(|_| !names_its_place));
    fmt::from_fn(move |f| {
        if let Some(index) = index {
            write!(f, " (value {index})")?;
        }
        match offset {
            Some(offset) => write!(f, " (at byte {offset})"),
            None => Ok(()),
        }
    })
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Malformed(malformed) => malformed.into(),
            OpenError::DecryptFailed => Self::decrypt_failed(),
        }
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(ErrorCode::InvalidEnvelope, malformed.to_string())
    }
}

impl From<DocumentError> for Error {
    fn from(error: DocumentError) -> Self {
        let code = match error.kind {
            DocumentErrorKind::Unmatched(selector) => {
                return Self::unmatched_selector(selector).at_offset(error.offset);
            }
            DocumentErrorKind::TooLarge(_)
            | DocumentErrorKind::TooManyNodes(_)
            | DocumentErrorKind::FilterTooCostly(_)
            | DocumentErrorKind::ComparisonTooLong(_)
            | DocumentErrorKind::TooManyMembers(_)
            | DocumentErrorKind::PatternTooLarge(_)
            | DocumentErrorKind::TooManyContexts(_)
            | DocumentErrorKind::PathTooLong(_) => ErrorCode::TooLarge,
            DocumentErrorKind::AmbiguousName
            | DocumentErrorKind::PathName
            | DocumentErrorKind::DuplicateName
            | DocumentErrorKind::DuplicateContext
            | DocumentErrorKind::AmbiguousOperand
            | DocumentErrorKind::CarriageReturn => ErrorCode::AmbiguousName,
            DocumentErrorKind::ContextMissing
            | DocumentErrorKind::ContextValue(_)
            | DocumentErrorKind::ContextSelected => ErrorCode::InvalidContext,
            _ => ErrorCode::InvalidDocument,
        };
        let placed = code != ErrorCode::TooLarge;
        let located = Self::new(code, error.to_string());
        if placed { located.at_offset(error.offset) } else { located }
    }
}

impl From<SelectorError> for Error {
    fn from(error: SelectorError) -> Self {
        let index = error.selector as u64;
        Self::new(ErrorCode::InvalidSelector, error.to_string()).at_index(index).at_offset(error.position)
    }
}

impl From<InvalidRole> for Error {
    fn from(error: InvalidRole) -> Self {
        Self::new(ErrorCode::InvalidParams, error.to_string())
    }
}

impl From<leafseal_keystore::StoreError> for Error {
    /// The store's own messages name paths and settings of this machine: callers learn only that it does not answer, or is sealed.
    fn from(error: leafseal_keystore::StoreError) -> Self {
        let shown = match error {
            leafseal_keystore::StoreError::Unopened | leafseal_keystore::StoreError::RootReplaced => {
                Self::sealed_store()
            }
            _ => {
                let message = "the keystore does not answer: see the engine's log, then try again";
                Self::new(ErrorCode::Unavailable, message)
            }
        };
        Self { cause: Some(error.to_string()), ..shown }
    }
}
