//! The bounds of a frame, checked while its bytes arrive and before anything is kept for it.

use leafseal_config::settings;

settings! {
    /// Limits on one frame of a peer. Every limit is inclusive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FrameLimits {
        /// Maximum size of a message, in either direction.
        // An encrypted document is some three to five times the plain one, and what went in has to come out under one limit.
        pub frame_size_max: usize = 1 << 30, bytes in 1024..=(4 << 30) - 1;
        /// Maximum nesting of arrays and maps in a message.
        // The message's own array is the first. The protocol's own messages reach five (an `inspect` answer).
        pub depth_max: usize = 32, in 5..=1024, as "frame_depth_max";
        /// Maximum number of elements in an array, or pairs in a map, of a message.
        pub elements_max: u32 = 1 << 24, in 1..=u32::MAX, as "frame_elements_max";
    }
}
