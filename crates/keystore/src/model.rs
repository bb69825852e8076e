//! The plain data that a store takes and returns: apps, key versions, grants, reports.

use std::collections::BTreeSet;
use std::sync::Arc;

use leafseal_crypto::{Curve, EcContext, PrivateKey, PublicKey};
use leafseal_errors::Operation;

use crate::accepted::AcceptedSchemes;
use crate::canary::CanarySet;
use crate::edit::StoreEdit;
use crate::error::KeyFault;
use crate::root_key::RootKeyId;
use crate::store_id::StoreId;
use crate::{ApiKeyId, AppName, ClientName, RoleName, StoreError};
use leafseal_crypto::symmetric::{SymmetricKeyId, SymmetricRoot};

/// Whether a key version may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// For encryption when it is the newest active one, for decryption always.
    Active,
    /// For nothing.
    Disabled,
}

/// A private key and its public half, which belong together by construction.
#[derive(Debug, Clone)]
pub struct AppKeyPair {
    private: PrivateKey,
    public: PublicKey,
}

impl AppKeyPair {
    /// Derives the public half.
    pub fn new(private: PrivateKey, context: &EcContext) -> Self {
        let public = context.public_key(&private);
        Self { private, public }
    }

    /// The private half.
    pub fn private(&self) -> &PrivateKey {
        &self.private
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }
}

/// One version of an app's keys, decrypted.
#[derive(Debug, Clone)]
pub struct KeyVersion {
    /// From 1, each one more than the last.
    pub version: u32,
    /// Unix seconds.
    pub created_at: u64,
    /// Whether it may be used.
    pub state: KeyState,
    /// The P-256 pair.
    pub r1: AppKeyPair,
    /// The secp256k1 pair.
    pub k1: AppKeyPair,
    /// None of a version that was made before schema 3.
    pub symmetric: Option<SymmetricRoot>,
}

impl KeyVersion {
    /// The pair on `curve`.
    pub fn pair(&self, curve: Curve) -> &AppKeyPair {
        match curve {
            Curve::P256 => &self.r1,
            Curve::Secp256k1 => &self.k1,
        }
    }
}

/// An app with the keys that may be used, decrypted.
#[derive(Debug, Clone)]
pub struct AppKeys {
    /// The app.
    pub name: AppName,
    /// A disabled app's keys must not be used at all.
    pub disabled: bool,
    /// The envelopes that are decrypted for it.
    pub accept: AcceptedSchemes,
    /// Envelopes whose opening raises an alarm; `None` if there are none.
    pub canaries: Option<Arc<CanarySet>>,
    /// The active ones, newest first. Disabled versions stay encrypted in the store.
    pub versions: Vec<KeyVersion>,
}

impl AppKeys {
    /// The versions that may decrypt, newest first.
    pub fn active_versions(&self) -> impl Iterator<Item = &KeyVersion> {
        self.versions.iter().filter(|version| version.state == KeyState::Active)
    }

    /// A version, if it may decrypt.
    pub fn active_version(&self, version: u32) -> Option<&KeyVersion> {
        let place = self.versions.binary_search_by(|known| version.cmp(&known.version)).ok()?;
        Some(&self.versions[place]).filter(|version| version.state == KeyState::Active)
    }

    /// The version that encrypts. A store never leaves an app without one.
    pub fn newest_active(&self) -> Option<&KeyVersion> {
        self.active_versions().next()
    }
}

/// The private keys of a version to be made. A missing one is generated.
#[derive(Debug, Default)]
pub struct NewKeys {
    r1: Option<PrivateKey>,
    k1: Option<PrivateKey>,
    symmetric: Option<SymmetricRoot>,
}

impl NewKeys {
    /// All keys are generated.
    pub fn generated() -> Self {
        Self::default()
    }

    /// `key` is imported, in place of any before it on the same curve.
    #[must_use]
    pub fn with(mut self, key: PrivateKey) -> Self {
        match key.curve() {
            Curve::P256 => self.r1 = Some(key),
            Curve::Secp256k1 => self.k1 = Some(key),
        }
        self
    }

    /// All keys come back from escrow: a symmetric root alone cannot be imported.
    pub(crate) fn of_escrow(r1: &PrivateKey, k1: &PrivateKey, symmetric: Option<SymmetricRoot>) -> Self {
        Self { r1: Some(r1.clone()), k1: Some(k1.clone()), symmetric }
    }

    pub(crate) fn into_parts(self) -> (Option<PrivateKey>, Option<PrivateKey>, Option<SymmetricRoot>) {
        (self.r1, self.k1, self.symmetric)
    }
}

/// One version of an app's keys without the private halves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSummary {
    /// From 1.
    pub version: u32,
    /// Unix seconds.
    pub created_at: u64,
    /// Whether it may be used.
    pub state: KeyState,
    /// The P-256 public key.
    pub r1: PublicKey,
    /// The secp256k1 public key.
    pub k1: PublicKey,
    /// The id of the symmetric root; none of a version that was made before schema 3.
    pub symmetric: Option<SymmetricKeyId>,
}

/// An app without its private keys. The public keys are as stored; only [`Keystore::public_keys`](crate::Keystore::public_keys)
/// and [`Keystore::load_app`](crate::Keystore::load_app) have proven them against the private ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppSummary {
    /// The app.
    pub name: AppName,
    /// Unix seconds.
    pub created_at: u64,
    /// Whether its keys must not be used.
    pub disabled: bool,
    /// The envelopes that are decrypted for it.
    pub accept: AcceptedSchemes,
    /// Newest first, disabled ones included.
    pub versions: Vec<VersionSummary>,
    /// Versions whose keys are destroyed, newest first.
    pub trimmed: Vec<TrimmedVersion>,
}

/// A version whose keys are destroyed. Its number is not given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimmedVersion {
    /// From 1.
    pub version: u32,
    /// Unix seconds.
    pub created_at: u64,
}

/// The public keys that new values for an app are encrypted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppPublicKeys {
    /// The newest active version.
    pub version: u32,
    /// The P-256 public key.
    pub r1: PublicKey,
    /// The secp256k1 public key.
    pub k1: PublicKey,
}

/// The apps that a grant covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Apps {
    /// Every app, also those made later.
    All,
    /// These only; none when empty.
    Only(BTreeSet<AppName>),
}

impl Apps {
    /// Whether `app` is covered.
    pub fn cover(&self, app: &AppName) -> bool {
        match self {
            Self::All => true,
            Self::Only(apps) => apps.contains(app),
        }
    }
}

/// The data roles whose values a client may decrypt. Values without a role are outside this: [`Operation::Decrypt`] decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roles {
    /// Every role.
    Any,
    /// These only; none when empty.
    Only(BTreeSet<RoleName>),
}

impl Roles {
    /// Whether values of `role` may be decrypted.
    pub fn cover(&self, role: &RoleName) -> bool {
        match self {
            Self::Any => true,
            Self::Only(roles) => roles.contains(role),
        }
    }
}

/// The grant to give to a client; see [`ClientGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClient {
    /// The name in the client's certificate.
    pub name: ClientName,
    /// Which apps it may use; each must exist.
    pub apps: Apps,
    /// The operations it allows.
    pub operations: BTreeSet<Operation>,
    /// Which data roles it may decrypt.
    pub roles: Roles,
    /// The envelopes that are decrypted for it, if the app accepts them, too.
    pub accept: AcceptedSchemes,
    /// SHA-256 of the one certificate (DER) that is accepted; without it, any certificate of this name that the CA signed.
    pub certificate_sha256: Option<[u8; 32]>,
}

/// A certificate that a renewal has replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedCertificate {
    /// SHA-256 of the certificate (DER).
    pub sha256: [u8; 32],
    /// The last Unix second in which it is accepted.
    pub accepted_until: u64,
}

/// The permissions of a client over mTLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientGrant {
    /// The name in the client's certificate.
    pub name: ClientName,
    /// Which apps it may use.
    pub apps: Apps,
    /// The operations it allows.
    pub operations: BTreeSet<Operation>,
    /// Which data roles it may decrypt.
    pub roles: Roles,
    /// The envelopes that are decrypted for it, if the app accepts them, too.
    pub accept: AcceptedSchemes,
    /// SHA-256 of the one certificate (DER) that is accepted; without it, any certificate of this name that the CA signed.
    pub certificate_sha256: Option<[u8; 32]>,
    /// Certificates that a renewal has replaced, still accepted for a time.
    pub replaced_certificates: Vec<ReplacedCertificate>,
    /// A disabled client may do nothing.
    pub disabled: bool,
    /// Unix seconds of the first grant.
    pub created_at: u64,
}

impl ClientGrant {
    /// Whether the client may come with this certificate at this time: its newest one, or one that a renewal has replaced not long ago.
    pub fn accepts(&self, certificate_sha256: &[u8; 32], now_unix_s: u64) -> bool {
        let is_replaced =
            |it: &ReplacedCertificate| it.sha256 == *certificate_sha256 && now_unix_s <= it.accepted_until;
        self.certificate_sha256.is_none_or(|pinned| pinned == *certificate_sha256)
            || self.replaced_certificates.iter().any(is_replaced)
    }

    /// Whether the client is enabled and may use `operation` with `app`. Roles are checked separately, once a value is decrypted.
    pub fn allows(&self, operation: Operation, app: &AppName) -> bool {
        let granted_as = match operation {
            Operation::Encrypt => Operation::Encrypt,
            Operation::Decrypt | Operation::Inspect => Operation::Decrypt,
            // Tokens are for HTTP, where API keys identify callers.
            Operation::IssueTokens => return false,
        };
        !self.disabled && self.operations.contains(&granted_as) && self.apps.cover(app)
    }
}

/// Bytes of the secret that client-side tokens are signed with.
pub const TOKEN_SECRET_SIZE: usize = 32;

/// The permissions of a new API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// The one app that it is for, which must exist.
    pub app: AppName,
    /// The operations it allows.
    pub operations: BTreeSet<Operation>,
    /// Which data roles it shows, itself and by the tokens that it makes.
    pub roles: Roles,
    /// The envelopes that are decrypted for it and by the tokens that it makes, if the app accepts them, too.
    pub accept: AcceptedSchemes,
    /// SHA-256 of its secret, which is random and as long: nothing is to be gained by hashing it slowly.
    pub secret_sha256: [u8; 32],
}

/// An API key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// By which it is found. No secret.
    pub id: ApiKeyId,
    /// The one app that it is for.
    pub app: AppName,
    /// The operations it allows.
    pub operations: BTreeSet<Operation>,
    /// Which data roles it shows.
    pub roles: Roles,
    /// The envelopes that are decrypted for it, if the app accepts them, too.
    pub accept: AcceptedSchemes,
    /// SHA-256 of its secret.
    pub secret_sha256: [u8; 32],
    /// Unix seconds.
    pub created_at: u64,
    /// Unix seconds; good for nothing from then on.
    pub revoked_at: Option<u64>,
}

/// The findings of [`Keystore::check`](crate::Keystore::check).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The id of the store.
    pub store: StoreId,
    /// Schema version of the store.
    pub schema_version: u32,
    /// The number of its last change.
    pub generation: u64,
    /// Apps in the store.
    pub app_count: usize,
    /// Key versions of all apps, without trimmed ones.
    pub version_count: usize,
    /// Clients in the store.
    pub client_count: usize,
    /// API keys in the store, revoked ones included.
    pub api_key_count: usize,
    /// Nothing when the store is sound.
    pub faults: Vec<StoreFault>,
}

/// What a migration did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The schema before.
    pub from: u32,
    /// The schema after; the same if there is nothing to do.
    pub to: u32,
    /// Apps, key versions, clients, API keys and secrets that are sealed and written again.
    pub entry_count: usize,
}

/// What a new root of the store did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootRotation {
    /// The id of the new root.
    pub root: RootKeyId,
    /// Its number among the roots of the store.
    pub epoch: u32,
    /// Private keys and secrets that were sealed again.
    pub sealed_count: usize,
}

/// One thing that is wrong with a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFault {
    /// Reported by the database itself, about itself.
    Database(String),
    /// A row refers to one that is missing.
    Reference {
        /// The table of the row.
        table: String,
        /// The table of the missing one.
        parent: String,
    },
    /// The symmetric root of a version is not usable.
    SymmetricKey {
        /// The app.
        app: AppName,
        /// The version.
        version: u32,
        /// The fault.
        fault: KeyFault,
    },
    /// A private key is not usable.
    Key {
        /// The app.
        app: AppName,
        /// The version.
        version: u32,
        /// The curve.
        curve: Curve,
        /// The fault.
        fault: KeyFault,
    },
    /// Several versions have the same symmetric root, or roots of one id.
    SharedSymmetricKey {
        /// The id.
        id: SymmetricKeyId,
        /// The app and number of each version.
        versions: Vec<(AppName, u32)>,
    },
    /// The versions of the app do not count up from 1, or none is active.
    Versions(AppName),
    /// A table, column, rule, trigger or view that differs from what this program makes.
    Schema(String),
    /// Something does not read as what it must be.
    Unreadable(String),
    /// Something else has written to the store's database.
    Edited(StoreEdit),
}

impl std::fmt::Display for StoreFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(message) => write!(f, "the database reports: {message}"),
            Self::Reference { table, parent } => {
                write!(f, "a row of {table} refers to a row of {parent} that is missing")
            }
            Self::Key { app, version, curve, fault } => {
                let (app, version, curve, fault) = (app.clone(), *version, *curve, *fault);
                StoreError::DamagedKey { app, version, curve, fault }.fmt(f)
            }
            Self::SymmetricKey { app, version, fault } => {
                let (app, version, fault) = (app.clone(), *version, *fault);
                StoreError::DamagedSymmetricKey { app, version, fault }.fmt(f)
            }
            Self::SharedSymmetricKey { id, versions } => {
                write!(f, "an envelope must name one key, and the symmetric key id {id} is that of several:")?;
                versions.iter().enumerate().try_for_each(|(index, (app, version))| {
                    write!(f, "{} version {version} of app {app}", if index == 0 { "" } else { "," })
                })
            }
            Self::Versions(app) => write!(f, "the versions of app {app} do not count up from 1, or none is active"),
            Self::Schema(what) => write!(f, "the schema of the database is not as this program makes it: {what}"),
            Self::Unreadable(message) => f.write_str(message),
            Self::Edited(edit) => edit.fmt(f),
        }
    }
}
