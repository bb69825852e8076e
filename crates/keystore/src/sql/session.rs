//! A transaction of a store, which reads and writes entries.
//!
//! From schema 3 on every entry that is read was verified by the authenticated tree: an entry that others have changed or removed is
//! refused by name, and one that they added is not there. What is written is authenticated as it was meant, whatever the database makes
//! of it. A store of an older schema has no tree, and its entries are as the database has them.

use std::collections::BTreeMap;

use super::bounds;
use super::change_record::{self, ChangeRecord, count_key, number_of};
use super::slots::OpenRoot;
use super::stored::{self, Compared, EntrySelection, ROWS_MAX, StoredEntries};
use super::table::{EntryKey, EntryKind, EntryRows, Table};
use super::tree::{StoreTree, TreeKeys, TreeRoot};
use super::value::{RANGE, Sql, SqlRow, params};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::history::ChangeNote;
use crate::memory::StoreSighting;
use crate::scan::TreeWalk;
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};

/// Which versions of an app to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionSelection {
    All,
    Active,
}

/// Leaves that are in memory at once while all entries of a kind are read.
const LEAVES_AIMED: u32 = 5_000;

/// Old rows of the history that a change removes at most: more than it adds, for a bound that was lowered.
const CHANGES_REMOVED_MAX: u32 = 8;

/// One transaction.
pub(crate) struct StoreSession<'s> {
    pub(crate) sql: &'s mut dyn Sql,
    /// The root of the state that the transaction sees.
    pub(crate) open: &'s OpenRoot,
    pub(crate) schema: u32,
    /// What a change is authenticated with, whatever the database says of it afterwards.
    pub(super) generation: i64,
    /// None before schema 3.
    pub(super) tree: Option<StoreTree<'s>>,
    /// What a change is, until that is written; `None` in one that reads.
    pub(super) record: Option<ChangeRecord>,
}

impl<'s> StoreSession<'s> {
    /// A transaction on a state of the store that was verified.
    pub(super) fn new(sql: &'s mut dyn Sql, open: &'s OpenRoot, state: StoreState) -> Self {
        let StoreState { schema, generation, tree_root } = state;
        let tree = tree_root.map(|root| StoreTree::of_root(&open.tree, root));
        Self { sql, open, schema, generation, tree, record: None }
    }

    /// The note of the change, for what is known of it only now.
    pub(crate) fn note(&mut self, add: impl FnOnce(ChangeNote) -> ChangeNote) {
        if let Some(record) = &mut self.record {
            record.note = add(record.note.clone());
        }
    }

    /// Ends a change: what it is gets its row in the history, and all that it wrote is authenticated. Returns the new state, if it wrote
    /// anything.
    pub(crate) fn finish(mut self) -> Result<Option<StoreSighting>, StoreError> {
        let has_changed = self.sql.has_written() || self.tree.as_ref().is_some_and(StoreTree::has_changed);
        let is_due =
            |record: &ChangeRecord| record.note.kind.is_recorded() && (has_changed || record.note.kind.is_reading());
        // A store of an older schema has no history.
        if let Some(record) = self.record.take().filter(is_due).filter(|_| self.tree.is_some()) {
            self.write_record(&record)?;
        }
        let Some(tree) = self.tree.filter(|tree| tree.has_changed() || self.sql.has_written()) else {
            return Ok(None);
        };
        tree.write(self.sql, self.generation, self.open.epoch).map(Some)
    }

    /// Writes the row of this change, and removes the oldest ones.
    fn write_record(&mut self, record: &ChangeRecord) -> Result<(), StoreError> {
        let before = number_of(self.entry(&count_key())?.as_ref())?;
        for (key, rows) in record.entries(self.generation, before) {
            self.put(&key, false, &rows)?;
        }
        let kept_from = (before + 1).saturating_sub(record.count_max.into());
        for name in bounds::oldest_changes(self.sql, kept_from, CHANGES_REMOVED_MAX)? {
            match self.remove(&change_record::key(&name)) {
                // It stays, for a scan to find.
                Ok(()) | Err(StoreError::Edited(_)) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// The entries as the database has them, unverified.
    pub(super) fn unverified(sql: &'s mut dyn Sql, open: &'s OpenRoot, schema: u32) -> Self {
        Self { sql, open, schema, generation: 0, tree: None, record: None }
    }

    /// An entry's rows, or `None` where there is no such entry.
    pub(crate) fn entry(&mut self, key: &EntryKey) -> Result<Option<EntryRows>, StoreError> {
        let Some(tree) = &mut self.tree else {
            let rows = EntryRows::read(self.sql, key, self.schema)?;
            return Ok((!rows.is_missing()).then_some(rows));
        };
        let Some(leaf) = tree.leaf(self.sql, key)? else { return Ok(None) };
        match EntryRows::read(self.sql, key, self.schema) {
            Ok(rows) if tree.covers(&leaf, &rows) => Ok(Some(rows)),
            Ok(rows) => Err(edited(key, Some(&rows))),
            // A row that cannot be one of ours.
            Err(StoreError::Inconsistent(_)) => Err(edited_part(key, EditKind::Changed)),
            Err(other) => Err(other),
        }
    }

    /// Versions of an app, oldest first, with one statement for each table. What does not read is left out where it is not selected.
    pub(crate) fn versions(
        &mut self,
        app: &str,
        selection: VersionSelection,
    ) -> Result<Vec<(u32, EntryRows)>, StoreError> {
        let numbers = self.version_numbers(app, selection)?;
        let leaves = match &mut self.tree {
            Some(tree) => tree.parts(self.sql, EntryKind::KeyVersion, app)?,
            None => Vec::new(),
        };
        let mut stored =
            StoredEntries::read(self.sql, EntryKind::KeyVersion, EntrySelection::Names(&[app]), ROWS_MAX, self.schema)?;
        let mut versions = Vec::with_capacity(numbers.len());
        for number in numbers {
            let key = EntryKey::new(EntryKind::KeyVersion, app, number);
            let rows = stored.entries.remove(&key);
            match (&self.tree, leaves.iter().find(|leaf| leaf.key == key)) {
                (Some(tree), Some(leaf)) => {
                    let rows = rows.ok_or_else(|| edited(&key, None))?;
                    if !tree.covers(leaf, &rows) {
                        return Err(edited(&key, Some(&rows)));
                    }
                    versions.push((number, rows));
                }
                _ => versions.push((number, rows.ok_or(RANGE)?)),
            }
        }
        Ok(versions)
    }

    /// Writes an entry: every row of it is one of `rows` from then on. `active` as in [`Leaf`](super::tree::Leaf).
    pub(crate) fn put(&mut self, key: &EntryKey, active: bool, rows: &EntryRows) -> Result<(), StoreError> {
        if let Some(tree) = &mut self.tree {
            tree.put(self.sql, key, active, rows)?;
        }
        let stored = EntryRows::read(self.sql, key, self.schema)?;
        let tables = key.kind.tables_in(self.schema);
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

    /// Removes an entry with all its rows, which are those that the tree covers.
    pub(crate) fn remove(&mut self, key: &EntryKey) -> Result<(), StoreError> {
        self.entry(key)?;
        if let Some(tree) = &mut self.tree {
            tree.remove(self.sql, key)?;
        }
        let stored = EntryRows::read(self.sql, key, self.schema)?;
        for (index, table) in key.kind.tables_in(self.schema).iter().enumerate().rev() {
            stored.rows(index).iter().try_for_each(|row| table.delete(self.sql, row))?;
        }
        Ok(())
    }

    /// The numbers of an app's versions, oldest first.
    pub(crate) fn version_numbers(&mut self, app: &str, selection: VersionSelection) -> Result<Vec<u32>, StoreError> {
        let all = selection == VersionSelection::All;
        if let Some(tree) = &mut self.tree {
            let leaves = tree.parts(self.sql, EntryKind::KeyVersion, app)?;
            return Ok(leaves.iter().filter(|leaf| all || leaf.active).map(|leaf| leaf.key.part).collect());
        }
        let select = "SELECT version FROM key_version WHERE app = ?1 AND (?2 OR NOT disabled) ORDER BY version";
        self.sql.rows(select, params![app, all])?.iter().map(|row| row.number(0)).collect()
    }

    /// All entries of a kind, by their keys; in a change, before the first write. Refuses any edit of the tree and of these entries.
    pub(crate) fn all(&mut self, kind: EntryKind) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        let Some(tree) = &self.tree else { return self.stored(kind) };
        let (mut entries, mut walk) = (BTreeMap::new(), TreeWalk::new(LEAVES_AIMED));
        refuse(StoreTree::strays(self.sql, 1)?)?;
        while let Some(survey) = walk.next(self.sql, tree)? {
            refuse(survey.edits)?;
            let found = Compared::read(self.sql, tree, kind, &survey.leaves)?;
            refuse(found.edits)?;
            entries.extend(found.entries);
        }
        refuse(stored::added(self.sql, tree, kind, &entries)?)?;
        Ok(entries)
    }

    /// All entries of all kinds.
    pub(crate) fn all_entries(&mut self) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        let mut entries = BTreeMap::new();
        let leaves = self.tree.as_ref().map(|tree| tree.all_leaves(self.sql)).transpose()?;
        for kind in EntryKind::ALL {
            let mut of_kind = self.stored(kind)?;
            if let (Some(tree), Some(leaves)) = (&self.tree, &leaves) {
                refuse(tree.verify(kind, &mut of_kind, leaves))?;
            }
            entries.append(&mut of_kind);
        }
        Ok(entries)
    }

    /// The same as the database has them, unverified.
    fn stored(&mut self, kind: EntryKind) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        if kind.since() > self.schema {
            return Ok(BTreeMap::new());
        }
        let stored = StoredEntries::read(self.sql, kind, EntrySelection::All, u32::MAX, self.schema)?;
        if stored.unreadable.is_empty() { Ok(stored.entries) } else { Err(RANGE) }
    }
}

/// The one row of a table that has one.
pub(crate) fn only_row(rows: Vec<SqlRow>) -> Result<SqlRow, StoreError> {
    let count = rows.len();
    match rows.into_iter().next() {
        Some(row) if count == 1 => Ok(row),
        None => Err(RANGE),
        // Which one is read could depend on the statement.
        Some(_) => Err(StoreError::Edited(StoreEdit { part: EditedPart::Root, kind: EditKind::Changed })),
    }
}

/// What the whole store depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreState {
    pub(super) schema: u32,
    pub(super) generation: i64,
    /// From schema 3 on.
    pub(super) tree_root: Option<TreeRoot>,
}

impl StoreState {
    /// What to remember of it; `None` before schema 3. `ahead` as in [`StoreState::verified`].
    pub(super) fn sighting(&self, epoch: u32, ahead: i64) -> Option<StoreSighting> {
        self.tree_root.as_ref().map(|root| root.sighting(self.generation.wrapping_sub(ahead), epoch))
    }

    /// Reads and verifies it. `known`: the schema that the store had before; it never goes back. `ahead`: how often the generation was
    /// counted up since the root was written.
    pub(super) fn verified(sql: &mut dyn Sql, keys: &TreeKeys, known: u32, ahead: i64) -> Result<Self, StoreError> {
        const WITH_TREE: &str = "SELECT s.schema_version, r.generation,
            CASE WHEN length(r.digest) = 32 THEN r.digest END, CASE WHEN length(r.mac) = 32 THEN r.mac END
            FROM store AS s LEFT JOIN tree_root AS r ON r.only_row = 1 LIMIT 2";
        const CHANGED: StoreError = StoreError::Edited(StoreEdit { part: EditedPart::Root, kind: EditKind::Changed });
        let version = "SELECT schema_version FROM store LIMIT 2";
        let is_old = known < TREE_SCHEMA_VERSION && only_row(sql.rows(version, &[])?)?.number(0)? < TREE_SCHEMA_VERSION;
        let select = if is_old { "SELECT schema_version, generation FROM store LIMIT 2" } else { WITH_TREE };
        let row = only_row(sql.rows(select, &[])?)?;
        let schema = row.number(0)?;
        if schema > SCHEMA_VERSION {
            let (found, supported) = (schema, SCHEMA_VERSION);
            return Err(StoreError::NewerSchema { found, supported });
        }
        // Otherwise an attacker who can write to the database could turn the tree off.
        if schema < known {
            return Err(CHANGED);
        }
        let has_tree = schema >= TREE_SCHEMA_VERSION;
        let generation = row.integer(1).map_err(|error| if has_tree { CHANGED } else { error })?;
        let root = || StoreTree::verified_root(&row, 2, keys, generation.wrapping_sub(ahead));
        Ok(Self { schema, generation, tree_root: has_tree.then(root).transpose()? })
    }
}

fn write_row(sql: &mut dyn Sql, table: &Table, stored: &[SqlRow], row: &SqlRow) -> Result<(), StoreError> {
    match stored.iter().find(|known| table.key(known) == table.key(row)) {
        Some(known) if known == row => Ok(()),
        Some(_) => table.update(sql, row),
        None => table.insert(sql, row),
    }
}

/// Refuses the first of some edits.
fn refuse(edits: Vec<StoreEdit>) -> Result<(), StoreError> {
    edits.into_iter().next().map_or(Ok(()), |edit| Err(StoreError::Edited(edit)))
}

/// The error of an entry whose rows are not those that its leaf covers.
fn edited(key: &EntryKey, rows: Option<&EntryRows>) -> StoreError {
    edited_part(key, if rows.is_none_or(EntryRows::is_missing) { EditKind::Removed } else { EditKind::Changed })
}

fn edited_part(key: &EntryKey, kind: EditKind) -> StoreError {
    StoreError::Edited(StoreEdit { part: key.into(), kind })
}

impl From<&EntryKey> for EditedPart {
    fn from(key: &EntryKey) -> Self {
        let name = key.name.clone();
        match key.kind {
            EntryKind::App | EntryKind::Life => Self::App(name),
            EntryKind::KeyVersion => Self::KeyVersion { app: name, version: key.part },
            EntryKind::Client => Self::Client(name),
            EntryKind::ApiKey => Self::ApiKey(name),
            EntryKind::Secret => Self::Secret(name),
            EntryKind::Slot => Self::Slot(name),
            EntryKind::Change => Self::Change(name),
            EntryKind::ChangeCount => Self::ChangeCount,
            EntryKind::AuditLog => Self::AuditLog(name),
        }
    }
}
