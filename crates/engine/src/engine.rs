//! The engine: the state shared by all requests, and the entry points of requests.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use leafseal_crypto::random::{fresh_random, system_random};
use leafseal_crypto::{EcContext, PublicKey, Recipient, prepare_tables};
use leafseal_document::{Selection, SelectionBuilder};
use leafseal_envelope::{Profile, SealingKey};
use leafseal_keystore::{ApiKey, ApiKeyId, AppName, AppPublicKeys, ClientName, Keystore};

use crate::api_key::{ApiCaller, read_api_key};
use crate::app::{App, PublicApps, public_apps};
use crate::apps::{Directory, TokenSecret};
use crate::clock::{Clock, SystemClock};
use crate::counters::Counters;
use crate::decision::DecisionObserver;
use crate::error::{Error, ErrorCode};
use crate::gatherer::Gatherer;
use crate::lookups::{Asker, Bounds, LookupRun, Standing};
use crate::no_store::NoStore;
use crate::opening::OpeningWork;
use crate::opening_cache::OpeningCache;
use crate::permissions::{Caller, Rights, not_a_key};
use crate::recipients::Recipients;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::spares::Spares;
use crate::wanted::Wanted;

/// The engine's interface. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    directory: Directory,
    sessions: Sessions,
    spares: Spares,
    openings: OpeningCache,
    recipients: Recipients,
    settings: Settings,
    clock: Box<dyn Clock>,
    blinding: RwLock<Blinding>,
    opening_work: Arc<OpeningWork>,
    gatherer: Gatherer,
    epoch: AtomicU64,
    store: StoreWatch,
    observer: OnceLock<Box<dyn DecisionObserver>>,
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
    pub fn with_clock(store: Box<dyn Keystore>, settings: Settings, clock: Box<dyn Clock>) -> Self {
        Self::with(store, PublicApps::new(), settings, clock)
    }

    fn with(store: Box<dyn Keystore>, public: PublicApps, settings: Settings, clock: Box<dyn Clock>) -> Self {
        let blinding = Blinding { context: Arc::new(EcContext::new(&mut system_random())), born: clock.monotonic() };
        let store_watch = StoreWatch {
            is_silent: AtomicBool::new(false),
            answered_ms: AtomicU64::new(milliseconds(clock.monotonic())),
        };
        let openings = OpeningCache::new(settings.opening_keys_max, settings.opening_key_age_max);
        let recipients = Recipients::new(settings.recipients_max);
        let shared = Shared {
            directory: Directory::new(store, public, settings.key_version_delay, bounds(&settings), clock.monotonic()),
            sessions: Sessions::default(),
            spares: Spares::default(),
            openings,
            recipients,
            settings,
            clock,
            blinding: RwLock::new(blinding),
            opening_work: Arc::default(),
            gatherer: Gatherer::default(),
            epoch: AtomicU64::default(),
            store: store_watch,
            observer: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The store, for its owner, on a thread that may wait. Requests never use it: on a server they read it through look-ups
    /// ([`Engine::begin_lookups`]).
    pub fn store(&self) -> &dyn Keystore {
        self.shared.directory.store()
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

    /// Checks that the store responds, or has not responded for no longer than `store_silence_max`. Never blocks.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`].
    pub fn readiness(&self) -> Result<(), Error> {
        if self.shared.store.is_silent.load(Ordering::Relaxed) {
            return Err(Error::silent_store());
        }
        self.check_store_hang()
    }

    /// Checks that [`Engine::maintain`] has not been waiting for the store for longer than `store_silence_max`, and so has not cleared the
    /// caches.
    fn check_store_hang(&self) -> Result<(), Error> {
        let hangs = self.store_silence() >= self.settings().store_silence_max.saturating_add(STORE_HANG_MAX);
        if hangs { Err(Error::silent_store()) } else { Ok(()) }
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

    /// Checks that the caller may make any request.
    ///
    /// # Errors
    /// Forbidden, store unavailable.
    pub fn admit(&self, caller: &Caller) -> Result<(), Error> {
        self.rights(caller).map(drop)
    }

    fn reblind(&self, now: Duration) {
        let mut blinding = self.shared.blinding.write().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(blinding.born) >= self.settings().blinding_age_max {
            *blinding = Blinding { context: Arc::new(EcContext::new(&mut system_random())), born: now };
        }
    }

    /// The current counters.
    pub fn counters(&self) -> Counters {
        let Shared { directory, sessions, spares, openings, opening_work, .. } = &*self.shared;
        let [apps, grants, api_keys] = directory.counters();
        Counters {
            apps,
            grants,
            api_keys,
            sessions: sessions.counters(),
            spare_keys: spares.counters(),
            opening_keys: openings.counters(),
            opening_agreements: opening_work.agreements(),
            opening_trials: opening_work.trials(),
            store_silence: self.store_silence(),
            store_resyncs: self.epoch(),
            lookups: directory.lookups().counters(),
        }
    }

    fn store_silence(&self) -> Duration {
        let answered = Duration::from_millis(self.shared.store.answered_ms.load(Ordering::Relaxed));
        self.now().saturating_sub(answered)
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

    /// The caller with this certificate, if its grant is valid.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`] with a reason; [`ErrorCode::Unavailable`].
    pub fn client(&self, name: &str, certificate_sha256: [u8; 32]) -> Result<Caller, Error> {
        let name = ClientName::parse(name)
            .map_err(|_| Error::new(ErrorCode::Forbidden, "the certificate's name is not that of a client"))?;
        let caller = Caller::Client { name, certificate_sha256 };
        self.rights(&caller)?;
        Ok(caller)
    }

    /// The client with this certificate, if its grant is cached and valid; without blocking. `None` if that does not suffice.
    pub fn known_client(&self, name: &str, certificate_sha256: [u8; 32]) -> Option<Caller> {
        let name = ClientName::parse(name).ok()?;
        self.check_store_hang().ok()?;
        Rights::granted(self.shared.directory.known_client(&name)?, &certificate_sha256).ok()?;
        Some(Caller::Client { name, certificate_sha256 })
    }

    /// The caller with this API key, if the key is valid. On a worker the request is parked until the store has answered; any other thread
    /// waits, so a network thread uses [`Engine::find_api_caller`].
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`], the same for every invalid key; [`ErrorCode::Unavailable`]; [`ErrorCode::Overloaded`].
    pub fn api_caller(&self, id: &ApiKeyId, secret_sha256: [u8; 32]) -> Result<ApiCaller, Error> {
        ApiCaller::new(self.api_key(id, Standing::Unknown)?, secret_sha256)
    }

    /// The same without blocking; `source` identifies the address that has sent it. Waits for as long as the store takes: the caller sets a
    /// limit.
    ///
    /// # Errors
    /// As [`Engine::api_caller`].
    pub async fn find_api_caller(
        &self,
        id: &ApiKeyId,
        secret_sha256: [u8; 32],
        source: u64,
    ) -> Result<ApiCaller, Error> {
        if !self.shared.directory.lookups().is_served() {
            return self.api_caller(id, secret_sha256);
        }
        let (wanted, asker) = (Wanted::ApiKey(id.clone()), Asker { standing: Standing::Unknown, source });
        let found: Result<Arc<ApiKey>, _> =
            poll_fn(|context| self.shared.directory.poll(&wanted, asker, &*self.shared.clock, context.waker())).await?;
        ApiCaller::new(found.ok(), secret_sha256)
    }

    /// The same from the cache only, without blocking: `None` if that does not suffice.
    pub fn known_api_caller(&self, id: &ApiKeyId, secret_sha256: [u8; 32]) -> Option<ApiCaller> {
        ApiCaller::new(Some(self.shared.directory.known_api_key(id)?), secret_sha256).ok()
    }

    /// Identifies the caller of an API key. `agent`, such as a relay that receives keys from its clients, must be permitted to use the
    /// key's app, and names the key's user as `client`, whose look-ups take turns with those of others. May wait for the store, as
    /// [`Engine::api_caller`].
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`]: the key is invalid, for any reason, or `agent` may not use its app; [`ErrorCode::Unavailable`].
    pub fn authenticate(&self, agent: &Caller, api_key: &str, client: Option<&str>) -> Result<ApiCaller, Error> {
        let rights = self.rights(agent)?;
        let (id, secret_sha256) = read_api_key(api_key).ok_or_else(not_a_key)?;
        let key = self.shared.directory.api_key(&id, Standing::Unknown, client, &*self.shared.clock)?;
        let shown = ApiCaller::new(key, secret_sha256)?;
        let checked = rights
            .check_any(shown.app())
            .map_err(|_| Error::new(ErrorCode::Forbidden, "the API key is for an app that this client may not use"));
        self.observed(agent, &[], shown.app().as_str(), checked)?;
        Ok(shown)
    }

    /// The secret that tokens are signed with, read from the store on first use.
    pub(crate) fn token_secret(&self) -> Result<Arc<TokenSecret>, Error> {
        self.shared.directory.token_secret(&*self.shared.clock)
    }

    /// The same without blocking, except where no look-ups are served.
    pub(crate) async fn find_token_secret(&self) -> Result<Arc<TokenSecret>, Error> {
        let directory = &self.shared.directory;
        if let Some(secret) = directory.known_token_secret() {
            return Ok(Arc::clone(secret));
        }
        if !directory.lookups().is_served() {
            return self.token_secret();
        }
        let asker = Asker { standing: Standing::Known, source: 0 };
        let polled =
            poll_fn(|context| directory.poll(&Wanted::TokenSecret, asker, &*self.shared.clock, context.waker()));
        polled.await?.map_err(|_| Error::new(ErrorCode::Internal, "the keystore has no secret for tokens"))
    }

    fn api_key(&self, id: &ApiKeyId, standing: Standing) -> Result<Option<Arc<ApiKey>>, Error> {
        self.shared.directory.api_key(id, standing, None, &*self.shared.clock)
    }

    /// Whether the app exists and the caller may use it, from the cache only, without blocking: false for anything that no request has used
    /// since the store last changed. The app of an API key or a token exists, because the store or this engine has named it.
    pub fn is_known_to_use(&self, caller: &Caller, app: &str) -> bool {
        let Ok(app) = AppName::parse(app) else { return false };
        let directory = &self.shared.directory;
        if let Caller::OnBehalf { agent, .. } = caller {
            return self.is_known_to_use(agent, app.as_str());
        }
        let rights = self.known_rights(caller);
        let names_its_app = matches!(caller, Caller::ApiKey { .. } | Caller::Token { .. });
        rights.is_some_and(|rights| rights.check_any(&app).is_ok()) && (names_its_app || directory.knows_app(&app))
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

    /// The caller's current permissions.
    pub(crate) fn rights(&self, caller: &Caller) -> Result<Rights, Error> {
        let directory = &self.shared.directory;
        if *caller != Caller::Owner {
            self.check_store_hang()?;
        }
        match caller {
            Caller::Owner => Ok(Rights::Everything),
            Caller::Client { name, certificate_sha256 } => {
                Rights::granted(directory.client(name, &*self.shared.clock)?, certificate_sha256)
            }
            // Its key was verified when the request arrived.
            Caller::ApiKey { id, secret_sha256 } => Rights::of_key(self.api_key(id, Standing::Known)?, secret_sha256),
            Caller::OnBehalf { agent, key } => {
                Rights::on_behalf(self.rights(agent)?, self.api_key(key, Standing::Known)?)
            }
            Caller::Token { app, roles } => Ok(Rights::Token { app: app.clone(), roles: roles.clone() }),
        }
    }

    /// The permissions of a caller that acts for itself, from the cache only, without blocking.
    pub(crate) fn known_rights(&self, caller: &Caller) -> Option<Rights> {
        let directory = &self.shared.directory;
        match caller {
            Caller::Owner => Some(Rights::Everything),
            Caller::OnBehalf { .. } => None,
            Caller::Client { name, certificate_sha256 } => {
                directory.known_client(name).and_then(|grant| Rights::granted(grant, certificate_sha256).ok())
            }
            Caller::ApiKey { id, secret_sha256 } => {
                directory.known_api_key(id).and_then(|key| Rights::of_key(Some(key), secret_sha256).ok())
            }
            Caller::Token { app, roles } => Some(Rights::Token { app: app.clone(), roles: roles.clone() }),
        }
    }

    /// Has every decision about a caller's permissions reported. Returns whether it will be: an engine has one observer, the first.
    pub fn observe_decisions(&self, observer: Box<dyn DecisionObserver>) -> bool {
        self.shared.observer.set(observer).is_ok()
    }

    pub(crate) fn decision_observer(&self) -> Option<&dyn DecisionObserver> {
        self.shared.observer.get().map(|observer| &**observer)
    }

    /// Returns the app. The owner may be a caller without credentials, whom a server serves public keys.
    pub(crate) fn app(&self, caller: &Caller, name: &AppName) -> Result<Arc<App>, Error> {
        let standing = if *caller == Caller::Owner { Standing::Unknown } else { Standing::Known };
        self.shared.directory.app(name, standing, &*self.shared.clock)
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

    use leafseal_keystore::{Environment, LocalRootKey, OpenMode, SqliteKeystore, StoreLimits, system_clock};

    use super::*;

    struct ManualClock(Arc<AtomicU64>);

    impl Clock for ManualClock {
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
            root_key: Box::new(LocalRootKey::generate(&mut system_random())),
            clock: Box::new(system_clock),
            rng: Box::new(system_random()),
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
