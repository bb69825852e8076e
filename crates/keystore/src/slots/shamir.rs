//! Slots that some of several shares open (Shamir, "How to share a secret", 1979): fewer reveal nothing.
//!
//! Each byte of a key is the value at 0 of a polynomial over GF(2^8), with AES's field polynomial, whose other coefficients are random; a
//! share has the values at its index. Products and inverses take no tables and no branches on secrets.

use std::collections::BTreeMap;
use std::fmt;

use base64ct::{Base64, Encoding};
use leafseal_crypto::hash::sha256;
use leafseal_crypto::{CryptoRng, GuardedSecret, Secret};
use zeroize::Zeroizing;

use super::id::SlotId;
use super::provider::{ProviderError, SlotKind, SlotPlace, SlotProvider};
use crate::root_key::{ROOT_SIZE, StoreRoot};

/// Most shares of a slot.
pub const SHARE_COUNT_MAX: u8 = 64;

/// The prefix of a share's text; the number is the version of its form.
const TEXT_PREFIX: &str = "leafseal-share-1:";
/// `slot (8) ‖ threshold ‖ index ‖ values (32)`, before the checksum.
const BODY_SIZE: usize = 8 + 2 + ROOT_SIZE;
/// The first bytes of SHA-256 of the body: for slips of the pen, not against forgers.
const CHECKSUM_SIZE: usize = 4;

/// One share of a slot's key, wiped on drop.
#[derive(Clone)]
pub struct KeyShare {
    slot: SlotId,
    threshold: u8,
    index: u8,
    values: GuardedSecret,
}

impl fmt::Debug for KeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyShare({}, {}, …)", self.slot, self.index)
    }
}

/// Why a text is no share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShare {
    /// It is another text, or incomplete.
    #[error("not a share: it is one line, leafseal-share-1: and base64")]
    Text,
    /// The checksum does not fit the rest.
    #[error("the share has a typing error: its checksum does not fit")]
    Checksum,
}

/// Why shares do not make a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// Fewer different ones than the slot needs.
    #[error("{given} of {needed} shares of slot {slot}: give the others")]
    TooFew {
        /// The slot.
        slot: SlotId,
        /// Different shares that were given.
        given: usize,
        /// Shares that are needed.
        needed: u8,
    },
    /// They are of different slots, or two of one index differ.
    #[error("the shares are not of one slot")]
    Different,
    /// They name this slot, and are not of it as the store has it.
    #[error("not a share of slot {0} as the keystore has it")]
    Unfit(SlotId),
    /// No slot has such numbers.
    #[error("a slot has 2 to 64 shares, of which 2 or more open it")]
    Bounds,
}

impl KeyShare {
    /// Parses the text form; white space around it is ignored.
    ///
    /// # Errors
    /// [`InvalidShare`], which holds nothing of the text.
    pub fn from_text(text: &str) -> Result<Self, InvalidShare> {
        let base64 = text.trim_ascii().strip_prefix(TEXT_PREFIX).ok_or(InvalidShare::Text)?;
        let mut bytes = Zeroizing::new([0; BODY_SIZE + CHECKSUM_SIZE]);
        match Base64::decode(base64, bytes.as_mut_slice()) {
            Ok(decoded) if decoded.len() == BODY_SIZE + CHECKSUM_SIZE => {}
            _ => return Err(InvalidShare::Text),
        }
        let (body, checksum) = bytes.split_at(BODY_SIZE);
        if sha256(&[body])[..CHECKSUM_SIZE] != *checksum {
            return Err(InvalidShare::Checksum);
        }
        let slot = SlotId::from_bytes(*body.first_chunk().expect("8 bytes"));
        let (threshold, index) = (body[8], body[9]);
        let values = GuardedSecret::from_bytes(body[10..].try_into().expect("32 bytes"));
        if index == 0 || !(2..=SHARE_COUNT_MAX).contains(&threshold) {
            return Err(InvalidShare::Text);
        }
        Ok(Self { slot, threshold, index, values })
    }

    /// The text form, without a line break.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(BODY_SIZE + CHECKSUM_SIZE));
        bytes.extend_from_slice(self.slot.bytes());
        bytes.extend_from_slice(&[self.threshold, self.index]);
        bytes.extend_from_slice(self.values.expose());
        let checksum = sha256(&[&bytes]);
        bytes.extend_from_slice(&checksum[..CHECKSUM_SIZE]);
        let base64 = Zeroizing::new(Base64::encode_string(&bytes));
        Zeroizing::new([TEXT_PREFIX, &base64].concat())
    }

    /// Each of the shares once, if they are of one slot.
    pub(super) fn distinct<'s>(shares: impl Iterator<Item = &'s Self>) -> Result<Vec<Self>, ShareError> {
        Ok(by_index(shares)?.into_values().cloned().collect())
    }

    /// The slot that it is of.
    pub fn slot(&self) -> &SlotId {
        &self.slot
    }

    /// Its number, from 1.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// How many shares open the slot.
    pub fn threshold(&self) -> u8 {
        self.threshold
    }
}

/// The key of a slot, which its shares are made of, or which they make.
pub struct ShamirKey {
    key: StoreRoot,
    /// `2 of 3`.
    name: String,
    /// Of shares.
    slot: Option<SlotId>,
}

impl fmt::Debug for ShamirKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShamirKey({}, …)", self.name)
    }
}

impl ShamirKey {
    /// A new key, of which `threshold` of `count` shares are to be needed.
    ///
    /// # Errors
    /// [`ShareError::Bounds`] unless 2 ≤ `threshold` ≤ `count` ≤ [`SHARE_COUNT_MAX`].
    pub fn generate((threshold, count): (u8, u8), rng: &mut dyn CryptoRng) -> Result<Self, ShareError> {
        if threshold < 2 || threshold > count || count > SHARE_COUNT_MAX {
            return Err(ShareError::Bounds);
        }
        Ok(Self { key: StoreRoot::generate(rng), name: name(threshold, count), slot: None })
    }

    /// The shares of a key that was generated, for the slot that was made with it.
    pub fn shares(&self, slot: &SlotId, (threshold, count): (u8, u8), rng: &mut dyn CryptoRng) -> Vec<KeyShare> {
        let mut coefficients: Vec<Secret<ROOT_SIZE>> = vec![Secret::from_bytes(self.key.bytes().expose())];
        coefficients.extend((1..threshold).map(|_| Secret::random(rng)));
        let share = |index: u8| {
            let mut values = GuardedSecret::zeroed();
            for (place, value) in values.expose_mut().iter_mut().enumerate() {
                let from_highest = coefficients.iter().rev().map(|coefficient| coefficient.expose()[place]);
                *value = from_highest.fold(0, |sum, coefficient| multiply(sum, index) ^ coefficient);
            }
            KeyShare { slot: slot.clone(), threshold, index, values }
        };
        (1..=count).map(share).collect()
    }

    /// The key of shares of one slot; more than are needed must fit, too.
    ///
    /// # Errors
    /// [`ShareError`]. Whether the key is the right one shows when it opens the slot.
    pub fn from_shares(shares: &[KeyShare]) -> Result<Self, ShareError> {
        let by_index = by_index(shares.iter())?;
        let (_, first) = by_index.first_key_value().ok_or(ShareError::Bounds)?;
        let (needed, slot) = (first.threshold, first.slot.clone());
        if by_index.len() < usize::from(needed) {
            return Err(ShareError::TooFew { slot, given: by_index.len(), needed });
        }
        let all: Vec<&KeyShare> = by_index.into_values().collect();
        let (used, more) = all.split_at(usize::from(needed));
        if more.iter().any(|share| GuardedSecret::from(interpolate(used, share.index)) != share.values) {
            return Err(ShareError::Different);
        }
        let key = StoreRoot::from_bytes(interpolate(used, 0));
        Ok(Self { key, name: String::new(), slot: Some(slot) })
    }
}

/// The name of a slot's key, which says how many shares open it.
fn name(threshold: u8, count: u8) -> String {
    format!("{threshold} of {count}")
}

/// How many shares open a slot whose key has this name.
pub(super) fn threshold(name: &str) -> Option<u8> {
    let threshold = name.split_once(" of ")?.0.parse().ok()?;
    (2..=SHARE_COUNT_MAX).contains(&threshold).then_some(threshold)
}

/// Shares of one slot by their indexes.
fn by_index<'s>(shares: impl Iterator<Item = &'s KeyShare>) -> Result<BTreeMap<u8, &'s KeyShare>, ShareError> {
    let mut all: BTreeMap<u8, &KeyShare> = BTreeMap::new();
    for share in shares {
        let first = all.first_entry().map(|first| *first.get());
        let is_same = first.is_none_or(|first| share.slot == first.slot && share.threshold == first.threshold);
        let known = all.insert(share.index, share);
        if !is_same || known.is_some_and(|known| known.values != share.values) {
            return Err(ShareError::Different);
        }
    }
    Ok(all)
}

/// The values at `index` of the polynomials through `shares` (Lagrange).
fn interpolate(shares: &[&KeyShare], index: u8) -> Secret<ROOT_SIZE> {
    let mut values = Secret::zeroed();
    for share in shares {
        let others = shares.iter().filter(|other| other.index != share.index);
        let weight = others.fold(1, |product, other| {
            let quotient = multiply(other.index ^ index, inverse(other.index ^ share.index));
            multiply(product, quotient)
        });
        for (value, of_share) in values.expose_mut().iter_mut().zip(share.values.expose()) {
            *value ^= multiply(*of_share, weight);
        }
    }
    values
}

/// The product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1, in the same steps for all factors.
fn multiply(mut left: u8, right: u8) -> u8 {
    let mut product = 0;
    for bit in 0..8 {
        product ^= left & 0u8.wrapping_sub((right >> bit) & 1);
        let carry = 0u8.wrapping_sub(left >> 7);
        left = (left << 1) ^ (0x1b & carry);
    }
    product
}

/// The inverse, x^254; 0 for 0.
fn inverse(of: u8) -> u8 {
    let square = |value| multiply(value, value);
    // 254 = 2 + 4 + … + 128.
    let mut power = square(of);
    let mut product = power;
    for _ in 0..6 {
        power = square(power);
        product = multiply(product, power);
    }
    product
}

impl SlotProvider for ShamirKey {
    fn kind(&self) -> SlotKind {
        SlotKind::Shamir
    }

    fn key_name(&self) -> String {
        self.name.clone()
    }

    fn may_open(&self, _: &str) -> bool {
        true
    }

    fn wrap(&self, place: &SlotPlace, secret: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        Ok(self.key.seal(&place.associated_data(), secret, rng))
    }

    fn tries_max(&self) -> usize {
        usize::MAX
    }

    fn is_automatic(&self) -> bool {
        false
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        if self.slot.as_ref().is_some_and(|slot| *slot != place.slot) {
            return Err(ProviderError::Refused);
        }
        self.key.open(&place.associated_data(), wrapped).map_err(|_| ProviderError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::random::system_random;

    use super::*;

    /// The field by its definition: carry-less product, then division by the polynomial.
    fn slow_product(left: u8, right: u8) -> u8 {
        let mut product =
            (0..8).filter(|bit| right >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (u16::from(left) << bit));
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11b << (bit - 8);
            }
        }
        u8::try_from(product).expect("reduced")
    }

    #[test]
    fn the_field_is_that_of_aes() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(multiply(left, right), slow_product(left, right), "{left} {right}");
            }
            assert_eq!(slow_product(left, inverse(left)), u8::from(left != 0));
        }
    }

    #[test]
    fn any_shares_that_suffice_make_the_key_and_fewer_do_not() {
        let (mut rng, slot) = (system_random(), SlotId::from_bytes([5; 8]));
        for sizes in [(2, 2), (2, 3), (3, 5), (5, 5), (64, 64)] {
            let key = ShamirKey::generate(sizes, &mut rng).expect("in bounds");
            let shares = key.shares(&slot, sizes, &mut rng);
            for start in 0..usize::from(sizes.1) {
                let mut rotated = shares.clone();
                rotated.rotate_left(start);
                let some = &rotated[..usize::from(sizes.0)];
                assert_eq!(ShamirKey::from_shares(some).expect("enough").key.bytes(), key.key.bytes());
                let fewer = ShamirKey::from_shares(&some[1..]).expect_err("too few");
                assert!(matches!(fewer, ShareError::TooFew { .. }));
            }
            assert_eq!(ShamirKey::from_shares(&shares).expect("all").key.bytes(), key.key.bytes());
        }
    }

    /// With one share fewer than are needed every key is possible: there is a share that completes it to any.
    #[test]
    fn too_few_shares_tell_nothing() {
        let (mut rng, slot) = (system_random(), SlotId::from_bytes([5; 8]));
        let key = ShamirKey::generate((2, 2), &mut rng).expect("in bounds");
        let known = &key.shares(&slot, (2, 2), &mut rng)[0];
        for wanted in 0..=255 {
            // The line through (0, wanted) and the share; its value at 2.
            let zero = KeyShare {
                slot: slot.clone(),
                threshold: 2,
                index: 3,
                values: GuardedSecret::from_bytes(&[wanted; 32]),
            };
            let completing = interpolate(&[known, &zero], 2);
            let second = KeyShare { slot: slot.clone(), threshold: 2, index: 2, values: completing.into() };
            assert_eq!(interpolate(&[known, &second], 3).expose(), &[wanted; 32]);
        }
    }

    #[test]
    fn shares_are_read_as_written_and_slips_are_noticed() {
        let (mut rng, slot) = (system_random(), SlotId::from_bytes([5; 8]));
        let key = ShamirKey::generate((2, 3), &mut rng).expect("in bounds");
        let shares = key.shares(&slot, (2, 3), &mut rng);
        let texts: Vec<String> = shares.iter().map(|share| format!(" {}\n", *share.to_text())).collect();
        let read: Vec<KeyShare> = texts.iter().map(|text| KeyShare::from_text(text).expect("a share")).collect();
        assert_eq!(ShamirKey::from_shares(&read[1..]).expect("enough").key.bytes(), key.key.bytes());
        let text = shares[0].to_text();
        let base64 = &text[TEXT_PREFIX.len()..];
        for (place, letter) in base64.char_indices().filter(|(_, letter)| *letter != '=') {
            let other = if letter == 'A' { 'B' } else { 'A' };
            let slip = format!("{TEXT_PREFIX}{}{other}{}", &base64[..place], &base64[place + 1..]);
            assert!(KeyShare::from_text(&slip).is_err(), "{place}");
        }
        for other in ["", TEXT_PREFIX, base64, &text[..text.len() - 4], &format!("{}AAAA", *text)] {
            assert!(KeyShare::from_text(other).is_err(), "{other}");
        }
        let of_other = key.shares(&SlotId::from_bytes([6; 8]), (2, 3), &mut rng);
        let mixed = [shares[0].clone(), of_other[1].clone()];
        assert_eq!(ShamirKey::from_shares(&mixed).err(), Some(ShareError::Different));
        let others = key.shares(&slot, (2, 3), &mut rng);
        let mixed = [shares[0].clone(), shares[1].clone(), others[2].clone()];
        assert_eq!(ShamirKey::from_shares(&mixed).err(), Some(ShareError::Different));
        assert_eq!(format!("{:?}", shares[0]), "KeyShare(0505050505050505, 1, …)");
    }
}
