//! The clients' calls and their results: each call ends once, consistently with the events.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leafseal_client::ErrorKind;
use leafseal_protocol::{CANCEL, GOING_AWAY, Message, decode_cancel};
use tokio::time::Instant;

use crate::network::Opener;

#[derive(Default)]
pub(crate) struct Journal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// Calls by the hash of their frames, which are unique.
    by_frame: HashMap<u64, usize>,
    by_id: HashMap<(u64, u32), usize>,
    /// The number of encoded requests.
    encoded: u64,
    /// Connections that engines drain, and the number of requests encoded until then.
    draining: HashMap<u64, u64>,
    troubles: BTreeMap<usize, Trouble>,
    seen: Seen,
}

/// Faults of a client's connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// One of them broke.
    pub is_harmed: bool,
    /// One of them stopped transferring without an error.
    pub is_silent: bool,
}

/// Counts of the clients' events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub answered: u64,
    pub given_up: u64,
    /// Calls that were dropped after their request was sent and before their answer arrived.
    pub cancels_due: u64,
    pub failed: BTreeMap<String, u64>,
    pub harms: u64,
    pub repeated: u64,
    /// Connections that engines drained, and retried calls.
    pub draining: u64,
    pub again: u64,
}

struct Call {
    client: usize,
    end: Option<End>,
    /// The number of its last encoded request; 0 before the first.
    encoded: u64,
    /// Its request has been written completely.
    is_written: bool,
    is_answer_read: bool,
    is_cancelled: bool,
    /// When it was dropped, neither its answer nor its cancellation had been transferred.
    is_cancel_due: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Failed(ErrorKind),
    GivenUp,
}

/// A call in progress. If it is dropped, the call was abandoned.
pub(crate) struct Open {
    journal: Arc<Journal>,
    number: usize,
    pub began: Instant,
}

impl Open {
    /// Records the request of the call.
    pub(crate) fn note_request(&self, frame: &[u8]) {
        let mut state = self.journal.lock();
        let known = state.by_frame.insert(hash(frame), self.number);
        assert!(known.is_none_or(|known| known == self.number), "two calls send the same");
        state.encoded += 1;
        let encoded = state.encoded;
        let call = &mut state.calls[self.number];
        let is_again = call.encoded > 0;
        // Earlier requests are answered, or were not started.
        (call.encoded, call.is_written, call.is_answer_read) = (encoded, false, false);
        state.seen.again += u64::from(is_again);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn end(self, end: End) {
        self.journal.end(self.number, end);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.journal.give_up(self.number);
        }
    }
}

fn hash(frame: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    frame.hash(&mut hasher);
    hasher.finish()
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock().seen.clone()
    }

    pub(crate) fn count(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.lock().seen);
    }

    pub(crate) fn begin(self: &Arc<Self>, client: usize) -> Open {
        let mut state = self.lock();
        let number = state.calls.len();
        state.calls.push(Call {
            client,
            end: None,
            encoded: 0,
            is_written: false,
            is_answer_read: false,
            is_cancelled: false,
            is_cancel_due: false,
        });
        Open { journal: Arc::clone(self), number, began: Instant::now() }
    }

    /// The call that sent this frame.
    pub(crate) fn call_of(&self, frame: &[u8]) -> Option<usize> {
        self.lock().by_frame.get(&hash(frame)).copied()
    }

    fn end(&self, number: usize, end: End) {
        let mut state = self.lock();
        let before = state.calls[number].end.replace(end);
        assert_eq!(before, None, "a call ends once");
        match end {
            End::Answered => state.seen.answered += 1,
            End::GivenUp => state.seen.given_up += 1,
            End::Failed(kind) => *state.seen.failed.entry(format!("{kind:?}")).or_default() += 1,
        }
    }

    fn give_up(&self, number: usize) {
        if self.lock().calls[number].end.is_some() {
            return;
        }
        self.end(number, End::GivenUp);
        let mut state = self.lock();
        let call = &mut state.calls[number];
        call.is_cancel_due = !call.is_answer_read;
    }

    pub(crate) fn note_harm(&self, opener: Opener, is_silent: bool) {
        let mut state = self.lock();
        state.seen.harms += 1;
        let Opener::Client(client) = opener else { return };
        let trouble = state.troubles.entry(client).or_default();
        trouble.is_harmed = true;
        trouble.is_silent |= is_silent;
    }

    pub(crate) fn trouble(&self, client: usize) -> Trouble {
        self.lock().troubles.get(&client).copied().unwrap_or_default()
    }

    /// Records that a client has written a message.
    pub(crate) fn note_written(&self, connection: u64, message: &Message<'_>, frame: &[u8]) {
        let mut guard = self.lock();
        let state = &mut *guard;
        match *message {
            Message::Request { id, .. } => {
                if let Some(&number) = state.by_frame.get(&hash(frame)) {
                    let draining = state.draining.get(&connection).copied();
                    let is_new = draining.is_some_and(|since| state.calls[number].encoded > since);
                    assert!(!is_new, "call {number} begins on a draining connection");
                    state.by_id.insert((connection, id), number);
                    state.calls[number].is_written = true;
                }
            }
            Message::Notification { method: CANCEL, params } => {
                let id = decode_cancel(params).expect("an id");
                if let Some(&number) = state.by_id.get(&(connection, id)) {
                    state.calls[number].is_cancelled = true;
                }
            }
            _ => {}
        }
    }

    /// Records that a client has read a message.
    pub(crate) fn note_read(&self, connection: u64, message: &Message<'_>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Message::Notification { method: GOING_AWAY, .. } = message {
            state.draining.entry(connection).or_insert(state.encoded);
            state.seen.draining += 1;
        }
        let Message::Response { id, .. } = *message else { return };
        if let Some(&number) = state.by_id.get(&(connection, id)) {
            state.calls[number].is_answer_read = true;
        }
    }

    /// Checks that all calls have ended, and that the engine received a cancellation of each abandoned one, unless it `has_left` or was
    /// unreachable.
    pub(crate) fn assert_complete(&self, has_left: bool) {
        let mut state = self.lock();
        let mut due = 0;
        for (number, call) in state.calls.iter().enumerate() {
            assert!(call.end.is_some(), "call {number} does not end");
            let is_harmed = state.troubles.get(&call.client).is_some_and(|trouble| trouble.is_harmed);
            if call.is_cancel_due && call.is_written && !is_harmed && !has_left {
                assert!(call.is_cancelled, "call {number} was given up without a word to the engine");
                due += 1;
            }
        }
        state.seen.cancels_due += due;
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.answered += other.answered;
        self.given_up += other.given_up;
        self.cancels_due += other.cancels_due;
        self.harms += other.harms;
        self.repeated += other.repeated;
        self.draining += other.draining;
        self.again += other.again;
        for (kind, count) in other.failed {
            *self.failed.entry(kind).or_default() += count;
        }
    }
}
