//! The kinds of entries that are looked up in the store, and why one may be missing.

use leafseal_crypto::symmetric::SymmetricKeyId;
use leafseal_keystore::{ApiKeyId, AppName, ClientName};

/// The entry that is looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    App(AppName),
    Client(ClientName),
    ApiKey(ApiKeyId),
    TokenSecret,
    /// The app as one that has this key: an envelope names it, and the cached app does not have it.
    SymmetricKey(AppName, SymmetricKeyId),
}

/// Why there is nothing to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The store does not have it.
    Missing,
    /// An app that is disabled.
    Disabled,
}
