//! A store that is opened while its program runs already: by what a person brings, or by what is there without one, which is tried again
//! in the background, since services come back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leafseal_crypto::Secret;

use crate::slots::{MadeSlot, RemainingSlots, SlotId, SlotProvider, SlotSummary};
use crate::store_id::StoreId;
use crate::{
    AcceptedSchemes, ApiKey, ApiKeyId, AppKeys, AppName, AppPublicKeys, AppSummary, CheckReport, ClientGrant,
    ClientName, EscrowImport, EscrowImported, Generation, KeyLife, Keystore, LogFrames, MemoryFault, MemoryStatus,
    Migration, NewApiKey, NewClient, NewKeys, PeerSighting, RecordKey, RootRotation, ScanStep, StoreCanaries,
    StoreError, StoreHistory, StoreScan, TOKEN_SECRET_SIZE, VersionSummary,
};

/// Opens a store with what is given.
pub type StoreOpener = Box<dyn Fn(Vec<Box<dyn SlotProvider>>) -> Result<Box<dyn Keystore>, StoreError> + Send + Sync>;

/// What may open a store without a person, read again for each attempt: files and settings of this machine.
pub type AutomaticProviders = Box<dyn Fn() -> Result<Vec<Box<dyn SlotProvider>>, StoreError> + Send + Sync>;

/// Engines whose answers are kept until the store opens.
const ANSWERS_MAX: usize = 1024;

type ChangeHint = Box<dyn Fn() + Send + Sync>;

/// How long to wait between attempts without a person; each pause is twice the one before.
#[derive(Debug, Clone, Copy)]
pub struct ReopenPauses {
    /// The first.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for ReopenPauses {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

/// A [`Keystore`] that answers every call with [`StoreError::Unopened`] until it is open: by [`Keystore::unseal`], or by itself.
pub struct LateKeystore {
    store: Arc<LateStore>,
    /// Dropped with the store, which ends the attempts.
    _stop: Sender<()>,
}

struct LateStore {
    opened: OnceLock<Box<dyn Keystore>>,
    opener: StoreOpener,
    automatic: AutomaticProviders,
    is_shared: bool,
    /// What other engines have seen, by who they are: compared before the store is open.
    answers: Mutex<BTreeMap<String, PeerSighting>>,
    /// Callbacks for changes, registered when the store opens.
    hints: Mutex<Vec<ChangeHint>>,
}

impl LateKeystore {
    /// A store that `opener` opens with what a person brings and with `automatic` providers, which alone are tried in the background, on
    /// a thread of its own: a service may take its time. `is_shared`: what [`Keystore::is_shared`] will be.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(
        opener: StoreOpener,
        automatic: AutomaticProviders,
        pauses: ReopenPauses,
        is_shared: bool,
    ) -> std::io::Result<Self> {
        let (answers, hints) = (Mutex::default(), Mutex::default());
        let store = LateStore { opened: OnceLock::new(), opener, automatic, is_shared, answers, hints };
        let (store, (stop, stopped)) = (Arc::new(store), channel());
        let late = Arc::clone(&store);
        let thread = std::thread::Builder::new().name("leafseal-reopen".to_owned());
        thread.spawn(move || late.open_when_possible(pauses, &stopped))?;
        Ok(Self { store, _stop: stop })
    }

    fn opened(&self) -> Result<&dyn Keystore, StoreError> {
        self.store.opened.get().map(AsRef::as_ref).ok_or(StoreError::Unopened)
    }
}

impl LateStore {
    fn open_when_possible(&self, pauses: ReopenPauses, stopped: &Receiver<()>) {
        let mut pause = pauses.first;
        while stopped.recv_timeout(pause.min(pauses.longest)) == Err(RecvTimeoutError::Timeout)
            && self.opened.get().is_none()
        {
            match (self.automatic)() {
                // What is there without a person is nothing: an attempt would only read the store.
                Ok(providers) if providers.is_empty() => {}
                Ok(providers) => drop((self.opener)(providers).and_then(|store| self.install(store))),
                // It is reported when the program starts; the file may be replaced.
                Err(_) => {}
            }
            pause = (pause * 2).min(pauses.longest);
        }
    }

    /// Uses a store that was opened, unless another was before it, or it is not what other engines have seen.
    fn install(&self, store: Box<dyn Keystore>) -> Result<(), StoreError> {
        let (mut hints, mut answers) = (self.lock_hints(), self.lock_answers());
        for answer in answers.values() {
            match store.learn(answer) {
                // Nothing that an engine of this store has said.
                Err(StoreError::Sighting { fault: MemoryFault::Foreign, .. }) => {}
                other => other?,
            }
        }
        if !answers.is_empty() {
            store.generation()?;
            answers.clear();
        }
        let store = self.opened.get_or_init(|| store);
        drop(answers);
        for hint in hints.drain(..) {
            hint();
            store.on_change(hint);
        }
        Ok(())
    }

    fn lock_answers(&self) -> MutexGuard<'_, BTreeMap<String, PeerSighting>> {
        // Each is replaced as a whole.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A callback that panicked leaves a list as good as any.
    fn lock_hints(&self) -> MutexGuard<'_, Vec<ChangeHint>> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls of the store behind it.
macro_rules! delegate {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {$(
        fn $name(&self $(, $argument: $type)*) -> Result<$result, StoreError> {
            self.opened()?.$name($($argument),*)
        }
    )+};
}

impl Keystore for LateKeystore {
    fn on_change(&self, hint: ChangeHint) {
        let mut hints = self.store.lock_hints();
        match self.store.opened.get() {
            Some(store) => store.on_change(hint),
            None => hints.push(hint),
        }
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared
    }

    fn life(&self) -> Option<&dyn KeyLife> {
        self.store.opened.get().and_then(|store| store.life())
    }

    fn canaries(&self) -> Option<&dyn StoreCanaries> {
        self.store.opened.get().and_then(|store| store.canaries())
    }

    fn history(&self) -> Option<&dyn StoreHistory> {
        self.store.opened.get().and_then(|store| store.history())
    }

    fn memory(&self) -> MemoryStatus {
        self.store.opened.get().map_or_else(MemoryStatus::default, |store| store.memory())
    }

    fn sighting(&self, challenge: &str) -> Option<String> {
        self.store.opened.get().and_then(|store| store.sighting(challenge))
    }

    fn learn(&self, answer: &PeerSighting) -> Result<(), StoreError> {
        // Before it is looked whether the store is open: one that opens meanwhile takes what is here.
        let mut answers = self.store.lock_answers();
        match self.store.opened.get() {
            Some(store) => store.learn(answer),
            None => {
                if answers.len() < ANSWERS_MAX || answers.contains_key(&answer.peer) {
                    answers.insert(answer.peer.clone(), answer.clone());
                }
                Ok(())
            }
        }
    }

    fn is_sealed(&self) -> bool {
        self.store.opened.get().is_none_or(|store| store.is_sealed())
    }

    fn sealed_slots(&self) -> Result<Option<Vec<SlotSummary>>, StoreError> {
        if let Some(store) = self.store.opened.get() {
            return store.sealed_slots();
        }
        match (self.store.opener)(Vec::new()) {
            Err(StoreError::Sealed { slots, .. }) => Ok(Some(slots)),
            other => other.map(|_| Some(Vec::new())),
        }
    }

    fn unseal(&self, provider: Box<dyn SlotProvider>) -> Result<(), StoreError> {
        if let Some(store) = self.store.opened.get() {
            return store.unseal(provider);
        }
        // The person's first, so that no service is waited for. The others stay with the store: it asks them if its root is replaced.
        let mut providers = vec![provider];
        providers.extend((self.store.automatic)().unwrap_or_default());
        self.store.install((self.store.opener)(providers)?)?;
        Ok(())
    }

    delegate! {
        fn generation(&self) -> Generation;
        fn create_app(&self, app: &AppName, keys: NewKeys) -> AppSummary;
        fn add_version(&self, app: &AppName, keys: NewKeys) -> VersionSummary;
        fn import_escrow(&self, app: &AppName, import: EscrowImport) -> EscrowImported;
        fn list_apps(&self) -> Vec<AppSummary>;
        fn app_summary(&self, app: &AppName) -> Option<AppSummary>;
        fn load_app(&self, app: &AppName) -> Option<AppKeys>;
        fn public_keys(&self, app: &AppName) -> Option<AppPublicKeys>;
        fn disable_app(&self, app: &AppName) -> ();
        fn enable_app(&self, app: &AppName) -> ();
        fn disable_version(&self, app: &AppName, version: u32) -> ();
        fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> ();
        fn enable_version(&self, app: &AppName, version: u32) -> ();
        fn set_accepted(&self, app: &AppName, accept: AcceptedSchemes) -> ();
        fn put_client(&self, client: &NewClient) -> ClientGrant;
        fn renew_client(&self, client: &ClientName, certificate_sha256: [u8; 32], old_until: u64) -> ClientGrant;
        fn client(&self, client: &ClientName) -> Option<ClientGrant>;
        fn list_clients(&self) -> Vec<ClientGrant>;
        fn disable_client(&self, client: &ClientName) -> ();
        fn enable_client(&self, client: &ClientName) -> ();
        fn create_api_key(&self, key: &NewApiKey) -> ApiKey;
        fn api_key(&self, id: &ApiKeyId) -> Option<ApiKey>;
        fn list_api_keys(&self) -> Vec<ApiKey>;
        fn revoke_api_key(&self, id: &ApiKeyId) -> ();
        fn token_secret(&self) -> Secret<TOKEN_SECRET_SIZE>;
        fn plan_migration(&self) -> Migration;
        fn migrate(&self, progress: &mut dyn FnMut(usize, usize)) -> Migration;
        fn log_frames(&self, origin: &str) -> Option<Box<dyn LogFrames>>;
        fn record_key(&self, signer: &str, epoch: Option<u32>) -> Option<RecordKey>;
        fn slots(&self) -> Vec<SlotSummary>;
        fn make_slot(&self, provider: &dyn SlotProvider) -> MadeSlot;
        fn put_slot(&self, slot: &MadeSlot, instead_of: Option<&SlotId>) -> ();
        fn remove_slot(&self, slot: &SlotId, remaining: RemainingSlots<'_>) -> ();
        fn rotate_root(&self, link: Option<Duration>, progress: &mut dyn FnMut(usize, usize)) -> RootRotation;
        fn remove_ended_root_links(&self) -> ();
        fn remove_root_links(&self) -> ();
        fn check(&self) -> CheckReport;
        fn remember(&self, folder: &Path) -> ();
        fn expect_store(&self, id: &StoreId) -> ();
        fn accept_store(&self, id: &StoreId, folder: &Path) -> ();
        fn accept_generation(&self, generation: u64, folder: Option<&Path>) -> u64;
        fn scan(&self, scan: &mut StoreScan) -> ScanStep;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, LocalRootKey, OpenMode, Passphrase, SqliteKeystore, StoreLimits, system_clock};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const PAUSES: ReopenPauses = ReopenPauses { first: Duration::from_millis(1), longest: Duration::from_millis(4) };
    const TEXT: &str = "correct horse battery staple";

    struct Place(tempfile::TempDir, LocalRootKey);

    impl Place {
        /// A store with slots for a root key and a passphrase.
        fn new() -> Self {
            let root_key = LocalRootKey::generate(&mut leafseal_crypto::random::system_random());
            let place = Self(tempfile::tempdir().expect("folder"), root_key);
            let store = place.open(OpenMode::CreateIfMissing, vec![Box::new(place.1.clone())]).expect("made");
            let cost = crate::Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
            let slot = Passphrase::new(TEXT).and_then(|text| text.with_cost(cost)).expect("in bounds");
            let made = store.make_slot(&slot).expect("made");
            store.put_slot(&made, None).expect("stored");
            place
        }

        fn open(&self, mode: OpenMode, providers: Vec<Box<dyn SlotProvider>>) -> Result<Box<dyn Keystore>, StoreError> {
            open(self.0.path(), mode, providers)
        }

        fn late(&self, automatic: AutomaticProviders) -> LateKeystore {
            let path = self.0.path().to_owned();
            let opener = move |providers| open(&path, OpenMode::Existing, providers);
            LateKeystore::start(Box::new(opener), automatic, PAUSES, false).expect("started")
        }
    }

    fn open(
        folder: &Path,
        mode: OpenMode,
        providers: Vec<Box<dyn SlotProvider>>,
    ) -> Result<Box<dyn Keystore>, StoreError> {
        let (clock, rng) = (Box::new(system_clock), Box::new(leafseal_crypto::random::system_random()));
        let environment = Environment { providers, clock, rng, author: crate::ChangeAuthor::default() };
        Ok(Box::new(SqliteKeystore::open(&folder.join("store.db"), mode, environment, StoreLimits::default())?))
    }

    #[test]
    fn it_opens_by_itself_once_what_opens_it_is_back_and_calls_back() {
        let place = Place::new();
        let (tries, key) = (Arc::new(AtomicUsize::new(0)), place.1.clone());
        let counted = Arc::clone(&tries);
        let late = place.late(Box::new(move || {
            let is_back = counted.fetch_add(1, Ordering::SeqCst) >= 3;
            let key = if is_back {
                key.clone()
            } else {
                LocalRootKey::generate(&mut leafseal_crypto::random::system_random())
            };
            Ok(vec![Box::new(key) as Box<dyn SlotProvider>])
        }));
        let (opened, is_open) = channel();
        late.on_change(Box::new(move || {
            let _ = opened.send(());
        }));
        is_open.recv_timeout(Duration::from_secs(60)).expect("it opens");
        assert!(!late.is_sealed());
        late.generation().expect("open");
        assert_eq!(tries.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn a_person_opens_it_and_automatic_providers_stay_for_the_next_root() {
        let place = Place::new();
        let key = place.1.clone();
        let is_back = Arc::new(AtomicUsize::new(0));
        let back = Arc::clone(&is_back);
        let late = place.late(Box::new(move || {
            // As a service that is down: what it is asked for fails until it is back.
            let is_back = back.load(Ordering::SeqCst) > 0;
            Ok(if is_back { vec![Box::new(key.clone()) as Box<dyn SlotProvider>] } else { Vec::new() })
        }));
        assert!(matches!(late.generation(), Err(StoreError::Unopened)));
        assert_eq!(late.sealed_slots().expect("read").expect("sealed").len(), 2);
        let wrong = Passphrase::new("incorrect horse battery staple").expect("in bounds");
        assert!(matches!(late.unseal(Box::new(wrong)), Err(StoreError::Sealed { .. })));
        is_back.store(1, Ordering::SeqCst);
        late.unseal(Box::new(Passphrase::new(TEXT).expect("in bounds"))).expect("opened");
        let other = place.open(OpenMode::Existing, vec![Box::new(place.1.clone())]).expect("opened");
        other.rotate_root(None, &mut |_, _| ()).expect("rotated");
        late.generation().expect("it asks the automatic provider");
    }
}
