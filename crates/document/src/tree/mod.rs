//! The way for selectors with filters: the document as a tape of values, and the evaluation of all of RFC 9535 on it.
//!
//! The tape holds where values stand, not what they are, so numbers keep their text and duplicate members stay two.
//! It also evaluates selectors without filters, which is how the streaming walk is checked.

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
pub(crate) use tape::{Place, Tape};
