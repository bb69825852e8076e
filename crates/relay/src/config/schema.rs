//! The file's structure: sections, keys, defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use leafseal_net::tls::PrivateKeyBatching;
use leafseal_net::{Network, SchedulingClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::Forwarded;
use super::value;
use crate::policy::{Action, Embedded, Mismatch, OnFailure, OtherCase, OtherSources, Overrides, Patches};

mod outbound;

pub(super) use outbound::{Destination, Outbound};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The process.
    #[serde(default)]
    pub relay: Process,
    /// The engine that does the cryptography.
    pub engine: Engine,
    /// Connections to upstreams and destinations.
    #[serde(default)]
    pub upstream: UpstreamSettings,
    /// Limits on clients.
    #[serde(default)]
    pub limits: Limits,
    /// Listeners in front of your APIs.
    #[serde(default)]
    pub inbound: Vec<Inbound>,
    /// Listeners for your clients that call third parties.
    #[serde(default)]
    pub outbound: Vec<Outbound>,
}

/// `[relay]`: the process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Threads that carry traffic. Default: one per core.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded", extend("defaultText" = "one per core"))]
    pub threads: usize,
    /// Where probes and metrics are served. Default 127.0.0.1:3445.
    #[serde(with = "value::address")]
    #[schemars(with = "value::address::Kinded")]
    pub operator_address: SocketAddr,
    /// Whether each request is logged in the access log. Default true.
    pub access_log: bool,
    /// Maximum memory in bytes of lines of the access log that wait to be written; further lines are dropped and counted. Default 16 MiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub access_log_size_max: usize,
    /// Maximum size in bytes of a text in such a line, for example the path. A longer one is cut and followed by its size. Default 2 KiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub access_log_text_size_max: usize,
    /// How long the relay keeps serving after the signal to stop, while it reports that it is not ready and asks clients to go elsewhere.
    /// Set it longer than load balancers take to notice. Default 5 s.
    #[serde(with = "value::duration_or_zero")]
    #[schemars(with = "value::duration_or_zero::Kinded")]
    pub drain_delay: Duration,
    /// How long the relay then waits for requests in flight. Default 15 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub drain_timeout: Duration,
    /// How often the relay checks its file, certificates and keys for changes and reloads them as on SIGHUP. Default 0: never.
    #[serde(with = "value::duration_or_zero")]
    #[schemars(with = "value::duration_or_zero::Kinded")]
    pub reload_check: Duration,
    /// Maximum number of log lines in 10 s about refused requests and connections. Default 100.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub refusal_lines_max: usize,
    /// How the system schedules the threads that work on long bodies. Default: at a lower priority than those that carry traffic.
    #[serde(with = "value::scheduling_class")]
    #[schemars(with = "value::scheduling_class::Kinded")]
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
            access_log_size_max: 16 << 20,
            access_log_text_size_max: 2 << 10,
            drain_delay: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(15),
            reload_check: Duration::ZERO,
            refusal_lines_max: 100,
            body_scheduling: SchedulingClass::default(),
            wipe_buffers: false,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    /// `HOST:PORT` of one engine, or of several that serve the same apps.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<Spanned<String>>,
    /// PEM file of the authorities that issue the engines' certificates.
    pub authorities: PathBuf,
    /// PEM file of the relay's certificate chain.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub private_key: PathBuf,
    /// Name in the engine's certificate, if it is not the host of the address.
    pub server_name: Option<String>,
    /// Maximum number of connections of one thread.
    #[serde(default = "engine_connections", with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub connections_max: usize,
    /// Maximum duration of a call.
    #[serde(default = "engine_timeout", with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub timeout: Duration,
    /// Maximum number of retries of a call that the engine has not started, or has refused as unavailable or overloaded.
    #[serde(default = "engine_retries", with = "value::retries")]
    #[schemars(with = "value::retries::Kinded")]
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamSettings {
    /// PEM file of additional authorities that are trusted for upstreams.
    pub authorities: Option<PathBuf>,
    /// Whether the system's authorities are trusted too. Default true.
    pub system_authorities: bool,
    /// Whether HTTP/2 is used with upstreams that offer it. Default true.
    pub http2: bool,
    /// Maximum time to connect, including name resolution and TLS. Default 5 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub connect_timeout: Duration,
    /// Maximum time from the end of a request to the head of its answer. Default 60 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub response_timeout: Duration,
    /// Maximum time between two pieces of an answer's body. Default 5 minutes, for server-sent events.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub body_timeout: Duration,
    /// How long a connection is kept without a request. Default 60 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub idle_timeout: Duration,
    /// Maximum number of connections of all threads to all upstreams and destinations, including tunnels; one more displaces an idle one.
    /// Default 32,768.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub sockets_max: usize,
    /// Maximum number of connections of one thread to one upstream. Default 1,024.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub connections_max: usize,
    /// Maximum number of idle connections of one thread to one upstream. Default 64.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub idle_connections_max: usize,
    /// Maximum size of an answer's header in bytes, at least 8 KiB. Default 64 KiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub header_size_max: usize,
    /// Maximum number of header fields of an answer over HTTP/1.1. Default 128.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub headers_max: usize,
    /// HTTP/2 stream window: bytes of one answer that an upstream may send before the client reads them. Default 256 KiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub stream_window: usize,
    /// HTTP/2 connection window: the same for all answers on a connection. The default of 512 MiB has room for two thousand clients that
    /// do not read, so that they do not block others.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub connection_window: usize,
    /// Silence on an HTTP/2 connection after which the relay sends a PING. Default 20 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub ping_interval: Duration,
    /// Maximum time for the answer to that PING. Default 10 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of client connections of one listener on one thread. One more displaces an idle or slow one; if there is none, it is
    /// closed at once. Default 16,384.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub connections_max: usize,
    /// Maximum number of these connections per client (an IPv4 address, a /64 of IPv6). Default 4,096.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub client_connections_max: usize,
    /// Addresses and networks of load balancers that connect from their own address for all clients behind them; they are exempt from that
    /// limit. Default none.
    #[serde(with = "value::networks")]
    #[schemars(with = "Vec<String>")]
    pub trusted_balancers: Vec<Network>,
    /// Maximum number of requests in flight on one HTTP/2 connection. Default 128.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub streams_max: usize,
    /// Maximum size of a message's header in bytes, at least 8 KiB. Default 32 KiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub header_size_max: usize,
    /// Maximum number of header fields of a message. Default 128.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub headers_max: usize,
    /// Maximum size in bytes of a body that is read completely, before and after decompression. Default 64 MiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub body_size_max: usize,
    /// Maximum ratio of the decompressed size of a body to its compressed size. Default 100.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub expansion_max: usize,
    /// Decompressed size in bytes up to which `expansion_max` does not apply. Default 1 MiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub expansion_free_size: usize,
    /// Maximum memory in bytes of all bodies that are read completely, including everything derived from them and the memory of decoders.
    /// Default 1 GiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub bodies_size_max: usize,
    /// The same per client (an IPv4 address, a /64 of IPv6). Behind a load balancer that hides client addresses, set it to
    /// `bodies_size_max`. Default 512 MiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub client_bodies_size_max: usize,
    /// Maximum time for a body that is read completely to arrive, from its first byte to its last. Default 2 minutes.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub buffered_body_timeout: Duration,
    /// Maximum number of fields of a form. Default 10,000.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub form_fields_max: usize,
    /// Maximum size in bytes of the name of a form field or query parameter, once its encoding is undone, where rules hide fields; from
    /// 256 B to 64 KiB. Default 4 KiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub form_name_size_max: usize,
    /// Maximum number of segments of a path that is compared with routes. Default 256.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub path_segments_max: usize,
    /// Maximum work to find the route of a request, in steps: one is about a byte of its path in one of the ways in which servers may read
    /// it, and a comparison of a segment is 16. Default 100,000.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub routing_steps_max: usize,
    /// Maximum duration of a TLS handshake. Default 10 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub handshake_timeout: Duration,
    /// Maximum time for a header to arrive, from its first byte to its last. Default 15 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub header_timeout: Duration,
    /// Time in which a client must send 16 KiB of a request's body that the relay waits for, or the rest of it. Default 30 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub body_timeout: Duration,
    /// Time in which a client must read 16 KiB of its answer, or the rest of it. Default 30 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub write_timeout: Duration,
    /// How long a connection is kept without a request. Default 75 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub idle_timeout: Duration,
    /// Age at which a connection closes with its next answer, each at 80 to 100 % of it; 0 disables the limit. Default 1 h.
    #[serde(with = "value::duration_or_zero")]
    #[schemars(with = "value::duration_or_zero::Kinded")]
    pub connection_age_max: Duration,
    /// How long a tunnel or WebSocket may be silent. Default 1 h.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub tunnel_timeout: Duration,
    /// Maximum number of cached certificates for destinations. Default 1,000.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub certificates_max: usize,
    /// How long the engine's answer about an API key is cached. Default 1 s.
    #[serde(with = "value::duration")]
    #[schemars(with = "value::duration::Kinded")]
    pub api_key_timeout: Duration,
    /// Maximum number of API keys that one thread caches. Default 10,000.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub api_keys_max: usize,
    /// Maximum number of API keys that one thread has verified at a time, without those that it knows. Clients share them fairly.
    /// Default 32.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub api_key_lookups_max: usize,
    /// Maximum number of paths of envelopes that failed to decrypt in one line of the access log; further ones are only counted.
    /// Default 16.
    #[serde(with = "value::count")]
    #[schemars(with = "value::count::Kinded")]
    pub failure_paths_max: usize,
    /// Maximum number of bytes that are searched for envelopes in a streamed body, coded and decoded. Default 1 MiB.
    #[serde(with = "value::size")]
    #[schemars(with = "value::size::Kinded")]
    pub envelope_search_size_max: usize,
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
            form_name_size_max: 4 << 10,
            path_segments_max: 256,
            routing_steps_max: 100_000,
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
            api_key_lookups_max: 32,
            failure_paths_max: 16,
            envelope_search_size_max: 1 << 20,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Inbound {
    /// Name in logs and metrics.
    pub name: Option<String>,
    /// IP address and port to listen on.
    #[schemars(with = "value::address::Kinded")]
    pub address: Spanned<SocketAddr>,
    /// PEM file of the certificate chain. Without it the listener serves plain HTTP/1.1.
    pub certificate: Option<PathBuf>,
    /// PEM file of its private key.
    pub private_key: Option<PathBuf>,
    /// Whether signatures of TLS handshakes that are open at the same time are computed together. `auto`: with an RSA key of 2,048,
    /// 3,072 or 4,096 bits on a CPU with AVX-512 IFMA, where four signatures cost as much as one.
    #[serde(default, with = "value::private_key_batching")]
    #[schemars(with = "value::private_key_batching::Kinded")]
    pub private_key_batching: PrivateKeyBatching,
    /// How long such a signature waits for others while its thread has nothing else to do. With 0 a lone handshake never waits; more
    /// saves CPU time for latency.
    #[serde(default, with = "value::duration_or_zero")]
    #[schemars(with = "value::duration_or_zero::Kinded")]
    pub private_key_batch_delay: Duration,
    /// Default upstream: `http://HOST:PORT` or `https://HOST:PORT`.
    #[schemars(with = "Option<String>")]
    pub upstream: Option<Spanned<String>>,
    /// What happens to requests that no route matches.
    pub unmatched: Option<Unmatched>,
    /// What happens to a path that equals that of a route except for the case of its letters.
    #[serde(default)]
    pub other_case: OtherCase,
    /// The same for names of JSON members, form fields and query parameters.
    #[serde(default)]
    pub other_case_names: OtherCase,
    /// What happens to `Forwarded` and `X-Forwarded-*` headers of a request.
    #[serde(default = "forwarded")]
    pub forwarded: Forwarded,
    /// What happens to fields by which a client has frameworks take another method or path than the request's, where a route hides values.
    #[serde(default)]
    pub overrides: Overrides,
    /// Routes; the first that matches applies.
    #[serde(default)]
    #[schemars(with = "Vec<Route>")]
    pub route: Vec<Spanned<Route>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unmatched {
    Pass,
    Refuse,
}

fn forwarded() -> Forwarded {
    Forwarded::Set
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// Name in logs; default: the path.
    pub name: Option<String>,
    /// Hosts that match, such as `api.example.com`, `*.example.com` or `[2001:db8::1]`; none means all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub hosts: Vec<Spanned<String>>,
    /// Methods that match; none means all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub methods: Vec<Spanned<String>>,
    /// Pattern of the path: `*` stands for one segment, a final `**` for any number.
    #[schemars(with = "String")]
    pub path: Spanned<String>,
    /// Upstream of this route, if it is not that of the listener.
    #[schemars(with = "Option<String>")]
    pub upstream: Option<Spanned<String>>,
    /// App whose keys encrypt and decrypt.
    #[schemars(with = "Option<String>")]
    pub app: Option<Spanned<String>>,
    /// Rules for requests, applied in order.
    #[serde(default)]
    #[schemars(with = "Vec<Rule>")]
    pub request: Vec<Spanned<Rule>>,
    /// Rules for responses, applied in order.
    #[serde(default)]
    #[schemars(with = "Vec<Rule>")]
    pub response: Vec<Spanned<Rule>>,
    /// Exact media types of the request bodies that rules take. Default: those that they read; where a rule hides values in JSON,
    /// `application/json`, `text/json`, `application/merge-patch+json` and `application/problem+json` of all JSON types.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub types: Vec<Spanned<String>>,
    /// The same for response bodies.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub response_types: Vec<Spanned<String>>,
    /// How bodies in the shape of a JSON Patch (RFC 6902) or SCIM patch are read where a rule hides values in JSON.
    #[schemars(with = "Option<Patches>")]
    pub patches: Option<Spanned<Patches>>,
    /// What happens to a body with a JSON text in a string or in a field of a form, in which a member has the name of a hidden JSON value.
    #[serde(default)]
    pub embedded_json: Embedded,
    /// What happens to a request whose query, cookies or form have a field that frameworks read as a value which rules hide in JSON, or
    /// whose JSON document has a member that they read as one which rules hide in the query or in forms. One with a safe method and no
    /// body always passes.
    #[serde(default)]
    pub other_sources: OtherSources,
    /// What happens to a request body that no rule can read.
    pub request_mismatch: Option<Mismatch>,
    /// What happens to a response body that no rule can read.
    pub response_mismatch: Option<Mismatch>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// What happens to the selected values.
    pub action: Action,
    /// Data role: written when encrypting, required when decrypting.
    #[schemars(with = "Option<String>")]
    pub role: Option<Spanned<String>>,
    /// JSONPath selectors of values in JSON bodies.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub json: Vec<Spanned<String>>,
    /// Names of form fields; `*` selects all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub form: Vec<Spanned<String>>,
    /// Names of query parameters, in requests.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub query: Vec<Spanned<String>>,
    /// Names of header fields.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub headers: Vec<Spanned<String>>,
    /// What `redact` writes in place of a value; default `[redacted]`.
    pub replacement: Option<String>,
    /// What happens to an envelope that does not decrypt.
    pub on_failure: Option<OnFailure>,
    /// Whether a body is refused in which one of the selectors of `json`, or `form`, finds nothing.
    pub require_match: Option<bool>,
    /// Whether `encrypt` leaves envelopes unchanged that the engine can decrypt. Without it they are encrypted again. Default false.
    pub skip_sealed: Option<bool>,
}
