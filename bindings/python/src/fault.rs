//! Errors of a call, and the Python exceptions that they become: `leafseal.Error` and its subclasses, chosen by code.

use std::time::Duration;

use leafseal_client::ClientError;
use leafseal_protocol::{ErrorCode, Retry, ValueFault};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Why a call failed. Contains no value.
pub(crate) enum CallFault {
    /// An error of `leafseal`.
    Error(Box<Details>),
    /// An exception of Python: of a signal handler, or of an object that was converted.
    Python(PyErr),
}

/// An error of `leafseal`, with the attributes of the Python exception.
pub(crate) struct Details {
    code: ErrorCode,
    message: String,
    retry: Retry,
    index: Option<u64>,
    offset: Option<u64>,
    retry_after: Option<Duration>,
    /// Whether the engine decided it, here or remotely.
    is_of_engine: bool,
}

impl CallFault {
    /// An error that this package found.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let (message, retry) = (message.into(), code.retry());
        Self::Error(Box::new(Details {
            code,
            message,
            retry,
            index: None,
            offset: None,
            retry_after: None,
            is_of_engine: false,
        }))
    }

    /// An argument that cannot be used.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// A setting, a file or a folder that cannot be used.
    pub(crate) fn settings(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidSettings, message)
    }

    /// An error of one value of a list.
    pub(crate) fn at(code: ErrorCode, index: usize, message: impl Into<String>) -> Self {
        Self::new(code, message).at_index(index as u64)
    }

    /// A value that has no form in an envelope.
    pub(crate) fn value(index: usize, fault: &ValueFault) -> Self {
        Self::at(ErrorCode::InvalidParams, index, format!("value {index}: {fault}"))
    }

    /// The deadline passed in this process.
    pub(crate) fn deadline() -> Self {
        Self::new(ErrorCode::DeadlineExceeded, "the call did not end within its time limit")
    }

    /// The engine object was closed.
    pub(crate) fn closed() -> Self {
        Self::new(ErrorCode::Closed, "the engine is closed")
    }

    /// The call was cancelled.
    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the call was cancelled")
    }

    /// The same error with other retry advice than its code has.
    pub(crate) fn retry(self, retry: Retry) -> Self {
        match self {
            Self::Error(details) => Self::Error(Box::new(Details { retry, ..*details })),
            other => other,
        }
    }

    fn at_index(self, index: u64) -> Self {
        match self {
            Self::Error(details) => Self::Error(Box::new(Details { index: Some(index), ..*details })),
            other => other,
        }
    }

    /// The same error of a document in row `row` of a column. An error of a selector keeps the selector's index.
    pub(crate) fn in_row(self, row: usize) -> Self {
        match self {
            Self::Error(details) => {
                let (index, message) = (details.index.or(Some(row as u64)), format!("row {row}: {}", details.message));
                Self::Error(Box::new(Details { index, message, ..*details }))
            }
            other => other,
        }
    }

    /// The same error of a column of contexts.
    pub(crate) fn of_contexts(self) -> Self {
        match self {
            Self::Error(details) => {
                let message = format!("contexts: {}", details.message);
                Self::Error(Box::new(Details { message, ..*details }))
            }
            other => other,
        }
    }

    /// The same error of a list that begins with value `first` of the call's list.
    pub(crate) fn shifted(self, first: usize) -> Self {
        match self {
            Self::Error(details) => {
                let index = details.index.map(|index| index + first as u64);
                Self::Error(Box::new(Details { index, ..*details }))
            }
            other => other,
        }
    }
}

impl From<PyErr> for CallFault {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<leafseal_engine::Error> for CallFault {
    fn from(error: leafseal_engine::Error) -> Self {
        Self::Error(Box::new(Details {
            code: error.code,
            retry: error.code.retry(),
            // In this process the user owns the store, and may know the cause.
            message: error.cause().map_or_else(|| error.to_string(), str::to_owned),
            index: error.index,
            offset: error.offset,
            retry_after: None,
            is_of_engine: true,
        }))
    }
}

impl From<ClientError> for CallFault {
    fn from(error: ClientError) -> Self {
        let (code, is_of_engine) = (error.code(), error.is_of_engine());
        let ClientError { retry, message, index, offset, retry_after, .. } = error;
        Self::Error(Box::new(Details { code, message, retry, index, offset, retry_after, is_of_engine }))
    }
}

impl From<CallFault> for PyErr {
    fn from(fault: CallFault) -> Self {
        match fault {
            CallFault::Python(error) => error,
            CallFault::Error(details) => Python::attach(|py| exception(py, *details).unwrap_or_else(|error| error)),
        }
    }
}

/// Finds the function that makes exceptions, so that they are of the same classes whatever `sys.modules` contains later.
pub(crate) fn load<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, "leafseal._error", "make")
}

fn exception(py: Python<'_>, details: Details) -> PyResult<PyErr> {
    let make = load(py)?;
    let Details { code, message, retry, index, offset, retry_after, is_of_engine } = details;
    let seconds = retry_after.map(|time| time.as_secs_f64());
    let made = make.call1((code.as_str(), message, retry.as_str(), index, offset, seconds, is_of_engine))?;
    Ok(PyErr::from_value(made))
}
