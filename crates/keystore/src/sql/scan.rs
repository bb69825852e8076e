//! A scan: every row of a store is compared with the authenticated tree, in many short reads, while others use and change the store.
//!
//! Each step is one transaction that reads a bounded number of rows and needs nothing of the steps before it, so that changes between
//! steps are no matter. A pass goes through the tree, which finds entries that were changed or removed, and through the tables, which
//! finds rows that no leaf names. What was edited before a pass began is found by it.

use std::sync::atomic::Ordering;

use super::pages;
use super::session::StoreState;
use super::slots::OpenRoot;
use super::stored::Compared;
use super::table::{EntryKind, Table};
use super::tree::StoreTree;
use super::value::{Sql, attempt};
use super::{SqlBackend, SqlKeystore};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::scan::{PagePlace, ScanPlace, ScanStep, StoreScan, TreeWalk};
use crate::schema_version::TREE_SCHEMA_VERSION;

/// Leaves that a step aims at.
const LEAVES_AIMED: u32 = 200;
/// Rows outside of the tree that are named.
const STRAYS_MAX: u32 = 1_000;

impl<B: SqlBackend> SqlKeystore<B> {
    pub(super) fn scan_step(&self, scan: &mut StoreScan) -> Result<ScanStep, StoreError> {
        let (step, next) = self.backend.read(|sql| {
            // Brings this process to the newest root; what was edited is found below.
            let open = attempt(sql, |sql| self.settled_root(sql))?.unwrap_or_else(|_| self.open_root());
            let (known, mut step) = (self.schema.load(Ordering::Acquire), ScanStep::default());
            let next = advance(sql, &open, known, &scan.0, &mut step)?;
            Ok((step, next))
        })?;
        let is_last = next.is_none();
        scan.0 = next.unwrap_or_default();
        Ok(ScanStep { is_last, ..step })
    }
}

/// Makes a step, and returns where the next one is. What does not read at all is an edit, and the scan goes on behind it.
pub(super) fn advance(
    sql: &mut dyn Sql,
    open: &OpenRoot,
    known: u32,
    place: &ScanPlace,
    step: &mut ScanStep,
) -> Result<Option<ScanPlace>, StoreError> {
    let tree = match attempt(sql, |sql| tree(sql, open, known, step))? {
        Ok(Some(tree)) => tree,
        Ok(None) => return Ok(None),
        Err(_) => {
            step.edits.push(changed(EditedPart::Root));
            StoreTree::empty(&open.tree)
        }
    };
    match place {
        ScanPlace::Tree(walk) => leaf_step(sql, (&tree, open.epoch), *walk, step).map(Some),
        ScanPlace::Table(index, place) => page_step(sql, &tree, (*index, place), step),
    }
}

fn changed(part: EditedPart) -> StoreEdit {
    StoreEdit { part, kind: EditKind::Changed }
}

impl Default for ScanPlace {
    fn default() -> Self {
        Self::Tree(TreeWalk::new(LEAVES_AIMED))
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
    (tree, epoch): (&StoreTree<'_>, u32),
    mut walk: TreeWalk,
    step: &mut ScanStep,
) -> Result<ScanPlace, StoreError> {
    if walk.is_at_start() {
        for table in ["tree_node", "store"] {
            let found = attempt(sql, |sql| match table {
                "store" => tree.edits_of_store(sql, epoch),
                _ => StoreTree::strays(sql, STRAYS_MAX),
            })?;
            step.edits.extend(found.unwrap_or_else(|_| vec![changed(EditedPart::Table(table))]));
        }
    }
    match attempt(sql, |sql| walk.next(sql, tree))? {
        Ok(Some(survey)) => {
            step.row_count += survey.row_count;
            step.edits.extend(survey.edits);
            for kind in EntryKind::ALL {
                match attempt(sql, |sql| Compared::read(sql, tree, kind, &survey.leaves))? {
                    Ok(found) => {
                        step.row_count += found.row_count;
                        step.edits.extend(found.edits);
                    }
                    Err(_) => {
                        step.edits.extend(kind.tables().iter().map(|table| changed(EditedPart::Table(table.name))))
                    }
                }
            }
        }
        Ok(None) => {}
        Err(_) => {
            step.edits.push(changed(EditedPart::Table("tree_leaf")));
            walk.skip();
        }
    }
    Ok(if walk.is_at_end() { ScanPlace::Table(0, PagePlace::default()) } else { ScanPlace::Tree(walk) })
}

/// The tables of all kinds of entries.
fn entry_tables() -> impl Iterator<Item = (EntryKind, &'static Table)> {
    EntryKind::ALL.into_iter().flat_map(|kind| kind.tables().iter().map(move |table| (kind, *table)))
}

/// Looks for the leaves of a page of a table.
fn page_step(
    sql: &mut dyn Sql,
    tree: &StoreTree<'_>,
    (index, place): (usize, &PagePlace),
    step: &mut ScanStep,
) -> Result<Option<ScanPlace>, StoreError> {
    let Some((kind, table)) = entry_tables().nth(index) else { return Ok(None) };
    let next = match attempt(sql, |sql| pages::read(sql, tree.keys(), (kind, table), place))? {
        Ok(page) => {
            step.row_count += page.row_count;
            step.edits.extend(page.edits);
            page.next
        }
        Err(_) => {
            step.edits.push(changed(EditedPart::Table(table.name)));
            None
        }
    };
    Ok(match next {
        Some(next) => Some(ScanPlace::Table(index, next)),
        None if entry_tables().nth(index + 1).is_some() => Some(ScanPlace::Table(index + 1, PagePlace::default())),
        None => None,
    })
}
