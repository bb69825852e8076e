//! Conversations between a client and engines on a virtual clock: what the engines' connections do and when, what the client must send and
//! when, and what the calls get. `vectors/client/README.md` has the format and the algorithm, [`Model`] follows it word for word, slowly,
//! and [`generate`](fn@generate) makes more conversations. Tests of every client run them. Never shipped.

mod files;
mod generate;
mod model;
mod random;
mod rules;
mod script;

pub use files::{Mode, read_all, stale};
pub use generate::{generate, generate_many};
pub use model::{Model, Ties};
pub use rules::{Avoid, Backoff, Budget, CallAction, DecisionRow, RULES, Rules};
pub use script::{Attempt, Conversation, ScriptedAddress, ScriptedCall, ScriptedSettings, Timed};
