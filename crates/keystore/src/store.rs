//! The interface of a store, and what every store needs from its surroundings.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use leafseal_config::{ms, secs, settings};
use leafseal_crypto::{CryptoRng, Secret};

use crate::canary::StoreCanaries;
use crate::history::{ChangeAuthor, StoreHistory};
use crate::life::KeyLife;
use crate::log_frames::LogFrames;
use crate::slots::{MadeSlot, RemainingSlots, SlotId, SlotProvider, SlotSummary};
use crate::store_id::StoreId;
use crate::{
    AcceptedSchemes, ApiKey, ApiKeyId, AppKeys, AppName, AppPublicKeys, AppSummary, CheckReport, ClientGrant,
    ClientName, EscrowImport, EscrowImported, MemoryStatus, Migration, NewApiKey, NewClient, NewKeys, PeerSighting,
    RecordKey, RootRotation, ScanStep, StoreError, StoreScan, TOKEN_SECRET_SIZE, VersionSummary,
};

settings! {
    /// Bounds of a store. A change that would pass one is refused; what is stored already still reads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StoreLimits {
        /// Maximum number of apps in the store.
        pub app_count_max: u32 = 100_000, in 1..=10_000_000;
        /// Maximum number of key versions of an app, without trimmed ones: `leafseal keys trim` destroys the keys of disabled versions.
        // Opening an old envelope may try each once, so this bounds that search too.
        pub version_count_max: u32 = 256, in 1..=65_536;
        /// Maximum number of clients in the store.
        pub client_count_max: u32 = 100_000, in 1..=10_000_000;
        /// Maximum number of API keys in the store, revoked ones included.
        pub api_key_count_max: u32 = 100_000, in 1..=10_000_000;
        /// Maximum number of apps that one grant names, and, counted separately, of roles.
        pub grant_entry_count_max: u32 = 1_000, in 1..=100_000;
        /// Maximum size of the store's file. Does not apply to PostgreSQL.
        pub store_size_max: u64 = 1 << 30, bytes in 1 << 20..=1 << 40;
        /// Maximum number of key slots of the store.
        pub slot_count_max: u32 = 32, in 1..=1_000;
        /// Maximum number of changes of which the store keeps a record: the newest. Engines carry them into their audit logs.
        pub change_count_max: u32 = 10_000, in 100..=1_000_000;
        /// How long a command waits while another process has locked the store.
        pub busy_timeout: Duration = secs(5), in ms(0)..;
    }
}

/// Returns the time.
pub trait WallClock: Send + Sync {
    /// Unix seconds.
    fn now_unix_s(&self) -> u64;
}

impl<F: Fn() -> u64 + Send + Sync> WallClock for F {
    fn now_unix_s(&self) -> u64 {
        self()
    }
}

/// The system's clock, a [`WallClock`]; 0 before 1970.
pub fn system_clock() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The external inputs of a store.
pub struct Environment {
    /// What may open the store's slots. A new store gets a slot of each.
    pub providers: Vec<Box<dyn SlotProvider>>,
    /// Dates apps, versions and grants.
    pub clock: Box<dyn WallClock>,
    /// Makes keys, nonces and ids.
    pub rng: Box<dyn CryptoRng + Send>,
    /// Who changes the store, for its history.
    pub author: ChangeAuthor,
}

/// Differs whenever the store may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation {
    /// How often another copy of the store was put in its place since it was opened, or the connection to it was made again: a restored
    /// one may have any number of changes.
    pub replacements: u64,
    /// Counts the changes of the store.
    pub changes: u64,
    /// Differs with what the store contains, where it is authenticated; before that random and new with each change, where another copy of
    /// the store can take over unnoticed, as a standby does. The same count may mean other changes.
    pub mark: u64,
}

/// Apps, their key versions and the clients' grants. Every change is one transaction: after any crash it is complete or has had
/// no effect. Calls block for the disk, so they belong on a thread that may wait.
pub trait Keystore: Send + Sync {
    /// Changes with every change of the store, by any process. Cheap enough to read every second. A caller that caches answers must
    /// read the generation before them, so that a change in between is noticed later.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Storage`]; and, as every other call, [`Error::NoStore`] and [`Error::OtherStore`] when the store has gone.
    fn generation(&self) -> Result<Generation, StoreError>;

    /// Calls `hint` when the store may have changed, from a thread that must not be kept: a hint to read the generation now. Hints may
    /// be missing, so the generation must be polled too; a store in a file gives none.
    fn on_change(&self, hint: Box<dyn Fn() + Send + Sync>) {
        drop(hint);
    }

    /// Whether engines on other machines may use the store, too, and learn of a change at another time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether a person must open it ([`Keystore::unseal`]), as far as is known without waiting.
    fn is_sealed(&self) -> bool {
        false
    }

    /// The slots of a store that a person must open; `None` if it is open.
    ///
    /// # Errors
    /// As when it is opened, and those of [`Keystore::generation`].
    fn sealed_slots(&self) -> Result<Option<Vec<SlotSummary>>, StoreError> {
        Ok(None)
    }

    /// Opens a store that is sealed, or whose root was replaced without a way to the new one. No change if it is open.
    ///
    /// # Errors
    /// [`Error::Sealed`] if this does not open it; others as when it is opened.
    fn unseal(&self, _: Box<dyn SlotProvider>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes an app with version 1 of its keys.
    ///
    /// # Errors
    /// [`Error::AppExists`], [`Error::KeyInUse`], [`Error::SymmetricKeyInUse`], [`Error::OldSchema`],
    /// [`Error::TooMany`], [`Error::Busy`], [`Error::Full`], [`Error::RootKey`].
    fn create_app(&self, app: &AppName, keys: NewKeys) -> Result<AppSummary, StoreError>;

    /// Makes a new version, which encrypts from then on; the ones before it still decrypt.
    ///
    /// # Errors
    /// [`Error::UnknownApp`], [`Error::KeyInUse`], [`Error::SymmetricKeyInUse`], [`Error::OldSchema`],
    /// [`Error::TooMany`], [`Error::Busy`], [`Error::Full`], [`Error::RootKey`].
    fn add_version(&self, app: &AppName, keys: NewKeys) -> Result<VersionSummary, StoreError>;

    /// Takes key versions back from escrow, all or none, the oldest first: as new versions of an app, or as a new app, which accepts what
    /// the newest of them says. Their statements must be signed by this store, under a root that nobody else has had, or by
    /// [`EscrowImport::signer`]. They are dated as made now: engines count from then until a version encrypts.
    ///
    /// # Errors
    /// [`Error::Escrow`], and as [`Keystore::create_app`] and [`Keystore::add_version`].
    fn import_escrow(&self, app: &AppName, import: EscrowImport) -> Result<EscrowImported, StoreError>;

    /// [`Keystore::add_version`] with generated keys.
    ///
    /// # Errors
    /// As [`Keystore::add_version`].
    fn rotate(&self, app: &AppName) -> Result<VersionSummary, StoreError> {
        self.add_version(app, NewKeys::generated())
    }

    /// All apps by name, at most [`StoreLimits::app_count_max`], without private keys.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Inconsistent`], [`Error::DamagedKey`] for a public key that does not read.
    fn list_apps(&self) -> Result<Vec<AppSummary>, StoreError>;

    /// Returns an app without private keys, or `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Keystore::list_apps`].
    fn app_summary(&self, app: &AppName) -> Result<Option<AppSummary>, StoreError>;

    /// Returns an app with the decrypted keys of its active versions, each verified to match its public key; `None` if there is no
    /// such app. Disabled versions are not read, so damage to one does no harm. A disabled app loads too: callers check
    /// [`AppKeys::disabled`].
    ///
    /// # Errors
    /// [`Error::DamagedKey`], [`Error::Busy`], [`Error::Inconsistent`], [`Error::RootKey`].
    fn load_app(&self, app: &AppName) -> Result<Option<AppKeys>, StoreError>;

    /// The public keys that new values are encrypted to, or `None` where there is no such app. Proven against the private keys,
    /// so that no caller encrypts to a key that was slipped into the store.
    ///
    /// # Errors
    /// As [`Keystore::load_app`].
    fn public_keys(&self, app: &AppName) -> Result<Option<AppPublicKeys>, StoreError> {
        let Some(keys) = self.load_app(app)? else {
            return Ok(None);
        };
        let newest = keys.newest_active().ok_or(StoreError::Inconsistent("an app has no active version"))?;
        Ok(Some(AppPublicKeys { version: newest.version, r1: *newest.r1.public(), k1: *newest.k1.public() }))
    }

    /// Disables all keys of an app in one transaction. No change if they are disabled already.
    ///
    /// # Errors
    /// [`Error::UnknownApp`], [`Error::Busy`], [`Error::Full`].
    fn disable_app(&self, app: &AppName) -> Result<(), StoreError>;

    /// Undoes [`Keystore::disable_app`].
    ///
    /// # Errors
    /// As [`Keystore::disable_app`].
    fn enable_app(&self, app: &AppName) -> Result<(), StoreError>;

    /// Puts one version out of use. When it was the newest active one, the next older active one encrypts from then on.
    ///
    /// # Errors
    /// [`Error::LastActiveVersion`], [`Error::UnknownApp`], [`Error::UnknownVersion`], [`Error::Busy`], [`Error::Full`].
    fn disable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError>;

    /// Destroys the private and public keys of disabled versions, in one transaction. Their numbers stay taken; what they encrypted can
    /// never be decrypted again, except with a backup.
    ///
    /// # Errors
    /// [`Error::ActiveVersion`], [`Error::TrimmedVersion`], [`Error::UnknownApp`], [`Error::UnknownVersion`], [`Error::Busy`],
    /// [`Error::Full`].
    fn trim_versions(&self, app: &AppName, versions: &BTreeSet<u32>) -> Result<(), StoreError>;

    /// Undoes [`Keystore::disable_version`], if the keys of the version open: a damaged one would put the whole app out of use.
    ///
    /// # Errors
    /// [`Error::TrimmedVersion`], [`Error::DamagedKey`], [`Error::Inconsistent`], [`Error::UnknownApp`], [`Error::UnknownVersion`],
    /// [`Error::Busy`], [`Error::Full`], [`Error::RootKey`].
    fn enable_version(&self, app: &AppName, version: u32) -> Result<(), StoreError>;

    /// Sets which envelopes of an app are decrypted; others fail to, as damaged ones do.
    ///
    /// # Errors
    /// [`Error::UnknownApp`], [`Error::OldSchema`], [`Error::Busy`], [`Error::Full`].
    fn set_accepted(&self, app: &AppName, accept: AcceptedSchemes) -> Result<(), StoreError>;

    /// Replaces a client's grant with `client`. A disabled client stays disabled and keeps its date: use
    /// [`Keystore::enable_client`] to enable it.
    ///
    /// # Errors
    /// [`Error::UnknownApp`] for an app in the grant, [`Error::TooMany`], [`Error::Busy`], [`Error::Full`].
    fn put_client(&self, client: &NewClient) -> Result<ClientGrant, StoreError>;

    /// Accepts a new certificate of a client, whose permissions stay, and its present one until `old_until` (Unix seconds). No change if
    /// the grant accepts every certificate of the client's name.
    ///
    /// # Errors
    /// [`Error::UnknownClient`], [`Error::OldSchema`], [`Error::Busy`], [`Error::Full`].
    fn renew_client(
        &self,
        client: &ClientName,
        certificate_sha256: [u8; 32],
        old_until: u64,
    ) -> Result<ClientGrant, StoreError>;

    /// One client's grant, or `None`.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Inconsistent`].
    fn client(&self, client: &ClientName) -> Result<Option<ClientGrant>, StoreError>;

    /// All grants by name, at most [`StoreLimits::client_count_max`].
    ///
    /// # Errors
    /// As [`Keystore::client`].
    fn list_clients(&self) -> Result<Vec<ClientGrant>, StoreError>;

    /// Takes everything from a client. No change when it is disabled already.
    ///
    /// # Errors
    /// [`Error::UnknownClient`], [`Error::Busy`], [`Error::Full`].
    fn disable_client(&self, client: &ClientName) -> Result<(), StoreError>;

    /// Undoes [`Keystore::disable_client`].
    ///
    /// # Errors
    /// As [`Keystore::disable_client`].
    fn enable_client(&self, client: &ClientName) -> Result<(), StoreError>;

    /// Makes an API key; its id is random.
    ///
    /// # Errors
    /// [`Error::UnknownApp`], [`Error::TooMany`], [`Error::Busy`], [`Error::Full`].
    fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, StoreError>;

    /// One API key, revoked or not, or `None`.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Inconsistent`].
    fn api_key(&self, id: &ApiKeyId) -> Result<Option<ApiKey>, StoreError>;

    /// All API keys by app, at most [`StoreLimits::api_key_count_max`].
    ///
    /// # Errors
    /// As [`Keystore::api_key`].
    fn list_api_keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes an API key for good. No change when it is revoked already.
    ///
    /// # Errors
    /// [`Error::UnknownApiKey`], [`Error::Busy`], [`Error::Full`].
    fn revoke_api_key(&self, id: &ApiKeyId) -> Result<(), StoreError>;

    /// The secret that signs client-side tokens, the same for all processes that share the store; created on first use.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Full`], [`Error::RootKey`], [`Error::Inconsistent`] when it does not open.
    fn token_secret(&self) -> Result<Secret<TOKEN_SECRET_SIZE>, StoreError>;

    /// The part of the store that rotates and deletes keys when their time has come, where it has one.
    fn life(&self) -> Option<&dyn KeyLife> {
        None
    }

    /// The part of the store that knows canaries, where it has one.
    fn canaries(&self) -> Option<&dyn StoreCanaries> {
        None
    }

    /// The part of the store that knows its changes, where it has one.
    fn history(&self) -> Option<&dyn StoreHistory> {
        None
    }

    /// What [`Keystore::migrate`] would do. Every private key is opened, and nothing is changed.
    ///
    /// # Errors
    /// [`Error::DamagedKey`], [`Error::Inconsistent`], [`Error::Busy`], [`Error::RootKey`].
    fn plan_migration(&self) -> Result<Migration, StoreError>;

    /// Brings the store to the newest schema, in one transaction. Programs that do not know it refuse the store from then on. `progress`
    /// receives how many keys and secrets have been sealed again, and how many there are.
    ///
    /// # Errors
    /// As [`Keystore::plan_migration`], and [`Error::Full`].
    fn migrate(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<Migration, StoreError>;

    /// The key slots, oldest first; none before schema 3.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Edited`], [`Error::Inconsistent`].
    fn slots(&self) -> Result<Vec<SlotSummary>, StoreError> {
        Ok(Vec::new())
    }

    /// Makes a slot for [`Keystore::put_slot`]. The provider is called twice: it must open what it wrapped. Changes nothing.
    ///
    /// # Errors
    /// [`Error::NoSlots`], [`Error::Provider`], [`Error::Busy`].
    fn make_slot(&self, _: &dyn SlotProvider) -> Result<MadeSlot, StoreError> {
        Err(StoreError::NoSlots)
    }

    /// Stores a slot, and removes another, if one is given, in the same change.
    ///
    /// # Errors
    /// [`Error::NoSlots`], [`Error::TooMany`], [`Error::UnknownSlot`], [`Error::Full`]; [`Error::Busy`] also if the store has another root
    /// by now.
    fn put_slot(&self, _: &MadeSlot, _instead_of: Option<&SlotId>) -> Result<(), StoreError> {
        Err(StoreError::NoSlots)
    }

    /// Removes a slot. Who has an older copy of the store and what opened the slot can still open that copy.
    ///
    /// # Errors
    /// [`Error::NoSlots`], [`Error::UnknownSlot`], [`Error::LastSlot`], [`Error::UntestedSlots`], [`Error::Busy`], [`Error::Full`].
    fn remove_slot(&self, _: &SlotId, _: RemainingSlots<'_>) -> Result<(), StoreError> {
        Err(StoreError::NoSlots)
    }

    /// Puts the store under a new root, which every slot opens from then on, in one change: every private key is sealed again. Running
    /// engines follow for `link`, or not at all: those whose slots no provider opens by itself must then be unsealed. `progress`: keys that
    /// were sealed again, of all.
    ///
    /// # Errors
    /// [`Error::NoSlots`], [`Error::DamagedKey`], [`Error::Edited`], [`Error::Busy`], [`Error::Full`].
    fn rotate_root(
        &self,
        _link: Option<Duration>,
        _progress: &mut dyn FnMut(usize, usize),
    ) -> Result<RootRotation, StoreError> {
        Err(StoreError::NoSlots)
    }

    /// Removes such ways that have ended, as a killed command leaves them; no change if there are none.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Full`].
    fn remove_ended_root_links(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes the ways from former roots to the present one, which [`Keystore::rotate_root`] made. Who later gets hold of a former root
    /// has no use for it then.
    ///
    /// # Errors
    /// [`Error::NoSlots`], [`Error::Busy`], [`Error::Full`].
    fn remove_root_links(&self) -> Result<(), StoreError> {
        Err(StoreError::NoSlots)
    }

    /// Checks everything: the database's integrity, that every private key decrypts and matches its public key, that versions count
    /// up from 1 and every app has an active one. Faults of the store are in the report.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::RootKey`], or [`Error::Storage`] when it cannot be read at all.
    fn check(&self) -> Result<CheckReport, StoreError>;

    /// Keeps the newest state that is seen of the store in a file of this folder, and refuses an older one from now on. The file is
    /// written when the generation is read and after changes.
    ///
    /// # Errors
    /// [`Error::RolledBack`] if the file has a newer state than the store, [`Error::UnexpectedStore`] if its place has held another,
    /// [`Error::Downgraded`], [`Error::Memory`] if the file is not ours, [`Error::Io`] if it cannot be read. What cannot be written is
    /// logged, and shows in [`Keystore::memory`].
    fn remember(&self, folder: &Path) -> Result<(), StoreError>;

    /// Refuses the store unless it is this one, and authenticated.
    ///
    /// # Errors
    /// [`Error::UnexpectedStore`], [`Error::Downgraded`], and those of [`Keystore::generation`].
    fn expect_store(&self, id: &StoreId) -> Result<(), StoreError>;

    /// Confirms that the store, which has this id, was put in the place of another that programs of this machine have seen there.
    ///
    /// # Errors
    /// [`Error::OtherStoreNamed`], [`Error::Io`], and those of [`Keystore::generation`].
    fn accept_store(&self, id: &StoreId, folder: &Path) -> Result<(), StoreError>;

    /// How far an older state of the store would be noticed. Does not block.
    fn memory(&self) -> MemoryStatus;

    /// The newest state that was seen, for another engine of the store that asks with a challenge ([`Keystore::learn`]): a line without a
    /// secret; `None` before schema 3.
    fn sighting(&self, challenge: &str) -> Option<String>;

    /// The key with which the engine `signer` signs its records under the root of an epoch, or the present one; `None` for a root from
    /// which the store does not come.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Edited`], [`Error::Inconsistent`].
    fn record_key(&self, signer: &str, epoch: Option<u32>) -> Result<Option<RecordKey>, StoreError>;

    /// Where the frames of an audit log are kept beside the store; `None` for a store in a file, which is no safer than the log's own
    /// folder.
    ///
    /// # Errors
    /// Those of a connection to the database.
    fn log_frames(&self, _origin: &str) -> Result<Option<Box<dyn LogFrames>>, StoreError> {
        Ok(None)
    }

    /// Takes over what another engine has seen: an older state is refused from then on. A store that is not open yet keeps the answer of
    /// each engine, and compares them before it is.
    ///
    /// # Errors
    /// [`Error::Sighting`]: with [`MemoryFault::Foreign`](crate::MemoryFault::Foreign) if it is no answer to the challenge by an engine of
    /// this store; otherwise the other engine has another store, or one under a root from which this one does not come.
    fn learn(&self, answer: &PeerSighting) -> Result<(), StoreError>;

    /// Confirms that an older copy of the store, which is at `generation`, was put back on purpose: the store continues with a number
    /// that is newer than all that were seen, and is migrated to the newest schema. The file in `folder` is replaced. Returns the number.
    ///
    /// # Errors
    /// [`Error::OtherGeneration`], and as [`Keystore::migrate`].
    fn accept_generation(&self, generation: u64, folder: Option<&Path>) -> Result<u64, StoreError>;

    /// Makes the next step of a scan for edits, which reads some hundred rows in a short transaction. A store without the authenticated
    /// tree has nothing to compare its rows with: its scan ends at once.
    ///
    /// # Errors
    /// As [`Keystore::check`]; the same step comes again.
    fn scan(&self, scan: &mut StoreScan) -> Result<ScanStep, StoreError>;
}
