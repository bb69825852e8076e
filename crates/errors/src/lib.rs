//! The vocabulary that all entry points and clients share: error codes, operations, and decisions about them.
//!
//! [`ErrorCode`] has each code with its name, whose fault it is, the retry advice, the HTTP status and the interfaces that return it. Other
//! places are generated from the table ([`codes`]): `docs/errors.md`, the tables of codes in `docs/`, and the constants of the clients in
//! other languages (`cargo xtask generate`). [`Operation`] is what callers do,
//! [`Decision`] whether they may. Imports nothing, so that every crate may use it.

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
mod words;
mod codes;
mod decision;
mod decision_counts;
mod operation;

pub use codes::ErrorCode;
pub use decision::{Decision, DecisionObserver, Denial, EntryPoint, Observers, Principal, Question, RequestOrigin};
pub use decision_counts::DecisionCounts;
pub use operation::Operation;
pub use words::{Interface, Retry, Side};
