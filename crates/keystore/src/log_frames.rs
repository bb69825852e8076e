//! Frames of audit logs, for machines whose disks do not outlive a restart: a store that other machines keep has them, too.

use crate::error::StoreError;

/// Some records of a log that became durable together, as their writer has sealed them. The store cannot read or change them unnoticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFrame {
    /// The number of its first record.
    pub start: u64,
    /// The number after its last.
    pub end: u64,
    /// What the writer has made of them.
    pub content: Vec<u8>,
}

/// What is there of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldFrames {
    /// What stands for the frames that were removed, as [`LogFrames::remove_before`] was given it.
    pub base: Option<Vec<u8>>,
    /// The number after the last record; 0 if there is none.
    pub end: u64,
}

/// The frames of one log, with one writer. Each call waits for the database, within its limits.
pub trait LogFrames: Send + Sync {
    /// Whether the log was ever taken over. Changes nothing.
    ///
    /// # Errors
    /// Those of the database.
    fn is_known(&self) -> Result<bool, StoreError>;

    /// Makes this the writer: frames of others are refused from now on. Returns what they have left.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`], [`StoreError::Storage`] and others of the database.
    fn take_over(&self) -> Result<HeldFrames, StoreError>;

    /// Adds a frame, or puts it in the place of one with the same first record. Durable when this returns. After an error it may be
    /// durable, or become it.
    ///
    /// # Errors
    /// [`StoreError::OtherWriter`], and those of the database.
    fn put(&self, frame: &LogFrame) -> Result<(), StoreError>;

    /// The first frames, in order, that end after a record, of about `bytes_max` at most, but at least one.
    ///
    /// # Errors
    /// Those of the database.
    fn read(&self, after: u64, bytes_max: u64) -> Result<Vec<LogFrame>, StoreError>;

    /// Removes frames that end at or before a record, after `base` was put in their place.
    ///
    /// # Errors
    /// As [`LogFrames::put`].
    fn remove_before(&self, minimum: u64, base: &[u8]) -> Result<(), StoreError>;
}
