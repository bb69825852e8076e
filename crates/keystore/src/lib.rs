//! Apps, their key versions, the clients' grants and the API keys at rest.
//!
//! [`Keystore`] is the interface, [`SqliteKeystore`] the embedded default, [`PostgresKeystore`] for several engines that share one store.
//! Private keys are stored encrypted under the store's root ([`StoreRoot`]), which key slots hold: each is one way to open the store, by a
//! key file, a passphrase or shares ([`SlotProvider`], `docs/decisions/0042-key-slots.md`).
//!
//! Guarantees: changes are atomic, also across kill −9 or a power failure. A private key is returned only after it decrypted under
//! the root and was found to match its public key. Errors and `Debug` output contain no key, PEM or root key text, and buffers
//! that held one are wiped. Non-goals: nothing here decides whether a request may use a key (that is the engine's policy over
//! [`ClientGrant`]) and nothing caches. Who can write to the store's file can never read or swap a key, and since schema 3 not change a
//! grant or a state unnoticed: every row is authenticated (`docs/decisions/0041-authenticated-store.md`).

mod accepted;
mod attributes;
mod backup;
mod canary;
mod copying;
mod drafts;
mod edit;
mod error;
mod escrow;
mod escrow_fault;
mod escrowed;
mod extracting;
mod files;
mod history;
mod late;
mod life;
mod local_root_key;
mod log_frames;
mod memory;
mod model;
mod name;
mod pem;
mod pem_file;
mod place;
mod postgres;
mod record_key;
mod replacing;
mod root_key;
mod scan;
mod schema_version;
mod sealed_stream;
mod secret_path;
mod slots;
mod sql;
mod sqlite;
mod store;
mod store_id;
mod unsealing;
mod wrapping;

pub use leafseal_crypto::Secret;
pub use leafseal_errors::Operation;

pub use accepted::AcceptedSchemes;
pub use attributes::{Attributes, AttributesError};
pub use backup::{BackedUp, Restored, back_up, restore};
pub use canary::{CANARY_COUNT_MAX, Canary, CanarySet, StoreCanaries};
pub use copying::{Copied, StoreAddress, copy_store};
pub use drafts::{remove_abandoned, remove_abandoned_in};
pub use edit::{EditKind, EditedPart, MemoryFault, StoreEdit};
pub use error::{BackupFault, KeyFault, LimitedEntries, Location, StoreError, UnsealError};
pub use escrow::{EscrowRecipient, InvalidRecipient};
pub use escrow_fault::EscrowFault;
pub use escrowed::{ESCROW_SIGNER, EscrowImport, EscrowImported, EscrowStatement, EscrowedVersion};
pub use extracting::{Extracted, extract_apps};
pub use files::read_private_file;
pub use history::{ChangeAuthor, ChangeKind, ChangePage, EngineLog, HistoryEntry, StoreChange, StoreHistory};
pub use late::{AutomaticProviders, LateKeystore, ReopenPauses, StoreOpener};
pub use leafseal_crypto::symmetric::{SymmetricKeyId, SymmetricRoot};
pub use life::{AppLife, DeletionPlan, KeyLife, RotationRule, Upkeep, UseRecord};
pub use local_root_key::{LocalRootKey, ROOT_KEY_FILE_SIZE_MAX};
pub use log_frames::{HeldFrames, LogFrame, LogFrames};
pub use memory::{MemoryStatus, PeerSighting, SIGHTING_SIZE_MAX, new_challenge};
pub use model::{
    ApiKey, AppKeyPair, AppKeys, AppPublicKeys, AppSummary, Apps, CheckReport, ClientGrant, KeyState, KeyVersion,
    Migration, NewApiKey, NewClient, NewKeys, ReplacedCertificate, Roles, RootRotation, StoreFault, TOKEN_SECRET_SIZE,
    TrimmedVersion, VersionSummary,
};
pub use name::{ApiKeyId, AppName, ClientName, InvalidName, RoleName};
pub use pem::{ImportError, PEM_SIZE_MAX, parse_private_key_pem, public_key_pem};
pub use pem_file::{read_escrowed_version, read_private_key_pem};
pub use place::{StorePlace, StoreUrl};
pub use postgres::{InvalidUrl, Postgres, PostgresKeystore, PostgresSettings, PostgresUrl, SslMode};
pub use record_key::{RECORD_KEY_SIZE, RECORD_SIGNATURE_SIZE, RecordKey, SIGNER_SIZE_MAX, is_signer};
pub use replacing::{Readers, replace_file};
pub use root_key::{RootKeyError, RootKeyId, StoreRoot};
pub use scan::{ScanStep, StoreScan};
pub use schema_version::SCHEMA_VERSION;
pub use secret_path::SecretPath;
pub use slots::{
    ARGON2_COST_MAX, Argon2Cost, CandidateKeys, CollectedShares, InvalidShare, InvalidSlotId, KEY_NAME_SIZE_MAX,
    KeyShare, MadeSlot, OPENING_WORK_MAX, PASSPHRASE_SIZE_MAX, PASSPHRASE_SIZE_MIN, Passphrase, ProviderError,
    RemainingSlots, SAME_KEY_TRIES_MAX, SHARE_COUNT_MAX, ShamirKey, ShareCollection, ShareError, ShareLimits, SlotId,
    SlotKind, SlotPlace, SlotProvider, SlotSummary,
};
pub use sql::{OpenMode, SqlKeystore};
pub use sqlite::{Sqlite, SqliteKeystore};
pub use store::{Environment, Generation, Keystore, StoreLimits, WallClock, system_clock};
pub use store_id::StoreId;
pub use unsealing::{UNSEAL_SIZE_MAX, UnsealKey, UnsealText, read_unseal_file, seal_unseal_text};
