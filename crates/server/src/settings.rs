//! Settings of the network side: every limit and its default.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::pool::{Observer, PoolSettings, Scheduling};
use leafseal_net::tls::{PrivateKeySettings, SessionSettings, VerifiedChains};
use leafseal_net::{ClientBound, HALF_OPEN_TIMEOUT_MIN, OperatorSettings};
use leafseal_protocol::{Limits, PORT, READ_SIZE};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::api::settings::{ApiSettings, ApiSettingsError};

/// The server's certificate and key, and the client authorities that it trusts, in PEM (RFC 7468).
#[derive(Clone)]
pub struct TlsSettings {
    /// The server's certificate chain, its own certificate first.
    pub certificate_chain_pem: Vec<u8>,
    /// Its private key, PKCS#8 or SEC1.
    pub private_key_pem: Zeroizing<Vec<u8>>,
    /// How operations with that key are computed.
    pub private_key_settings: PrivateKeySettings,
    /// How sessions are resumed.
    pub sessions: SessionSettings,
    /// Bounds of the client certificates that are remembered as verified.
    pub verified_chains: VerifiedChains,
    /// The authorities whose client certificates are accepted.
    pub client_authorities_pem: Vec<u8>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

/// Settings of a server: addresses, threads, limits and timeouts.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where it listens. Default: port 3443 of every IPv4 address. Port 0 lets the system choose one.
    pub address: SocketAddr,
    /// The operator port: probes and metrics.
    pub operator: OperatorSettings,
    /// The HTTPS API, if it has an address.
    pub api: ApiSettings,
    /// Certificates and key.
    pub tls: TlsSettings,
    /// Threads for sockets, TLS and frames; at least 1. Default: one per eight cores.
    pub network_threads: usize,
    /// Threads that process requests; at least 1. Default: the other cores.
    pub workers: usize,
    /// Limits on one incoming frame.
    pub limits: Limits,
    /// Maximum number of open connections, not counting TLS handshakes in progress; one more is closed at once. Default 4,096.
    pub connections_max: usize,
    /// Maximum number of these connections per client address, and the balancers exempt from it; one more is closed at once. Default
    /// 1,024.
    pub clients: ClientBound,
    /// Maximum number of TLS handshakes in progress; one more displaces the oldest, whose connection is closed. One client address has at
    /// most half of them; one more displaces its own oldest. Default 512.
    pub handshakes_max: usize,
    /// Maximum number of requests in flight on one connection; at the limit the server stops reading until one is answered. Default
    /// 256. A client that stays below it can always cancel, because the server keeps reading.
    pub requests_in_flight_max: usize,
    /// Bytes of answers waiting to be sent on one connection at which the server stops reading. Default 8 MiB. Requests in flight
    /// still add their answers.
    pub outgoing_bytes_max: usize,
    /// Bytes among them of errors and of answers to `health`, which count towards no other limit, at which the server stops reading.
    /// Default 64 KiB.
    pub outgoing_short_bytes_max: usize,
    /// Maximum bytes of buffers for incomplete frames, over all connections. The server stops reading from a connection that needs
    /// more, and closes it with `overloaded` if there is no room after `incoming_wait`. Buffers of up to 64 KiB do not count; a
    /// connection has at most one incomplete frame. Must be at least `limits.frame_size_max` plus 16 KiB, the room of one read. Default
    /// 2 GiB.
    pub incoming_bytes_max: usize,
    /// The same for the connections of one client. Default 1.5 GiB.
    pub client_incoming_bytes_max: usize,
    /// How long a connection waits for room for an incomplete frame before it is closed. Default 5 s.
    pub incoming_wait: Duration,
    /// Whether a large frame's expected size is reserved at once while at most a quarter of these budgets is used, so that it is not
    /// copied later. Turn it off if the allocator overwrites what is freed: a network thread would then copy the frame to give back
    /// what is left over. Default true.
    pub reserve_large_frames: bool,
    /// Bytes of the buffers of frames in flight on one connection at which the server stops reading until one is answered. Default
    /// 256 MiB.
    pub connection_bytes_max: usize,
    /// Maximum number of requests queued or running in the pool. For one more the server stops reading from its connection, and answers
    /// it with `overloaded` if there is no room after `admission_wait`. Default 16,384.
    pub queue_jobs_max: usize,
    /// Maximum bytes of the buffers of their frames. Must be at least `limits.frame_size_max` plus 16 KiB. Default 2 GiB.
    pub queue_bytes_max: usize,
    /// Maximum number of requests queued or running per app, or per client for requests that name no app the client may use. Default
    /// 8,192.
    pub app_jobs_max: usize,
    /// Maximum bytes of the buffers of their frames. Must be at least `limits.frame_size_max` plus 16 KiB. Default 1.5 GiB.
    pub app_bytes_max: usize,
    /// How long a request waits for room in the pool before it is refused. Default 50 ms.
    pub admission_wait: Duration,
    /// The delay before a retry that an `overloaded` answer requests. Default 100 ms.
    pub retry_after: Duration,
    /// The order in which requests are processed. Default: fair.
    pub scheduling: Scheduling,
    /// Whether a request is answered with `overloaded` on arrival if it would, by an estimate of its wait, miss its deadline. Default:
    /// yes.
    pub refuse_early: bool,
    /// Maximum bytes of answers being made or waiting to be sent, and of the working memory of requests, over all connections; a request
    /// that does not fit is answered with `overloaded`. Checked after each step of a request, so each worker may exceed it by one step.
    /// Must be at least twice `limits.frame_size_max`, because a growing buffer doubles. Default 4 GiB.
    pub answers_bytes_max: usize,
    /// The same for the connections of one client. Must be at least twice `limits.frame_size_max`. Default 2 GiB.
    pub client_answers_bytes_max: usize,
    /// The same for one connection; a single answer may exceed it. Default 1 GiB.
    pub connection_answers_bytes_max: usize,
    /// Maximum number of callers that the service looks up at once, each on its own thread; further ones wait. Default 16.
    pub authentications_max: usize,
    /// Maximum duration of a TLS handshake, including the lookup of its caller. Default 10 s.
    pub handshake_timeout: Duration,
    /// How long a peer may acknowledge neither data nor TCP keepalive probes before its connection counts as dead. Probes start after
    /// half of this time without data. In whole seconds, at least 2. Only Linux counts unacknowledged data; it supports at most 24 days,
    /// and 9 hours before a probe. Default 2 min.
    pub half_open_timeout: Duration,
    /// How long a connection may be silent with no request in flight before it is closed. Default 15 min.
    pub idle_timeout: Duration,
    /// Maximum time for a frame to arrive, from its first byte to its last, excluding pauses in which the server does not read. Default
    /// 2 min.
    pub frame_timeout: Duration,
    /// The same including these pauses, which the server makes while the peer does not read its answers or has too much in flight. Must
    /// be at least `frame_timeout`. Default 16 min.
    pub paused_frame_timeout: Duration,
    /// Time in which the peer must read `write_progress_min` bytes of the answers waiting for it; otherwise its connection is closed.
    /// Default 30 s.
    pub write_timeout: Duration,
    /// Bytes, including TLS, that the peer must read in `write_timeout`, or all that wait if there are fewer. Counted when the operating
    /// system accepts them, in steps of up to about 128 KiB. Default 16 KiB.
    pub write_progress_min: u64,
    /// Maximum time for the peer to read the answers waiting for it at one moment, however many and however steadily it reads. Answers
    /// added meanwhile have the same time again, so an answer is kept for at most twice this time. Default 10 min.
    pub outgoing_timeout: Duration,
    /// How long a connection that the server ends stays open for the peer to read the reason. Default 2 s.
    pub close_timeout: Duration,
    /// Age at which the engine announces that it leaves a connection, each at 80 to 100 % of it, so that clients spread over engines
    /// again. Zero disables the limit. Default 1 h.
    pub connection_age_max: Duration,
    /// How long the server still reads requests on a connection that it leaves because of its age. Default 30 s.
    pub connection_age_grace: Duration,
    /// How long a server that shuts down keeps serving while it reports that it is not ready, so that load balancers and clients switch
    /// to others. Default 5 s.
    pub drain_delay: Duration,
    /// How long a shutdown then waits for requests in flight. Default 30 s.
    pub drain_timeout: Duration,
    /// Maximum number of log lines in 10 s about connections that were refused or cut, and the same number each about requests that
    /// policy refuses and about refused calls of the API. One client causes at most half of them; omitted lines are counted. Default 100.
    pub refusal_lines_max: usize,
}

/// An invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// No thread, connection or request at all.
    #[error("`{0}` is 0: set it to at least 1")]
    Zero(&'static str),
    /// A frame within its limit would never be admitted.
    #[error(
        "`{setting}` is {value} bytes, too small for the largest frame: set it to at least {} bytes, or lower `frame_size_max`",
        frame_size_max.saturating_add(READ_SIZE)
    )]
    BelowFrame {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// `limits.frame_size_max`.
        frame_size_max: usize,
    },
    /// An answer within its limit would never be finished.
    #[error(
        "`{setting}` is {value} bytes, too small for the largest answer: set it to at least {} bytes, or lower `frame_size_max`",
        frame_size_max.saturating_mul(2)
    )]
    BelowAnswer {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// `limits.frame_size_max`.
        frame_size_max: usize,
    },
    /// A frame would have less time including pauses than excluding them.
    #[error("`paused_frame_timeout` is shorter than `frame_timeout`: set it to at least as long")]
    BelowFrameTimeout,
    /// The system counts in seconds.
    #[error("`half_open_timeout` is too short: set it to at least 2 s")]
    HalfOpen,
    /// Less than the HTTP library reads in one go.
    #[error("`operator.header_size_max` is too small: set it to at least {} bytes", OperatorSettings::HEADER_SIZE_MIN)]
    HeaderSize,
    /// No time at all.
    #[error("`{0}` is 0: set it to a time above zero")]
    NoTime(&'static str),
}

/// Cores per network thread.
const CORES_PER_NETWORK_THREAD: usize = 8;

impl ServerSettings {
    /// The default settings, with these certificates.
    pub fn new(tls: TlsSettings) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let network_threads = cores.div_ceil(CORES_PER_NETWORK_THREAD);
        ServerSettings {
            address: SocketAddr::from(([0, 0, 0, 0], PORT)),
            operator: OperatorSettings::default(),
            api: ApiSettings::default(),
            tls,
            network_threads,
            workers: cores.saturating_sub(network_threads).max(1),
            limits: Limits::default(),
            connections_max: 4096,
            clients: ClientBound { connections_max: 1024, trusted_balancers: Vec::new() },
            handshakes_max: 512,
            requests_in_flight_max: 256,
            outgoing_bytes_max: 8 << 20,
            outgoing_short_bytes_max: 64 << 10,
            incoming_bytes_max: 2 << 30,
            client_incoming_bytes_max: 3 << 29,
            incoming_wait: Duration::from_secs(5),
            reserve_large_frames: true,
            connection_bytes_max: 256 << 20,
            queue_jobs_max: 16_384,
            queue_bytes_max: 2 << 30,
            app_jobs_max: 8192,
            app_bytes_max: 3 << 29,
            admission_wait: Duration::from_millis(50),
            retry_after: Duration::from_millis(100),
            scheduling: Scheduling::Fair,
            refuse_early: true,
            answers_bytes_max: 4 << 30,
            client_answers_bytes_max: 2 << 30,
            connection_answers_bytes_max: 1 << 30,
            authentications_max: 16,
            handshake_timeout: Duration::from_secs(10),
            half_open_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(15 * 60),
            frame_timeout: Duration::from_secs(120),
            paused_frame_timeout: Duration::from_secs(16 * 60),
            write_timeout: Duration::from_secs(30),
            write_progress_min: 16 << 10,
            outgoing_timeout: Duration::from_secs(10 * 60),
            close_timeout: Duration::from_secs(2),
            connection_age_max: Duration::from_secs(3600),
            connection_age_grace: Duration::from_secs(30),
            drain_delay: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(30),
            refusal_lines_max: 100,
        }
    }

    /// The limit on handshakes of one client.
    pub(crate) fn handshake_clients(&self) -> ClientBound {
        ClientBound { connections_max: (self.handshakes_max / 2).max(1), ..self.clients.clone() }
    }

    /// The settings of the worker pool; `observer` receives the times of waits and slices.
    pub(crate) fn pool(&self, observer: Arc<dyn Observer>) -> PoolSettings {
        PoolSettings {
            workers: self.workers,
            queue_jobs_max: self.queue_jobs_max,
            queue_bytes_max: self.queue_bytes_max,
            tenant_jobs_max: self.app_jobs_max,
            tenant_bytes_max: self.app_bytes_max,
            scheduling: self.scheduling,
            refuse_early: self.refuse_early,
            observer,
            ..PoolSettings::default()
        }
    }

    /// Checks that the settings are valid and consistent.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let counts = [
            ("network_threads", self.network_threads),
            ("workers", self.workers),
            ("connections_max", self.connections_max),
            ("client_connections_max", self.clients.connections_max),
            ("handshakes_max", self.handshakes_max),
            ("requests_in_flight_max", self.requests_in_flight_max),
            ("outgoing_bytes_max", self.outgoing_bytes_max),
            ("outgoing_short_bytes_max", self.outgoing_short_bytes_max),
            ("connection_bytes_max", self.connection_bytes_max),
            ("connection_answers_bytes_max", self.connection_answers_bytes_max),
            ("queue_jobs_max", self.queue_jobs_max),
            ("app_jobs_max", self.app_jobs_max),
            ("authentications_max", self.authentications_max),
            ("operator.connections_max", self.operator.connections_max),
            ("operator.client_connections_max", self.operator.clients.connections_max),
        ];
        if let Some((setting, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(SettingsError::Zero(setting));
        }
        let times = [
            ("handshake_timeout", self.handshake_timeout),
            ("idle_timeout", self.idle_timeout),
            ("frame_timeout", self.frame_timeout),
            ("write_timeout", self.write_timeout),
            ("outgoing_timeout", self.outgoing_timeout),
            ("operator.call_timeout", self.operator.call_timeout),
        ];
        if let Some((setting, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(SettingsError::NoTime(setting));
        }
        if self.paused_frame_timeout < self.frame_timeout {
            return Err(SettingsError::BelowFrameTimeout);
        }
        if self.half_open_timeout < HALF_OPEN_TIMEOUT_MIN {
            return Err(SettingsError::HalfOpen);
        }
        if self.operator.header_size_max < OperatorSettings::HEADER_SIZE_MIN {
            return Err(SettingsError::HeaderSize);
        }
        let frame_size_max = self.limits.frame_size_max;
        let sizes = [
            ("queue_bytes_max", self.queue_bytes_max),
            ("app_bytes_max", self.app_bytes_max),
            ("incoming_bytes_max", self.incoming_bytes_max),
            ("client_incoming_bytes_max", self.client_incoming_bytes_max),
        ];
        if let Some((setting, value)) =
            sizes.into_iter().find(|(_, size)| size.saturating_sub(READ_SIZE) < frame_size_max)
        {
            return Err(SettingsError::BelowFrame { setting, value, frame_size_max });
        }
        let sizes = [
            ("answers_bytes_max", self.answers_bytes_max),
            ("client_answers_bytes_max", self.client_answers_bytes_max),
        ];
        if let Some((setting, value)) = sizes.into_iter().find(|(_, size)| size / 2 < frame_size_max) {
            return Err(SettingsError::BelowAnswer { setting, value, frame_size_max });
        }
        Ok(())
    }

    /// Checks that a body of maximum size fits into the memory for messages.
    ///
    /// # Errors
    /// The limit that is too small for `api.body_size_max`.
    pub fn validate_api(&self) -> Result<(), ApiSettingsError> {
        let sizes = [
            ("server.queue_bytes_max", self.queue_bytes_max),
            ("server.app_bytes_max", self.app_bytes_max),
            ("server.incoming_bytes_max", self.incoming_bytes_max),
            ("server.client_incoming_bytes_max", self.client_incoming_bytes_max),
        ];
        match sizes.into_iter().find(|(_, size)| *size < self.api.body_size_max) {
            Some((setting, _)) => Err(ApiSettingsError::BodySize(setting)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl ServerSettings {
    /// Settings of a server without listeners.
    pub(crate) fn for_tests() -> Self {
        Self::new(TlsSettings {
            certificate_chain_pem: Vec::new(),
            private_key_pem: Zeroizing::new(b"not to be shown".to_vec()),
            private_key_settings: PrivateKeySettings::default(),
            sessions: SessionSettings::default(),
            verified_chains: VerifiedChains::default(),
            client_authorities_pem: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_together() {
        let settings = ServerSettings::for_tests();
        assert_eq!(settings.validate(), Ok(()));
        assert_eq!(settings.address.port(), 3443);
    }

    #[test]
    fn inconsistent_settings_are_named() {
        let none = ServerSettings { workers: 0, ..ServerSettings::for_tests() };
        assert_eq!(none.validate(), Err(SettingsError::Zero("workers")));
        let at_once = ServerSettings { frame_timeout: Duration::ZERO, ..ServerSettings::for_tests() };
        assert_eq!(at_once.validate(), Err(SettingsError::NoTime("frame_timeout")));
        let hurried = ServerSettings { paused_frame_timeout: Duration::from_secs(119), ..ServerSettings::for_tests() };
        assert_eq!(hurried.validate(), Err(SettingsError::BelowFrameTimeout));
        let mute = ServerSettings { outgoing_short_bytes_max: 0, ..ServerSettings::for_tests() };
        assert_eq!(mute.validate(), Err(SettingsError::Zero("outgoing_short_bytes_max")));
        let hasty = ServerSettings { half_open_timeout: Duration::from_millis(1999), ..ServerSettings::for_tests() };
        assert_eq!(hasty.validate(), Err(SettingsError::HalfOpen));
        let narrow = ServerSettings { queue_bytes_max: (1 << 30) + READ_SIZE - 1, ..ServerSettings::for_tests() };
        assert!(narrow.validate().unwrap_err().to_string().contains("set it to at least 1073758208 bytes"));
        let exact = ServerSettings { queue_bytes_max: (1 << 30) + READ_SIZE, ..ServerSettings::for_tests() };
        assert_eq!(exact.validate(), Ok(()));
        let narrow = ServerSettings { answers_bytes_max: (2 << 30) - 1, ..ServerSettings::for_tests() };
        assert!(narrow.validate().unwrap_err().to_string().contains("set it to at least 2147483648 bytes"));
        let exact = ServerSettings { answers_bytes_max: 2 << 30, ..ServerSettings::for_tests() };
        assert_eq!(exact.validate(), Ok(()));
        let narrow = ServerSettings { client_answers_bytes_max: (2 << 30) - 1, ..ServerSettings::for_tests() };
        assert!(narrow.validate().unwrap_err().to_string().contains("`client_answers_bytes_max` is 2147483647 bytes"));
    }

    #[test]
    fn the_private_key_is_not_shown() {
        assert!(!format!("{:?}", ServerSettings::for_tests()).contains("110"));
    }

    #[test]
    fn a_body_fits_into_the_memory_for_messages() {
        let of = |body_size_max| {
            let api = ApiSettings { body_size_max, ..ApiSettings::default() };
            ServerSettings { app_bytes_max: 1000, api, ..ServerSettings::for_tests() }.validate_api()
        };
        assert_eq!(of(1000), Ok(()));
        assert_eq!(of(1001), Err(ApiSettingsError::BodySize("server.app_bytes_max")));
    }
}
