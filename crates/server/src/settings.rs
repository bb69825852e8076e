//! Settings of the network side: every limit and its default.

mod api;
mod audit;
mod unsealers;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use leafseal_config::{KeyExchange, Kind, ListItem, mins, ms, secs, settings};
use leafseal_engine::admin::{SIGNER_SIZE_MAX, ShareLimits, is_signer};
use leafseal_engine::pool::{PoolObserver, PoolSettings, Scheduling};
use leafseal_net::tls::{PrivateKeySettings, SessionSettings, VerifiedChains};
use leafseal_net::{ClientBound, HALF_OPEN_TIMEOUT_MIN, NETWORKS, Network, OperatorSettings, client_of_unless};
use leafseal_protocol::{FrameLimits, PORT, READ_SIZE};
use leafseal_service::{RecordRules, UnsealRules};
use thiserror::Error;
use zeroize::Zeroizing;

pub use api::{ApiSettings, ApiSettingsError, RelayDestination, RelayInformation, SharedRelayInformation};
pub use audit::{AuditDurability, AuditSettings, AuditWait};
pub use unsealers::{CertificateFingerprint, InvalidFingerprint};

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
    /// The accepted groups of the key exchange.
    pub key_exchange: KeyExchange,
    /// Bounds of the client certificates that are remembered as verified.
    pub verified_chains: VerifiedChains,
    /// The authorities whose client certificates are accepted.
    pub client_authorities_pem: Vec<u8>,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings {
            certificate_chain_pem: Vec::new(),
            private_key_pem: Zeroizing::default(),
            private_key_settings: PrivateKeySettings::default(),
            sessions: SessionSettings::default(),
            key_exchange: KeyExchange::of_rpc(),
            verified_chains: VerifiedChains::default(),
            client_authorities_pem: Vec::new(),
        }
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

/// About the CPU time of a hand-over to a worker and back.
const INLINE_WORK_DEFAULT: Duration = Duration::from_micros(20);
/// As long as a slice: the other connections of a network thread wait for it.
const INLINE_WORK_CEILING: Duration = Duration::from_micros(50);

/// Most values of `server.peers`.
const PEERS_MAX: usize = 64;

const PEERS: ListItem = ListItem {
    about: "hosts with ports, such as [\"engine-0.example.com:3444\", \"10.1.2.3:3444\"]",
    is_valid: is_peer,
};

fn is_peer(text: &str) -> bool {
    let parts = text.rsplit_once(':').filter(|_| text.len() <= 300);
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
}

settings! {
    /// Settings of a server: addresses, threads, limits and timeouts.
    #[derive(Clone, Debug)]
    pub struct ServerSettings {
        /// Where `serve` listens. Port 0 lets the system choose one. `dev` listens on 127.0.0.1 unless a flag sets another address.
        pub address: SocketAddr = SocketAddr::from(([0, 0, 0, 0], PORT));
        /// Threads for sockets, TLS and frames.
        pub network_threads: usize = network_threads() => "one per eight cores", in 1..=1024;
        /// Threads that process requests.
        pub workers: usize = cores().saturating_sub(network_threads()).max(1) => "the other cores", in 1..=4096;
        /// Counted work of requests that a network thread does itself in a turn of a connection, at most 0.05ms; 0 leaves all to workers.
        /// Only requests over RPC to encrypt or decrypt a few values, or a small document without selectors, that need no key agreement and
        /// no look-up in the keystore, and that would be the next to run.
        // Counted in values and bytes, not measured: `request_work` and so on of the engine.
        pub inline_work_max: Duration = INLINE_WORK_DEFAULT, in ms(0)..;
        /// Limits on one incoming frame.
        pub limits: FrameLimits = FrameLimits::default(), is section;
        /// Maximum number of open connections, not counting TLS handshakes in progress; one more is closed at once.
        pub connections_max: usize = 4096, in 1..=1 << 20;
        /// Maximum number of these connections per client (an IPv4 address, a /64 of IPv6); one more is closed at once.
        pub client_connections_max: usize = 1024, in 1..=1 << 20;
        /// Load balancers that connect from their own address for all clients behind them. Limits on connections per client do not apply to
        /// them, on any listener.
        pub trusted_balancers: Vec<Network> = Vec::new(), is kind(Kind::List(NETWORKS));
        /// Maximum number of TLS handshakes in progress. One more displaces the oldest, whose connection is closed. One client has at most
        /// half of them.
        pub handshakes_max: usize = 512, in 1..=1 << 20;
        /// Maximum number of requests in flight on a connection; at the limit the server stops reading from it until one is answered.
        // A client that stays below it can always cancel, because the server keeps reading.
        pub requests_in_flight_max: usize = 256, in 1..=1 << 20;
        /// Bytes of requests in flight on a connection at which the server stops reading from it until one is answered.
        pub connection_bytes_max: usize = 256 << 20, bytes in 1..=1 << 40;
        /// Bytes of answers waiting to be sent on a connection at which the server stops reading from it.
        // Requests in flight still add their answers.
        pub outgoing_bytes_max: usize = 8 << 20, bytes in 1..=64 << 30;
        /// The same for errors and answers to `health` among them, which count towards no other limit.
        pub outgoing_short_bytes_max: usize = 64 << 10, bytes in 1..=1 << 30;
        /// Maximum memory for buffers of incomplete messages, over all connections; must be at least `server.frame_size_max` plus 16KiB.
        /// Buffers of up to 64KiB do not count.
        // A connection has at most one incomplete frame; the 16 KiB are the room of one read.
        pub incoming_bytes_max: usize = 2 << 30, bytes in 1..=1 << 40;
        /// The same for the connections of one client; must be at least `server.frame_size_max` plus 16KiB.
        pub client_incoming_bytes_max: usize = 3 << 29, bytes in 1..=1 << 40;
        /// How long a connection waits, without being read, for memory for an incomplete message before it is closed with `overloaded`.
        pub incoming_wait: Duration = secs(5), in ms(0)..;
        /// Maximum number of requests queued or running. One more waits for `server.admission_wait` and is then answered with `overloaded`.
        pub queue_jobs_max: usize = 16_384, in 1..=1 << 24;
        /// Maximum memory for the messages of these requests; must be at least `server.frame_size_max` plus 16KiB.
        pub queue_bytes_max: usize = 2 << 30, bytes in 1..=1 << 40;
        /// Maximum number of requests queued or running per app, or per client for requests that name no app the client may use. One more
        /// waits and is refused in the same way.
        pub app_jobs_max: usize = 8192, in 1..=1 << 24;
        /// Maximum memory for the messages of these requests; must be at least `server.frame_size_max` plus 16KiB.
        pub app_bytes_max: usize = 3 << 29, bytes in 1..=1 << 40;
        /// How long a request waits for room in the queue before it is answered with `overloaded`. Meanwhile its connection is not read.
        pub admission_wait: Duration = ms(50), in ms(0)..;
        /// The delay before a retry that an `overloaded` answer requests.
        pub retry_after: Duration = ms(100), in ms(0)..;
        /// The order in which requests are processed. `fair`: in slices, shared fairly between apps and connections.
        /// `first-come-first-served`: each as a whole, in order of arrival, by one worker; only to demonstrate how that delays small
        /// requests.
        pub scheduling: Scheduling = Scheduling::Fair,
            one of { "fair" => Scheduling::Fair, "first-come-first-served" => Scheduling::FirstComeFirstServed };
        /// Whether a request is answered with `overloaded` on arrival if it would, by an estimate of its wait, miss its deadline. Never
        /// applies to requests without a deadline, while nothing waits, or with `server.scheduling` first-come-first-served.
        pub refuse_early: bool = true;
        /// Maximum memory for answers, being made or waiting to be sent, and for the working memory of requests; must be at least twice
        /// `server.frame_size_max`. A request that does not fit is answered with `overloaded`.
        // Checked after each step of a request, so each worker may exceed it by one step. Twice, because a growing buffer doubles.
        pub answers_bytes_max: usize = 4 << 30, bytes in 1..=1 << 40;
        /// The same for the connections of one client; must be at least twice `server.frame_size_max`.
        pub client_answers_bytes_max: usize = 2 << 30, bytes in 1..=1 << 40;
        /// The same for one connection; a single answer may exceed it.
        pub connection_answers_bytes_max: usize = 1 << 30, bytes in 1..=1 << 40;
        /// Maximum number of callers looked up in the keystore at once while they connect; further ones wait.
        // Each has a thread of its own.
        pub authentications_max: usize = 16, in 1..=4096;
        /// Maximum duration of a TLS handshake, including the lookup of its caller.
        pub handshake_timeout: Duration = secs(10), in ms(1)..;
        /// How long a client's machine may acknowledge neither data nor TCP keepalive probes before its connection counts as dead.
        // Probes start after half of this time without data. Only Linux counts unacknowledged data; it supports at most 24 days, and 9
        // hours before a probe.
        pub half_open_timeout: Duration = mins(2), in HALF_OPEN_TIMEOUT_MIN..;
        /// How long a connection may be silent with no request in flight before it is closed.
        pub idle_timeout: Duration = mins(15), in ms(1)..;
        /// Maximum time for a message to arrive, from its first byte to its last, excluding pauses in which the server does not read.
        pub frame_timeout: Duration = mins(2), in ms(1)..;
        /// The same including these pauses; must be at least `server.frame_timeout`.
        pub paused_frame_timeout: Duration = mins(16), in ms(1)..;
        /// Time in which a client must read `server.write_progress_min` bytes of the answers waiting for it; otherwise its connection is
        /// closed.
        pub write_timeout: Duration = secs(30), in ms(1)..;
        /// Bytes that a client must read in `server.write_timeout`, or all that wait if there are fewer. The operating system counts in
        /// steps of up to 128KiB.
        pub write_progress_min: u64 = 16 << 10, bytes in 1..=1 << 40;
        /// Maximum time for a client to read the answers waiting for it at one moment, however many; an answer is kept for at most twice
        /// this time.
        pub outgoing_timeout: Duration = mins(10), in ms(1)..;
        /// How long a connection that the server ends stays open for the client to read the reason.
        pub close_timeout: Duration = secs(2), in ms(0)..;
        /// Age at which the engine drains a connection, each at 80 to 100 % of it, so that they spread over engines; 0 disables
        /// the limit.
        pub connection_age_max: Duration = mins(60), in ms(0)..;
        /// How long the server still reads requests on such a connection.
        pub connection_age_grace: Duration = secs(30), in ms(0)..;
        /// How long `serve` (and `dev`, if set) keeps serving after SIGTERM, while `/readyz` fails and clients are asked to go elsewhere.
        /// Set it longer than load balancers take to notice. SIGINT skips it, and so does a second signal; a further signal ends the wait
        /// for requests in flight.
        pub drain_delay: Duration = secs(5), in ms(0)..;
        /// How long a shutdown then waits for requests in flight.
        pub drain_timeout: Duration = secs(30), in ms(0)..;
        /// Maximum number of log lines in 10 s about refused callers whose identity is proven, and the same number each about other refused
        /// callers, rejected connections and failed calls of the API. One client causes at most half of them. Omitted lines are counted.
        pub refusal_lines_max: usize = 100, in 0..=1 << 20;
        /// Clients that may open a sealed keystore (`leafseal unseal`), by the SHA-256 of their certificates (`leafseal certs list
        /// --json`). They need no grant: before the keystore is open, none can be verified.
        pub unsealers: Vec<CertificateFingerprint> = Vec::new(), is kind(Kind::List(unsealers::FINGERPRINTS));
        /// Maximum number of attempts of such a client in a minute. One attempt is made at a time.
        pub unseal_attempts_max: usize = 6, in 1..=1000;
        /// How long shares are kept after they were brought, while others are missing.
        pub unseal_shares_age_max: Duration = mins(10), in ms(1)..;
        /// Maximum number of slots of which shares of one such client are kept; shares of one more take the place of the oldest.
        pub unseal_slots_max: usize = ShareLimits::default().bringer_slots_max, in 1..=1000;
        /// Maximum number of sets of clients' shares that an attempt tries if more are there than are needed. Some may not fit: with the
        /// default any of 12 clients, and up to three of 20.
        pub unseal_share_sets_max: usize = ShareLimits::default().sets_max, in 1..=1 << 20;
        /// Memory for the record of what happens while the keystore is sealed: refused callers, who cause at most half of it, and attempts
        /// to unseal. It is signed and logged once the keystore is open (`leafseal store check --verify-record`). What does not fit is
        /// counted; 0 records nothing.
        pub sealed_record_bytes_max: usize = 64 << 10, bytes in 0..=16 << 20;
        /// The name of this engine in what it signs: at most 64 letters, digits, dots, underscores and hyphens. Without one it is the name
        /// of the host.
        pub name: String = String::new(), is kind(Kind::AnyText);
        /// Whether a large frame's expected size is reserved at once while at most a quarter of these budgets is used, so that it is not
        /// copied later. Turn it off if the allocator overwrites what is freed: a network thread would then copy the frame to give back
        /// what is left over.
        pub reserve_large_frames: bool = true, is internal;
        /// Certificates and key.
        pub tls: TlsSettings = TlsSettings::default(), is internal;
        /// Operator ports of other engines of the same keystore, up to 64, each as host and port. They are asked for the newest state that
        /// they have seen, before this engine is ready and then periodically, so that one that has never seen the keystore refuses an older
        /// copy that was put back. A name may stand for all engines: up to 64 of its addresses are asked, and this engine is left out.
        pub peers: Vec<String> = Vec::new(), is kind(Kind::List(PEERS));
        /// How long the answers of all peers are waited for, each time; the start is delayed at most as much.
        pub peers_timeout: Duration = secs(2), in ms(1)..;
        /// How long after an answer they are asked again.
        pub peers_interval: Duration = secs(10), in ms(10)..;
        /// The HTTPS API, if it has an address.
        pub api: ApiSettings = ApiSettings::default(), is section("api.");
        /// The [operator port](metrics.md) of `serve` and `dev`: probes and metrics over plain HTTP.
        pub operator: OperatorSettings = OperatorSettings::default(), is section("operator.");
        /// The [audit log](guides/audit.md): who has decrypted what.
        pub audit: AuditSettings = AuditSettings::default(), is section("audit.");
    }
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
    /// More peers than are asked.
    #[error("`peers` has {0} values: set it to at most {PEERS_MAX}, or to a name that stands for several engines")]
    Peers(usize),
    /// Nothing that can name an engine.
    #[error("`name` must be at most {SIGNER_SIZE_MAX} letters, digits, dots, underscores and hyphens")]
    Name,
    /// Two sinks that would share a place in the log.
    #[error("sinks {0} and {1} of `audit.sinks` have the same address, path, format and kinds: remove one of them")]
    DuplicateSinks(usize, usize),
    /// A network thread would serve others too late.
    #[error("`inline_work_max` is too long: set it to at most 0.05ms")]
    InlineWork,
    /// No time at all.
    #[error("`{0}` is 0: set it to a time above zero")]
    NoTime(&'static str),
}

/// Cores per network thread.
const CORES_PER_NETWORK_THREAD: usize = 8;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn network_threads() -> usize {
    cores().div_ceil(CORES_PER_NETWORK_THREAD)
}

/// The name of an engine for what it signs: that of the host, if none is set.
pub(crate) fn signer_name(set: &str) -> String {
    let host = rustix::system::uname();
    let name = if set.is_empty() { host.nodename().to_string_lossy() } else { set.into() };
    let known = |letter: char| if letter.is_ascii() && is_signer(&letter.to_string()) { letter } else { '-' };
    let name: String = name.chars().take(SIGNER_SIZE_MAX).map(known).collect();
    if name.is_empty() { "engine".to_owned() } else { name }
}

impl ServerSettings {
    /// The default settings, with these certificates.
    pub fn new(tls: TlsSettings) -> Self {
        ServerSettings { tls, ..Self::default() }
    }

    /// The client that a connection counts to; `None` for a trusted balancer.
    pub(crate) fn client_of(&self, address: IpAddr) -> Option<IpAddr> {
        client_of_unless(address, &self.trusted_balancers)
    }

    /// The limit on handshakes of one client.
    pub(crate) fn handshake_clients(&self) -> ClientBound {
        let trusted_balancers = self.trusted_balancers.clone();
        ClientBound { connections_max: (self.handshakes_max / 2).max(1), trusted_balancers }
    }

    /// Who may open a sealed keystore, and how often.
    pub fn unseal_rules(&self) -> UnsealRules {
        UnsealRules {
            unsealers: self.unsealers.iter().map(|fingerprint| fingerprint.0).collect(),
            attempts_max: self.unseal_attempts_max,
            shares_age_max: self.unseal_shares_age_max,
            shares: ShareLimits { bringer_slots_max: self.unseal_slots_max, sets_max: self.unseal_share_sets_max },
            record: RecordRules { engine: signer_name(&self.name), bytes_max: self.sealed_record_bytes_max },
        }
    }

    /// The settings of the worker pool; `observer` receives the times of waits and slices.
    pub(crate) fn pool(&self, observer: Arc<dyn PoolObserver>) -> PoolSettings {
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
            ("client_connections_max", self.client_connections_max),
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
            ("operator.client_connections_max", self.operator.client_connections_max),
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
        if !self.name.is_empty() && !is_signer(&self.name) {
            return Err(SettingsError::Name);
        }
        if self.peers.len() > PEERS_MAX {
            return Err(SettingsError::Peers(self.peers.len()));
        }
        if self.paused_frame_timeout < self.frame_timeout {
            return Err(SettingsError::BelowFrameTimeout);
        }
        if self.inline_work_max > INLINE_WORK_CEILING {
            return Err(SettingsError::InlineWork);
        }
        if self.half_open_timeout < HALF_OPEN_TIMEOUT_MIN {
            return Err(SettingsError::HalfOpen);
        }
        if self.operator.header_size_max < OperatorSettings::HEADER_SIZE_MIN {
            return Err(SettingsError::HeaderSize);
        }
        if let Some((first, second)) = self.audit.duplicate_sinks() {
            return Err(SettingsError::DuplicateSinks(first, second));
        }
        self.validate_sizes()
    }

    /// Checks that a frame of maximum size fits into the memory for messages and for answers.
    fn validate_sizes(&self) -> Result<(), SettingsError> {
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
        let private_key_pem = Zeroizing::new(b"not to be shown".to_vec());
        Self::new(TlsSettings { private_key_pem, ..TlsSettings::default() })
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
        let long = ServerSettings { inline_work_max: Duration::from_micros(51), ..ServerSettings::for_tests() };
        assert_eq!(long.validate(), Err(SettingsError::InlineWork));
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
    fn an_engine_has_a_name_that_it_can_sign_with() {
        assert!(is_signer(&signer_name("")), "that of this host");
        assert_eq!((signer_name("engine-0"), signer_name("a b/é")), ("engine-0".to_owned(), "a-b--".to_owned()));
        let named = |name: &str| ServerSettings { name: name.to_owned(), ..ServerSettings::for_tests() }.validate();
        assert_eq!(
            [named("engine-0.example"), named("a b"), named(&"x".repeat(65))].map(|it| it.is_ok()),
            [true, false, false]
        );
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
