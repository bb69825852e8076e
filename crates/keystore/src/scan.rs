//! A scan of a whole store for edits, step by step.

use crate::edit::StoreEdit;

/// Where a scan is. [`Keystore::scan`](crate::Keystore::scan) moves it, and begins again behind the last step.
#[derive(Debug, Default)]
pub struct StoreScan(pub(crate) ScanPlace);

/// The next step of a scan.
#[derive(Debug)]
pub(crate) enum ScanPlace {
    /// Buckets of the tree.
    Tree(TreeWalk),
    /// Rows of a table, which has this number among those with entries.
    Table(usize, PagePlace),
}

/// The buckets of a tree, some at a time, so that little is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeWalk {
    /// The first of the next step.
    pub(crate) bucket: u32,
    /// How many the next step reads.
    pub(crate) width: u32,
    /// Leaves that a step aims at.
    pub(crate) leaf_count: u32,
}

/// Where a page of a table begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PagePlace {
    /// The whole primary key of the last row before it; empty for the first page.
    pub(crate) after: Vec<KeyPart>,
    /// Rows after that one that cannot be compared with a key of ours, and belong to pages before this one.
    pub(crate) skipped: u32,
}

/// A column of a row's primary key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyPart {
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
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
