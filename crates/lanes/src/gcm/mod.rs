//! AES-GCM (SP 800-38D) for many messages under one key: 128- or 256-bit keys, 96-bit nonces, 128-bit tags, any associated data,
//! messages of at most [`MESSAGE_SIZE_MAX`] bytes. Longer messages are left to a library: each keeps the CPU's units busy by itself.
//!
//! ```text
//! key:      expand the round keys of AES                                                                  key
//!           H = AES(0); powers H, H², … and for each the sum of its halves                                key, product
//! call:     group messages with the same number of blocks                                                 run
//!           for each group, with one message in each lane:                                                group
//!             stream = AES(nonce ‖ 1), AES(nonce ‖ 2), …         all blocks of the group at once          cipher
//!             issue the stream of the next group, then complete this one:
//!               ciphertext = text ⊕ stream
//!               hash = Σ block i · H^(blocks + 2 − i)            a sum of products, reduced once          product
//!               add the hash of associated data and lengths      once for all messages that share it      hash
//!               tag = hash ⊕ AES(nonce ‖ 1)                      written, or compared in every lane
//! ```
//!
//! The right column names the module of each step. `vector` lists the operations on registers, which `aesni`, `vaes256`, `vaes512` and
//! `armv8` implement.
//!
//! Timing depends only on lengths, on which messages share a slice of associated data, and on which tags were wrong. `docs/lanes.md` has
//! the figures.
#![cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, unused_imports))]

#[cfg(target_arch = "x86_64")]
mod aesni;
#[cfg(target_arch = "aarch64")]
mod armv8;
mod cipher;
#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod constant_time;
mod group;
mod hash;
mod key;
mod known_answers;
mod memory;
mod message;
mod prefixes;
mod product;
mod run;
mod schedule;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;
mod vector;
mod xaes;

#[cfg(target_arch = "aarch64")]
use crate::cpu::Armv8;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{AesNi, Vaes256, Vaes512};
use crate::short;
use key::GcmKeyParts;
pub use prefixes::XaesKeyParts;
pub use xaes::{XAES_NONCE_SIZE, XaesNonce, XaesOpenItem, XaesSealItem};

/// Bytes of a nonce.
pub const NONCE_SIZE: usize = 12;
/// Bytes of a tag.
pub const TAG_SIZE: usize = 16;
/// Longest message in bytes. `docs/lanes.md` states where a library's bulk code becomes faster than these kernels.
pub const MESSAGE_SIZE_MAX: usize = 512;
/// The same for kernels whose register has one message.
const ONE_LANE_SIZE_MAX: usize = 384;

/// Blocks of the longest message.
const BLOCKS_MAX: usize = MESSAGE_SIZE_MAX.div_ceil(vector::BLOCK_SIZE);

/// A 96-bit nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub [u8; NONCE_SIZE]);

/// One message to seal.
#[derive(Clone, Copy)]
pub struct SealItem<'a> {
    /// Never used before under this key.
    pub nonce: Nonce,
    /// Associated data. Items of one call that pass the same slice, in place and length, share its hashing.
    pub aad: &'a [u8],
    /// The text to encrypt.
    pub plaintext: &'a [u8],
}

/// One message to open.
#[derive(Clone, Copy)]
pub struct OpenItem<'a> {
    /// The nonce of the encryption.
    pub nonce: Nonce,
    /// The associated data of the encryption. Items of one call that pass the same slice share its hashing.
    pub aad: &'a [u8],
    /// Ciphertext followed by the tag.
    pub sealed: &'a [u8],
}

/// The instructions that messages go through. Holds the proof that this CPU has them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Kernel {
    /// AES-NI and PCLMULQDQ on 128-bit registers.
    #[cfg(target_arch = "x86_64")]
    AesNi(AesNi),
    /// VAES and VPCLMULQDQ on 256-bit registers.
    #[cfg(target_arch = "x86_64")]
    Vaes256(Vaes256),
    /// VAES and VPCLMULQDQ on 512-bit registers.
    #[cfg(target_arch = "x86_64")]
    Vaes512(Vaes512),
    /// The AES and PMULL instructions of the ARMv8 cryptographic extension.
    #[cfg(target_arch = "aarch64")]
    Armv8(Armv8),
}

impl Kernel {
    /// Names of all kernels, whatever the CPU and the architecture.
    pub const NAMES: [&'static str; 4] = ["vaes512", "vaes256", "aesni", "armv8"];

    /// Those that this CPU can run, the fastest first.
    pub fn detect() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [
            Vaes512::detect().map(Self::Vaes512),
            Vaes256::detect().map(Self::Vaes256),
            AesNi::detect().map(Self::AesNi),
        ];
        #[cfg(target_arch = "aarch64")]
        let all = [Armv8::detect().map(Self::Armv8)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let all: [Option<Self>; 0] = [];
        all.into_iter().flatten().collect()
    }

    /// One of [`Kernel::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(_) => "aesni",
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(_) => "vaes256",
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(_) => "vaes512",
            #[cfg(target_arch = "aarch64")]
            Self::Armv8(_) => "armv8",
        }
    }

    /// Longest messages in bytes of which several take less time together than in a library's code for long messages (`docs/lanes.md`).
    pub fn size_max(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(_) => ONE_LANE_SIZE_MAX,
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(_) | Self::Vaes512(_) => MESSAGE_SIZE_MAX,
            #[cfg(target_arch = "aarch64")]
            Self::Armv8(_) => ONE_LANE_SIZE_MAX,
        }
    }

    /// The kernel for a single message: one lane, because the others would be unused. Keys are the same for all.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn for_count(self, count: usize) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(cpu) if count == 1 => Self::AesNi(cpu.into()),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(cpu) if count == 1 => Self::AesNi(cpu.into()),
            _ => self,
        }
    }

    /// Whether the kernel computes the known answers on this CPU: a compiler, a hypervisor or a CPU may be faulty. Takes microseconds.
    pub fn is_right(self) -> bool {
        known_answers::are_given(self)
    }
}

/// An expanded key. Wiped on drop.
pub struct GcmKey {
    kernel: Kernel,
    expanded: Box<GcmKeyParts>,
}

impl std::fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({}, …)", self.kernel.name())
    }
}

impl GcmKey {
    /// The kernel that it was expanded for.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Expands a key of 16 or 32 bytes.
    ///
    /// # Panics
    /// When `key` has another length.
    pub fn new(kernel: Kernel, key: &[u8]) -> Self {
        assert!(matches!(key.len(), 16 | 32), "a key of AES-128 or AES-256");
        let mut expanded = Box::new(GcmKeyParts::zero());
        match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::AesNi(cpu) => aesni::expand(cpu, key, &mut expanded),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes256(cpu) => vaes256::expand(cpu, key, &mut expanded),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes512(cpu) => vaes512::expand(cpu, key, &mut expanded),
            #[cfg(target_arch = "aarch64")]
            Kernel::Armv8(cpu) => armv8::expand(cpu, key, &mut expanded),
        }
        Self { kernel, expanded }
    }

    /// Seals every item; `out` takes their ciphertexts and tags one after the other.
    ///
    /// # Panics
    /// When `out` has another length than these together, or a message is longer than [`MESSAGE_SIZE_MAX`].
    pub fn seal(&self, items: &[SealItem<'_>], out: &mut [u8]) {
        match self.kernel.for_count(items.len()) {
            #[cfg(target_arch = "x86_64")]
            Kernel::AesNi(cpu) => aesni::seal(cpu, &self.expanded, items, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes256(cpu) => vaes256::seal(cpu, &self.expanded, items, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes512(cpu) => vaes512::seal(cpu, &self.expanded, items, out),
            #[cfg(target_arch = "aarch64")]
            Kernel::Armv8(cpu) => armv8::seal(cpu, &self.expanded, items, out),
        }
    }

    /// Decrypts every item on its own: `out` receives the plaintexts in order, `opened[i]` is whether item i's tag was correct. If
    /// it was not, the plaintext is zeros.
    ///
    /// # Panics
    /// When `out` has another length than the plaintexts together, or `opened` than `items`; when a message is longer than
    /// [`MESSAGE_SIZE_MAX`], or shorter than a tag.
    pub fn open(&self, items: &[OpenItem<'_>], out: &mut [u8], opened: &mut [bool]) {
        match self.kernel.for_count(items.len()) {
            #[cfg(target_arch = "x86_64")]
            Kernel::AesNi(cpu) => aesni::open(cpu, &self.expanded, items, out, opened),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes256(cpu) => vaes256::open(cpu, &self.expanded, items, out, opened),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes512(cpu) => vaes512::open(cpu, &self.expanded, items, out, opened),
            #[cfg(target_arch = "aarch64")]
            Kernel::Armv8(cpu) => armv8::open(cpu, &self.expanded, items, out, opened),
        }
    }
}

impl Kernel {
    /// Expands a key of XAES-256-GCM.
    pub fn expand_xaes(self, key: &[u8; 32], expanded: &mut XaesKeyParts) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(cpu) => aesni::expand_xaes(cpu, key, expanded),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(cpu) => vaes256::expand_xaes(cpu, key, expanded),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(cpu) => vaes512::expand_xaes(cpu, key, expanded),
            #[cfg(target_arch = "aarch64")]
            Self::Armv8(cpu) => armv8::expand_xaes(cpu, key, expanded),
        }
    }

    /// Derives the key of AES-256-GCM of a nonce's prefix.
    pub fn derive_prefix(self, key: &XaesKeyParts, nonce: &XaesNonce, derived: &mut [u8; 32]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(cpu) => aesni::derive_prefix(cpu, key, nonce, derived),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(cpu) => vaes256::derive_prefix(cpu, key, nonce, derived),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(cpu) => vaes512::derive_prefix(cpu, key, nonce, derived),
            #[cfg(target_arch = "aarch64")]
            Self::Armv8(cpu) => armv8::derive_prefix(cpu, key, nonce, derived),
        }
    }

    /// Seals every item, as [`GcmKey::seal`] does.
    ///
    /// # Panics
    /// As [`GcmKey::seal`].
    pub fn seal_xaes(self, key: &XaesKeyParts, items: &[XaesSealItem<'_>], out: &mut [u8]) {
        match self.for_count(items.len()) {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(cpu) => aesni::seal_xaes(cpu, key, items, out),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(cpu) => vaes256::seal_xaes(cpu, key, items, out),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(cpu) => vaes512::seal_xaes(cpu, key, items, out),
            #[cfg(target_arch = "aarch64")]
            Self::Armv8(cpu) => armv8::seal_xaes(cpu, key, items, out),
        }
    }

    /// Decrypts every item on its own, as [`GcmKey::open`] does.
    ///
    /// # Panics
    /// As [`GcmKey::open`].
    pub fn open_xaes(self, key: &XaesKeyParts, items: &[XaesOpenItem<'_>], out: &mut [u8], opened: &mut [bool]) {
        match self.for_count(items.len()) {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(cpu) => aesni::open_xaes(cpu, key, items, out, opened),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(cpu) => vaes256::open_xaes(cpu, key, items, out, opened),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(cpu) => vaes512::open_xaes(cpu, key, items, out, opened),
            #[cfg(target_arch = "aarch64")]
            Self::Armv8(cpu) => armv8::open_xaes(cpu, key, items, out, opened),
        }
    }
}
