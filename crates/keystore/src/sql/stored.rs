//! Entries as the database has them, and how they differ from the leaves of the authenticated tree.

use std::collections::{BTreeMap, BTreeSet};

use super::pages;
use super::table::{EntryKey, EntryKind, EntryRows, Table};
use super::tree::{Leaf, StoreTree};
use super::value::{Sql, SqlValue};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::scan::PagePlace;
use crate::schema_version::TREE_SCHEMA_VERSION;

/// Entries that one statement reads.
const NAMES_MAX: usize = 200;
/// Rows of one table that a statement reads at most: an app has 131,072 pairs of keys at most.
pub(super) const ROWS_MAX: u32 = 200_000;

/// Which entries of a kind to read.
#[derive(Clone, Copy)]
pub(super) enum EntrySelection<'s> {
    All,
    Names(&'s [&'s str]),
    /// Of a kind with parts, by name and part.
    Parts(&'s [(&'s str, u32)]),
}

impl EntrySelection<'_> {
    fn params(self) -> Vec<SqlValue> {
        match self {
            Self::All => Vec::new(),
            Self::Names(names) => names.iter().map(|name| SqlValue::from(*name)).collect(),
            Self::Parts(keys) => keys.iter().flat_map(|(name, part)| [(*name).into(), (*part).into()]).collect(),
        }
    }

    fn condition(self, table: &Table) -> String {
        let (name, part) = (table.columns[0].0, table.columns[1].0);
        let list = |count: usize, write: fn(usize) -> String| (1..=count).map(write).collect::<Vec<_>>().join(", ");
        match self {
            Self::All => String::new(),
            Self::Names(names) => format!("WHERE {name} IN ({})", list(names.len(), |number| format!("?{number}"))),
            Self::Parts(keys) => {
                let pairs = list(keys.len(), |number| format!("(?{}, ?{})", 2 * number - 1, 2 * number));
                format!("WHERE ({name}, {part}) IN (VALUES {pairs})")
            }
        }
    }
}

/// Entries as the database has them.
pub(super) struct StoredEntries {
    pub(super) entries: BTreeMap<EntryKey, EntryRows>,
    /// Rows that cannot be of their table: its name, and the first column if that is a text.
    pub(super) unreadable: Vec<(&'static str, String)>,
    pub(super) row_count: u64,
    /// A table has more rows than the limit.
    pub(super) is_cut: bool,
}

impl StoredEntries {
    /// All entries of a kind, or those of some names, from at most `limit` rows of a table. Rows that belong to nothing are left to the
    /// check of references.
    pub(super) fn read(
        sql: &mut dyn Sql,
        kind: EntryKind,
        selection: EntrySelection<'_>,
        limit: u32,
        schema: u32,
    ) -> Result<Self, StoreError> {
        let tables = kind.tables_in(schema);
        let (mut entries, mut unreadable) = (BTreeMap::<EntryKey, EntryRows>::new(), Vec::new());
        let params = selection.params();
        let (mut row_count, mut is_cut) = (0, false);
        for (index, table) in tables.iter().enumerate() {
            let rows = table.read_each(sql, &selection.condition(table), &params, limit)?;
            row_count += rows.len() as u64;
            is_cut |= rows.len() >= limit as usize;
            for row in rows {
                match row.and_then(|row| EntryKey::of_row(kind, &row).map(|key| (key, row.clone())).map_err(|_| row)) {
                    Ok((key, row)) => {
                        let rows = entries.entry(key).or_insert_with(|| EntryRows(vec![Vec::new(); tables.len()]));
                        rows.0[index].push(row);
                    }
                    Err(row) => unreadable.push((table.name, row.text(0).unwrap_or_default().to_owned())),
                }
            }
        }
        entries.retain(|_, rows| !rows.is_missing());
        Ok(Self { entries, unreadable, row_count, is_cut })
    }
}

/// Takes entries of some kinds, or `None` where a row has no name.
type EntryVisit<'v> = &'v mut dyn FnMut(Option<&mut [StoredEntries]>) -> Result<(), StoreError>;

/// Calls `visit` with all entries of some kinds as the database has them, some names at a time: those
/// in the first table of the first kind.
pub(super) fn each(
    sql: &mut dyn Sql,
    kinds: &[EntryKind],
    schema: u32,
    visit: EntryVisit<'_>,
) -> Result<(), StoreError> {
    let head = kinds[0].tables()[0];
    if head.has_mistyped_keys(sql)? {
        visit(None)?;
    }
    let (mut after, mut skipped) = (Vec::new(), 0);
    loop {
        let keys = head.key_page(sql, &after, (NAMES_MAX as u32, skipped))?;
        let (is_end, mut names) = (keys.len() < NAMES_MAX, BTreeSet::new());
        for key in keys {
            match key {
                Ok(key) => {
                    names.insert(key.text(0)?.to_owned());
                    (after, skipped) = (key.0, 0);
                }
                Err(_) => {
                    skipped += 1;
                    visit(None)?;
                }
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        visit_named(sql, kinds, &names, schema, visit)?;
        if is_end {
            return Ok(());
        }
    }
}

fn visit_named(
    sql: &mut dyn Sql,
    kinds: &[EntryKind],
    names: &[&str],
    schema: u32,
    visit: EntryVisit<'_>,
) -> Result<(), StoreError> {
    if names.is_empty() {
        return Ok(());
    }
    let read = |kind: &EntryKind| StoredEntries::read(sql, *kind, EntrySelection::Names(names), ROWS_MAX, schema);
    let mut stored: Vec<StoredEntries> = kinds.iter().map(read).collect::<Result<_, _>>()?;
    if names.len() == 1 || stored.iter().all(|stored| !stored.is_cut) {
        return visit(Some(&mut stored));
    }
    drop(stored);
    let (some, others) = names.split_at(names.len() / 2);
    visit_named(sql, kinds, some, schema, visit)?;
    visit_named(sql, kinds, others, schema, visit)
}

/// The entries of some leaves, verified.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) entries: BTreeMap<EntryKey, EntryRows>,
    /// How the others differ from their leaves.
    pub(super) edits: Vec<StoreEdit>,
    pub(super) row_count: u64,
}

impl Compared {
    /// Reads the entries of those leaves that are of a kind, and compares them.
    pub(super) fn read(
        sql: &mut dyn Sql,
        tree: &StoreTree<'_>,
        kind: EntryKind,
        leaves: &BTreeMap<EntryKey, Leaf>,
    ) -> Result<Self, StoreError> {
        let names: BTreeSet<&str> = leaves.keys().filter(|key| key.kind == kind).map(|key| key.name.as_str()).collect();
        let (names, mut compared) = (Vec::from_iter(names), Self::default());
        for names in names.chunks(NAMES_MAX) {
            compared.add_named(sql, tree, (kind, names), leaves)?;
        }
        Ok(compared)
    }

    /// The same for one part of each name.
    pub(super) fn read_parts(
        sql: &mut dyn Sql,
        tree: &StoreTree<'_>,
        kind: EntryKind,
        leaves: &BTreeMap<EntryKey, Leaf>,
    ) -> Result<Self, StoreError> {
        let parts: Vec<(&str, u32)> = leaves.keys().map(|key| (key.name.as_str(), key.part)).collect();
        let mut compared = Self::default();
        for parts in parts.chunks(NAMES_MAX) {
            let stored = StoredEntries::read(sql, kind, EntrySelection::Parts(parts), ROWS_MAX, TREE_SCHEMA_VERSION)?;
            let is_meant = |key: &&EntryKey| parts.binary_search(&(key.name.as_str(), key.part)).is_ok();
            let of_parts = leaves.iter().filter(|(key, _)| is_meant(key));
            compared.add(tree, kind, stored, &of_parts.map(|(key, leaf)| (key.clone(), leaf.clone())).collect());
        }
        Ok(compared)
    }

    fn add(
        &mut self,
        tree: &StoreTree<'_>,
        kind: EntryKind,
        mut stored: StoredEntries,
        leaves: &BTreeMap<EntryKey, Leaf>,
    ) {
        self.row_count += stored.row_count;
        self.edits.extend(tree.verify(kind, &mut stored.entries, leaves));
        self.entries.extend(stored.entries);
    }

    fn add_named(
        &mut self,
        sql: &mut dyn Sql,
        tree: &StoreTree<'_>,
        (kind, names): (EntryKind, &[&str]),
        leaves: &BTreeMap<EntryKey, Leaf>,
    ) -> Result<(), StoreError> {
        let stored = StoredEntries::read(sql, kind, EntrySelection::Names(names), ROWS_MAX, TREE_SCHEMA_VERSION)?;
        let is_named = |key: &EntryKey| key.kind == kind && names.binary_search(&key.name.as_str()).is_ok();
        let of_names = leaves.iter().filter(|(key, _)| is_named(key)).map(|(key, leaf)| (key.clone(), leaf.clone()));
        match names {
            // More rows than the program ever writes make the last of a name differ.
            _ if !stored.is_cut || names.len() == 1 => self.add(tree, kind, stored, &of_names.collect()),
            _ => {
                self.row_count += stored.row_count;
                let (some, others) = names.split_at(names.len() / 2);
                self.add_named(sql, tree, (kind, some), leaves)?;
                self.add_named(sql, tree, (kind, others), leaves)?;
            }
        }
        Ok(())
    }
}

/// The first rows of a kind, if there are any, that belong to none of its `entries`, which are all that leaves name.
pub(super) fn added(
    sql: &mut dyn Sql,
    tree: &StoreTree<'_>,
    kind: EntryKind,
    entries: &BTreeMap<EntryKey, EntryRows>,
) -> Result<Vec<StoreEdit>, StoreError> {
    for (index, table) in kind.tables().iter().enumerate() {
        let known: usize = entries.values().map(|rows| rows.rows(index).len()).sum();
        if sql.count(&format!("SELECT count(*) FROM {}", table.name), &[])? as usize == known {
            continue;
        }
        let mut place = PagePlace::default();
        loop {
            let page = pages::read(sql, tree.keys(), (kind, table), &place)?;
            if !page.edits.is_empty() {
                return Ok(page.edits);
            }
            match page.next {
                Some(next) => place = next,
                None => break,
            }
        }
        // Its keys are those of entries, more than once.
        return Ok(vec![StoreEdit { part: EditedPart::Row { table: table.name }, kind: EditKind::Added }]);
    }
    Ok(Vec::new())
}
