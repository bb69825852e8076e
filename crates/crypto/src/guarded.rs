//! Secrets that live long, in memory of their own.

use crate::ffi::guarded::{GuardedSlot, SLOT_SIZE};
use crate::secret::{Secret, equal_constant_time};

/// Bytes of a [`GuardedSecret`].
pub const GUARDED_SIZE: usize = SLOT_SIZE;

/// A secret that lives as long as the process, such as a private key or a root key: in memory that is neither dumped nor swapped, once the
/// process has called [`guard_secrets`](crate::guard_secrets).
pub struct GuardedSecret(GuardedSlot);

impl GuardedSecret {
    /// Zero bytes, to be filled in place through [`GuardedSecret::expose_mut`].
    pub fn zeroed() -> Self {
        Self(GuardedSlot::zeroed())
    }

    /// Copies `bytes`; the caller wipes its own copy.
    pub fn from_bytes(bytes: &[u8; GUARDED_SIZE]) -> Self {
        let mut secret = Self::zeroed();
        secret.expose_mut().copy_from_slice(bytes);
        secret
    }

    /// Returns the bytes. The caller must not keep or print them.
    pub fn expose(&self) -> &[u8; GUARDED_SIZE] {
        self.0.bytes()
    }

    /// The bytes, writable.
    pub fn expose_mut(&mut self) -> &mut [u8; GUARDED_SIZE] {
        self.0.bytes_mut()
    }
}

impl From<Secret<GUARDED_SIZE>> for GuardedSecret {
    /// Copies; the heap's copy is wiped.
    fn from(secret: Secret<GUARDED_SIZE>) -> Self {
        Self::from_bytes(secret.expose())
    }
}

impl Clone for GuardedSecret {
    fn clone(&self) -> Self {
        Self::from_bytes(self.expose())
    }
}

impl PartialEq for GuardedSecret {
    fn eq(&self, other: &Self) -> bool {
        equal_constant_time(self.expose(), other.expose())
    }
}

impl Eq for GuardedSecret {}

impl std::fmt::Debug for GuardedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GuardedSecret(…)")
    }
}
