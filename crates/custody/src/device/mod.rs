//! Devices that are reached through a library of their maker's or of their system's: in a process of their own, with a deadline.
//!
//! Such a library runs in the process that loads it. One that hangs, crashes or corrupts memory must not take an engine with it, so a
//! process is started for each call, asked one thing, and ended:
//!
//! ```text
//! engine                                 process of the device
//!   start it
//!   operation, device, place, input  →   read all; then end when the engine's end of the pipe closes
//!                                        library: open, find the key, wrap or unwrap
//!   output or refusal                ←
//!   end it, if it does not end
//! ```
//!
//! A new process also has no stale handles and no login that is lost.

mod exchange;
mod host;
mod process;

pub use exchange::{DeviceOperation, DeviceRequest};
pub use host::answer_request;
pub(crate) use process::DeviceProcess;
