//! The versions of a store's schema.

/// The schema of new stores, and the newest that this program reads.
pub const SCHEMA_VERSION: u32 = 3;
/// The oldest schema that is used as it is; an older one is brought to it when a store is opened.
pub(crate) const OLDEST_USED: u32 = 2;
/// The first schema with the authenticated tree.
pub(crate) const TREE_SCHEMA_VERSION: u32 = 3;
