//! TLS for listeners: policy, certificates and their expiry, sessions that are resumed, batches of private-key operations, and a private
//! authority.

mod acceptor;
mod authority;
mod certificate;
mod error;
mod expiry;
mod groups;
mod identity;
mod inspection;
mod policy;
mod private_key;
mod sessions;
mod verified_chains;

pub use acceptor::Acceptor;
pub use authority::{CertificateAuthority, ServerName};
pub use certificate::{AUTHORITY_DAYS, CertificateError, Issued, LEAF_DAYS, Validity};
pub use error::{NO_SHARED_GROUP, TlsError, explained, reasons};
pub use expiry::{CertificateExpiry, Expiries};
pub use groups::{GroupCounters, GroupCounts, negotiated_group};
pub use identity::{ServerIdentity, certificates, set_identity};
pub use inspection::{CertificateInspection, inspect};
pub use leafseal_crypto::chain::{chain_expiry, keep_chain_expiry, record_chain_expiries, unix_seconds};
pub use leafseal_crypto::tickets::offer_session;
pub use policy::{MutualTls, mutual_context, server_context, set_key_exchange};
pub use private_key::{BATCH_SIZE_MAX, PrivateKeyBatching, PrivateKeyFigures, PrivateKeySettings, sign_before_parking};
pub use sessions::{SessionSettings, TICKET_KEYS_MAX, ticket_keys};
pub use verified_chains::VerifiedChains;
