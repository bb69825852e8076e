//! The store that several engines share: a database of PostgreSQL.
//!
//! Each change first updates the row of the table `store`, whose lock it holds until it is committed, so that changes of all engines and
//! commands follow one another; each read runs on one snapshot. A change is reported only after PostgreSQL confirmed it with at least
//! `synchronous_commit = on`, that is after a flush, and on the synchronous standbys if there are any. `NOTIFY` hints at a change; the
//! generation is authoritative (`docs/decisions/0025-shared-store.md`).

mod durability;
mod explain;
mod frames;
mod link;
mod schema;
mod settings;
mod tls;
mod turns;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type as PgType, private::BytesMut, to_sql_checked};

use explain::CallError;
use frames::PostgresFrames;
use link::{AsyncCall, Link, PostgresSession};
pub use settings::{InvalidUrl, PostgresSettings, PostgresUrl, SslMode};
use turns::FairLock;

use crate::StoreError;
use crate::log_frames::LogFrames;
use crate::model::StoreFault;
use crate::sql::schema::{NewStore, TableDefinitions};
use crate::sql::session::only_row;
use crate::sql::table::tables;
use crate::sql::value::{RANGE, Sql, SqlRow, SqlValue, Type, VALUE_SIZE_MAX, attempt};
use crate::sql::{OpenMode, SqlBackend, SqlKeystore, schema as common};
use crate::store::{Environment, Keystore, StoreLimits};
use crate::store_id::StoreId;

/// How long a process may do something else in the middle of a change, such as wait for a root key in hardware, before the server
/// rolls the change back: it may have been stopped, or its machine be gone, and others wait for its lock.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// A [`Keystore`] in a database of PostgreSQL. Threads may share it; their calls queue. `StoreLimits::store_size_max` does
/// not apply.
pub type PostgresKeystore = SqlKeystore<Postgres>;

/// A database of PostgreSQL.
pub struct Postgres {
    link: Link,
    /// The order of users: transactions on one connection must not mix.
    turns: FairLock,
    statement_timeout: Duration,
    busy_timeout: Duration,
    /// The store that was opened; none while it is being looked for.
    id: Option<StoreId>,
}

impl PostgresKeystore {
    /// Opens the store in a database, or creates it if `mode` permits. Waits for one attempt to connect to each server.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoStore`], [`Error::NotAStore`], [`Error::NewerSchema`], [`Error::WrongRootKey`],
    /// [`Error::Busy`], [`Error::Full`], [`Error::Unconfirmed`], [`Error::Storage`].
    pub fn open(
        settings: &PostgresSettings,
        mode: OpenMode,
        mut environment: Environment,
        limits: StoreLimits,
    ) -> Result<Self, StoreError> {
        let mut database = Postgres::connect(settings, &limits)?;
        let mut created = false;
        if let Some(version) = mode.new_schema() {
            created = database.create_if_blank(|sql| {
                common::create(sql, &schema::TABLES, &NewStore::make(version, &mut environment)?, |_| Ok(()))
            })?;
        }
        let found = database.read(|sql| {
            match identify(sql)? {
                SchemaContent::Blank => return Err(StoreError::NoStore(database.link.location())),
                SchemaContent::Foreign => return Err(StoreError::NotAStore(database.link.location())),
                SchemaContent::Store => {}
            }
            common::identify(sql)
        })?;
        database.id = Some(found.id);
        if found.is_too_old() {
            database.change(|sql| common::bring_to_oldest_used(sql, &schema::TABLES))?;
        }
        let open = found.unlock(&environment.providers)?;
        let store = Self::new(database, found.schema(), open, environment, limits).refuse_downgraded()?;
        if created {
            // Engines need it, and may log in with a role that only reads.
            store.token_secret()?;
        }
        Ok(store)
    }

    /// Whether a database has a store.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NotAStore`], [`Error::Storage`].
    pub fn exists(settings: &PostgresSettings, limits: &StoreLimits) -> Result<bool, StoreError> {
        let database = Postgres::connect(settings, limits)?;
        match database.read(identify)? {
            SchemaContent::Blank => Ok(false),
            SchemaContent::Store => Ok(true),
            SchemaContent::Foreign => Err(StoreError::NotAStore(database.link.location())),
        }
    }

    /// Makes a store in a database with what `fill` writes.
    pub(crate) fn create_filled(
        settings: &PostgresSettings,
        limits: &StoreLimits,
        fill: impl FnOnce(&mut dyn Sql, &TableDefinitions) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let database = Postgres::connect(settings, limits)?;
        let created = database.create_if_blank(|sql| fill(sql, &schema::TABLES))?;
        if created { Ok(()) } else { Err(StoreError::NotEmpty(database.link.location())) }
    }

    /// The known ways to lose a confirmed change, as sentences. As of the last connect.
    pub fn durability_limits(&self) -> Vec<String> {
        self.backend.link.durability_limits()
    }
}

impl Postgres {
    /// Connects to a database, whatever is in it.
    fn connect(settings: &PostgresSettings, limits: &StoreLimits) -> Result<Self, StoreError> {
        let link = Link::start(settings).map_err(|error| StoreError::Storage(error.into()))?;
        link.session()?;
        let (statement_timeout, busy_timeout) = (settings.statement_timeout, limits.busy_timeout);
        Ok(Self { link, turns: FairLock::default(), statement_timeout, busy_timeout, id: None })
    }

    /// Makes a store unless there is one or something else; returns whether it did.
    fn create_if_blank(&self, create: impl FnOnce(&mut dyn Sql) -> Result<(), StoreError>) -> Result<bool, StoreError> {
        if self.read(identify)? != SchemaContent::Blank {
            return Ok(false);
        }
        let _turn = self.turns.take();
        let mut transaction = self.begin(&format!(
            "BEGIN; {}; SELECT pg_advisory_xact_lock(hashtext('{}'))",
            self.limits_of_change(),
            schema::MARK
        ))?;
        // Another process may have been quicker.
        if identify(&mut transaction)? != SchemaContent::Blank {
            return Ok(false);
        }
        if !has_schema(&mut transaction)? {
            transaction.batch(&format!("CREATE SCHEMA {}", schema::SCHEMA))?;
        }
        create(&mut transaction)?;
        transaction.commit()?;
        Ok(true)
    }

    /// `SET LOCAL` and not options of the connection, which poolers do not pass on. Objects of other owners are never found in place of
    /// ours.
    fn limits_of_read(&self) -> String {
        format!(
            "SET LOCAL search_path = {}, pg_temp; SET LOCAL statement_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = {}",
            schema::SCHEMA,
            milliseconds(self.statement_timeout),
            milliseconds(IDLE_MAX)
        )
    }

    /// A stronger setting than `on` is left.
    fn limits_of_change(&self) -> String {
        format!(
            "{}; SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}; SELECT set_config('synchronous_commit',
             CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)",
            self.limits_of_read(),
            milliseconds(self.busy_timeout),
            milliseconds(self.busy_timeout.saturating_add(self.statement_timeout)),
        )
    }

    /// Begins a transaction; on another connection if the last one is found to be gone.
    fn begin(&self, commands: &str) -> Result<Transaction<'_>, StoreError> {
        let limit = self.statement_timeout.saturating_add(self.busy_timeout);
        let begin =
            |session: &Arc<PostgresSession>| self.link.call(session, limit, StatementBatch(commands.to_owned()));
        let mut session = self.link.session()?;
        if let Err(error) = begin(&session) {
            if !error.is_lost() {
                self.link.send(&session, "ROLLBACK");
                return Err(error.of(self.link.location()));
            }
            session = self.link.session()?;
            begin(&session).map_err(|error| error.of(self.link.location()))?;
        }
        Ok(Transaction { database: self, session, is_open: true, is_lost: false, has_written: false })
    }

    fn read_in<T>(
        &self,
        transaction: &mut Transaction<'_>,
        read: &impl Fn(&mut dyn Sql) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.id.is_some() {
            let row = transaction.first("SELECT store_id FROM store", &[])?;
            self.check_id(row.as_ref())?;
        }
        read(transaction)
    }

    fn change_in<T>(
        &self,
        mut transaction: Transaction<'_>,
        apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // First: the transaction that locks this row holds it until the change is committed or rolled back.
        let row = transaction.first("SELECT store_id, schema_version FROM store FOR UPDATE", &[])?;
        self.check_id(row.as_ref())?;
        let table = common::counted_in(row.map_or(Ok(0), |row| row.number(1))?);
        let mark = if table == "store" { format!(", mark = {}", random_mark()) } else { String::new() };
        transaction.rows(&format!("UPDATE {table} SET generation = generation + 1{mark}"), &[])?;
        let outcome = apply(&mut transaction)?;
        // Programs read the store again at each new generation.
        if transaction.has_written {
            transaction.commit()?;
        }
        Ok(outcome)
    }

    /// Checks that the row of the table `store` is that of the store that was opened.
    fn check_id(&self, row: Option<&SqlRow>) -> Result<(), StoreError> {
        match (self.id, row) {
            (None, _) => Ok(()),
            (Some(id), Some(row)) if row.array(0)? == id.0 => Ok(()),
            (Some(_), Some(_)) => Err(StoreError::OtherStore(self.link.location())),
            (Some(_), None) => Err(StoreError::NoStore(self.link.location())),
        }
    }
}

fn milliseconds(time: Duration) -> u128 {
    // 0 would mean no limit at all; PostgreSQL counts in 32 bits.
    time.as_millis().clamp(1, 2_147_483_647)
}

impl SqlBackend for Postgres {
    const NAME: &'static str = "PostgresKeystore";
    const TABLES: TableDefinitions = schema::TABLES;
    const SCHEMA: &'static str = "leafseal.";
    const MARK: &'static str = "mark";

    fn read<T>(&self, read: impl Fn(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _turn = self.turns.take();
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", self.limits_of_read());
        let mut transaction = self.begin(&begin)?;
        let mut outcome = self.read_in(&mut transaction, &read);
        if outcome.is_err() && transaction.is_lost {
            // A read changes nothing, so it can be made again, once.
            transaction = self.begin(&begin)?;
            outcome = self.read_in(&mut transaction, &read);
        }
        if outcome.is_ok() {
            transaction.finish("COMMIT");
        }
        outcome
    }

    fn change<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _turn = self.turns.take();
        let begin = format!("BEGIN; {}", self.limits_of_change());
        self.change_in(self.begin(&begin)?, apply)
    }

    /// Takes the table first, from all but readers: a program that holds a lock on it while it waits for the row, as every change does,
    /// would wait for this one, and this one for it.
    fn change_tables<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _turn = self.turns.take();
        let begin = format!("BEGIN; {}; LOCK TABLE store IN EXCLUSIVE MODE", self.limits_of_change());
        self.change_in(self.begin(&begin)?, apply)
    }

    fn generation(&self, select: &str) -> Result<(u64, SqlRow), StoreError> {
        let _turn = self.turns.take();
        let query = || TypedQuery { sql: select.to_owned(), params: Vec::new() };
        let call = |session: &Arc<PostgresSession>| self.link.call(session, self.statement_timeout, query());
        let mut session = self.link.session()?;
        let mut answer = call(&session);
        if answer.as_ref().is_err_and(CallError::is_lost) {
            session = self.link.session()?;
            answer = call(&session);
        }
        let rows = answer.map_err(|error| error.of(self.link.location()))?;
        let rows = rows.into_iter().map(row).collect::<Result<Vec<_>, _>>()?;
        self.check_id(rows.first())?;
        Ok((session.number, only_row(rows)?))
    }

    fn place(&self) -> String {
        self.link.location().to_string()
    }

    fn on_change(&self, hint: Box<dyn Fn() + Send + Sync>) {
        self.link.on_hint(hint);
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn log_frames(&self, limits: &StoreLimits, origin: &str) -> Result<Option<Box<dyn LogFrames>>, StoreError> {
        Ok(Some(Box::new(PostgresFrames::open(self.link.settings(), limits, origin)?)))
    }

    /// PostgreSQL keeps its own rules, unless a superuser turned them off.
    fn faults(&self, sql: &mut dyn Sql) -> Result<Vec<StoreFault>, StoreError> {
        let mut faults = Vec::new();
        let present = common::version(sql)?;
        let is_present = |table: &str| tables(present).any(|known| known.name == table);
        for [table, columns, parent, referred] in schema::REFERENCES.into_iter().filter(|[table, ..]| is_present(table))
        {
            let missing = format!(
                "SELECT count(*) FROM {table} AS t WHERE ({columns}) NOT IN (SELECT {referred} FROM {parent})",
                columns = columns.split(", ").map(|column| format!("t.{column}")).collect::<Vec<_>>().join(", "),
            );
            let (table, parent) = (table.to_owned(), parent.to_owned());
            match attempt(sql, |sql| sql.count(&missing, &[]))? {
                Ok(0) => {}
                Ok(_) => faults.push(StoreFault::Reference { table, parent }),
                Err(error) => {
                    let what = format!("the references of {table} to {parent} cannot be checked: {error}");
                    faults.push(StoreFault::Unreadable(what));
                }
            }
        }
        match attempt(sql, |sql| sql.rows(schema::DESCRIBE, &[]))? {
            Ok(rows) => {
                let line = |row: &SqlRow| row.text(0).map(|line| (line.to_owned(), SqlValue::Null(Type::Text)));
                let found = rows.iter().map(line).collect::<Result<_, _>>()?;
                faults.extend(common::differences(&schema::lines(present), &found));
            }
            Err(error) => faults.push(StoreFault::Unreadable(format!("the schema cannot be checked: {error}"))),
        }
        Ok(faults)
    }
}

/// No secret: it only has to differ.
fn random_mark() -> i64 {
    use std::hash::{BuildHasher, RandomState};
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    RandomState::new().hash_one(now).cast_signed()
}

/// The content of a database, as far as it concerns us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaContent {
    /// No schema of our name, or an empty one.
    Blank,
    /// A store of some version.
    Store,
    /// Tables of another application in a schema of our name.
    Foreign,
}

fn has_schema(sql: &mut dyn Sql) -> Result<bool, StoreError> {
    let query = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = ?1";
    Ok(sql.count(query, &[schema::SCHEMA.into()])? > 0)
}

fn identify(sql: &mut dyn Sql) -> Result<SchemaContent, StoreError> {
    let query = "
        SELECT count(*), count(*) FILTER (WHERE c.relname = 'store' AND obj_description(c.oid, 'pg_class') = ?2)
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = ?1";
    let row = sql.first(query, &[schema::SCHEMA.into(), schema::MARK.into()])?.ok_or(RANGE)?;
    Ok(match (row.integer(0)?, row.integer(1)?) {
        (0, _) => SchemaContent::Blank,
        (_, 0) => SchemaContent::Foreign,
        _ => SchemaContent::Store,
    })
}

/// A transaction; rolled back unless it is finished.
struct Transaction<'d> {
    database: &'d Postgres,
    session: Arc<PostgresSession>,
    is_open: bool,
    /// The server ended the connection, and with it the transaction.
    is_lost: bool,
    has_written: bool,
}

impl Transaction<'_> {
    fn call<T: Send + 'static>(&mut self, call: impl AsyncCall<T>) -> Result<T, StoreError> {
        // The server knows the limit, and whether the statement waits for a lock: ours is only for a server that does not respond.
        let limit = self.database.statement_timeout.saturating_add(self.database.busy_timeout);
        self.database.link.call(&self.session, limit, call).map_err(|error| {
            self.is_lost |= error.is_lost();
            self.is_open &= !self.is_lost;
            error.of(self.database.link.location())
        })
    }

    /// Ends it without waiting.
    fn finish(&mut self, command: &'static str) {
        if std::mem::take(&mut self.is_open) {
            self.database.link.send(&self.session, command);
        }
    }

    /// Commits a change of the store, of which others learn, and waits until it is durable.
    fn commit(self) -> Result<(), StoreError> {
        self.commit_after(&format!("SELECT pg_notify('{}', ''); ", schema::SCHEMA))
    }

    /// Commits after some last commands, and waits until all is durable.
    fn commit_after(mut self, last: &str) -> Result<(), StoreError> {
        // In a transaction that has failed already, this fails too: a commit alone would succeed in rolling it back. From here on the
        // server must not stop waiting for its standbys: it would then report success.
        self.call(StatementBatch(format!("{last}SET LOCAL statement_timeout = 0")))?;
        let warnings = self.session.warnings.load(Ordering::Acquire);
        self.is_open = false;
        let Self { database, session, .. } = &self;
        let committed = database.link.call(session, database.statement_timeout, StatementBatch("COMMIT".to_owned()));
        committed.map_err(|error| error.of_commit(database.link.location()))?;
        if session.warnings.load(Ordering::Acquire) != warnings {
            // The only warning of a commit: the wait for the standbys was cancelled.
            return Err(StoreError::Unconfirmed("PostgreSQL stopped waiting for its synchronous standbys".to_owned()));
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.finish("ROLLBACK");
    }
}

impl Sql for Transaction<'_> {
    fn rows(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        self.call(TypedQuery { sql: numbered(sql), params: params.to_vec() })?.into_iter().map(row).collect()
    }

    fn execute(&mut self, sql: &str, params: &[SqlValue]) -> Result<u64, StoreError> {
        self.has_written = true;
        self.call(Execute(TypedQuery { sql: numbered(sql), params: params.to_vec() }))
    }

    fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.has_written = true;
        self.call(StatementBatch(sql.to_owned()))
    }

    fn has_written(&self) -> bool {
        self.has_written
    }

    /// One character, or byte, more than a value may have, where it has more.
    fn bounded(&self, column: &str) -> String {
        format!("substr({column}, 1, {})", VALUE_SIZE_MAX + 1)
    }

    /// A column has values of one type.
    fn is_of_type(&self, column: &str, _: Type) -> String {
        format!("{column} IS NOT NULL")
    }
}

/// A statement with parameters as PostgreSQL writes them.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

fn row(row: tokio_postgres::Row) -> Result<SqlRow, StoreError> {
    (0..row.len()).map(|index| row.try_get(index).map_err(|_| RANGE)).collect::<Result<_, _>>().map(SqlRow)
}

/// Statements without parameters.
struct StatementBatch(String);

impl AsyncCall<()> for StatementBatch {
    async fn call(self, client: &Client) -> Result<(), tokio_postgres::Error> {
        client.batch_execute(&self.0).await
    }
}

/// A statement that returns rows. Its types are stated, so that it takes one round trip and leaves nothing prepared behind, which
/// poolers could not serve.
struct TypedQuery {
    sql: String,
    params: Vec<SqlValue>,
}

impl TypedQuery {
    fn params(&self) -> Vec<(&(dyn ToSql + Sync), PgType)> {
        self.params.iter().map(|value| (value as &(dyn ToSql + Sync), value.pg_type())).collect()
    }
}

impl AsyncCall<Vec<tokio_postgres::Row>> for TypedQuery {
    async fn call(self, client: &Client) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
        client.query_typed(&self.sql, &self.params()).await
    }
}

/// A statement that changes rows.
struct Execute(TypedQuery);

impl AsyncCall<u64> for Execute {
    async fn call(self, client: &Client) -> Result<u64, tokio_postgres::Error> {
        client.execute_typed(&self.0.sql, &self.0.params()).await
    }
}

type Conversion<T> = Result<T, Box<dyn std::error::Error + Sync + Send>>;

impl SqlValue {
    fn pg_type(&self) -> PgType {
        match self {
            Self::Integer(_) | Self::Null(Type::Integer) => PgType::INT8,
            Self::Text(_) | Self::Null(Type::Text) => PgType::TEXT,
            Self::Blob(_) | Self::Null(Type::Blob) => PgType::BYTEA,
            Self::Flag(_) | Self::Null(Type::Flag) => PgType::BOOL,
        }
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self, of: &PgType, out: &mut BytesMut) -> Conversion<IsNull> {
        match self {
            Self::Null(_) => Ok(IsNull::Yes),
            Self::Integer(integer) => integer.to_sql(of, out),
            Self::Text(text) => text.to_sql(of, out),
            Self::Blob(bytes) => bytes.to_sql(of, out),
            Self::Flag(flag) => flag.to_sql(of, out),
        }
    }

    fn accepts(of: &PgType) -> bool {
        matches!(*of, PgType::INT8 | PgType::TEXT | PgType::BYTEA | PgType::BOOL)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for SqlValue {
    fn from_sql(of: &PgType, raw: &'a [u8]) -> Conversion<Self> {
        Ok(match *of {
            PgType::INT8 => Self::Integer(i64::from_sql(of, raw)?),
            PgType::INT4 => Self::Integer(i32::from_sql(of, raw)?.into()),
            PgType::BYTEA => Self::Blob(raw.to_vec()),
            PgType::BOOL => Self::Flag(bool::from_sql(of, raw)?),
            _ => Self::Text(String::from_sql(of, raw)?),
        })
    }

    fn from_sql_null(_: &PgType) -> Conversion<Self> {
        Ok(Self::Null(Type::Blob))
    }

    fn accepts(of: &PgType) -> bool {
        matches!(*of, PgType::INT8 | PgType::INT4 | PgType::TEXT | PgType::BYTEA | PgType::BOOL)
    }
}
