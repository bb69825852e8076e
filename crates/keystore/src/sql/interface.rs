//! The interface of a store in tables.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leafseal_crypto::Secret;

use super::session::VersionSelection;
use super::{
    EnabledState, SqlBackend, SqlKeystore, api_keys, apps, canaries, clients, descent, life, rotation, schema,
};
use crate::accepted::AcceptedSchemes;
use crate::canary::StoreCanaries;
use crate::escrowed::{EscrowImport, EscrowImported};
use crate::history::{ChangeKind, ChangeNote, StoreHistory};
use crate::life::KeyLife;
use crate::log_frames::LogFrames;
use crate::memory::{MemoryStatus, PeerSighting};
use crate::model::{
    ApiKey, AppKeys, AppSummary, CheckReport, ClientGrant, KeyState, Migration, NewApiKey, NewClient, NewKeys,
    RootRotation, TOKEN_SECRET_SIZE, VersionSummary,
};
use crate::record_key::RecordKey;
use crate::scan::{ScanStep, StoreScan};
use crate::slots::{MadeSlot, RemainingSlots, SlotId, SlotProvider, SlotSummary};
use crate::store::{Generation, Keystore};
use crate::store_id::StoreId;
use crate::{ApiKeyId, AppName, ClientName, StoreError};

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
        self.change(ChangeNote::of(ChangeKind::CreateApp).app(app).version(1), |session| {
            self.insert_app(session, app, keys)
        })
    }

    fn add_version(&self, app: &AppName, keys: NewKeys) -> Result<VersionSummary, StoreError> {
        self.change(ChangeNote::of(ChangeKind::AddVersion).app(app), |session| self.append_version(session, app, keys))
    }

    fn import_escrow(&self, app: &AppName, import: EscrowImport) -> Result<EscrowImported, StoreError> {
        self.change(ChangeNote::of(ChangeKind::ImportEscrow).app(app), |session| {
            self.insert_escrowed(session, app, import)
        })
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
            let canaries = canaries::set(session, &row.canaries)?;
            Ok(Some((row, apps::versions(session, app, VersionSelection::Active)?, canaries)))
        })?;
        // The keys are opened outside the transaction: it takes some 100 µs a version.
        let opened = found.map(|(row, versions, canaries)| {
            let keys = self.open_app(&open, row, &versions)?;
            Ok(AppKeys { canaries, ..keys })
        });
        opened.transpose()
    }

    fn disable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::DisableApp).app(app), |session| {
            apps::set_state(session, app, EnabledState::Disabled)
        })
    }

    fn enable_app(&self, app: &AppName) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::EnableApp).app(app), |session| {
            life::refuse_pending(session, app)?;
            apps::set_state(session, app, EnabledState::Enabled)
        })
    }

    fn disable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::DisableVersion).app(app).version(version), |session| {
            if session.version_numbers(app.as_str(), VersionSelection::Active)? == [version] {
                let app = app.clone();
                return Err(StoreError::LastActiveVersion { app, version });
            }
            apps::set_version_state(session, app, version, KeyState::Disabled)
        })
    }

    fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::TrimVersions).app(app).list(versions), |session| {
            versions.iter().try_for_each(|version| apps::trim(session, app, *version))
        })
    }

    fn enable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError> {
        let (open, row) = self.read_open(|session| apps::version(session, app, version))?;
        if row.is_trimmed() {
            let app = app.clone();
            return Err(StoreError::TrimmedVersion { app, version });
        }
        // Outside the transaction, as for an app: what was wrapped never changes.
        self.open_version(&open, app, &row)?;
        self.change(ChangeNote::of(ChangeKind::EnableVersion).app(app).version(version), |session| {
            apps::set_version_state(session, app, version, KeyState::Active)
        })
    }

    fn set_accepted(&self, app: &AppName, accept: AcceptedSchemes) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::SetAccepted).app(app), |session| {
            apps::set_accepted(session, app, accept)
        })
    }

    fn put_client(&self, client: &NewClient) -> Result<ClientGrant, StoreError> {
        self.change(ChangeNote::of(ChangeKind::PutClient).client(client.name.as_str()), |session| {
            clients::put(session, client, self.now(), &self.limits)
        })
    }

    fn renew_client(
        &self,
        client: &ClientName,
        certificate_sha256: [u8; 32],
        old_until: u64,
    ) -> Result<ClientGrant, StoreError> {
        self.change(ChangeNote::of(ChangeKind::RenewClient).client(client.as_str()), |session| {
            clients::renew(session, client, certificate_sha256, old_until, self.now())
        })
    }

    fn client(&self, client: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
        self.read(|session| clients::find(session, client))
    }

    fn list_clients(&self) -> Result<Vec<ClientGrant>, StoreError> {
        self.read(clients::all)
    }

    fn disable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::DisableClient).client(client.as_str()), |session| {
            clients::set_state(session, client, EnabledState::Disabled)
        })
    }

    fn enable_client(&self, client: &ClientName) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::EnableClient).client(client.as_str()), |session| {
            clients::set_state(session, client, EnabledState::Enabled)
        })
    }

    fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, StoreError> {
        let id = ApiKeyId::random(self.rng().as_mut());
        self.change(ChangeNote::of(ChangeKind::CreateApiKey).app(&key.app).detail(id.as_str()), |session| {
            api_keys::insert(session, id, key, self.now(), &self.limits)
        })
    }

    fn api_key(&self, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.read(|session| api_keys::find(session, id))
    }

    fn list_api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.read(api_keys::all)
    }

    fn revoke_api_key(&self, id: &ApiKeyId) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::RevokeApiKey).detail(id.as_str()), |session| {
            api_keys::revoke(session, id, self.now())
        })
    }

    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError> {
        let id = self.id;
        match self.read(|session| api_keys::token_secret(session, id))? {
            Some(secret) => Ok(secret),
            // The generator is locked after the database, as everywhere.
            None => self.change(ChangeNote::of(ChangeKind::MakeTokenSecret), |session| {
                api_keys::token_secret_or_new(session, id, self.rng().as_mut())
            }),
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
        self.change(ChangeNote::of(ChangeKind::RemoveRootLinks), rotation::remove_links)
    }

    fn life(&self) -> Option<&dyn KeyLife> {
        Some(self)
    }

    fn canaries(&self) -> Option<&dyn StoreCanaries> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn StoreHistory> {
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

    fn log_frames(&self, origin: &str) -> Result<Option<Box<dyn LogFrames>>, StoreError> {
        self.backend.log_frames(&self.limits, origin)
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
