//! The bounds of a frame, checked while its bytes arrive and before anything is kept for it.

/// Limits on one frame of a peer. Every limit is inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole frame, headers included. Default 1 GiB: an encrypted document is some three to five times
    /// the plain one, and what went in has to come out under one limit.
    pub frame_size_max: usize,
    /// Containers inside one another; the message's own array is the first. The protocol's own messages reach five
    /// (an `inspect` answer). Default 32.
    pub depth_max: usize,
    /// Elements of one array, or pairs of one map. Default 2^24.
    pub elements_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { frame_size_max: 1 << 30, depth_max: 32, elements_max: 1 << 24 }
    }
}
