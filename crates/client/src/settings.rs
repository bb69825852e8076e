//! Settings of the client: addresses, credentials, limits and timeouts.

use std::time::Duration;

use leafseal_config::{KeyExchange, ms, settings};
use leafseal_protocol::FrameLimits;

use crate::error::ClientError;
use crate::identity::ClientTls;
use crate::rules;

settings! {
    /// Settings of a client.
    #[derive(Clone, Debug)]
    pub struct ClientSettings {
        /// `HOST:PORT` of one or more engines that serve the same apps; at least one. Connections are spread over them; engines that cannot
        /// be reached are skipped.
        pub addresses: Vec<String> = Vec::new(), is internal;
        /// Whether the first connection goes to a random address. Without it all clients connect to the first address first.
        pub shuffle_addresses: bool = true, is internal;
        /// Certificates and key.
        pub tls: ClientTls = ClientTls::default(), is internal;
        /// The name that the server's certificate must be valid for. Default: the host of the address.
        pub server_name: Option<String> = None, is internal;
        /// The offered groups of the key exchange.
        pub key_exchange: KeyExchange = KeyExchange::of_rpc(), is section("tls_");
        /// Maximum number of open connections. Another one is opened while all are busy.
        pub connections_max: usize = rules::CONNECTIONS_MAX, in 1..=1024;
        /// Maximum number of requests in flight on one connection; further ones wait. Keep it at or below the engine's own limit.
        pub requests_in_flight_max: usize = rules::REQUESTS_IN_FLIGHT_MAX, in 1..=1 << 20;
        /// Maximum time to connect to one address, including TLS.
        pub connect_timeout: Duration = rules::CONNECT_TIMEOUT, in ms(1)..;
        /// Maximum duration of a request, including waits for a connection and retries.
        pub request_timeout: Duration = rules::REQUEST_TIMEOUT, in ms(1)..;
        /// How long the answer to an abandoned request may be outstanding before its connection counts as dead.
        pub abandoned_timeout: Duration = rules::ABANDONED_TIMEOUT, in ms(1)..;
        /// Maximum number of retries of a request that the engine has not started, or has refused as `unavailable` or `overloaded`. They
        /// end with `client.request_timeout` and the request's deadline.
        // Not started: no connection could be made, or the engine closed the connection first.
        pub retries_max: u32 = rules::RETRIES_MAX, in 0..=1000;
        /// The delay after a failed connection and before a retry; it doubles each time.
        // During the delay after a failed connection, calls that may not be retried fail at once.
        pub backoff_min: Duration = rules::BACKOFF_MIN, in ms(1)..;
        /// The longest such delay.
        pub backoff_max: Duration = rules::BACKOFF_MAX, in ms(1)..;
        /// Limits on answers, and on the size of requests.
        pub limits: FrameLimits = FrameLimits::default(), is section;
    }
}

impl ClientSettings {
    /// The defaults, for one engine.
    pub fn new(address: impl Into<String>, tls: ClientTls) -> Self {
        ClientSettings { addresses: vec![address.into()], tls, ..Self::default() }
    }

    pub(crate) fn validate(&self) -> Result<(), ClientError> {
        let problem = if self.addresses.is_empty() {
            "no address to connect to"
        } else if self.connections_max == 0 {
            "`connections_max` is 0: set it to at least 1"
        } else if self.requests_in_flight_max == 0 {
            "`requests_in_flight_max` is 0: set it to at least 1"
        } else if let Err(error) = self.key_exchange.list() {
            return Err(ClientError::settings(format!("`tls_groups` {error}")));
        } else {
            return Ok(());
        };
        Err(ClientError::settings(problem))
    }
}
