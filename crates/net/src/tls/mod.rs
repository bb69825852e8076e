//! TLS for listeners: what they accept and present, and when the certificates expire.

mod acceptor;
mod expiry;
mod identity;
mod policy;

pub use acceptor::Acceptor;
pub use expiry::{CertificateExpiry, Expiries, unix_seconds};
pub use identity::{ServerIdentity, TlsError, certificates, reasons, set_identity};
pub use policy::server_context;
