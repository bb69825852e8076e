//! Key slots as rows, and the ways to the root of a store: by a slot, or by a link from the root before it.

use std::sync::Arc;

use leafseal_crypto::hpke::HpkePublicKey;
use leafseal_crypto::{CryptoRng, Secret};

use super::table::{EntryKey, EntryKind, EntryRows};
use super::tree::TreeKeys;
use super::value::{FOREVER, Sql, SqlRow, params};
use crate::StoreError;
use crate::memory::SightingKey;
use crate::root_key::{ID_SIZE, RootKeyId, StoreRoot};
use crate::slots::{
    NumberedRoot, OPENING_WORK_MAX, ProviderError, Slot, SlotId, SlotKind, SlotProvider, SlotSummary, is_key_name,
};
use crate::store_id::StoreId;

/// The root of a store, with what is derived from it.
#[derive(Debug)]
pub(crate) struct OpenRoot {
    pub(crate) root: StoreRoot,
    /// Counts the roots of a store with slots, from 1.
    pub(crate) epoch: u32,
    pub(crate) tree: TreeKeys,
    /// For what is seen of the store under it.
    pub(crate) sighting: Arc<SightingKey>,
}

impl OpenRoot {
    pub(crate) fn new(root: StoreRoot, epoch: u32, store: StoreId) -> Self {
        let (tree, sighting) = (TreeKeys::new(&root, store), SightingKey::new(store, &root, epoch).into());
        Self { root, epoch, tree, sighting }
    }

    /// What is left of a root that has ended: nothing opens under it, and a store that comes from it is still known.
    pub(crate) fn without_root(&self, rng: &mut dyn CryptoRng) -> Self {
        let (root, store) = (StoreRoot::generate(rng), self.tree.store);
        let tree = TreeKeys::new(&root, store);
        Self { root, epoch: self.epoch, tree, sighting: Arc::clone(&self.sighting) }
    }

    pub(crate) fn numbered(&self) -> NumberedRoot<'_> {
        NumberedRoot { store: self.tree.store, root: &self.root, epoch: self.epoch }
    }
}

pub(crate) fn entry_key(id: &SlotId) -> EntryKey {
    EntryKey::new(EntryKind::Slot, &id.to_string(), 0)
}

pub(crate) fn rows(slot: &Slot) -> EntryRows {
    let SlotSummary { id, kind, key_name, created_at } = &slot.summary;
    let row = params![
        id.to_string().as_str(),
        kind.name(),
        key_name.as_str(),
        *created_at,
        slot.public_key.as_bytes().as_slice(),
        slot.wrapped_secrets.as_slice(),
        slot.wrapped_mac_key.as_slice(),
        slot.epoch,
        slot.sealed_root.as_slice(),
        slot.root_mac,
    ];
    EntryRows(vec![vec![SqlRow(row.to_vec())]])
}

pub(crate) fn slot(row: &SqlRow) -> Result<Slot, StoreError> {
    const DAMAGED: StoreError = StoreError::Inconsistent("a key slot does not read");
    let summary = SlotSummary {
        id: SlotId::parse(row.text(0)?).map_err(|_| DAMAGED)?,
        kind: SlotKind::of_name(row.text(1)?).ok_or(DAMAGED)?,
        key_name: Some(row.text(2)?).filter(|name| is_key_name(name)).ok_or(DAMAGED)?.to_owned(),
        created_at: row.unix_s(3)?,
    };
    Ok(Slot {
        summary,
        public_key: HpkePublicKey::from_bytes(row.blob(4)?).map_err(|_| DAMAGED)?,
        wrapped_secrets: row.blob(5)?.to_vec(),
        wrapped_mac_key: row.blob(6)?.to_vec(),
        epoch: row.number(7)?,
        sealed_root: row.blob(8)?.to_vec(),
        root_mac: row.array(9)?,
    })
}

/// The root of a store whose slots are `slots`; the database says that its id is `named`.
pub(crate) fn unlock(
    of: (StoreId, RootKeyId),
    slots: &[Slot],
    providers: &[Box<dyn SlotProvider>],
) -> Result<OpenRoot, StoreError> {
    open_one(of, slots, providers).map(|(_, open)| open)
}

/// The same, with the slot that opened.
pub(crate) fn open_one<'s>(
    (store, named): (StoreId, RootKeyId),
    slots: &'s [Slot],
    providers: &[Box<dyn SlotProvider>],
) -> Result<(&'s SlotSummary, OpenRoot), StoreError> {
    let (mut tried, mut work_left) = (Vec::new(), OPENING_WORK_MAX);
    for provider in providers {
        let fits = |slot: &&Slot| slot.summary.kind == provider.kind() && provider.may_open(&slot.summary.key_name);
        let mut fitting: Vec<(u64, &Slot)> =
            slots.iter().filter(fits).map(|slot| (provider.work(&slot.wrapped_secrets), slot)).collect();
        // A database names any costs: what is cheap comes before what takes all that may be spent.
        fitting.sort_by_key(|(work, _)| *work);
        for (count, (work, slot)) in fitting.into_iter().enumerate() {
            if count >= provider.tries_max() || work > work_left {
                tried.push((slot.summary.clone(), NOT_TRIED));
                continue;
            }
            work_left -= work;
            match slot.unlock(store, provider.as_ref()) {
                Ok((root, epoch)) => return Ok((&slot.summary, OpenRoot::new(root, epoch, store))),
                Err(error) => {
                    let is_unavailable = matches!(error, ProviderError::Unavailable(_));
                    tried.push((slot.summary.clone(), error));
                    // A service that does not answer costs its deadline once, however many slots a database names.
                    if is_unavailable {
                        break;
                    }
                }
            }
        }
    }
    Err(refusal(named, slots, providers, tried))
}

const NOT_TRIED: ProviderError =
    ProviderError::Bounds("it was not tried: the keystore has more slots of this kind than one opening may pay for");

fn refusal(
    store: RootKeyId,
    slots: &[Slot],
    providers: &[Box<dyn SlotProvider>],
    tried: Vec<(SlotSummary, ProviderError)>,
) -> StoreError {
    let only_file = slots.iter().all(|slot| slot.summary.kind == SlotKind::File);
    match (tried.is_empty() && only_file, slots, providers.first().and_then(|provider| file_key_id(provider.as_ref())))
    {
        (true, [slot], Some(given)) => {
            StoreError::WrongRootKey { store: parse_id(&slot.summary.key_name).unwrap_or(store), given }
        }
        _ => StoreError::Sealed { slots: slots.iter().map(|slot| slot.summary.clone()).collect(), tried },
    }
}

fn file_key_id(provider: &dyn SlotProvider) -> Option<RootKeyId> {
    provider.root_without_slots().map(StoreRoot::id)
}

fn parse_id(text: &str) -> Option<RootKeyId> {
    let mut id = [0; ID_SIZE];
    hex::decode_to_slice(text, &mut id).ok().map(|()| RootKeyId(id))
}

/// Where a root leads.
#[derive(Debug)]
pub(crate) enum RootWay {
    /// To this one.
    Next(OpenRoot),
    /// It was replaced, and nothing under it is to be trusted any more.
    Ended,
    /// Nothing says so.
    Unknown,
}

/// The first bytes of the associated data of an end.
const LABEL_END: &[u8] = b"leafseal-root-end-1";

/// What the row of a root's end is found by: no root's id.
fn end_id(root: &OpenRoot) -> RootKeyId {
    let hash = root.root.derive(&[LABEL_END, &root.tree.store.0].concat());
    RootKeyId(*hash.expose().first_chunk().expect("32 bytes"))
}

/// The way for running engines from one root to the next, sealed under the former.
#[derive(Debug)]
pub(crate) struct RootLink {
    from: RootKeyId,
    epoch: u32,
    /// Unix seconds, after which nobody follows.
    expires_at: u64,
    sealed: Vec<u8>,
}

const LABEL_LINK: &[u8] = b"leafseal-root-link-1";

impl RootLink {
    pub(crate) fn make((before, root): (&OpenRoot, &OpenRoot), expires_at: u64, rng: &mut dyn CryptoRng) -> Self {
        let (from, epoch) = (before.root.id(), root.epoch);
        let aad = associated_data(root.tree.store, (from, epoch, expires_at));
        Self { from, epoch, expires_at, sealed: before.root.seal(&aad, root.root.bytes().expose(), rng) }
    }

    pub(crate) fn write(&self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        let insert = "INSERT INTO root_link (from_root, epoch, expires_at, sealed) VALUES (?1, ?2, ?3, ?4)";
        let Self { from, epoch, expires_at, sealed } = self;
        sql.execute(insert, params![from.0, *epoch, *expires_at, sealed.as_slice()]).map(drop)
    }

    /// Writes that the root `before` has ended, in the same table: authenticated under it, so that nobody else can end it. It stays.
    /// `links_until`: the time (Unix seconds) until which engines may follow links from it.
    pub(crate) fn write_end(
        sql: &mut dyn Sql,
        (before, epoch): (&OpenRoot, u32),
        links_until: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), StoreError> {
        let from = end_id(before);
        let aad = [LABEL_END, &before.tree.store.0[..], &epoch.to_be_bytes()].concat();
        let sealed = before.root.seal(&aad, &links_until.to_be_bytes(), rng);
        Self { from, epoch, expires_at: FOREVER, sealed }.write(sql)
    }

    /// Until when links may be followed from a root that has ended.
    fn end(sql: &mut dyn Sql, root: &OpenRoot) -> Result<Option<u64>, StoreError> {
        let select = "SELECT epoch, sealed FROM root_link WHERE from_root = ?1 LIMIT 16";
        let rows = sql.rows(select, params![end_id(root).0])?;
        Ok(rows.iter().find_map(|row| {
            let aad = [LABEL_END, &root.tree.store.0[..], &row.number(0).ok()?.to_be_bytes()].concat();
            let opened = root.root.open(&aad, row.blob(1).ok()?).ok()?;
            Some(u64::from_be_bytes(opened.as_slice().try_into().ok()?))
        }))
    }

    /// Removes the links that end before `time`, if there are any.
    pub(crate) fn remove(sql: &mut dyn Sql, time: u64) -> Result<(), StoreError> {
        if sql.count("SELECT count(*) FROM root_link WHERE expires_at < ?1", params![time])? == 0 {
            return Ok(());
        }
        sql.execute("DELETE FROM root_link WHERE expires_at < ?1", params![time]).map(drop)
    }

    /// How many links end before `time`.
    pub(crate) fn count_ended(sql: &mut dyn Sql, time: u64) -> Result<u32, StoreError> {
        sql.count("SELECT count(*) FROM root_link WHERE expires_at < ?1", params![time])
    }

    /// The way from `before`. Whoever can write to the database can at most take the way away.
    pub(crate) fn follow(sql: &mut dyn Sql, before: &OpenRoot, now: u64) -> Result<RootWay, StoreError> {
        let end = Self::end(sql, before)?;
        if end.is_some_and(|links_until| now > links_until) {
            return Ok(RootWay::Ended);
        }
        let select = "SELECT from_root, epoch, expires_at, sealed FROM root_link WHERE from_root = ?1 LIMIT 16";
        let rows = sql.rows(select, params![before.root.id().0])?;
        let next = rows.iter().find_map(|row| Self::next(row, before, now));
        Ok(match (next, end) {
            (Some(next), _) => RootWay::Next(next),
            (None, Some(_)) => RootWay::Ended,
            (None, None) => RootWay::Unknown,
        })
    }

    fn next(row: &SqlRow, before: &OpenRoot, now: u64) -> Option<OpenRoot> {
        let (epoch, expires_at) = (row.number(1).ok()?, row.unix_s(2).ok()?);
        if now > expires_at || epoch <= before.epoch {
            return None;
        }
        let store = before.tree.store;
        let aad = associated_data(store, (before.root.id(), epoch, expires_at));
        let opened = before.root.open(&aad, row.blob(3).ok()?).ok()?;
        Some(OpenRoot::new(StoreRoot::from_bytes(Secret::from_slice(&opened)?), epoch, store))
    }
}

/// Label ‖ store (16) ‖ former root's id (8) ‖ epoch (4) ‖ time (8).
fn associated_data(store: StoreId, (from, epoch, expires_at): (RootKeyId, u32, u64)) -> Vec<u8> {
    [LABEL_LINK, &store.0, &from.0, &epoch.to_be_bytes(), &expires_at.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use leafseal_crypto::random::system_random;
    use zeroize::Zeroizing;

    use super::*;
    use crate::slots::{SAME_KEY_TRIES_MAX, SlotPlace};

    const STORE: StoreId = StoreId([7; 16]);

    /// A provider that counts what it is asked to open, and says that it costs what the first bytes say.
    #[derive(Clone)]
    struct Counting {
        asked: Arc<AtomicUsize>,
        tries_max: usize,
        work: u64,
    }

    impl Counting {
        fn new(tries_max: usize, work: u64) -> Self {
            Self { asked: Arc::default(), tries_max, work }
        }

        /// A slot of it, which opens unless `is_planted`.
        fn slot(&self, root: &OpenRoot, is_planted: bool) -> Slot {
            let mut slot = Slot::make(self, root.numbered(), 0, &mut system_random()).expect("made");
            if is_planted {
                slot.root_mac = [0; 32];
            }
            self.asked.store(0, Ordering::SeqCst);
            slot
        }

        /// How many slots are opened until one opens the store, or none does.
        fn asked(&self, root: &OpenRoot, slots: &[Slot]) -> (usize, Result<OpenRoot, StoreError>) {
            let unlocked = unlock((STORE, root.root.id()), slots, &[Box::new(self.clone())]);
            (self.asked.swap(0, Ordering::SeqCst), unlocked)
        }
    }

    impl SlotProvider for Counting {
        fn kind(&self) -> SlotKind {
            SlotKind::Transit
        }

        fn wrap(&self, _: &SlotPlace, secret: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
            Ok([&self.work.to_be_bytes(), secret].concat())
        }

        fn unwrap(&self, _: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Ok(wrapped[8..].to_vec().into())
        }

        fn tries_max(&self) -> usize {
            self.tries_max
        }

        fn work(&self, wrapped: &[u8]) -> u64 {
            u64::from_be_bytes(*wrapped.first_chunk().expect("eight bytes"))
        }
    }

    fn root() -> OpenRoot {
        OpenRoot::new(StoreRoot::generate(&mut system_random()), 1, STORE)
    }

    #[test]
    fn a_key_of_a_service_is_asked_a_few_times_however_many_slots_there_are() {
        let (root, provider) = (root(), Counting::new(SAME_KEY_TRIES_MAX, 0));
        let slots: Vec<Slot> = (0..300).map(|_| provider.slot(&root, true)).collect();
        let (asked, refused) = provider.asked(&root, &slots);
        assert_eq!(asked, SAME_KEY_TRIES_MAX);
        let Err(StoreError::Sealed { tried, .. }) = refused else { panic!("sealed") };
        assert_eq!(tried.iter().filter(|(_, error)| *error == NOT_TRIED).count(), 300 - SAME_KEY_TRIES_MAX);
    }

    #[test]
    fn slots_cost_no_more_than_one_opening_may_and_cheap_ones_come_first() {
        let (root, cheap) = (root(), Counting::new(usize::MAX, 1));
        let dear = Counting { work: OPENING_WORK_MAX / 2, ..cheap.clone() };
        let mut slots: Vec<Slot> = (0..6).map(|_| dear.slot(&root, true)).collect();
        let (asked, refused) = cheap.asked(&root, &slots);
        assert!(refused.is_err());
        assert_eq!(asked, 2, "what is planted costs no more than all of it");
        slots.push(cheap.slot(&root, false));
        let (asked, unlocked) = cheap.asked(&root, &slots);
        unlocked.expect("opened");
        assert_eq!(asked, 1);
    }
}
