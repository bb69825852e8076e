//! The limits of this crate, with their defaults.
//!
//! Documents and selectors come from outside, so everything that grows with them is limited: bytes, depth, counts and the work of filters.
//! Nothing else in the crate allocates or loops without one of these limits.

/// Maximum size of any document: the tree and the counts of elements use 32-bit numbers.
pub const DOCUMENT_SIZE_CEILING: usize = u32::MAX as usize - 1;

/// Maximum of `depth_max`; larger values are reduced to it.
pub const DEPTH_CEILING: usize = 1024;

/// The limits for walking documents and compiling selectors.
///
/// All are inclusive: a document of exactly `document_size_max` bytes is walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a document in bytes; at most [`DOCUMENT_SIZE_CEILING`]. Default 1 GiB: an encrypted document is about three to five
    /// times as large as the plain one, and both must be within one limit.
    pub document_size_max: usize,
    /// Maximum nesting of arrays and objects; a single scalar has depth 0. At most [`DEPTH_CEILING`]. Default 128.
    pub depth_max: usize,
    /// Maximum number of selectors in a selection. Default 64.
    pub selectors_max: usize,
    /// Maximum length of a selector in bytes. Default 4096.
    pub selector_length_max: usize,
    /// Maximum number of segments of all selectors of a selection, including those inside filters; in brackets each selector counts.
    /// Default 512.
    pub segments_max: usize,
    /// Maximum nesting of parentheses, function calls and filters in a selector. Default 32.
    pub filter_depth_max: usize,
    /// Maximum number of values of a document in the tree that filters need, at 32 bytes each. Default 2^24, which is 512 MiB.
    pub tree_nodes_max: usize,
    /// Maximum number of values that the filters of one selection visit in one document; a filter with descendant queries can visit
    /// every value many times. Default 2^28, seconds of work.
    pub filter_steps_max: u64,
    /// Maximum size in bytes of a string or number that a filter compares with another one. Default 32 KiB.
    pub filter_comparison_max: usize,
    /// Maximum number of members of an object that a filter compares with another one. Default 1024.
    pub filter_members_max: usize,
    /// Maximum number of calls of `match` and `search` in a selection. Default 32.
    pub patterns_max: usize,
    /// Maximum size in bytes of a compiled pattern of `match` or `search`; cached states take up to three times as much in addition.
    /// Default 64 KiB.
    pub pattern_size_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            document_size_max: 1 << 30,
            depth_max: 128,
            selectors_max: 64,
            selector_length_max: 4096,
            segments_max: 512,
            filter_depth_max: 32,
            tree_nodes_max: 1 << 24,
            filter_steps_max: 1 << 28,
            filter_comparison_max: 32 << 10,
            filter_members_max: 1024,
            patterns_max: 32,
            pattern_size_max: 64 << 10,
        }
    }
}
