//! A store in tables: what the store on SQLite and the one on PostgreSQL have in common, which is everything but how statements
//! reach the database.
//!
//! Each change is one transaction that no other change overlaps, and has a generation of its own; each read sees one state.

mod api_keys;
pub(crate) mod apps;
mod check;
mod clients;
pub(crate) mod copy;
mod roles;
pub(crate) mod schema;
pub(crate) mod value;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leafseal_crypto::{CryptoRng, EcContext, Secret};

pub use schema::SCHEMA_VERSION;
use value::Sql;

use crate::model::{
    ApiKey, AppKeys, AppSummary, CheckReport, ClientGrant, KeyState, NewApiKey, NewClient, NewKeys, StoreFault,
    TOKEN_SECRET_SIZE, VersionSummary,
};
use crate::root_key::RootKey;
use crate::store::{Environment, Generation, Keystore, StoreLimits, WallClock};
use crate::wrapping::StoreId;
use crate::{ApiKeyId, AppName, ClientName, StoreError};

/// The action if there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Refuse with [`Error::NoStore`].
    Existing,
    /// Make an empty one under the root key that was given; for SQLite its folder too.
    CreateIfMissing,
}

/// Whether an app or a client may be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnabledState {
    Enabled,
    Disabled,
}

/// How statements reach a database.
pub trait SqlBackend: Send + Sync {
    /// The store's type in `Debug` output.
    const NAME: &'static str;

    /// Runs `read` on one state of the store; once more if the connection to the store ends meanwhile.
    fn read<T>(&self, read: impl Fn(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError>;

    /// Runs `apply` as one change that no other overlaps: all of it and a new generation, or nothing.
    fn change<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError>;

    /// See [`Keystore::generation`].
    fn generation(&self) -> Result<Generation, StoreError>;

    /// See [`Keystore::on_change`].
    fn on_change(&self, _: Box<dyn Fn() + Send + Sync>) {}

    /// See [`Keystore::is_shared`].
    fn is_shared(&self) -> bool {
        false
    }

    /// The faults that the database itself finds, and references to rows that are missing.
    fn faults(&self, sql: &mut dyn Sql) -> Result<Vec<StoreFault>, StoreError>;
}

/// A [`Keystore`] in the tables of a database. Threads may share it.
pub struct SqlKeystore<B> {
    pub(crate) backend: B,
    root_key: Box<dyn RootKey>,
    clock: Box<dyn WallClock>,
    rng: Mutex<Box<dyn CryptoRng + Send>>,
    context: EcContext,
    limits: StoreLimits,
    pub(crate) id: StoreId,
}

impl<B: SqlBackend> std::fmt::Debug for SqlKeystore<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({}, …)", B::NAME, self.root_key.id())
    }
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// The store `id`, whose tables `backend` reaches.
    pub(crate) fn new(backend: B, id: StoreId, environment: Environment, limits: StoreLimits) -> Self {
        let Environment { root_key, clock, mut rng } = environment;
        let context = EcContext::new(rng.as_mut());
        Self { backend, root_key, clock, rng: Mutex::new(rng), context, limits, id }
    }

    /// All rows of the store, as of one moment.
    pub(crate) fn content(&self) -> Result<copy::StoreContent, StoreError> {
        self.backend.read(copy::StoreContent::read)
    }

    /// A panic in another call leaves a generator as good as any.
    fn rng(&self) -> MutexGuard<'_, Box<dyn CryptoRng + Send>> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.clock.now_unix_s()
    }
}

impl<B: SqlBackend> Keystore for SqlKeystore<B> {
    fn generation(&self) -> Result<Generation, StoreError> {
        self.backend.generation()
    }

    fn on_change(&self, hint: Box<dyn Fn() + Send + Sync>) {
        self.backend.on_change(hint);
    }

    fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    fn create_app(&self, app: &AppName, keys: NewKeys) -> Result<AppSummary, StoreError> {
        self.backend.change(|sql| self.insert_app(sql, app, keys))
    }

    fn add_version(&self, app: &AppName, keys: NewKeys) -> Result<VersionSummary, StoreError> {
        self.backend.change(|sql| self.append_version(sql, app, keys))
    }

    fn list_apps(&self) -> Result<Vec<AppSummary>, StoreError> {
        self.backend.read(apps::summaries)
    }

    fn app_summary(&self, app: &AppName) -> Result<Option<AppSummary>, StoreError> {
        self.backend.read(|sql| apps::find(sql, app)?.map(|row| apps::summary(sql, row)).transpose())
    }

    fn load_app(&self, app: &AppName) -> Result<Option<AppKeys>, StoreError> {
        let found = self.backend.read(|sql| {
            let Some(row) = apps::find(sql, app)? else {
                return Ok(None);
            };
            // A disabled version is for nothing: its keys stay wrapped.
            Ok(Some((row, apps::versions(sql, app, apps::VersionSelection::Active)?)))
        })?;
        // The keys are opened outside the transaction: it takes some 100 µs a version, and longer with a root key in hardware.
        found.map(|(row, versions)| self.open_app(row, &versions)).transpose()
    }

    fn disable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.backend.change(|sql| apps::set_state(sql, app, EnabledState::Disabled))
    }

    fn enable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.backend.change(|sql| apps::set_state(sql, app, EnabledState::Enabled))
    }

    fn disable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        self.backend.change(|sql| {
            if apps::is_last_active(sql, app, version)? {
                let app = app.clone();
                return Err(StoreError::LastActiveVersion { app, version });
            }
            apps::set_version_state(sql, app, version, KeyState::Disabled)
        })
    }

    fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> Result<(), StoreError> {
        self.backend.change(|sql| versions.iter().try_for_each(|version| apps::trim(sql, app, *version)))
    }

    fn enable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        let row = self.backend.read(|sql| apps::version(sql, app, version))?;
        if row.is_trimmed() {
            let app = app.clone();
            return Err(StoreError::TrimmedVersion { app, version });
        }
        // Outside the transaction, as for an app: what was wrapped never changes.
        self.open_version(app, &row)?;
        self.backend.change(|sql| apps::set_version_state(sql, app, version, KeyState::Active))
    }

    fn put_client(&self, client: &NewClient) -> Result<ClientGrant, StoreError> {
        self.backend.change(|sql| clients::put(sql, client, self.now(), &self.limits))
    }

    fn client(&self, client: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
        self.backend.read(|sql| clients::find(sql, client))
    }

    fn list_clients(&self) -> Result<Vec<ClientGrant>, StoreError> {
        self.backend.read(clients::all)
    }

    fn disable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.backend.change(|sql| clients::set_state(sql, client, EnabledState::Disabled))
    }

    fn enable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.backend.change(|sql| clients::set_state(sql, client, EnabledState::Enabled))
    }

    fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, StoreError> {
        let id = ApiKeyId::random(self.rng().as_mut());
        self.backend.change(|sql| api_keys::insert(sql, id, key, self.now(), &self.limits))
    }

    fn api_key(&self, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.backend.read(|sql| api_keys::find(sql, id))
    }

    fn list_api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.backend.read(api_keys::all)
    }

    fn revoke_api_key(&self, id: &ApiKeyId) -> Result<(), StoreError> {
        self.backend.change(|sql| api_keys::revoke(sql, id, self.now()))
    }

    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
        let (root_key, id) = (&*self.root_key, self.id);
        match self.backend.read(|sql| api_keys::token_secret(sql, root_key, id))? {
            Some(secret) => Ok(secret),
            // The generator is locked after the database, as everywhere.
            None => self.backend.change(|sql| api_keys::token_secret_or_new(sql, root_key, id, self.rng().as_mut())),
        }
    }

    fn check(&self) -> Result<CheckReport, StoreError> {
        self.backend.read(|sql| self.check_all(sql))
    }
}
