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
    /// Threads that carry traffic. Default: one a core.
    #[serde(deserialize_with = "count")]
    pub threads: usize,
    /// Where health and metrics are told. Default 127.0.0.1:3445.
    pub operator_address: SocketAddr,
    /// Whether each request makes a line of the access log. Default true.
    pub access_log: bool,
    /// How long the relay still serves everything after the signal to stop, while it is not ready and asks clients to go elsewhere; longer
    /// than balancers take to notice. Default 5 s.
    #[serde(deserialize_with = "time_or_zero")]
    pub drain_delay: Duration,
    /// How long requests in flight are then waited for. Default 15 s.
    #[serde(deserialize_with = "time")]
    pub drain_timeout: Duration,
    /// How often the relay looks whether its file, certificates and keys have changed, and reloads them as on SIGHUP. Default 0: never.
    #[serde(deserialize_with = "time_or_zero")]
    pub reload_check: Duration,
    /// Lines of the log in 10 s about refused requests and connections. Default 100.
    #[serde(deserialize_with = "count")]
    pub refusal_lines_max: usize,
    /// How the system schedules the threads that work on long bodies. Default: at a lower priority than those that carry traffic.
    #[serde(deserialize_with = "scheduling_class")]
    pub body_scheduling: SchedulingClass,
    /// Whether memory is overwritten when it is freed; for the program that runs the relay to do. Default false.
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
    /// PEM of further authorities whose upstreams are believed.
    pub authorities: Option<PathBuf>,
    /// Whether the system's authorities are believed too. Default true.
    pub system_authorities: bool,
    /// Whether HTTP/2 is spoken with those that offer it. Default true.
    pub http2: bool,
    /// Time for a connection, name look-up and TLS included. Default 5 s.
    #[serde(deserialize_with = "time")]
    pub connect_timeout: Duration,
    /// Time from a request's end to the head of its answer. Default 60 s.
    #[serde(deserialize_with = "time")]
    pub response_timeout: Duration,
    /// Time between two pieces of an answer's body. Default 5 minutes, for server-sent events.
    #[serde(deserialize_with = "time")]
    pub body_timeout: Duration,
    /// How long a connection is kept without a request. Default 60 s.
    #[serde(deserialize_with = "time")]
    pub idle_timeout: Duration,
    /// Connections of all threads to all upstreams and destinations, tunnels included; one more takes the place of an idle one. Default
    /// 32,768.
    #[serde(deserialize_with = "count")]
    pub sockets_max: usize,
    /// Connections of one thread to one upstream. Default 1,024.
    #[serde(deserialize_with = "count")]
    pub connections_max: usize,
    /// Idle connections of one thread to one upstream. Default 64.
    #[serde(deserialize_with = "count")]
    pub idle_connections_max: usize,
    /// Bytes of an answer's header, 8 KiB at least. Default 64 KiB.
    #[serde(deserialize_with = "size")]
    pub header_size_max: usize,
    /// Header fields of an answer over HTTP/1.1. Default 128.
    #[serde(deserialize_with = "count")]
    pub headers_max: usize,
    /// Bytes of one answer that an upstream may send over HTTP/2 before its client takes them. Default 256 KiB.
    #[serde(deserialize_with = "size")]
    pub stream_window: usize,
    /// The same of all answers on a connection: room for two thousand clients that take nothing, so that they hold up nobody else.
    /// Default 512 MiB.
    #[serde(deserialize_with = "size")]
    pub connection_window: usize,
    /// A connection of HTTP/2 on which nothing came for so long is asked whether it is alive. Default 20 s.
    #[serde(deserialize_with = "time")]
    pub ping_interval: Duration,
    /// How long it has to answer that. Default 10 s.
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

/// `[limits]`: what clients may take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections of clients at one listener on one thread; one more takes the place of an idle or slow one, else it is closed at once.
    /// Default 16,384.
    #[serde(deserialize_with = "count")]
    pub connections_max: usize,
    /// Those of one client among them: an address of IPv4, a /64 of IPv6. Default 4,096.
    #[serde(deserialize_with = "count")]
    pub client_connections_max: usize,
    /// Addresses and networks of balancers that show their own address for all clients behind them: they have no such bound. Default none.
    #[serde(deserialize_with = "networks")]
    pub trusted_balancers: Vec<Network>,
    /// Requests at a time on one HTTP/2 connection. Default 128.
    #[serde(deserialize_with = "count")]
    pub streams_max: usize,
    /// Bytes of a message's header, 8 KiB at least. Default 32 KiB.
    #[serde(deserialize_with = "size")]
    pub header_size_max: usize,
    /// Header fields of a message. Default 128.
    #[serde(deserialize_with = "count")]
    pub headers_max: usize,
    /// Bytes of a body that is read as a whole, before and after decompression. Default 64 MiB.
    #[serde(deserialize_with = "size")]
    pub body_size_max: usize,
    /// How many times its coded size a body may have once it is decompressed. Default 100.
    #[serde(deserialize_with = "count")]
    pub expansion_max: usize,
    /// Bytes of a decompressed body up to which `expansion_max` does not count. Default 1 MiB.
    #[serde(deserialize_with = "size")]
    pub expansion_free_size: usize,
    /// Bytes of all bodies that are held at a time, with what is made of them and the memory of decoders. Default 1 GiB.
    #[serde(deserialize_with = "size")]
    pub bodies_size_max: usize,
    /// Those of one client among them: an address of IPv4, a /64 of IPv6. Behind a balancer that shows its own address for all, as much
    /// as for all. Default 512 MiB.
    #[serde(deserialize_with = "size")]
    pub client_bodies_size_max: usize,
    /// Time for a body that is read as a whole, from its first byte to its last. Default 2 minutes.
    #[serde(deserialize_with = "time")]
    pub buffered_body_timeout: Duration,
    /// Fields of one form. Default 10,000.
    #[serde(deserialize_with = "count")]
    pub form_fields_max: usize,
    /// Time for a TLS handshake. Default 10 s.
    #[serde(deserialize_with = "time")]
    pub handshake_timeout: Duration,
    /// Time from a header's first byte to its last. Default 15 s.
    #[serde(deserialize_with = "time")]
    pub header_timeout: Duration,
    /// Time in which a client brings 16 KiB of a request's body that is waited for, or what is left of it. Default 30 s.
    #[serde(deserialize_with = "time")]
    pub body_timeout: Duration,
    /// Time in which a client takes 16 KiB of its answer, or what is left of it. Default 30 s.
    #[serde(deserialize_with = "time")]
    pub write_timeout: Duration,
    /// How long a connection is kept without a request. Default 75 s.
    #[serde(deserialize_with = "time")]
    pub idle_timeout: Duration,
    /// The age at which a connection ends with its next answer, each after 80 to 100 % of it; 0 for none. Default 1 h.
    #[serde(deserialize_with = "time_or_zero")]
    pub connection_age_max: Duration,
    /// How long a tunnel or WebSocket may be silent. Default 1 h.
    #[serde(deserialize_with = "time")]
    pub tunnel_timeout: Duration,
    /// Certificates for destinations that are kept at a time. Default 1,000.
    #[serde(deserialize_with = "count")]
    pub certificates_max: usize,
    /// How long an answer about an API key holds. Default 1 s.
    #[serde(deserialize_with = "time")]
    pub api_key_timeout: Duration,
    /// API keys that are remembered at a time by one thread. Default 10,000.
    #[serde(deserialize_with = "count")]
    pub api_keys_max: usize,
    /// Places of envelopes that did not open in one line of the access log; the others are only counted. Default 16.
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
