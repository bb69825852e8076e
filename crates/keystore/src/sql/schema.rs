//! How a store is recognised, and what both databases do to make one or to bring an older one to this schema. The tables themselves are
//! in each store's own words.
//!
//! Every later schema keeps the column `schema_version` of the table `store`, so that an older program can report the version that
//! it found.

use super::session::StoreSession;
use super::tree::{StoreTree, TreeKeys};
use super::value::{Sql, params};
use crate::StoreError;
use crate::root_key::RootKeyId;
use crate::schema_version::{OLDEST_USED, SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::wrapping::StoreId;

/// The tables of a store in a database's own words.
pub struct TableDefinitions {
    /// Those of version 1.
    pub(crate) first: &'static str,
    /// The additions of version 2 to version 1.
    pub(crate) second: &'static str,
    /// The additions of version 3 to version 2.
    pub(crate) third: &'static str,
}

impl TableDefinitions {
    /// Makes the tables of a schema.
    pub(crate) fn create(&self, sql: &mut dyn Sql, schema: u32) -> Result<(), StoreError> {
        let additions = [self.first, self.second, self.third];
        additions.iter().take(schema as usize).try_for_each(|tables| sql.batch(tables))
    }
}

/// Makes the tables of the store of `keys`, with what `fill` writes into them.
pub(crate) fn create(
    sql: &mut dyn Sql,
    (tables, schema): (&TableDefinitions, u32),
    keys: &TreeKeys,
    fill: impl FnOnce(&mut StoreSession<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    tables.create(sql, schema)?;
    sql.execute(
        "INSERT INTO store (only_row, schema_version, store_id, root_key_id, generation) VALUES (1, ?1, ?2, ?3, 1)",
        params![schema, keys.store.0, keys.root_key.0],
    )?;
    let tree = (schema >= TREE_SCHEMA_VERSION).then(|| StoreTree::empty(keys));
    let mut session = StoreSession { sql, keys, schema, generation: 1, tree };
    fill(&mut session)?;
    session.finish()
}

/// The row of a store.
pub(crate) struct StoredFormat {
    pub(crate) id: StoreId,
    version: u32,
}

impl StoredFormat {
    /// Whether the store cannot be used before [`bring_to_oldest_used`].
    pub(crate) fn is_too_old(&self) -> bool {
        self.version < OLDEST_USED
    }

    pub(crate) fn schema(&self) -> u32 {
        self.version.max(OLDEST_USED)
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

/// The schema of a store.
pub(crate) fn version(sql: &mut dyn Sql) -> Result<u32, StoreError> {
    sql.first("SELECT schema_version FROM store", &[])?.ok_or(NO_ROW)?.number(0)
}

/// Brings a store of version 1 to version 2, within a change. Programs that support only version 1 refuse the store from then on.
pub(crate) fn bring_to_oldest_used(sql: &mut dyn Sql, tables: &TableDefinitions) -> Result<(), StoreError> {
    // Another process may have been quicker.
    if version(sql)? == 1 {
        sql.batch(tables.second)?;
        sql.execute("UPDATE store SET schema_version = 2", &[])?;
    }
    Ok(())
}
