//! Caches apps and grants, which are read from the store on first use and dropped when the store changes.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use leafseal_crypto::GuardedSecret;
use leafseal_crypto::symmetric::SymmetricKeyId;
use leafseal_keystore::{
    ApiKey, ApiKeyId, AppKeys, AppName, ClientGrant, ClientName, Generation, KeyVersion, Keystore,
};
use leafseal_pool::{job_client, job_waker, park_job};

use crate::app::{App, CachedAppKeys, PublicApps};
use crate::clock::EngineClock;
use crate::counters::{CacheCounters, Lookups};
use crate::error::{Error, ErrorCode};
use crate::lookups::{Asker, Bounds, LookupAnswer, LookupRun, Progress, Standing, StoreLookups};
use crate::recent::RecentVersions;
use crate::symmetric::SymmetricKeys;
use crate::wanted::{Absence, Wanted};

/// Maximum delay between the creation time of a version and its commit, including the difference between the clocks of machines. It applies
/// to apps that this engine did not know before the change.
const COMMIT_TIME_MAX_S: u64 = 60;

#[derive(Default)]
struct KnownApp {
    generation: Option<Generation>,
    /// How often the cache was cleared.
    epoch: u64,
    answered_at: Duration,
    /// When a change of the store was last noticed.
    changed_at: Duration,
    /// Whether an app in the cache does not encrypt with its newest version yet.
    has_newcomers: bool,
    /// Versions of apps that every engine knew before the last changes, and that this one has seen active ever since.
    established: HashMap<AppName, Vec<u32>>,
    apps: HashMap<AppName, Arc<App>>,
    /// Apps that decrypted since they were last taken.
    used: HashSet<AppName>,
    /// The versions of apps that decrypted most recently, of those that were in the cache before the last change.
    recent: HashMap<AppName, Arc<RecentVersions>>,
    clients: HashMap<ClientName, Arc<ClientGrant>>,
    api_keys: HashMap<ApiKeyId, Arc<ApiKey>>,
    /// With the epoch in which it was read.
    token_secret: Option<(u64, Arc<TokenSecret>)>,
    app_lookups: Lookups,
    client_lookups: Lookups,
    api_key_lookups: Lookups,
}

impl KnownApp {
    /// Takes the versions in the cache over a change. `was_settled`: nothing had changed for so long before it that every engine knows
    /// them.
    fn establish(&mut self, was_settled: bool) {
        let before = std::mem::take(&mut self.established);
        let of = |app: &App| {
            let CachedAppKeys::Pairs { keys, .. } = &app.keys else { return Vec::new() };
            let was_established = |version: &u32| before.get(&app.name).is_some_and(|known| known.contains(version));
            let active = keys.active_versions().map(|version| version.version);
            active.filter(|version| was_settled || was_established(version)).collect()
        };
        self.established = self.apps.values().map(|app| (app.name.clone(), of(app))).collect();
    }

    /// Moves the marks of apps in use to their names: the apps, and what is remembered of them, are about to go.
    fn note_used(&mut self) {
        let cached = self.apps.iter().map(|(name, app)| (name, &app.recent));
        let used = cached.chain(&self.recent).filter(|(_, recent)| recent.take_use());
        self.used.extend(used.map(|(name, _)| name.clone()).collect::<Vec<_>>());
    }

    fn find_app(&mut self, name: &AppName) -> Option<Arc<App>> {
        self.app_lookups.note(self.apps.get(name).map(Arc::clone))
    }

    fn find_client(&mut self, name: &ClientName) -> Option<Arc<ClientGrant>> {
        self.client_lookups.note(self.clients.get(name).map(Arc::clone))
    }

    fn find_api_key(&mut self, id: &ApiKeyId) -> Option<Arc<ApiKey>> {
        self.api_key_lookups.note(self.api_keys.get(id).map(Arc::clone))
    }
}

pub(crate) type TokenSecret = GuardedSecret;

/// The store's answer.
#[derive(Clone)]
pub(crate) enum Fetched {
    App(Arc<App>),
    Client(Arc<ClientGrant>),
    ApiKey(Arc<ApiKey>),
    TokenSecret(Arc<TokenSecret>),
}

/// Whether what was read is in the cache now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caching {
    Yes,
    No,
}

/// A kind of what the cache holds.
pub(crate) trait Cached: Sized {
    /// The record that was fetched for a name of this kind.
    fn of(fetched: Fetched) -> Self;

    /// The cache's entry, without counting a hit.
    fn find(directory: &Directory, wanted: &Wanted) -> Option<Self>;
}

/// Implements [`Cached`] for a kind: the variants of `Wanted` and `Fetched`, and where the cache has it.
macro_rules! cached {
    ($kind:ty, $variant:ident, $map:ident) => {
        impl Cached for Arc<$kind> {
            fn of(fetched: Fetched) -> Self {
                let Fetched::$variant(found) = fetched else { unreachable!("fetched by its own name") };
                found
            }

            fn find(directory: &Directory, wanted: &Wanted) -> Option<Self> {
                let Wanted::$variant(name) = wanted else { unreachable!("wanted by its own name") };
                directory.known().$map.get(name).cloned()
            }
        }
    };
}

cached!(App, App, apps);
cached!(ClientGrant, Client, clients);
cached!(ApiKey, ApiKey, api_keys);

impl Cached for Arc<TokenSecret> {
    fn of(fetched: Fetched) -> Self {
        let Fetched::TokenSecret(found) = fetched else { unreachable!("fetched by its own name") };
        found
    }

    fn find(directory: &Directory, _: &Wanted) -> Option<Self> {
        directory.known_token_secret()
    }
}

/// An app that has the symmetric key that was wanted.
pub(crate) struct KeyedApp(pub(crate) Arc<App>);

impl Cached for KeyedApp {
    fn of(fetched: Fetched) -> Self {
        Self(<Arc<App> as Cached>::of(fetched))
    }

    fn find(directory: &Directory, wanted: &Wanted) -> Option<Self> {
        let Wanted::SymmetricKey(name, id) = wanted else { unreachable!("wanted by its own name") };
        directory.known().apps.get(name).filter(|app| app.symmetric(*id).is_some()).cloned().map(Self)
    }
}

/// The engine's cache of the store. Its size is limited by the store's own limits.
pub(crate) struct Directory {
    store: Box<dyn Keystore>,
    lookups: StoreLookups<Fetched>,
    /// Apps beside the store, which do not change.
    public: PublicApps,
    /// [`crate::Settings::key_version_delay`]; zero where no other engine can use the store.
    key_version_delay: Duration,
    known: Mutex<KnownApp>,
}

impl Directory {
    /// Everything in the store counts as changed at its start, `now`.
    pub(crate) fn new(
        store: Box<dyn Keystore>,
        public: PublicApps,
        key_version_delay: Duration,
        bounds: Bounds,
        now: Duration,
    ) -> Self {
        let key_version_delay = if store.is_shared() { key_version_delay } else { Duration::ZERO };
        let known = KnownApp { changed_at: now, answered_at: now, ..KnownApp::default() };
        let lookups = StoreLookups::new(bounds);
        Self { store, lookups, public, key_version_delay, known: Mutex::new(known) }
    }

    pub(crate) fn store(&self) -> &dyn Keystore {
        &*self.store
    }

    fn known(&self) -> MutexGuard<'_, KnownApp> {
        // Every change under the lock is one insertion or removal: a panic elsewhere leaves nothing incomplete.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cache counters of apps, grants and API keys.
    pub(crate) fn counters(&self) -> [CacheCounters; 3] {
        let known = self.known();
        [
            known.app_lookups.with_entries(known.apps.len()),
            known.client_lookups.with_entries(known.clients.len()),
            known.api_key_lookups.with_entries(known.api_keys.len()),
        ]
    }

    /// Returns whether the store has changed since the last call. [`Directory::forget`] clears the cache.
    pub(crate) fn refresh(&self, clock: &dyn EngineClock) -> Result<bool, Error> {
        let now = clock.monotonic();
        let generation = self.store.generation()?;
        let mut known = self.known();
        known.answered_at = now;
        let has_changed = known.generation.replace(generation) != Some(generation);
        if has_changed {
            let was_settled = self.is_settled(known.changed_at, clock);
            known.establish(was_settled);
            // Later than the change, and than the reading of its time.
            known.changed_at = clock.monotonic();
        } else if known.has_newcomers {
            self.promote(&mut known, clock);
        }
        Ok(has_changed)
    }

    /// Whether every engine has had the time to learn of a change that this one noticed at `changed_at`.
    fn is_settled(&self, changed_at: Duration, clock: &dyn EngineClock) -> bool {
        clock.monotonic().saturating_sub(changed_at) >= self.key_version_delay
    }

    /// The version of an app that encrypts. A new one does so when every engine has had the time to learn of it: a value that one engine
    /// encrypts would be unknown to the others. New is also one that was enabled again, or whose commit took long: its time of creation
    /// decides only where this engine did not know the app before the change, for example because it has just started.
    fn encrypting(
        &self,
        keys: &AppKeys,
        established: Option<&[u32]>,
        changed_at: Duration,
        clock: &dyn EngineClock,
    ) -> Option<u32> {
        if self.is_settled(changed_at, clock) {
            return keys.newest_active().map(|newest| newest.version);
        }
        let is_established =
            |version: &&KeyVersion| established.is_some_and(|versions| versions.contains(&version.version));
        let made_before =
            u64::from(clock.now_unix_s()).saturating_sub(self.key_version_delay.as_secs() + COMMIT_TIME_MAX_S);
        let is_old = |version: &&KeyVersion| version.created_at <= made_before;
        let mut found = keys.active_versions().find(is_established);
        found = found.or_else(|| keys.active_versions().find(is_old)).or_else(|| keys.active_versions().last());
        found.map(|version| version.version)
    }

    /// When the store was last seen to change: now, unless it is as it was at the last refresh.
    fn changed_at(&self, clock: &dyn EngineClock) -> Result<Duration, Error> {
        if self.key_version_delay.is_zero() {
            return Ok(Duration::ZERO);
        }
        let generation = self.store.generation()?;
        let known = self.known();
        Ok(if known.generation == Some(generation) { known.changed_at } else { clock.monotonic() })
    }

    /// Lets apps in the cache encrypt with new versions whose time has come.
    fn promote(&self, known: &mut KnownApp, clock: &dyn EngineClock) {
        let KnownApp { apps, established, changed_at, .. } = known;
        let mut has_newcomers = false;
        for app in apps.values_mut() {
            let CachedAppKeys::Pairs { keys, encrypting, symmetric } = &app.keys else { continue };
            let established = established.get(&app.name).map(Vec::as_slice);
            let chosen =
                self.encrypting(keys, established, *changed_at, clock).expect("checked when the app was loaded");
            if chosen != *encrypting {
                let (keys, symmetric) = (Arc::clone(keys), Arc::clone(symmetric));
                let keys = CachedAppKeys::Pairs { keys, encrypting: chosen, symmetric };
                *app = Arc::new(App { name: app.name.clone(), keys, recent: Arc::clone(&app.recent) });
            }
            has_newcomers |= !app.encrypts_with_newest();
        }
        known.has_newcomers = has_newcomers;
    }

    /// Whether every version that any engine encrypts with was known here at `now`: what none of them opens fails to decrypt for good.
    pub(crate) fn knows_all_versions(&self, silence: Duration) -> bool {
        self.key_version_delay.is_zero() || silence <= self.key_version_delay
    }

    /// For how long the store has not responded.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.known().answered_at)
    }

    /// Drops apps and grants, so that the next request reads them again.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.note_used();
        known.recent = known.apps.iter().map(|(name, app)| (name.clone(), Arc::clone(&app.recent))).collect();
        let apps: Vec<AppName> = std::mem::take(&mut known.apps).into_keys().collect();
        let clients: Vec<ClientName> = std::mem::take(&mut known.clients).into_keys().collect();
        let api_keys: Vec<ApiKeyId> = std::mem::take(&mut known.api_keys).into_keys().collect();
        known.has_newcomers = false;
        known.epoch += 1;
        drop(known);
        let apps = apps.into_iter().map(Wanted::App);
        let existed =
            apps.chain(clients.into_iter().map(Wanted::Client)).chain(api_keys.into_iter().map(Wanted::ApiKey));
        self.lookups.forget(existed);
    }

    /// The apps of which values were decrypted since the last call.
    pub(crate) fn take_used(&self) -> Vec<AppName> {
        let mut known = self.known();
        known.note_used();
        known.used.drain().collect()
    }

    /// Whether the app is cached as existing and enabled; does not access the store.
    pub(crate) fn knows_app(&self, name: &AppName) -> bool {
        self.public.contains_key(name) || self.known().apps.contains_key(name)
    }

    /// The client's grant, if it is cached; does not access the store.
    pub(crate) fn known_client(&self, name: &ClientName) -> Option<Arc<ClientGrant>> {
        self.known().clients.get(name).cloned()
    }

    /// The API key, if it is cached; does not access the store.
    pub(crate) fn known_api_key(&self, id: &ApiKeyId) -> Option<Arc<ApiKey>> {
        self.known().api_keys.get(id).cloned()
    }

    /// The secret that tokens are signed with, if it has been read.
    pub(crate) fn known_token_secret(&self) -> Option<Arc<TokenSecret>> {
        let known = self.known();
        known.token_secret.as_ref().filter(|(epoch, _)| *epoch == known.epoch).map(|(_, secret)| Arc::clone(secret))
    }

    /// The secret that tokens are signed with.
    pub(crate) fn token_secret(&self, clock: &dyn EngineClock) -> Result<Arc<TokenSecret>, Error> {
        if let Some(secret) = self.known_token_secret() {
            return Ok(secret);
        }
        // Where a request must not wait: it was read for this request, and the store has changed meanwhile.
        if let (true, Some((_, secret))) = (self.lookups.is_served(), &self.known().token_secret) {
            return Ok(Arc::clone(secret));
        }
        let asker = Asker { standing: Standing::Known, source: self.source(None) };
        self.found(&Wanted::TokenSecret, asker, clock)?.map_err(|_| secret_missing())
    }

    /// The API key, revoked or not; `client` names its user, if the caller is another.
    pub(crate) fn api_key(
        &self,
        id: &ApiKeyId,
        standing: Standing,
        client: Option<&str>,
        clock: &dyn EngineClock,
    ) -> Result<Option<Arc<ApiKey>>, Error> {
        if let Some(key) = self.known().find_api_key(id) {
            return Ok(Some(key));
        }
        let asker = Asker { standing, source: self.source(client) };
        Ok(self.found(&Wanted::ApiKey(id.clone()), asker, clock)?.ok())
    }

    /// The app, if it is enabled.
    pub(crate) fn app(&self, name: &AppName, standing: Standing, clock: &dyn EngineClock) -> Result<Arc<App>, Error> {
        if let Some(app) = self.public.get(name) {
            return Ok(Arc::clone(app));
        }
        if let Some(app) = self.known().find_app(name) {
            return Ok(app);
        }
        let asker = Asker { standing, source: self.source(None) };
        self.found(&Wanted::App(name.clone()), asker, clock)?.map_err(|absence| match absence {
            Absence::Missing => Error::new(ErrorCode::UnknownApp, format!("there is no app {name}")),
            Absence::Disabled => Error::new(ErrorCode::AppDisabled, format!("app {name} is disabled")),
        })
    }

    /// The app with the symmetric key of this id, which the app that the caller knows does not have: none if no version that may decrypt
    /// has it.
    pub(crate) fn app_with_key(
        &self,
        name: &AppName,
        id: SymmetricKeyId,
        clock: &dyn EngineClock,
    ) -> Result<Option<Arc<App>>, Error> {
        let wanted = Wanted::SymmetricKey(name.clone(), id);
        if let Some(KeyedApp(app)) = KeyedApp::find(self, &wanted) {
            return Ok(Some(app));
        }
        let asker = Asker { standing: Standing::Known, source: self.source(None) };
        Ok(self.found::<KeyedApp>(&wanted, asker, clock)?.ok().map(|KeyedApp(app)| app))
    }

    /// The client's grant, disabled or not.
    pub(crate) fn client(&self, name: &ClientName, clock: &dyn EngineClock) -> Result<Arc<ClientGrant>, Error> {
        if let Some(grant) = self.known().find_client(name) {
            return Ok(grant);
        }
        // On a thread that authenticates a connection, the certificate names the client.
        let source = job_client().unwrap_or_else(|| self.lookups.source_of(name));
        self.found(&Wanted::Client(name.clone()), Asker { standing: Standing::Known, source }, clock)?
            .map_err(|_| Error::new(ErrorCode::Forbidden, format!("client {name} is not known to this engine")))
    }

    /// The source to which a look-up is charged: the client of the running job, or one of its users.
    fn source(&self, user: Option<&str>) -> u64 {
        let client = job_client().unwrap_or_default();
        user.map_or(client, |user| self.lookups.source_of(&(client, user)))
    }

    /// Looks up an entry that is not in the cache. In a slice of a job that is served by look-up threads, the error asks for the step to be
    /// repeated, and the job is parked; any other thread waits.
    fn found<T: Cached>(
        &self,
        wanted: &Wanted,
        asker: Asker,
        clock: &dyn EngineClock,
    ) -> Result<Result<T, Absence>, Error> {
        if !self.lookups.is_served() {
            let fetched = self.read(wanted, clock)?;
            return Ok(fetched.map(|(fetched, _)| T::of(fetched)));
        }
        match job_waker() {
            Some(waker) => match self.poll(wanted, asker, clock, &waker) {
                Poll::Ready(found) => found,
                Poll::Pending => {
                    park_job(self.lookups.wait_max());
                    Err(Error::awaiting_store())
                }
            },
            None => self.wait(wanted, asker, clock),
        }
    }

    /// Blocks the calling thread until a look-up has ended.
    fn wait<T: Cached>(
        &self,
        wanted: &Wanted,
        asker: Asker,
        clock: &dyn EngineClock,
    ) -> Result<Result<T, Absence>, Error> {
        let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
        let until = Instant::now() + self.lookups.wait_max();
        loop {
            if let Poll::Ready(found) = self.poll(wanted, asker, clock, &waker) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::silent_store());
            }
            std::thread::park_timeout(left);
        }
    }

    /// The result of a look-up once it has ended; until then `waker` is registered.
    pub(crate) fn poll<T: Cached>(
        &self,
        wanted: &Wanted,
        asker: Asker,
        clock: &dyn EngineClock,
        waker: &Waker,
    ) -> Poll<Result<Result<T, Absence>, Error>> {
        let mut cached = None;
        let is_cached = || {
            cached = T::find(self, wanted);
            cached.is_some()
        };
        Poll::Ready(match self.lookups.poll(wanted, asker, waker, clock.monotonic(), is_cached) {
            Progress::Cached => Ok(Ok(cached.expect("it was found"))),
            Progress::Handed(fetched) => Ok(Ok(T::of(fetched))),
            Progress::Absent(absence) => Ok(Err(absence)),
            Progress::Failed(error) => Err(error),
            Progress::Pending => return Poll::Pending,
        })
    }

    /// The look-ups, which are marked as served.
    pub(crate) fn lookups(&self) -> &StoreLookups<Fetched> {
        &self.lookups
    }

    /// Makes one look-up on the calling thread, which may wait; false once `run` is over.
    pub(crate) fn serve(&self, run: &LookupRun, clock: &dyn EngineClock) -> bool {
        let Some(taken) = self.lookups.next(run, || clock.monotonic()) else { return false };
        let epoch = self.known().epoch;
        let read = catch_unwind(AssertUnwindSafe(|| self.read(&taken.wanted, clock)));
        let answer = match read {
            Ok(Ok(Ok((_, Caching::Yes)))) => LookupAnswer::Cached,
            Ok(Ok(Ok((fetched, Caching::No)))) => LookupAnswer::Uncached(fetched),
            Ok(Ok(Err(absence))) => LookupAnswer::Absent(absence),
            Ok(Err(error)) => LookupAnswer::Failed(error),
            Err(_) => LookupAnswer::Failed(Error::new(ErrorCode::Internal, "the look-up in the keystore failed")),
        };
        self.lookups.complete(taken, answer, clock.monotonic(), || self.known().epoch == epoch);
        true
    }

    /// Reads from the store, and puts what it has into the cache, unless the cache was cleared meanwhile: what was read before a change
    /// must not outlive the refresh that follows it. The only place where a request reads the store.
    fn read(&self, wanted: &Wanted, clock: &dyn EngineClock) -> Result<Result<(Fetched, Caching), Absence>, Error> {
        let epoch = self.begin_reading()?;
        let fetched = match wanted {
            Wanted::App(name) => match self.read_app(name, clock)? {
                Ok(app) => Fetched::App(app),
                Err(absence) => return Ok(Err(absence)),
            },
            Wanted::Client(name) => match self.store.client(name)? {
                Some(grant) => Fetched::Client(Arc::new(grant)),
                None => return Ok(Err(Absence::Missing)),
            },
            Wanted::ApiKey(id) => match self.store.api_key(id)? {
                Some(key) => Fetched::ApiKey(Arc::new(key)),
                None => return Ok(Err(Absence::Missing)),
            },
            Wanted::TokenSecret => Fetched::TokenSecret(Arc::new(TokenSecret::from(self.store.token_secret()?))),
            Wanted::SymmetricKey(name, id) => match self.read_app_with_key(name, *id, clock)? {
                Some(app) => Fetched::App(app),
                None => return Ok(Err(Absence::Missing)),
            },
        };
        let mut known = self.known();
        if known.epoch != epoch {
            return Ok(Ok((fetched, Caching::No)));
        }
        match &fetched {
            Fetched::App(app) => {
                known.has_newcomers |= !app.encrypts_with_newest();
                known.apps.insert(app.name.clone(), Arc::clone(app));
            }
            Fetched::Client(grant) => _ = known.clients.insert(grant.name.clone(), Arc::clone(grant)),
            Fetched::ApiKey(key) => _ = known.api_keys.insert(key.id.clone(), Arc::clone(key)),
            Fetched::TokenSecret(secret) => known.token_secret = Some((epoch, Arc::clone(secret))),
        }
        Ok(Ok((fetched, Caching::Yes)))
    }

    /// How often the cache had been cleared before what is read next. The first generation that is read is that of the cache.
    fn begin_reading(&self) -> Result<u64, Error> {
        let (epoch, is_first) = {
            let known = self.known();
            (known.epoch, known.generation.is_none())
        };
        if is_first {
            let generation = self.store.generation()?;
            self.known().generation.get_or_insert(generation);
        }
        Ok(epoch)
    }

    fn read_app(&self, name: &AppName, clock: &dyn EngineClock) -> Result<Result<Arc<App>, Absence>, Error> {
        let Some(keys) = self.store.load_app(name)? else { return Ok(Err(Absence::Missing)) };
        let changed_at = self.changed_at(clock)?;
        let established = self.known().established.get(name).cloned();
        let encrypting = self.encrypting(&keys, established.as_deref(), changed_at, clock);
        let Some(encrypting) = encrypting.filter(|_| !keys.disabled) else { return Ok(Err(Absence::Disabled)) };
        let symmetric = Arc::new(SymmetricKeys::new(&keys));
        let keys = CachedAppKeys::Pairs { keys: Arc::new(keys), encrypting, symmetric };
        let recent = self.known().recent.get(name).cloned().unwrap_or_default();
        Ok(Ok(Arc::new(App { name: name.clone(), keys, recent })))
    }

    /// Of an app without this key nothing is decrypted, as a list of its versions shows.
    fn read_app_with_key(
        &self,
        name: &AppName,
        id: SymmetricKeyId,
        clock: &dyn EngineClock,
    ) -> Result<Option<Arc<App>>, Error> {
        let summary = self.store.app_summary(name)?;
        let is_there = summary.is_some_and(|app| app.versions.iter().any(|version| version.symmetric == Some(id)));
        if !is_there {
            return Ok(None);
        }
        Ok(self.read_app(name, clock)?.ok().filter(|app| app.symmetric(id).is_some()))
    }
}

/// Wakes a thread that waits for a look-up.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn secret_missing() -> Error {
    Error::new(ErrorCode::Internal, "the keystore has no secret for tokens")
}
