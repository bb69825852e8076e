//! The store of an engine that knows public keys alone: it is empty and cannot be changed.

use std::collections::BTreeSet;
use std::path::Path;

use leafseal_keystore::{
    AcceptedSchemes, ApiKey, ApiKeyId, AppKeys, AppName, AppSummary, CheckReport, ClientGrant, ClientName,
    EscrowImport, EscrowImported, Generation, Keystore, MemoryStatus, Migration, NewApiKey, NewClient, NewKeys,
    PeerSighting, RecordKey, ScanStep, Secret, StoreError, StoreId, StoreScan, TOKEN_SECRET_SIZE, VersionSummary,
};

/// See the module.
pub(crate) struct NoStore;

fn no_store<T>() -> Result<T, StoreError> {
    Err(StoreError::NoStore(Path::new("(public keys alone)").into()))
}

impl Keystore for NoStore {
    fn generation(&self) -> Result<Generation, StoreError> {
        Ok(Generation { replacements: 0, changes: 0, mark: 0 })
    }

    fn create_app(&self, _: &AppName, _: NewKeys) -> Result<AppSummary, StoreError> {
        no_store()
    }

    fn add_version(&self, _: &AppName, _: NewKeys) -> Result<VersionSummary, StoreError> {
        no_store()
    }

    fn import_escrow(&self, _: &AppName, _: EscrowImport) -> Result<EscrowImported, StoreError> {
        no_store()
    }

    fn list_apps(&self) -> Result<Vec<AppSummary>, StoreError> {
        no_store()
    }

    fn app_summary(&self, _: &AppName) -> Result<Option<AppSummary>, StoreError> {
        no_store()
    }

    fn load_app(&self, _: &AppName) -> Result<Option<AppKeys>, StoreError> {
        Ok(None)
    }

    fn disable_app(&self, _: &AppName) -> Result<(), StoreError> {
        no_store()
    }

    fn enable_app(&self, _: &AppName) -> Result<(), StoreError> {
        no_store()
    }

    fn disable_version(&self, _: &AppName, _: u32) -> Result<(), StoreError> {
        no_store()
    }

    fn trim_versions(&self, _: &AppName, _: &BTreeSet<u32>) -> Result<(), StoreError> {
        no_store()
    }

    fn enable_version(&self, _: &AppName, _: u32) -> Result<(), StoreError> {
        no_store()
    }

    fn set_accepted(&self, _: &AppName, _: AcceptedSchemes) -> Result<(), StoreError> {
        no_store()
    }

    fn put_client(&self, _: &NewClient) -> Result<ClientGrant, StoreError> {
        no_store()
    }

    fn renew_client(&self, _: &ClientName, _: [u8; 32], _: u64) -> Result<ClientGrant, StoreError> {
        no_store()
    }

    fn client(&self, _: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
        Ok(None)
    }

    fn list_clients(&self) -> Result<Vec<ClientGrant>, StoreError> {
        no_store()
    }

    fn disable_client(&self, _: &ClientName) -> Result<(), StoreError> {
        no_store()
    }

    fn enable_client(&self, _: &ClientName) -> Result<(), StoreError> {
        no_store()
    }

    fn create_api_key(&self, _: &NewApiKey) -> Result<ApiKey, StoreError> {
        no_store()
    }

    fn api_key(&self, _: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        Ok(None)
    }

    fn list_api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        no_store()
    }

    fn revoke_api_key(&self, _: &ApiKeyId) -> Result<(), StoreError> {
        no_store()
    }

    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
        no_store()
    }

    fn plan_migration(&self) -> Result<Migration, StoreError> {
        no_store()
    }

    fn migrate(&self, _: &mut dyn FnMut(usize, usize)) -> Result<Migration, StoreError> {
        no_store()
    }

    fn check(&self) -> Result<CheckReport, StoreError> {
        no_store()
    }

    fn remember(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn memory(&self) -> MemoryStatus {
        MemoryStatus::default()
    }

    fn record_key(&self, _: &str, _: Option<u32>) -> Result<Option<RecordKey>, StoreError> {
        Ok(None)
    }

    fn sighting(&self, _: &str) -> Option<String> {
        None
    }

    fn learn(&self, _: &PeerSighting) -> Result<(), StoreError> {
        no_store()
    }

    fn expect_store(&self, _: &StoreId) -> Result<(), StoreError> {
        no_store()
    }

    fn accept_store(&self, _: &StoreId, _: &Path) -> Result<(), StoreError> {
        no_store()
    }

    fn accept_generation(&self, _: u64, _: Option<&Path>) -> Result<u64, StoreError> {
        no_store()
    }

    fn scan(&self, _: &mut StoreScan) -> Result<ScanStep, StoreError> {
        Ok(ScanStep { is_last: true, ..ScanStep::default() })
    }
}
