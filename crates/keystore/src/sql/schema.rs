//! How a store is recognised, and what both databases do to make one or to bring an older one to this schema. The tables themselves are
//! in each store's own words.
//!
//! Every later schema keeps the column `schema_version` of the table `store`, so that an older program can report the version that
//! it found.

use super::value::{Sql, params};
use crate::StoreError;
use crate::root_key::RootKeyId;
use crate::wrapping::StoreId;

/// The schema that this program writes and reads.
pub const SCHEMA_VERSION: u32 = 2;

/// The tables of a store in a database's own words.
pub(crate) struct TableDefinitions {
    /// Those of version 1.
    pub(crate) first: &'static str,
    /// The additions of version 2 to version 1.
    pub(crate) second: &'static str,
}

/// Makes the tables of the store `id`, and its row in the table `store`.
pub(crate) fn create(
    sql: &mut dyn Sql,
    tables: &TableDefinitions,
    root_key: RootKeyId,
    id: StoreId,
) -> Result<(), StoreError> {
    sql.batch(tables.first)?;
    sql.batch(tables.second)?;
    sql.execute(
        "INSERT INTO store (only_row, schema_version, store_id, root_key_id, generation) VALUES (1, ?1, ?2, ?3, 1)",
        params![SCHEMA_VERSION, id.0, root_key.0],
    )
    .map(drop)
}

/// The row of a store.
pub(crate) struct StoredFormat {
    pub(crate) id: StoreId,
    version: u32,
}

impl StoredFormat {
    /// Whether [`migrate`] has something to do.
    pub(crate) fn is_older(&self) -> bool {
        self.version < SCHEMA_VERSION
    }
}

/// Checks that this program and this root key fit the store.
pub(crate) fn verify(sql: &mut dyn Sql, root_key: RootKeyId) -> Result<StoredFormat, StoreError> {
    let found = version(sql)?;
    if found > SCHEMA_VERSION {
        let supported = SCHEMA_VERSION;
        return Err(StoreError::NewerSchema { found, supported });
    }
    if found == 0 {
        return Err(StoreError::Inconsistent("its schema version is 0"));
    }
    let row = sql.first("SELECT store_id, root_key_id FROM store", &[])?.ok_or(NO_ROW)?;
    let (id, store) = (StoreId(row.array(0)?), RootKeyId(row.array(1)?));
    if store != root_key {
        let given = root_key;
        return Err(StoreError::WrongRootKey { store, given });
    }
    Ok(StoredFormat { id, version: found })
}

const NO_ROW: StoreError = StoreError::Inconsistent("the row that describes the store is missing");

fn version(sql: &mut dyn Sql) -> Result<u32, StoreError> {
    sql.first("SELECT schema_version FROM store", &[])?.ok_or(NO_ROW)?.number(0)
}

/// Brings a store of version 1 to this one, within a change. Programs that support only version 1 refuse the store from then on.
pub(crate) fn migrate(sql: &mut dyn Sql, tables: &TableDefinitions) -> Result<(), StoreError> {
    // Another process may have been quicker.
    if version(sql)? == 1 {
        sql.batch(tables.second)?;
        sql.execute("UPDATE store SET schema_version = 2", &[])?;
    }
    Ok(())
}
