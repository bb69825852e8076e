//! Keys of the HTTP interface, and the store's own secrets, as rows.

use fieldseal_crypto::{CryptoRng, Secret};
use rusqlite::{Connection, OptionalExtension};

use super::apps::{self, app_name, unix_s};
use super::roles;
use crate::error::Counted;
use crate::model::{ApiKey, ApiOperation, NewApiKey, Roles, TOKEN_SECRET_SIZE};
use crate::root_key::{RootKey, RootKeyError};
use crate::store::Limits;
use crate::wrapping::{StoreId, secret_associated_data};
use crate::{ApiKeyId, Error};

/// The name of the secret that signs client-side tokens.
const TOKENS: &str = "tokens";

/// A row of `api_key`.
struct KeyRow {
    id: String,
    app: String,
    created_at: i64,
    revoked_at: Option<i64>,
    secret_sha256: [u8; 32],
    may: [bool; ApiOperation::ALL.len()],
    any_role: bool,
}

const COLUMNS: &str =
    "SELECT id, app, created_at, revoked_at, secret_sha256, may_encrypt, may_decrypt, may_inspect, may_issue_tokens,
    any_role FROM api_key";

fn key_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        id: row.get(0)?,
        app: row.get(1)?,
        created_at: row.get(2)?,
        revoked_at: row.get(3)?,
        secret_sha256: row.get(4)?,
        may: [row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?],
        any_role: row.get(9)?,
    })
}

pub(super) fn find(connection: &Connection, id: &ApiKeyId) -> Result<Option<ApiKey>, Error> {
    connection
        .query_row(&format!("{COLUMNS} WHERE id = ?1"), [id.as_str()], key_row)
        .optional()?
        .map(|row| key(connection, row))
        .transpose()
}

/// All keys by app, the oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<ApiKey>, Error> {
    let mut statement = connection.prepare(&format!("{COLUMNS} ORDER BY app, created_at, id"))?;
    let rows: Vec<KeyRow> = statement.query_map([], key_row)?.collect::<Result<_, _>>()?;
    rows.into_iter().map(|row| key(connection, row)).collect()
}

fn key(connection: &Connection, row: KeyRow) -> Result<ApiKey, Error> {
    let id = ApiKeyId::parse(&row.id).map_err(|_| Error::Inconsistent("an API key has an id that is none"))?;
    let roles = roles::OF_API_KEYS.of(connection, id.as_str(), row.any_role)?;
    let allowed = ApiOperation::ALL.into_iter().zip(row.may);
    Ok(ApiKey {
        app: app_name(&row.app)?,
        operations: allowed.filter_map(|(operation, may)| may.then_some(operation)).collect(),
        roles,
        secret_sha256: row.secret_sha256,
        created_at: unix_s(row.created_at)?,
        revoked_at: row.revoked_at.map(unix_s).transpose()?,
        id,
    })
}

/// Inserts a key.
pub(super) fn insert(
    connection: &Connection,
    new: &NewApiKey,
    now: i64,
    limits: &Limits,
    rng: &mut dyn CryptoRng,
) -> Result<ApiKey, Error> {
    apps::find(connection, &new.app)?.ok_or_else(|| Error::UnknownApp(new.app.clone()))?;
    check_limits(connection, new, limits)?;
    let id = ApiKeyId::random(rng);
    let may = |operation| new.operations.contains(&operation);
    connection.execute(
        "INSERT INTO api_key (id, app, created_at, revoked_at, secret_sha256, may_encrypt, may_decrypt, may_inspect,
             may_issue_tokens, any_role) VALUES (?1, ?2, ?3, NULL, ?4, ?5, ?6, ?7, ?8, ?9)",
        (
            id.as_str(),
            new.app.as_str(),
            now,
            new.secret_sha256,
            may(ApiOperation::Encrypt),
            may(ApiOperation::Decrypt),
            may(ApiOperation::Inspect),
            may(ApiOperation::IssueTokens),
            new.roles == Roles::Any,
        ),
    )?;
    roles::OF_API_KEYS.insert(connection, id.as_str(), &new.roles)?;
    find(connection, &id)?.ok_or(Error::Inconsistent("an API key that was just written is missing"))
}

fn check_limits(connection: &Connection, new: &NewApiKey, limits: &Limits) -> Result<(), Error> {
    roles::check_entries(roles::count(&new.roles), limits)?;
    let count: u32 = connection.query_row("SELECT count(*) FROM api_key", [], |row| row.get(0))?;
    let limit = limits.api_key_count_max;
    if count >= limit { Err(Error::TooMany { what: Counted::ApiKeys, limit }) } else { Ok(()) }
}

/// Revokes a key for good; the time of the first revocation stays.
pub(super) fn revoke(connection: &Connection, id: &ApiKeyId, now: i64) -> Result<(), Error> {
    let changed = connection
        .execute("UPDATE api_key SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1", (id.as_str(), now))?;
    if changed == 1 { Ok(()) } else { Err(Error::UnknownApiKey(id.clone())) }
}

/// The secret that tokens are signed with, where the store has one.
pub(super) fn token_secret(
    connection: &Connection,
    root_key: &dyn RootKey,
    store: StoreId,
) -> Result<Option<Secret<TOKEN_SECRET_SIZE>>, Error> {
    let select = "SELECT wrapped FROM secret WHERE purpose = ?1";
    let wrapped: Option<Vec<u8>> = connection.query_row(select, [TOKENS], |row| row.get(0)).optional()?;
    let Some(wrapped) = wrapped else { return Ok(None) };
    const DAMAGED: Error = Error::Inconsistent("the secret of tokens does not open under the root key");
    let opened = root_key.open(&secret_associated_data(store, TOKENS), &wrapped).map_err(|error| match error {
        RootKeyError::DecryptFailed => DAMAGED,
        other => other.into(),
    })?;
    Secret::from_slice(&opened).map(Some).ok_or(DAMAGED)
}

/// The same, made where there is none.
pub(super) fn token_secret_or_new(
    connection: &Connection,
    root_key: &dyn RootKey,
    store: StoreId,
    rng: &mut dyn CryptoRng,
) -> Result<Secret<TOKEN_SECRET_SIZE>, Error> {
    // Another process may have been quicker.
    if let Some(secret) = token_secret(connection, root_key, store)? {
        return Ok(secret);
    }
    let mut secret = Secret::zeroed();
    rng.fill_bytes(secret.expose_mut());
    let wrapped = root_key.seal(&secret_associated_data(store, TOKENS), secret.expose(), rng)?;
    connection.execute("INSERT INTO secret (purpose, wrapped) VALUES (?1, ?2)", (TOKENS, wrapped))?;
    Ok(secret)
}
