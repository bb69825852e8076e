//! The history of a store: one row for each change, written in its transaction: what, of which app or client, when and by whom.
//!
//! Reading keys out, as for a backup, counts as a change. A row has no secret. The newest `change_count_max` rows stay
//! ([`StoreLimits`](crate::StoreLimits)).

use std::fs;

use crate::{AppName, StoreError};

/// Longest text of a column, in bytes.
const TEXT_SIZE_MAX: usize = 255;
/// The users of this machine, as far as they are in a file.
const USERS: &str = "/etc/passwd";

/// Who changes a store: a program, and the user of the operating system who runs it. As the program has it: all who can open the store can
/// write another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeAuthor {
    /// The command, as `keys rotate`.
    pub command: String,
    /// The name of the engine, if it is one.
    pub engine: Option<String>,
    /// The user's name; `None` if it is not in `/etc/passwd`.
    pub user: Option<String>,
    /// The user's number.
    pub uid: Option<u32>,
    /// The name of the machine.
    pub host: Option<String>,
}

impl ChangeAuthor {
    /// The user of this process, on this machine.
    pub fn of_process(command: &str) -> Self {
        let uid = rustix::process::getuid().as_raw();
        let host = rustix::system::uname().nodename().to_str().ok().map(bounded);
        let users = fs::read_to_string(USERS).unwrap_or_default();
        Self { command: bounded(command), engine: None, user: user_of(&users, uid), uid: Some(uid), host }
    }

    /// The same as the engine of this name.
    #[must_use]
    pub fn with_engine(self, name: &str) -> Self {
        Self { engine: Some(bounded(name)), ..self }
    }
}

/// The name of a user by the lines of `/etc/passwd`.
fn user_of(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| bounded(name))
    })
}

fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_SIZE_MAX);
    text[..end].to_owned()
}

macro_rules! change_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// What was done. The names are stored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ChangeKind {
            $($(#[$doc])* $kind,)+
        }

        impl ChangeKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The name in rows and records.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

change_kinds! {
    /// The store was made.
    CreateStore = "create-store",
    /// The store was brought to a newer schema.
    Migrate = "migrate",
    /// An app was made.
    CreateApp = "create-app",
    /// Key versions came back from escrow.
    ImportEscrow = "import-escrow",
    /// A key version was made.
    AddVersion = "add-version",
    /// All keys of an app were disabled.
    DisableApp = "disable-app",
    /// They were enabled.
    EnableApp = "enable-app",
    /// A key version was disabled.
    DisableVersion = "disable-version",
    /// A key version was enabled.
    EnableVersion = "enable-version",
    /// The keys of disabled versions were destroyed.
    TrimVersions = "trim-versions",
    /// The kinds of envelopes that are decrypted for an app were set.
    SetAccepted = "set-accepted",
    /// When the keys of an app are rotated was set.
    SetRotation = "set-rotation",
    /// The deletion of an app was planned.
    ScheduleDeletion = "schedule-deletion",
    /// It was cancelled.
    CancelDeletion = "cancel-deletion",
    /// An app was deleted, or its deletion put off, as it was in use.
    Delete = "delete",
    /// A client's grant was made or replaced.
    PutClient = "put-client",
    /// A client's certificate was renewed.
    RenewClient = "renew-client",
    /// A client was disabled.
    DisableClient = "disable-client",
    /// A client was enabled.
    EnableClient = "enable-client",
    /// An API key was made.
    CreateApiKey = "create-api-key",
    /// An API key was revoked.
    RevokeApiKey = "revoke-api-key",
    /// The secret that signs tokens was made.
    MakeTokenSecret = "make-token-secret",
    /// A key slot was added.
    AddSlot = "add-slot",
    /// A key slot took the place of another.
    ReplaceSlot = "replace-slot",
    /// A key slot was removed.
    RemoveSlot = "remove-slot",
    /// The store was put under a new root.
    RotateRoot = "rotate-root",
    /// The ways from former roots were removed.
    RemoveRootLinks = "remove-root-links",
    /// An older state of the store was confirmed.
    AcceptGeneration = "accept-generation",
    /// An envelope was marked as a canary.
    AddCanary = "add-canary",
    /// A canary was forgotten.
    RemoveCanary = "remove-canary",
    /// A command opened a canary.
    OpenCanary = "open-canary",
    /// An engine began an audit log.
    BeginLog = "begin-log",
    /// Keys were read out to escrow.
    Export = "export",
    /// Keys were read out to a store of some apps.
    Extract = "extract",
    /// The whole store was read out to a backup.
    BackUp = "back-up",
    /// The whole store was read out to another database.
    Copy = "copy",
    /// Apps were in use. No row says so: it is no act of anybody, and comes often.
    RecordUse = "record-use",
}

impl ChangeKind {
    /// Whether nothing else of the store changes.
    pub(crate) fn is_reading(self) -> bool {
        matches!(self, Self::Export | Self::Extract | Self::BackUp | Self::Copy | Self::OpenCanary)
    }

    pub(crate) fn is_recorded(self) -> bool {
        self != Self::RecordUse
    }
}

/// What a change is. Each change of a store demands one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeNote {
    pub(crate) kind: ChangeKind,
    pub(crate) app: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) version: Option<u32>,
    /// Others by name: an API key, a slot, several versions or apps.
    pub(crate) detail: Option<String>,
}

impl ChangeNote {
    pub(crate) fn of(kind: ChangeKind) -> Self {
        Self { kind, app: None, client: None, version: None, detail: None }
    }

    pub(crate) fn app(self, app: &AppName) -> Self {
        Self { app: Some(app.as_str().to_owned()), ..self }
    }

    pub(crate) fn client(self, client: &str) -> Self {
        Self { client: Some(client.to_owned()), ..self }
    }

    pub(crate) fn version(self, version: u32) -> Self {
        Self { version: Some(version), ..self }
    }

    pub(crate) fn detail(self, detail: &str) -> Self {
        Self { detail: Some(bounded(detail)), ..self }
    }

    /// Names of several things, as far as there is room.
    pub(crate) fn list<T: std::fmt::Display>(self, names: impl IntoIterator<Item = T>) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
        if names.is_empty() { self } else { self.detail(&names.join(", ")) }
    }
}

/// One change of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreChange {
    /// From 1, each one more than that of the change before: where one is missing, its row was removed.
    pub number: u64,
    /// The generation of the store from then on. It grows, also where an older copy of the store was put back on purpose, whose numbers
    /// come a second time then.
    pub generation: u64,
    /// Unix seconds, by the clock of who has made it.
    pub at: u64,
    /// [`ChangeKind::as_str`].
    pub kind: String,
    /// The app.
    pub app: Option<String>,
    /// The client.
    pub client: Option<String>,
    /// The key version.
    pub version: Option<u32>,
    /// Other names: of an API key or slot, of several versions or apps.
    pub detail: Option<String>,
    /// Who has made it.
    pub author: ChangeAuthor,
}

/// A row of a store's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEntry {
    /// As it was written.
    Change(Box<StoreChange>),
    /// Something else has changed or added the row of this generation.
    Edited(u64),
}

/// Changes of a store after some generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangePage {
    /// In the order of their generations.
    pub entries: Vec<HistoryEntry>,
    /// The generation up to which all is here.
    pub up_to: u64,
    /// The number of the newest change of the store.
    pub newest_number: u64,
}

/// The audit log that an engine writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineLog {
    /// Random, 16 hexadecimal digits.
    pub id: String,
    /// The root under which it was begun.
    pub epoch: u32,
    /// Unix seconds.
    pub opened_at: u64,
}

/// The part of a store that knows its changes.
pub trait StoreHistory {
    /// Changes after a generation, at most `limit`, each verified; the next ones are after the generation of the last one.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Edited`] if it cannot be known how many there are.
    fn changes(&self, after: u64, limit: u32) -> Result<ChangePage, StoreError>;

    /// Records that keys are about to be read out, before they are.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Full`].
    fn record_export(&self, app: &AppName, versions: &[u32]) -> Result<(), StoreError>;

    /// Records that canaries of an app were opened by a command, which has no engine that would.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Full`].
    fn record_canary(&self, app: &AppName) -> Result<(), StoreError>;

    /// Which audit log an engine of this name writes.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Edited`].
    fn engine_log(&self, engine: &str) -> Result<Option<EngineLog>, StoreError>;

    /// Gives an engine of this name a log with a new id, under the present root. `known`: the log that it has, as far as the caller knows.
    ///
    /// # Errors
    /// [`StoreError::Busy`], also if it has another log by now; [`StoreError::OldSchema`], [`StoreError::Full`].
    fn begin_engine_log(&self, engine: &str, known: Option<&str>) -> Result<EngineLog, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let users = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000:A:/:/bin/sh\nbroken\n";
        assert_eq!(user_of(users, 1000).as_deref(), Some("alice"));
        assert_eq!(user_of(users, 0).as_deref(), Some("root"));
        assert_eq!(user_of(users, 7), None);
    }

    #[test]
    fn names_of_kinds_differ() {
        let names: std::collections::BTreeSet<_> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ChangeKind::ALL.len());
    }
}
