//! Caches apps and grants, which are read from the store on first use and dropped when the store changes. Private keys exist decrypted only
//! here and in what is derived from them; they are wiped when the last request that uses them ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fieldseal_crypto::Curve;
use fieldseal_keystore::{ApiKey, ApiKeyId, AppKeys, AppName, ClientGrant, ClientName, Generation, KeyPair, Keystore};

use crate::counters::{CacheCounters, Lookups};
use crate::error::{Error, ErrorKind};

/// An app whose keys may be used.
pub(crate) struct App {
    pub(crate) name: AppName,
    keys: AppKeys,
}

impl App {
    /// The key pairs of a curve that may decrypt, with their versions, newest first.
    pub(crate) fn versions(&self, curve: Curve) -> impl Iterator<Item = (u32, &KeyPair)> {
        self.keys.active_versions().map(move |version| (version.version, version.pair(curve)))
    }

    /// The version that encrypts, and its key pair on a curve.
    pub(crate) fn newest(&self, curve: Curve) -> (u32, &KeyPair) {
        self.versions(curve).next().expect("checked when the app was loaded")
    }
}

#[derive(Default)]
struct Known {
    generation: Option<Generation>,
    answered_at: Duration,
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
    known: Mutex<Known>,
}

impl Directory {
    pub(crate) fn new(store: Box<dyn Keystore>) -> Self {
        Self { store, known: Mutex::default() }
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
    pub(crate) fn refresh(&self, now: Duration) -> Result<bool, Error> {
        let generation = self.store.generation()?;
        let mut known = self.known();
        known.answered_at = now;
        Ok(known.generation.replace(generation) != Some(generation))
    }

    /// For how long the store has not responded.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.known().answered_at)
    }

    /// Drops apps and grants, so that the next request reads them again.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.apps.clear();
        known.clients.clear();
        known.api_keys.clear();
    }

    /// Whether the app is cached as existing and enabled; does not access the store.
    pub(crate) fn knows_app(&self, name: &AppName) -> bool {
        self.known().apps.contains_key(name)
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

    pub(crate) fn app(&self, name: &AppName) -> Result<Arc<App>, Error> {
        if let Some(app) = self.known().find_app(name) {
            return Ok(app);
        }
        let generation = self.store.generation()?;
        let keys = self.store.load_app(name)?;
        let keys = keys.ok_or_else(|| Error::new(ErrorKind::UnknownApp, format!("there is no app {name}")))?;
        if keys.disabled || keys.newest_active().is_none() {
            return Err(Error::new(ErrorKind::AppDisabled, format!("app {name} is disabled")));
        }
        let app = Arc::new(App { name: name.clone(), keys });
        let mut known = self.known();
        // Keys that were read before a change must not outlive the refresh that follows it.
        if known.is_of(generation) {
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
