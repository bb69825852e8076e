//! Look-ups in rows that nobody has verified, for the bounds of a store and for keys that are imported twice.
//!
//! An edit can make them refuse a change, or allow one more, and nothing else: which rows a change touches never follows from them.

use leafseal_crypto::PublicKey;
use leafseal_crypto::symmetric::SymmetricKeyId;

use super::value::{Sql, params};
use crate::{AppName, ClientName, StoreError};

pub(super) fn app_count(sql: &mut dyn Sql) -> Result<u32, StoreError> {
    sql.count("SELECT count(*) FROM app", &[])
}

/// How many versions of an app have keys.
pub(super) fn version_count(sql: &mut dyn Sql, app: &AppName) -> Result<u32, StoreError> {
    sql.count("SELECT count(DISTINCT version) FROM key_pair WHERE app = ?1", params![app.as_str()])
}

/// How many clients there are, without one.
pub(super) fn other_client_count(sql: &mut dyn Sql, client: &ClientName) -> Result<u32, StoreError> {
    sql.count("SELECT count(*) FROM client WHERE name <> ?1", params![client.as_str()])
}

pub(super) fn api_key_count(sql: &mut dyn Sql) -> Result<u32, StoreError> {
    sql.count("SELECT count(*) FROM api_key", &[])
}

pub(super) fn slot_count(sql: &mut dyn Sql) -> Result<u32, StoreError> {
    sql.count("SELECT count(*) FROM slot", &[])
}

/// Which app and version hold a public key.
pub(super) fn holder(sql: &mut dyn Sql, public: &PublicKey) -> Result<Option<(String, u32)>, StoreError> {
    let select = "SELECT app, version FROM key_pair WHERE public_key = ?1 LIMIT 1";
    version(sql, select, public.uncompressed())
}

/// Which app and version hold a symmetric root.
pub(super) fn symmetric_holder(sql: &mut dyn Sql, id: SymmetricKeyId) -> Result<Option<(String, u32)>, StoreError> {
    version(sql, "SELECT app, version FROM symmetric_key WHERE key_id = ?1 LIMIT 1", &id.0)
}

/// Symmetric key ids that several versions have, each with app and number of the version, sorted; `limit` of them.
pub(super) fn shared_symmetric_keys(
    sql: &mut dyn Sql,
    limit: u32,
) -> Result<Vec<(SymmetricKeyId, String, u32)>, StoreError> {
    let select = "SELECT key_id, app, version FROM symmetric_key WHERE key_id IN \
                  (SELECT key_id FROM symmetric_key GROUP BY key_id HAVING count(*) > 1) ORDER BY key_id, app, version LIMIT ?1";
    let rows = sql.rows(select, params![limit])?;
    rows.iter().map(|row| Ok((SymmetricKeyId(row.array(0)?), row.text(1)?.to_owned(), row.number(2)?))).collect()
}

/// The names of at most `limit` changes after another, in order.
pub(super) fn changes_after(sql: &mut dyn Sql, after: &str, limit: u32) -> Result<Vec<String>, StoreError> {
    let name = sql.bounded("name");
    let select = format!("SELECT {name} FROM store_change WHERE name > ?1 ORDER BY name LIMIT ?2");
    let rows = sql.rows(&select, params![after, limit])?;
    // What is no text is no name of ours.
    Ok(rows.iter().filter_map(|row| row.text(0).ok().map(str::to_owned)).collect())
}

/// The names of the oldest changes, of those up to a number.
pub(super) fn oldest_changes(sql: &mut dyn Sql, number: u64, limit: u32) -> Result<Vec<String>, StoreError> {
    let name = sql.bounded("name");
    let select = format!(
        "SELECT {name} FROM (SELECT name, number FROM store_change ORDER BY name LIMIT ?1) AS oldest WHERE number <= ?2"
    );
    let rows = sql.rows(&select, params![limit, number])?;
    Ok(rows.iter().filter_map(|row| row.text(0).ok().map(str::to_owned)).collect())
}

fn version(sql: &mut dyn Sql, select: &str, key: &[u8]) -> Result<Option<(String, u32)>, StoreError> {
    let found = sql.first(select, params![key])?;
    found.map(|row| Ok((row.text(0)?.to_owned(), row.number(1)?))).transpose()
}
