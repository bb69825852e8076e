//! Settings of a listener: every limit and its default.

use std::time::Duration;

use leafseal_net::{ClientBound, HALF_OPEN_TIMEOUT_MIN, HEADER_SIZE_MIN};
use thiserror::Error;

/// Limits and timeouts of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Maximum number of open connections, including handshakes in progress. One more displaces the one that has been without a
    /// request the longest; if all have requests, one whose peer is slow: all its requests wait for the peer to send a body or to
    /// read an answer, and the peer has moved less than 16 KiB per second. If there is none the new one is closed at once. At least
    /// 1. Default 4,096.
    pub connections_max: usize,
    /// Maximum number of these connections per client, 1,024 by default, and the balancers exempt from it. One more displaces the
    /// client's own connection that would be displaced first; if there is none it is closed at once.
    pub clients: ClientBound,
    /// Maximum duration of a TLS handshake. Default 10 s.
    pub handshake_timeout: Duration,
    /// Maximum time for the head of an HTTP/1.1 request to arrive, from its first byte to its last. Default 10 s.
    pub header_read_timeout: Duration,
    /// Maximum size of the head of a request in bytes, at least 8 KiB; a larger one is answered with 431. Default 32 KiB.
    pub header_size_max: usize,
    /// Maximum number of header fields of an HTTP/1.1 request; more are answered with 431. In HTTP/2 the size limits them. At least 1.
    /// Default 100.
    pub headers_max: usize,
    /// Maximum number of requests in flight on one HTTP/2 connection. At least 1. Default 100.
    pub streams_max: u32,
    /// Time in which the peer must send `body_progress_min` bytes of a body that is awaited. Default 30 s.
    pub body_timeout: Duration,
    /// Bytes of a body that the peer must send in `body_timeout`, or the rest of the body if that is less. Default 16 KiB.
    pub body_progress_min: u64,
    /// Time in which the peer must read `write_progress_min` bytes of the answers waiting for it. Default 30 s.
    pub write_timeout: Duration,
    /// Bytes of answers that the peer must read in `write_timeout`, or all that wait if there are fewer. At least 1. Default 16 KiB.
    pub write_progress_min: u64,
    /// How long a connection may be without a request before it is closed. Default 75 s.
    pub idle_timeout: Duration,
    /// The age at which a connection is asked to close: by `Connection: close` in the next answer over HTTP/1.1, by GOAWAY over
    /// HTTP/2. Each at 80 to 100 % of it. Zero disables the limit. Default 1 h.
    pub connection_age_max: Duration,
    /// Maximum bytes of a body that are read and discarded when the answer did not wait for it. Default 256 MiB.
    pub refused_body_max: u64,
    /// Maximum time for reading and discarding them. Default 10 s.
    pub refused_body_timeout: Duration,
    /// How long a peer may acknowledge nothing, as the system measures it, before its connection counts as dead. In whole seconds, at least
    /// 2. Default 2 min.
    pub half_open_timeout: Duration,
    /// How long a connection that the listener closes is kept for the peer to read what was written. Default 2 s.
    pub close_timeout: Duration,
    /// How long a shutdown waits for requests to end. Default 30 s.
    pub drain_timeout: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings {
            connections_max: 4096,
            clients: ClientBound { connections_max: 1024, trusted_balancers: Vec::new() },
            handshake_timeout: Duration::from_secs(10),
            header_read_timeout: Duration::from_secs(10),
            header_size_max: 32 << 10,
            headers_max: 100,
            streams_max: 100,
            body_timeout: Duration::from_secs(30),
            body_progress_min: 16 << 10,
            write_timeout: Duration::from_secs(30),
            write_progress_min: 16 << 10,
            idle_timeout: Duration::from_secs(75),
            connection_age_max: Duration::from_secs(3600),
            refused_body_max: 256 << 20,
            refused_body_timeout: Duration::from_secs(10),
            half_open_timeout: Duration::from_secs(120),
            close_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// A bound that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
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
    /// Checks that the limits are valid.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let counts = [
            ("connections_max", self.connections_max as u64),
            ("client_connections_max", self.clients.connections_max as u64),
            ("headers_max", self.headers_max as u64),
            ("streams_max", u64::from(self.streams_max)),
            ("body_progress_min", self.body_progress_min),
            ("write_progress_min", self.write_progress_min),
        ];
        if let Some((setting, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(SettingsError::Zero(setting));
        }
        let times = [
            ("handshake_timeout", self.handshake_timeout),
            ("header_read_timeout", self.header_read_timeout),
            ("body_timeout", self.body_timeout),
            ("write_timeout", self.write_timeout),
            ("idle_timeout", self.idle_timeout),
        ];
        if let Some((setting, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(SettingsError::NoTime(setting));
        }
        if !(HEADER_SIZE_MIN..=HEADER_SIZE_MAX).contains(&self.header_size_max) {
            return Err(SettingsError::HeaderSize);
        }
        if self.half_open_timeout < HALF_OPEN_TIMEOUT_MIN {
            return Err(SettingsError::HalfOpen);
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
        assert_eq!(none.validate(), Err(SettingsError::Zero("streams_max")));
        let no_time = HttpSettings { body_timeout: Duration::ZERO, ..defaults() };
        assert_eq!(no_time.validate(), Err(SettingsError::NoTime("body_timeout")));
        let head = HttpSettings { header_size_max: HEADER_SIZE_MIN - 1, ..defaults() };
        assert_eq!(head.validate(), Err(SettingsError::HeaderSize));
        let half_open = HttpSettings { half_open_timeout: Duration::from_millis(1999), ..defaults() };
        assert_eq!(half_open.validate(), Err(SettingsError::HalfOpen));
    }
}
