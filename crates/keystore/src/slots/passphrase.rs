//! Slots that a passphrase opens: Argon2id (RFC 9106) makes a key of it, slowly and with much memory, so that guesses are costly.

use leafseal_crypto::CryptoRng;
use leafseal_crypto::argon2::{Argon2Cost, argon2id};
use zeroize::Zeroizing;

use super::provider::{OPENING_WORK_MAX, ProviderError, SlotKind, SlotPlace, SlotProvider};
use crate::root_key::StoreRoot;

/// Shortest passphrase in bytes.
pub const PASSPHRASE_SIZE_MIN: usize = 12;
/// Longest passphrase in bytes.
pub const PASSPHRASE_SIZE_MAX: usize = 1024;
const SALT_SIZE: usize = 16;
/// First byte of what is stored.
const VERSION: u8 = 1;
/// `01 ‖ memory ‖ passes ‖ lanes`, before the salt.
const COST_SIZE: usize = 13;

/// The most that an engine pays for what a row of a database says, so that an edited one takes neither all memory nor all time; the
/// product of memory and passes is also at most [`OPENING_WORK_MAX`].
pub const ARGON2_COST_MAX: Argon2Cost = Argon2Cost { memory_kib: 2 * 1024 * 1024, passes: 16, lanes: 16 };

fn check(cost: Argon2Cost) -> Result<Argon2Cost, ProviderError> {
    let Argon2Cost { memory_kib, passes, lanes } = ARGON2_COST_MAX;
    let fits = (1..=lanes).contains(&cost.lanes)
        && (1..=passes).contains(&cost.passes)
        && (8 * cost.lanes..=memory_kib).contains(&cost.memory_kib)
        && work(cost) <= OPENING_WORK_MAX;
    if fits { Ok(cost) } else { Err(ProviderError::Bounds("the costs of Argon2id are out of bounds")) }
}

fn work(cost: Argon2Cost) -> u64 {
    u64::from(cost.memory_kib) * u64::from(cost.passes)
}

/// The costs that a slot names, if it is long enough.
fn stored_cost(wrapped: &[u8]) -> Option<Argon2Cost> {
    let number = |index: usize| Some(u32::from_be_bytes(*wrapped.get(index..)?.first_chunk()?));
    Some(Argon2Cost { memory_kib: number(1)?, passes: number(5)?, lanes: number(9)? })
}

/// A passphrase, wiped on drop.
pub struct Passphrase {
    text: Zeroizing<String>,
    cost: Argon2Cost,
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(…)")
    }
}

impl Passphrase {
    /// A passphrase of [`PASSPHRASE_SIZE_MIN`] to [`PASSPHRASE_SIZE_MAX`] bytes; white space around it is ignored.
    ///
    /// # Errors
    /// [`ProviderError::Bounds`].
    pub fn new(text: &str) -> Result<Self, ProviderError> {
        let text = text.trim_ascii();
        if !(PASSPHRASE_SIZE_MIN..=PASSPHRASE_SIZE_MAX).contains(&text.len()) {
            return Err(ProviderError::Bounds("a passphrase has 12 to 1024 bytes"));
        }
        Ok(Self { text: Zeroizing::new(text.to_owned()), cost: Argon2Cost::default() })
    }

    /// The same, with other costs for slots that it makes.
    ///
    /// # Errors
    /// [`ProviderError::Bounds`] above [`ARGON2_COST_MAX`].
    pub fn with_cost(self, cost: Argon2Cost) -> Result<Self, ProviderError> {
        Ok(Self { cost: check(cost)?, ..self })
    }

    fn key(&self, cost: Argon2Cost, salt: &[u8; SALT_SIZE]) -> Result<StoreRoot, ProviderError> {
        Ok(StoreRoot::from_bytes(argon2id(self.text.as_bytes(), salt, check(cost)?)))
    }
}

impl SlotProvider for Passphrase {
    fn kind(&self) -> SlotKind {
        SlotKind::Passphrase
    }

    /// `01 ‖ KiB (4) ‖ passes (4) ‖ lanes (4) ‖ salt (16) ‖ sealed`; all before what is sealed is in its associated data.
    fn wrap(&self, place: &SlotPlace, secret: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        let Argon2Cost { memory_kib, passes, lanes } = self.cost;
        let mut wrapped = vec![VERSION];
        [memory_kib, passes, lanes].iter().for_each(|cost| wrapped.extend(cost.to_be_bytes()));
        let mut salt = [0; SALT_SIZE];
        rng.fill_bytes(&mut salt);
        wrapped.extend(salt);
        let aad = [&place.associated_data(), wrapped.as_slice()].concat();
        wrapped.extend(self.key(self.cost, &salt)?.seal(&aad, secret, rng));
        Ok(wrapped)
    }

    fn tries_max(&self) -> usize {
        usize::MAX
    }

    /// Costs that are out of bounds are refused before anything is computed.
    fn work(&self, wrapped: &[u8]) -> u64 {
        stored_cost(wrapped).and_then(|cost| check(cost).ok()).map_or(0, work)
    }

    fn is_automatic(&self) -> bool {
        false
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let (header, sealed) = wrapped.split_at_checked(COST_SIZE + SALT_SIZE).ok_or(ProviderError::Refused)?;
        let (_, salt) = header.split_at(COST_SIZE);
        if header[0] != VERSION {
            return Err(ProviderError::Bounds("the slot is of a newer Leafseal: use that"));
        }
        let cost = stored_cost(header).ok_or(ProviderError::Refused)?;
        let aad = [&place.associated_data(), header].concat();
        self.key(cost, salt.first_chunk().expect("16 bytes"))?.open(&aad, sealed).map_err(|_| ProviderError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SlotId;
    use crate::store_id::StoreId;

    fn place() -> SlotPlace {
        SlotPlace { store: StoreId([9; 16]), slot: SlotId::from_bytes([7; 8]), kind: SlotKind::Passphrase }
    }

    fn cheap(text: &str) -> Passphrase {
        let cost = Argon2Cost { memory_kib: 32, passes: 1, lanes: 1 };
        Passphrase::new(text).and_then(|passphrase| passphrase.with_cost(cost)).expect("in bounds")
    }

    #[test]
    fn a_slot_opens_with_its_passphrase_in_its_place_only() {
        let mut rng = leafseal_crypto::random::system_random();
        let wrapped = cheap("correct horse battery").wrap(&place(), &[1; 88], &mut rng).expect("wrapped");
        let opened = cheap(" correct horse battery\n").unwrap(&place(), &wrapped).expect("opened");
        assert_eq!(*opened, [1; 88]);
        assert_eq!(cheap("correct horse batter").unwrap(&place(), &wrapped), Err(ProviderError::Refused));
        let elsewhere = SlotPlace { slot: SlotId::from_bytes([8; 8]), ..place() };
        assert_eq!(cheap("correct horse battery").unwrap(&elsewhere, &wrapped), Err(ProviderError::Refused));
        for index in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[index] ^= 1;
            assert!(cheap("correct horse battery").unwrap(&place(), &changed).is_err(), "byte {index}");
            assert!(cheap("correct horse battery").unwrap(&place(), &wrapped[..index]).is_err(), "{index} bytes");
        }
    }

    #[test]
    fn costs_from_a_database_are_bounded() {
        let mut rng = leafseal_crypto::random::system_random();
        let wrapped = cheap("correct horse battery").wrap(&place(), &[1; 88], &mut rng).expect("wrapped");
        for (index, cost) in [(1, u32::MAX), (1, 0), (5, 1000), (5, 0), (9, 17), (9, 0)] {
            let mut changed = wrapped.clone();
            changed[index..index + 4].copy_from_slice(&cost.to_be_bytes());
            let error = cheap("correct horse battery").unwrap(&place(), &changed).expect_err("refused");
            assert_eq!(error, ProviderError::Bounds("the costs of Argon2id are out of bounds"), "{index} {cost}");
        }
        assert!(Passphrase::new(&"x".repeat(PASSPHRASE_SIZE_MIN - 1)).is_err());
        assert!(Passphrase::new(&"x".repeat(PASSPHRASE_SIZE_MIN)).is_ok());
        assert!(Passphrase::new(&"x".repeat(PASSPHRASE_SIZE_MAX + 1)).is_err());
    }
}
