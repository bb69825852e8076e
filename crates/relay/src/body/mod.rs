//! Bodies of messages: read whole within budgets, decoded, worked on away from the threads that carry traffic.

pub(crate) mod buffer;
pub(crate) mod coding;
pub(crate) mod offload;
pub(crate) mod trailers;
