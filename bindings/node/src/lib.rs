//! The `protocol` crate for Node: requests into Buffers, answers out of them, and nothing besides.
//!
//! Sockets, timeouts, pools and what to send are the caller's. `index.d.ts` describes the module for its users and is kept by hand.
//! Everything that JavaScript hands over is checked here and refused with an error that has a `code`; no panic leaves a function.
#![warn(missing_docs)]

pub mod decode;
pub mod encode;
mod fault;
mod js;
mod values;
