//! Shared by the store's tests: places of stores, environments, keys that a child process can generate again.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use leafseal_crypto::hash::sha256;
use leafseal_crypto::{CryptoRng, Curve, EcContext, PrivateKey, Secret};
use leafseal_keystore::{
    AcceptedSchemes, AppName, Apps, ChangeAuthor, ClientName, Environment, Keystore, LocalRootKey, NewClient, OpenMode,
    Operation, PostgresKeystore, PostgresSettings, RemainingSlots, Roles, SlotId, SlotProvider, SlotSummary,
    SqliteKeystore, StoreError, StoreLimits,
};
use leafseal_testkit::postgres::PostgresServer;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;

/// The root key of every test store. It protects nothing.
pub(crate) const ROOT_KEY: &str = "leafseal-root-key-1:WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=";

/// Unix seconds that the clock of [`environment`] shows.
pub(crate) const NOW: u64 = 1_750_000_000;

pub(crate) fn rng() -> impl CryptoRng + Send {
    UnwrapErr(SysRng)
}

pub(crate) fn root_key() -> LocalRootKey {
    LocalRootKey::from_text(ROOT_KEY).expect("valid")
}

pub(crate) fn author() -> ChangeAuthor {
    ChangeAuthor { user: Some("tester".to_owned()), ..ChangeAuthor::of_process("keys test") }
}

/// What a store needs besides its place.
pub(crate) fn environment() -> Environment {
    Environment {
        providers: vec![Box::new(root_key())],
        clock: Box::new(|| NOW),
        rng: Box::new(rng()),
        author: author(),
    }
}

/// A store in a file.
pub(crate) fn open(path: &Path) -> SqliteKeystore {
    open_with(path, StoreLimits::default())
}

pub(crate) fn open_with(path: &Path, limits: StoreLimits) -> SqliteKeystore {
    SqliteKeystore::open(path, OpenMode::CreateIfMissing, environment(), limits).expect("opened")
}

/// Changes of slots in one step.
pub(crate) trait SlotChanges: Keystore {
    fn add_slot(&self, provider: &dyn SlotProvider) -> Result<SlotSummary, StoreError> {
        let made = self.make_slot(provider)?;
        self.put_slot(&made, None).map(|()| made.summary().clone())
    }

    fn replace_slot(&self, slot: &SlotId, provider: &dyn SlotProvider) -> Result<SlotSummary, StoreError> {
        let made = self.make_slot(provider)?;
        self.put_slot(&made, Some(slot)).map(|()| made.summary().clone())
    }

    fn remove_untested(&self, slot: &SlotId) -> Result<(), StoreError> {
        self.remove_slot(slot, RemainingSlots::Untested)
    }
}

impl<K: Keystore + ?Sized> SlotChanges for K {}

/// A folder of the test's own and the path of a store in it.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("store.db");
    (folder, path)
}

/// A store of either kind.
pub(crate) struct Store(Box<dyn Keystore>);

impl Deref for Store {
    type Target = dyn Keystore;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Which database a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// Where a store of a test's own is.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    /// Removed with the place.
    _folder: Option<tempfile::TempDir>,
    /// Of the file, or the database's name.
    name: PathBuf,
    server: Option<&'static PostgresServer>,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => {
                let folder = tempfile::tempdir().expect("folder");
                let name = folder.path().join("store.db");
                Self { kind, _folder: Some(folder), name, server: None }
            }
            Kind::Postgres => {
                let server = PostgresServer::shared();
                Self { kind, _folder: None, name: server.database().into(), server: Some(server) }
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.name
    }

    pub(crate) fn database(&self) -> &str {
        self.name.to_str().expect("text")
    }

    pub(crate) fn server(&self) -> &'static PostgresServer {
        self.server.expect("of a server")
    }

    /// How the database is reached.
    pub(crate) fn settings(&self) -> PostgresSettings {
        self.server().settings(self.database())
    }

    pub(crate) fn open(&self) -> Store {
        self.open_with(StoreLimits::default())
    }

    /// A store of the schema before the authenticated tree, if there is none yet.
    pub(crate) fn open_old(&self) -> Store {
        self.try_open(OpenMode::CreateOldIfMissing, environment(), StoreLimits::default()).expect("opened")
    }

    pub(crate) fn open_with(&self, limits: StoreLimits) -> Store {
        self.try_open(OpenMode::CreateIfMissing, environment(), limits).expect("opened")
    }

    pub(crate) fn try_open(
        &self,
        mode: OpenMode,
        environment: Environment,
        limits: StoreLimits,
    ) -> Result<Store, StoreError> {
        Ok(Store(match self.kind {
            Kind::Sqlite => Box::new(SqliteKeystore::open(&self.name, mode, environment, limits)?),
            Kind::Postgres => Box::new(PostgresKeystore::open(&self.settings(), mode, environment, limits)?),
        }))
    }

    /// Runs statements as a user who may write to the tables, with the database's own rules turned off, and returns what they print.
    /// Bytes are written as `x'00'`.
    pub(crate) fn tamper(&self, sql: &str) -> String {
        match self.kind {
            Kind::Sqlite => {
                let raw = rusqlite::Connection::open(&self.name).expect("opened");
                raw.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").expect("set");
                if sql.starts_with("SELECT") {
                    return raw.query_row(sql, [], |row| row.get::<_, String>(0)).expect(sql);
                }
                raw.execute_batch(sql).expect(sql);
                String::new()
            }
            Kind::Postgres => {
                let sql = postgres_bytes(sql);
                let before = "SET session_replication_role = replica; SET search_path = leafseal";
                self.server().sql(self.database(), &format!("{before}; {sql}"))
            }
        }
    }

    /// Gives the table `store` the columns that it has before schema 3.
    pub(crate) fn add_old_columns(&self) {
        let add = "ALTER TABLE store ADD COLUMN generation BIGINT NOT NULL DEFAULT 5";
        match self.kind {
            Kind::Sqlite => self.tamper(&add.replace("BIGINT", "INTEGER")),
            Kind::Postgres => self.tamper(&format!("{add}, ADD COLUMN mark BIGINT NOT NULL DEFAULT 0")),
        };
    }

    /// A statement for [`Place::tamper`] that prints a column of bytes.
    pub(crate) fn as_hex(&self, column: &str, table: &str) -> String {
        match self.kind {
            Kind::Sqlite => format!("SELECT hex({column}) FROM {table}"),
            Kind::Postgres => format!("SELECT encode({column}, 'hex') FROM {table}"),
        }
    }

    /// Makes a table again without any rule.
    pub(crate) fn without_rules(&self, table: &str) {
        match self.kind {
            Kind::Sqlite => self.tamper(&format!(
                "CREATE TABLE copied AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE copied RENAME TO {table}"
            )),
            Kind::Postgres => self.tamper(&format!(
                "DO $$ DECLARE it record; BEGIN
             FOR it IN SELECT conname AS name FROM pg_constraint WHERE conrelid = '{table}'::regclass
             LOOP EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT IF EXISTS %I CASCADE', it.name); END LOOP;
             FOR it IN SELECT attname AS name FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped
             LOOP EXECUTE format('ALTER TABLE {table} ALTER %I DROP NOT NULL', it.name); END LOOP; END $$"
            )),
        };
    }

    /// Takes the rules of the columns out of the schema, so that the database finds nothing wrong with what breaks them.
    pub(crate) fn drop_checks(&self) {
        match self.kind {
            Kind::Sqlite => self.tamper(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(replace(sql, 'CHECK (created_at >= 0)', ''),
                     'CHECK (version BETWEEN 1 AND 4294967295)', '');",
            ),
            Kind::Postgres => self.tamper(
                "DO $$ DECLARE rule record; BEGIN
                 FOR rule IN SELECT conrelid::regclass AS name, conname FROM pg_constraint
                     WHERE contype = 'c' AND connamespace = 'leafseal'::regnamespace
                 LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', rule.name, rule.conname); END LOOP; END $$",
            ),
        };
    }
}

/// `x'00'`, after a space or a parenthesis, as PostgreSQL writes it.
fn postgres_bytes(sql: &str) -> String {
    let mut written = String::new();
    let mut rest = sql;
    while let Some(start) = [" x'", "(x'"].iter().filter_map(|opening| rest.find(opening)).min() {
        let (before, after) = (&rest[..=start], &rest[start + 3..]);
        let (digits, after) = after.split_once('\'').expect("its end");
        written.push_str(&format!("{before}decode('{digits}', 'hex')"));
        rest = after;
    }
    written + rest
}

/// Makes a test on each database of each function, which takes a [`Place`].
macro_rules! on_both_databases {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        mod on_sqlite {
            $($(#[$attribute])* #[test] fn $name() { super::$name(&$crate::common::Place::new($crate::common::Kind::Sqlite)); })*
        }
        mod on_postgres {
            $($(#[$attribute])* #[test] fn $name() { super::$name(&$crate::common::Place::new($crate::common::Kind::Postgres)); })*
        }
    };
}
pub(crate) use on_both_databases;

pub(crate) fn app(name: &str) -> AppName {
    AppName::parse(name).expect("valid")
}

pub(crate) fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("valid")
}

pub(crate) fn grant(name: &str, apps: &[&str]) -> NewClient {
    NewClient {
        name: client(name),
        apps: Apps::Only(apps.iter().map(|name| app(name)).collect()),
        operations: BTreeSet::from([Operation::Encrypt]),
        roles: Roles::Any,
        accept: AcceptedSchemes::ALL,
        certificate_sha256: None,
    }
}

pub(crate) fn context() -> EcContext {
    EcContext::new(&mut rng())
}

/// A key that depends on `curve` and `number` only.
pub(crate) fn key(curve: Curve, number: u32) -> PrivateKey {
    let mut scalar = sha256(&[b"keystore test key", &number.to_be_bytes()]);
    // Below both group orders.
    scalar[0] &= 0x7f;
    PrivateKey::from_scalar(curve, Secret::from_bytes(&scalar)).expect("in range")
}

/// The same of a store that is known to be a file.
pub(crate) fn assert_file_sound(store: &SqliteKeystore) {
    assert_eq!(store.check().expect("checked").faults, []);
}

/// Asserts that nothing is wrong with `store`.
pub(crate) fn assert_sound(store: &Store) {
    assert_eq!(store.check().expect("checked").faults, []);
}
