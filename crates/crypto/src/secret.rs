//! Secret bytes of fixed length: wiped on drop, compared in constant time, never printed, never copied by accident.

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// `N` secret bytes on the heap, so that moving the value leaves no copy behind on a stack.
pub struct Secret<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Secret<N> {
    /// Zero bytes, to be filled in place through [`Secret::expose_mut`].
    pub fn zeroed() -> Self {
        Self(Box::new([0; N]))
    }

    /// Copies `bytes`; the caller wipes its own copy.
    pub fn from_bytes(bytes: &[u8; N]) -> Self {
        Self(Box::new(*bytes))
    }

    /// Takes the bytes of `slice` when it has exactly `N` of them.
    pub fn from_slice(slice: &[u8]) -> Option<Self> {
        Some(Self::from_bytes(slice.try_into().ok()?))
    }

    /// `N` bytes from `rng`.
    pub fn random(rng: &mut dyn rand_core::CryptoRng) -> Self {
        let mut secret = Self::zeroed();
        rng.fill_bytes(secret.expose_mut());
        secret
    }

    /// Returns the bytes. The caller must not keep or print them.
    pub fn expose(&self) -> &[u8; N] {
        &self.0
    }

    /// The bytes, writable.
    pub fn expose_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

impl<const N: usize> Clone for Secret<N> {
    fn clone(&self) -> Self {
        Self::from_bytes(self.expose())
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl<const N: usize> Eq for Secret<N> {}

impl<const N: usize> Drop for Secret<N> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<const N: usize> std::fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret<{N}>(…)")
    }
}

/// Compares two byte strings in time that depends on their lengths only.
pub fn equal_constant_time(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_prints_its_bytes() {
        let secret = Secret::from_bytes(&[0xab; 32]);
        assert_eq!(format!("{secret:?}"), "Secret<32>(…)");
    }

    #[test]
    fn compares_by_value_and_length() {
        assert_eq!(Secret::from_bytes(&[1; 32]), Secret::from_bytes(&[1; 32]));
        assert_ne!(Secret::from_bytes(&[1; 32]), Secret::from_bytes(&[2; 32]));
        assert!(Secret::<32>::from_slice(&[0; 31]).is_none());
        assert!(!equal_constant_time(b"a", b"ab"));
        assert!(equal_constant_time(b"ab", b"ab"));
    }
}
