//! TLS for listeners: policy, certificates and their expiry, batches of private-key operations, and a private authority.

mod acceptor;
mod authority;
mod certificate;
mod expiry;
mod identity;
mod inspection;
mod policy;
mod private_key;

pub use acceptor::Acceptor;
pub use authority::{Authority, ServerName};
pub use certificate::{AUTHORITY_DAYS, CertificateError, Issued, LEAF_DAYS, Validity};
pub use expiry::{CertificateExpiry, Expiries, unix_seconds};
pub use identity::{ServerIdentity, TlsError, certificates, reasons, set_identity};
pub use inspection::{Inspection, inspect};
pub use policy::{MutualTls, mutual_context, server_context};
pub use private_key::{BATCH_SIZE_MAX, PrivateKeyBatching, PrivateKeyFigures, PrivateKeySettings, sign_before_parking};
