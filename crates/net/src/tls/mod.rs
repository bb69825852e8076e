//! TLS for listeners: what they accept and present, when certificates expire, and an authority for those who have none.

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
