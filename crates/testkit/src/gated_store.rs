//! A store whose reads can be held up, as by a database that hangs, and that counts them and the threads that made them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use leafseal_engine::admin::{
    AcceptedSchemes, ApiKey, ApiKeyId, AppKeys, AppName, AppSummary, CheckReport, ClientGrant, ClientName,
    EscrowImport, EscrowImported, Generation, Keystore, LogFrames, MemoryStatus, Migration, NewApiKey, NewClient,
    NewKeys, PeerSighting, RecordKey, ScanStep, Secret, StoreCanaries, StoreError, StoreHistory, StoreId, StoreScan,
    TOKEN_SECRET_SIZE, VersionSummary,
};

type Holds = Box<dyn Fn(&str) -> bool + Send>;

#[derive(Default)]
struct GateState {
    /// Which names are held up; `None`: none.
    holds: Option<Holds>,
    /// Reads by name.
    reads: BTreeMap<String, usize>,
    /// Names in the order in which their reads began.
    order: Vec<String>,
    /// Names of the threads that have read.
    threads: BTreeSet<String>,
    /// Reads that are held up now.
    held: usize,
}

/// Controls a [`GatedStore`], also while an engine owns it.
#[derive(Clone, Default)]
pub struct Gate {
    state: Arc<Mutex<GateState>>,
    opened: Arc<Condvar>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds up reads of the names for which `holds` returns true, until [`Gate::open`]. The name of a generation is empty, that of the
    /// list of an app's versions `summary of APP`.
    pub fn close_for(&self, holds: impl Fn(&str) -> bool + Send + 'static) {
        self.lock().holds = Some(Box::new(holds));
        self.opened.notify_all();
    }

    /// Lets all reads pass.
    pub fn open(&self) {
        self.lock().holds = None;
        self.opened.notify_all();
    }

    /// The number of reads of a name: an app, a client, the id of an API key.
    pub fn reads(&self, name: &str) -> usize {
        self.lock().reads.get(name).copied().unwrap_or_default()
    }

    /// The names that were read, in the order in which the reads began.
    pub fn order(&self) -> Vec<String> {
        self.lock().order.clone()
    }

    /// The number of reads that are held up now.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    /// The names of the threads that have read anything since the last call.
    pub fn take_threads(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().threads)
    }

    fn pass(&self, name: &str) {
        let mut state = self.lock();
        *state.reads.entry(name.to_owned()).or_default() += 1;
        state.order.push(name.to_owned());
        state.threads.insert(std::thread::current().name().unwrap_or_default().to_owned());
        state.held += 1;
        while state.holds.as_ref().is_some_and(|holds| holds(name)) {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.held -= 1;
    }
}

/// A store behind a [`Gate`]. Changes pass at once.
pub struct GatedStore {
    store: Box<dyn Keystore>,
    gate: Gate,
}

impl GatedStore {
    /// Puts `store` behind a gate, which is open.
    pub fn new(store: Box<dyn Keystore>) -> (Self, Gate) {
        let gate = Gate::default();
        (Self { store, gate: gate.clone() }, gate)
    }
}

impl Keystore for GatedStore {
    fn generation(&self) -> Result<Generation, StoreError> {
        self.gate.pass("");
        self.store.generation()
    }

    fn create_app(&self, app: &AppName, keys: NewKeys) -> Result<AppSummary, StoreError> {
        self.store.create_app(app, keys)
    }

    fn add_version(&self, app: &AppName, keys: NewKeys) -> Result<VersionSummary, StoreError> {
        self.store.add_version(app, keys)
    }

    fn import_escrow(&self, app: &AppName, import: EscrowImport) -> Result<EscrowImported, StoreError> {
        self.store.import_escrow(app, import)
    }

    fn list_apps(&self) -> Result<Vec<AppSummary>, StoreError> {
        self.store.list_apps()
    }

    fn app_summary(&self, app: &AppName) -> Result<Option<AppSummary>, StoreError> {
        self.gate.pass(&format!("summary of {app}"));
        self.store.app_summary(app)
    }

    fn load_app(&self, app: &AppName) -> Result<Option<AppKeys>, StoreError> {
        self.gate.pass(app.as_str());
        self.store.load_app(app)
    }

    fn disable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.store.disable_app(app)
    }

    fn enable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.store.enable_app(app)
    }

    fn disable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        self.store.disable_version(app, version)
    }

    fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> Result<(), StoreError> {
        self.store.trim_versions(app, versions)
    }

    fn enable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        self.store.enable_version(app, version)
    }

    fn set_accepted(&self, app: &AppName, accept: AcceptedSchemes) -> Result<(), StoreError> {
        self.store.set_accepted(app, accept)
    }

    fn put_client(&self, client: &NewClient) -> Result<ClientGrant, StoreError> {
        self.store.put_client(client)
    }

    fn renew_client(&self, client: &ClientName, sha256: [u8; 32], old_until: u64) -> Result<ClientGrant, StoreError> {
        self.store.renew_client(client, sha256, old_until)
    }

    fn client(&self, client: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
        self.gate.pass(client.as_str());
        self.store.client(client)
    }

    fn list_clients(&self) -> Result<Vec<ClientGrant>, StoreError> {
        self.store.list_clients()
    }

    fn disable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.store.disable_client(client)
    }

    fn enable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.store.enable_client(client)
    }

    fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, StoreError> {
        self.store.create_api_key(key)
    }

    fn api_key(&self, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.gate.pass(id.as_str());
        self.store.api_key(id)
    }

    fn list_api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.store.list_api_keys()
    }

    fn revoke_api_key(&self, id: &ApiKeyId) -> Result<(), StoreError> {
        self.store.revoke_api_key(id)
    }

    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
        self.gate.pass("token secret");
        self.store.token_secret()
    }

    fn canaries(&self) -> Option<&dyn StoreCanaries> {
        self.store.canaries()
    }

    fn history(&self) -> Option<&dyn StoreHistory> {
        self.store.history()
    }

    fn plan_migration(&self) -> Result<Migration, StoreError> {
        self.store.plan_migration()
    }

    fn migrate(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<Migration, StoreError> {
        self.store.migrate(progress)
    }

    fn check(&self) -> Result<CheckReport, StoreError> {
        self.store.check()
    }

    fn remember(&self, folder: &Path) -> Result<(), StoreError> {
        self.store.remember(folder)
    }

    fn memory(&self) -> MemoryStatus {
        self.store.memory()
    }

    fn sighting(&self, challenge: &str) -> Option<String> {
        self.store.sighting(challenge)
    }

    fn log_frames(&self, origin: &str) -> Result<Option<Box<dyn LogFrames>>, StoreError> {
        self.store.log_frames(origin)
    }

    fn record_key(&self, signer: &str, epoch: Option<u32>) -> Result<Option<RecordKey>, StoreError> {
        self.store.record_key(signer, epoch)
    }

    fn learn(&self, answer: &PeerSighting) -> Result<(), StoreError> {
        self.store.learn(answer)
    }

    fn expect_store(&self, id: &StoreId) -> Result<(), StoreError> {
        self.store.expect_store(id)
    }

    fn accept_store(&self, id: &StoreId, folder: &Path) -> Result<(), StoreError> {
        self.store.accept_store(id, folder)
    }

    fn accept_generation(&self, generation: u64, folder: Option<&Path>) -> Result<u64, StoreError> {
        self.store.accept_generation(generation, folder)
    }

    fn scan(&self, scan: &mut StoreScan) -> Result<ScanStep, StoreError> {
        self.store.scan(scan)
    }
}
