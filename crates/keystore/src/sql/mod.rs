//! A store in tables: what the store on SQLite and the one on PostgreSQL have in common, which is everything but how statements
//! reach the database.
//!
//! Each change is one transaction that no other change overlaps, and has a generation of its own; each read sees one state.

mod accepted;
mod api_keys;
pub(crate) mod apps;
mod bounds;
pub(crate) mod check;
mod clients;
pub(crate) mod copy;
mod descent;
pub(crate) mod dump;
mod escrow;
mod life;
pub(crate) mod migration;
mod pages;
mod reopening;
mod resealing;
mod roles;
mod rotation;
mod scan;
pub(crate) mod schema;
mod seen;
pub(crate) mod session;
pub(crate) mod slots;
mod stored;
pub(crate) mod table;
pub(crate) mod tree;
mod upkeep;
pub(crate) mod value;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use leafseal_crypto::{CryptoRng, EcContext, Secret};

use schema::TableDefinitions;
use seen::SeenStates;
use session::{StoreSession, VersionSelection};
use slots::{OpenRoot, RootLink};
use tree::StoreTree;
use upkeep::UpkeepPass;
use value::{Sql, SqlRow};

use crate::accepted::AcceptedSchemes;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::escrowed::{EscrowImport, EscrowImported};
use crate::life::KeyLife;
use crate::memory::{MemoryStatus, PeerSighting, StoreSighting};
use crate::model::{
    ApiKey, AppKeys, AppSummary, CheckReport, ClientGrant, KeyState, Migration, NewApiKey, NewClient, NewKeys,
    RootRotation, StoreFault, TOKEN_SECRET_SIZE, VersionSummary,
};
use crate::record_key::RecordKey;
use crate::scan::{ScanStep, StoreScan};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::slots::{MadeSlot, RemainingSlots, SlotId, SlotProvider, SlotSummary};
use crate::store::{Environment, Generation, Keystore, StoreLimits, WallClock};
use crate::store_id::StoreId;
use crate::{ApiKeyId, AppName, ClientName, StoreError};

/// The action if there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Refuse with [`Error::NoStore`].
    Existing,
    /// Make an empty one under the root key that was given; for SQLite its folder too.
    CreateIfMissing,
    /// The same, of the schema before the authenticated tree, which older programs use, too.
    CreateOldIfMissing,
}

impl OpenMode {
    /// The schema of a store that is made.
    pub(crate) fn new_schema(self) -> Option<u32> {
        match self {
            Self::Existing => None,
            Self::CreateIfMissing => Some(SCHEMA_VERSION),
            Self::CreateOldIfMissing => Some(TREE_SCHEMA_VERSION - 1),
        }
    }
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
    /// The tables in its words.
    const TABLES: TableDefinitions;
    /// What stands before a table's name outside of a transaction.
    const SCHEMA: &'static str;
    /// The column, or number, that stands for a change in a store without a tree ([`Generation::mark`]).
    const MARK: &'static str;

    /// Runs `read` on one state of the store; once more if the connection to the store ends meanwhile.
    fn read<T>(&self, read: impl Fn(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError>;

    /// Runs `apply` as one change that no other overlaps: all of it and a new generation, or nothing; nothing, too, if it writes nothing.
    fn change<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError>;

    /// The same for a change that alters tables.
    fn change_tables<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.change(apply)
    }

    /// The one row that `select` finds, whose first column is the store's id, and [`Generation::replacements`]; without a transaction.
    fn generation(&self, select: &str) -> Result<(u64, SqlRow), StoreError>;

    /// Where the store is configured to be, as it is named in the memory of this machine.
    fn place(&self) -> String;

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
    /// What may be asked for the root again.
    providers: Vec<Box<dyn SlotProvider>>,
    clock: Box<dyn WallClock>,
    rng: Mutex<Box<dyn CryptoRng + Send>>,
    context: EcContext,
    limits: StoreLimits,
    pub(crate) id: StoreId,
    open: RwLock<Arc<OpenRoot>>,
    /// Whether the root was replaced by one that no provider opens by itself.
    is_sealed: AtomicBool,
    /// The newest schema that the store was seen to have.
    schema: AtomicU32,
    seen: SeenStates,
    upkeep: Mutex<UpkeepPass>,
}

impl<B: SqlBackend> std::fmt::Debug for SqlKeystore<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({}, …)", B::NAME, self.open_root().root.id())
    }
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// The store under a root, of a schema, whose tables `backend` reaches.
    pub(crate) fn new(backend: B, schema: u32, open: OpenRoot, environment: Environment, limits: StoreLimits) -> Self {
        let Environment { mut providers, clock, mut rng } = environment;
        // What persons typed in does not stay in memory.
        providers.retain(|provider| provider.is_automatic());
        let context = EcContext::new(rng.as_mut());
        let (id, open, schema) = (open.tree.store, RwLock::new(Arc::new(open)), AtomicU32::new(schema));
        let (rng, is_sealed, seen) = (Mutex::new(rng), AtomicBool::new(false), SeenStates::default());
        Self {
            backend,
            providers,
            clock,
            rng,
            context,
            limits,
            id,
            open,
            is_sealed,
            schema,
            seen,
            upkeep: Mutex::default(),
        }
    }

    /// Runs `read` on one state of the store.
    pub(crate) fn read<T>(
        &self,
        read: impl Fn(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read_open(read).map(|(_, found)| found)
    }

    /// The same; returns also the root of that state.
    fn read_open<T>(
        &self,
        read: impl Fn(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<(Arc<OpenRoot>, T), StoreError> {
        let read = || {
            // Before the read begins: others may see a newer state while it goes on.
            let newest = self.seen.newest();
            let (open, found, seen) = self.backend.read(|sql| {
                let (open, state) = self.settle(sql, 0)?;
                let seen = state.sighting(open.epoch, 0);
                self.seen.admit(newest, seen)?;
                let found = read(&mut StoreSession::new(sql, &open, state))?;
                Ok((open, found, seen))
            })?;
            self.seen.note(seen);
            Ok((open, found))
        };
        let mut outcome = read();
        if matches!(outcome, Err(StoreError::Storage(_))) && self.is_without_slots() {
            // Another process has migrated the store since the read began, and its generation is elsewhere.
            outcome = read();
        }
        match outcome {
            Err(StoreError::RootReplaced) => {
                self.reopen()?;
                read()
            }
            other => other,
        }
    }

    /// Runs `apply` as one change, which has a generation of its own if it writes anything.
    pub(crate) fn change<T>(
        &self,
        apply: impl FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // Applied once, in the change whose root is known.
        let mut apply = Some(apply);
        match self.change_once(&mut apply) {
            // The root was replaced, or another process has migrated the store.
            Err(StoreError::RootReplaced) if apply.is_some() => {
                self.reopen()?;
                self.change_once(&mut apply)
            }
            other => other,
        }
    }

    fn change_once<T, F>(&self, apply: &mut Option<F>) -> Result<T, StoreError>
    where
        F: FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    {
        let newest = self.seen.newest();
        let (outcome, made) = self.backend.change(|sql| self.change_in(sql, newest, apply))?;
        self.seen.note(made);
        self.save_seen();
        Ok(outcome)
    }

    /// The same for one that alters the tables of a store without slots.
    pub(crate) fn change_tables<T>(
        &self,
        apply: impl FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read(|_| Ok(()))?;
        let (newest, mut apply) = (self.seen.newest(), Some(apply));
        let (outcome, made) = self.backend.change_tables(|sql| self.change_in(sql, newest, &mut apply))?;
        self.seen.note(made);
        self.save_seen();
        Ok(outcome)
    }

    fn change_in<T, F>(
        &self,
        sql: &mut dyn Sql,
        newest: Option<StoreSighting>,
        apply: &mut Option<F>,
    ) -> Result<(T, Option<StoreSighting>), StoreError>
    where
        F: FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    {
        let (open, state) = self.settle(sql, 1)?;
        self.seen.admit(newest, state.sighting(open.epoch, 1))?;
        if state.tree_root.is_some() {
            RootLink::remove(sql, self.now())?;
        }
        let mut session = StoreSession::new(sql, &open, state);
        let apply = apply.take().ok_or(StoreError::RootReplaced)?;
        let outcome = apply(&mut session)?;
        Ok((outcome, session.finish()?))
    }

    /// The generation, verified under a root; whatever is stored, little is read.
    fn generation_under(&self, open: &OpenRoot) -> Result<Generation, StoreError> {
        self.look_at_memory();
        let has_tree = self.schema.load(Ordering::Acquire) >= TREE_SCHEMA_VERSION;
        const OF_STORE: &str = "CASE WHEN length(store_id) = 16 THEN store_id END";
        const OF_TREE: &str = "CASE WHEN length(digest) = 32 THEN digest END, CASE WHEN length(mac) = 32 THEN mac END";
        let (schema, mark, newest) = (B::SCHEMA, B::MARK, self.seen.newest());
        let (mark, join) = match has_tree {
            true => (OF_TREE, format!("LEFT JOIN {schema}tree_root AS r ON r.only_row = 1")),
            false => (mark, String::new()),
        };
        let (replacements, row) = self
            .backend
            .generation(&format!("SELECT {OF_STORE}, generation, {mark} FROM {schema}store {join} LIMIT 2"))?;
        let edit = StoreEdit { part: EditedPart::Root, kind: EditKind::Changed };
        let changes = row.integer(1).map_err(|error| if has_tree { StoreError::Edited(edit) } else { error })?;
        // A store's state has one MAC: what it authenticates shows in it, whatever else is written in the database.
        let mark = match has_tree {
            true => {
                let root = StoreTree::verified_root(&row, 2, &open.tree, changes)?;
                let found = Some(root.sighting(changes, open.epoch));
                self.seen.admit(newest, found)?;
                self.seen.note(found);
                self.save_seen();
                root.mark()
            }
            false => row.integer(2)?.cast_unsigned(),
        };
        Ok(Generation { replacements, changes: changes.cast_unsigned(), mark })
    }

    /// The generation, under a root that may have been replaced.
    fn generation_of_any_root(&self) -> Result<Generation, StoreError> {
        match self.generation_under(&self.open_root()) {
            Err(StoreError::Edited(_)) => {}
            // Another process may have migrated the store, which has its generation elsewhere then.
            Err(StoreError::Storage(_)) if self.is_without_slots() => {}
            other => return other,
        }
        match self.read(|_| Ok(())) {
            Err(StoreError::RootReplaced) => self.unlock_again()?,
            other => other?,
        }
        self.generation_under(&self.open_root())
    }

    /// All rows of the store, as of one moment.
    pub(crate) fn content(&self) -> Result<copy::StoreContent, StoreError> {
        self.backend.read(copy::StoreContent::read)
    }

    /// A panic in another call leaves a generator as good as any.
    pub(crate) fn rng(&self) -> MutexGuard<'_, Box<dyn CryptoRng + Send>> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_unix_s()
    }
}

impl<B: SqlBackend> Keystore for SqlKeystore<B> {
    fn generation(&self) -> Result<Generation, StoreError> {
        let found = self.generation_of_any_root();
        self.is_sealed.store(matches!(found, Err(StoreError::RootReplaced)), Ordering::Release);
        found
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Acquire)
    }

    fn sealed_slots(&self) -> Result<Option<Vec<SlotSummary>>, StoreError> {
        match self.generation() {
            Err(StoreError::RootReplaced) => Ok(Some(self.backend.read(schema::identify)?.slot_summaries())),
            other => other.map(|_| None),
        }
    }

    fn unseal(&self, provider: Box<dyn SlotProvider>) -> Result<(), StoreError> {
        match self.generation() {
            Err(StoreError::RootReplaced) => self.unlock_with(&[provider])?,
            other => return other.map(drop),
        }
        self.generation().map(drop)
    }

    fn on_change(&self, hint: Box<dyn Fn() + Send + Sync>) {
        self.backend.on_change(hint);
    }

    fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    fn create_app(&self, app: &AppName, keys: NewKeys) -> Result<AppSummary, StoreError> {
        self.change(|session| self.insert_app(session, app, keys))
    }

    fn add_version(&self, app: &AppName, keys: NewKeys) -> Result<VersionSummary, StoreError> {
        self.change(|session| self.append_version(session, app, keys))
    }

    fn import_escrow(&self, app: &AppName, import: EscrowImport) -> Result<EscrowImported, StoreError> {
        self.change(|session| self.insert_escrowed(session, app, import))
    }

    fn list_apps(&self) -> Result<Vec<AppSummary>, StoreError> {
        self.read(apps::summaries)
    }

    fn app_summary(&self, app: &AppName) -> Result<Option<AppSummary>, StoreError> {
        self.read(|session| apps::find(session, app)?.map(|row| apps::summary(session, row)).transpose())
    }

    fn load_app(&self, app: &AppName) -> Result<Option<AppKeys>, StoreError> {
        let (open, found) = self.read_open(|session| {
            let Some(row) = apps::find(session, app)? else {
                return Ok(None);
            };
            // A disabled version is for nothing: its keys stay wrapped.
            Ok(Some((row, apps::versions(session, app, VersionSelection::Active)?)))
        })?;
        // The keys are opened outside the transaction: it takes some 100 µs a version.
        found.map(|(row, versions)| self.open_app(&open, row, &versions)).transpose()
    }

    fn disable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.change(|session| apps::set_state(session, app, EnabledState::Disabled))
    }

    fn enable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.change(|session| {
            life::refuse_pending(session, app)?;
            apps::set_state(session, app, EnabledState::Enabled)
        })
    }

    fn disable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        self.change(|session| {
            if session.version_numbers(app.as_str(), VersionSelection::Active)? == [version] {
                let app = app.clone();
                return Err(StoreError::LastActiveVersion { app, version });
            }
            apps::set_version_state(session, app, version, KeyState::Disabled)
        })
    }

    fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> Result<(), StoreError> {
        self.change(|session| versions.iter().try_for_each(|version| apps::trim(session, app, *version)))
    }

    fn enable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        let (open, row) = self.read_open(|session| apps::version(session, app, version))?;
        if row.is_trimmed() {
            let app = app.clone();
            return Err(StoreError::TrimmedVersion { app, version });
        }
        // Outside the transaction, as for an app: what was wrapped never changes.
        self.open_version(&open, app, &row)?;
        self.change(|session| apps::set_version_state(session, app, version, KeyState::Active))
    }

    fn set_accepted(&self, app: &AppName, accept: AcceptedSchemes) -> Result<(), StoreError> {
        self.change(|session| apps::set_accepted(session, app, accept))
    }

    fn put_client(&self, client: &NewClient) -> Result<ClientGrant, StoreError> {
        self.change(|session| clients::put(session, client, self.now(), &self.limits))
    }

    fn renew_client(
        &self,
        client: &ClientName,
        certificate_sha256: [u8; 32],
        old_until: u64,
    ) -> Result<ClientGrant, StoreError> {
        self.change(|session| clients::renew(session, client, certificate_sha256, old_until, self.now()))
    }

    fn client(&self, client: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
        self.read(|session| clients::find(session, client))
    }

    fn list_clients(&self) -> Result<Vec<ClientGrant>, StoreError> {
        self.read(clients::all)
    }

    fn disable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.change(|session| clients::set_state(session, client, EnabledState::Disabled))
    }

    fn enable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.change(|session| clients::set_state(session, client, EnabledState::Enabled))
    }

    fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, StoreError> {
        let id = ApiKeyId::random(self.rng().as_mut());
        self.change(|session| api_keys::insert(session, id, key, self.now(), &self.limits))
    }

    fn api_key(&self, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.read(|session| api_keys::find(session, id))
    }

    fn list_api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.read(api_keys::all)
    }

    fn revoke_api_key(&self, id: &ApiKeyId) -> Result<(), StoreError> {
        self.change(|session| api_keys::revoke(session, id, self.now()))
    }

    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
        let id = self.id;
        match self.read(|session| api_keys::token_secret(session, id))? {
            Some(secret) => Ok(secret),
            // The generator is locked after the database, as everywhere.
            None => self.change(|session| api_keys::token_secret_or_new(session, id, self.rng().as_mut())),
        }
    }

    fn plan_migration(&self) -> Result<Migration, StoreError> {
        SqlKeystore::plan_migration(self)
    }

    fn migrate(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<Migration, StoreError> {
        self.migrate_now(progress)
    }

    fn slots(&self) -> Result<Vec<SlotSummary>, StoreError> {
        self.read(rotation::all)
    }

    fn make_slot(&self, provider: &dyn SlotProvider) -> Result<MadeSlot, StoreError> {
        self.new_slot(provider)
    }

    fn put_slot(&self, slot: &MadeSlot, instead_of: Option<&SlotId>) -> Result<(), StoreError> {
        self.put_slot_now(slot, instead_of)
    }

    fn remove_slot(&self, slot: &SlotId, remaining: RemainingSlots<'_>) -> Result<(), StoreError> {
        self.remove_slot_now(slot, remaining)
    }

    fn rotate_root(
        &self,
        link: Option<Duration>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<RootRotation, StoreError> {
        self.rotate_root_now(link, progress)
    }

    fn remove_ended_root_links(&self) -> Result<(), StoreError> {
        self.remove_ended_links()
    }

    fn remove_root_links(&self) -> Result<(), StoreError> {
        self.change(rotation::remove_links)
    }

    fn life(&self) -> Option<&dyn KeyLife> {
        Some(self)
    }

    fn check(&self) -> Result<CheckReport, StoreError> {
        self.backend.read(|sql| self.check_all(sql))
    }

    fn remember(&self, folder: &Path) -> Result<(), StoreError> {
        self.remember_in(folder)
    }

    fn expect_store(&self, id: &StoreId) -> Result<(), StoreError> {
        self.expect_id(id)
    }

    fn accept_store(&self, id: &StoreId, folder: &Path) -> Result<(), StoreError> {
        self.accept_id(id, folder)
    }

    fn memory(&self) -> MemoryStatus {
        self.memory_status()
    }

    fn sighting(&self, challenge: &str) -> Option<String> {
        self.seen_line(challenge)
    }

    fn record_key(&self, signer: &str, epoch: Option<u32>) -> Result<Option<RecordKey>, StoreError> {
        self.read(|session| descent::record_key(session, signer, epoch))
    }

    fn learn(&self, answer: &PeerSighting) -> Result<(), StoreError> {
        self.learn_answer(answer)
    }

    fn accept_generation(&self, generation: u64, folder: Option<&Path>) -> Result<u64, StoreError> {
        self.accept_state(generation, folder)
    }

    fn scan(&self, scan: &mut StoreScan) -> Result<ScanStep, StoreError> {
        self.scan_step(scan)
    }
}
