//! The application of rules to messages.

pub(crate) mod forms;
pub(crate) mod overrides;
pub(crate) mod transform;
