//! The id of a slot.

use std::fmt;

use leafseal_crypto::CryptoRng;

/// Bytes of a slot's id.
pub(crate) const ID_SIZE: usize = 8;

/// The id of a slot: random, 16 hexadecimal digits as text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId([u8; ID_SIZE]);

/// Not the id of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a slot has 16 hexadecimal digits, as leafseal slot list shows it")]
pub struct InvalidSlotId;

impl SlotId {
    pub(crate) fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut id = Self([0; ID_SIZE]);
        rng.fill_bytes(&mut id.0);
        id
    }

    pub(crate) fn from_bytes(bytes: [u8; ID_SIZE]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; ID_SIZE] {
        &self.0
    }

    /// Parses an id.
    ///
    /// # Errors
    /// [`InvalidSlotId`].
    pub fn parse(text: &str) -> Result<Self, InvalidSlotId> {
        let mut id = Self([0; ID_SIZE]);
        hex::decode_to_slice(text, &mut id.0).map_err(|_| InvalidSlotId)?;
        Ok(id)
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotId({self})")
    }
}
