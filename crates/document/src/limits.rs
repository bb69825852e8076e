//! Every bound of this crate, named, with its default.
//!
//! Documents and selectors come from outside, so everything that grows with them has a limit here: bytes, depth, counts and the
//! work of a filter. Nothing else in the crate allocates or loops without one of these limits.

/// The largest document that can be walked at all: the tree and the counts of elements keep 32-bit numbers.
pub const DOCUMENT_SIZE_CEILING: usize = u32::MAX as usize - 1;

/// The greatest `depth_max` that is honoured.
pub const DEPTH_CEILING: usize = 1024;

/// The bounds under which documents are walked and selectors are compiled.
///
/// All are inclusive: a document of exactly `document_size_max` bytes is walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a document; at most [`DOCUMENT_SIZE_CEILING`]. Default 1 GiB: an encrypted document is some three to five
    /// times the plain one, and what went in has to come out under one limit.
    pub document_size_max: usize,
    /// Maximum nesting of arrays and objects; a single scalar has depth 0. At most [`DEPTH_CEILING`]. Default 128.
    pub depth_max: usize,
    /// Selectors in one selection. Default 64.
    pub selectors_max: usize,
    /// Bytes of one selector. Default 4096.
    pub selector_length_max: usize,
    /// Segments of all selectors of one selection together, those inside filters included; in brackets each selector counts.
    /// Default 512.
    pub segments_max: usize,
    /// Parentheses, function calls and filters inside one another in a selector. Default 32.
    pub filter_depth_max: usize,
    /// Values of a document in the tree that filters need; one takes 32 bytes, so 512 MiB by default. Default 2^24.
    pub tree_nodes_max: usize,
    /// Maximum number of values that the filters of one selection visit in one document; a filter with descendant queries can visit
    /// every value many times. Default 2^28, seconds of work.
    pub filter_steps_max: u64,
    /// Bytes of the longest string or number that a filter compares with another one. Default 32 KiB.
    pub filter_comparison_max: usize,
    /// Members of the largest object that a filter compares with another one. Default 1024.
    pub filter_members_max: usize,
    /// Calls of `match` and `search` in one selection. Default 32.
    pub patterns_max: usize,
    /// Bytes that a pattern of `match` or `search` takes once it is compiled; as much again some three times for what is known of
    /// texts. Default 64 KiB.
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
