//! Counts calls of the HTTPS API by kind and status.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafseal_http::HttpCounters;
use leafseal_net::metrics::{Histogram, HistogramSnapshot};

/// The calls of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiCall {
    /// An app's public keys, by API key.
    KeysByApiKey,
    /// The same by the app's name in a header.
    KeysByApp,
    /// The same by path, for browsers.
    AppOfTeam,
    Encrypt,
    Decrypt,
    Inspect,
    ClientSideTokens,
    RelayOutbound,
    /// The certificate of the outbound relay's authority.
    Certificate,
    OpenApi,
}

impl ApiCall {
    /// Every call, in the order of their indexes.
    pub(crate) const ALL: [ApiCall; 10] = [
        ApiCall::KeysByApiKey,
        ApiCall::KeysByApp,
        ApiCall::AppOfTeam,
        ApiCall::Encrypt,
        ApiCall::Decrypt,
        ApiCall::Inspect,
        ApiCall::ClientSideTokens,
        ApiCall::RelayOutbound,
        ApiCall::Certificate,
        ApiCall::OpenApi,
    ];

    /// The name in metrics and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ApiCall::KeysByApiKey => "cages_key",
            ApiCall::KeysByApp => "keys",
            ApiCall::AppOfTeam => "team_app",
            ApiCall::Encrypt => "encrypt",
            ApiCall::Decrypt => "decrypt",
            ApiCall::Inspect => "inspect",
            ApiCall::ClientSideTokens => "client_side_tokens",
            ApiCall::RelayOutbound => "relay_outbound",
            ApiCall::Certificate => "certificate",
            ApiCall::OpenApi => "openapi",
        }
    }
}

/// The statuses of answers. Any other status counts as 500; it would be a bug.
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
/// The index for callers that disconnected before the answer.
const DISCONNECTED: usize = STATUSES.len() - 1;
const INTERNAL: usize = 11;
/// The number of calls, and one more for requests to anything else.
const CALLS: usize = ApiCall::ALL.len() + 1;

/// Counters of all calls since the start. Relaxed ordering suffices: no other data depends on them.
#[derive(Default)]
pub(crate) struct ApiCounters {
    calls: [[AtomicU64; STATUSES.len()]; CALLS],
    times: [Histogram; CALLS],
    connections: OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>,
}

impl std::fmt::Debug for ApiCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiCounters").finish_non_exhaustive()
    }
}

/// [`ApiCounters`] at one moment.
#[derive(Debug)]
pub(crate) struct ApiSnapshot {
    /// Call, status and count; of those that occurred, and of `200` for every call.
    pub(crate) calls: Vec<([&'static str; 2], u64)>,
    /// Durations of the calls that occurred.
    pub(crate) times: Vec<(&'static str, HistogramSnapshot)>,
    pub(crate) connections: HttpCounters,
}

fn index_of(call: Option<ApiCall>) -> usize {
    call.map_or(ApiCall::ALL.len(), |call| call as usize)
}

fn word_of_index(index: usize) -> &'static str {
    ApiCall::ALL.get(index).map_or("other", |call| call.as_str())
}

/// The name of a call in metrics and logs.
pub(crate) fn word_of(call: Option<ApiCall>) -> &'static str {
    word_of_index(index_of(call))
}

impl ApiCounters {
    /// Registers the listener's counters.
    pub(crate) fn watch(&self, counting: impl Fn() -> HttpCounters + Send + Sync + 'static) {
        // A server has one listener.
        let _ = self.connections.set(Box::new(counting));
    }

    /// Counts a finished call; `status` is `None` if the caller disconnected.
    pub(crate) fn count(&self, call: Option<ApiCall>, status: Option<u16>, time: Duration) {
        let place_of = |status| STATUSES.iter().position(|(known, _)| *known == status).unwrap_or(INTERNAL);
        let index = index_of(call);
        self.calls[index][status.map_or(DISCONNECTED, place_of)].fetch_add(1, Ordering::Relaxed);
        self.times[index].observe(time);
    }

    pub(crate) fn snapshot(&self) -> ApiSnapshot {
        let of_call = |(index, counts): (usize, &[AtomicU64; STATUSES.len()])| {
            let word = word_of_index(index);
            let counts = STATUSES.iter().zip(counts);
            counts.map(|((_, status), count)| ([word, *status], count.load(Ordering::Relaxed))).collect::<Vec<_>>()
        };
        let calls = self.calls.iter().enumerate().flat_map(of_call);
        let times = self.times.iter().enumerate();
        ApiSnapshot {
            calls: calls.filter(|([_, status], count)| *count > 0 || *status == "200").collect(),
            times: times.map(|(index, histogram)| (word_of_index(index), histogram.snapshot())).collect(),
            connections: self.connections.get().map_or_else(HttpCounters::default, |counting| counting()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_word_of_its_own() {
        let mut words: Vec<&str> = (0..CALLS).map(word_of_index).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), CALLS);
        assert!(ApiCall::ALL.iter().enumerate().all(|(index, call)| index_of(Some(*call)) == index));
        assert_eq!(
            (index_of(None), STATUSES[INTERNAL].0, STATUSES[DISCONNECTED].1),
            (ApiCall::ALL.len(), 500, "disconnected")
        );
    }
}
