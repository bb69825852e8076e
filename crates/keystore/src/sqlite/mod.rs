//! The embedded store: one SQLite file, shared by processes on one machine.
//!
//! Rollback journal and `synchronous=EXTRA`, so that a change which was reported is on disk even if the power fails the moment
//! after; each change is one IMMEDIATE transaction, so that two writers queue instead of meeting half-way
//! (`docs/decisions/0005-keystore.md`). The file is 0600 and only its owner may write to its folder; SQLite gives its journal the
//! mode of the file. SQLite has locks of the whole process: it is called in sections that no fork cuts ([`ForkBarrier`]).

mod schema;

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leafseal_crypto::ForkBarrier;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior, params_from_iter};

use crate::StoreError;
use crate::drafts::folder_of;
use crate::files::{self, FileId};
use crate::log_frames::LogFrames;
use crate::model::StoreFault;
use crate::secret_path::SecretPath;
use crate::sql::schema::{NewStore, StoredFormat, TableDefinitions};
use crate::sql::session::{StoreSession, only_row};
use crate::sql::value::{RANGE, Sql, SqlRow, SqlValue, Type, VALUE_SIZE_MAX};
use crate::sql::{OpenMode, SqlBackend, SqlKeystore, schema as common};
use crate::store::{Environment, StoreLimits};
use crate::store_id::StoreId;

/// Bytes of a page: SQLite's default, which `store_size_max` is counted in.
const PAGE_SIZE: u64 = 4096;

/// Maximum number of faults that SQLite lists.
const DATABASE_FAULT_COUNT_MAX: u32 = 100;

/// Maximum number of parts of a schema that are looked at.
const OBJECT_COUNT_MAX: u32 = 1_000;

/// Maximum number of rows without a parent that are listed.
const REFERENCE_FAULT_COUNT_MAX: u32 = 1_000;

/// What a file may cost that someone else has written, far above what this program writes: a text or row of more bytes is not read, a
/// longer statement, as in a planted schema, not parsed.
const LIMITS: [(Limit, i32); 8] = [
    (Limit::SQLITE_LIMIT_LENGTH, 16 * VALUE_SIZE_MAX.cast_signed()),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 4 * VALUE_SIZE_MAX.cast_signed()),
    (Limit::SQLITE_LIMIT_COLUMN, 64),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 16),
    (Limit::SQLITE_LIMIT_VDBE_OP, 1 << 18),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
];

/// A [`Keystore`](crate::Keystore) in one SQLite file. Threads may share it; their calls queue. When a copy of the store is put in its
/// place, as a backup is restored, the next call finds it.
pub type SqliteKeystore = SqlKeystore<Sqlite>;

/// One SQLite file.
pub struct Sqlite {
    path: PathBuf,
    inner: Mutex<SqliteInner>,
    limits: StoreLimits,
    id: StoreId,
}

struct SqliteInner {
    connection: Closing,
    /// The file at the path just before the connection was opened: a replacement in between shows as another file.
    file: FileId,
    replacements: u64,
}

/// A connection that is closed in a section: SQLite takes global locks for that, too.
struct Closing(Option<Connection>);

impl Deref for Closing {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.as_ref().expect("open until it is dropped")
    }
}

impl DerefMut for Closing {
    fn deref_mut(&mut self) -> &mut Connection {
        self.0.as_mut().expect("open until it is dropped")
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _section = ForkBarrier::enter();
        self.0 = None;
    }
}

impl SqliteKeystore {
    /// Opens the store at `path`, or creates it if `mode` permits. A kill during creation leaves none or an empty one.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::NotAStore`], [`Error::NewerSchema`], [`Error::WrongRootKey`], [`Error::Owner`],
    /// [`Error::Permissions`], [`Error::Io`], [`Error::Busy`], [`Error::Full`], [`Error::Storage`].
    pub fn open(
        path: &Path,
        mode: OpenMode,
        mut environment: Environment,
        limits: StoreLimits,
    ) -> Result<Self, StoreError> {
        if let Some(version) = mode.new_schema() {
            create_if_blank(path, &limits, |sql| {
                common::create(sql, &schema::TABLES, &NewStore::make(version, &mut environment)?, |_| Ok(()))
            })?;
        }
        let (file, connection, found) = open_file(path, &limits)?;
        let (id, version, open) = (found.id, found.schema(), found.unlock(&environment.providers)?);
        let inner = Mutex::new(SqliteInner { connection, file, replacements: 0 });
        let backend = Sqlite { path: path.to_owned(), inner, limits, id };
        Self::new(backend, version, open, environment, limits).refuse_downgraded()
    }
}

impl SqliteKeystore {
    /// Makes a store at `path` with what `fill` writes.
    pub(crate) fn create_filled(
        path: &Path,
        limits: &StoreLimits,
        fill: impl FnOnce(&mut dyn Sql, &TableDefinitions) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let created = create_if_blank(path, limits, |sql| fill(sql, &schema::TABLES))?;
        if created { Ok(()) } else { Err(StoreError::NotEmpty(path.into())) }
    }

    /// Checks that a store can be made at `path`, in a folder that is created if it is not there.
    pub(crate) fn prepare_new(path: &Path, limits: &StoreLimits) -> Result<(), StoreError> {
        let _section = ForkBarrier::enter();
        prepare_path(path, OpenMode::CreateIfMissing)?;
        let connection = connect(path, limits).map_err(|error| opening_error(error, path))?;
        match identify(&connection, path)? {
            schema::FileContent::Blank => Ok(()),
            _ => Err(StoreError::NotEmpty(path.into())),
        }
    }

    /// Makes a store at `path`, with what `fill` writes into it.
    pub(crate) fn create_with(
        path: &Path,
        new: &NewStore,
        limits: &StoreLimits,
        fill: impl FnOnce(&mut StoreSession<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let created = create_if_blank(path, limits, |sql| common::create(sql, &schema::TABLES, new, fill))?;
        if created { Ok(()) } else { Err(StoreError::NotEmpty(path.into())) }
    }
}

impl Sqlite {
    /// The connection to the file that is at the path now, and the section in which it is used. SQLite itself would go on reading one that
    /// has been replaced.
    ///
    /// A panic in another call rolled its transaction back, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> Result<(MutexGuard<'_, SqliteInner>, ForkBarrier), StoreError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let section = ForkBarrier::enter();
        if FileId::of(&metadata(&self.path)?) != inner.file {
            self.reopen(&mut inner)?;
        }
        Ok((inner, section))
    }

    /// Opens the file that was put in the place of the one that is open, if it is a copy of the same store.
    fn reopen(&self, inner: &mut SqliteInner) -> Result<(), StoreError> {
        let (file, connection, found) = open_file(&self.path, &self.limits)?;
        if found.id != self.id {
            return Err(StoreError::OtherStore(self.path.as_path().into()));
        }
        (inner.file, inner.connection) = (file, connection);
        inner.replacements += 1;
        Ok(())
    }
}

impl SqlBackend for Sqlite {
    const NAME: &'static str = "SqliteKeystore";
    const TABLES: TableDefinitions = schema::TABLES;
    const SCHEMA: &'static str = "";
    const MARK: &'static str = "0";

    fn read<T>(&self, read: impl Fn(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (mut inner, _section) = self.lock()?;
        let transaction = inner.connection.transaction()?;
        let outcome = read(&mut Statements::of(&transaction))?;
        transaction.finish()?;
        Ok(outcome)
    }

    fn change<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (mut inner, _section) = self.lock()?;
        change(&mut inner.connection, apply)
    }

    fn generation(&self, select: &str) -> Result<(u64, SqlRow), StoreError> {
        let (inner, _section) = self.lock()?;
        let mut statement = inner.connection.prepare(select)?;
        let count = statement.column_count();
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            rows.push(SqlRow((0..count).map(|index| row.get_ref(index).map(value)).collect::<Result<_, _>>()?));
        }
        Ok((inner.replacements, only_row(rows)?))
    }

    fn place(&self) -> String {
        // Relative to another folder, the same path is another place.
        std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone()).to_string_lossy().into_owned()
    }

    fn log_frames(&self, _: &StoreLimits, _origin: &str) -> Result<Option<Box<dyn LogFrames>>, StoreError> {
        Ok(None)
    }

    fn faults(&self, sql: &mut dyn Sql) -> Result<Vec<StoreFault>, StoreError> {
        let mut faults = Vec::new();
        for row in sql.rows(&format!("PRAGMA integrity_check({DATABASE_FAULT_COUNT_MAX})"), &[])? {
            if row.text(0)? != "ok" {
                faults.push(StoreFault::Database(row.text(0)?.to_owned()));
            }
        }
        // Fails where a table was made again without its primary key.
        match sql.rows(&format!("SELECT * FROM pragma_foreign_key_check LIMIT {REFERENCE_FAULT_COUNT_MAX}"), &[]) {
            Ok(rows) => {
                for row in rows {
                    let (table, parent) = (row.text(0)?.to_owned(), row.text(2)?.to_owned());
                    faults.push(StoreFault::Reference { table, parent });
                }
            }
            Err(error) => {
                faults.push(StoreFault::Unreadable(format!("references between tables cannot be checked: {error}")))
            }
        }
        match schema_faults(sql) {
            Ok(found) => faults.extend(found),
            Err(error) => faults.push(StoreFault::Unreadable(format!("the schema cannot be checked: {error}"))),
        }
        Ok(faults)
    }
}

/// How the tables, indexes, triggers and views of a file differ from those that this program makes.
fn schema_faults(sql: &mut dyn Sql) -> Result<Vec<StoreFault>, StoreError> {
    let schema = common::version(sql)?;
    let mut made = Connection::open_in_memory()?;
    limit(&made)?;
    let transaction = made.transaction()?;
    let mut expected = Statements::of(&transaction);
    schema::TABLES.create(&mut expected, schema)?;
    Ok(common::differences(&objects(&mut expected)?, &objects(sql)?))
}

/// What a schema consists of, without the statistics that `ANALYZE` keeps.
fn objects(sql: &mut dyn Sql) -> Result<BTreeMap<String, SqlValue>, StoreError> {
    let (name, text) = (sql.bounded("name"), sql.bounded("sql"));
    let select = format!(
        "SELECT type || ' ' || {name}, {text} FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_stat%' ESCAPE '!' LIMIT {OBJECT_COUNT_MAX}"
    );
    let object = |row: SqlRow| Ok((row.text(0)?.to_owned(), row.0.get(1).cloned().ok_or(RANGE)?));
    sql.rows(&select, &[])?.into_iter().map(object).collect()
}

/// Runs `apply` as one change: all of it and a new generation, or nothing; nothing if it writes nothing.
fn change<T>(
    connection: &mut Connection,
    apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // First: what is written is authenticated together with the new generation.
    let table = common::counted_in(common::version(&mut Statements::of(&transaction))?);
    transaction.execute(&format!("UPDATE {table} SET generation = generation + 1"), [])?;
    let mut statements = Statements::of(&transaction);
    let outcome = apply(&mut statements)?;
    // Programs read the store again at each new generation.
    if statements.has_written {
        transaction.commit()?
    } else {
        transaction.rollback()?
    }
    Ok(outcome)
}

/// The statements of a transaction.
struct Statements<'t> {
    transaction: &'t Transaction<'t>,
    has_written: bool,
}

impl<'t> Statements<'t> {
    fn of(transaction: &'t Transaction<'t>) -> Self {
        Self { transaction, has_written: false }
    }
}

impl Sql for Statements<'_> {
    fn rows(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let mut statement = self.transaction.prepare(sql)?;
        let count = statement.column_count();
        let mut found = statement.query(params_from_iter(params))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            rows.push(SqlRow((0..count).map(|index| row.get_ref(index).map(value)).collect::<Result<_, _>>()?));
        }
        Ok(rows)
    }

    fn execute(&mut self, sql: &str, params: &[SqlValue]) -> Result<u64, StoreError> {
        self.has_written = true;
        Ok(self.transaction.execute(sql, params_from_iter(params))? as u64)
    }

    fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.has_written = true;
        Ok(self.transaction.execute_batch(sql)?)
    }

    fn has_written(&self) -> bool {
        self.has_written
    }

    /// The length of a value is known without reading it.
    fn bounded(&self, column: &str) -> String {
        format!("CASE WHEN octet_length({column}) > {VALUE_SIZE_MAX} THEN x'00' ELSE {column} END")
    }

    fn is_of_type(&self, column: &str, of: Type) -> String {
        let name = match of {
            Type::Integer | Type::Flag => "integer",
            Type::Text => "text",
            Type::Blob => "blob",
        };
        format!("typeof({column}) = '{name}'")
    }
}

fn value(stored: ValueRef<'_>) -> SqlValue {
    match stored {
        ValueRef::Null => SqlValue::Null(Type::Blob),
        ValueRef::Integer(integer) => SqlValue::Integer(integer),
        // What is of no type of ours makes its own row unreadable, and no other.
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => SqlValue::Blob(text.to_owned()),
        },
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_owned()),
        ValueRef::Real(real) => SqlValue::Blob(real.to_be_bytes().to_vec()),
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null(_) => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::Flag(flag) => ValueRef::Integer((*flag).into()),
        }))
    }
}

/// Makes a store, and the folder around it, unless there is one or something else; returns whether it did.
fn create_if_blank(
    path: &Path,
    limits: &StoreLimits,
    create: impl FnOnce(&mut dyn Sql) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let _section = ForkBarrier::enter();
    prepare_path(path, OpenMode::CreateIfMissing)?;
    let mut connection = connect(path, limits).map_err(|error| opening_error(error, path))?;
    if identify(&connection, path)? != schema::FileContent::Blank {
        return Ok(false);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been quicker.
    if identify(&transaction, path)? != schema::FileContent::Blank {
        return Ok(false);
    }
    schema::mark(&transaction)?;
    create(&mut Statements::of(&transaction))?;
    transaction.commit()?;
    Ok(true)
}

/// Opens the file at `path`, and brings it to a schema that is used as it is.
fn open_file(path: &Path, limits: &StoreLimits) -> Result<(FileId, Closing, StoredFormat), StoreError> {
    let _section = ForkBarrier::enter();
    let file = prepare_path(path, OpenMode::Existing)?;
    let mut connection = connect(path, limits).map_err(|error| opening_error(error, path))?;
    match identify(&connection, path)? {
        schema::FileContent::Foreign => return Err(StoreError::NotAStore(path.into())),
        schema::FileContent::Blank => return Err(StoreError::NoStore(path.into())),
        schema::FileContent::Store => {}
    }
    let transaction = connection.transaction()?;
    let found = common::identify(&mut Statements::of(&transaction))?;
    transaction.finish()?;
    if found.is_too_old() {
        change(&mut connection, |sql| common::bring_to_oldest_used(sql, &schema::TABLES))?;
    }
    Ok((file, Closing(Some(connection)), found))
}

fn identify(connection: &Connection, path: &Path) -> Result<schema::FileContent, StoreError> {
    schema::identify(connection).map_err(|error| opening_error(error, path))
}

/// Creates folder and file if allowed, and refuses files that others own or can access. Returns the file's identity.
fn prepare_path(path: &Path, mode: OpenMode) -> Result<FileId, StoreError> {
    let folder = folder_of(path);
    if mode != OpenMode::Existing {
        files::create_folder(folder)?;
    }
    let of_folder = match folder.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(StoreError::NoStore(path.into())),
        other => other.map_err(StoreError::io(folder))?,
    };
    files::check_private(SecretPath::StoreFolder, folder, &of_folder)?;
    if mode != OpenMode::Existing {
        files::create_empty_if_missing(path)?;
    }
    let metadata = metadata(path)?;
    if !metadata.is_file() {
        return Err(StoreError::NotAStore(path.into()));
    }
    files::check_private(SecretPath::StoreFile, path, &metadata)?;
    Ok(FileId::of(&metadata))
}

/// The metadata of the store's file.
fn metadata(path: &Path) -> Result<Metadata, StoreError> {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(StoreError::NoStore(path.into())),
        other => other.map_err(StoreError::io(path)),
    }
}

fn connect(path: &Path, limits: &StoreLimits) -> Result<Connection, rusqlite::Error> {
    // No mutex of SQLite's own: ours is around the connection. No URI: a path is a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags)?;
    // First: the schema is read with the first statement.
    limit(&connection)?;
    connection.busy_timeout(limits.busy_timeout)?;
    // A damaged or prepared file must not run code or be written past its schema.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Deleted content, such as the keys of a trimmed version, is overwritten.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    // SQLite takes 0 for "leave it as it is".
    let page_count_max = i64::try_from((limits.store_size_max / PAGE_SIZE).max(1)).unwrap_or(i64::MAX);
    connection.pragma_update(None, "max_page_count", page_count_max)?;
    Ok(connection)
}

fn limit(connection: &Connection) -> Result<(), rusqlite::Error> {
    LIMITS.iter().try_for_each(|(limit, most)| connection.set_limit(*limit, *most).map(drop))
}

/// Interprets SQLite's error while a file is being opened.
fn opening_error(error: rusqlite::Error, path: &Path) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore(path.into()),
        _ => error.into(),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
        // The database is in order, but what a row holds is nothing that we would have written.
        if let FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) =
            error
        {
            return Self::Inconsistent("a value is of another type or range than its column");
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            _ => Self::Storage(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever writes to the database must not choose how much memory a read takes.
    #[test]
    fn an_entry_is_read_up_to_its_bounds() {
        use crate::sql::table::{EntryKey, EntryKind, EntryRows};
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("store.db");
        prepare_path(&path, OpenMode::CreateIfMissing).expect("made");
        let mut connection = connect(&path, &StoreLimits::default()).expect("opened");
        // As someone else's program, which has no such limit.
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 10_000_000).expect("set");
        let transaction = connection.transaction().expect("begun");
        schema::TABLES.create(&mut Statements::of(&transaction), 3).expect("made");
        transaction
            .execute_batch(
                "PRAGMA defer_foreign_keys = ON;
                 INSERT INTO key_pair VALUES ('a', 1, 'r1', x'00', zeroblob(5000000)), ('a', 1, 'k1', x'01', zeroblob(65536));
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 110000)
                     INSERT INTO client_role SELECT 'one', 'role-' || i FROM n;",
            )
            .expect("planted");
        let mut sql = Statements::of(&transaction);
        let mut read = |kind, name| EntryRows::read(&mut sql, &EntryKey::new(kind, name, 1), 3).expect("read");
        let sizes: Vec<usize> =
            read(EntryKind::KeyVersion, "a").rows(1).iter().map(|row| row.blob(4).expect("bytes").len()).collect();
        assert_eq!(sizes, [65_536, 1], "the longest that is read, and one that is too long");
        assert_eq!(read(EntryKind::Client, "one").rows(2).len(), 100_001);
    }

    /// What is longer than a limit is refused before memory is taken for it, in values, rows, statements and schemas.
    #[test]
    fn a_planted_file_costs_no_more_than_the_limits() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("store.db");
        prepare_path(&path, OpenMode::CreateIfMissing).expect("made");
        let planted = Connection::open(&path).expect("opened");
        planted
            .execute_batch(
                "CREATE TABLE planted (number INTEGER PRIMARY KEY, text TEXT, more BLOB);
                 INSERT INTO planted VALUES (1, printf('%.*c', 2000000, 'x'), x'00'), (2, 'x', zeroblob(2000000)), (3, 'x', x'00');",
            )
            .expect("planted");
        let connection = connect(&path, &StoreLimits::default()).expect("opened");
        let refused = |sql: &str| {
            let read =
                connection.query_row(sql, [], |row| row.get_ref(0).map(|value| value.as_bytes().map(<[u8]>::len)));
            matches!(read.map_err(|error| error.sqlite_error_code()), Err(Some(ErrorCode::TooBig)))
        };
        assert!(
            refused("SELECT text FROM planted WHERE number = 1")
                && refused("SELECT more FROM planted WHERE number = 2")
        );
        assert!(refused("SELECT max(text) FROM planted") && refused("SELECT printf('%.*c', 2000000, 'x')"));
        assert!(!refused("SELECT more FROM planted WHERE number = 3"));
        // Its length alone, as `Sql::bounded` asks for it, costs nothing.
        assert!(!refused(
            "SELECT CASE WHEN octet_length(text) > 9 THEN x'00' ELSE text END FROM planted WHERE number = 1"
        ));
        for (limit, most) in LIMITS {
            assert_eq!(connection.limit(limit).expect("known"), most, "{limit:?}");
        }
        assert!(connection.execute_batch("ATTACH ':memory:' AS other").is_err());
        drop(connection);
        let columns: Vec<String> = (0..100).map(|number| format!("c{number}")).collect();
        planted.execute_batch(&format!("CREATE TABLE wide ({})", columns.join(", "))).expect("planted");
        assert!(connect(&path, &StoreLimits::default()).is_err(), "its schema is not read");
    }

    /// Durability and tenancy depend on these; SQLite silently ignores a misspelt pragma.
    #[test]
    fn the_settings_of_a_connection_take() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("store.db");
        prepare_path(&path, OpenMode::CreateIfMissing).expect("made");
        let limits = StoreLimits::default();
        let connection = connect(&path, &limits).expect("opened");
        let setting =
            |name: &str| -> i64 { connection.pragma_query_value(None, name, |row| row.get(0)).expect("known") };
        assert_eq!(setting("synchronous"), 3, "EXTRA");
        assert_eq!(setting("foreign_keys"), 1);
        assert_eq!(setting("secure_delete"), 1);
        assert_eq!(setting("cell_size_check"), 1);
        assert_eq!(setting("trusted_schema"), 0);
        assert_eq!(setting("page_size").cast_unsigned(), PAGE_SIZE);
        assert_eq!(setting("max_page_count").cast_unsigned(), limits.store_size_max / PAGE_SIZE);
        assert_eq!(u128::from(setting("busy_timeout").cast_unsigned()), limits.busy_timeout.as_millis());
        let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("known");
        assert_eq!(journal, "delete");
    }
}
