//! A client and its engines, on a virtual clock: the algorithm of `vectors/client/README.md`, step by step.

mod calls;
mod dialling;
mod engines;
mod pool;

use std::collections::BTreeMap;

use crate::rules::Rules;
use crate::script::{Conversation, Timed};
use calls::ModelCall;
use dialling::{Dial, ModelDialling};
use pool::{ModelAvoidance, ModelConnection};

/// The order of events at the same millisecond.
#[derive(Clone, Copy, Debug)]
pub enum Ties {
    /// As they were caused.
    First,
    /// The other way round.
    Last,
    /// In an order that depends on a seed.
    Shuffled(u64),
}

impl Ties {
    fn key(self, sequence: u64) -> u64 {
        match self {
            Ties::First => sequence,
            Ties::Last => u64::MAX - sequence,
            Ties::Shuffled(seed) => crate::random::mix(seed ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
    }
}

/// The purpose of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialKind {
    Any,
    /// To reach an engine that is not avoided.
    Elsewhere,
}

/// An event that is due at a time.
#[derive(Clone, Debug)]
enum ModelEvent {
    Begin(usize),
    Retry(usize),
    Cancel(usize),
    /// The call's `request_timeout` is over.
    Expire(usize),
    /// A call's attempt has ended with something other than an answer.
    Failed(usize, String, String),
    /// The pause before a dial is over.
    Dial,
    /// An attempt to connect has ended, with `accept` or an error.
    Dialled(String),
    Answer(usize, usize, Timed),
    Engine(usize, Timed),
    /// A request's answer is overdue, whose call was cancelled.
    Overdue(usize, usize),
    /// The calls that wait begin again.
    Pump,
}

/// The state of everything.
pub struct Model<'c> {
    conversation: &'c Conversation,
    rules: Rules,
    ties: Ties,
    now: u64,
    sequence: u64,
    events: BTreeMap<(u64, u64), ModelEvent>,
    transcript: Vec<(u64, String)>,
    calls: Vec<ModelCall>,
    /// The calls that wait, in order.
    waiting: Vec<usize>,
    connections: Vec<ModelConnection>,
    avoided: BTreeMap<usize, ModelAvoidance>,
    dialling: ModelDialling,
    dial: Option<Dial>,
    credit: u32,
    /// Indexes of lines of the decision table.
    used: Vec<usize>,
    /// Each request: when, on which connection, and whether its call had waited.
    arrivals: Vec<(u64, usize, bool)>,
}

/// How long after its last event a conversation ends, so that what a client must not do has time to be seen.
const QUIET_MS: u64 = 12_000;

impl<'c> Model<'c> {
    /// Plays a conversation; returns the transcript, and when it ends.
    pub fn play(conversation: &'c Conversation, ties: Ties) -> (Vec<String>, u64) {
        let model = Model::run(conversation, ties);
        let last = model.transcript.last().map_or(0, |(at, _)| *at);
        (model.transcript.into_iter().map(|(at, line)| format!("{at} {line}")).collect(), last + QUIET_MS)
    }

    /// The indexes of the lines of the decision table that a conversation uses.
    pub fn rules_used(conversation: &'c Conversation) -> Vec<usize> {
        Model::run(conversation, Ties::First).used
    }

    /// Whether a call that waited and one that began just then sent on one connection in the same millisecond. Which comes first is a
    /// matter of how a client hands a free connection to a call.
    pub fn has_races(conversation: &'c Conversation) -> bool {
        let arrivals = Model::run(conversation, Ties::First).arrivals;
        arrivals.iter().any(|(at, connection, waited)| arrivals.contains(&(*at, *connection, !waited)))
    }

    fn run(conversation: &'c Conversation, ties: Ties) -> Self {
        let mut rules = Rules::current();
        let settings = &conversation.settings;
        rules.connections_max = settings.connections_max.unwrap_or(rules.connections_max);
        rules.requests_in_flight_max = settings.requests_in_flight_max.unwrap_or(rules.requests_in_flight_max);
        rules.retries_max = settings.retries_max.unwrap_or(rules.retries_max);
        rules.backoff.min_ms = settings.backoff_min_ms.unwrap_or(rules.backoff.min_ms);
        rules.backoff.max_ms = settings.backoff_max_ms.unwrap_or(rules.backoff.max_ms);
        rules.connect_timeout_ms = settings.connect_timeout_ms.unwrap_or(rules.connect_timeout_ms);
        rules.request_timeout_ms = settings.request_timeout_ms.unwrap_or(rules.request_timeout_ms);
        rules.abandoned_timeout_ms = settings.abandoned_timeout_ms.unwrap_or(rules.abandoned_timeout_ms);
        let credit = rules.budget.start;
        let mut model = Model {
            conversation,
            rules,
            ties,
            now: 0,
            sequence: 0,
            events: BTreeMap::new(),
            transcript: Vec::new(),
            calls: Vec::new(),
            waiting: Vec::new(),
            connections: Vec::new(),
            avoided: BTreeMap::new(),
            dialling: ModelDialling::new(conversation.addresses.len()),
            dial: None,
            credit,
            used: Vec::new(),
            arrivals: Vec::new(),
        };
        for (index, call) in conversation.calls.iter().enumerate() {
            model.calls.push(ModelCall::new(call));
            model.push(call.at, ModelEvent::Begin(index));
            if let Some(at) = call.cancel_at {
                model.push(at, ModelEvent::Cancel(index));
            }
        }
        while let Some(((now, _), event)) = model.events.pop_first() {
            model.now = now;
            model.handle(event);
        }
        model.transcript.sort();
        model
    }

    fn handle(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Begin(call) => self.call_begins(call),
            ModelEvent::Retry(call) => self.retry(call),
            ModelEvent::Cancel(call) => self.call_ends_early(call, "cancelled"),
            ModelEvent::Expire(call) => self.call_ends_early(call, "timeout"),
            ModelEvent::Failed(call, event, code) => self.attempt_ends(call, &event, &code, None),
            ModelEvent::Dial => self.dial(),
            ModelEvent::Dialled(outcome) => self.dialled(&outcome),
            ModelEvent::Answer(connection, request, answer) => self.answered(connection, request, &answer),
            ModelEvent::Engine(connection, event) => self.engine_does(connection, &event),
            ModelEvent::Overdue(connection, request) => self.overdue(connection, request),
            ModelEvent::Pump => self.pump(),
        }
    }

    fn push(&mut self, at: u64, event: ModelEvent) {
        self.sequence += 1;
        self.events.insert((at, self.ties.key(self.sequence)), event);
    }

    fn write(&mut self, line: String) {
        self.transcript.push((self.now, line));
    }

    /// The pause after `count` earlier ones.
    ///
    /// # Panics
    /// If it is not a whole number of milliseconds: then the clients would round differently.
    fn backoff(&self, count: u32) -> u64 {
        let backoff = &self.rules.backoff;
        let longest = backoff.factor.saturating_pow(count).saturating_mul(backoff.min_ms).min(backoff.max_ms);
        let jitter = backoff.jitter_from + (backoff.jitter_to - backoff.jitter_from) * self.conversation.random;
        #[allow(clippy::cast_precision_loss, reason = "small")]
        let pause = longest as f64 * jitter;
        assert!(pause.fract() == 0.0, "a pause of {pause} ms");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        return pause as u64;
    }
}
