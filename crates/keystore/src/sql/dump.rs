//! All rows of a store as a stream of bytes, in pages: neither side holds more than a page of a table.
//!
//! ```text
//! schema (4), then rows: number of the table in the order of `tables` (1) ‖ values, then 255 ‖ number of rows (8)
//! value: 0 nothing, 1 an integer (8), 2 text and 3 bytes, each after their length (4), 4 false, 5 true
//! ```
//! Numbers are big-endian.

use super::schema::{self, SLOT_ROWS_MAX, TableDefinitions};
use super::table::{EntryKind, Table, tables};
use super::value::{Sql, SqlRow, SqlValue};
use crate::StoreError;
use crate::schema_version::{OLDEST_USED, SCHEMA_VERSION};
use crate::sealed_stream::{DAMAGED, OpeningReader, SealingWriter};

/// Rows that are in memory at once.
const PAGE_SIZE: u32 = 1000;
/// In place of a table's number, after the last row.
const END: u8 = 255;
/// Longest text or bytes of a column, above every bound of a store.
const VALUE_SIZE_MAX: usize = 1 << 20;

/// Writes every row, and returns how many there are.
pub(crate) fn write(sql: &mut dyn Sql, out: &mut SealingWriter<'_>) -> Result<u64, StoreError> {
    let schema = schema::version(sql)?;
    out.write(&schema.to_be_bytes())?;
    let mut count = 0;
    for (number, table) in (0_u8..).zip(tables(schema)) {
        let mut last: Option<SqlRow> = None;
        loop {
            let page = table.page(sql, last.as_ref(), PAGE_SIZE)?;
            page.iter().try_for_each(|row| write_row(out, number, row))?;
            count += page.len() as u64;
            let is_last = page.len() < PAGE_SIZE as usize;
            last = page.into_iter().next_back();
            if is_last {
                break;
            }
        }
    }
    out.write(&[END])?;
    out.write(&count.to_be_bytes())?;
    Ok(count)
}

fn write_row(out: &mut SealingWriter<'_>, table: u8, row: &SqlRow) -> Result<(), StoreError> {
    out.write(&[table])?;
    out.write(&encoded(row))
}

fn encoded(row: &SqlRow) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in &row.0 {
        match value {
            SqlValue::Null(_) => bytes.push(0),
            SqlValue::Integer(integer) => {
                bytes.push(1);
                bytes.extend(integer.to_be_bytes());
            }
            SqlValue::Text(text) => write_sized(&mut bytes, 2, text.as_bytes()),
            SqlValue::Blob(blob) => write_sized(&mut bytes, 3, blob),
            SqlValue::Flag(flag) => bytes.push(4 + u8::from(*flag)),
        }
    }
    bytes
}

/// The rows of the key slots, one after the other as above: who restores a backup needs them before anything else.
pub(crate) fn slots(sql: &mut dyn Sql) -> Result<Vec<u8>, StoreError> {
    let has_slots = schema::version(sql)? >= EntryKind::Slot.since();
    let rows = if has_slots { slot_table().read(sql, "", &[], SLOT_ROWS_MAX)? } else { Vec::new() };
    Ok(rows.iter().flat_map(encoded).collect())
}

/// The rows that [`slots`] wrote.
pub(crate) fn read_slots(mut bytes: &[u8]) -> Result<Vec<SqlRow>, StoreError> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        rows.push(read_row(&mut bytes, slot_table())?);
    }
    Ok(rows)
}

fn slot_table() -> &'static Table {
    EntryKind::Slot.tables()[0]
}

/// What rows are read from.
trait RowInput {
    /// Fills all of `bytes`.
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), StoreError>;
}

impl RowInput for OpeningReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        OpeningReader::read(self, bytes)
    }
}

impl RowInput for &[u8] {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        let (front, rest) = self.split_at_checked(bytes.len()).ok_or(DAMAGED)?;
        bytes.copy_from_slice(front);
        *self = rest;
        Ok(())
    }
}

fn write_sized(bytes: &mut Vec<u8>, tag: u8, value: &[u8]) {
    bytes.push(tag);
    bytes.extend(u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(value);
}

/// Makes the tables, writes every row that [`write`] wrote, and returns how many there are.
pub(crate) fn read(
    sql: &mut dyn Sql,
    definitions: &TableDefinitions,
    mut input: OpeningReader<'_>,
) -> Result<u64, StoreError> {
    let schema = u32::from_be_bytes(read_array(&mut input)?);
    if schema > SCHEMA_VERSION {
        let (found, supported) = (schema, SCHEMA_VERSION);
        return Err(StoreError::NewerSchema { found, supported });
    }
    if schema < OLDEST_USED {
        return Err(DAMAGED);
    }
    definitions.create(sql, schema)?;
    let all: Vec<&Table> = tables(schema).collect();
    let (mut count, mut page_of, mut page) = (0_u64, 0, Vec::new());
    loop {
        let [number] = read_array(&mut input)?;
        if number != page_of || page.len() == PAGE_SIZE as usize {
            all[usize::from(page_of)].insert_all(sql, &page)?;
            page.clear();
        }
        if number == END {
            break;
        }
        let table = all.get(usize::from(number)).ok_or(DAMAGED)?;
        page_of = number;
        page.push(read_row(&mut input, table)?);
        count += 1;
    }
    if u64::from_be_bytes(read_array(&mut input)?) != count {
        return Err(DAMAGED);
    }
    input.finish()?;
    Ok(count)
}

fn read_row(input: &mut impl RowInput, table: &Table) -> Result<SqlRow, StoreError> {
    let value = |(_, of): &(&str, _)| {
        Ok(match read_array::<1>(input)? {
            [0] => SqlValue::Null(*of),
            [1] => SqlValue::Integer(i64::from_be_bytes(read_array(input)?)),
            [2] => SqlValue::Text(String::from_utf8(read_sized(input)?).map_err(|_| DAMAGED)?),
            [3] => SqlValue::Blob(read_sized(input)?),
            [tag @ (4 | 5)] => SqlValue::Flag(tag == 5),
            _ => return Err(DAMAGED),
        })
    };
    table.columns.iter().map(value).collect::<Result<_, StoreError>>().map(SqlRow)
}

fn read_sized(input: &mut impl RowInput) -> Result<Vec<u8>, StoreError> {
    let size = u32::from_be_bytes(read_array(input)?) as usize;
    if size > VALUE_SIZE_MAX {
        return Err(DAMAGED);
    }
    let mut bytes = vec![0; size];
    input.read(&mut bytes)?;
    Ok(bytes)
}

fn read_array<const SIZE: usize>(input: &mut impl RowInput) -> Result<[u8; SIZE], StoreError> {
    let mut bytes = [0; SIZE];
    input.read(&mut bytes)?;
    Ok(bytes)
}
