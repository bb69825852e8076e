//! A transaction of a store, which reads and writes entries.
//!
//! From schema 3 on every entry that is read was verified by the authenticated tree: an entry that others have changed or removed is
//! refused by name, and one that they added is not there. What is written is authenticated as it was meant, whatever the database makes
//! of it. A store of an older schema has no tree, and its entries are as the database has them.

use std::collections::BTreeMap;

use super::table::{EntryKey, EntryKind, EntryRows, Table};
use super::tree::{StoreTree, TreeKeys};
use super::value::{RANGE, Sql, SqlRow, params};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};

/// Which versions of an app to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionSelection {
    All,
    Active,
}

/// One transaction.
pub(crate) struct StoreSession<'s> {
    pub(crate) sql: &'s mut dyn Sql,
    pub(super) keys: &'s TreeKeys,
    pub(crate) schema: u32,
    /// None before schema 3.
    pub(super) tree: Option<StoreTree<'s>>,
}

impl<'s> StoreSession<'s> {
    /// A transaction that reads. `known`: the schema that the store had before; it never goes back.
    pub(crate) fn of_read(sql: &'s mut dyn Sql, keys: &'s TreeKeys, known: u32) -> Result<Self, StoreError> {
        Self::open(sql, keys, known, 0)
    }

    /// A transaction that changes the store, whose generation was counted up already.
    pub(crate) fn of_change(sql: &'s mut dyn Sql, keys: &'s TreeKeys, known: u32) -> Result<Self, StoreError> {
        Self::open(sql, keys, known, 1)
    }

    fn open(sql: &'s mut dyn Sql, keys: &'s TreeKeys, known: u32, ahead: i64) -> Result<Self, StoreError> {
        let (schema, tree) = open_tree(sql, keys, known, ahead)?;
        Ok(Self { sql, keys, schema, tree })
    }

    /// The entries as the database has them, unverified.
    pub(super) fn unverified(sql: &'s mut dyn Sql, keys: &'s TreeKeys, schema: u32) -> Self {
        Self { sql, keys, schema, tree: None }
    }

    /// Ends a change: what it wrote is authenticated.
    pub(crate) fn finish(self) -> Result<(), StoreError> {
        let Some(tree) = self.tree else { return Ok(()) };
        let generation = self.sql.first("SELECT generation FROM store", &[])?.ok_or(RANGE)?.integer(0)?;
        tree.write(self.sql, generation)
    }

    /// An entry's rows, or `None` where there is no such entry.
    pub(crate) fn entry(&mut self, key: &EntryKey) -> Result<Option<EntryRows>, StoreError> {
        let Some(tree) = &mut self.tree else {
            let rows = EntryRows::read(self.sql, key)?;
            return Ok((!rows.is_missing()).then_some(rows));
        };
        let Some(leaf) = tree.leaf(self.sql, key)? else { return Ok(None) };
        let rows = EntryRows::read(self.sql, key)?;
        if tree.covers(&leaf, &rows) { Ok(Some(rows)) } else { Err(edited(key, Some(&rows))) }
    }

    /// Writes an entry: every row of it is one of `rows` from then on. `active` as in [`Leaf`](super::tree::Leaf).
    pub(crate) fn put(&mut self, key: &EntryKey, active: bool, rows: &EntryRows) -> Result<(), StoreError> {
        if let Some(tree) = &mut self.tree {
            tree.put(self.sql, key, active, rows)?;
        }
        let stored = EntryRows::read(self.sql, key)?;
        let tables = key.kind.tables();
        for (index, table) in tables.iter().enumerate().rev() {
            let is_gone = |row: &&SqlRow| !rows.rows(index).iter().any(|kept| table.key(kept) == table.key(row));
            for row in stored.rows(index).iter().filter(is_gone) {
                table.delete(self.sql, row)?;
            }
        }
        for (index, table) in tables.iter().enumerate() {
            for row in rows.rows(index) {
                write_row(self.sql, table, stored.rows(index), row)?;
            }
        }
        Ok(())
    }

    /// The numbers of an app's versions, oldest first.
    pub(crate) fn versions(&mut self, app: &str, selection: VersionSelection) -> Result<Vec<u32>, StoreError> {
        let all = selection == VersionSelection::All;
        if let Some(tree) = &mut self.tree {
            let leaves = tree.parts(self.sql, EntryKind::KeyVersion, app)?;
            return Ok(leaves.iter().filter(|leaf| all || leaf.active).map(|leaf| leaf.key.part).collect());
        }
        let select = "SELECT version FROM key_version WHERE app = ?1 AND (?2 OR NOT disabled) ORDER BY version";
        self.sql.rows(select, params![app, all])?.iter().map(|row| row.number(0)).collect()
    }

    /// All entries of a kind, by their keys.
    pub(crate) fn all(&mut self, kind: EntryKind) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        let entries = self.stored(kind)?;
        let Some(tree) = &self.tree else { return Ok(entries) };
        let leaves = tree.all_leaves(self.sql)?;
        match tree.edits(kind, &entries, &leaves).into_iter().next() {
            Some(edit) => Err(StoreError::Edited(edit)),
            None => Ok(entries),
        }
    }

    /// The same as the database has them, unverified.
    pub(super) fn stored(&mut self, kind: EntryKind) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        let tables = kind.tables();
        let mut entries: BTreeMap<EntryKey, EntryRows> = BTreeMap::new();
        for (index, table) in tables.iter().enumerate() {
            for row in table.read(self.sql, "", &[])? {
                let key = EntryKey::of_row(kind, &row)?;
                let rows = entries.entry(key).or_insert_with(|| EntryRows(vec![Vec::new(); tables.len()]));
                rows.0[index].push(row);
            }
        }
        // Rows that belong to nothing are found by the check of references.
        entries.retain(|_, rows| !rows.is_missing());
        Ok(entries)
    }
}

/// The schema of a store, and its tree from schema 3 on. `ahead`: how often the generation was counted up since the root was written.
pub(super) fn open_tree<'k>(
    sql: &mut dyn Sql,
    keys: &'k TreeKeys,
    known: u32,
    ahead: i64,
) -> Result<(u32, Option<StoreTree<'k>>), StoreError> {
    let row = sql.first("SELECT schema_version, generation FROM store", &[])?.ok_or(RANGE)?;
    let (schema, generation) = (row.number(0)?, row.integer(1)?);
    if schema > SCHEMA_VERSION {
        let (found, supported) = (schema, SCHEMA_VERSION);
        return Err(StoreError::NewerSchema { found, supported });
    }
    // Otherwise whoever can write to the database could turn the tree off.
    if schema < known {
        return Err(StoreError::Edited(StoreEdit { part: EditedPart::Root, kind: EditKind::Changed }));
    }
    let has_tree = schema >= TREE_SCHEMA_VERSION;
    let tree = has_tree.then(|| StoreTree::open(sql, keys, generation.wrapping_sub(ahead))).transpose()?;
    Ok((schema, tree))
}

fn write_row(sql: &mut dyn Sql, table: &Table, stored: &[SqlRow], row: &SqlRow) -> Result<(), StoreError> {
    match stored.iter().find(|known| table.key(known) == table.key(row)) {
        Some(known) if known == row => Ok(()),
        Some(_) => table.update(sql, row),
        None => table.insert(sql, row),
    }
}

/// The error of an entry whose rows are not those that its leaf covers.
fn edited(key: &EntryKey, rows: Option<&EntryRows>) -> StoreError {
    let kind = if rows.is_none_or(EntryRows::is_missing) { EditKind::Removed } else { EditKind::Changed };
    StoreError::Edited(StoreEdit { part: key.into(), kind })
}

impl From<&EntryKey> for EditedPart {
    fn from(key: &EntryKey) -> Self {
        let name = key.name.clone();
        match key.kind {
            EntryKind::App => Self::App(name),
            EntryKind::KeyVersion => Self::KeyVersion { app: name, version: key.part },
            EntryKind::Client => Self::Client(name),
            EntryKind::ApiKey => Self::ApiKey(name),
            EntryKind::Secret => Self::Secret(name),
        }
    }
}
