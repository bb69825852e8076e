//! The file as it is written: sections, keys, defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fieldseal_net::{Network, SchedulingClass};
use serde::Deserialize;
use toml::Spanned;

use super::value::{count, networks, retries, scheduling_class, size, time, time_or_zero};
use super::{Action, Forwarded, Mismatch, OtherCase, Unlisted};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub relay: Process,
    pub engine: Engine,
    #[serde(default)]
    pub upstream: UpstreamSettings,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub inbound: Vec<Inbound>,
    #[serde(default)]
    pub outbound: Vec<Outbound>,
}

/// `[relay]`: the process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Threads that carry traffic. Default: one per core.
    #[serde(deserialize_with = "count")]
    pub threads: usize,
    /// Where probes and metrics are served. Default 127.0.0.1:3445.
    pub operator_address: SocketAddr,
    /// Whether each request is logged in the access log. Default true.
    pub access_log: bool,
    /// How long the relay keeps serving after the signal to stop, while it reports that it is not ready and asks clients to go elsewhere.
    /// Set it longer than load balancers take to notice. Default 5 s.
    #[serde(deserialize_with = "time_or_zero")]
    pub drain_delay: Duration,
    /// How long the relay then waits for requests in flight. Default 15 s.
    #[serde(deserialize_with = "time")]
    pub drain_timeout: Duration,
    /// How often the relay checks its file, certificates and keys for changes and reloads them as on SIGHUP. Default 0: never.
    #[serde(deserialize_with = "time_or_zero")]
    pub reload_check: Duration,
    /// Maximum number of log lines in 10 s about refused requests and connections. Default 100.
    #[serde(deserialize_with = "count")]
    pub refusal_lines_max: usize,
    /// How the system schedules the threads that work on long bodies. Default: at a lower priority than those that carry traffic.
    #[serde(deserialize_with = "scheduling_class")]
    pub body_scheduling: SchedulingClass,
    /// Whether memory is overwritten when it is freed; the program that runs the relay must implement it. Default false.
    pub wipe_buffers: bool,
}

impl Default for Process {
    fn default() -> Self {
        Process {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            operator_address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3445),
            access_log: true,
            drain_delay: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(15),
            reload_check: Duration::ZERO,
            refusal_lines_max: 100,
            body_scheduling: SchedulingClass::default(),
            wipe_buffers: false,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    pub addresses: Vec<Spanned<String>>,
    pub authorities: PathBuf,
    pub certificate: PathBuf,
    pub private_key: PathBuf,
    pub server_name: Option<String>,
    #[serde(default = "engine_connections", deserialize_with = "count")]
    pub connections_max: usize,
    #[serde(default = "engine_timeout", deserialize_with = "time")]
    pub timeout: Duration,
    #[serde(default = "engine_retries", deserialize_with = "retries")]
    pub retries_max: u32,
}

fn engine_connections() -> usize {
    2
}

fn engine_retries() -> u32 {
    4
}

fn engine_timeout() -> Duration {
    Duration::from_secs(10)
}

/// `[upstream]`: connections to upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamSettings {
    /// PEM file of additional authorities that are trusted for upstreams.
    pub authorities: Option<PathBuf>,
    /// Whether the system's authorities are trusted too. Default true.
    pub system_authorities: bool,
    /// Whether HTTP/2 is used with upstreams that offer it. Default true.
    pub http2: bool,
    /// Maximum time to connect, including name resolution and TLS. Default 5 s.
    #[serde(deserialize_with = "time")]
    pub connect_timeout: Duration,
    /// Maximum time from the end of a request to the head of its answer. Default 60 s.
    #[serde(deserialize_with = "time")]
    pub response_timeout: Duration,
    /// Maximum time between two pieces of an answer's body. Default 5 minutes, for server-sent events.
    #[serde(deserialize_with = "time")]
    pub body_timeout: Duration,
    /// How long a connection is kept without a request. Default 60 s.
    #[serde(deserialize_with = "time")]
    pub idle_timeout: Duration,
    /// Maximum number of connections of all threads to all upstreams and destinations, including tunnels; one more displaces an idle one.
    /// Default 32,768.
    #[serde(deserialize_with = "count")]
    pub sockets_max: usize,
    /// Maximum number of connections of one thread to one upstream. Default 1,024.
    #[serde(deserialize_with = "count")]
    pub connections_max: usize,
    /// Maximum number of idle connections of one thread to one upstream. Default 64.
    #[serde(deserialize_with = "count")]
    pub idle_connections_max: usize,
    /// Maximum size of an answer's header in bytes, at least 8 KiB. Default 64 KiB.
    #[serde(deserialize_with = "size")]
    pub header_size_max: usize,
    /// Maximum number of header fields of an answer over HTTP/1.1. Default 128.
    #[serde(deserialize_with = "count")]
    pub headers_max: usize,
    /// HTTP/2 stream window: bytes of one answer that an upstream may send before the client reads them. Default 256 KiB.
    #[serde(deserialize_with = "size")]
    pub stream_window: usize,
    /// HTTP/2 connection window: the same for all answers on a connection. The default of 512 MiB has room for two thousand clients that
    /// do not read, so that they do not block others.
    #[serde(deserialize_with = "size")]
    pub connection_window: usize,
    /// Silence on an HTTP/2 connection after which the relay sends a PING. Default 20 s.
    #[serde(deserialize_with = "time")]
    pub ping_interval: Duration,
    /// Maximum time for the answer to that PING. Default 10 s.
    #[serde(deserialize_with = "time")]
    pub ping_timeout: Duration,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        UpstreamSettings {
            authorities: None,
            system_authorities: true,
            http2: true,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(60),
            sockets_max: 32_768,
            connections_max: 1024,
            idle_connections_max: 64,
            header_size_max: 64 << 10,
            headers_max: 128,
            stream_window: 256 << 10,
            connection_window: 512 << 20,
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(10),
        }
    }
}

/// `[limits]`: limits on clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of client connections of one listener on one thread. One more displaces an idle or slow one; if there is none, it is
    /// closed at once. Default 16,384.
    #[serde(deserialize_with = "count")]
    pub connections_max: usize,
    /// Maximum number of these connections per client (an IPv4 address, a /64 of IPv6). Default 4,096.
    #[serde(deserialize_with = "count")]
    pub client_connections_max: usize,
    /// Addresses and networks of load balancers that connect from their own address for all clients behind them; they are exempt from that
    /// limit. Default none.
    #[serde(deserialize_with = "networks")]
    pub trusted_balancers: Vec<Network>,
    /// Maximum number of requests in flight on one HTTP/2 connection. Default 128.
    #[serde(deserialize_with = "count")]
    pub streams_max: usize,
    /// Maximum size of a message's header in bytes, at least 8 KiB. Default 32 KiB.
    #[serde(deserialize_with = "size")]
    pub header_size_max: usize,
    /// Maximum number of header fields of a message. Default 128.
    #[serde(deserialize_with = "count")]
    pub headers_max: usize,
    /// Maximum size in bytes of a body that is read completely, before and after decompression. Default 64 MiB.
    #[serde(deserialize_with = "size")]
    pub body_size_max: usize,
    /// Maximum ratio of the decompressed size of a body to its compressed size. Default 100.
    #[serde(deserialize_with = "count")]
    pub expansion_max: usize,
    /// Decompressed size in bytes up to which `expansion_max` does not apply. Default 1 MiB.
    #[serde(deserialize_with = "size")]
    pub expansion_free_size: usize,
    /// Maximum memory in bytes of all bodies that are read completely, including everything derived from them and the memory of decoders.
    /// Default 1 GiB.
    #[serde(deserialize_with = "size")]
    pub bodies_size_max: usize,
    /// The same per client (an IPv4 address, a /64 of IPv6). Behind a load balancer that hides client addresses, set it to
    /// `bodies_size_max`. Default 512 MiB.
    #[serde(deserialize_with = "size")]
    pub client_bodies_size_max: usize,
    /// Maximum time for a body that is read completely to arrive, from its first byte to its last. Default 2 minutes.
    #[serde(deserialize_with = "time")]
    pub buffered_body_timeout: Duration,
    /// Maximum number of fields of a form. Default 10,000.
    #[serde(deserialize_with = "count")]
    pub form_fields_max: usize,
    /// Maximum duration of a TLS handshake. Default 10 s.
    #[serde(deserialize_with = "time")]
    pub handshake_timeout: Duration,
    /// Maximum time for a header to arrive, from its first byte to its last. Default 15 s.
    #[serde(deserialize_with = "time")]
    pub header_timeout: Duration,
    /// Time in which a client must send 16 KiB of a request's body that the relay waits for, or the rest of it. Default 30 s.
    #[serde(deserialize_with = "time")]
    pub body_timeout: Duration,
    /// Time in which a client must read 16 KiB of its answer, or the rest of it. Default 30 s.
    #[serde(deserialize_with = "time")]
    pub write_timeout: Duration,
    /// How long a connection is kept without a request. Default 75 s.
    #[serde(deserialize_with = "time")]
    pub idle_timeout: Duration,
    /// Age at which a connection closes with its next answer, each at 80 to 100 % of it; 0 disables the limit. Default 1 h.
    #[serde(deserialize_with = "time_or_zero")]
    pub connection_age_max: Duration,
    /// How long a tunnel or WebSocket may be silent. Default 1 h.
    #[serde(deserialize_with = "time")]
    pub tunnel_timeout: Duration,
    /// Maximum number of cached certificates for destinations. Default 1,000.
    #[serde(deserialize_with = "count")]
    pub certificates_max: usize,
    /// How long the engine's answer about an API key is cached. Default 1 s.
    #[serde(deserialize_with = "time")]
    pub api_key_timeout: Duration,
    /// Maximum number of API keys that one thread caches. Default 10,000.
    #[serde(deserialize_with = "count")]
    pub api_keys_max: usize,
    /// Maximum number of paths of envelopes that failed to decrypt in one line of the access log; further ones are only counted.
    /// Default 16.
    #[serde(deserialize_with = "count")]
    pub failure_paths_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 16_384,
            client_connections_max: 4096,
            trusted_balancers: Vec::new(),
            streams_max: 128,
            header_size_max: 32 << 10,
            headers_max: 128,
            body_size_max: 64 << 20,
            expansion_max: 100,
            expansion_free_size: 1 << 20,
            bodies_size_max: 1 << 30,
            client_bodies_size_max: 512 << 20,
            buffered_body_timeout: Duration::from_secs(120),
            form_fields_max: 10_000,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            connection_age_max: Duration::from_secs(3600),
            tunnel_timeout: Duration::from_secs(3600),
            certificates_max: 1000,
            api_key_timeout: Duration::from_secs(1),
            api_keys_max: 10_000,
            failure_paths_max: 16,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inbound {
    pub name: Option<String>,
    pub address: Spanned<SocketAddr>,
    pub certificate: Option<PathBuf>,
    pub private_key: Option<PathBuf>,
    pub upstream: Option<Spanned<String>>,
    pub unmatched: Option<Unmatched>,
    #[serde(default)]
    pub other_case: OtherCase,
    #[serde(default)]
    pub other_case_names: OtherCase,
    #[serde(default = "forwarded")]
    pub forwarded: Forwarded,
    #[serde(default)]
    pub route: Vec<Spanned<Route>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unmatched {
    Pass,
    Refuse,
}

fn forwarded() -> Forwarded {
    Forwarded::Set
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    pub name: Option<String>,
    #[serde(default)]
    pub hosts: Vec<Spanned<String>>,
    #[serde(default)]
    pub methods: Vec<Spanned<String>>,
    pub path: Spanned<String>,
    pub upstream: Option<Spanned<String>>,
    pub app: Option<Spanned<String>>,
    #[serde(default)]
    pub request: Vec<Spanned<Rule>>,
    #[serde(default)]
    pub response: Vec<Spanned<Rule>>,
    pub request_mismatch: Option<Mismatch>,
    pub response_mismatch: Option<Mismatch>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub action: Action,
    pub role: Option<Spanned<String>>,
    #[serde(default)]
    pub json: Vec<Spanned<String>>,
    #[serde(default)]
    pub form: Vec<Spanned<String>>,
    #[serde(default)]
    pub query: Vec<Spanned<String>>,
    #[serde(default)]
    pub headers: Vec<Spanned<String>>,
    pub replacement: Option<String>,
    pub on_failure: Option<OnFailure>,
}

/// What becomes of an envelope that does not open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The message is refused.
    #[default]
    Fail,
    /// It stays as it is.
    Leave,
    /// `null` takes its place; in forms and headers nothing does.
    Null,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outbound {
    pub name: Option<String>,
    pub address: Spanned<SocketAddr>,
    pub certificate: Option<PathBuf>,
    pub private_key: Option<PathBuf>,
    pub ca_certificate: PathBuf,
    pub ca_private_key: PathBuf,
    #[serde(default = "unlisted")]
    pub unlisted: Unlisted,
    #[serde(default = "unlisted")]
    pub unlisted_internal: Unlisted,
    #[serde(default)]
    pub other_case: OtherCase,
    #[serde(default)]
    pub other_case_names: OtherCase,
    #[serde(default)]
    pub destination: Vec<Spanned<Destination>>,
}

fn unlisted() -> Unlisted {
    Unlisted::Refuse
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Destination {
    pub hosts: Vec<Spanned<String>>,
    #[serde(default)]
    pub paths: Vec<Spanned<String>>,
    pub request: Option<Vec<Spanned<Rule>>>,
    #[serde(default)]
    pub response: Vec<Spanned<Rule>>,
    pub request_mismatch: Option<Mismatch>,
    pub response_mismatch: Option<Mismatch>,
}
