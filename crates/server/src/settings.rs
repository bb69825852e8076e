//! Every bound of the network side, with its default.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use fieldseal_engine::admin::remove_abandoned;
use fieldseal_engine::pool::{Observer, PoolSettings, Scheduling};
use fieldseal_net::{ClientBound, HALF_OPEN_TIMEOUT_MIN, OperatorSettings};
use fieldseal_protocol::{Limits, PORT, READ_SIZE};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::api::settings::{ApiSettings, ApiSettingsError};

/// What the server presents and whom it believes, in PEM (RFC 7468).
#[derive(Clone)]
pub struct TlsSettings {
    /// The server's certificate, then those that lead to its authority.
    pub certificate_chain_pem: Vec<u8>,
    /// Its private key, PKCS#8 or SEC1.
    pub private_key_pem: Zeroizing<Vec<u8>>,
    /// The authorities whose client certificates are accepted.
    pub client_authorities_pem: Vec<u8>,
}

impl TlsSettings {
    /// Reads the three files. Drafts of them that a kill left are removed.
    ///
    /// # Errors
    /// When one cannot be read; the message names it.
    pub fn from_files(certificate_chain: &Path, private_key: &Path, client_authorities: &Path) -> io::Result<Self> {
        let read = |path: &Path| {
            remove_abandoned(path);
            fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        Ok(TlsSettings {
            certificate_chain_pem: read(certificate_chain)?,
            private_key_pem: Zeroizing::new(read(private_key)?),
            client_authorities_pem: read(client_authorities)?,
        })
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

/// How a server listens, with how many threads it works, and how much it holds.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where it listens. Default: port 3443 of every IPv4 address. Port 0 lets the system choose one.
    pub address: SocketAddr,
    /// Where and how it tells an operator how it is.
    pub operator: OperatorSettings,
    /// The HTTPS API, if it has an address.
    pub api: ApiSettings,
    /// Certificates and key.
    pub tls: TlsSettings,
    /// Threads for sockets, TLS and frames; at least 1. Default: one for eight cores.
    pub network_threads: usize,
    /// Threads that compute; at least 1. Default: the other cores.
    pub workers: usize,
    /// Bounds of one incoming frame.
    pub limits: Limits,
    /// Most connections at a time, their handshakes done; one more is closed at once. Default 4,096.
    pub connections_max: usize,
    /// Most connections of one client address among them, 1,024 by default, and whom that does not concern; one more is closed at once.
    pub clients: ClientBound,
    /// Most TLS handshakes at a time; one more takes the place of the oldest, whose connection is closed. One client address has half of
    /// them at most: then it takes the place of its own oldest. Default 512.
    pub handshakes_max: usize,
    /// Most requests in work on one connection; the server reads no further until one is answered. Default 256. A client
    /// that stays below it can always cancel: what it sends is read at once.
    pub requests_in_flight_max: usize,
    /// Most bytes of answers that wait to be written on one connection before the server reads no further. Default 8 MiB.
    /// What is in work then still adds its answers.
    pub outgoing_bytes_max: usize,
    /// Most bytes among them of errors and of answers to `health`, which count to no other bound, before the server reads no further.
    /// Default 64 KiB.
    pub outgoing_short_bytes_max: usize,
    /// Most bytes of buffers that frames are still arriving in, over all connections. Of a connection that needs more the server
    /// reads no further; when there is no room after `incoming_wait` it is closed with `overloaded`. Buffers of up to 64 KiB do not
    /// count; a connection has never more than one frame in its own. At least `limits.frame_size_max` and 16 KiB, the room of one
    /// read. Default 2 GiB.
    pub incoming_bytes_max: usize,
    /// Most bytes of them over the connections of one client, in the same way. Default 1.5 GiB.
    pub client_incoming_bytes_max: usize,
    /// How long a connection waits for room for the frame that is arriving before it is closed. Default 5 s.
    pub incoming_wait: Duration,
    /// Bytes of the buffers of frames in work on one connection from which on the server reads no further until one is
    /// answered. Default 256 MiB.
    pub connection_bytes_max: usize,
    /// Most requests held by the pool, waiting or in work. Of one more the connection reads no further; when there is no room after
    /// `admission_wait` it is answered with `overloaded`. Default 16,384.
    pub queue_jobs_max: usize,
    /// Most bytes of the buffers of their frames. At least `limits.frame_size_max` and 16 KiB. Default 2 GiB.
    pub queue_bytes_max: usize,
    /// Most requests held for one app, or for one client that names no app which is its to use. Default 8,192.
    pub app_jobs_max: usize,
    /// Most bytes of the buffers of their frames. At least `limits.frame_size_max` and 16 KiB. Default 1.5 GiB.
    pub app_bytes_max: usize,
    /// How long a request waits for room among those held before it is refused. Default 50 ms.
    pub admission_wait: Duration,
    /// The pause that a request refused with `overloaded` is told to make. Default 100 ms.
    pub retry_after: Duration,
    /// In which order requests are worked on. Default: fairly.
    pub scheduling: Scheduling,
    /// Whether a request that would not be done before its deadline is answered with `overloaded` when it comes, by an estimate of how
    /// long it would wait. Default: yes.
    pub refuse_early: bool,
    /// Most bytes of answers that are being made or wait to be written, with what requests hold beside for their work, over all
    /// connections; a request for which there is not enough any more is answered with `overloaded`. Looked at after each step of a
    /// request, so that each worker may be a step beyond it. At least twice `limits.frame_size_max`, for a buffer that grows
    /// doubles. Default 4 GiB.
    pub answers_bytes_max: usize,
    /// Most bytes of them over the connections of one client; what does not fit is answered in the same way. At least twice
    /// `limits.frame_size_max`. Default 2 GiB.
    pub client_answers_bytes_max: usize,
    /// Most bytes of them on one connection, where they are more than one answer. Default 1 GiB.
    pub connection_answers_bytes_max: usize,
    /// Most callers that the service looks up at a time, each on a thread of its own; further ones wait. Default 16.
    pub authentications_max: usize,
    /// How long a handshake may take, with the look-up of its caller. Default 10 s.
    pub handshake_timeout: Duration,
    /// How long a peer may acknowledge nothing, by the system's account, before its connection counts as dead: bytes that were
    /// sent to it, or the probes that go out when nothing else does, from half of this time on. In whole seconds, at least 2;
    /// only Linux counts bytes that were sent, and takes no more than 24 days, and 9 hours before a probe. Default 2 min.
    pub half_open_timeout: Duration,
    /// How long a connection may stay silent with nothing in work. Default 15 min.
    pub idle_timeout: Duration,
    /// How long a frame may take from its first byte to its last, not counting pauses that the server makes. Default 2 min.
    pub frame_timeout: Duration,
    /// How long it may take with the pauses, in which the server does not read because the peer does not take its answers or has too much
    /// in work. At least `frame_timeout`. Default 16 min.
    pub paused_frame_timeout: Duration,
    /// How long the peer may take fewer than `write_progress_min` bytes of the answers that wait for it. Default 30 s.
    pub write_timeout: Duration,
    /// Bytes that the peer takes at least in `write_timeout`, TLS included, as far as there are that many. Counted when the
    /// system takes them, which it does in lumps of up to some 128 KiB. Default 16 KiB.
    pub write_progress_min: u64,
    /// How long the peer may take for the answers that wait for it at one moment, however many they are and though it takes some all
    /// the time. Those that come meanwhile have as long again, so that an answer is held up to twice as long. Default 10 min.
    pub outgoing_timeout: Duration,
    /// How long a connection that the server ends is kept for the peer to read why. Default 2 s.
    pub close_timeout: Duration,
    /// The age at which the engine announces that it leaves a connection: after 80 to 100 % of this, each at a moment of its own, so that
    /// clients spread over engines again. Zero for no such age. Default 1 h.
    pub connection_age_max: Duration,
    /// How long requests are still read on a connection that is left for its age. Default 30 s.
    pub connection_age_grace: Duration,
    /// How long a server that shuts down serves on while it is not ready, so that balancers and clients find others. Default 5 s.
    pub drain_delay: Duration,
    /// How long a shutdown then waits for requests in flight. Default 30 s.
    pub drain_timeout: Duration,
    /// Most lines of the log in 10 s about connections that were refused or cut, and as many each about requests that policy refuses and
    /// about refused calls of the API. One client causes half of them at most; what is left out is counted. Default 100.
    pub refusal_lines_max: usize,
}

/// A bound that makes no sense.
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
        /// What it is.
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
        /// What it is.
        value: usize,
        /// `limits.frame_size_max`.
        frame_size_max: usize,
    },
    /// With pauses a frame would have less time than without.
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

/// One network thread serves this many cores.
const CORES_PER_NETWORK_THREAD: usize = 8;

impl ServerSettings {
    /// The defaults, with these certificates.
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

    /// The bound on handshakes of one client.
    pub(crate) fn handshake_clients(&self) -> ClientBound {
        ClientBound { connections_max: (self.handshakes_max / 2).max(1), ..self.clients.clone() }
    }

    /// What of it concerns the workers; `observer` is told how long they take.
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

    /// Checks that the bounds fit together.
    ///
    /// # Errors
    /// The first that does not.
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

    /// Checks that a body which the API takes fits into what the server has for messages.
    ///
    /// # Errors
    /// The bound that is too small for `api.body_size_max`.
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
    /// Settings of a server that takes no connection.
    pub(crate) fn for_tests() -> Self {
        Self::new(TlsSettings {
            certificate_chain_pem: Vec::new(),
            private_key_pem: Zeroizing::new(b"not to be shown".to_vec()),
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
    fn what_does_not_fit_is_named() {
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
