//! The tables of a store and their columns, and which rows belong together as one entry: an app, a key version, a client, an API key or a
//! secret of the store's own.
//!
//! Everything that handles all tables follows from this list: copies, the authenticated tree, reading and writing of entries.

use super::value::{RANGE, Sql, SqlRow, SqlValue, Type};
use crate::StoreError;
use crate::canary::CANARY_COUNT_MAX;

/// A table and its columns, of which the first `key_size` are the primary key.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, Type)],
    key_size: usize,
    /// The schema that has it first.
    since: u32,
    /// Rows that an entry has at most.
    entry_size: u32,
}

use Type::{Blob, Flag, Integer, Text};

const fn table(name: &'static str, since: u32, key_size: usize, columns: &'static [(&'static str, Type)]) -> Table {
    Table { name, columns, key_size, since, entry_size: 1 }
}

impl Table {
    const fn with_entry_size(self, entry_size: u32) -> Self {
        Self { entry_size, ..self }
    }
}

/// Apps, or roles, of a grant: as many as `StoreLimits::grant_entry_count_max` can permit.
const GRANT_ENTRIES_MAX: u32 = 100_000;
/// Replaced certificates of a client that are accepted at most.
pub(super) const REPLACED_COUNT_MAX: usize = 4;

/// Before schema 3.
const OLD_STORE: Table = table(
    "store",
    1,
    1,
    &[
        ("only_row", Integer),
        ("schema_version", Integer),
        ("store_id", Blob),
        ("root_key_id", Blob),
        ("generation", Integer),
    ],
);
const STORE: Table = table(
    "store",
    3,
    1,
    &[("only_row", Integer), ("schema_version", Integer), ("store_id", Blob), ("root_key_id", Blob)],
);
const APP: Table = table("app", 1, 1, &[("name", Text), ("created_at", Integer), ("disabled", Flag)]);
const ACCEPTED: [(&str, Type); 3] =
    [("accepts_public_key", Flag), ("accepts_symmetric", Flag), ("accepts_from_public_key", Flag)];
const APP_ACCEPT: Table = table("app_accept", 3, 1, &[("app", Text), ACCEPTED[0], ACCEPTED[1], ACCEPTED[2]]);
const APP_LIFE: Table = table(
    "app_life",
    3,
    1,
    &[("app", Text), ("delete_at", Integer), ("was_disabled", Flag), ("rotate_after", Integer), ("used_at", Integer)],
);
const KEY_VERSION: Table =
    table("key_version", 1, 2, &[("app", Text), ("version", Integer), ("created_at", Integer), ("disabled", Flag)]);
const KEY_PAIR: Table = table(
    "key_pair",
    1,
    3,
    &[("app", Text), ("version", Integer), ("curve", Text), ("public_key", Blob), ("wrapped_private_key", Blob)],
)
.with_entry_size(2);
const SYMMETRIC_KEY: Table =
    table("symmetric_key", 3, 2, &[("app", Text), ("version", Integer), ("key_id", Blob), ("wrapped_root", Blob)]);
const CLIENT: Table = table(
    "client",
    1,
    1,
    &[
        ("name", Text),
        ("created_at", Integer),
        ("disabled", Flag),
        ("may_encrypt", Flag),
        ("may_decrypt", Flag),
        ("all_apps", Flag),
        ("any_role", Flag),
        ("certificate_sha256", Blob),
    ],
);
const CLIENT_APP: Table =
    table("client_app", 1, 2, &[("client", Text), ("app", Text)]).with_entry_size(GRANT_ENTRIES_MAX);
/// Certificates that a renewal has replaced, and until when they are accepted.
const CLIENT_CERTIFICATE: Table =
    table("client_certificate", 3, 2, &[("client", Text), ("sha256", Blob), ("accepted_until", Integer)])
        .with_entry_size(REPLACED_COUNT_MAX as u32);
const CLIENT_ACCEPT: Table = table("client_accept", 3, 1, &[("client", Text), ACCEPTED[0], ACCEPTED[1], ACCEPTED[2]]);
const CLIENT_ROLE: Table =
    table("client_role", 1, 2, &[("client", Text), ("role", Text)]).with_entry_size(GRANT_ENTRIES_MAX);
const API_KEY: Table = table(
    "api_key",
    2,
    1,
    &[
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
);
const API_KEY_ACCEPT: Table =
    table("api_key_accept", 3, 1, &[("api_key", Text), ACCEPTED[0], ACCEPTED[1], ACCEPTED[2]]);
const API_KEY_ROLE: Table =
    table("api_key_role", 2, 2, &[("api_key", Text), ("role", Text)]).with_entry_size(GRANT_ENTRIES_MAX);
const SECRET: Table = table("secret", 2, 1, &[("purpose", Text), ("wrapped", Blob)]);
const SLOT: Table = table(
    "slot",
    3,
    1,
    &[
        ("id", Text),
        ("kind", Text),
        ("key_name", Text),
        ("created_at", Integer),
        ("public_key", Blob),
        ("wrapped_secrets", Blob),
        ("wrapped_mac_key", Blob),
        ("epoch", Integer),
        ("sealed_root", Blob),
        ("root_mac", Blob),
    ],
);
const ROOT_LINK: Table =
    table("root_link", 3, 1, &[("from_root", Blob), ("epoch", Integer), ("expires_at", Integer), ("sealed", Blob)]);
const TREE_ROOT: Table =
    table("tree_root", 3, 1, &[("only_row", Integer), ("digest", Blob), ("mac", Blob), ("generation", Integer)]);
const TREE_NODE: Table = table("tree_node", 3, 2, &[("level", Integer), ("position", Integer), ("children", Blob)]);
const TREE_LEAF: Table = table(
    "tree_leaf",
    3,
    4,
    &[("bucket", Integer), ("kind", Integer), ("name", Text), ("part", Integer), ("active", Flag), ("mac", Blob)],
);

/// What was done to the store, by its generation then.
const STORE_CHANGE: Table = table(
    "store_change",
    3,
    1,
    &[
        ("name", Text),
        ("number", Integer),
        ("changed_at", Integer),
        ("kind", Text),
        ("app", Text),
        ("client", Text),
        ("version", Integer),
        ("detail", Text),
        ("command", Text),
        ("engine", Text),
        ("os_user", Text),
        ("os_uid", Integer),
        ("host", Text),
    ],
);
/// Which log an engine writes, by the engine's name.
const AUDIT_LOG: Table =
    table("audit_log", 3, 1, &[("engine", Text), ("log_id", Text), ("epoch", Integer), ("opened_at", Integer)]);
/// Envelopes whose opening raises an alarm, by a digest.
const APP_CANARY: Table =
    table("app_canary", 3, 2, &[("app", Text), ("digest", Blob), ("created_at", Integer), ("scheme", Text)])
        .with_entry_size(CANARY_COUNT_MAX as u32);
const CHANGE_COUNT: Table = table("change_count", 3, 1, &[("name", Text), ("number", Integer)]);

/// The tables of a schema; those that others refer to come first.
pub(crate) fn tables(schema: u32) -> impl Iterator<Item = &'static Table> {
    let all = [
        if schema < STORE.since { &OLD_STORE } else { &STORE },
        &APP,
        &APP_ACCEPT,
        &KEY_VERSION,
        &KEY_PAIR,
        &SYMMETRIC_KEY,
        &CLIENT,
        &CLIENT_APP,
        &CLIENT_ROLE,
        &CLIENT_CERTIFICATE,
        &CLIENT_ACCEPT,
        &API_KEY,
        &API_KEY_ROLE,
        &API_KEY_ACCEPT,
        &SECRET,
        &SLOT,
        &ROOT_LINK,
        &APP_LIFE,
        &TREE_ROOT,
        &TREE_NODE,
        &TREE_LEAF,
        &STORE_CHANGE,
        &CHANGE_COUNT,
        &AUDIT_LOG,
        &APP_CANARY,
    ];
    all.into_iter().filter(move |table| table.since <= schema)
}

impl Table {
    pub(crate) fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn key_columns(&self) -> &'static [(&'static str, Type)] {
        &self.columns[..self.key_size]
    }

    /// The values of a row's primary key.
    pub(crate) fn key<'r>(&self, row: &'r SqlRow) -> &'r [SqlValue] {
        &row.0[..self.key_size]
    }

    /// The rows that `condition` selects, at most `limit`, by primary key, with the types of the table.
    pub(crate) fn read(
        &self,
        sql: &mut dyn Sql,
        condition: &str,
        params: &[SqlValue],
        limit: u32,
    ) -> Result<Vec<SqlRow>, StoreError> {
        self.read_each(sql, condition, params, limit)?.into_iter().map(|row| row.map_err(|_| RANGE)).collect()
    }

    /// The same, at most `limit`; a row that cannot be one of this table comes as it is, as an error, and hides no other.
    pub(crate) fn read_each(
        &self,
        sql: &mut dyn Sql,
        condition: &str,
        params: &[SqlValue],
        limit: u32,
    ) -> Result<Vec<Result<SqlRow, SqlRow>>, StoreError> {
        let (columns, key) = (bounded(sql, self.columns), self.key_names());
        let select = format!("SELECT {columns} FROM {} {condition} ORDER BY {key} LIMIT {limit}", self.name);
        Ok(sql.rows(&select, params)?.into_iter().map(|row| self.typed(row)).collect())
    }

    /// Primary keys by their order: at most `size`, after the key `after` and as many others as `skipped` says. Those with a column that
    /// has nothing, or something of another type, are left out: they have no place in an order.
    pub(crate) fn key_page(
        &self,
        sql: &mut dyn Sql,
        after: &[SqlValue],
        (size, skipped): (u32, u32),
    ) -> Result<Vec<Result<SqlRow, SqlRow>>, StoreError> {
        let (names, typed) = (self.key_names(), self.keys_are_typed(sql));
        let numbers: Vec<String> = (1..=after.len()).map(|number| format!("?{number}")).collect();
        let later = if after.is_empty() { "" } else { &format!("AND ({names}) > ({})", numbers.join(", ")) };
        let columns = bounded(sql, self.key_columns());
        let select = format!(
            "SELECT {columns} FROM {} WHERE {typed} {later} ORDER BY {names} LIMIT {size} OFFSET {skipped}",
            self.name
        );
        Ok(sql.rows(&select, after)?.into_iter().map(|row| self.typed(row)).collect())
    }

    /// Whether a row has a key that is left out of pages.
    pub(crate) fn has_mistyped_keys(&self, sql: &mut dyn Sql) -> Result<bool, StoreError> {
        let typed = self.keys_are_typed(sql);
        Ok(sql.first(&format!("SELECT 1 FROM {} WHERE NOT ({typed}) LIMIT 1", self.name), &[])?.is_some())
    }

    fn keys_are_typed(&self, sql: &dyn Sql) -> String {
        self.key_columns().iter().map(|(name, of)| sql.is_of_type(name, *of)).collect::<Vec<_>>().join(" AND ")
    }

    /// The columns of the primary key.
    pub(crate) fn key_names(&self) -> String {
        self.key_columns().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// At most `size` rows after the row `last`, by primary key.
    pub(crate) fn page(&self, sql: &mut dyn Sql, last: Option<&SqlRow>, size: u32) -> Result<Vec<SqlRow>, StoreError> {
        let places: Vec<String> = (1..=self.key_size).map(|number| format!("?{number}")).collect();
        let after = format!("WHERE ({}) > ({})", self.key_names(), places.join(", "));
        let rows = match last {
            Some(last) => self.read_each(sql, &after, self.key(last), size)?,
            None => self.read_each(sql, "", &[], size)?,
        };
        rows.into_iter().map(|row| row.map_err(|_| RANGE)).collect()
    }

    pub(crate) fn insert(&self, sql: &mut dyn Sql, row: &SqlRow) -> Result<(), StoreError> {
        let numbers: Vec<String> = (1..=self.columns.len()).map(|number| format!("?{number}")).collect();
        let insert = format!("INSERT INTO {} ({}) VALUES ({})", self.name, self.names(), numbers.join(", "));
        sql.execute(&insert, &row.0).map(drop)
    }

    pub(crate) fn insert_all(&self, sql: &mut dyn Sql, rows: &[SqlRow]) -> Result<(), StoreError> {
        insert_rows(sql, &format!("{} ({})", self.name, self.names()), "", rows)
    }

    /// Writes every column but those of the key.
    pub(crate) fn update(&self, sql: &mut dyn Sql, row: &SqlRow) -> Result<(), StoreError> {
        let assign = |(index, (name, _)): (usize, &(&str, Type))| format!("{name} = ?{}", index + 1);
        let columns: Vec<String> = self.columns.iter().enumerate().skip(self.key_size).map(assign).collect();
        let update = format!("UPDATE {} SET {} WHERE {}", self.name, columns.join(", "), self.has_key());
        sql.execute(&update, &row.0).map(drop)
    }

    pub(crate) fn delete(&self, sql: &mut dyn Sql, row: &SqlRow) -> Result<(), StoreError> {
        sql.execute(&format!("DELETE FROM {} WHERE {}", self.name, self.has_key()), self.key(row)).map(drop)
    }

    /// The condition for one row, whose key is the first parameters.
    fn has_key(&self) -> String {
        let equal = |(index, (name, _)): (usize, &(&str, Type))| format!("{name} = ?{}", index + 1);
        self.key_columns().iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ")
    }

    /// SQLite has no flags, and a missing value of either database has no type.
    fn typed(&self, row: SqlRow) -> Result<SqlRow, SqlRow> {
        let of_type = |(value, (_, of)): (&SqlValue, &(&str, Type))| match (value, of) {
            (SqlValue::Null(_), of) => Some(SqlValue::Null(*of)),
            (SqlValue::Integer(number @ (0 | 1)), Flag) => Some(SqlValue::Flag(*number == 1)),
            (value @ SqlValue::Flag(_), Flag)
            | (value @ SqlValue::Integer(_), Integer)
            | (value @ SqlValue::Text(_), Text)
            | (value @ SqlValue::Blob(_), Blob) => Some(value.clone()),
            _ => None,
        };
        let typed: Option<Vec<SqlValue>> = row.0.iter().zip(self.columns).map(of_type).collect();
        typed.map(SqlRow).ok_or(row)
    }
}

/// Columns to select, none of which takes more memory than a value may have.
fn bounded(sql: &dyn Sql, columns: &[(&str, Type)]) -> String {
    let column = |(name, of): &(&str, Type)| match of {
        Text | Blob => sql.bounded(name),
        Integer | Flag => (*name).to_owned(),
    };
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// Rows that one statement writes.
const BATCH_SIZE: usize = 200;

/// Inserts rows with a few statements. `into`: a table and its columns; `conflict`: what becomes of a row that is there.
pub(crate) fn insert_rows(sql: &mut dyn Sql, into: &str, conflict: &str, rows: &[SqlRow]) -> Result<(), StoreError> {
    for batch in rows.chunks(BATCH_SIZE) {
        let mut numbers = 1..;
        let mut values = |row: &SqlRow| {
            let places: Vec<String> = numbers.by_ref().take(row.0.len()).map(|number| format!("?{number}")).collect();
            format!("({})", places.join(", "))
        };
        let values: Vec<String> = batch.iter().map(&mut values).collect();
        let params: Vec<SqlValue> = batch.iter().flat_map(|row| row.0.iter().cloned()).collect();
        sql.execute(&format!("INSERT INTO {into} VALUES {} {conflict}", values.join(", ")), &params)?;
    }
    Ok(())
}

/// What the rows of an entry are about. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum EntryKind {
    App = 1,
    KeyVersion = 2,
    Client = 3,
    ApiKey = 4,
    Secret = 5,
    Slot = 6,
    /// What is planned for an app.
    Life = 7,
    /// What was done to the store once.
    Change = 8,
    /// How many changes there were.
    ChangeCount = 9,
    /// The audit log of an engine.
    AuditLog = 10,
}

impl EntryKind {
    pub(crate) const ALL: [EntryKind; 10] = [
        EntryKind::App,
        EntryKind::KeyVersion,
        EntryKind::Client,
        EntryKind::ApiKey,
        EntryKind::Secret,
        EntryKind::Slot,
        EntryKind::Life,
        EntryKind::Change,
        EntryKind::ChangeCount,
        EntryKind::AuditLog,
    ];

    pub(crate) fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| i64::from(*kind as u8) == number)
    }

    /// The tables with the rows of an entry. Their first column is its name; an entry has one row in the first table.
    pub(crate) fn tables(self) -> &'static [&'static Table] {
        match self {
            Self::App => &[&APP, &APP_ACCEPT, &APP_CANARY],
            Self::KeyVersion => &[&KEY_VERSION, &KEY_PAIR, &SYMMETRIC_KEY],
            Self::Client => &[&CLIENT, &CLIENT_APP, &CLIENT_ROLE, &CLIENT_CERTIFICATE, &CLIENT_ACCEPT],
            Self::ApiKey => &[&API_KEY, &API_KEY_ROLE, &API_KEY_ACCEPT],
            Self::Secret => &[&SECRET],
            Self::Slot => &[&SLOT],
            Self::Life => &[&APP_LIFE],
            Self::Change => &[&STORE_CHANGE],
            Self::ChangeCount => &[&CHANGE_COUNT],
            Self::AuditLog => &[&AUDIT_LOG],
        }
    }

    /// Those that a schema has; later ones come last.
    pub(crate) fn tables_in(self, schema: u32) -> &'static [&'static Table] {
        let all = self.tables();
        &all[..all.iter().take_while(|table| table.since <= schema).count()]
    }

    /// The first schema with such entries.
    pub(crate) fn since(self) -> u32 {
        self.tables().first().map_or(0, |table| table.since)
    }

    /// Whether the second column of its tables is the number of a part.
    pub(crate) fn has_parts(self) -> bool {
        self == Self::KeyVersion
    }
}

/// Which entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryKey {
    pub(crate) kind: EntryKind,
    /// Of the app, client or secret, or the id of the API key.
    pub(crate) name: String,
    /// The number of a key version; 0 for other kinds.
    pub(crate) part: u32,
}

impl EntryKey {
    pub(crate) fn new(kind: EntryKind, name: &str, part: u32) -> Self {
        Self { kind, name: name.to_owned(), part }
    }

    /// Which entry a row of one of its tables belongs to.
    pub(crate) fn of_row(kind: EntryKind, row: &SqlRow) -> Result<Self, StoreError> {
        let part = if kind.has_parts() { row.number(1)? } else { 0 };
        Ok(Self::new(kind, row.text(0)?, part))
    }
}

/// The rows of an entry by table, in the order of [`EntryKind::tables`].
#[derive(Debug, Default, Clone)]
pub(crate) struct EntryRows(pub(crate) Vec<Vec<SqlRow>>);

impl EntryRows {
    pub(crate) fn read(sql: &mut dyn Sql, key: &EntryKey, schema: u32) -> Result<Self, StoreError> {
        let tables = key.kind.tables_in(schema).iter();
        // One more than there can be differs from what the leaf covers as well as any number.
        let read = |table: &&Table| match key.kind.has_parts() {
            true => {
                let condition = format!("WHERE {} = ?1 AND {} = ?2", table.columns[0].0, table.columns[1].0);
                table.read(sql, &condition, &[key.name.as_str().into(), key.part.into()], table.entry_size + 1)
            }
            false => {
                let condition = format!("WHERE {} = ?1", table.columns[0].0);
                table.read(sql, &condition, &[key.name.as_str().into()], table.entry_size + 1)
            }
        };
        tables.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The row in the first table.
    pub(crate) fn head(&self) -> Result<&SqlRow, StoreError> {
        self.0.first().and_then(|rows| rows.first()).ok_or(RANGE)
    }

    pub(crate) fn head_mut(&mut self) -> Result<&mut SqlRow, StoreError> {
        self.0.first_mut().and_then(|rows| rows.first_mut()).ok_or(RANGE)
    }

    /// The rows in another table.
    pub(crate) fn rows(&self, table: usize) -> &[SqlRow] {
        self.0.get(table).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.rows(0).is_empty()
    }
}
