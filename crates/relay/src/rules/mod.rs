//! Routes, the choice among them, and the application of rules.

pub(crate) mod choice;
pub(crate) mod forms;
pub(crate) mod json_text;
pub(crate) mod overrides;
pub mod path;
pub mod route;
pub(crate) mod router;
pub(crate) mod transform;
pub(crate) mod types;
