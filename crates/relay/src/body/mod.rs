//! Message bodies: buffered within budgets, decoded, and processed away from the threads that carry traffic.

pub(crate) mod buffer;
pub(crate) mod coding;
pub(crate) mod envelopes;
pub(crate) mod offload;
mod turns;
