//! A scan: every row of a store is compared with the authenticated tree, in many short reads, while others use and change the store.
//!
//! Each step is one transaction that reads a bounded number of rows and needs nothing of the steps before it, so that changes between
//! steps are no matter. A pass goes through the tree, which finds entries that were changed or removed, and through the tables, which
//! finds rows that no leaf names. What was edited before a pass began is found by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::session::{StoreState, StoredEntries};
use super::slots::OpenRoot;
use super::table::{EntryKey, EntryKind, Table};
use super::tree::{BUCKETS, Leaf, StoreTree, TreeKeys};
use super::value::{Sql, SqlRow, SqlValue, params};
use super::{SqlBackend, SqlKeystore};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::scan::{KeyPart, ScanPlace, ScanStep, StoreScan};
use crate::schema_version::TREE_SCHEMA_VERSION;

/// Leaves that a step aims at.
const LEAVES_AIMED: u64 = 200;
/// Buckets of a step at first, and at most: the nodes above them have 128 KiB.
const FIRST_WIDTH: u32 = 64;
const WIDTH_MAX: u32 = 4096;
/// The most leaves that a step reads. More than that many in one bucket are an edit.
const LEAVES_MAX: u32 = 65_536;
/// Entries that one statement reads.
const NAMES_MAX: usize = 200;
/// Rows of one table that a statement reads at most: an app has 131,072 pairs of keys at most.
const ROWS_MAX: u32 = 200_000;
/// Rows of a table whose leaves a step looks for.
const PAGE_SIZE: u32 = 400;
/// Rows outside of the tree that are named.
const STRAYS_MAX: u32 = 1_000;

impl<B: SqlBackend> SqlKeystore<B> {
    pub(super) fn scan_step(&self, scan: &mut StoreScan) -> Result<ScanStep, StoreError> {
        let (step, next) = self.backend.read(|sql| {
            // Brings this process to the newest root; what was edited is found below.
            let open = self.settled_root(sql)?;
            let (known, mut step) = (self.schema.load(Ordering::Acquire), ScanStep::default());
            let Some(tree) = tree(sql, &open, known, &mut step)? else { return Ok((step, None)) };
            let next = match &scan.0 {
                ScanPlace::Tree { bucket, width } => leaf_step(sql, &tree, (*bucket, *width), &mut step)?,
                ScanPlace::Table { index, after, skipped } => {
                    let page = Page { index: *index, after, skipped: *skipped };
                    page.step(sql, &open.tree, &mut step)?
                }
            };
            Ok((step, next))
        })?;
        let is_last = next.is_none();
        scan.0 = next.unwrap_or_default();
        Ok(ScanStep { is_last, ..step })
    }
}

impl Default for ScanPlace {
    fn default() -> Self {
        Self::Tree { bucket: 0, width: FIRST_WIDTH }
    }
}

/// The tree, whatever is stored; `None` where the schema has none.
fn tree<'k>(
    sql: &mut dyn Sql,
    open: &'k OpenRoot,
    known: u32,
    step: &mut ScanStep,
) -> Result<Option<StoreTree<'k>>, StoreError> {
    match StoreState::verified(sql, &open.tree, known, 0) {
        Ok(state) => Ok(state.tree_root.map(|root| StoreTree::of_root(&open.tree, root))),
        Err(StoreError::Edited(edit)) => {
            step.edits.push(edit);
            // One that claims an older schema has no tables of a tree, or needs none.
            let schema = super::schema::version(sql)?;
            if schema < TREE_SCHEMA_VERSION { Ok(None) } else { StoreTree::unverified(sql, &open.tree).map(Some) }
        }
        Err(other) => Err(other),
    }
}

/// Verifies some buckets and their entries.
fn leaf_step(
    sql: &mut dyn Sql,
    tree: &StoreTree<'_>,
    (bucket, mut width): (u32, u32),
    step: &mut ScanStep,
) -> Result<Option<ScanPlace>, StoreError> {
    if bucket == 0 {
        step.edits.extend(StoreTree::strays(sql, STRAYS_MAX)?);
    }
    let survey = loop {
        let survey = tree.survey_range(sql, bucket..bucket.saturating_add(width).min(BUCKETS), LEAVES_MAX)?;
        step.row_count += survey.row_count;
        if !survey.is_cut || width == 1 {
            break survey;
        }
        width = (width / 8).max(1);
    };
    step.edits.extend(survey.edits);
    let mut names: BTreeMap<EntryKind, BTreeSet<&str>> = BTreeMap::new();
    for key in survey.leaves.keys() {
        names.entry(key.kind).or_default().insert(&key.name);
    }
    for (kind, names) in names {
        let names: Vec<&str> = names.into_iter().collect();
        for names in names.chunks(NAMES_MAX) {
            compare(sql, tree, (kind, names), &survey.leaves, step)?;
        }
    }
    let next = bucket + width;
    let aimed = u64::from(width) * LEAVES_AIMED / (survey.leaves.len() as u64).max(1);
    let width = u32::try_from(aimed).unwrap_or(WIDTH_MAX).clamp(1, WIDTH_MAX);
    let of_tables = ScanPlace::Table { index: 0, after: Vec::new(), skipped: 0 };
    Ok(Some(if next < BUCKETS { ScanPlace::Tree { bucket: next, width } } else { of_tables }))
}

/// Compares the entries of some names with their leaves.
fn compare(
    sql: &mut dyn Sql,
    tree: &StoreTree<'_>,
    (kind, names): (EntryKind, &[&str]),
    leaves: &BTreeMap<EntryKey, Leaf>,
    step: &mut ScanStep,
) -> Result<(), StoreError> {
    let stored = StoredEntries::read(sql, kind, Some(names), ROWS_MAX, TREE_SCHEMA_VERSION)?;
    step.row_count += stored.row_count;
    let is_named = |key: &EntryKey| key.kind == kind && names.binary_search(&key.name.as_str()).is_ok();
    let of_names = leaves.iter().filter(|(key, _)| is_named(key));
    match names {
        _ if !stored.is_cut => {
            let of_names: BTreeMap<_, _> = of_names.map(|(key, leaf)| (key.clone(), leaf.clone())).collect();
            step.edits.extend(tree.edits(kind, &stored.entries, &of_names));
        }
        // More rows than the program ever writes.
        [_] => step.edits.extend(of_names.map(|(key, _)| StoreEdit { part: key.into(), kind: EditKind::Changed })),
        _ => {
            let (some, others) = names.split_at(names.len() / 2);
            compare(sql, tree, (kind, some), leaves, step)?;
            compare(sql, tree, (kind, others), leaves, step)?;
        }
    }
    Ok(())
}

/// Rows of a table, by primary key.
struct Page<'p> {
    /// In [`entry_tables`].
    index: usize,
    /// The primary key of the last row before it; empty for the first page.
    after: &'p [KeyPart],
    /// Rows after that one which cannot be compared with a key of ours, and belong to pages before this one.
    skipped: u32,
}

/// The tables of all kinds of entries.
fn entry_tables() -> impl Iterator<Item = (EntryKind, &'static Table)> {
    EntryKind::ALL.into_iter().flat_map(|kind| kind.tables().iter().map(move |table| (kind, *table)))
}

impl Page<'_> {
    /// Looks for the leaves of the page's rows.
    fn step(self, sql: &mut dyn Sql, keys: &TreeKeys, step: &mut ScanStep) -> Result<Option<ScanPlace>, StoreError> {
        let Some((kind, table)) = entry_tables().nth(self.index) else { return Ok(None) };
        let (rows, mut last, mut skipped) = (self.read(sql, table)?, self.after.to_vec(), self.skipped);
        step.row_count += rows.len() as u64;
        let is_end = rows.len() < PAGE_SIZE as usize;
        let mut entries = BTreeSet::new();
        for row in rows {
            match row.and_then(|row| EntryKey::of_row(kind, &row).map(|key| (key, row.clone())).map_err(|_| row)) {
                Ok((key, row)) => {
                    entries.insert(key);
                    (last, skipped) = (row.0.iter().filter_map(key_part).collect(), 0);
                }
                Err(_) => {
                    skipped += 1;
                    let part = EditedPart::Row { table: table.name };
                    step.edits.push(StoreEdit { part, kind: EditKind::Added });
                }
            }
        }
        step.edits.extend(without_leaf(sql, keys, &entries.into_iter().collect::<Vec<_>>())?);
        let next = if is_end { (self.index + 1, Vec::new(), 0) } else { (self.index, last, skipped) };
        let is_over = entry_tables().nth(next.0).is_none();
        let (index, after, skipped) = next;
        Ok((!is_over).then_some(ScanPlace::Table { index, after, skipped }))
    }

    fn read(&self, sql: &mut dyn Sql, table: &Table) -> Result<Vec<Result<SqlRow, SqlRow>>, StoreError> {
        let numbers = |count: usize| (1..=count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
        let columns = table.key_names();
        let value = |part: &KeyPart| match part {
            KeyPart::Number(number) => SqlValue::from(*number),
            KeyPart::Text(text) => text.as_str().into(),
        };
        let params: Vec<SqlValue> = self.after.iter().map(value).collect();
        let condition = match params.len() {
            0 => String::new(),
            count => format!("WHERE ({columns}) > ({})", numbers(count)),
        };
        let clauses = format!("{condition} ORDER BY {columns} LIMIT {PAGE_SIZE} OFFSET {}", self.skipped);
        table.read_keys(sql, &clauses, &params)
    }
}

/// Keys have no other types.
fn key_part(value: &SqlValue) -> Option<KeyPart> {
    match value {
        SqlValue::Integer(number) => Some(KeyPart::Number(*number)),
        SqlValue::Text(text) => Some(KeyPart::Text(text.clone())),
        _ => None,
    }
}

/// The entries that were added, as they have no leaf.
fn without_leaf(sql: &mut dyn Sql, keys: &TreeKeys, entries: &[EntryKey]) -> Result<Vec<StoreEdit>, StoreError> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let mut params: Vec<SqlValue> = Vec::with_capacity(5 * entries.len());
    let mut values = Vec::with_capacity(entries.len());
    for (index, key) in (0_u32..).zip(entries) {
        let number = params.len();
        values.push(format!("(?{}, ?{}, ?{}, ?{}, ?{})", number + 1, number + 2, number + 3, number + 4, number + 5));
        let kind = u32::from(key.kind as u8);
        params.extend_from_slice(params![index, keys.bucket(key), kind, key.name.as_str(), key.part]);
    }
    let select = format!(
        "SELECT entry.column1 FROM (VALUES {}) AS entry WHERE NOT EXISTS (SELECT 1 FROM tree_leaf WHERE
         bucket = entry.column2 AND kind = entry.column3 AND name = entry.column4 AND part = entry.column5 AND length(mac) = 32)",
        values.join(", ")
    );
    let added = |row: &SqlRow| {
        let key = &entries[row.number(0)? as usize];
        Ok(StoreEdit { part: key.into(), kind: EditKind::Added })
    };
    sql.rows(&select, &params)?.iter().map(added).collect()
}
