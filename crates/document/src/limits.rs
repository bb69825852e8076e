//! The limits of this crate, with their defaults.
//!
//! Documents and selectors come from outside, so everything that grows with them is limited: bytes, depth, counts and the work of filters.
//! Nothing else in the crate allocates or loops without one of these limits.

use leafseal_config::settings;

/// Maximum size of any document: the tree and the counts of elements use 32-bit numbers.
pub const DOCUMENT_SIZE_CEILING: usize = u32::MAX as usize - 1;

/// Maximum of `depth_max`; larger values are reduced to it.
pub const DEPTH_CEILING: usize = 1024;

settings! {
    /// The limits for walking documents and compiling selectors.
    ///
    /// All are inclusive: a document of exactly `document_size_max` bytes is walked.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DocumentLimits {
        /// Maximum size of a document.
        // An encrypted document is about three to five times as large as the plain one, and both must be within one limit.
        pub document_size_max: usize = 1 << 30, bytes in 1..=DOCUMENT_SIZE_CEILING;
        /// Maximum nesting of arrays and objects.
        pub depth_max: usize = 128, in 0..=DEPTH_CEILING;
        /// Maximum number of selectors in a request.
        pub selectors_max: usize = 64, in 1..=65_536;
        /// Maximum length of a selector.
        pub selector_length_max: usize = 4096, bytes in 1..=1 << 20;
        /// Maximum number of segments in all selectors of a request together.
        // Those inside filters count; in brackets each selector counts.
        pub segments_max: usize = 512, in 1..=1 << 20;
        /// Maximum nesting of parentheses, functions and filters in a selector.
        pub filter_depth_max: usize = 32, in 0..=128;
        /// Maximum number of values in the tree that selectors with filters need of a document; each takes 32 bytes.
        pub tree_nodes_max: usize = 1 << 24, in 1..=1 << 31;
        /// Maximum number of values that the filters of a request visit in total.
        // A filter with descendant queries can visit every value many times; the default is seconds of work.
        pub filter_steps_max: u64 = 1 << 28, in 1..=1 << 40;
        /// Maximum length of a string or number, and of all names of an object together, that a filter compares with another value.
        pub filter_comparison_max: usize = 32 << 10, bytes in 0..=1 << 30;
        /// Maximum number of members of an object that a filter compares with another object.
        pub filter_members_max: usize = 1024, in 0..=1 << 20;
        /// Maximum number of calls of `match` and `search` in all selectors of a request together.
        pub patterns_max: usize = 32, in 0..=4096;
        /// Maximum memory of a compiled pattern of `match` or `search`. The time to compile a pattern grows with it and counts towards
        /// `filter_steps_max`.
        // Cached states take up to three times as much in addition.
        pub pattern_size_max: usize = 64 << 10, bytes in 1024..=1 << 30;
    }
}
