//! Rows of a table, page by page, whatever is in it: those that no leaf of the authenticated tree names are found.

use std::collections::BTreeSet;

use super::table::{EntryKey, EntryKind, Table};
use super::tree::TreeKeys;
use super::value::{Sql, SqlRow, SqlValue, params};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::scan::{KeyPart, PagePlace};

/// Rows of a page.
const PAGE_SIZE: u32 = 400;

/// A page of a table.
pub(super) struct Page {
    pub(super) row_count: u64,
    /// Entries that have no leaf, and rows that can be of no entry.
    pub(super) edits: Vec<StoreEdit>,
    /// Of the next page; `None` behind the last one.
    pub(super) next: Option<PagePlace>,
}

/// Reads a page, and looks for the leaves of its rows.
pub(super) fn read(
    sql: &mut dyn Sql,
    keys: &TreeKeys,
    (kind, table): (EntryKind, &Table),
    place: &PagePlace,
) -> Result<Page, StoreError> {
    let unreadable = || StoreEdit { part: EditedPart::Row { table: table.name }, kind: EditKind::Added };
    let mut edits = Vec::new();
    // Nothing compares with them: they are in no page.
    if *place == PagePlace::default() && table.has_mistyped_keys(sql)? {
        edits.push(unreadable());
    }
    let after: Vec<SqlValue> = place.after.iter().map(SqlValue::from).collect();
    let rows = table.key_page(sql, &after, (PAGE_SIZE, place.skipped))?;
    let row_count = rows.len() as u64;
    let (mut next, mut entries) = (place.clone(), BTreeSet::new());
    for row in rows {
        match row {
            Ok(row) => {
                match EntryKey::of_row(kind, &row) {
                    Ok(key) => drop(entries.insert(key)),
                    Err(_) => edits.push(unreadable()),
                }
                next = PagePlace { after: row.0.iter().filter_map(key_part).collect(), skipped: 0 };
            }
            Err(_) => {
                next.skipped += 1;
                edits.push(unreadable());
            }
        }
    }
    edits.dedup();
    edits.extend(without_leaf(sql, keys, &entries.into_iter().collect::<Vec<_>>())?);
    let is_end = row_count < u64::from(PAGE_SIZE);
    Ok(Page { row_count, edits, next: (!is_end).then_some(next) })
}

impl From<&KeyPart> for SqlValue {
    fn from(part: &KeyPart) -> Self {
        match part {
            KeyPart::Number(number) => Self::Integer(*number),
            KeyPart::Text(text) => Self::Text(text.clone()),
            KeyPart::Bytes(bytes) => Self::Blob(bytes.clone()),
        }
    }
}

/// Every value of a page has one.
fn key_part(value: &SqlValue) -> Option<KeyPart> {
    Some(match value {
        SqlValue::Integer(number) => KeyPart::Number(*number),
        SqlValue::Text(text) => KeyPart::Text(text.clone()),
        SqlValue::Blob(bytes) => KeyPart::Bytes(bytes.clone()),
        SqlValue::Null(_) | SqlValue::Flag(_) => return None,
    })
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
