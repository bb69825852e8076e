//! Keys of the HTTP interface, and the store's own secrets, as rows.

use std::collections::BTreeSet;

use leafseal_crypto::{CryptoRng, Secret};
use leafseal_errors::Operation;

use super::apps::{self, app_name};
use super::roles;
use super::value::{Sql, SqlRow, SqlValue, Type, params};
use crate::error::LimitedEntries;
use crate::model::{ApiKey, NewApiKey, Roles, TOKEN_SECRET_SIZE};
use crate::root_key::{RootKey, RootKeyError};
use crate::store::StoreLimits;
use crate::wrapping::{StoreId, secret_associated_data};
use crate::{ApiKeyId, RoleName, StoreError};

/// The name of the secret that signs client-side tokens.
const TOKENS: &str = "tokens";

const KEYS: &str =
    "SELECT id, app, created_at, revoked_at, secret_sha256, any_role, may_encrypt, may_decrypt, may_inspect, may_issue_tokens
    FROM api_key";

pub(super) fn find(sql: &mut dyn Sql, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    let Some(row) = sql.first(&format!("{KEYS} WHERE id = ?1"), params![id.as_str()])? else {
        return Ok(None);
    };
    key(&row, roles::OF_API_KEYS.of(sql, id.as_str())?).map(Some)
}

/// All keys by app, the oldest first, in two queries.
pub(super) fn all(sql: &mut dyn Sql) -> Result<Vec<ApiKey>, StoreError> {
    let rows = sql.rows(&format!("{KEYS} ORDER BY app, created_at, id"), &[])?;
    let mut roles = roles::OF_API_KEYS.all(sql)?;
    rows.iter().map(|row| key(row, roles.remove(row.text(0)?).unwrap_or_default())).collect()
}

fn key(row: &SqlRow, roles: BTreeSet<RoleName>) -> Result<ApiKey, StoreError> {
    let mut operations = BTreeSet::new();
    for (index, operation) in (6..).zip(Operation::ALL.iter().copied()) {
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
        roles: if row.flag(5)? { Roles::Any } else { Roles::Only(roles) },
        operations,
    })
}

/// Inserts a key.
pub(super) fn insert(
    sql: &mut dyn Sql,
    id: ApiKeyId,
    new: &NewApiKey,
    now: u64,
    limits: &StoreLimits,
) -> Result<ApiKey, StoreError> {
    apps::find(sql, &new.app)?.ok_or_else(|| StoreError::UnknownApp(new.app.clone()))?;
    check_limits(sql, new, limits)?;
    let may = |operation| new.operations.contains(&operation);
    sql.execute(
        "INSERT INTO api_key (id, app, created_at, revoked_at, secret_sha256, may_encrypt, may_decrypt, may_inspect,
             may_issue_tokens, any_role) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
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
        ],
    )?;
    roles::OF_API_KEYS.insert(sql, id.as_str(), &new.roles)?;
    find(sql, &id)?.ok_or(StoreError::Inconsistent("an API key that was just written is missing"))
}

fn check_limits(sql: &mut dyn Sql, new: &NewApiKey, limits: &StoreLimits) -> Result<(), StoreError> {
    roles::check_entries(roles::count(&new.roles), limits)?;
    let count = sql.count("SELECT count(*) FROM api_key", &[])?;
    let limit = limits.api_key_count_max;
    if count >= limit { Err(StoreError::TooMany { what: LimitedEntries::ApiKeys, limit }) } else { Ok(()) }
}

/// Revokes a key for good; the time of the first revocation stays.
pub(super) fn revoke(sql: &mut dyn Sql, id: &ApiKeyId, now: u64) -> Result<(), StoreError> {
    let update = "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
    let changed = sql.execute(update, params![id.as_str(), now])?;
    if changed == 1 { Ok(()) } else { Err(StoreError::UnknownApiKey(id.clone())) }
}

/// The secret that tokens are signed with, where the store has one.
pub(super) fn token_secret(
    sql: &mut dyn Sql,
    root_key: &dyn RootKey,
    store: StoreId,
) -> Result<Option<Secret<TOKEN_SECRET_SIZE>>, StoreError> {
    let select = "SELECT wrapped FROM secret WHERE purpose = ?1";
    let Some(row) = sql.first(select, params![TOKENS])? else { return Ok(None) };
    const DAMAGED: StoreError = StoreError::Inconsistent("the secret of tokens does not open under the root key");
    let opened = root_key.open(&secret_associated_data(store, TOKENS), row.blob(0)?).map_err(|error| match error {
        RootKeyError::DecryptFailed => DAMAGED,
        other => other.into(),
    })?;
    Secret::from_slice(&opened).map(Some).ok_or(DAMAGED)
}

/// The same, made where there is none.
pub(super) fn token_secret_or_new(
    sql: &mut dyn Sql,
    root_key: &dyn RootKey,
    store: StoreId,
    rng: &mut dyn CryptoRng,
) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
    // Another process may have been quicker.
    if let Some(secret) = token_secret(sql, root_key, store)? {
        return Ok(secret);
    }
    let mut secret = Secret::zeroed();
    rng.fill_bytes(secret.expose_mut());
    let wrapped = root_key.seal(&secret_associated_data(store, TOKENS), secret.expose(), rng)?;
    sql.execute("INSERT INTO secret (purpose, wrapped) VALUES (?1, ?2)", params![TOKENS, wrapped])?;
    Ok(secret)
}
