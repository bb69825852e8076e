//! Names, sizes and traits that [`ffi`](crate::ffi) shares with the modules above it. They import neither.

pub(crate) mod aead;
pub(crate) mod curve;
pub(crate) mod ed25519;
pub(crate) mod hash;
pub(crate) mod hpke;
pub(crate) mod rsa;
pub(crate) mod ticket;
