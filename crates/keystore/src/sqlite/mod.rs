//! The embedded store: one SQLite file, shared by processes on one machine.
//!
//! Rollback journal and `synchronous=EXTRA`, so that a change which was reported is on disk even if the power fails the moment
//! after; each change is one IMMEDIATE transaction, so that two writers queue instead of meeting half-way
//! (`docs/decisions/0005-keystore.md`). The file is 0600 and its folder is nobody else's to write; SQLite gives its journal the
//! mode of the file.

mod api_keys;
mod apps;
mod check;
mod clients;
mod roles;
mod schema;

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fieldseal_crypto::{CryptoRng, EcContext, Secret};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

pub use schema::SCHEMA_VERSION;

use crate::drafts::folder_of;
use crate::files::{self, FileId, SecretPath};
use crate::model::{
    ApiKey, AppKeys, AppSummary, CheckReport, ClientGrant, KeyState, NewApiKey, NewClient, NewKeys, TOKEN_SECRET_SIZE,
    VersionSummary,
};
use crate::root_key::{RootKey, RootKeyId};
use crate::store::{Clock, Environment, Generation, Keystore, Limits};
use crate::wrapping::StoreId;
use crate::{ApiKeyId, AppName, ClientName, Error};

/// Bytes of a page: SQLite's default, which `store_size_max` is counted in.
const PAGE_SIZE: u64 = 4096;

/// The action if there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Refuse with [`Error::NoStore`].
    Existing,
    /// Make an empty one, and its folder, under the root key that was given.
    CreateIfMissing,
}

/// A [`Keystore`] in one SQLite file. Threads may share it; their calls queue. When a copy of the store is put in its place, as a
/// backup is restored, the next call finds it.
pub struct SqliteKeystore {
    path: PathBuf,
    inner: Mutex<Inner>,
    root_key: Box<dyn RootKey>,
    clock: Box<dyn Clock>,
    context: EcContext,
    limits: Limits,
    id: StoreId,
}

/// Whether an app or a client may be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Enabled,
    Disabled,
}

struct Inner {
    connection: Connection,
    /// The file at the path just before the connection was opened: a replacement in between shows as another file.
    file: FileId,
    replacements: u64,
    rng: Box<dyn CryptoRng + Send>,
}

impl std::fmt::Debug for SqliteKeystore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SqliteKeystore({}, …)", self.root_key.id())
    }
}

impl SqliteKeystore {
    /// Opens the store at `path`, or creates it if `mode` permits. A kill during creation leaves none or an empty one.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::NotAStore`], [`Error::NewerSchema`], [`Error::WrongRootKey`], [`Error::Owner`],
    /// [`Error::Permissions`], [`Error::Io`], [`Error::Busy`], [`Error::Full`], [`Error::Storage`].
    pub fn open(path: &Path, mode: OpenMode, environment: Environment, limits: Limits) -> Result<Self, Error> {
        let Environment { root_key, clock, mut rng } = environment;
        let (file, connection, id) = open_file(path, mode, &limits, root_key.id(), rng.as_mut())?;
        Ok(Self {
            path: path.to_owned(),
            context: EcContext::new(rng.as_mut()),
            inner: Mutex::new(Inner { connection, file, replacements: 0, rng }),
            root_key,
            clock,
            limits,
            id,
        })
    }

    /// The connection to the file that is at the path now. SQLite itself would go on reading one that has been replaced.
    ///
    /// A panic in another call rolled its transaction back, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> Result<MutexGuard<'_, Inner>, Error> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if FileId::of(&metadata(&self.path)?) != inner.file {
            self.reopen(&mut inner)?;
        }
        Ok(inner)
    }

    /// Opens the file that was put in the place of the one that is open, if it is a copy of the same store.
    fn reopen(&self, inner: &mut Inner) -> Result<(), Error> {
        let (root_key, mode) = (self.root_key.id(), OpenMode::Existing);
        let (file, connection, id) = open_file(&self.path, mode, &self.limits, root_key, inner.rng.as_mut())?;
        if id != self.id {
            return Err(Error::OtherStore(self.path.clone()));
        }
        (inner.file, inner.connection) = (file, connection);
        inner.replacements += 1;
        Ok(())
    }

    /// Runs `read` on one state of the store.
    fn read<T>(&self, read: impl FnOnce(&Transaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut inner = self.lock()?;
        let transaction = inner.connection.transaction()?;
        let outcome = read(&transaction)?;
        transaction.finish()?;
        Ok(outcome)
    }

    /// Runs `apply` as one change: all of it and a new generation, or nothing.
    fn change<T>(
        &self,
        apply: impl FnOnce(&Transaction<'_>, &mut dyn CryptoRng) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut inner = self.lock()?;
        let Inner { connection, rng, .. } = &mut *inner;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let outcome = apply(&transaction, rng.as_mut())?;
        transaction.execute("UPDATE store SET generation = generation + 1", [])?;
        transaction.commit()?;
        Ok(outcome)
    }

    fn now(&self) -> i64 {
        i64::try_from(self.clock.now_unix_s()).unwrap_or(i64::MAX)
    }
}

/// Opens the file at `path` and returns the id of its store.
fn open_file(
    path: &Path,
    mode: OpenMode,
    limits: &Limits,
    root_key: RootKeyId,
    rng: &mut dyn CryptoRng,
) -> Result<(FileId, Connection, StoreId), Error> {
    let file = prepare_path(path, mode)?;
    let mut connection = connect(path, limits).map_err(|error| opening_error(error, path))?;
    let id = match schema::identify(&connection).map_err(|error| opening_error(error, path))? {
        schema::Content::Foreign => return Err(Error::NotAStore(path.to_owned())),
        schema::Content::Blank if mode == OpenMode::Existing => return Err(Error::NoStore(path.to_owned())),
        schema::Content::Blank => schema::initialise(&mut connection, root_key, rng)?,
        schema::Content::Store => schema::verify(&mut connection, root_key)?,
    };
    Ok((file, connection, id))
}

/// Creates folder and file if allowed, and refuses files that others own or can access. Returns the file's identity.
fn prepare_path(path: &Path, mode: OpenMode) -> Result<FileId, Error> {
    let folder = folder_of(path);
    if mode == OpenMode::CreateIfMissing {
        files::create_folder(folder)?;
    }
    let of_folder = match folder.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Error::NoStore(path.to_owned())),
        other => other.map_err(Error::io(folder))?,
    };
    files::check_private(SecretPath::StoreFolder, folder, &of_folder)?;
    if mode == OpenMode::CreateIfMissing {
        files::create_empty_if_missing(path)?;
    }
    let metadata = metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::NotAStore(path.to_owned()));
    }
    files::check_private(SecretPath::StoreFile, path, &metadata)?;
    Ok(FileId::of(&metadata))
}

/// The metadata of the store's file.
fn metadata(path: &Path) -> Result<Metadata, Error> {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::NoStore(path.to_owned())),
        other => other.map_err(Error::io(path)),
    }
}

fn connect(path: &Path, limits: &Limits) -> Result<Connection, rusqlite::Error> {
    // No mutex of SQLite's own: ours is around the connection. No URI: a path is a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(limits.busy_timeout)?;
    // A damaged or prepared file must not run code or be written past its schema.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    // SQLite takes 0 for "leave it as it is".
    let page_count_max = i64::try_from((limits.store_size_max / PAGE_SIZE).max(1)).unwrap_or(i64::MAX);
    connection.pragma_update(None, "max_page_count", page_count_max)?;
    Ok(connection)
}

/// Interprets SQLite's error while a file is being opened.
fn opening_error(error: rusqlite::Error, path: &Path) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::NotAStore(path.to_owned()),
        _ => error.into(),
    }
}

impl From<rusqlite::Error> for Error {
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

impl Keystore for SqliteKeystore {
    fn generation(&self) -> Result<Generation, Error> {
        let inner = self.lock()?;
        let changes: i64 = inner.connection.query_row("SELECT generation FROM store", [], |row| row.get(0))?;
        Ok(Generation { replacements: inner.replacements, changes: changes.cast_unsigned() })
    }

    fn create_app(&self, app: &AppName, keys: NewKeys) -> Result<AppSummary, Error> {
        self.change(|transaction, rng| self.insert_app(transaction, app, keys, rng))
    }

    fn add_version(&self, app: &AppName, keys: NewKeys) -> Result<VersionSummary, Error> {
        self.change(|transaction, rng| self.append_version(transaction, app, keys, rng))
    }

    fn list_apps(&self) -> Result<Vec<AppSummary>, Error> {
        self.read(|transaction| {
            apps::all(transaction)?.into_iter().map(|row| apps::summary(transaction, row)).collect()
        })
    }

    fn app_summary(&self, app: &AppName) -> Result<Option<AppSummary>, Error> {
        self.read(|transaction| apps::find(transaction, app)?.map(|row| apps::summary(transaction, row)).transpose())
    }

    fn load_app(&self, app: &AppName) -> Result<Option<AppKeys>, Error> {
        let found = self.read(|transaction| {
            let Some(row) = apps::find(transaction, app)? else {
                return Ok(None);
            };
            // A disabled version is for nothing: its keys stay wrapped.
            Ok(Some((row, apps::versions(transaction, app, apps::Selection::Active)?)))
        })?;
        // The keys are opened outside the lock: it takes some 100 µs a version, and longer with a root key in hardware.
        found.map(|(row, versions)| self.open_app(row, &versions)).transpose()
    }

    fn disable_app(&self, app: &AppName) -> Result<(), Error> {
        self.change(|transaction, _| apps::set_state(transaction, app, Standing::Disabled))
    }

    fn enable_app(&self, app: &AppName) -> Result<(), Error> {
        self.change(|transaction, _| apps::set_state(transaction, app, Standing::Enabled))
    }

    fn disable_version(&self, app: &AppName, version: u32) -> Result<(), Error> {
        self.change(|transaction, _| {
            if apps::is_last_active(transaction, app, version)? {
                let app = app.clone();
                return Err(Error::LastActiveVersion { app, version });
            }
            apps::set_version_state(transaction, app, version, KeyState::Disabled)
        })
    }

    fn enable_version(&self, app: &AppName, version: u32) -> Result<(), Error> {
        let row = self.read(|transaction| apps::version(transaction, app, version))?;
        // Outside the transaction, as for an app: what was wrapped never changes.
        self.open_version(app, &row)?;
        self.change(|transaction, _| apps::set_version_state(transaction, app, version, KeyState::Active))
    }

    fn put_client(&self, client: &NewClient) -> Result<ClientGrant, Error> {
        self.change(|transaction, _| clients::put(transaction, client, self.now(), &self.limits))
    }

    fn client(&self, client: &ClientName) -> Result<Option<ClientGrant>, Error> {
        self.read(|transaction| clients::find(transaction, client))
    }

    fn list_clients(&self) -> Result<Vec<ClientGrant>, Error> {
        self.read(|transaction| clients::all(transaction))
    }

    fn disable_client(&self, client: &ClientName) -> Result<(), Error> {
        self.change(|transaction, _| clients::set_state(transaction, client, Standing::Disabled))
    }

    fn enable_client(&self, client: &ClientName) -> Result<(), Error> {
        self.change(|transaction, _| clients::set_state(transaction, client, Standing::Enabled))
    }

    fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, Error> {
        self.change(|transaction, rng| api_keys::insert(transaction, key, self.now(), &self.limits, rng))
    }

    fn api_key(&self, id: &ApiKeyId) -> Result<Option<ApiKey>, Error> {
        self.read(|transaction| api_keys::find(transaction, id))
    }

    fn list_api_keys(&self) -> Result<Vec<ApiKey>, Error> {
        self.read(|transaction| api_keys::all(transaction))
    }

    fn revoke_api_key(&self, id: &ApiKeyId) -> Result<(), Error> {
        self.change(|transaction, _| api_keys::revoke(transaction, id, self.now()))
    }

    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, Error> {
        let (root_key, id) = (&*self.root_key, self.id);
        match self.read(|transaction| api_keys::token_secret(transaction, root_key, id))? {
            Some(secret) => Ok(secret),
            None => self.change(|transaction, rng| api_keys::token_secret_or_new(transaction, root_key, id, rng)),
        }
    }

    fn check(&self) -> Result<CheckReport, Error> {
        self.read(|transaction| self.check_all(transaction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durability and tenancy depend on these; SQLite silently ignores a misspelt pragma.
    #[test]
    fn the_settings_of_a_connection_take() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("store.db");
        prepare_path(&path, OpenMode::CreateIfMissing).expect("made");
        let limits = Limits::default();
        let connection = connect(&path, &limits).expect("opened");
        let setting =
            |name: &str| -> i64 { connection.pragma_query_value(None, name, |row| row.get(0)).expect("known") };
        assert_eq!(setting("synchronous"), 3, "EXTRA");
        assert_eq!(setting("foreign_keys"), 1);
        assert_eq!(setting("cell_size_check"), 1);
        assert_eq!(setting("trusted_schema"), 0);
        assert_eq!(setting("page_size").cast_unsigned(), PAGE_SIZE);
        assert_eq!(setting("max_page_count").cast_unsigned(), limits.store_size_max / PAGE_SIZE);
        assert_eq!(u128::from(setting("busy_timeout").cast_unsigned()), limits.busy_timeout.as_millis());
        let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("known");
        assert_eq!(journal, "delete");
    }
}
