//! A scan of a whole store for edits, step by step.

use crate::edit::StoreEdit;

/// Where a scan is. [`Keystore::scan`](crate::Keystore::scan) moves it, and begins again behind the last step.
#[derive(Debug, Default)]
pub struct StoreScan(pub(crate) ScanPlace);

/// The next step of a scan.
#[derive(Debug)]
pub(crate) enum ScanPlace {
    /// Buckets of the tree, from this one on.
    Tree { bucket: u32, width: u32 },
    /// Rows of a table after one with this primary key, of which some are done.
    Table { index: usize, after: Vec<KeyPart>, skipped: u32 },
}

/// A column of a row's primary key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyPart {
    Number(i64),
    Text(String),
}

/// The result of a step.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ScanStep {
    /// Rows that were read.
    pub row_count: u64,
    /// What others have edited, of what this step has looked at.
    pub edits: Vec<StoreEdit>,
    /// Every row was looked at since the scan began.
    pub is_last: bool,
}
