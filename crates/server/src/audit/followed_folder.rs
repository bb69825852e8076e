//! A log whose records are sent elsewhere.

use std::path::PathBuf;

use leafseal_engine::audit::{CursorKey, VerifierKey};

/// A log that is followed.
#[derive(Debug, Clone)]
pub(crate) struct FollowedFolder {
    pub(crate) folder: PathBuf,
    pub(crate) key: VerifierKey,
    /// Where cursors are.
    pub(crate) cursors: PathBuf,
    pub(crate) cursor_key: CursorKey,
}
