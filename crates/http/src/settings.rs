//! Settings of a listener: every limit and its default.

use std::time::Duration;

use leafseal_config::{mins, ms, secs, settings};
use leafseal_net::{ClientBound, HALF_OPEN_TIMEOUT_MIN, HEADER_SIZE_MIN, Network};
use thiserror::Error;

settings! {
    /// Limits and timeouts of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HttpSettings {
        /// Maximum number of open connections. One more displaces the one that has been without a call the longest, or else the one with
        /// the slowest peer that a call waits for; if there is none, the new one is closed at once.
        // Handshakes in progress count. A peer is slow if all its requests wait for it to send a body or to read an answer, and it has
        // moved less than 16 KiB per second.
        pub connections_max: usize = 4096, in 1..=1 << 20;
        /// Maximum number of these connections per client (an IPv4 address, a /64 of IPv6); one more displaces one of the same client in
        /// the same way.
        pub client_connections_max: usize = 1024, in 1..=1 << 20;
        /// Balancers that are exempt from this limit.
        pub trusted_balancers: Vec<Network> = Vec::new(), is internal;
        /// Maximum number of calls in flight on one HTTP/2 connection.
        pub streams_max: u32 = 100, in 1..=1 << 16;
        /// Maximum duration of a TLS handshake.
        pub handshake_timeout: Duration = secs(10), in ms(1)..;
        /// Maximum time for the head of an HTTP/1.1 call to arrive, from its first byte to its last.
        pub header_read_timeout: Duration = secs(10), in ms(1)..;
        /// Maximum size of the head of a call; a larger one is answered with 431.
        pub header_size_max: usize = 32 << 10, bytes in HEADER_SIZE_MIN..=1 << 20;
        /// Maximum number of header fields of an HTTP/1.1 call; more are answered with 431.
        // In HTTP/2 the size limits them.
        pub headers_max: usize = 100, in 1..=1024;
        /// Time in which a caller must send `api.body_progress_min` bytes of a body that the engine waits for; otherwise the call is
        /// answered with 408.
        pub body_timeout: Duration = secs(30), in ms(1)..;
        /// Bytes of a body that a caller must send in `api.body_timeout`, or the rest of it if that is less.
        pub body_progress_min: u64 = 16 << 10, bytes in 1..=1 << 30;
        /// Time in which a caller must read `api.write_progress_min` bytes of an answer waiting for it; otherwise its connection is closed.
        pub write_timeout: Duration = secs(30), in ms(1)..;
        /// Bytes of answers that a caller must read in `api.write_timeout`, or all that wait if there are fewer.
        pub write_progress_min: u64 = 16 << 10, bytes in 1..=1 << 30;
        /// How long a connection may be without a call before it is closed.
        pub idle_timeout: Duration = secs(75), in ms(1)..;
        /// Age at which a connection closes with its next answer, each at 80 to 100 % of it; 0 disables the limit.
        // By `Connection: close` in the next answer over HTTP/1.1, by GOAWAY over HTTP/2.
        pub connection_age_max: Duration = mins(60), in ms(0)..;
        /// Bytes of a refused body that are read and discarded, so that the caller receives the answer.
        pub refused_body_max: u64 = 256 << 20, bytes in 0..=1 << 40;
        /// How long a refused body is read and discarded.
        pub refused_body_timeout: Duration = secs(10), in ms(0)..;
        /// How long a caller's machine may acknowledge neither data nor TCP keepalive probes before its connection counts as dead.
        pub half_open_timeout: Duration = mins(2), in HALF_OPEN_TIMEOUT_MIN..;
        /// How long a connection that the engine closes stays open for the caller to read the last bytes.
        pub close_timeout: Duration = secs(2), in ms(0)..;
        /// How long a shutdown waits for requests to end.
        pub drain_timeout: Duration = secs(30), is internal;
    }
}

/// A bound that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HttpSettingsError {
    /// None at all.
    #[error("`{0}` is 0: set it to at least 1")]
    Zero(&'static str),
    /// No time at all.
    #[error("`{0}` is 0: set it to a time above zero")]
    NoTime(&'static str),
    /// Less than the HTTP library reads in one go, or more than it counts.
    #[error("`header_size_max` is out of range: set it to {HEADER_SIZE_MIN} to {HEADER_SIZE_MAX} bytes")]
    HeaderSize,
    /// The system counts in seconds.
    #[error("`half_open_timeout` is too short: set it to at least 2 s")]
    HalfOpen,
}

const HEADER_SIZE_MAX: usize = 16 << 20;

impl HttpSettings {
    /// The limit on the connections of one client.
    pub(crate) fn clients(&self) -> ClientBound {
        let trusted_balancers = self.trusted_balancers.clone();
        ClientBound { connections_max: self.client_connections_max, trusted_balancers }
    }

    /// Checks that the limits are valid.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), HttpSettingsError> {
        let counts = [
            ("connections_max", self.connections_max as u64),
            ("client_connections_max", self.client_connections_max as u64),
            ("headers_max", self.headers_max as u64),
            ("streams_max", u64::from(self.streams_max)),
            ("body_progress_min", self.body_progress_min),
            ("write_progress_min", self.write_progress_min),
        ];
        if let Some((setting, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(HttpSettingsError::Zero(setting));
        }
        let times = [
            ("handshake_timeout", self.handshake_timeout),
            ("header_read_timeout", self.header_read_timeout),
            ("body_timeout", self.body_timeout),
            ("write_timeout", self.write_timeout),
            ("idle_timeout", self.idle_timeout),
        ];
        if let Some((setting, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(HttpSettingsError::NoTime(setting));
        }
        if !(HEADER_SIZE_MIN..=HEADER_SIZE_MAX).contains(&self.header_size_max) {
            return Err(HttpSettingsError::HeaderSize);
        }
        if self.half_open_timeout < HALF_OPEN_TIMEOUT_MIN {
            return Err(HttpSettingsError::HalfOpen);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_invalid_settings_are_named() {
        assert_eq!(HttpSettings::default().validate(), Ok(()));
        let defaults = HttpSettings::default;
        let none = HttpSettings { streams_max: 0, ..defaults() };
        assert_eq!(none.validate(), Err(HttpSettingsError::Zero("streams_max")));
        let no_time = HttpSettings { body_timeout: Duration::ZERO, ..defaults() };
        assert_eq!(no_time.validate(), Err(HttpSettingsError::NoTime("body_timeout")));
        let head = HttpSettings { header_size_max: HEADER_SIZE_MIN - 1, ..defaults() };
        assert_eq!(head.validate(), Err(HttpSettingsError::HeaderSize));
        let half_open = HttpSettings { half_open_timeout: Duration::from_millis(1999), ..defaults() };
        assert_eq!(half_open.validate(), Err(HttpSettingsError::HalfOpen));
    }
}
