//! TLS for listeners: policy, certificates and their expiry, and a private authority.

mod acceptor;
mod authority;
mod certificate;
mod expiry;
mod identity;
mod inspection;
mod policy;

pub use acceptor::Acceptor;
pub use authority::{Authority, ServerName};
pub use certificate::{AUTHORITY_DAYS, CertificateError, Issued, LEAF_DAYS, Validity};
pub use expiry::{CertificateExpiry, Expiries, unix_seconds};
pub use identity::{ServerIdentity, TlsError, certificates, reasons, set_identity};
pub use inspection::{Inspection, inspect};
pub use policy::{MutualTls, mutual_context, server_context};
