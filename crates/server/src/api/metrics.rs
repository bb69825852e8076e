//! Calls, each counted once: by what was called and with which status it was answered. And the lines of the log about them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use fieldseal_http::{HttpCounters, Peer, Problem, ResponseBody, client_of};
use hyper::body::Body as _;
use hyper::{Response, StatusCode};

use super::route::{Call, PATHS};
use crate::clock;
use crate::hub::Hub;
use crate::metrics::{Histogram, HistogramSnapshot};
use crate::refusals::Refused;

/// The statuses that are answered. What is none of them counts as 500, which it would be a fault to be.
const STATUSES: [(u16, &str); 15] = [
    (200, "200"),
    (204, "204"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (500, "500"),
    (503, "503"),
    (504, "504"),
    (0, "disconnected"),
];
/// Where the caller went away before the answer.
const DISCONNECTED: usize = STATUSES.len() - 1;
const INTERNAL: usize = 11;
/// The calls, and one more for whatever is none.
const CALLS: usize = Call::COUNT + 1;

/// All calls since the start. Relaxed throughout: nothing is published by the counts.
#[derive(Default)]
pub(crate) struct ApiTallies {
    calls: [[AtomicU64; STATUSES.len()]; CALLS],
    times: [Histogram; CALLS],
    connections: OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>,
}

impl std::fmt::Debug for ApiTallies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiTallies").finish_non_exhaustive()
    }
}

/// [`ApiTallies`] at one moment.
#[derive(Debug)]
pub(crate) struct ApiSnapshot {
    /// Call, status, how many; those that there were, and all that could have gone well.
    pub(crate) calls: Vec<([&'static str; 2], u64)>,
    /// Those that there were.
    pub(crate) times: Vec<(&'static str, HistogramSnapshot)>,
    pub(crate) connections: HttpCounters,
}

fn index_of(call: Option<Call>) -> usize {
    call.and_then(|call| PATHS.iter().position(|(_, known)| *known == call)).unwrap_or(Call::COUNT)
}

fn word_of(index: usize) -> &'static str {
    PATHS.get(index).map_or("other", |(_, call)| call.as_str())
}

impl ApiTallies {
    /// Takes the counts of the listener.
    pub(super) fn watch(&self, counting: impl Fn() -> HttpCounters + Send + Sync + 'static) {
        // A server has one listener.
        let _ = self.connections.set(Box::new(counting));
    }

    pub(crate) fn snapshot(&self) -> ApiSnapshot {
        let of_call = |(index, counts): (usize, &[AtomicU64; STATUSES.len()])| {
            let word = word_of(index);
            let counts = STATUSES.iter().zip(counts);
            counts.map(|((_, status), count)| ([word, *status], count.load(Ordering::Relaxed))).collect::<Vec<_>>()
        };
        let calls = self.calls.iter().enumerate().flat_map(of_call);
        let times = self.times.iter().enumerate();
        ApiSnapshot {
            calls: calls.filter(|([_, status], count)| *count > 0 || *status == "200").collect(),
            times: times.map(|(index, histogram)| (word_of(index), histogram.snapshot())).collect(),
            connections: self.connections.get().map_or_else(HttpCounters::default, |counting| counting()),
        }
    }
}

/// The account of one call. Dropped before its end it counts as one whose caller went away.
pub(super) struct Record {
    hub: Arc<Hub>,
    call: Option<Call>,
    began: Instant,
    is_counted: bool,
}

impl Record {
    pub(super) fn begin(hub: Arc<Hub>, call: Option<Call>, began: Instant) -> Self {
        Record { hub, call, began, is_counted: false }
    }

    fn word(&self) -> &'static str {
        word_of(index_of(self.call))
    }

    /// Writes why a call is refused, within the bound of such lines, where that concerns whoever runs the engine: not for mistakes in
    /// what was sent.
    pub(super) fn refused(&self, problem: &Problem, peer: &Peer) {
        let concerns = matches!(problem.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !concerns && !problem.status.is_server_error() {
            return;
        }
        let (status, code) = (problem.status.as_u16(), problem.code);
        let write = || {
            tracing::warn!(address = %peer.address, call = self.word(), status, code, reason = %problem.detail, "call refused");
        };
        self.hub.refusals.line(Refused::Call, clock::now(), &client_of(peer.address.ip()), write);
    }

    /// The call is answered, but for what is still to be sent.
    pub(super) fn end(mut self, response: &Response<ResponseBody>, peer: &Peer) {
        let status = response.status().as_u16();
        let place = STATUSES.iter().position(|(known, _)| *known == status).unwrap_or(INTERNAL);
        self.count(place);
        if self.hub.settings.api.access_log {
            let bytes = response.body().size_hint().exact();
            let milliseconds = clock::now().saturating_duration_since(self.began).as_secs_f64() * 1e3;
            tracing::info!(address = %peer.address, call = self.word(), status, bytes, milliseconds, "call");
        }
    }

    fn count(&mut self, place: usize) {
        self.is_counted = true;
        let index = index_of(self.call);
        let tallies = &self.hub.api;
        tallies.calls[index][place].fetch_add(1, Ordering::Relaxed);
        tallies.times[index].observe(clock::now().saturating_duration_since(self.began));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_counted {
            self.count(DISCONNECTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_word_of_its_own() {
        let mut words: Vec<&str> = (0..CALLS).map(word_of).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), CALLS);
        assert_eq!(
            (index_of(None), STATUSES[INTERNAL].0, STATUSES[DISCONNECTED].1),
            (Call::COUNT, 500, "disconnected")
        );
    }
}
