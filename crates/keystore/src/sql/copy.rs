//! All rows of a store, to be written into another database. Private keys stay wrapped: what is copied opens only under the same root
//! key, and has the same store id and the same authenticated tree.

use super::schema::{self, TableDefinitions};
use super::table::tables;
use super::value::{Sql, SqlRow};
use crate::StoreError;

/// The rows of every table, by primary key, with the types of the tables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoreContent {
    schema: u32,
    rows: Vec<Vec<SqlRow>>,
}

impl StoreContent {
    /// Reads everything.
    pub(crate) fn read(sql: &mut dyn Sql) -> Result<Self, StoreError> {
        let schema = schema::version(sql)?;
        let rows = tables(schema).map(|table| table.read(sql, "", &[], u32::MAX)).collect::<Result<_, _>>()?;
        Ok(Self { schema, rows })
    }

    /// Makes the tables, writes everything, and compares what is there then with what was written, row by row.
    pub(crate) fn write(&self, sql: &mut dyn Sql, definitions: &TableDefinitions) -> Result<(), StoreError> {
        definitions.create(sql, self.schema)?;
        for (table, rows) in tables(self.schema).zip(&self.rows) {
            rows.iter().try_for_each(|row| table.insert(sql, row))?;
        }
        if Self::read(sql)? == *self {
            Ok(())
        } else {
            Err(StoreError::Inconsistent("the copy differs from the original"))
        }
    }

    /// How many rows there are.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }
}
