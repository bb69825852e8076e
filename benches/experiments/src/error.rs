//! Why an experiment ended without a report.

use std::io;

use leafseal_client::ClientError;
use leafseal_load::LoadError;
use thiserror::Error;

/// An experiment cannot continue.
#[derive(Debug, Error)]
pub(crate) enum ExperimentError {
    /// A request or the engine failed, or an answer is wrong.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The client's certificates cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The program `leafseal` could not be started.
    #[error("cannot start {program}: {error}; build it, or name it with --program")]
    Program {
        /// Its path.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// A command of the program failed and printed why.
    #[error("`leafseal {0}` failed: see its messages above")]
    Command(String),
    /// The program's output is not what its documentation promises.
    #[error("`leafseal {0}` printed something unexpected")]
    Output(&'static str),
    /// A system call failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// A signal ended it.
    #[error("interrupted")]
    Interrupted,
}
