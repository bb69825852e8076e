//! The engine: the state shared by all requests, and the entry points of requests.

mod accounting;
mod callers;
pub(crate) mod permit;
mod records;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use leafseal_crypto::random::{fresh_random, system_random};
use leafseal_crypto::symmetric::SymmetricKeyId;
use leafseal_crypto::{EcContext, PublicKey, Recipient, prepare_tables};
use leafseal_document::{Selection, SelectionBuilder};
use leafseal_envelope::{Profile, SealingKey};
use leafseal_errors::{DecisionObserver, EntryPoint, Observers, RequestOrigin};
use leafseal_keystore::{
    AppName, AppPublicKeys, Keystore, MemoryFault, PeerSighting, SlotProvider, SlotSummary, StoreError,
};

use crate::account::RequestAccount;
use crate::app::{App, PublicApps, public_apps};
use crate::apps::{Directory, TokenSecret};
use crate::clock::{EngineClock, SystemClock};
use crate::counters::{EngineCounters, ValueCounts, ValueTotals};
use crate::error::{Error, ErrorCode};
use crate::gatherer::Gatherer;
use crate::lookups::{Bounds, LookupRun, Standing};
use crate::no_store::NoStore;
use crate::opening::OpeningWork;
use crate::opening_cache::OpeningCache;
use crate::peer_fault::PeerFault;
use crate::permissions::Caller;
use crate::recipients::Recipients;
use crate::scan::{ScanNews, ScanRate, StoreScanner};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::spares::Spares;
use crate::upkeep::{StoreUpkeep, UpkeepNews, UpkeepRules};

/// The engine's interface. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<EngineShared>,
    /// Where the requests of this handle come from.
    origin: RequestOrigin,
    /// The account of the one request of this handle, if it has one.
    account: Option<Arc<RequestAccount>>,
}

struct EngineShared {
    directory: Directory,
    sessions: Sessions,
    spares: Spares,
    openings: OpeningCache,
    recipients: Recipients,
    settings: Settings,
    clock: Box<dyn EngineClock>,
    blinding: RwLock<Blinding>,
    opening_work: Arc<OpeningWork>,
    gatherer: Gatherer,
    epoch: AtomicU64,
    store: StoreWatch,
    scanner: StoreScanner,
    upkeep: StoreUpkeep,
    observers: Observers,
    sealed: ValueTotals,
    opened: ValueTotals,
    canaries: AtomicU64,
}

/// The last known state of the store, for non-blocking queries.
struct StoreWatch {
    /// Whether it has not responded for too long.
    is_silent: AtomicBool,
    /// When it last responded, in milliseconds of the clock.
    answered_ms: AtomicU64,
}

/// How much longer than `store_silence_max` cached grants and keys stay in use while a call of [`Engine::maintain`] hangs, because the
/// store does not even return an error.
const STORE_HANG_MAX: Duration = Duration::from_secs(10);

struct Blinding {
    context: Arc<EcContext>,
    born: Duration,
}

impl Engine {
    /// Creates an engine over `store`.
    pub fn new(store: Box<dyn Keystore>, settings: Settings) -> Self {
        Self::with_clock(store, settings, Box::new(SystemClock::default()))
    }

    /// Creates an engine that encrypts for these apps and does nothing else: it has no store and no secret. Their keys do not change.
    pub fn of_public_keys(apps: impl IntoIterator<Item = (AppName, AppPublicKeys)>, settings: Settings) -> Self {
        Self::with(Box::new(NoStore), public_apps(apps), settings, Box::new(SystemClock::default()))
    }

    /// As [`Engine::new`], with another clock.
    pub fn with_clock(store: Box<dyn Keystore>, settings: Settings, clock: Box<dyn EngineClock>) -> Self {
        Self::with(store, PublicApps::new(), settings, clock)
    }

    fn with(store: Box<dyn Keystore>, public: PublicApps, settings: Settings, clock: Box<dyn EngineClock>) -> Self {
        let blinding = Blinding { context: Arc::new(EcContext::new(&mut system_random())), born: clock.monotonic() };
        let store_watch = StoreWatch {
            is_silent: AtomicBool::new(false),
            answered_ms: AtomicU64::new(milliseconds(clock.monotonic())),
        };
        let scanner = StoreScanner::new(clock.monotonic());
        let openings = OpeningCache::new(settings.opening_keys_max, settings.opening_key_age_max);
        let recipients = Recipients::new(settings.recipients_max);
        let shared = EngineShared {
            directory: Directory::new(store, public, settings.key_version_delay, bounds(&settings), clock.monotonic()),
            sessions: Sessions::default(),
            spares: Spares::default(),
            sealed: ValueTotals::default(),
            opened: ValueTotals::default(),
            canaries: AtomicU64::new(0),
            openings,
            recipients,
            settings,
            clock,
            blinding: RwLock::new(blinding),
            opening_work: Arc::default(),
            gatherer: Gatherer::default(),
            epoch: AtomicU64::default(),
            store: store_watch,
            scanner,
            upkeep: StoreUpkeep::default(),
            observers: Observers::default(),
        };
        Self { shared: Arc::new(shared), origin: RequestOrigin::of(EntryPoint::Library), account: None }
    }

    /// The store, for its owner, on a thread that may wait. Requests never use it: on a server they read it through look-ups
    /// ([`Engine::begin_lookups`]).
    pub fn store(&self) -> &dyn Keystore {
        self.shared.directory.store()
    }

    /// Whether a person must open the store ([`Engine::unseal`]). Never blocks.
    pub fn is_sealed(&self) -> bool {
        self.store().is_sealed()
    }

    /// The slots of a store that a person must open, on a thread that may wait; `None` if it is open.
    ///
    /// # Errors
    /// As [`Keystore::sealed_slots`].
    pub fn sealed_slots(&self) -> Result<Option<Vec<SlotSummary>>, StoreError> {
        self.store().sealed_slots()
    }

    /// Opens a sealed store, on a thread that may wait.
    ///
    /// # Errors
    /// As [`Keystore::unseal`].
    pub fn unseal(&self, provider: Box<dyn SlotProvider>) -> Result<(), StoreError> {
        self.store().unseal(provider)
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Computes what all recipients' tables share, which takes some milliseconds: servers call it at the start, so that no request waits
    /// for it.
    pub fn prepare(&self) {
        if self.settings().recipients_max > 0 {
            prepare_tables();
        }
    }

    /// Call it about once a second: detects changes of the store, drops expired keys, renews the blinding.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`] if the store does not respond; cached keys and grants stay in use until that has lasted for
    /// `store_silence_max`.
    pub fn maintain(&self) -> Result<(), Error> {
        let now = self.now();
        self.shared.sessions.expire(now, self.settings().session_age_max);
        self.shared.spares.expire(now, self.settings().spare_key_age_max);
        self.shared.openings.expire(now);
        self.shared.gatherer.expire();
        self.reblind(now);
        let answered = self.shared.directory.refresh(&*self.shared.clock);
        let forgets = match &answered {
            Ok(changed) => *changed,
            // Grants that cannot be refreshed any more are not trusted forever.
            Err(_) => self.shared.directory.silence(self.now()) >= self.settings().store_silence_max,
        };
        if forgets {
            self.forget();
        }
        self.shared.directory.lookups().expire(self.now(), answered.is_ok());
        // Only now: a request that finds the store responding must not find keys from before.
        self.note_answer(now, answered.is_ok(), forgets);
        answered.map(drop)
    }

    fn note_answer(&self, now: Duration, is_answer: bool, forgets: bool) {
        let store = &self.shared.store;
        store.is_silent.store(!is_answer && forgets, Ordering::Relaxed);
        if is_answer {
            store.answered_ms.store(milliseconds(now), Ordering::Relaxed);
        }
    }

    /// Checks that the store is open and responds, or has not responded for no longer than `store_silence_max`. Never blocks.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`].
    pub fn readiness(&self) -> Result<(), Error> {
        if self.is_sealed() {
            return Err(Error::sealed_store());
        }
        if self.shared.store.is_silent.load(Ordering::Relaxed) {
            return Err(Error::silent_store());
        }
        self.check_store_hang()
    }

    /// Checks that [`Engine::maintain`] has not been waiting for the store for longer than `store_silence_max`, and so has not cleared the
    /// caches.
    pub(crate) fn check_store_hang(&self) -> Result<(), Error> {
        let hangs = self.store_silence() >= self.settings().store_silence_max.saturating_add(STORE_HANG_MAX);
        match (hangs, self.is_sealed()) {
            (false, _) => Ok(()),
            (true, true) => Err(Error::sealed_store()),
            (true, false) => Err(Error::silent_store()),
        }
    }

    /// Clears caches; running requests check their permissions again.
    fn forget(&self) {
        self.shared.directory.forget();
        self.shared.sessions.clear();
        self.shared.spares.clear();
        self.shared.openings.clear();
        self.shared.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how often the caches were cleared.
    pub(crate) fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Relaxed)
    }

    fn reblind(&self, now: Duration) {
        let mut blinding = self.shared.blinding.write().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(blinding.born) >= self.settings().blinding_age_max {
            *blinding = Blinding { context: Arc::new(EcContext::new(&mut system_random())), born: now };
        }
    }

    /// The current counters.
    pub fn counters(&self) -> EngineCounters {
        let EngineShared { directory, sessions, spares, openings, opening_work, .. } = &*self.shared;
        let [apps, grants, api_keys] = directory.counters();
        EngineCounters {
            apps,
            grants,
            api_keys,
            sessions: sessions.counters(),
            spare_keys: spares.counters(),
            opening_keys: openings.counters(),
            sealed: self.shared.sealed.now(),
            opened: self.shared.opened.now(),
            canaries: self.shared.canaries.load(Ordering::Relaxed),
            opening_agreements: opening_work.agreements(),
            opening_trials: opening_work.trials(),
            store_silence: self.store_silence(),
            store_is_sealed: self.is_sealed(),
            store_resyncs: self.epoch(),
            deletions_put_off: self.shared.upkeep.put_off(),
            lookups: directory.lookups().counters(),
            memory: self.store().memory(),
            scan: self.shared.scanner.counters(self.now(), self.scan_rate()),
        }
    }

    /// Counts values that a step has sealed, once it is over: one that is handed over is repeated.
    pub(crate) fn count_sealed(&self, counts: ValueCounts) {
        self.shared.sealed.add(counts);
        if let Some(account) = &self.account {
            account.add_sealed(counts);
        }
    }

    /// The same for values that were opened.
    pub(crate) fn count_opened(&self, counts: ValueCounts) {
        self.shared.opened.add(counts);
        if let Some(account) = &self.account {
            account.add_opened(counts);
        }
    }

    fn store_silence(&self) -> Duration {
        let answered = Duration::from_millis(self.shared.store.answered_ms.load(Ordering::Relaxed));
        self.now().saturating_sub(answered)
    }

    /// Makes the next step of the scan for edits in the store, which reads some hundred rows, on a thread that may wait; `None` if
    /// [`Settings::store_scan_rows_per_second`] turns it off.
    pub fn scan_store(&self) -> Option<ScanNews> {
        let (shared, rate) = (&self.shared, self.scan_rate());
        (rate.rows_per_second > 0).then(|| shared.scanner.step(self.store(), rate, &*shared.clock))
    }

    /// Rotates and deletes keys whose time has come, and records which apps are in use, on a thread that may wait; `None` if
    /// [`Settings::store_upkeep_interval`] turns it off, or the store has no such part, as one that is not open yet.
    pub fn upkeep_store(&self) -> Option<UpkeepNews> {
        let (settings, shared) = (self.settings(), &self.shared);
        let rules = UpkeepRules {
            interval: settings.store_upkeep_interval,
            rotate_after: settings.rotate_after,
            use_record_interval: settings.use_record_interval,
        };
        if rules.interval.is_zero() {
            return None;
        }
        shared.upkeep.run(self.store(), rules, shared.directory.take_used(), self.now())
    }

    /// The newest state of the store that was seen, for another engine that asks with a challenge: a line without a secret. Does not block.
    pub fn sighting(&self, challenge: &str) -> Option<String> {
        self.store().sighting(challenge)
    }

    /// Takes over what another engine has seen, on a thread that may wait.
    ///
    /// # Errors
    /// [`PeerFault::Useless`] if it shows nothing, [`PeerFault::Dispute`] if one of the two has not the store that it should have.
    pub fn learn(&self, answer: &PeerSighting) -> Result<(), PeerFault> {
        self.store().learn(answer).map_err(|error| match error {
            StoreError::Sighting { fault: MemoryFault::Root | MemoryFault::Store, .. } => {
                PeerFault::Dispute(error.to_string())
            }
            other => PeerFault::Useless(other.to_string()),
        })
    }

    fn scan_rate(&self) -> ScanRate {
        let settings = self.settings();
        ScanRate { rows_per_second: settings.store_scan_rows_per_second, interval: settings.store_scan_interval }
    }

    /// From now on no request waits for the store on its own thread, until the run is ended ([`LookupRun::end`]): the caller provides
    /// [`Settings::store_lookups_max`] threads that call [`Engine::serve_lookups`] with the run. Without one, as in a lone process,
    /// requests read the store themselves.
    pub fn begin_lookups(&self) -> Arc<LookupRun> {
        let shared = Arc::downgrade(&self.shared);
        let end = move || {
            if let Some(shared) = shared.upgrade() {
                shared.directory.lookups().end_run();
            }
        };
        self.shared.directory.lookups().begin_run(Box::new(end))
    }

    /// Makes look-ups for requests on this thread, which waits for the store, until `run` ends.
    pub fn serve_lookups(&self, run: &LookupRun) {
        while self.shared.directory.serve(run, &*self.shared.clock) {}
    }

    /// Registers `hint`, which is called when the store may have changed and [`Engine::maintain`] should run soon. It must not block.
    pub fn on_store_change(&self, hint: Box<dyn Fn() + Send + Sync>) {
        self.store().on_change(hint);
    }

    /// The secret that tokens are signed with, read from the store on first use.
    pub(crate) fn token_secret(&self) -> Result<Arc<TokenSecret>, Error> {
        self.shared.directory.token_secret(&*self.shared.clock)
    }

    /// Compiles selectors.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidSelector`] with the selector's index and the position in it.
    pub fn selection(&self, selectors: &[impl AsRef<str>]) -> Result<Selection, Error> {
        Ok(Selection::parse(selectors, &self.settings().document)?)
    }

    /// Returns a builder that compiles selectors one by one; [`Engine::selection`] compiles all at once.
    pub fn selection_builder(&self) -> SelectionBuilder {
        Selection::builder(&self.settings().document)
    }

    /// The same engine, for requests from there: decisions about them name it.
    pub fn at(&self, origin: RequestOrigin) -> Self {
        Self { shared: Arc::clone(&self.shared), origin, account: None }
    }

    /// The same engine, for one request, which is accounted for there.
    pub fn accounted(self, account: Option<Arc<RequestAccount>>) -> Self {
        Self { account, ..self }
    }

    pub(crate) fn account(&self) -> Option<&RequestAccount> {
        self.account.as_deref()
    }

    /// Has every decision about callers reported to `observer`, too.
    pub fn observe_decisions(&self, observer: Arc<dyn DecisionObserver>) {
        self.shared.observers.attach(observer);
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.shared.observers
    }

    pub(crate) fn origin(&self) -> RequestOrigin {
        self.origin
    }

    /// Returns the app, for a decision: the permit, which is inside of this module, is the only way to it.
    fn app(&self, caller: &Caller, name: &AppName) -> Result<Arc<App>, Error> {
        let standing = if *caller == Caller::Anonymous { Standing::Unknown } else { Standing::Known };
        self.shared.directory.app(name, standing, &*self.shared.clock)
    }

    /// The app with a symmetric key that a request's app does not have; see [`Directory::app_with_key`].
    pub(crate) fn app_with_key(&self, app: &AppName, id: SymmetricKeyId) -> Result<Option<Arc<App>>, Error> {
        self.shared.directory.app_with_key(app, id, &*self.shared.clock)
    }

    /// Whether a value that no key of an app opens will fail to decrypt whenever it is tried again. Call it before reading the keys.
    pub(crate) fn knows_all_versions(&self) -> bool {
        self.shared.directory.knows_all_versions(self.store_silence())
    }

    pub(crate) fn ec(&self) -> Arc<EcContext> {
        Arc::clone(&self.shared.blinding.read().unwrap_or_else(PoisonError::into_inner).context)
    }

    pub(crate) fn gatherer(&self) -> &Gatherer {
        &self.shared.gatherer
    }

    pub(crate) fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    pub(crate) fn now_unix_s(&self) -> u32 {
        self.shared.clock.now_unix_s()
    }

    pub(crate) fn now_unix_ms(&self) -> u64 {
        self.shared.clock.now_unix_ms()
    }

    /// The recipient with this key, with a table if it is used often.
    pub(crate) fn recipient(&self, public: &PublicKey) -> Arc<Recipient> {
        self.shared.recipients.get(public)
    }

    /// A key for one request: a spare one, or one of a batch, of which the others become spares.
    pub(crate) fn request_key(&self, recipient: &PublicKey, profile: Profile) -> Arc<SealingKey> {
        let (spares, now, age_max) = (&self.shared.spares, self.now(), self.settings().spare_key_age_max);
        let demand = match spares.take(recipient, profile, now, age_max) {
            Ok(spare) => return spare,
            Err(demand) => demand,
        };
        let recipient = self.recipient(recipient);
        if age_max.is_zero() || !recipient.has_table() {
            return Arc::new(SealingKey::generate(&self.ec(), &recipient, profile, u64::MAX, &mut fresh_random()));
        }
        let count = demand.batch_size(recipient.batch_size());
        let keys = SealingKey::generate_many(&self.ec(), &recipient, profile, u64::MAX, count, &mut fresh_random());
        let mut keys = keys.into_iter();
        let key = keys.next().expect("a batch is not empty");
        spares.put(recipient.public(), profile, keys, now, age_max);
        Arc::new(key)
    }

    /// The session's key.
    pub(crate) fn session_key(&self, recipient: &PublicKey, profile: Profile) -> Arc<SealingKey> {
        let settings = self.settings();
        self.shared.sessions.key(recipient, profile, self.now(), settings.session_age_max, || {
            let recipient = self.recipient(recipient);
            SealingKey::generate(
                &self.ec(),
                &recipient,
                profile,
                settings.session_values_max.max(1),
                &mut fresh_random(),
            )
        })
    }

    /// The session's key, if there is one.
    pub(crate) fn known_session_key(&self, recipient: &PublicKey, profile: Profile) -> Option<Arc<SealingKey>> {
        self.shared.sessions.ready(recipient, profile, self.now(), self.settings().session_age_max)
    }

    pub(crate) fn opening_cache(&self) -> &OpeningCache {
        &self.shared.openings
    }

    pub(crate) fn opening_work(&self) -> &Arc<OpeningWork> {
        &self.shared.opening_work
    }
}

fn bounds(settings: &Settings) -> Bounds {
    Bounds {
        concurrent_max: settings.store_lookups_max.max(1),
        queue_max: settings.store_queue_max.max(1),
        wait_max: settings.store_wait_max,
        miss_bytes_max: settings.miss_bytes_max,
        miss_age_max: settings.miss_age_max,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn app_name(text: &str) -> Result<AppName, Error> {
    AppName::parse(text)
        .map_err(|error| Error::new(ErrorCode::UnknownApp, format!("no app can have that name: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use leafseal_keystore::{
        ChangeAuthor, Environment, LocalRootKey, OpenMode, SqliteKeystore, StoreLimits, system_clock,
    };

    use super::*;

    struct ManualClock(Arc<AtomicU64>);

    impl EngineClock for ManualClock {
        fn now_unix_s(&self) -> u32 {
            0
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    /// An engine whose clock returns the stored seconds, and the file of its store.
    fn engine(folder: &tempfile::TempDir, seconds: &Arc<AtomicU64>) -> (Engine, std::path::PathBuf) {
        let environment = Environment {
            providers: vec![Box::new(LocalRootKey::generate(&mut system_random()))],
            clock: Box::new(system_clock),
            rng: Box::new(system_random()),
            author: ChangeAuthor::default(),
        };
        let path = folder.path().join("private").join("store.sqlite");
        let store = SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment, StoreLimits::default());
        let clock = Box::new(ManualClock(Arc::clone(seconds)));
        (Engine::with_clock(Box::new(store.expect("opens")), Settings::default(), clock), path)
    }

    #[test]
    fn it_is_ready_as_long_as_the_store_was_not_silent_for_too_long() {
        let (folder, seconds) = (tempfile::tempdir().expect("a folder"), Arc::new(AtomicU64::new(0)));
        let (engine, path) = engine(&folder, &seconds);
        let at = |second| seconds.store(second, Ordering::Relaxed);
        let is_ready = || engine.readiness().is_ok();
        engine.maintain().expect("maintained");
        let content = std::fs::read(&path).expect("a store");
        std::fs::write(&path, b"no store any more").expect("written");
        at(59);
        assert!(engine.maintain().is_err() && is_ready(), "60 s are not over");
        at(60);
        assert!(engine.maintain().is_err() && !is_ready());
        std::fs::write(&path, content).expect("written");
        at(61);
        assert!(engine.maintain().is_ok() && is_ready());
        // A hanging store never returns an error.
        at(61 + 69);
        assert!(is_ready());
        at(61 + 70);
        assert!(!is_ready());
    }

    #[test]
    fn blinding_is_renewed_at_its_age_limit_and_not_before() {
        let (folder, seconds) = (tempfile::tempdir().expect("a folder"), Arc::new(AtomicU64::new(0)));
        let (engine, _) = engine(&folder, &seconds);
        let first = engine.ec();
        seconds.store(59, Ordering::Relaxed);
        engine.maintain().expect("maintained");
        assert!(Arc::ptr_eq(&engine.ec(), &first), "60 s are not over");
        seconds.store(60, Ordering::Relaxed);
        engine.maintain().expect("maintained");
        assert!(!Arc::ptr_eq(&engine.ec(), &first), "60 s are over");
    }
}
