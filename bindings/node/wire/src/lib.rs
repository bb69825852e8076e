//! The `protocol` crate for Node: encodes requests to Buffers and decodes answers from them.
//!
//! The caller handles sockets, timeouts and pools. `index.d.ts` documents the module for its users and is maintained by hand. All arguments
//! from JavaScript are checked and refused with an error that has a `code`; panics are caught.
#![allow(unsafe_code)]

pub mod decode;
pub mod encode;
mod fault;
mod js;
mod memory;
mod names;
mod values;

use napi_derive::napi;

/// The version of the native module, which must be that of the package.
#[napi]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
