//! Where the engine is, who we are, and every bound of the client.

use std::time::Duration;

use fieldseal_protocol::Limits;

use crate::error::ClientError;
use crate::identity::ClientTls;

/// Where to connect, with what, and how much at a time.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `HOST:PORT` of one engine or several that serve the same apps; at least one. Connections are spread over them, and an
    /// engine that cannot be reached is passed over.
    pub addresses: Vec<String>,
    /// Certificates and key.
    pub tls: ClientTls,
    /// The name that the server's certificate must bear. Default: the host of the address.
    pub server_name: Option<String>,
    /// Most connections at a time, at least 1. Another one is opened while all are busy. Default 2.
    pub connections_max: usize,
    /// Most calls in flight on one connection; more wait. Default 128, below what the engine allows.
    pub requests_in_flight_max: usize,
    /// How long making a connection may take, TLS included, for one address. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a call may take in all: waiting for a connection, for its turn, for the answer. Default 30 s.
    pub request_timeout: Duration,
    /// How long an answer that nobody waits for any more may be missing before its connection counts as dead. Default 30 s.
    pub abandoned_timeout: Duration,
    /// Most repetitions of one call, of which the engine has begun nothing or has ended what it began: no connection could be made, the
    /// engine left the connection, it answered `unavailable` or `overloaded`. They end with `request_timeout` and with the call's own
    /// deadline. Default 4; 0 for none.
    pub retries_max: u32,
    /// The pause after a failed connection, and before a repetition, doubled at each further one. After a failed connection, calls that
    /// may not be repeated fail at once in the meantime. Default 50 ms.
    pub backoff_min: Duration,
    /// The longest such pause. Default 5 s.
    pub backoff_max: Duration,
    /// Bounds of an answer, and of a request's size.
    pub limits: Limits,
}

impl ClientSettings {
    /// The defaults, for one engine.
    pub fn new(address: impl Into<String>, tls: ClientTls) -> Self {
        ClientSettings {
            addresses: vec![address.into()],
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
