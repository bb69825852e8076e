//! The kinds of entries that are looked up in the store, and why one may be missing.

use leafseal_keystore::{ApiKeyId, AppName, ClientName};

/// The entry that is looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    App(AppName),
    Client(ClientName),
    ApiKey(ApiKeyId),
    TokenSecret,
}

/// Why there is nothing to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The store does not have it.
    Missing,
    /// An app that is disabled.
    Disabled,
}
