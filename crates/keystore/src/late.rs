//! A store that is opened while its program runs already, by what a person brings.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leafseal_crypto::Secret;

use crate::slots::{MadeSlot, RemainingSlots, SlotId, SlotProvider, SlotSummary};
use crate::store_id::StoreId;
use crate::{
    ApiKey, ApiKeyId, AppKeys, AppName, AppPublicKeys, AppSummary, CheckReport, ClientGrant, ClientName, Generation,
    KeyLife, Keystore, MemoryStatus, Migration, NewApiKey, NewClient, NewKeys, RootRotation, ScanStep, StoreError,
    StoreScan, TOKEN_SECRET_SIZE, VersionSummary,
};

/// Opens a store with what is given.
pub type StoreOpener = Box<dyn Fn(Vec<Box<dyn SlotProvider>>) -> Result<Box<dyn Keystore>, StoreError> + Send + Sync>;

type ChangeHint = Box<dyn Fn() + Send + Sync>;

/// A [`Keystore`] that answers every call with [`StoreError::Unopened`] until [`Keystore::unseal`] has opened it.
pub struct LateKeystore {
    opened: OnceLock<Box<dyn Keystore>>,
    opener: StoreOpener,
    is_shared: bool,
    /// Callbacks for changes, registered when the store opens. The mutex also serialises opening.
    hints: Mutex<Vec<ChangeHint>>,
}

impl LateKeystore {
    /// A store that `opener` opens. `is_shared`: what [`Keystore::is_shared`] will be.
    pub fn new(opener: StoreOpener, is_shared: bool) -> Self {
        Self { opened: OnceLock::new(), opener, is_shared, hints: Mutex::default() }
    }

    fn opened(&self) -> Result<&dyn Keystore, StoreError> {
        self.opened.get().map(AsRef::as_ref).ok_or(StoreError::Unopened)
    }

    /// An opening that panicked has opened nothing.
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
        let mut hints = self.lock_hints();
        match self.opened.get() {
            Some(store) => store.on_change(hint),
            None => hints.push(hint),
        }
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn life(&self) -> Option<&dyn KeyLife> {
        self.opened.get().and_then(|store| store.life())
    }

    fn memory(&self) -> MemoryStatus {
        self.opened.get().map_or_else(MemoryStatus::default, |store| store.memory())
    }

    fn sighting(&self) -> Option<String> {
        self.opened.get().and_then(|store| store.sighting())
    }

    fn is_sealed(&self) -> bool {
        self.opened.get().is_none_or(|store| store.is_sealed())
    }

    fn sealed_slots(&self) -> Result<Option<Vec<SlotSummary>>, StoreError> {
        if let Some(store) = self.opened.get() {
            return store.sealed_slots();
        }
        match (self.opener)(Vec::new()) {
            Err(StoreError::Sealed { slots, .. }) => Ok(Some(slots)),
            other => other.map(|_| Some(Vec::new())),
        }
    }

    fn unseal(&self, provider: Box<dyn SlotProvider>) -> Result<(), StoreError> {
        let mut hints = self.lock_hints();
        if let Some(store) = self.opened.get() {
            drop(hints);
            return store.unseal(provider);
        }
        let store = (self.opener)(vec![provider])?;
        let store = self.opened.get_or_init(|| store);
        for hint in hints.drain(..) {
            hint();
            store.on_change(hint);
        }
        Ok(())
    }

    delegate! {
        fn generation(&self) -> Generation;
        fn create_app(&self, app: &AppName, keys: NewKeys) -> AppSummary;
        fn add_version(&self, app: &AppName, keys: NewKeys) -> VersionSummary;
        fn list_apps(&self) -> Vec<AppSummary>;
        fn app_summary(&self, app: &AppName) -> Option<AppSummary>;
        fn load_app(&self, app: &AppName) -> Option<AppKeys>;
        fn public_keys(&self, app: &AppName) -> Option<AppPublicKeys>;
        fn disable_app(&self, app: &AppName) -> ();
        fn enable_app(&self, app: &AppName) -> ();
        fn disable_version(&self, app: &AppName, version: u32) -> ();
        fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> ();
        fn enable_version(&self, app: &AppName, version: u32) -> ();
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
        fn slots(&self) -> Vec<SlotSummary>;
        fn make_slot(&self, provider: &dyn SlotProvider) -> MadeSlot;
        fn put_slot(&self, slot: &MadeSlot, instead_of: Option<&SlotId>) -> ();
        fn remove_slot(&self, slot: &SlotId, remaining: RemainingSlots<'_>) -> ();
        fn rotate_root(&self, link: Option<Duration>, progress: &mut dyn FnMut(usize, usize)) -> RootRotation;
        fn remove_root_links(&self) -> ();
        fn check(&self) -> CheckReport;
        fn remember(&self, folder: &Path) -> ();
        fn expect_store(&self, id: &StoreId) -> ();
        fn accept_store(&self, id: &StoreId, folder: &Path) -> ();
        fn learn(&self, sighting: &str) -> ();
        fn accept_generation(&self, generation: u64, folder: Option<&Path>) -> u64;
        fn scan(&self, scan: &mut StoreScan) -> ScanStep;
    }
}
