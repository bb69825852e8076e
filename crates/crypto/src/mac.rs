//! HMAC (RFC 2104) over every hash function of [`crate::digest`], whole or in pieces. Keys have any length.

use zeroize::Zeroizing;

use crate::digest::{BLOCK_SIZE_MAX, DIGEST_SIZE_MAX, DigestAlgorithm, DigestState};

/// HMAC is not defined over this function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("HMAC is not defined over extendable-output functions")]
pub struct NoMac;

/// An HMAC key, hashed into both states: a short message then takes two compressions instead of four. Wiped on drop.
#[derive(Clone)]
pub struct MacKey {
    algorithm: DigestAlgorithm,
    states: Box<HmacStates>,
}

/// The states after the key's two blocks.
#[derive(Clone)]
struct HmacStates {
    inner: DigestState,
    outer: DigestState,
}

impl std::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MacKey({}, …)", self.algorithm.name())
    }
}

impl MacKey {
    /// Takes a key of any length; one longer than a block is hashed first.
    ///
    /// # Errors
    /// [`NoMac`] for an algorithm without [`DigestAlgorithm::has_mac`].
    pub fn new(algorithm: DigestAlgorithm, key: &[u8]) -> Result<Self, NoMac> {
        if !algorithm.has_mac() {
            return Err(NoMac);
        }
        let mut block = Zeroizing::new([0; BLOCK_SIZE_MAX]);
        let block = &mut block[..algorithm.block_size()];
        if key.len() > block.len() {
            algorithm.digest(key, &mut block[..algorithm.size()]);
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let mut states = Box::new(HmacStates { inner: algorithm.start(), outer: algorithm.start() });
        block.iter_mut().for_each(|byte| *byte ^= 0x36);
        states.inner.update(block);
        block.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
        states.outer.update(block);
        Ok(Self { algorithm, states })
    }

    /// The hash function.
    pub fn algorithm(&self) -> DigestAlgorithm {
        self.algorithm
    }

    /// The words of both states, inner first, for HMAC-SHA-256.
    pub(crate) fn sha256_states(&self) -> Option<[[u32; 8]; 2]> {
        Some([self.states.inner.sha256_words()?, self.states.outer.sha256_words()?])
    }

    /// Begins a message.
    pub fn start(&self) -> MacState {
        MacState { algorithm: self.algorithm, states: self.states.clone() }
    }

    /// The code of `message`; fills `mac`.
    ///
    /// # Panics
    /// When `mac` has another length than [`DigestAlgorithm::size`].
    pub fn mac(&self, message: &[u8], mac: &mut [u8]) {
        let mut inner = self.states.inner.clone();
        inner.update(message);
        finish(self.algorithm, inner, self.states.outer.clone(), mac);
    }
}

/// A message being authenticated. Wiped on drop.
#[derive(Clone)]
pub struct MacState {
    algorithm: DigestAlgorithm,
    states: Box<HmacStates>,
}

impl std::fmt::Debug for MacState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MacState({}, …)", self.algorithm.name())
    }
}

impl MacState {
    /// Takes the next piece of the message.
    pub fn update(&mut self, bytes: &[u8]) {
        self.states.inner.update(bytes);
    }

    /// Ends the message with its code, which fills `mac`.
    ///
    /// # Panics
    /// When `mac` has another length than [`DigestAlgorithm::size`].
    pub fn finish(self, mac: &mut [u8]) {
        let HmacStates { inner, outer } = *self.states;
        finish(self.algorithm, inner, outer, mac);
    }
}

fn finish(algorithm: DigestAlgorithm, inner: DigestState, mut outer: DigestState, mac: &mut [u8]) {
    let mut digest = Zeroizing::new([0; DIGEST_SIZE_MAX]);
    let digest = &mut digest[..algorithm.size()];
    inner.finish(digest);
    outer.update(digest);
    outer.finish(mac);
}
