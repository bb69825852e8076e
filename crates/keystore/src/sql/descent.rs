//! The descent of a store: under every root it keeps the keys of all sightings before, so that it can prove that it comes from a state
//! that was seen under an earlier root.
//!
//! Whoever has an older copy and what opened it can replace the root as often as they like, and their copy has any epoch and generation
//! then. They cannot make the key of the root that the genuine store got after theirs: who has seen that one refuses theirs. Each key
//! is a secret of the store, sealed under the present root, and an entry of the authenticated tree; 40 bytes for each former root.

use std::collections::BTreeMap;

use leafseal_crypto::CryptoRng;

use super::api_keys::secret_key;
use super::session::StoreSession;
use super::slots::OpenRoot;
use super::table::{EntryKey, EntryRows};
use super::value::{SqlRow, params};
use crate::StoreError;
use crate::edit::MemoryFault;
use crate::memory::{SightingKey, SightingLine, StoreSighting};
use crate::record_key::RecordKey;
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::wrapping::secret_associated_data;

/// The purpose of the secret with the key of an epoch.
fn purpose(epoch: u32) -> String {
    format!("sightings {epoch}")
}

/// Adds the key of the root before `next` to the entries under it.
pub(super) fn record(
    entries: &mut BTreeMap<EntryKey, EntryRows>,
    (before, next): (&OpenRoot, &OpenRoot),
    rng: &mut dyn CryptoRng,
) {
    let purpose = purpose(before.epoch);
    let aad = secret_associated_data(next.tree.store, TREE_SCHEMA_VERSION, &purpose);
    let sealed = next.root.seal(&aad, &before.sighting.to_bytes(), rng);
    let row = SqlRow(params![purpose.as_str(), sealed].to_vec());
    entries.insert(secret_key(&purpose), EntryRows(vec![vec![row]]));
}

/// The purpose of the secret with the newest root that others may have had.
const COMPROMISED: &str = "compromised roots";

/// Adds to the entries under the root `next` that others may have had the one before, and with it the keys of all roots before that one.
pub(super) fn record_compromised(
    entries: &mut BTreeMap<EntryKey, EntryRows>,
    (before, next): (&OpenRoot, &OpenRoot),
    rng: &mut dyn CryptoRng,
) {
    let aad = secret_associated_data(next.tree.store, TREE_SCHEMA_VERSION, COMPROMISED);
    let sealed = next.root.seal(&aad, &before.epoch.to_be_bytes(), rng);
    let row = SqlRow(params![COMPROMISED, sealed].to_vec());
    entries.insert(secret_key(COMPROMISED), EntryRows(vec![vec![row]]));
}

/// The epoch of the newest root that others may have had, if there is one: what is signed under it, or under one before, may be theirs.
pub(super) fn compromised(session: &mut StoreSession<'_>) -> Result<Option<u32>, StoreError> {
    const DAMAGED: StoreError = StoreError::Inconsistent("what is known of former roots does not open under the root");
    if session.schema < TREE_SCHEMA_VERSION {
        return Ok(None);
    }
    let Some(rows) = session.entry(&secret_key(COMPROMISED))? else { return Ok(None) };
    let open = session.open;
    let aad = secret_associated_data(open.tree.store, session.schema, COMPROMISED);
    let opened = open.root.open(&aad, rows.head()?.blob(1)?).map_err(|_| DAMAGED)?;
    Ok(Some(u32::from_be_bytes(opened.as_slice().try_into().map_err(|_| DAMAGED)?)))
}

/// The key of an epoch before that of the session.
fn key(session: &mut StoreSession<'_>, epoch: u32) -> Result<Option<SightingKey>, StoreError> {
    let purpose = purpose(epoch);
    let Some(rows) = session.entry(&secret_key(&purpose))? else { return Ok(None) };
    let open = session.open;
    let aad = secret_associated_data(open.tree.store, session.schema, &purpose);
    let opened = open.root.open(&aad, rows.head()?.blob(1)?);
    let bytes = opened.map_err(|_| StoreError::Inconsistent("a sighting key does not open under the root"))?;
    Ok(SightingKey::from_bytes(open.tree.store, epoch, &bytes))
}

/// Whether the store comes from one under the root of `known`.
pub(super) fn is_from(session: &mut StoreSession<'_>, known: &SightingKey) -> Result<bool, StoreError> {
    match known.epoch().cmp(&session.open.epoch) {
        std::cmp::Ordering::Equal => Ok(session.open.sighting.is_same(known)),
        std::cmp::Ordering::Greater => Ok(false),
        std::cmp::Ordering::Less => Ok(key(session, known.epoch())?.is_some_and(|kept| kept.is_same(known))),
    }
}

/// The state of a line that was written under the root of the session, or one from which it comes.
pub(super) fn verify(
    session: &mut StoreSession<'_>,
    line: &SightingLine,
) -> Result<Result<StoreSighting, MemoryFault>, StoreError> {
    let (epoch, open) = (line.sighting.epoch, session.open);
    if line.store != open.tree.store {
        return Ok(Err(MemoryFault::Store));
    }
    if epoch >= open.epoch {
        return Ok(open.sighting.verify(line));
    }
    Ok(key(session, epoch)?.ok_or(MemoryFault::Root).and_then(|key| key.verify(line)))
}

/// The key with which an engine signs its records under the root of an epoch, or that of the session.
pub(super) fn record_key(
    session: &mut StoreSession<'_>,
    signer: &str,
    epoch: Option<u32>,
) -> Result<Option<RecordKey>, StoreError> {
    let open = session.open;
    match epoch {
        Some(epoch) if epoch < open.epoch => Ok(key(session, epoch)?.map(|key| key.record_key(signer))),
        Some(epoch) if epoch > open.epoch => Ok(None),
        _ => Ok(Some(open.sighting.record_key(signer))),
    }
}
