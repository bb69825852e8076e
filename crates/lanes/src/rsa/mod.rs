//! RSA's signature primitive (RFC 8017, 5.2.1), up to four signatures by one key side by side in AVX-512 IFMA lanes: a call costs the same
//! for one and for four. For RSA-2048, RSA-3072 and RSA-4096 with two primes.
//!
//! Every signature is checked with the public exponent before it is returned, because a single wrong one would reveal the primes (Boneh,
//! DeMillo and Lipton, 1997). Encodings of messages (PKCS #1, PSS) are the caller's. `sign` and `montgomery`
//! describe the steps, `docs/lanes-ifma.md` has the figures.

#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod constant_time;
#[cfg(test)]
mod faults;
mod montgomery;
mod sign;
mod words;

#[cfg(target_arch = "x86_64")]
use crate::cpu::entry;
use crate::cpu::kernel;
#[cfg(target_arch = "x86_64")]
use crate::u64x8::Avx512;
#[cfg(any(test, feature = "model"))]
use crate::u64x8::{Model, ModelCpu};
use sign::SigningNumbers;

/// Signatures that a call computes side by side.
pub const BATCH_SIZE: usize = 4;

kernel!(
    /// AVX-512 IFMA.
    Ifma = "ifma",
    /// The source of `Ifma` without its instructions. Slow: for tests on any CPU, and never detected.
    Model
);

/// The numbers of a private key, big-endian, by their names in RFC 8017, A.1.2. Leading zeros are allowed.
#[derive(Clone, Copy)]
pub struct Components<'a> {
    /// n.
    pub modulus: &'a [u8],
    /// e.
    pub public_exponent: &'a [u8],
    /// p.
    pub prime_1: &'a [u8],
    /// q.
    pub prime_2: &'a [u8],
    /// d mod (p − 1).
    pub exponent_1: &'a [u8],
    /// d mod (q − 1).
    pub exponent_2: &'a [u8],
    /// q⁻¹ mod p.
    pub coefficient: &'a [u8],
}

impl std::fmt::Debug for Components<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Components(…)")
    }
}

/// A key that lanes cannot sign with: of another length than 2048, 3072 or 4096 bits, with primes of different lengths, with a public
/// exponent above 2^64, or with numbers that do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported;

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a private RSA key of 2048, 3072 or 4096 bits with two primes")
    }
}

impl std::error::Error for Unsupported {}

/// A private key. Wiped on drop.
pub struct RsaSigningKey {
    kernel: Kernel,
    key: SigningNumbers,
}

impl std::fmt::Debug for RsaSigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({} bits, {}, …)", 8 * self.size(), self.kernel.name())
    }
}

impl RsaSigningKey {
    /// Prepares a key, and signs once to see that its numbers belong together. A few milliseconds.
    ///
    /// # Errors
    /// [`Unsupported`].
    pub fn new(kernel: Kernel, components: &Components<'_>) -> Result<Self, Unsupported> {
        let zeros = components.modulus.iter().take_while(|byte| **byte == 0).count();
        let size = components.modulus.len() - zeros;
        if ![256, 384, 512].contains(&size) {
            return Err(Unsupported);
        }
        let key = Self { kernel, key: SigningNumbers::new(components, size / 16).ok_or(Unsupported)? };
        let mut representative = vec![0x5a; key.size()];
        representative[0] = 0;
        key.sign(&[&representative]).swap_remove(0).map(|_| key).ok_or(Unsupported)
    }

    /// Bytes of the modulus, of a message representative and of a signature.
    pub fn size(&self) -> usize {
        self.key.size()
    }

    /// The signature of each message representative, [`BATCH_SIZE`] at a time. `None` where a representative is not below the modulus, and
    /// where a signature did not pass its check: a fault of the hardware, and reason to sign again by other means. Constant time in the key
    /// and the representatives.
    pub fn sign(&self, representatives: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let batches = representatives.chunks(BATCH_SIZE);
        batches.flat_map(|batch| self.sign_batch(batch).into_iter().take(batch.len())).collect()
    }

    fn sign_batch(&self, batch: &[&[u8]]) -> [Option<Vec<u8>>; BATCH_SIZE] {
        match self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Ifma(cpu) => sign_with_ifma(cpu, &self.key, batch),
            #[cfg(any(test, feature = "model"))]
            Kernel::Model => sign::sign::<Model>(ModelCpu, &self.key, batch),
        }
    }
}

#[cfg(target_arch = "x86_64")]
entry! {
    fn sign_with_ifma(cpu: Ifma, key: &SigningNumbers, batch: &[&[u8]]) -> [Option<Vec<u8>>; BATCH_SIZE] {
        sign::sign::<Avx512<_>>(cpu, key, batch)
    }
}
