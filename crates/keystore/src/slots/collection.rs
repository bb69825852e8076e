//! Shares of one slot that several people bring, one after the other.

use super::id::SlotId;
use super::shamir::{KeyShare, ShamirKey, ShareError};

/// The shares of a slot that were brought so far: always fewer than open it. They are wiped when it is dropped.
#[derive(Debug, Default)]
pub struct ShareCollection {
    held: Vec<KeyShare>,
}

/// What shares have come to.
#[derive(Debug)]
pub enum CollectedShares {
    /// So many more are needed.
    Missing(u8),
    /// They make this key; none is held any more.
    Complete(ShamirKey),
}

impl ShareCollection {
    /// The slot whose shares are held.
    pub fn slot(&self) -> Option<&SlotId> {
        self.held.first().map(KeyShare::slot)
    }

    /// Adds shares; one that is held already counts once.
    ///
    /// # Errors
    /// [`ShareError`], and those that are held stay as they were, except where all together make no key: then none of them is held.
    pub fn add(&mut self, new: &[KeyShare]) -> Result<CollectedShares, ShareError> {
        let all = KeyShare::distinct(self.held.iter().chain(new))?;
        let (given, first) = (all.len(), all.first().ok_or(ShareError::Bounds)?);
        match usize::from(first.threshold()).checked_sub(given) {
            None | Some(0) => {
                self.held.clear();
                ShamirKey::from_shares(&all).map(CollectedShares::Complete)
            }
            Some(missing) => {
                self.held = all;
                Ok(CollectedShares::Missing(u8::try_from(missing).unwrap_or(u8::MAX)))
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.held = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(slot: u8) -> Vec<KeyShare> {
        let mut rng = leafseal_crypto::random::system_random();
        let key = ShamirKey::generate((2, 3), &mut rng).expect("in bounds");
        key.shares(&SlotId::from_bytes([slot; 8]), (2, 3), &mut rng)
    }

    #[test]
    fn shares_of_one_slot_add_up_and_others_change_nothing() {
        let (shares, others) = (shares(1), shares(2));
        let mut collection = ShareCollection::default();
        assert!(matches!(collection.add(&shares[..1]), Ok(CollectedShares::Missing(1))));
        assert!(matches!(collection.add(&shares[..1]), Ok(CollectedShares::Missing(1))), "the same again");
        assert_eq!(collection.add(&others[1..2]).expect_err("of another slot"), ShareError::Different);
        assert_eq!(collection.slot(), Some(shares[0].slot()));
        assert!(matches!(collection.add(&shares[2..]), Ok(CollectedShares::Complete(_))));
        assert_eq!(collection.slot(), None, "all are forgotten");
        assert!(matches!(collection.add(&others[..1]), Ok(CollectedShares::Missing(1))));
        collection.clear();
        assert!(matches!(collection.add(&shares[1..]), Ok(CollectedShares::Complete(_))));
        assert_eq!(collection.add(&[]).expect_err("no share"), ShareError::Bounds);
    }
}
