//! Errors of a store. No variant holds a key, a PEM or a root key; messages say what to do.

use std::fmt;
use std::path::PathBuf;

use leafseal_crypto::Curve;

use crate::edit::{MemoryFault, StoreEdit};
use crate::escrow_fault::EscrowFault;
use crate::pem::ImportError;
use crate::root_key::{RootKeyError, RootKeyId};
use crate::secret_path::SecretPath;
use crate::slots::{InvalidShare, ProviderError, ShareError, SlotId, SlotKind, SlotSummary};
use crate::store_id::StoreId;
use crate::{ApiKeyId, AppName, ClientName};

/// The reason why an operation was refused or failed. Unless stated otherwise nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No store at this place, or an empty file.
    #[error("no keystore at {0}: create one first")]
    NoStore(Location),
    /// The file, or the database's schema `leafseal`, is something else.
    #[error("{0} is not a Leafseal keystore")]
    NotAStore(Location),
    /// A store that must be empty, or must not exist, has content.
    #[error("{0} has a keystore already: nothing was changed")]
    NotEmpty(Location),
    /// The original of a copy was changed while it was copied, so that the copy may lack the change.
    #[error(
        "the keystore at {0} was changed while it was copied: remove the copy, and copy it again while nothing changes it"
    )]
    ChangedMeanwhile(Location),
    /// Another store was put in the place of the one that is open.
    #[error("{0} is no longer the keystore that this program opened: put that one back, or restart to use the new one")]
    OtherStore(Location),
    /// The frames of an audit log have another writer by now.
    #[error(
        "another engine has taken over the audit log {0}: give each engine a name of its own, and restart this one"
    )]
    OtherWriter(String),
    /// The database server cannot be reached, refuses the login, is no server that we trust, or is a standby. Trying again may help.
    #[error("cannot use the keystore at {server}: {reason}")]
    Unreachable {
        /// The server, without a password.
        server: Location,
        /// The reason, for a person.
        reason: String,
    },
    /// The connection ended, or PostgreSQL gave up waiting for a standby, before a change was confirmed: it may have been made, or not,
    /// or may be lost with this server.
    #[error("the change is not confirmed, because {0}: check whether it was made before you repeat it")]
    Unconfirmed(String),
    /// The store was written by a newer Leafseal.
    #[error("the keystore has schema version {found}, this program supports up to {supported}: use a newer Leafseal")]
    NewerSchema {
        /// The schema version of the store.
        found: u32,
        /// The newest that this program supports.
        supported: u32,
    },
    /// The store's schema is too old for what it was asked for.
    #[error("the keystore has schema version {found}, and this needs {needed}: run leafseal store migrate")]
    OldSchema {
        /// The schema version of the store.
        found: u32,
        /// The one that is needed.
        needed: u32,
    },
    /// The store is opened by another root key.
    #[error("this keystore is opened by root key {store}, but the given one is {given}")]
    WrongRootKey {
        /// The id of the key that the store needs.
        store: RootKeyId,
        /// The id of the key that was given.
        given: RootKeyId,
    },
    /// Nothing that was given opens one of the store's slots.
    #[error("the keystore is sealed: {}", sealed(.slots, .tried))]
    Sealed {
        /// All slots of the store.
        slots: Vec<SlotSummary>,
        /// Those that were tried, and why they did not open.
        tried: Vec<(SlotSummary, ProviderError)>,
    },
    /// The program waits for someone who unseals the store.
    #[error("the keystore is sealed: run leafseal unseal")]
    Unopened,
    /// The root of the store was replaced, and there is no way from the root that this process has to the new one.
    #[error("the root of the keystore was replaced: unseal this engine again (leafseal unseal), or restart it")]
    RootReplaced,
    /// The store is under a root that does not come from the one that this process knew.
    #[error(
        "the root of the keystore does not come from the one that this program knew: an older copy was put back, and its root replaced. If \
         you have restored a backup, confirm its generation (leafseal store restore --accept-generation), and restart this engine"
    )]
    OtherDescent,
    /// What keeps a slot's secrets does not wrap them.
    #[error("the {kind} slot cannot be made: {error}")]
    Provider {
        /// The kind of the slot.
        kind: SlotKind,
        /// The reason.
        error: ProviderError,
    },
    /// What a person gave is neither a passphrase nor shares of one slot.
    #[error("{0}")]
    Unseal(#[from] UnsealError),
    /// No slot of this id.
    #[error("no key slot {0}")]
    UnknownSlot(SlotId),
    /// Without this slot nothing would open the store.
    #[error("slot {0} is the only one: add another first")]
    LastSlot(SlotId),
    /// The client has as many replaced certificates that are still accepted as it may have.
    #[error("client {0} has 4 replaced certificates that are still accepted: not one more")]
    ReplacedCertificates(ClientName),
    /// Nothing that was given opens one of the slots that would remain.
    #[error("slot {0} stays: nothing that was given opens another slot")]
    UntestedSlots(SlotId),
    /// Stores of older schemas have no slots.
    #[error("a keystore of schema 2 has no key slots: run leafseal store migrate first")]
    NoSlots,
    /// Others than the owner may reach a file or folder that must be private.
    #[error(
        "{what} {path} has mode {mode:04o}, which lets others reach it: run chmod {} {path}",
        .what.wanted_mode()
    )]
    Permissions {
        /// Which kind of path.
        what: SecretPath,
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file or folder that must be private belongs to a user who is neither root nor the one this process runs as.
    #[error(
        "{what} {path} belongs to user {owner}, who can change it at any time, while this program runs as user {user}: \
         run it as user {owner}, or, if you trust what is in it, run chown {user} {path}"
    )]
    Owner {
        /// Which kind of path.
        what: SecretPath,
        /// The path.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// Effective user id of this process.
        user: u32,
    },
    /// A private file is a folder, a FIFO, a device or the like.
    #[error("{what} {path} is not a regular file")]
    NotAFile {
        /// Which kind of path.
        what: SecretPath,
        /// The path.
        path: PathBuf,
    },
    /// No app of this name.
    #[error("no app {0}")]
    UnknownApp(AppName),
    /// An app whose keys must not be used cannot be extracted.
    #[error("app {0} is disabled: enable it, or leave it out")]
    DisabledApp(AppName),
    /// An app of this name is there already.
    #[error("app {0} already exists")]
    AppExists(AppName),
    /// The app has no such version.
    #[error("app {app} has no version {version}")]
    UnknownVersion {
        /// The app.
        app: AppName,
        /// The requested version.
        version: u32,
    },
    /// Only disabled versions are trimmed.
    #[error("version {version} of app {app} is active: rewrap the values of that version and disable it first")]
    ActiveVersion {
        /// The app.
        app: AppName,
        /// The active version.
        version: u32,
    },
    /// The private keys of the version are destroyed.
    #[error("version {version} of app {app} was trimmed: its private keys are destroyed")]
    TrimmedVersion {
        /// The app.
        app: AppName,
        /// The trimmed version.
        version: u32,
    },
    /// Disabling this version would leave the app without an active one.
    #[error("version {version} is the only active one of app {app}: disable the app instead, or rotate first")]
    LastActiveVersion {
        /// The app.
        app: AppName,
        /// Its only active version.
        version: u32,
    },
    /// The key to import is in the store already: keys are never shared between apps or versions.
    #[error("this {} key is already version {version} of app {app}", .curve.short_name())]
    KeyInUse {
        /// The curve of the key.
        curve: Curve,
        /// The app that holds it.
        app: AppName,
        /// The version that holds it.
        version: u32,
    },
    /// The symmetric root to import is in the store already: an envelope names one alone.
    #[error("this symmetric root is already that of version {version} of app {app}")]
    SymmetricKeyInUse {
        /// The app that holds it.
        app: AppName,
        /// The version that holds it.
        version: u32,
    },
    /// Key versions cannot be taken back from escrow.
    #[error(transparent)]
    Escrow(#[from] EscrowFault),
    /// The app is about to be deleted.
    #[error("app {app} will be deleted at {at} (Unix time): cancel that first")]
    DeletionPending {
        /// The app.
        app: AppName,
        /// When, in Unix seconds.
        at: u64,
    },
    /// The app is not about to be deleted.
    #[error("no deletion of app {0} is planned")]
    NoDeletion(AppName),
    /// The app has been in use recently.
    #[error("app {app} was last seen in use at {at} (Unix time), too recently to delete it")]
    UsedRecently {
        /// The app.
        app: AppName,
        /// When, in Unix seconds, with the coarseness of the record.
        at: u64,
    },
    /// No client of this name.
    #[error("no client {0}")]
    UnknownClient(ClientName),
    /// No API key of this id.
    #[error("no API key {0}")]
    UnknownApiKey(ApiKeyId),
    /// One more would pass a bound of [`Limits`](crate::Limits).
    #[error("too many {what}: at most {limit}")]
    TooMany {
        /// The kind of entry with a limit.
        what: LimitedEntries,
        /// The bound.
        limit: u32,
    },
    /// A private key of the store is not usable.
    #[error(
        "the {} private key of app {app}, version {version}, is unusable: {fault}",
        .curve.short_name()
    )]
    DamagedKey {
        /// The app.
        app: AppName,
        /// The version.
        version: u32,
        /// The curve.
        curve: Curve,
        /// The fault.
        fault: KeyFault,
    },
    /// The symmetric root of a version is not usable.
    #[error("the symmetric key of app {app}, version {version}, is unusable: {fault}")]
    DamagedSymmetricKey {
        /// The app.
        app: AppName,
        /// The version.
        version: u32,
        /// The fault.
        fault: KeyFault,
    },
    /// Something else has written to the store's database.
    #[error("{0}, and is not used: run `leafseal store check`, and restore the keystore from a backup")]
    Edited(StoreEdit),
    /// The store is in an older state than one that was seen, or in another one of the same number: someone has put back a copy.
    #[error(
        "the keystore is at generation {found}, but generation {newest} was seen{}: an older copy was put back. If you have restored a \
         backup, confirm it: leafseal store restore --accept-generation {found}",
        if found == newest { ", with other content" } else { "" }
    )]
    RolledBack {
        /// The generation of the store.
        found: u64,
        /// The newest that was seen.
        newest: u64,
    },
    /// Another store is in the place where one was seen, or is expected.
    #[error(
        "the keystore is {found}, but {expected} {}: someone has put another in its place. If that was meant, {}",
        if *is_set { "is set in keystore.store_id" } else { "was seen here before" },
        if *is_set {
            "change the setting".to_owned()
        } else {
            format!("confirm it: leafseal store restore --accept-store {found}")
        }
    )]
    UnexpectedStore {
        /// The id of the store.
        found: StoreId,
        /// The id of the one that was expected.
        expected: StoreId,
        /// The expectation is a setting.
        is_set: bool,
    },
    /// A store that was authenticated says that it never was.
    #[error(
        "the keystore has schema {found}, but schema {newest} {}: an older copy was put back. If you have restored a backup, confirm it: \
         leafseal store restore --accept-generation with the generation that `leafseal store check` prints",
        if *is_set { "is what keystore.store_id requires" } else { "was seen here before" }
    )]
    Downgraded {
        /// The schema of the store.
        found: u32,
        /// The one that was seen.
        newest: u32,
        /// The expectation is a setting.
        is_set: bool,
    },
    /// The store that was confirmed is not the one that is there.
    #[error("the keystore is {found}, not {named}: nothing was changed")]
    OtherStoreNamed {
        /// The id of the store.
        found: StoreId,
        /// The one that was named.
        named: StoreId,
    },
    /// The generation that was confirmed is not that of the store.
    #[error("the keystore is at generation {found}, not {named}: nothing was changed")]
    OtherGeneration {
        /// The generation of the store.
        found: u64,
        /// The one that was named.
        named: u64,
    },
    /// The file with the newest state that was seen does not fit the store.
    #[error(
        "{path} {fault}, so that an older copy of the keystore would not be noticed: find out who has changed it; if the keystore is known \
         to be the newest, run leafseal store restore --accept-generation with its generation, which `leafseal store check` prints"
    )]
    Memory {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: MemoryFault,
    },
    /// What another engine has seen does not fit the store.
    #[error("what the engine at {peer} has seen {fault}")]
    Sighting {
        /// Where the engine is.
        peer: String,
        /// What is wrong with it.
        fault: MemoryFault,
    },
    /// A row of the store breaks a rule that every writer keeps.
    #[error("the keystore is inconsistent: {0}")]
    Inconsistent(&'static str),
    /// Another process held the store for longer than the busy timeout. Trying again may help.
    #[error("the keystore is locked by another process: nothing was changed, try again")]
    Busy,
    /// The disk is full, or the store reached its largest size.
    #[error("no space for the keystore to grow: nothing was changed")]
    Full,
    /// The root key could not be read, made or used.
    #[error("{0}")]
    RootKey(#[from] RootKeyError),
    /// A file is not a backup that can be restored.
    #[error("{0}")]
    Backup(BackupFault),
    /// The backup could not be written.
    #[error("the backup cannot be written: {0}")]
    BackupWrite(#[source] std::io::Error),
    /// The backup could not be read.
    #[error("the backup cannot be read: {0}")]
    BackupRead(#[source] std::io::Error),
    /// A PEM was refused.
    #[error("{0}")]
    Import(#[from] ImportError),
    /// A file or folder could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The database reported something unexpected.
    #[error("the keystore's database failed: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a text opens no slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// Nothing but white space.
    #[error("give a passphrase, or shares, one per line")]
    Empty,
    /// Longer than [`UNSEAL_SIZE_MAX`](crate::UNSEAL_SIZE_MAX).
    #[error("neither a passphrase nor shares: it is too long")]
    TooLong,
    /// Not UTF-8.
    #[error("neither a passphrase nor shares: it is not UTF-8 text")]
    Text,
    /// Sealed to another key.
    #[error("the secret is not sealed to the key that the engine returned for this attempt: request another key")]
    Sealed,
    /// Not a public key to seal to.
    #[error("the engine's key for this attempt is not an X-Wing public key")]
    PublicKey,
    /// A passphrase out of bounds.
    #[error(transparent)]
    Passphrase(#[from] ProviderError),
    /// A share that is none.
    #[error(transparent)]
    Share(#[from] InvalidShare),
    /// Shares that make no key.
    #[error(transparent)]
    Shares(#[from] ShareError),
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of PostgreSQL, as a URL without a password.
    Database(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Database(url) => f.write_str(url),
        }
    }
}

impl From<&std::path::Path> for Location {
    fn from(path: &std::path::Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// Entries that are counted against a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedEntries {
    /// Apps in a store.
    Apps,
    /// Key versions of one app.
    Versions,
    /// Clients in a store.
    Clients,
    /// Apps or roles named in one grant.
    GrantEntries,
    /// API keys in a store.
    ApiKeys,
    /// Key slots of a store.
    Slots,
    /// Canaries of an app.
    Canaries,
}

/// A fault of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupFault {
    /// It does not begin as one.
    NotABackup,
    /// A newer program made it.
    NewerFormat,
    /// It was changed, or a part of it is missing.
    Damaged,
    /// The store is larger than a backup can be.
    TooLarge,
}

impl fmt::Display for BackupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotABackup => "not a backup: it must begin with leafseal-backup-",
            Self::NewerFormat => "a newer Leafseal made this backup: use that to restore it",
            Self::Damaged => "the backup is damaged: it was changed, or a part of it is missing; nothing was restored",
            Self::TooLarge => "the keystore is too large for a backup",
        })
    }
}

/// A fault of a private key in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// It does not open for this app, version, curve and public key: damaged, or moved from another row.
    Unopenable,
    /// It decrypts, but does not match the stored public key, or a symmetric one its id.
    Mismatch,
    /// Its public key is no point of the curve.
    PublicKey,
    /// The row of this curve is missing.
    Missing,
    /// The store is an extract, made while the version was disabled.
    LeftOut,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unopenable => "it does not open under the root key",
            Self::Mismatch => "it does not match its public key, or its id",
            Self::PublicKey => "its public key is not valid",
            Self::Missing => "it is missing",
            Self::LeftOut => {
                "the extract was made while the version was disabled: enable it in the original and extract again"
            }
        })
    }
}

impl fmt::Display for LimitedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apps => "apps in the store",
            Self::Versions => "versions of the app",
            Self::Clients => "clients in the store",
            Self::GrantEntries => "apps or roles in the grant",
            Self::ApiKeys => "API keys in the store",
            Self::Slots => "key slots of the store",
            Self::Canaries => "canaries",
        })
    }
}

fn sealed(slots: &[SlotSummary], tried: &[(SlotSummary, ProviderError)]) -> String {
    let named: Vec<String> = slots.iter().take(SLOTS_NAMED_MAX).map(ToString::to_string).collect();
    let all = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
    let why = tried.iter().take(SLOTS_NAMED_MAX).map(|(slot, error)| format!("; slot {slot}: {error}"));
    let (more, more_tried) = (and_more(slots.len()), and_more(tried.len()));
    format!("nothing that was given opens one of its slots, {all}{more}{}{more_tried}", why.collect::<String>())
}

/// Slots that a message names: a database has any number of them.
const SLOTS_NAMED_MAX: usize = 8;

fn and_more(count: usize) -> String {
    let more = count.saturating_sub(SLOTS_NAMED_MAX);
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

impl StoreError {
    /// For `map_err`: an I/O error at `path`.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::{SlotId, SlotKind};

    #[test]
    fn a_sealed_store_names_a_few_of_its_slots() {
        let slot = |id: u8| SlotSummary {
            id: SlotId::parse(&format!("{id:016x}")).expect("an id"),
            kind: SlotKind::Transit,
            key_name: "k".repeat(512),
            created_at: 0,
        };
        let slots: Vec<SlotSummary> = (0..200).map(slot).collect();
        let tried: Vec<_> = slots.iter().map(|slot| (slot.clone(), ProviderError::Refused)).collect();
        let text = StoreError::Sealed { slots, tried }.to_string();
        assert!(text.len() < 10_000 && text.ends_with(" and 192 more"), "{text}");
        let none = StoreError::Sealed { slots: Vec::new(), tried: Vec::new() }.to_string();
        assert!(none.ends_with("one of its slots, none"), "{none}");
    }
}
