//! Entries as the database has them, and how they differ from the leaves of the authenticated tree.

use std::collections::{BTreeMap, BTreeSet};

use super::pages;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::tree::{Leaf, StoreTree};
use super::value::{Sql, SqlValue};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::scan::PagePlace;
use crate::schema_version::TREE_SCHEMA_VERSION;

/// Entries that one statement reads.
const NAMES_MAX: usize = 200;
/// Rows of one table that a statement reads at most: an app has 131,072 pairs of keys at most.
const ROWS_MAX: u32 = 200_000;

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
        names: Option<&[&str]>,
        limit: u32,
        schema: u32,
    ) -> Result<Self, StoreError> {
        let tables = kind.tables_in(schema);
        let (mut entries, mut unreadable) = (BTreeMap::<EntryKey, EntryRows>::new(), Vec::new());
        let params: Vec<SqlValue> = names.unwrap_or_default().iter().map(|name| SqlValue::from(*name)).collect();
        let numbers: Vec<String> = (1..=params.len()).map(|number| format!("?{number}")).collect();
        let (mut row_count, mut is_cut) = (0, false);
        for (index, table) in tables.iter().enumerate() {
            let condition = match names {
                Some(_) => format!("WHERE {} IN ({})", table.columns[0].0, numbers.join(", ")),
                None => String::new(),
            };
            let rows = table.read_each(sql, &condition, &params, limit)?;
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

/// The entries of some leaves.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) entries: BTreeMap<EntryKey, EntryRows>,
    /// How they differ from their leaves.
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
            compared.add(sql, tree, (kind, names), leaves)?;
        }
        Ok(compared)
    }

    fn add(
        &mut self,
        sql: &mut dyn Sql,
        tree: &StoreTree<'_>,
        (kind, names): (EntryKind, &[&str]),
        leaves: &BTreeMap<EntryKey, Leaf>,
    ) -> Result<(), StoreError> {
        let stored = StoredEntries::read(sql, kind, Some(names), ROWS_MAX, TREE_SCHEMA_VERSION)?;
        self.row_count += stored.row_count;
        let is_named = |key: &EntryKey| key.kind == kind && names.binary_search(&key.name.as_str()).is_ok();
        let of_names = leaves.iter().filter(|(key, _)| is_named(key));
        match names {
            _ if !stored.is_cut => {
                let of_names: BTreeMap<_, _> = of_names.map(|(key, leaf)| (key.clone(), leaf.clone())).collect();
                self.edits.extend(tree.edits(kind, &stored.entries, &of_names));
                self.entries.extend(stored.entries);
            }
            // More rows than the program ever writes.
            [_] => self.edits.extend(of_names.map(|(key, _)| StoreEdit { part: key.into(), kind: EditKind::Changed })),
            _ => {
                let (some, others) = names.split_at(names.len() / 2);
                self.add(sql, tree, (kind, some), leaves)?;
                self.add(sql, tree, (kind, others), leaves)?;
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
