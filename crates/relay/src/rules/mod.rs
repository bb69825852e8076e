//! Routes, the choice among them, and the application of rules.

pub(crate) mod choice;
pub(crate) mod forms;
pub mod route;
pub(crate) mod transform;
pub(crate) mod types;
