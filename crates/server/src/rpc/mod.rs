//! The RPC listener: from a socket of a client with a certificate to requests in the pool, and from their answers back to the
//! socket.

pub(crate) mod connection;
pub(crate) mod departure;
pub(crate) mod frame_timeout;
pub(crate) mod gathered;
pub(crate) mod in_flight;
pub(crate) mod listener;
pub(crate) mod outbox;
pub(crate) mod turns;
pub(crate) mod wire;
pub(crate) mod write_timeout;
