//! The settings of the file: tables whose keys all have defaults. [`schema`](super::schema) has the file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use leafseal_config::{KeyExchange, Kind, mins, ms, secs, settings};
use leafseal_net::{HEADER_SIZE_MIN, NETWORKS, Network, SchedulingClass};

use crate::policy::selectors::FIELD_NAME_SIZE_MIN;

/// Limits of HTTP/2 windows: the initial window of a connection, and the largest possible (RFC 9113, section 6.9).
const WINDOW_MIN: usize = (1 << 16) - 1;
const WINDOW_MAX: usize = (1 << 31) - 1;

settings! {
    /// `[relay]`: the process.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Process {
        /// Threads that carry traffic.
        pub threads: usize = std::thread::available_parallelism().map_or(1, usize::from) => "one per core", in 1..=1 << 24;
        /// Where probes and metrics are served.
        pub operator_address: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3445);
        /// Whether each request is logged in the access log.
        pub access_log: bool = true;
        /// Maximum memory of lines of the access log that wait to be written; further lines are dropped and counted.
        pub access_log_size_max: usize = 16 << 20, bytes in 1..=1 << 40;
        /// Maximum size of a text in such a line, for example the path. A longer one is cut and followed by its size: `…[29696 bytes]`.
        pub access_log_text_size_max: usize = 2 << 10, bytes in 1..=1 << 40;
        /// How long the relay keeps serving after SIGTERM, while it reports that it is not ready and asks clients to go elsewhere. Set it
        /// longer than load balancers take to notice.
        pub drain_delay: Duration = secs(5), in ms(0)..;
        /// How long the relay then waits for requests in flight.
        pub drain_timeout: Duration = secs(15), in ms(1)..;
        /// How often the relay checks its certificates and keys for changes and loads new ones; 0 disables the check.
        pub reload_check: Duration = mins(1), in ms(0)..;
        /// Whether it checks the configuration's files, too, and reloads everything as on SIGHUP when one changes.
        pub reload_configuration: bool = false;
        /// Maximum number of log lines in 10 s about refused requests and connections, and the same number each about refused callers with
        /// a good API key and about others.
        pub refusal_lines_max: usize = 100, in 1..=1 << 24;
        /// How the system schedules the threads that work on long bodies: `normal`, at a lower priority than those that carry traffic
        /// (`nice` 5), or `idle` (Linux: `SCHED_IDLE`).
        pub body_scheduling: SchedulingClass = SchedulingClass::default(),
            one of { "normal" => SchedulingClass::Normal, "idle" => SchedulingClass::Idle };
        /// Whether memory is overwritten with zeros when it is freed, as `engine.wipe_buffers` does in an engine.
        pub wipe_buffers: bool = false;
    }
}

settings! {
    /// `[engine]`: calls to the engine.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Calls {
        /// Maximum number of connections of one thread.
        pub connections_max: usize = 2, in 1..=1 << 24;
        /// Maximum duration of a call.
        pub timeout: Duration = secs(10), in ms(1)..;
        /// Maximum number of retries of a call that the engine has not started, or has refused as unavailable or overloaded.
        pub retries_max: u32 = 4, in 0..=1000;
        /// The offered groups of the key exchange.
        pub key_exchange: KeyExchange = KeyExchange::of_rpc(), is section("tls_");
    }
}

settings! {
    /// `[upstream]`: connections to upstreams.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UpstreamSettings {
        /// PEM file of additional authorities that are trusted for upstreams.
        pub authorities: Option<PathBuf> = None;
        /// Whether the system's authorities are trusted too.
        pub system_authorities: bool = true;
        /// The offered groups of the key exchange.
        pub key_exchange: KeyExchange = KeyExchange::default(), is section("tls_");
        /// Whether HTTP/2 is used with upstreams that offer it.
        pub http2: bool = true;
        /// Maximum time to connect, including name resolution and TLS.
        pub connect_timeout: Duration = secs(5), in ms(1)..;
        /// Maximum time from the end of a request to the head of its answer.
        pub response_timeout: Duration = secs(60), in ms(1)..;
        /// Maximum time between two pieces of an answer's body, also of server-sent events.
        pub body_timeout: Duration = mins(5), in ms(1)..;
        /// How long a connection is kept without a request.
        pub idle_timeout: Duration = secs(60), in ms(1)..;
        /// Maximum number of connections of all threads to all upstreams and destinations, including tunnels; one more displaces an idle
        /// one.
        pub sockets_max: usize = 32_768, in 1..=1 << 24;
        /// Maximum number of connections of one thread to one upstream.
        pub connections_max: usize = 1024, in 1..=1 << 24;
        /// Maximum number of idle connections of one thread to one upstream.
        pub idle_connections_max: usize = 64, in 1..=1 << 24;
        /// Maximum size of an answer's header.
        pub header_size_max: usize = 64 << 10, bytes in HEADER_SIZE_MIN..=16 << 20;
        /// Maximum number of header fields of an answer over HTTP/1.1.
        pub headers_max: usize = 128, in 1..=1 << 24;
        /// HTTP/2 stream window: bytes of one answer that an upstream may send before the client reads them.
        pub stream_window: usize = 256 << 10, bytes in WINDOW_MIN..=WINDOW_MAX;
        /// HTTP/2 connection window: the same for all answers on a connection. The default has room for two thousand clients that do not
        /// read, so that they do not block others.
        pub connection_window: usize = 512 << 20, bytes in WINDOW_MIN..=WINDOW_MAX;
        /// Silence on an HTTP/2 connection after which the relay sends a PING.
        pub ping_interval: Duration = secs(20), in ms(1)..;
        /// Maximum time for the answer to that PING.
        pub ping_timeout: Duration = secs(10), in ms(1)..;
    }
}

settings! {
    /// `[limits]`: limits on clients.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Maximum number of client connections of one listener on one thread. One more displaces an idle or slow one; if there is none, it
        /// is closed at once.
        pub connections_max: usize = 16_384, in 1..=1 << 24;
        /// Maximum number of these connections per client (an IPv4 address, a /64 of IPv6).
        pub client_connections_max: usize = 4096, in 1..=1 << 24;
        /// Load balancers that connect from their own address for all clients behind them; they are exempt from that limit.
        pub trusted_balancers: Vec<Network> = Vec::new(), is kind(Kind::List(NETWORKS));
        /// Maximum number of requests in flight on one HTTP/2 connection.
        pub streams_max: usize = 128, in 1..=1 << 24;
        /// Maximum size of a message's header.
        pub header_size_max: usize = 32 << 10, bytes in HEADER_SIZE_MIN..=16 << 20;
        /// Maximum number of header fields of a message.
        pub headers_max: usize = 128, in 1..=1 << 24;
        /// Maximum size of a body that is read completely, before and after decompression.
        pub body_size_max: usize = 64 << 20, bytes in 1..=1 << 40;
        /// Maximum ratio of the decompressed size of a body to its compressed size.
        pub expansion_max: usize = 100, in 1..=1 << 24;
        /// Decompressed size up to which `expansion_max` does not apply.
        pub expansion_free_size: usize = 1 << 20, bytes in 1..=1 << 40;
        /// Maximum memory of all bodies that are read completely, including everything derived from them and the memory of decoders.
        pub bodies_size_max: usize = 1 << 30, bytes in 1..=1 << 40;
        /// The same per client (an IPv4 address, a /64 of IPv6). Behind a load balancer that hides client addresses, set it to
        /// `bodies_size_max`.
        pub client_bodies_size_max: usize = 512 << 20, bytes in 1..=1 << 40;
        /// Maximum time for a body that is read completely to arrive, from its first byte to its last.
        pub buffered_body_timeout: Duration = mins(2), in ms(1)..;
        /// Maximum number of fields of a form.
        pub form_fields_max: usize = 10_000, in 1..=1 << 24;
        /// Maximum size of the name of a form field or query parameter, once its encoding is undone, where rules hide fields; a form with a
        /// longer one is refused. A name in a rule has at most 256 bytes.
        pub form_name_size_max: usize = 4 << 10, bytes in FIELD_NAME_SIZE_MIN..=64 << 10;
        /// Maximum number of segments of a path that is compared with the paths of routes or destinations; a longer one is refused (400).
        pub path_segments_max: usize = 256, in 1..=1 << 24;
        /// Maximum work to find the route of a request, in steps: for each way in which servers may read its path two for each byte and 64,
        /// and 16 for each comparison of a segment, for all methods that the request may ask for together; a request that
        /// would take more is refused (414).
        pub routing_steps_max: usize = 100_000, in 1..=1 << 24;
        /// Maximum duration of a TLS handshake.
        pub handshake_timeout: Duration = secs(10), in ms(1)..;
        /// Maximum time for a header to arrive, from its first byte to its last.
        pub header_timeout: Duration = secs(15), in ms(1)..;
        /// Time in which a client must send 16 KiB of a request's body that the relay waits for, or the rest of it.
        pub body_timeout: Duration = secs(30), in ms(1)..;
        /// Time in which a client must read 16 KiB of its answer, or the rest of it.
        pub write_timeout: Duration = secs(30), in ms(1)..;
        /// How long a connection is kept without a request.
        pub idle_timeout: Duration = secs(75), in ms(1)..;
        /// Age at which a connection closes with its next answer, each at 80 to 100 % of it; 0 disables the limit.
        pub connection_age_max: Duration = mins(60), in ms(0)..;
        /// How long a tunnel or WebSocket may be silent.
        pub tunnel_timeout: Duration = mins(60), in ms(1)..;
        /// Maximum number of cached certificates for destinations.
        pub certificates_max: usize = 1000, in 1..=1 << 24;
        /// How long the engine's answer about an API key is cached.
        pub api_key_timeout: Duration = secs(1), in ms(1)..;
        /// Maximum number of API keys that one thread caches.
        pub api_keys_max: usize = 10_000, in 1..=1 << 24;
        /// Maximum number of API keys that one thread has verified at a time, without those that it knows. When all are in use, a client
        /// with fewer displaces the newest of the client with most, which gets 503 `relay_overloaded`.
        pub api_key_lookups_max: usize = 32, in 1..=1 << 24;
        /// Maximum number of paths of envelopes that failed to decrypt in one line of the access log; further ones are only counted.
        ///
        pub failure_paths_max: usize = 16, in 1..=1 << 24;
        /// Maximum number of bytes that are searched for envelopes in a streamed body, coded and decoded.
        pub envelope_search_size_max: usize = 1 << 20, bytes in 1..=1 << 40;
    }
}
