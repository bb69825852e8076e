//! Why key versions are not taken back from escrow.

use crate::AppName;

/// The first word of a statement; the number is the version of the form of the whole text.
pub(crate) const STATEMENT_TITLE: &str = "leafseal-escrow-1";

/// Why key versions are not taken back from escrow. Contains no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EscrowFault {
    /// The text does not begin as one in escrow.
    #[error(
        "not a key version in escrow: the file must begin with the statement {STATEMENT_TITLE}, as keys export has encrypted it; \
         private keys from elsewhere are imported with --r1 and --k1"
    )]
    NoStatement,
    /// The statement is not as an export writes it.
    #[error(
        "the statement is damaged: the file must have every byte of the text that keys export has encrypted: decrypt it again"
    )]
    Statement,
    /// The keys are not as an export writes them, or not those of the statement.
    #[error(
        "the keys after the statement are incomplete, damaged or not those that it names: the file must have every byte of the text that \
         keys export has encrypted: decrypt it again"
    )]
    Keys,
    /// No key that may has signed the statement.
    #[error(
        "the statement of version {version} of app {app} is not signed by this keystore, or was changed: for an export of another \
         keystore, --signer must be the signer that its keys export printed"
    )]
    Signature {
        /// The app in the statement.
        app: AppName,
        /// The version in the statement.
        version: u32,
    },
    /// Someone else may have signed the statement.
    #[error(
        "the statement of version {version} of app {app} is signed under a root of this keystore that others may have had (slot \
         rotate-root --compromised), so that they may have signed it: take the keys from a backup of the keystore instead"
    )]
    Compromised {
        /// The app in the statement.
        app: AppName,
        /// The version in the statement.
        version: u32,
    },
    /// The keys are of another app than the caller has named.
    #[error(
        "these are keys of app {found}, not of {wanted}: to import them into another app, name theirs: --from-app {found}"
    )]
    App {
        /// The app in the statement.
        found: AppName,
        /// The one that was named.
        wanted: AppName,
    },
    /// A version is there twice.
    #[error("version {0} is there twice: give one file for each version")]
    Repeated(u32),
    /// The texts are of several stores.
    #[error("these are keys of more than one keystore: import those of each with a command of its own")]
    SeveralStores,
}
