//! Routes, the choice among them, and the work of a route's rules.

pub(crate) mod choice;
pub(crate) mod forms;
pub mod route;
pub(crate) mod transform;
