//! A call, apart from where it runs: its input, its result, and the report that accompanies the result.

use leafseal_client::{Answer, Inspection};

use crate::arrow::Column;
use crate::contexts::{Contexts, ContextsFrom};
use crate::options::{CallDirection, OperationOptions};
use crate::values::{ListSource, ValueList};

/// The input of a call.
pub(crate) enum Input {
    /// Native values.
    List(ValueList),
    /// The chunks of a column.
    Columns(Vec<Column>),
    /// A JSON text.
    Document(Vec<u8>),
    /// The chunks of a column of JSON texts.
    Documents(Vec<Column>),
    /// Envelopes to inspect.
    Envelopes(Vec<String>),
    /// Nothing: whether the engine can be reached.
    Ready,
}

impl Input {
    pub(crate) fn is_of_documents(&self) -> bool {
        matches!(self, Self::Document(_) | Self::Documents(_))
    }

    /// The number of values, or documents of a column, that may have a context each.
    pub(crate) fn list_len(&self) -> Option<usize> {
        match self {
            Self::List(values) => Some(values.len()),
            Self::Columns(columns) | Self::Documents(columns) => Some(columns.iter().map(ListSource::len).sum()),
            Self::Document(_) | Self::Envelopes(_) | Self::Ready => None,
        }
    }
}

/// A call.
pub(crate) struct CallWork {
    pub(crate) direction: CallDirection,
    pub(crate) input: Input,
    /// What each value, or each document of a column, is bound to, if they come with that.
    pub(crate) contexts: Option<Contexts>,
    /// Shared with the Python object.
    pub(crate) options: pyo3::Py<OperationOptions>,
}

impl CallWork {
    pub(crate) fn options(&self) -> &OperationOptions {
        self.options.get()
    }

    /// The contexts of the values from `first` of the list on, if they come with one each.
    pub(crate) fn contexts(&self, first: usize) -> Option<ContextsFrom<'_>> {
        self.contexts.as_ref().map(|contexts| contexts.from(first))
    }
}

/// The result of a call.
pub(crate) enum WorkOutput {
    /// Native values.
    List(ValueList),
    /// Native values in the answer of a remote engine, to be read in place.
    Answer(Answer),
    /// The values of each chunk of a column.
    Columns(Vec<ValueList>),
    /// A JSON text.
    Document(Vec<u8>),
    /// The metadata of envelopes.
    Inspected(Vec<Inspection>),
    /// The engine was reached.
    Ready,
}

/// A result with its report.
pub(crate) struct Done {
    pub(crate) output: WorkOutput,
    pub(crate) report: WorkReport,
}

/// The report of a call.
#[derive(Default)]
pub(crate) struct WorkReport {
    /// The number of values of a document that were encrypted or decrypted.
    pub(crate) count: Option<u64>,
    /// The number of values that each selector matched.
    pub(crate) matched: Vec<u64>,
    /// Encrypted values that were envelopes already.
    pub(crate) resealed: u64,
    /// Envelopes that `skip_sealed` skipped.
    pub(crate) skipped: u64,
    /// Envelopes to a public key that `reseal` made symmetric ones of.
    pub(crate) rewrapped: u64,
    /// Values that were sealed, or opened, with a symmetric key.
    pub(crate) symmetric: u64,
    /// Envelopes that failed to decrypt.
    pub(crate) failed: u64,
    /// The first of those: paths in a document.
    pub(crate) failed_paths: Vec<String>,
    /// The first of those: indexes in a list.
    pub(crate) failed_indexes: Vec<u64>,
}

impl WorkReport {
    /// Adds the report of a later part of the same list, which begins at value `first`.
    pub(crate) fn add(&mut self, other: &Self, first: u64) {
        self.resealed += other.resealed;
        self.skipped += other.skipped;
        self.rewrapped += other.rewrapped;
        self.symmetric += other.symmetric;
        self.failed += other.failed;
        self.failed_indexes.extend(other.failed_indexes.iter().map(|index| index + first));
    }
}
