//! Shares of slots that several people bring, one after the other.
//!
//! What one person brings cannot undo what others have brought: the shares are kept by slot and bringer, and if more are there than are
//! needed, sets of bringers are tried, fewest left out first. How many are needed says the slot, not a share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leafseal_crypto::CryptoRng;
use zeroize::Zeroizing;

use super::id::SlotId;
use super::provider::{ProviderError, SlotKind, SlotPlace, SlotProvider};
use super::shamir::{KeyShare, ShamirKey, ShareError};
use super::slot::SlotSummary;

/// What shares may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// Slots of which shares of one bringer are kept; the oldest are forgotten.
    pub bringer_slots_max: usize,
    /// Sets of bringers that are looked at for one slot.
    pub sets_max: usize,
}

impl Default for ShareLimits {
    /// Of 4 slots; all sets of up to 12 bringers, of 20 those that leave out up to three.
    fn default() -> Self {
        Self { bringer_slots_max: 4, sets_max: 4_096 }
    }
}

/// The shares that were brought so far, of each slot and bringer. They are wiped when they are dropped.
#[derive(Debug)]
pub struct ShareCollection<B> {
    /// Oldest first.
    held: Vec<BroughtShares<B>>,
    limits: ShareLimits,
}

#[derive(Debug, Clone)]
struct BroughtShares<B> {
    bringer: B,
    slot: SlotId,
    /// One of each index.
    shares: Vec<KeyShare>,
    brought: Instant,
}

/// What shares have come to.
#[derive(Debug)]
pub enum CollectedShares<B> {
    /// So many more are needed.
    Missing(u8),
    /// There are enough; whether they open the slot shows when it is tried.
    Enough(CandidateKeys<B>),
}

impl<B> Default for ShareCollection<B> {
    fn default() -> Self {
        Self::new(ShareLimits::default())
    }
}

impl<B> ShareCollection<B> {
    /// None yet.
    pub fn new(limits: ShareLimits) -> Self {
        Self { held: Vec::new(), limits }
    }
}

impl<B: Clone + PartialEq> ShareCollection<B> {
    /// Adds shares of `slot`; a bringer's share takes the place of the one with its index that the same bringer brought before.
    ///
    /// # Errors
    /// [`ShareError`] if they are not of this slot; nothing has changed then.
    pub fn add(
        &mut self,
        bringer: &B,
        slot: &SlotSummary,
        shares: &[KeyShare],
        now: Instant,
    ) -> Result<CollectedShares<B>, ShareError> {
        let unfit = || ShareError::Unfit(slot.id.clone());
        let needed = slot.shares_needed().ok_or_else(unfit)?;
        let new = KeyShare::distinct(shares.iter())?;
        let is_of_slot = |share: &KeyShare| share.slot() == &slot.id && share.threshold() == needed;
        if new.is_empty() || !new.iter().all(is_of_slot) {
            return Err(unfit());
        }
        self.keep(bringer, &slot.id, new, now);
        let brought: Vec<BroughtShares<B>> = self.held.iter().filter(|held| held.slot == slot.id).cloned().collect();
        let mut indexes: Vec<u8> = brought.iter().flat_map(|held| &held.shares).map(KeyShare::index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        match usize::from(needed).checked_sub(indexes.len()) {
            None | Some(0) => {
                let left_out = OnceLock::new();
                let (slot, sets_max) = (slot.id.clone(), self.limits.sets_max);
                Ok(CollectedShares::Enough(CandidateKeys(Candidates { slot, brought, sets_max, left_out }.into())))
            }
            Some(missing) => Ok(CollectedShares::Missing(u8::try_from(missing).unwrap_or(u8::MAX))),
        }
    }

    fn keep(&mut self, bringer: &B, slot: &SlotId, new: Vec<KeyShare>, now: Instant) {
        let before = self.held.iter().position(|held| held.bringer == *bringer && held.slot == *slot);
        let mut shares = before.map(|place| self.held.remove(place).shares).unwrap_or_default();
        shares.retain(|share| new.iter().all(|newer| newer.index() != share.index()));
        shares.extend(new);
        let own = |held: &BroughtShares<B>| held.bringer == *bringer;
        if self.held.iter().filter(|held| own(held)).count() >= self.limits.bringer_slots_max
            && let Some(oldest) = self.held.iter().position(own)
        {
            self.held.remove(oldest);
        }
        self.held.push(BroughtShares { bringer: bringer.clone(), slot: slot.clone(), shares, brought: now });
    }

    /// Forgets the shares that were brought `age_max` ago or before; returns whether there were any.
    pub fn expire(&mut self, now: Instant, age_max: Duration) -> bool {
        let before = self.held.len();
        self.held.retain(|held| now.saturating_duration_since(held.brought) < age_max);
        self.held.len() < before
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.held = Vec::new();
    }
}

/// The keys that the shares of one slot make.
#[derive(Debug)]
pub struct CandidateKeys<B>(Arc<Candidates<B>>);

#[derive(Debug)]
struct Candidates<B> {
    slot: SlotId,
    brought: Vec<BroughtShares<B>>,
    sets_max: usize,
    /// The places of those that the key which opened the slot leaves out.
    left_out: OnceLock<Vec<usize>>,
}

impl<B: Clone + Send + Sync + 'static> CandidateKeys<B> {
    /// What tries them one after the other.
    pub fn provider(&self) -> Box<dyn SlotProvider> {
        Box::new(Self(Arc::clone(&self.0)))
    }

    /// The bringers whose shares do not fit the key that opened the slot; none before it has opened.
    pub fn misfits(&self) -> Vec<B> {
        // Sets that leave out fewer were tried before: what is left out fits no more.
        let left_out = self.0.left_out.get().map_or(&[][..], Vec::as_slice);
        left_out.iter().map(|place| self.0.brought[*place].bringer.clone()).collect()
    }
}

impl<B> Candidates<B> {
    /// The key of all shares but those at some places, if they are enough and fit each other.
    fn key(&self, left_out: &[usize]) -> Option<ShamirKey> {
        let with = self.brought.iter().enumerate().filter(|(place, _)| !left_out.contains(place));
        let shares: Vec<KeyShare> = with.flat_map(|(_, held)| held.shares.iter().cloned()).collect();
        ShamirKey::from_shares(&shares).ok()
    }
}

impl<B: Send + Sync> SlotProvider for CandidateKeys<B> {
    fn kind(&self) -> SlotKind {
        SlotKind::Shamir
    }

    fn may_open(&self, _: &str) -> bool {
        true
    }

    fn wrap(&self, _: &SlotPlace, _: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        Err(ProviderError::Bounds("shares make no slot"))
    }

    fn tries_max(&self) -> usize {
        usize::MAX
    }

    fn is_automatic(&self) -> bool {
        false
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let Self(candidates) = self;
        if place.slot != candidates.slot {
            return Err(ProviderError::Refused);
        }
        for left_out in subsets(candidates.brought.len()).take(candidates.sets_max) {
            let opened = candidates.key(&left_out).map(|key| key.unwrap(place, wrapped));
            if let Some(Ok(plain)) = opened {
                // It is set already if the store is opened a second time.
                let _ = candidates.left_out.set(left_out);
                return Ok(plain);
            }
        }
        Err(ProviderError::Refused)
    }
}

/// The subsets of the numbers below `count`, smaller ones first.
fn subsets(count: usize) -> impl Iterator<Item = Vec<usize>> {
    let first = move |size: usize| (size <= count).then(|| (0..size).collect::<Vec<usize>>());
    std::iter::successors(first(0), move |subset| {
        let mut next = subset.clone();
        let size = next.len();
        match (0..size).rev().find(|place| next[*place] + (size - place) < count) {
            None => first(size + 1),
            Some(place) => {
                next[place] += 1;
                (place + 1..size).for_each(|after| next[after] = next[after - 1] + 1);
                Some(next)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::random::system_random;

    use super::*;
    use crate::store_id::StoreId;

    /// A slot of which some of several shares are needed, with what it wraps.
    struct Shared {
        slot: SlotSummary,
        shares: Vec<KeyShare>,
        place: SlotPlace,
        wrapped: Vec<u8>,
    }

    impl Shared {
        fn new(id: u8, sizes: (u8, u8)) -> Self {
            let (mut rng, id) = (system_random(), SlotId::from_bytes([id; 8]));
            let key = ShamirKey::generate(sizes, &mut rng).expect("in bounds");
            let place = SlotPlace { store: StoreId([7; 16]), slot: id.clone(), kind: SlotKind::Shamir };
            let wrapped = key.wrap(&place, b"secret", &mut rng).expect("wrapped");
            let shares = key.shares(&id, sizes, &mut rng);
            let slot = SlotSummary { id, kind: SlotKind::Shamir, key_name: key.key_name(), created_at: 0 };
            Self { slot, shares, place, wrapped }
        }

        /// Whether the shares open it, and whose do not fit.
        fn opens(&self, collected: Result<CollectedShares<char>, ShareError>) -> Option<Vec<char>> {
            let CollectedShares::Enough(keys) = collected.expect("of this slot") else { return None };
            let opened = keys.provider().unwrap(&self.place, &self.wrapped);
            opened.is_ok_and(|plain| *plain == *b"secret").then(|| keys.misfits())
        }
    }

    #[test]
    fn no_share_of_one_person_undoes_those_of_others() {
        let (right, forged, other) = (Shared::new(1, (3, 5)), Shared::new(1, (3, 5)), Shared::new(2, (2, 2)));
        let (mut held, now) = (ShareCollection::default(), Instant::now());
        assert!(matches!(held.add(&'a', &right.slot, &right.shares[..1], now), Ok(CollectedShares::Missing(2))));
        // Of other numbers, of another slot, with other values: none is in the way.
        let (numbers, unfit) = (Shared::new(1, (64, 64)), ShareError::Unfit(right.slot.id.clone()));
        assert_eq!(held.add(&'x', &right.slot, &numbers.shares[..1], now).expect_err("refused"), unfit);
        assert_eq!(held.add(&'x', &right.slot, &other.shares[..1], now).expect_err("refused"), unfit);
        assert!(matches!(held.add(&'x', &other.slot, &other.shares[..1], now), Ok(CollectedShares::Missing(1))));
        assert!(matches!(held.add(&'x', &right.slot, &forged.shares[1..2], now), Ok(CollectedShares::Missing(1))));
        assert!(right.opens(held.add(&'b', &right.slot, &right.shares[1..2], now)).is_none(), "of the same index");
        assert!(right.opens(held.add(&'x', &right.slot, &forged.shares[3..], now)).is_none(), "a key of somebody else");
        assert_eq!(right.opens(held.add(&'c', &right.slot, &right.shares[4..], now)), Some(vec!['x']));
        assert_eq!(right.opens(held.add(&'d', &right.slot, &right.shares[2..4], now)), Some(vec!['x']), "and again");
    }

    #[test]
    fn a_bringer_replaces_shares_and_the_same_share_counts_once() {
        let (right, forged) = (Shared::new(1, (2, 3)), Shared::new(1, (2, 3)));
        let (mut held, now) = (ShareCollection::default(), Instant::now());
        for bringer in ['a', 'b', 'a'] {
            let added = held.add(&bringer, &right.slot, &right.shares[..1], now);
            assert!(matches!(added, Ok(CollectedShares::Missing(1))));
        }
        assert!(right.opens(held.add(&'c', &right.slot, &forged.shares[1..2], now)).is_none());
        assert_eq!(right.opens(held.add(&'c', &right.slot, &right.shares[1..2], now)), Some(vec![]));
        assert_eq!(
            held.add(&'c', &right.slot, &[], now).expect_err("no share"),
            ShareError::Unfit(right.slot.id.clone())
        );
    }

    #[test]
    fn shares_have_the_age_of_their_bringer_and_are_bounded() {
        let (right, begin, age) = (Shared::new(1, (2, 3)), Instant::now(), Duration::from_secs(10));
        let mut held = ShareCollection::default();
        let later = begin + age / 2;
        held.add(&'a', &right.slot, &right.shares[..1], begin).expect("held");
        for slot in 1..20 {
            let other = Shared::new(slot, (2, 3));
            held.add(&'x', &other.slot, &other.shares[..1], later).expect("held");
        }
        assert_eq!(held.held.len(), 1 + ShareLimits::default().bringer_slots_max);
        held.add(&'a', &right.slot, &Shared::new(9, (2, 3)).shares, later).expect_err("of another slot");
        assert!(!held.expire(later, age));
        assert!(held.expire(begin + age, age), "a refused share keeps nobody's alive");
        assert_eq!(held.held.len(), ShareLimits::default().bringer_slots_max);
        held.clear();
        assert!(!held.expire(begin + 10 * age, age));
    }

    #[test]
    fn no_more_sets_are_tried_than_the_limit() {
        let (right, now) = (Shared::new(1, (2, 3)), Instant::now());
        for (sets_max, opens) in [(1, false), (3, true)] {
            let limits = ShareLimits { sets_max, ..ShareLimits::default() };
            let mut held = ShareCollection::new(limits);
            let forged = Shared::new(1, (2, 3));
            held.add(&'x', &right.slot, &forged.shares[..1], now).expect("held");
            let collected = held.add(&'a', &right.slot, &right.shares[1..], now);
            assert_eq!(right.opens(collected).is_some(), opens, "{sets_max}");
        }
    }

    #[test]
    fn subsets_come_by_size() {
        let found: Vec<Vec<usize>> = subsets(3).collect();
        let expected: [&[usize]; 8] = [&[], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
        assert_eq!(found, expected);
        assert_eq!(subsets(0).collect::<Vec<_>>(), [Vec::<usize>::new()]);
        assert_eq!(subsets(12).count(), ShareLimits::default().sets_max);
    }
}
