//! Selectors with filters: the document as a tape of values, and the evaluation of all of RFC 9535 on it.
//!
//! The tape stores the positions of values, not their content, so numbers keep their text and duplicate members stay separate. It also
//! evaluates selectors without filters, which tests the streaming walk.

mod bits;
mod comparison;
mod decimal;
mod evaluation;
mod matching;
mod predicate;
mod steps;
mod tape;
mod text;
mod value;
mod walk;

pub(crate) use evaluation::{Evaluated, Evaluation, SelectedNodes};
pub(crate) use tape::{ChildKey, Tape};
