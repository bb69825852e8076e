//! Caches apps and grants, which are read from the store on first use and dropped when the store changes. Private keys exist decrypted only
//! here and in what is derived from them; they are wiped when the last request that uses them ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leafseal_crypto::{Curve, PublicKey};
use leafseal_keystore::{
    ApiKey, ApiKeyId, AppKeys, AppName, ClientGrant, ClientName, Generation, KeyPair, KeyVersion, Keystore, PublicKeys,
};

use crate::clock::Clock;
use crate::counters::{CacheCounters, Lookups};
use crate::error::{Error, ErrorKind};

/// Maximum delay between the creation time of a version and its commit, including the difference between the clocks of machines. It applies
/// to apps that this engine did not know before the change.
const COMMIT_TIME_MAX_S: u64 = 60;

/// An app whose keys may be used.
pub(crate) struct App {
    pub(crate) name: AppName,
    keys: Keys,
}

enum Keys {
    /// All of a store.
    Pairs {
        keys: Arc<AppKeys>,
        /// The version that encrypts.
        encrypting: u32,
    },
    /// Those of one version, which encrypt.
    Public(PublicKeys),
}

impl App {
    /// The key pairs of a curve that may decrypt, with their versions, newest first; none if the public keys alone are known.
    pub(crate) fn versions(&self, curve: Curve) -> impl Iterator<Item = (u32, &KeyPair)> {
        let keys = match &self.keys {
            Keys::Pairs { keys, .. } => Some(keys),
            Keys::Public(_) => None,
        };
        let versions = keys.into_iter().flat_map(|keys| keys.active_versions());
        versions.map(move |version| (version.version, version.pair(curve)))
    }

    /// Checks that there are keys that decrypt.
    pub(crate) fn check_private(&self) -> Result<(), Error> {
        match &self.keys {
            Keys::Pairs { .. } => Ok(()),
            Keys::Public(_) => {
                let message =
                    format!("of app {} this engine has the public keys alone: it can encrypt, not decrypt", self.name);
                Err(Error::new(ErrorKind::Forbidden, message))
            }
        }
    }

    /// The public key of the newest version on a curve.
    pub(crate) fn newest(&self, curve: Curve) -> &PublicKey {
        match &self.keys {
            Keys::Pairs { .. } => self.versions(curve).next().expect("checked when the app was loaded").1.public(),
            Keys::Public(keys) => public_key(keys, curve),
        }
    }

    /// The version that encrypts, and its public key on a curve: the newest that every engine on the store knows.
    pub(crate) fn encrypting(&self, curve: Curve) -> (u32, &PublicKey) {
        match &self.keys {
            Keys::Pairs { encrypting, .. } => {
                let found = self.versions(curve).find(|(version, _)| version == encrypting);
                let (version, pair) = found.expect("chosen among them");
                (version, pair.public())
            }
            Keys::Public(keys) => (keys.version, public_key(keys, curve)),
        }
    }

    fn encrypts_with_newest(&self) -> bool {
        match &self.keys {
            Keys::Pairs { keys, encrypting } => {
                keys.newest_active().is_some_and(|newest| newest.version == *encrypting)
            }
            Keys::Public(_) => true,
        }
    }
}

/// The apps of an engine that knows their public keys alone.
pub(crate) type PublicApps = HashMap<AppName, Arc<App>>;

/// The apps with these keys; of several for the same app the last.
pub(crate) fn public_apps(apps: impl IntoIterator<Item = (AppName, PublicKeys)>) -> PublicApps {
    apps.into_iter().map(|(name, keys)| (name.clone(), Arc::new(App { name, keys: Keys::Public(keys) }))).collect()
}

fn public_key(keys: &PublicKeys, curve: Curve) -> &PublicKey {
    match curve {
        Curve::P256 => &keys.r1,
        Curve::Secp256k1 => &keys.k1,
    }
}

#[derive(Default)]
struct Known {
    generation: Option<Generation>,
    answered_at: Duration,
    /// When a change of the store was last noticed.
    changed_at: Duration,
    /// Whether an app in the cache does not encrypt with its newest version yet.
    has_newcomers: bool,
    /// Versions of apps that every engine knew before the last changes, and that this one has seen active ever since.
    established: HashMap<AppName, Vec<u32>>,
    apps: HashMap<AppName, Arc<App>>,
    clients: HashMap<ClientName, Arc<ClientGrant>>,
    api_keys: HashMap<ApiKeyId, Arc<ApiKey>>,
    app_lookups: Lookups,
    client_lookups: Lookups,
    api_key_lookups: Lookups,
}

impl Known {
    /// Whether the cache is of this generation, which was read before what is to be cached. The first one is that of the cache.
    fn is_of(&mut self, generation: Generation) -> bool {
        *self.generation.get_or_insert(generation) == generation
    }

    /// Takes the versions in the cache over a change. `was_settled`: nothing had changed for so long before it that every engine knows
    /// them.
    fn establish(&mut self, was_settled: bool) {
        let before = std::mem::take(&mut self.established);
        let of = |app: &App| {
            let Keys::Pairs { keys, .. } = &app.keys else { return Vec::new() };
            let was_established = |version: &u32| before.get(&app.name).is_some_and(|known| known.contains(version));
            let active = keys.active_versions().map(|version| version.version);
            active.filter(|version| was_settled || was_established(version)).collect()
        };
        self.established = self.apps.values().map(|app| (app.name.clone(), of(app))).collect();
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

/// The engine's cache of the store. Its size is limited by the store's own limits.
pub(crate) struct Directory {
    store: Box<dyn Keystore>,
    /// Apps beside the store, which do not change.
    public: PublicApps,
    /// [`crate::Settings::key_version_delay`]; zero where no other engine can use the store.
    key_version_delay: Duration,
    known: Mutex<Known>,
}

impl Directory {
    /// Everything in the store counts as changed at its start, `now`.
    pub(crate) fn new(
        store: Box<dyn Keystore>,
        public: PublicApps,
        key_version_delay: Duration,
        now: Duration,
    ) -> Self {
        let key_version_delay = if store.is_shared() { key_version_delay } else { Duration::ZERO };
        let known = Known { changed_at: now, answered_at: now, ..Known::default() };
        Self { store, public, key_version_delay, known: Mutex::new(known) }
    }

    pub(crate) fn store(&self) -> &dyn Keystore {
        &*self.store
    }

    fn known(&self) -> MutexGuard<'_, Known> {
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
    pub(crate) fn refresh(&self, clock: &dyn Clock) -> Result<bool, Error> {
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
    fn is_settled(&self, changed_at: Duration, clock: &dyn Clock) -> bool {
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
        clock: &dyn Clock,
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
    fn changed_at(&self, clock: &dyn Clock) -> Result<Duration, Error> {
        if self.key_version_delay.is_zero() {
            return Ok(Duration::ZERO);
        }
        let generation = self.store.generation()?;
        let known = self.known();
        Ok(if known.generation == Some(generation) { known.changed_at } else { clock.monotonic() })
    }

    /// Lets apps in the cache encrypt with new versions whose time has come.
    fn promote(&self, known: &mut Known, clock: &dyn Clock) {
        let Known { apps, established, changed_at, .. } = known;
        let mut has_newcomers = false;
        for app in apps.values_mut() {
            let Keys::Pairs { keys, encrypting } = &app.keys else { continue };
            let established = established.get(&app.name).map(Vec::as_slice);
            let chosen =
                self.encrypting(keys, established, *changed_at, clock).expect("checked when the app was loaded");
            if chosen != *encrypting {
                let keys = Keys::Pairs { keys: Arc::clone(keys), encrypting: chosen };
                *app = Arc::new(App { name: app.name.clone(), keys });
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
        known.apps.clear();
        known.has_newcomers = false;
        known.clients.clear();
        known.api_keys.clear();
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

    /// The API key, revoked or not. Unknown ids are not cached, so that invented ones use no memory.
    pub(crate) fn api_key(&self, id: &ApiKeyId) -> Result<Option<Arc<ApiKey>>, Error> {
        if let Some(key) = self.known().find_api_key(id) {
            return Ok(Some(key));
        }
        let generation = self.store.generation()?;
        let Some(key) = self.store.api_key(id)?.map(Arc::new) else { return Ok(None) };
        let mut known = self.known();
        if known.is_of(generation) {
            known.api_keys.insert(id.clone(), Arc::clone(&key));
        }
        Ok(Some(key))
    }

    pub(crate) fn app(&self, name: &AppName, clock: &dyn Clock) -> Result<Arc<App>, Error> {
        if let Some(app) = self.public.get(name) {
            return Ok(Arc::clone(app));
        }
        if let Some(app) = self.known().find_app(name) {
            return Ok(app);
        }
        let generation = self.store.generation()?;
        let keys = self.store.load_app(name)?;
        let keys = keys.ok_or_else(|| Error::new(ErrorKind::UnknownApp, format!("there is no app {name}")))?;
        let changed_at = self.changed_at(clock)?;
        let established = self.known().established.get(name).cloned();
        let encrypting = self.encrypting(&keys, established.as_deref(), changed_at, clock);
        let Some(encrypting) = encrypting.filter(|_| !keys.disabled) else {
            return Err(Error::new(ErrorKind::AppDisabled, format!("app {name} is disabled")));
        };
        let app = Arc::new(App { name: name.clone(), keys: Keys::Pairs { keys: Arc::new(keys), encrypting } });
        let mut known = self.known();
        // Keys that were read before a change must not outlive the refresh that follows it.
        if known.is_of(generation) {
            known.has_newcomers |= !app.encrypts_with_newest();
            known.apps.insert(name.clone(), Arc::clone(&app));
        }
        Ok(app)
    }

    pub(crate) fn client(&self, name: &ClientName) -> Result<Arc<ClientGrant>, Error> {
        if let Some(grant) = self.known().find_client(name) {
            return Ok(grant);
        }
        let generation = self.store.generation()?;
        let grant = self.store.client(name)?;
        let grant = grant
            .map(Arc::new)
            .ok_or_else(|| Error::new(ErrorKind::Forbidden, format!("client {name} is not known to this engine")))?;
        let mut known = self.known();
        if known.is_of(generation) {
            known.clients.insert(name.clone(), Arc::clone(&grant));
        }
        Ok(grant)
    }
}
