//! What of a store, and of what is remembered of it, something other than Leafseal has changed.

use std::fmt;

/// A part of a store that is not as Leafseal wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreEdit {
    /// The part.
    pub part: EditedPart,
    /// What was done to it.
    pub kind: EditKind,
}

/// Parts of a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EditedPart {
    /// An app, without its versions.
    App(String),
    /// A version of an app: its state, its date or its keys.
    KeyVersion {
        /// The app.
        app: String,
        /// The version.
        version: u32,
    },
    /// A client with its grant.
    Client(String),
    /// An API key with its permissions.
    ApiKey(String),
    /// A secret of the store's own.
    Secret(String),
    /// A key slot.
    Slot(String),
    /// The record of a change, by the generation of the store then.
    Change(String),
    /// The number of changes.
    ChangeCount,
    /// Which audit log an engine writes, by its name.
    AuditLog(String),
    /// The generation of the store, or the root of its authenticated tree.
    Root,
    /// A node of the tree.
    Node {
        /// From 0, the top.
        level: u32,
        /// From 0.
        position: u32,
    },
    /// Leaves of the tree.
    Bucket(u32),
    /// A table that does not read.
    Table(&'static str),
    /// A row that cannot be one of its table.
    Row {
        /// The table.
        table: &'static str,
    },
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EditKind {
    /// Rows differ, also by rows that came or went.
    Changed,
    /// It was added.
    Added,
    /// It was removed.
    Removed,
}

impl fmt::Display for EditedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App(name) => write!(f, "app {name}"),
            Self::KeyVersion { app, version } => write!(f, "version {version} of app {app}"),
            Self::Client(name) => write!(f, "client {name}"),
            Self::ApiKey(id) => write!(f, "API key {id}"),
            Self::Secret(purpose) => write!(f, "the keystore's secret for {purpose}"),
            Self::Slot(id) => write!(f, "key slot {id}"),
            Self::Change(generation) => {
                write!(f, "the record of the change to generation {}", generation.trim_start_matches('0'))
            }
            Self::AuditLog(engine) => write!(f, "the audit log's id of engine {engine}"),
            Self::ChangeCount => f.write_str("the number of changes"),
            Self::Root => f.write_str("the generation of the keystore, or the root of its tree,"),
            Self::Node { level, position } => write!(f, "node {position} at level {level} of the keystore's tree"),
            Self::Bucket(number) => write!(f, "bucket {number} of the keystore's tree"),
            Self::Table(name) => write!(f, "the table {name}"),
            Self::Row { table } => write!(f, "an unreadable row of the table {table}"),
        }
    }
}

impl fmt::Display for StoreEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            EditKind::Changed => "changed",
            EditKind::Added => "added",
            EditKind::Removed => "removed",
        };
        write!(f, "{} was {what} in the database by something other than Leafseal", self.part)
    }
}

/// What is wrong with a remembered state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFault {
    /// It is no state, was edited, or was written for another store.
    Foreign,
    /// It was written about another store.
    Store,
    /// It was written under a root from which this one does not descend.
    Root,
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "is not what Leafseal has written about this keystore",
            Self::Store => "was written about another keystore",
            Self::Root => "was written under a root from which that of this keystore does not descend",
        })
    }
}
