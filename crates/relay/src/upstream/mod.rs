//! Connections to upstreams: opened, pooled, and returned when an answer's body ends. One pool per thread.

mod body;
mod connect;
mod pool;
mod sockets;

pub(crate) use body::Sent;
pub use connect::ConnectorError;
pub(crate) use connect::{Connector, UpstreamTls, plain};
pub(crate) use pool::{UpstreamAnswer, UpstreamError, UpstreamPool};
pub(crate) use sockets::{Socket, Sockets};
