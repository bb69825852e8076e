//! Why a measurement failed.

use std::time::Duration;

use fieldseal_client::ClientError;
use thiserror::Error;

/// A measurement that cannot go on. Holds no value.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The connection.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An answer is an error where none is expected: code and message.
    #[error("{0}")]
    Refused(String),
    /// An answer is missing.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    /// An answer is not what it must be.
    #[error("a wrong answer: {0}")]
    WrongAnswer(String),
    /// The engine's process or metrics are missing, or are not an engine's.
    #[error("{0}")]
    NoEngine(String),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    System {
        /// The operation.
        what: String,
        /// Why not.
        error: std::io::Error,
    },
}

impl LoadError {
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        LoadError::WrongAnswer(what.into())
    }

    pub(crate) fn system(what: impl Into<String>, error: std::io::Error) -> Self {
        LoadError::System { what: what.into(), error }
    }
}
