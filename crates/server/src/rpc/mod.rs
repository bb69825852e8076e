//! The RPC listener: accepts clients with certificates, submits their requests to the pool and returns the answers.

pub(crate) mod connection;
pub(crate) mod frame_timeout;
pub(crate) mod gathered;
pub(crate) mod in_flight;
mod inline_trials;
pub(crate) mod listener;
pub(crate) mod shutdown;
pub(crate) mod wire;
pub(crate) mod write_timeout;
