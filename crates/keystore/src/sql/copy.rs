//! All rows of a store, to be written into another database. Private keys stay wrapped: what is copied opens only under the same root
//! key, and has the same store id.

use super::schema::TableDefinitions;
use super::value::{RANGE, Sql, SqlRow, SqlValue, Type};
use crate::StoreError;

/// A table and its columns; rows that others refer to come first, and columns are in the order of the primary key.
struct CopiedTable {
    name: &'static str,
    columns: &'static [(&'static str, Type)],
    key: &'static str,
}

use Type::{Blob, Flag, Integer, Text};

const TABLES: [CopiedTable; 10] = [
    CopiedTable {
        name: "store",
        columns: &[
            ("only_row", Integer),
            ("schema_version", Integer),
            ("store_id", Blob),
            ("root_key_id", Blob),
            ("generation", Integer),
        ],
        key: "only_row",
    },
    CopiedTable { name: "app", columns: &[("name", Text), ("created_at", Integer), ("disabled", Flag)], key: "name" },
    CopiedTable {
        name: "key_version",
        columns: &[("app", Text), ("version", Integer), ("created_at", Integer), ("disabled", Flag)],
        key: "app, version",
    },
    CopiedTable {
        name: "key_pair",
        columns: &[
            ("app", Text),
            ("version", Integer),
            ("curve", Text),
            ("public_key", Blob),
            ("wrapped_private_key", Blob),
        ],
        key: "app, version, curve",
    },
    CopiedTable {
        name: "client",
        columns: &[
            ("name", Text),
            ("created_at", Integer),
            ("disabled", Flag),
            ("may_encrypt", Flag),
            ("may_decrypt", Flag),
            ("all_apps", Flag),
            ("any_role", Flag),
            ("certificate_sha256", Blob),
        ],
        key: "name",
    },
    CopiedTable { name: "client_app", columns: &[("client", Text), ("app", Text)], key: "client, app" },
    CopiedTable { name: "client_role", columns: &[("client", Text), ("role", Text)], key: "client, role" },
    CopiedTable {
        name: "api_key",
        columns: &[
            ("id", Text),
            ("app", Text),
            ("created_at", Integer),
            ("revoked_at", Integer),
            ("secret_sha256", Blob),
            ("may_encrypt", Flag),
            ("may_decrypt", Flag),
            ("may_inspect", Flag),
            ("may_issue_tokens", Flag),
            ("any_role", Flag),
        ],
        key: "id",
    },
    CopiedTable { name: "api_key_role", columns: &[("api_key", Text), ("role", Text)], key: "api_key, role" },
    CopiedTable { name: "secret", columns: &[("purpose", Text), ("wrapped", Blob)], key: "purpose" },
];

/// The rows of every table, by primary key, with the types of the tables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoreContent(Vec<Vec<Vec<SqlValue>>>);

impl StoreContent {
    /// Reads everything.
    pub(crate) fn read(sql: &mut dyn Sql) -> Result<Self, StoreError> {
        TABLES.iter().map(|table| table.read(sql)).collect::<Result<_, _>>().map(Self)
    }

    /// Makes the tables, writes everything, and compares what is there then with what was written, row by row.
    pub(crate) fn write(&self, sql: &mut dyn Sql, tables: &TableDefinitions) -> Result<(), StoreError> {
        sql.batch(tables.first)?;
        sql.batch(tables.second)?;
        for (table, rows) in TABLES.iter().zip(&self.0) {
            for row in rows {
                sql.execute(&table.insert(), row)?;
            }
        }
        if Self::read(sql)? == *self {
            Ok(())
        } else {
            Err(StoreError::Inconsistent("the copy differs from the original"))
        }
    }

    /// How many rows there are.
    pub(crate) fn row_count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

impl CopiedTable {
    fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn insert(&self) -> String {
        let numbers: Vec<String> = (1..=self.columns.len()).map(|number| format!("?{number}")).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", self.name, self.names(), numbers.join(", "))
    }

    fn read(&self, sql: &mut dyn Sql) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let rows = sql.rows(&format!("SELECT {} FROM {} ORDER BY {}", self.names(), self.name, self.key), &[])?;
        rows.into_iter().map(|row| self.typed(row)).collect()
    }

    /// SQLite has no flags, and a missing value of either database has no type.
    fn typed(&self, SqlRow(values): SqlRow) -> Result<Vec<SqlValue>, StoreError> {
        let of_type = |(value, (_, of)): (SqlValue, &(&str, Type))| match (value, of) {
            (SqlValue::Null(_), of) => Ok(SqlValue::Null(*of)),
            (SqlValue::Integer(number @ (0 | 1)), Flag) => Ok(SqlValue::Flag(number == 1)),
            (value @ SqlValue::Flag(_), Flag)
            | (value @ SqlValue::Integer(_), Integer)
            | (value @ SqlValue::Text(_), Text)
            | (value @ SqlValue::Blob(_), Blob) => Ok(value),
            _ => Err(RANGE),
        };
        values.into_iter().zip(self.columns).map(of_type).collect()
    }
}
