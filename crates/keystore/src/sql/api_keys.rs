//! Keys of the HTTP interface, and the store's own secrets, as rows.

use std::collections::{BTreeMap, BTreeSet};

use leafseal_crypto::{CryptoRng, Secret};
use leafseal_errors::Operation;

use super::accepted;
use super::apps::{self, app_name};
use super::bounds;
use super::roles;
use super::session::StoreSession;
use super::slots::OpenRoot;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{SqlRow, SqlValue, Type, params};
use crate::error::LimitedEntries;
use crate::model::{ApiKey, NewApiKey, Roles, TOKEN_SECRET_SIZE};
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::store::StoreLimits;
use crate::store_id::StoreId;
use crate::wrapping::secret_associated_data;
use crate::{ApiKeyId, AppName, StoreError};

/// The name of the secret that signs client-side tokens.
const TOKENS: &str = "tokens";

/// The table of an entry with what is accepted.
const ACCEPT: usize = 2;

fn entry_key(id: &ApiKeyId) -> EntryKey {
    EntryKey::new(EntryKind::ApiKey, id.as_str(), 0)
}

pub(super) fn find(session: &mut StoreSession<'_>, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    session.entry(&entry_key(id))?.as_ref().map(key).transpose()
}

/// All keys by app, the oldest first.
pub(super) fn all(session: &mut StoreSession<'_>) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys: Vec<ApiKey> = session.all(EntryKind::ApiKey)?.values().map(key).collect::<Result<_, _>>()?;
    keys.sort_by(|one, other| (&one.app, one.created_at, &one.id).cmp(&(&other.app, other.created_at, &other.id)));
    Ok(keys)
}

/// Reads entries as the database has them, and returns their number.
pub(super) fn read_stored(entries: &BTreeMap<EntryKey, EntryRows>) -> Result<usize, StoreError> {
    entries.values().try_for_each(|rows| key(rows).map(drop))?;
    Ok(entries.len())
}

fn key(rows: &EntryRows) -> Result<ApiKey, StoreError> {
    let row = rows.head()?;
    let mut operations = BTreeSet::new();
    for (index, operation) in (5..).zip(Operation::ALL.iter().copied()) {
        if row.flag(index)? {
            operations.insert(operation);
        }
    }
    Ok(ApiKey {
        id: ApiKeyId::parse(row.text(0)?).map_err(|_| StoreError::Inconsistent("an API key has an id that is none"))?,
        app: app_name(row.text(1)?)?,
        created_at: row.unix_s(2)?,
        revoked_at: row.optional_unix_s(3)?,
        secret_sha256: row.array(4)?,
        roles: if row.flag(9)? { Roles::Any } else { Roles::Only(roles::read(rows.rows(1))?) },
        operations,
        accept: accepted::read(rows, ACCEPT)?,
    })
}

/// Inserts a key.
pub(super) fn insert(
    session: &mut StoreSession<'_>,
    id: ApiKeyId,
    new: &NewApiKey,
    now: u64,
    limits: &StoreLimits,
) -> Result<ApiKey, StoreError> {
    apps::find(session, &new.app)?.ok_or_else(|| StoreError::UnknownApp(new.app.clone()))?;
    check_limits(session, new, limits)?;
    let may = |operation| new.operations.contains(&operation);
    let head = params![
        id.as_str(),
        new.app.as_str(),
        now,
        SqlValue::Null(Type::Integer),
        new.secret_sha256,
        may(Operation::Encrypt),
        may(Operation::Decrypt),
        may(Operation::Inspect),
        may(Operation::IssueTokens),
        new.roles == Roles::Any,
    ];
    let mut rows = EntryRows(vec![vec![SqlRow(head.to_vec())], roles::rows(id.as_str(), &new.roles)]);
    rows.0.resize(EntryKind::ApiKey.tables_in(session.schema).len(), Vec::new());
    accepted::put(&mut rows, ACCEPT, (id.as_str(), new.accept), session.schema)?;
    session.put(&entry_key(&id), false, &rows)?;
    key(&rows)
}

fn check_limits(session: &mut StoreSession<'_>, new: &NewApiKey, limits: &StoreLimits) -> Result<(), StoreError> {
    roles::check_entries(roles::count(&new.roles), limits)?;
    let count = bounds::api_key_count(session.sql)?;
    let limit = limits.api_key_count_max;
    if count >= limit { Err(StoreError::TooMany { what: LimitedEntries::ApiKeys, limit }) } else { Ok(()) }
}

/// Revokes a key for good; the time of the first revocation stays.
pub(super) fn revoke(session: &mut StoreSession<'_>, id: &ApiKeyId, now: u64) -> Result<(), StoreError> {
    let key = entry_key(id);
    let mut rows = session.entry(&key)?.ok_or_else(|| StoreError::UnknownApiKey(id.clone()))?;
    let head = rows.head_mut()?;
    if head.optional_unix_s(3)?.is_none() {
        head.0[3] = now.into();
    }
    session.put(&key, false, &rows)
}

/// Removes the keys of an app that is deleted. `keys`: all of them.
pub(super) fn remove_all(
    session: &mut StoreSession<'_>,
    app: &AppName,
    keys: &BTreeMap<EntryKey, EntryRows>,
) -> Result<(), StoreError> {
    let is_of_app = |rows: &EntryRows| rows.head().and_then(|row| row.text(1)).is_ok_and(|name| name == app.as_str());
    keys.iter().filter(|(_, rows)| is_of_app(rows)).try_for_each(|(key, _)| session.remove(key))
}

/// The entry of a secret.
pub(super) fn secret_key(purpose: &str) -> EntryKey {
    EntryKey::new(EntryKind::Secret, purpose, 0)
}

/// The secret that tokens are signed with, where the store has one.
pub(super) fn token_secret(
    session: &mut StoreSession<'_>,
    store: StoreId,
) -> Result<Option<Secret<TOKEN_SECRET_SIZE>>, StoreError> {
    let schema = session.schema;
    let Some(rows) = session.entry(&secret_key(TOKENS))? else { return Ok(None) };
    const DAMAGED: StoreError = StoreError::Inconsistent("the secret of tokens does not open under the root key");
    let aad = secret_associated_data(store, schema, TOKENS);
    let opened = session.open.root.open(&aad, rows.head()?.blob(1)?).map_err(|_| DAMAGED)?;
    Secret::from_slice(&opened).map(Some).ok_or(DAMAGED)
}

/// The same, made where there is none.
pub(super) fn token_secret_or_new(
    session: &mut StoreSession<'_>,
    store: StoreId,
    rng: &mut dyn CryptoRng,
) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
    // Another process may have been quicker.
    if let Some(secret) = token_secret(session, store)? {
        return Ok(secret);
    }
    let (secret, rows) = new_token_secret((session.open, session.schema), rng);
    session.put(&secret_key(TOKENS), false, &rows)?;
    Ok(secret)
}

fn new_token_secret(
    (open, schema): (&OpenRoot, u32),
    rng: &mut dyn CryptoRng,
) -> (Secret<TOKEN_SECRET_SIZE>, EntryRows) {
    let mut secret = Secret::zeroed();
    rng.fill_bytes(secret.expose_mut());
    let aad = secret_associated_data(open.tree.store, schema, TOKENS);
    let row = SqlRow(params![TOKENS, open.root.seal(&aad, secret.expose(), rng)].to_vec());
    (secret, EntryRows(vec![vec![row]]))
}

/// Puts another in the place of the one that entries have.
pub(super) fn renew_token_secret(
    entries: &mut BTreeMap<EntryKey, EntryRows>,
    open: &OpenRoot,
    rng: &mut dyn CryptoRng,
) {
    if let Some(rows) = entries.get_mut(&secret_key(TOKENS)) {
        *rows = new_token_secret((open, TREE_SCHEMA_VERSION), rng).1;
    }
}
