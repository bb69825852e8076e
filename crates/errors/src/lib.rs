//! The error codes of Leafseal: one table for the engine, the RPC protocol, the HTTPS API, the relay and the clients.
//!
//! [`ErrorCode`] has each code with its name, whose fault it is, the retry advice, the HTTP status and the interfaces that return it. Other
//! places are generated from the table ([`codes`]): `docs/errors.md`, the tables of codes in `docs/`, and the constants of the clients in
//! other languages (`cargo xtask generate`). Imports nothing, so that every crate may use it.

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod codes;
mod words;

pub use codes::ErrorCode;
pub use words::{Interface, Retry, Side};
