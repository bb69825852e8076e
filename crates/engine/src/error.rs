//! One error type for all callers: a stable kind, a message that says what to do, and the position in the input. No plaintext, no
//! key.

use std::fmt;

use leafseal_document::{DocumentError, DocumentErrorKind, SelectorError};
use leafseal_envelope::{InvalidRole, Malformed, OpenError};

/// The kind of error, for programs. The wire's error codes have the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Options that do not fit together or are out of range.
    InvalidParams,
    /// A document that is not JSON, or not within the limits of form.
    InvalidDocument,
    /// A selector that is not JSONPath.
    InvalidSelector,
    /// A selector that matched nothing, where each had to match.
    UnmatchedSelector,
    /// A member name that differs from a selected one only in case, or that parsers read differently.
    AmbiguousName,
    /// A text or file that is no well-formed envelope.
    InvalidEnvelope,
    /// A tag, key or content fault.
    DecryptFailed,
    /// No such app.
    UnknownApp,
    /// The app's keys are disabled.
    AppDisabled,
    /// The caller may not do this.
    Forbidden,
    /// A number that the output cannot hold.
    NumberOutOfRange,
    /// Larger than a limit.
    TooLarge,
    /// The key store does not answer now.
    Unavailable,
    /// Too many look-ups of the key store wait already.
    Overloaded,
    /// Our fault.
    Internal,
}

/// An error of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place(*.kind, *.index, *.offset))]
pub struct Error {
    /// The kind.
    pub kind: ErrorKind,
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
}

impl Error {
    /// An error without a place.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), index: None, offset: None, cause: None, awaits_store: false }
    }

    /// The cause of [`ErrorKind::Unavailable`], for the engine's log: it names paths and settings of this machine, so it is not
    /// sent to callers.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The error while the key store does not answer.
    pub fn silent_store() -> Self {
        Self::new(ErrorKind::Unavailable, "the key store does not answer: try again later")
    }

    /// The request is to be repeated once the store has answered. Where nobody repeats it, it has failed.
    pub(crate) fn awaiting_store() -> Self {
        Self { awaits_store: true, ..Self::silent_store() }
    }

    /// The one answer to every tag, key and content fault.
    pub(crate) fn decrypt_failed() -> Self {
        Self::new(ErrorKind::DecryptFailed, "decrypt failed")
    }

    /// The error of a selector, counted from 0, that matched nothing.
    pub(crate) fn unmatched_selector(index: usize) -> Self {
        Self::new(ErrorKind::UnmatchedSelector, format!("selector {index} matched no value")).at_index(index as u64)
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
fn place(kind: ErrorKind, index: Option<u64>, offset: Option<u64>) -> impl fmt::Display {
    // Errors about a document's form or a selector name their place themselves.
    let names_its_place = matches!(
        kind,
        ErrorKind::InvalidDocument
            | ErrorKind::InvalidSelector
            | ErrorKind::UnmatchedSelector
            | ErrorKind::AmbiguousName
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
        Self::new(ErrorKind::InvalidEnvelope, malformed.to_string())
    }
}

impl From<DocumentError> for Error {
    fn from(error: DocumentError) -> Self {
        let kind = match error.kind {
            DocumentErrorKind::Unmatched(selector) => {
                return Self::unmatched_selector(selector).at_offset(error.offset);
            }
            DocumentErrorKind::TooLarge(_)
            | DocumentErrorKind::TooManyNodes(_)
            | DocumentErrorKind::FilterTooCostly(_)
            | DocumentErrorKind::ComparisonTooLong(_)
            | DocumentErrorKind::TooManyMembers(_)
            | DocumentErrorKind::PatternTooLarge(_) => ErrorKind::TooLarge,
            DocumentErrorKind::AmbiguousName
            | DocumentErrorKind::PathName
            | DocumentErrorKind::DuplicateName
            | DocumentErrorKind::AmbiguousOperand
            | DocumentErrorKind::CarriageReturn => ErrorKind::AmbiguousName,
            _ => ErrorKind::InvalidDocument,
        };
        let placed = kind != ErrorKind::TooLarge;
        let located = Self::new(kind, error.to_string());
        if placed { located.at_offset(error.offset) } else { located }
    }
}

impl From<SelectorError> for Error {
    fn from(error: SelectorError) -> Self {
        let index = error.selector as u64;
        Self::new(ErrorKind::InvalidSelector, error.to_string()).at_index(index).at_offset(error.position)
    }
}

impl From<InvalidRole> for Error {
    fn from(error: InvalidRole) -> Self {
        Self::new(ErrorKind::InvalidParams, error.to_string())
    }
}

impl From<leafseal_keystore::Error> for Error {
    /// The store's own messages name paths and settings of this machine: callers learn only that it does not answer.
    fn from(error: leafseal_keystore::Error) -> Self {
        let message = "the key store does not answer: see the engine's log, then try again";
        Self { cause: Some(error.to_string()), ..Self::new(ErrorKind::Unavailable, message) }
    }
}
