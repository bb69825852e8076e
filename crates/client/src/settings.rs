//! Settings of the client: addresses, credentials, limits and timeouts.

use std::time::Duration;

use leafseal_protocol::Limits;

use crate::error::ClientError;
use crate::identity::ClientTls;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `HOST:PORT` of one or more engines that serve the same apps; at least one. Connections are spread over them; engines that cannot be
    /// reached are skipped.
    pub addresses: Vec<String>,
    /// Whether the first connection goes to a random address. Without it all clients connect to the first address first. Default true.
    pub shuffle_addresses: bool,
    /// Certificates and key.
    pub tls: ClientTls,
    /// The name that the server's certificate must be valid for. Default: the host of the address.
    pub server_name: Option<String>,
    /// Maximum number of open connections, at least 1. Another one is opened while all are busy. Default 2.
    pub connections_max: usize,
    /// Maximum number of calls in flight on one connection; further calls wait. Default 128, below the engine's own limit.
    pub requests_in_flight_max: usize,
    /// Maximum time to connect to one address, including TLS. Default 5 s.
    pub connect_timeout: Duration,
    /// Maximum duration of a call, including waits for a connection and for its turn, and retries. Default 30 s.
    pub request_timeout: Duration,
    /// How long the answer to an abandoned call may be outstanding before its connection counts as dead. Default 30 s.
    pub abandoned_timeout: Duration,
    /// Maximum number of retries of a call that the engine has not started or has ended: no connection could be made, the engine left
    /// the connection, or it answered `unavailable` or `overloaded`. Retries end with `request_timeout` and the call's own deadline.
    /// Default 4; 0 disables retries.
    pub retries_max: u32,
    /// The delay after a failed connection and before a retry; it doubles each time. During the delay after a failed connection, calls
    /// that may not be retried fail at once. Default 50 ms.
    pub backoff_min: Duration,
    /// The longest such delay. Default 5 s.
    pub backoff_max: Duration,
    /// Limits on answers, and on the size of requests.
    pub limits: Limits,
}

impl ClientSettings {
    /// The defaults, for one engine.
    pub fn new(address: impl Into<String>, tls: ClientTls) -> Self {
        ClientSettings {
            addresses: vec![address.into()],
            shuffle_addresses: true,
            tls,
            server_name: None,
            connections_max: 2,
            requests_in_flight_max: 128,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            abandoned_timeout: Duration::from_secs(30),
            retries_max: 4,
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            limits: Limits::default(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ClientError> {
        let problem = if self.addresses.is_empty() {
            "no address to connect to"
        } else if self.connections_max == 0 {
            "`connections_max` is 0: set it to at least 1"
        } else if self.requests_in_flight_max == 0 {
            "`requests_in_flight_max` is 0: set it to at least 1"
        } else {
            return Ok(());
        };
        Err(ClientError::settings(problem))
    }
}
