//! Errors of a measurement.

use std::time::Duration;

use leafseal_client::ClientError;
use thiserror::Error;

/// A measurement cannot continue. Contains no values.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The connection failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An answer is an unexpected error: code and message.
    #[error("{0}")]
    Refused(String),
    /// An answer did not arrive in time.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    /// An answer has unexpected content or size.
    #[error("a wrong answer: {0}")]
    WrongAnswer(String),
    /// The process or the metrics cannot be read, or do not belong to an engine.
    #[error("{0}")]
    NoEngine(String),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The operation.
        what: String,
        /// The system's error.
        error: std::io::Error,
    },
}

impl LoadError {
    /// An answer with unexpected content or size.
    pub fn wrong(what: impl Into<String>) -> Self {
        LoadError::WrongAnswer(what.into())
    }

    /// A system call that failed while `what` was done.
    pub fn system(what: impl Into<String>, error: std::io::Error) -> Self {
        LoadError::System { what: what.into(), error }
    }
}
