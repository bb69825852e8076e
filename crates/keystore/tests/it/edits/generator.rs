//! Random edits of a store's rows, as statements that both databases run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::types::ValueRef;

use super::ADDED;

/// A table: its columns, of which the first `key` are the primary key. Written down apart from the program's own list.
pub(super) struct EditedTable {
    pub(super) name: &'static str,
    key: usize,
    /// `t`ext, `i`nteger, `b`lob, `f`lag; in capitals where the column may be null.
    types: &'static str,
    columns: &'static [&'static str],
}

const fn table(name: &'static str, key: usize, types: &'static str, columns: &'static [&'static str]) -> EditedTable {
    EditedTable { name, key, types, columns }
}

pub(super) const TABLES: [EditedTable; 20] = [
    table("store", 1, "iibb", &["only_row", "schema_version", "store_id", "root_key_id"]),
    table("app", 1, "tif", &["name", "created_at", "disabled"]),
    table("app_accept", 1, "tfff", &["app", "accepts_public_key", "accepts_symmetric", "accepts_from_public_key"]),
    table("app_canary", 2, "tbit", &["app", "digest", "created_at", "scheme"]),
    table("key_version", 2, "tiif", &["app", "version", "created_at", "disabled"]),
    table("key_pair", 3, "titbb", &["app", "version", "curve", "public_key", "wrapped_private_key"]),
    table(
        "client",
        1,
        "tifffffB",
        &["name", "created_at", "disabled", "may_encrypt", "may_decrypt", "all_apps", "any_role", "certificate_sha256"],
    ),
    table("client_app", 2, "tt", &["client", "app"]),
    table("client_role", 2, "tt", &["client", "role"]),
    table(
        "client_accept",
        1,
        "tfff",
        &["client", "accepts_public_key", "accepts_symmetric", "accepts_from_public_key"],
    ),
    table(
        "api_key",
        1,
        "ttiIbfffff",
        &[
            "id",
            "app",
            "created_at",
            "revoked_at",
            "secret_sha256",
            "may_encrypt",
            "may_decrypt",
            "may_inspect",
            "may_issue_tokens",
            "any_role",
        ],
    ),
    table(
        "api_key_accept",
        1,
        "tfff",
        &["api_key", "accepts_public_key", "accepts_symmetric", "accepts_from_public_key"],
    ),
    table("api_key_role", 2, "tt", &["api_key", "role"]),
    table("secret", 1, "tb", &["purpose", "wrapped"]),
    table(
        "store_change",
        1,
        "tiitTTITtTTIT",
        &[
            "name",
            "number",
            "changed_at",
            "kind",
            "app",
            "client",
            "version",
            "detail",
            "command",
            "engine",
            "os_user",
            "os_uid",
            "host",
        ],
    ),
    table("change_count", 1, "ti", &["name", "number"]),
    table("audit_log", 1, "ttii", &["engine", "log_id", "epoch", "opened_at"]),
    table("tree_root", 1, "ibbi", &["only_row", "digest", "mac", "generation"]),
    table("tree_node", 2, "iib", &["level", "position", "children"]),
    table("tree_leaf", 4, "iitifb", &["bucket", "kind", "name", "part", "active", "mac"]),
];

/// The values of a row; texts as they are, others as literals.
type DumpedRow = Vec<String>;

/// All rows of a store.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Dump(BTreeMap<&'static str, BTreeSet<DumpedRow>>);

pub(super) fn dump(path: &Path) -> Dump {
    let raw = rusqlite::Connection::open(path).expect("opened");
    let mut dump = Dump::default();
    for table in &TABLES {
        let mut statement =
            raw.prepare(&format!("SELECT {} FROM {}", table.columns.join(", "), table.name)).expect(table.name);
        let rows = statement
            .query_map([], |row| {
                let value = |(index, of): (usize, char)| row.get_ref(index).map(|value| text(value, of));
                table.types.chars().enumerate().map(value).collect::<Result<DumpedRow, _>>()
            })
            .expect("read");
        dump.0.insert(table.name, rows.collect::<Result<_, _>>().expect("read"));
    }
    dump
}

fn text(value: ValueRef<'_>, of: char) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(integer) if of == 'f' => if integer == 0 { "FALSE" } else { "TRUE" }.to_owned(),
        ValueRef::Integer(integer) => integer.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("x'{}'", hex::encode(bytes)),
        ValueRef::Real(real) => real.to_string(),
    }
}

impl Dump {
    pub(super) fn row_of_store(&self) -> &BTreeSet<DumpedRow> {
        &self.0["store"]
    }

    pub(super) fn row_of_root(&self) -> &BTreeSet<DumpedRow> {
        &self.0["tree_root"]
    }

    /// What the rows are about that only one of the two has.
    pub(super) fn differences(
        &self,
        other: &Dump,
        entity: impl Fn(&str, &[String]) -> Option<String>,
    ) -> BTreeSet<Option<String>> {
        let of_table = |table: &'static str| {
            self.0[table].symmetric_difference(&other.0[table]).map(|row| entity(table, row)).collect::<Vec<_>>()
        };
        TABLES.iter().flat_map(|table| of_table(table.name)).collect()
    }

    fn rows(&self, table: &EditedTable) -> Vec<&DumpedRow> {
        self.0[table.name].iter().collect()
    }
}

impl EditedTable {
    fn literal(&self, column: usize, value: &str) -> String {
        match self.types.as_bytes()[column] {
            b't' => format!("'{value}'"),
            b'T' if value != "NULL" => format!("'{value}'"),
            _ => value.to_owned(),
        }
    }

    /// The condition for a row.
    fn is(&self, row: &DumpedRow) -> String {
        let equal = |column: usize| format!("{} = {}", self.columns[column], self.literal(column, &row[column]));
        (0..self.key).map(equal).collect::<Vec<_>>().join(" AND ")
    }

    fn update(&self, row: &DumpedRow, column: usize, value: &str) -> String {
        let value = self.literal(column, value);
        format!("UPDATE {} SET {} = {value} WHERE {}", self.name, self.columns[column], self.is(row))
    }

    fn delete(&self, row: &DumpedRow) -> String {
        format!("DELETE FROM {} WHERE {}", self.name, self.is(row))
    }

    /// Replaces a row of the same key.
    fn put(&self, row: &DumpedRow) -> [String; 2] {
        let values: Vec<String> = (0..row.len()).map(|column| self.literal(column, &row[column])).collect();
        let columns = self.columns.join(", ");
        [self.delete(row), format!("INSERT INTO {} ({columns}) VALUES ({})", self.name, values.join(", "))]
    }
}

fn pick<'i, T>(rng: &mut StdRng, items: &'i [T]) -> Option<&'i T> {
    if items.is_empty() { None } else { Some(&items[rng.random_range(0..items.len())]) }
}

/// Some other value of a column: of another row, or a random one.
fn value(rng: &mut StdRng, table: &EditedTable, column: usize, rows: &[&DumpedRow]) -> String {
    let of = table.types.as_bytes()[column];
    let is_unique = table.columns[column] == "public_key";
    if rng.random_bool(0.4) && !is_unique {
        return pick(rng, rows).map_or_else(String::new, |row| row[column].clone());
    }
    match of {
        b'f' => ["TRUE", "FALSE"][rng.random_range(0..2)].to_owned(),
        b'i' => rng.random_range(0..4).to_string(),
        b'B' | b'I' | b'T' if rng.random_bool(0.3) => "NULL".to_owned(),
        b'I' => rng.random_range(1..1_000_000_000).to_string(),
        b'b' | b'B' => {
            let size = [0, 1, 16, 32, 61][rng.random_range(0..5)];
            format!("x'{}'", hex::encode((0..size).map(|_| rng.random()).collect::<Vec<u8>>()))
        }
        _ => ADDED[rng.random_range(0..ADDED.len())].to_owned(),
    }
}

/// Statements of one edit; sometimes of several at once.
pub(super) fn random_edit(rng: &mut StdRng, now: &Dump, older: &Dump) -> Vec<String> {
    let count = if rng.random_bool(0.25) { rng.random_range(2..4) } else { 1 };
    let mut statements = Vec::new();
    let mut used = BTreeSet::new();
    for _ in 0..count {
        let table = &TABLES[rng.random_range(0..TABLES.len())];
        // Two edits of one table could meet in one row, whose statements then fail.
        if used.insert(table.name) {
            statements.extend(one_edit(rng, table, now, older));
        }
    }
    if rng.random_bool(0.2) && used.insert("tree_root") {
        statements.push(format!("UPDATE tree_root SET generation = generation + {}", rng.random_range(-2..3)));
    }
    statements
}

fn one_edit(rng: &mut StdRng, table: &EditedTable, now: &Dump, older: &Dump) -> Vec<String> {
    let (rows, old_rows) = (now.rows(table), older.rows(table));
    let Some(&row) = pick(rng, &rows) else { return Vec::new() };
    match rng.random_range(0..8) {
        0..=2 => {
            let column = rng.random_range(0..table.columns.len());
            let value = value(rng, table, column, &rows);
            let mut changed = row.clone();
            changed[column].clone_from(&value);
            // A key that another row has already would be refused by the database.
            let is_taken = column < table.key && rows.iter().any(|it| it[..table.key] == changed[..table.key]);
            match (is_taken, table.name) {
                (false, _) => vec![table.update(row, column, &value)],
                // Public keys are unique.
                (true, "key_pair") => vec![table.delete(row)],
                (true, _) => table.put(&changed).to_vec(),
            }
        }
        3 => vec![table.delete(row)],
        4 => {
            let column = table.columns[rng.random_range(0..table.key)];
            let index = table.columns.iter().position(|it| *it == column).expect("a column");
            let condition = format!("{column} = {}", table.literal(index, &row[index]));
            let all = "only_row IS NOT NULL OR TRUE".replace("only_row", table.columns[0]);
            let condition = if rng.random_bool(0.3) { all } else { condition };
            vec![format!("DELETE FROM {} WHERE {condition}", table.name)]
        }
        5 => {
            let mut added = row.clone();
            let column = rng.random_range(0..table.key);
            added[column] = value(rng, table, column, &rows);
            if table.name == "key_pair" {
                added[3] = format!("x'{}'", hex::encode([rng.random::<u8>(); 65]));
            }
            table.put(&added).to_vec()
        }
        6 => match pick(rng, &old_rows) {
            Some(old) if table.name != "key_pair" || rows.iter().all(|row| row[3] != old[3]) => table.put(old).to_vec(),
            _ => vec![table.delete(row)],
        },
        _ => {
            let whole = format!("DELETE FROM {} WHERE TRUE", table.name);
            std::iter::once(whole).chain(old_rows.iter().map(|old| table.put(old)[1].clone())).collect()
        }
    }
}
