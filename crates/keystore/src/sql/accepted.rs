//! The kinds of envelopes that an app, a client's grant or an API key accepts, as a row of flags; without a row all.

use super::table::EntryRows;
use super::value::{SqlRow, params};
use crate::StoreError;
use crate::accepted::AcceptedSchemes;
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};

/// What an entry accepts whose row is in this table.
pub(super) fn read(rows: &EntryRows, table: usize) -> Result<AcceptedSchemes, StoreError> {
    let Some(row) = rows.rows(table).first() else { return Ok(AcceptedSchemes::ALL) };
    Ok(AcceptedSchemes { public_key: row.flag(1)?, symmetric: row.flag(2)?, from_public_key: row.flag(3)? })
}

/// Puts what an entry accepts into this table of it.
///
/// # Errors
/// The schema is too old to limit it.
pub(super) fn put(
    rows: &mut EntryRows,
    table: usize,
    (owner, accept): (&str, AcceptedSchemes),
    schema: u32,
) -> Result<(), StoreError> {
    let row = (accept != AcceptedSchemes::ALL)
        .then(|| SqlRow(params![owner, accept.public_key, accept.symmetric, accept.from_public_key].to_vec()));
    if schema < TREE_SCHEMA_VERSION {
        let (found, needed) = (schema, SCHEMA_VERSION);
        return if row.is_none() { Ok(()) } else { Err(StoreError::OldSchema { found, needed }) };
    }
    rows.0.resize(rows.0.len().max(table + 1), Vec::new());
    rows.0[table] = row.into_iter().collect();
    Ok(())
}
