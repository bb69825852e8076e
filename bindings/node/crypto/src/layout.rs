//! The memory that JavaScript and the native side share: a header of numbers, and room for short inputs and outputs.
//!
//! A call with short arguments copies them here and passes none: reading an argument through Node's interface costs more than copying 32
//! bytes. `lib/native.js` receives these numbers when the module is loaded (`layout`).

/// Places of the header, a Float64Array.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum HeaderSlot {
    Algorithm,
    /// 1 to encrypt, 0 to decrypt.
    Encrypt,
    /// Which arguments are buffers: bits of [`DIRECT`]; the others are in the shared memory.
    Direct,
    SourceOffset,
    SourceSize,
    TargetOffset,
    KeyOffset,
    KeySize,
    IvOffset,
    AadOffset,
    AadSize,
    TagOffset,
    TagSize,
    /// The number of an asynchronous operation.
    Id,
    /// Result: 0 or a [`crate::fault::Fault`].
    Status,
    /// Result: bytes written to the target.
    Written,
    /// 1 for an asynchronous operation that may be cancelled.
    IsCancellable,
    /// Where the words of a short call begin ([`Short`]).
    Short,
}

/// The header of a call all of whose arguments are in the shared memory: two words of 32 bits instead of a number for each part.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    pub(crate) algorithm: usize,
    pub(crate) encrypts: bool,
    pub(crate) tag_size: usize,
    pub(crate) source_size: usize,
    pub(crate) key_size: usize,
    pub(crate) aad_size: usize,
}

impl Short {
    /// Reads the words; all sizes are within their rooms.
    #[inline]
    pub(crate) fn unpack([what, sizes]: [u32; 2]) -> Self {
        const SIZE_BITS: u32 = 10;
        const SIZE_MASK: u32 = (1 << SIZE_BITS) - 1;
        const { assert!(SIZE_MASK as usize <= TEXT_SIZE_MAX) };
        let size = |place: u32| ((sizes >> (place * SIZE_BITS)) & SIZE_MASK) as usize;
        Self {
            algorithm: (what & 0xff) as usize,
            encrypts: (what >> 8) & 1 != 0,
            tag_size: (((what >> 16) & 0xff) as usize).min(TAG_SIZE_MAX),
            source_size: size(0),
            key_size: size(1).min(KEY_SIZE_MAX),
            aad_size: size(2),
        }
    }
}

/// Bits of [`Slot::Direct`], in the order of the arguments.
pub(crate) const DIRECT: [u32; 6] = [SOURCE, TARGET, KEY, IV, AAD, TAG];
pub(crate) const SOURCE: u32 = 1;
pub(crate) const TARGET: u32 = 2;
pub(crate) const KEY: u32 = 4;
pub(crate) const IV: u32 = 8;
pub(crate) const AAD: u32 = 16;
pub(crate) const TAG: u32 = 32;

/// Bytes of the header.
pub(crate) const HEADER_SIZE: usize = 8 * 32;
/// Longest source, target and associated data here.
pub(crate) const TEXT_SIZE_MAX: usize = 4096;
/// Longest key here: the longest block of a hash function, rounded up.
pub(crate) const KEY_SIZE_MAX: usize = 256;
/// Room for an IV and for a tag.
pub(crate) const TAG_SIZE_MAX: usize = 16;
const IV_SIZE_MAX: usize = 16;

pub(crate) const KEY_AT: usize = HEADER_SIZE;
pub(crate) const IV_AT: usize = KEY_AT + KEY_SIZE_MAX;
pub(crate) const TAG_AT: usize = IV_AT + IV_SIZE_MAX;
pub(crate) const AAD_AT: usize = TAG_AT + TAG_SIZE_MAX;
pub(crate) const SOURCE_AT: usize = AAD_AT + TEXT_SIZE_MAX;
pub(crate) const TARGET_AT: usize = SOURCE_AT + TEXT_SIZE_MAX;
/// Where completed operations are handed over.
pub(crate) const RESULTS_AT: usize = TARGET_AT + TEXT_SIZE_MAX;
pub(crate) const RESULTS_SIZE: usize = 64 * 1024;
/// Bytes of the whole.
pub(crate) const SIZE: usize = RESULTS_AT + RESULTS_SIZE;
