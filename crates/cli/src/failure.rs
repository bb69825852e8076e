//! How a command fails: an exit code for scripts and one line for a person.
//!
//! Messages say what to do. They never contain a value of a document, a key or a root key: only names, paths, positions, and the messages
//! of crates with the same guarantee.

use std::fmt;
use std::io;
use std::path::Path;

use leafseal_engine::admin;
use leafseal_engine::{Error as EngineError, ErrorCode, Side};
use thiserror::Error;

/// Exit codes; `docs/configuration.md` has the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The operation failed: decrypt failed, not JSON, unknown app, not permitted.
    Failed = 1,
    /// Wrong usage or configuration. Nothing was done.
    Usage = 2,
    /// The store or the engine cannot be reached, or is overloaded.
    Unreachable = 3,
    /// The output could not be written, as on a full disk.
    Output = 4,
    /// A bug, or an unexpected system error.
    Internal = 5,
    /// Interrupted by the user: the exit code of a shell for SIGINT. No message.
    Interrupted = 130,
    /// The reader of the output has closed the pipe: the exit code of a shell for SIGPIPE. No message.
    BrokenPipe = 141,
}

impl Exit {
    /// The exit code for an error of the engine, in this process or over the network.
    pub(crate) fn of(code: ErrorCode) -> Self {
        match (code, code.side()) {
            (ErrorCode::InvalidParams | ErrorCode::InvalidSelector | ErrorCode::InvalidSettings, _) => Self::Usage,
            (ErrorCode::Internal, _) => Self::Internal,
            (_, Side::Temporary) | (ErrorCode::TlsFailed | ErrorCode::ProtocolError, _) => Self::Unreachable,
            _ => Self::Failed,
        }
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub(crate) struct CommandFailure {
    /// The exit code.
    pub exit: Exit,
    /// One or more lines, without the prefix `leafseal:`.
    pub message: String,
}

/// The result of commands.
pub(crate) type CommandOutcome<T = ()> = Result<T, CommandFailure>;

impl CommandFailure {
    /// The operation failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    /// Wrong usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// The store or the engine cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into() }
    }

    /// A bug, or a system error.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { exit: Exit::Internal, message: message.into() }
    }

    /// Stopped by a signal before there was a result.
    pub(crate) fn interrupted() -> Self {
        Self { exit: Exit::Interrupted, message: String::new() }
    }

    /// Reading `path` failed.
    pub(crate) fn reading(path: &Path, error: &io::Error) -> Self {
        Self::usage(format!("cannot read {}: {}", path.display(), plain(error)))
    }

    /// Writing to `place` failed.
    pub(crate) fn writing(place: impl fmt::Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::BrokenPipe, message: String::new() };
        }
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "no space left: free some, or write elsewhere with -o FILE, then run the command again"
            }
            _ => return Self { exit: Exit::Output, message: format!("cannot write to {place}: {}", plain(error)) },
        };
        Self { exit: Exit::Output, message: format!("cannot write to {place}: {advice}") }
    }

    /// Adds a location before the message.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        if self.message.is_empty() {
            return self;
        }
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Adds advice after the message.
    pub(crate) fn advise(self, advice: impl fmt::Display) -> Self {
        Self { message: format!("{}: {advice}", self.message), ..self }
    }
}

/// An I/O error without `(os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut text = text[..end].to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

impl From<EngineError> for CommandFailure {
    fn from(error: EngineError) -> Self {
        let advice = match error.code {
            ErrorCode::UnknownApp => ": run leafseal keys list to see the apps",
            ErrorCode::AppDisabled => ": run leafseal keys enable APP to enable it",
            _ => "",
        };
        // The user of the program owns the store, and may know the cause.
        let message = error.cause().map_or_else(|| format!("{error}{advice}"), str::to_owned);
        Self { exit: Exit::of(error.code), message }
    }
}

impl From<admin::StoreError> for CommandFailure {
    fn from(error: admin::StoreError) -> Self {
        use admin::StoreError as E;
        let exit = match &error {
            E::Permissions { .. } => Exit::Usage,
            E::NoStore(_)
            | E::NotAStore(_)
            | E::NewerSchema { .. }
            | E::OldSchema { .. }
            | E::WrongRootKey { .. }
            | E::Sealed { .. }
            | E::Unopened
            | E::RootReplaced
            | E::Provider { .. }
            | E::Unseal(_)
            | E::Busy
            | E::Unreachable { .. }
            | E::Unconfirmed(_)
            | E::RootKey(_)
            | E::Io { .. }
            | E::Storage(_)
            | E::Inconsistent(_)
            | E::Edited(_)
            | E::DamagedSymmetricKey { .. }
            | E::DamagedKey { .. } => Exit::Unreachable,
            E::Full | E::BackupWrite(_) => Exit::Output,
            _ => Exit::Failed,
        };
        let advice = match &error {
            E::NoStore(_) => " (leafseal keys create APP, or leafseal dev for development)",
            E::WrongRootKey { .. } => ": give the root key that belongs to this store",
            E::Sealed { .. } => ": give what opens one of them",
            E::UntestedSlots(_) => {
                ": give what does (keystore.unseal_file, keystore.root_key_file), or state with --others-untested that you \
                 know one"
            }
            E::ReplacedCertificates(_) => {
                ": wait until one ends (leafseal certs list --json), or give it a new grant with leafseal certs issue"
            }
            E::UnknownSlot(_) => ": run leafseal slot list to see the slots",
            E::UnknownApp(_) => ": run leafseal keys list to see the apps, leafseal keys create APP to create one",
            E::AppExists(_) => ": run leafseal keys rotate APP to add a key version",
            E::UnknownClient(_) => ": run leafseal certs list to see the clients",
            E::UnknownApiKey(_) => ": run leafseal api-keys list to see the keys",
            E::TooMany { what, .. } => way_out(*what),
            E::DeletionPending { .. } => " (leafseal keys undelete APP)",
            E::UsedRecently { .. } => ": stop its use and wait, or give a shorter --unused-for",
            E::ActiveVersion { .. } => " with leafseal keys disable",
            E::Full => ": free disk space, or raise keystore.store_size_max, then try again",
            E::DamagedKey { fault: admin::KeyFault::LeftOut, .. }
            | E::DamagedSymmetricKey { fault: admin::KeyFault::LeftOut, .. } => "",
            E::DisabledApp(_) => " (leafseal keys enable APP)",
            E::DamagedKey { .. } | E::DamagedSymmetricKey { .. } | E::Inconsistent(_) => {
                ": run leafseal store check, and restore the store from a backup"
            }
            _ => "",
        };
        let message = match &error {
            E::Io { path, source } => format!("{}: {}", path.display(), plain(source)),
            _ => error.to_string(),
        };
        Self { exit, message: format!("{message}{advice}") }
    }
}

/// The advice at a limit of the keystore.
fn way_out(counted: admin::LimitedEntries) -> &'static str {
    use admin::LimitedEntries as C;
    match counted {
        C::Versions => {
            ": rewrap the values of old versions, disable these, and destroy their keys with leafseal keys trim APP, or raise \
             keystore.version_count_max"
        }
        C::Apps => ": raise keystore.app_count_max",
        C::Clients => ": raise keystore.client_count_max",
        C::GrantEntries => ": grant all apps or every role, or raise keystore.grant_entry_count_max",
        C::Slots => ": remove one with leafseal slot remove, or raise keystore.slot_count_max",
        C::ApiKeys => ": raise keystore.api_key_count_max (revoked keys count)",
        C::Canaries => ": remove one with leafseal canaries remove",
    }
}

impl From<admin::InvalidName> for CommandFailure {
    fn from(error: admin::InvalidName) -> Self {
        Self::usage(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_closed_pipe_are_different_errors() {
        let full = CommandFailure::writing("standard output", &io::ErrorKind::StorageFull.into());
        assert_eq!(full.exit, Exit::Output);
        assert!(full.message.contains("no space left"), "{full}");
        let gone = CommandFailure::writing("standard output", &io::ErrorKind::BrokenPipe.into()).at("line 3");
        assert_eq!(gone, CommandFailure { exit: Exit::BrokenPipe, message: String::new() });
    }

    #[test]
    fn system_errors_are_plain() {
        assert_eq!(plain(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
