//! The table of keys, in the order of the documentation.

#[macro_use]
mod macros;

use std::borrow::Cow;
use std::path::PathBuf;

use leafseal_config::{Item, Kind, Value};
use leafseal_engine::admin::SslMode;
use leafseal_engine::{Curve, EmptyStrings, Keying};
use leafseal_net::tls::PrivateKeyBatching;
use leafseal_net::{LogFormat, Network};
use leafseal_server::Scheduling;

use super::Config;
use super::store::StoreUrl;

/// One key of the configuration.
pub(crate) struct Key {
    /// `section.key`. The environment variable is `LEAFSEAL_SECTION_KEY`.
    pub name: &'static str,
    /// The kind of value.
    pub kind: Kind<'static>,
    /// Its purpose, in one or two sentences.
    pub about: &'static str,
    /// Replaces the default in the documentation if it differs between machines.
    pub default_text: Option<&'static str>,
    /// Its value in a configuration.
    pub get: fn(&Config) -> Value,
    /// Sets a value, which is valid for `kind`, in a configuration.
    pub set: fn(&mut Config, Value),
}

impl Key {
    /// The key of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Section and key.
    pub(crate) fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').expect("every name has a section")
    }

    /// A value as JSON.
    pub(crate) fn json(&self, value: &Value) -> serde_json::Value {
        serde_json::from_str(&self.kind.write(value)).expect("values are written as JSON")
    }

    /// The environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("LEAFSEAL_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const GIB: u64 = 1 << 30;

const NETWORKS: Item = Item {
    about: "IP addresses and networks, such as [\"10.1.2.3\", \"10.2.0.0/16\"]",
    is_valid: |text| text.parse::<Network>().is_ok(),
};
/// Validated with the other settings of the API.
const ORIGINS: Item = Item {
    about: "origins, such as [\"https://app.example.com\"], or [\"*\"] for all",
    is_valid: |text| text.len() <= 4096,
};

/// Every key.
pub(crate) static KEYS: &[Key] = &[
    choice!("engine.curve", engine.curve, "The curve used when a request does not name one.",
        "r1" => Curve::P256, "k1" => Curve::Secp256k1),
    choice!("engine.keying", engine.keying,
        "How often encryption generates a new ephemeral key when a request does not specify it: per value (`field`), per request, or per \
         session, which many requests share.",
        "field" => Keying::Field, "request" => Keying::Request, "session" => Keying::Session),
    choice!("engine.empty_strings", engine.empty_strings, "Whether empty strings are encrypted or left unchanged.",
        "encrypt" => EmptyStrings::Encrypt, "leave" => EmptyStrings::Leave),
    time!("engine.session_age_max", 1, engine.session_age_max, "Maximum age of the key that keying `session` reuses."),
    number!(
        "engine.session_values_max",
        Kind::Count(1, 1 << 32),
        engine.session_values_max,
        "Maximum number of values that keying `session` encrypts with one key."
    ),
    time!(
        "engine.spare_key_age_max",
        0,
        engine.spare_key_age_max,
        "How long spare ephemeral keys are kept for the next requests. They are generated together with a request's own key: two at \
         once cost a fifth less each, eight in SIMD lanes a fifth; 0 disables spare keys."
    ),
    number!(
        "engine.opening_keys_max",
        Kind::Count(0, 10_000_000),
        engine.opening_keys_max,
        "Derived decryption keys cached across requests, about 2 KiB each per key version; 0 disables the cache."
    ),
    time!("engine.opening_key_age_max", 0, engine.opening_key_age_max, "How long a key stays in that cache."),
    number!(
        "engine.request_opening_keys_max",
        Kind::Count(1, 10_000_000),
        engine.request_opening_keys_max,
        "Derived decryption keys that one request caches for its own use."
    ),
    number!(
        "engine.request_key_trials_max",
        Kind::Count(1, 1_000_000_000),
        engine.request_key_trials_max,
        "Key versions that one request may try without success, on values of other apps for example; beyond it the request fails \
         with `too large`. Each costs about 15 µs of CPU time, 65 µs for an app with few versions. Must be at least \
         `keystore.version_count_max`."
    ),
    number!(
        "engine.failure_paths_max",
        Kind::Count(0, 1_000),
        engine.failure_paths_max,
        "How many paths of envelopes that failed to decrypt one request reports; further ones are only counted."
    ),
    number!(
        "engine.recipients_max",
        Kind::Count(0, 1_000_000),
        engine.recipients_max,
        "Public keys cached with a precomputed table for encryption, up to 108 KiB each. 0 disables the cache: a fresh ephemeral key then \
         takes three times as long."
    ),
    number!(
        "engine.step_values_max",
        Kind::Count(1, 65_536),
        engine.step_values_max,
        "Values that a worker processes before it yields."
    ),
    number!(
        "engine.step_bytes_max",
        Kind::Size(1024, 64 << 20),
        engine.step_bytes_max,
        "Bytes of values that a worker encrypts or decrypts before it yields; without a match it scans half as many. Longer values \
         are processed in pieces."
    ),
    time!(
        "engine.blinding_age_max",
        0,
        engine.blinding_age_max,
        "How long the blinding of private-key operations is reused before it is renewed."
    ),
    time!(
        "engine.store_silence_max",
        0,
        engine.store_silence_max,
        "How long known grants and keys stay in use while the keystore does not respond; then requests are refused and `/readyz` fails. A \
         longer time bridges longer outages, but until the keystore responds nothing that was revoked or disabled is refused."
    ),
    time!(
        "engine.key_version_delay",
        0,
        engine.key_version_delay,
        "How long an engine that shares its keystore (`keystore.url`) only decrypts with a new key version before it also encrypts with \
         it: other engines learn of the version within a second. Use the same value everywhere."
    ),
    number!(
        "engine.store_lookups_max",
        Kind::Count(1, 256),
        engine.store_lookups_max,
        "Threads that read the keystore for requests, so that no worker waits for it. Look-ups for callers without known credentials use \
         at most half of them."
    ),
    number!(
        "engine.store_queue_max",
        Kind::Count(1, 65_536),
        engine.store_queue_max,
        "Look-ups that wait for these threads, for callers with known credentials and as many for others; one client or address may have a \
         quarter of them. When all wait, a client with fewer displaces the newest of the client with most, which fails with `overloaded`, \
         and otherwise further requests do."
    ),
    time!(
        "engine.store_wait_max",
        1,
        engine.store_wait_max,
        "How long a request waits for the keystore before it fails with `unavailable`."
    ),
    number!(
        "engine.miss_bytes_max",
        Kind::Size(0, GIB),
        engine.miss_bytes_max,
        "Memory for names of apps, clients and API keys that the keystore does not have, so that they are not looked up again."
    ),
    time!(
        "engine.miss_age_max",
        0,
        engine.miss_age_max,
        "How long such a name is remembered; a change of the keystore ends it at once."
    ),
    flag!(
        "engine.wipe_buffers",
        wipe_buffers,
        "Whether memory is overwritten with zeros before it is freed, so that no plaintext remains in it. Off by default because it costs \
         time: docs/threat-model.md states how much."
    ),
    number!(
        "document.document_size_max",
        Kind::Size(1, 4 * GIB - 2),
        engine.document.document_size_max,
        "Maximum size of a document."
    ),
    number!(
        "document.depth_max",
        Kind::Count(0, 1024),
        engine.document.depth_max,
        "Maximum nesting of arrays and objects."
    ),
    number!(
        "document.selectors_max",
        Kind::Count(1, 65_536),
        engine.document.selectors_max,
        "Maximum number of selectors in a request."
    ),
    number!(
        "document.selector_length_max",
        Kind::Size(1, 1 << 20),
        engine.document.selector_length_max,
        "Maximum length of a selector."
    ),
    number!(
        "document.segments_max",
        Kind::Count(1, 1 << 20),
        engine.document.segments_max,
        "Maximum number of segments in all selectors of a request together."
    ),
    number!(
        "document.filter_depth_max",
        Kind::Count(0, 128),
        engine.document.filter_depth_max,
        "Maximum nesting of parentheses, functions and filters in a selector."
    ),
    number!(
        "document.tree_nodes_max",
        Kind::Count(1, 1 << 31),
        engine.document.tree_nodes_max,
        "Maximum number of values in the tree that selectors with filters need of a document; each takes 32 bytes."
    ),
    number!(
        "document.filter_steps_max",
        Kind::Count(1, 1 << 40),
        engine.document.filter_steps_max,
        "Maximum number of values that the filters of a request visit in total."
    ),
    number!(
        "document.filter_comparison_max",
        Kind::Size(0, 1 << 30),
        engine.document.filter_comparison_max,
        "Maximum length of a string or number, and of all names of an object together, that a filter compares with another value."
    ),
    number!(
        "document.filter_members_max",
        Kind::Count(0, 1 << 20),
        engine.document.filter_members_max,
        "Maximum number of members of an object that a filter compares with another object."
    ),
    number!(
        "document.patterns_max",
        Kind::Count(0, 4096),
        engine.document.patterns_max,
        "Maximum number of calls of `match` and `search` in all selectors of a request together."
    ),
    number!(
        "document.pattern_size_max",
        Kind::Size(1024, 1 << 30),
        engine.document.pattern_size_max,
        "Maximum memory of a compiled pattern of `match` or `search`. The time to compile a pattern grows with it and counts towards \
         `filter_steps_max`."
    ),
    path!("keystore.path", store.path, "The SQLite file with apps, keys and grants, unless `keystore.url` is set."),
    path!(
        "keystore.root_key_file",
        store.root_key_file,
        "The file with the root key. The environment variable `LEAFSEAL_ROOT_KEY`, which holds the key's text, overrides it."
    ),
    Key {
        name: "keystore.url",
        kind: Kind::AnyText,
        about: "The PostgreSQL database with apps, keys and grants, which several engines can share: \
                `postgres://USER@HOST:PORT/DATABASE`, without a password. Of several servers (`HOST:PORT,HOST:PORT`) the engine uses the \
                primary. A host that begins with `%2F` is the folder of a Unix socket. Empty: the file of `keystore.path`; to set both is \
                an error.",
        default_text: None,
        get: |config| Value::Text(config.store.url.text().to_owned()),
        set: |config, value| config.store.url = StoreUrl::read(value.text()),
    },
    choice!("keystore.sslmode", store.sslmode,
        "How the PostgreSQL server is authenticated. `verify-full`: TLS with a certificate that `keystore.authorities` have issued and \
         that names the host. Weaker, with a warning: `verify-ca` (any name), `require` (any certificate), `disable` (no TLS). Unix \
         sockets do not use TLS.",
        "verify-full" => SslMode::VerifyFull, "verify-ca" => SslMode::VerifyCa, "require" => SslMode::Require,
        "disable" => SslMode::Disable),
    optional_path!(
        "keystore.authorities",
        store.authorities,
        "The certificate authorities that are trusted to issue the PostgreSQL server's certificate, in PEM. This file and the next three \
         are read at every connect."
    ),
    optional_path!(
        "keystore.certificate",
        store.certificate,
        "The certificate chain for the login to PostgreSQL, in PEM, the client's own certificate first."
    ),
    optional_path!("keystore.private_key", store.private_key, "The private key of `keystore.certificate`, in PEM."),
    optional_path!(
        "keystore.password_file",
        store.password_file,
        "The file whose first line is the password for the login to PostgreSQL. Only its owner may have access to it."
    ),
    time!(
        "keystore.connect_timeout",
        1,
        store.connect_timeout,
        "Maximum time to connect to one PostgreSQL server, including TLS and login."
    ),
    time!(
        "keystore.statement_timeout",
        1,
        store.statement_timeout,
        "Maximum time of a statement in PostgreSQL, and of the wait for the confirmation that a change is durable."
    ),
    number!(
        "keystore.app_count_max",
        Kind::Count(1, 10_000_000),
        keystore.app_count_max,
        "Maximum number of apps in the store."
    ),
    number!(
        "keystore.version_count_max",
        Kind::Count(1, 65_536),
        keystore.version_count_max,
        "Maximum number of key versions of an app, without trimmed ones: `leafseal keys trim` destroys the keys of disabled versions."
    ),
    number!(
        "keystore.client_count_max",
        Kind::Count(1, 10_000_000),
        keystore.client_count_max,
        "Maximum number of clients in the store."
    ),
    number!(
        "keystore.api_key_count_max",
        Kind::Count(1, 10_000_000),
        keystore.api_key_count_max,
        "Maximum number of API keys in the store, revoked ones included."
    ),
    number!(
        "keystore.grant_entry_count_max",
        Kind::Count(1, 100_000),
        keystore.grant_entry_count_max,
        "Maximum number of apps that one grant names, and, counted separately, of roles."
    ),
    number!(
        "keystore.store_size_max",
        Kind::Size(1 << 20, 1 << 40),
        keystore.store_size_max,
        "Maximum size of the store's file. Does not apply to PostgreSQL."
    ),
    time!(
        "keystore.busy_timeout",
        0,
        keystore.busy_timeout,
        "How long a command waits while another process has locked the store."
    ),
    Key {
        name: "server.address",
        kind: Kind::Address,
        about: "Where `serve` listens. Port 0 lets the system choose one. `dev` listens on 127.0.0.1 unless a flag sets another address.",
        default_text: None,
        get: |config| Value::Address(config.server.address),
        set: |config, value| config.server.address = value.address(),
    },
    path!(
        "server.certificate",
        certificates.certificate,
        "The server's certificate chain in PEM, its own certificate first."
    ),
    path!("server.private_key", certificates.private_key, "The private key of `server.certificate`, in PEM."),
    choice!("server.private_key_batching", certificates.private_key_settings.batching,
        "Whether signatures of TLS handshakes that are open at the same time are computed together. `auto`: with an RSA key of 2,048, \
         3,072 or 4,096 bits or a key on P-256, on a CPU with AVX-512 IFMA, where four or eight signatures cost as much as one.",
        "auto" => PrivateKeyBatching::Auto, "off" => PrivateKeyBatching::Off),
    time!(
        "server.private_key_batch_delay",
        0,
        certificates.private_key_settings.batch_delay,
        "How long such a signature waits for others while its thread has nothing else to do. With 0 a lone handshake never waits, and one \
         with a key on P-256 never does; more saves CPU time for latency."
    ),
    time!(
        "server.session_lifetime",
        0,
        certificates.session_lifetime,
        "How long after a full TLS handshake a client can resume its session, which costs a fraction. Its certificate and its grants \
         are checked again each time. 0 disables resumption; at most seven days count."
    ),
    optional_path!(
        "server.session_ticket_keys",
        certificates.session_ticket_keys,
        "The keys of session tickets, which engines behind one name share so that each can resume sessions of the others: lines \
         of 64 hexadecimal digits (`openssl rand -hex 32`). The first seals, all open. To rotate, add the new key at the end of every \
         engine's file, then move it to the front, and remove the old one after a session's lifetime. Whoever has such a key can \
         resume sessions of clients. Without a file each engine makes its own keys and replaces them once per lifetime."
    ),
    number!(
        "server.verified_chains_max",
        Kind::Count(0, 1 << 20),
        certificates.verified_chains.count_max,
        "Maximum number of client certificates that the engine remembers as verified, so that the signatures of their authorities are \
         checked once; 0 disables it."
    ),
    time!(
        "server.verified_chains_age",
        0,
        certificates.verified_chains.age_max,
        "How long a client certificate counts as verified; never longer than it is valid, nor when `server.client_authorities` changes."
    ),
    path!(
        "server.client_authorities",
        certificates.client_authorities,
        "The authorities whose client certificates are accepted, in PEM."
    ),
    time!(
        "server.reload_check",
        0,
        reload_check,
        "How often the engine checks its certificate, key and configuration files for changes and reloads them as on SIGHUP; 0 disables \
         the check."
    ),
    Key {
        default_text: Some("one per eight cores"),
        ..number!(
            "server.network_threads",
            Kind::Count(1, 1024),
            server.network_threads,
            "Threads for sockets, TLS and frames."
        )
    },
    Key {
        default_text: Some("the other cores"),
        ..number!("server.workers", Kind::Count(1, 4096), server.workers, "Threads that process requests.")
    },
    number!(
        "server.frame_size_max",
        Kind::Size(1024, 4 * GIB - 1),
        server.limits.frame_size_max,
        "Maximum size of a message, in either direction."
    ),
    number!(
        "server.frame_depth_max",
        Kind::Count(5, 1024),
        server.limits.depth_max,
        "Maximum nesting of arrays and maps in a message."
    ),
    number!(
        "server.frame_elements_max",
        Kind::Count(1, u32::MAX as u64),
        server.limits.elements_max,
        "Maximum number of elements in an array, or pairs in a map, of a message."
    ),
    number!(
        "server.connections_max",
        Kind::Count(1, 1 << 20),
        server.connections_max,
        "Maximum number of open connections, not counting TLS handshakes in progress; one more is closed at once."
    ),
    number!(
        "server.client_connections_max",
        Kind::Count(1, 1 << 20),
        server.clients.connections_max,
        "Maximum number of these connections per client (an IPv4 address, a /64 of IPv6); one more is closed at once."
    ),
    Key {
        name: "server.trusted_balancers",
        kind: Kind::List(NETWORKS),
        about: "Load balancers that connect from their own address for all clients behind them. Limits on connections per client do not \
                apply to them, on any listener.",
        default_text: None,
        get: |config| Value::List(config.server.clients.trusted_balancers.iter().map(ToString::to_string).collect()),
        set: |config, value| {
            let networks: Vec<Network> =
                value.list().iter().map(|text| text.parse().expect("checked by its kind")).collect();
            let server = &mut config.server;
            for clients in [&mut server.clients, &mut server.api.http.clients, &mut server.operator.clients] {
                clients.trusted_balancers.clone_from(&networks);
            }
        },
    },
    number!(
        "server.handshakes_max",
        Kind::Count(1, 1 << 20),
        server.handshakes_max,
        "Maximum number of TLS handshakes in progress. One more displaces the oldest, whose connection is closed. One client has at most \
         half of them."
    ),
    number!(
        "server.requests_in_flight_max",
        Kind::Count(1, 1 << 20),
        server.requests_in_flight_max,
        "Maximum number of requests in flight on a connection; at the limit the server stops reading from it until one is answered."
    ),
    number!(
        "server.connection_bytes_max",
        Kind::Size(1, 1 << 40),
        server.connection_bytes_max,
        "Bytes of requests in flight on a connection at which the server stops reading from it until one is answered."
    ),
    number!(
        "server.outgoing_bytes_max",
        Kind::Size(1, 64 * GIB),
        server.outgoing_bytes_max,
        "Bytes of answers waiting to be sent on a connection at which the server stops reading from it."
    ),
    number!(
        "server.outgoing_short_bytes_max",
        Kind::Size(1, GIB),
        server.outgoing_short_bytes_max,
        "The same for errors and answers to `health` among them, which count towards no other limit."
    ),
    number!(
        "server.incoming_bytes_max",
        Kind::Size(1, 1 << 40),
        server.incoming_bytes_max,
        "Maximum memory for buffers of incomplete messages, over all connections; must be at least `server.frame_size_max` plus 16KiB. \
         Buffers of up to 64KiB do not count."
    ),
    number!(
        "server.client_incoming_bytes_max",
        Kind::Size(1, 1 << 40),
        server.client_incoming_bytes_max,
        "The same for the connections of one client; must be at least `server.frame_size_max` plus 16KiB."
    ),
    time!(
        "server.incoming_wait",
        0,
        server.incoming_wait,
        "How long a connection waits, without being read, for memory for an incomplete message before it is closed with `overloaded`."
    ),
    number!(
        "server.queue_jobs_max",
        Kind::Count(1, 1 << 24),
        server.queue_jobs_max,
        "Maximum number of requests queued or running. One more waits for `server.admission_wait` and is then answered with `overloaded`."
    ),
    number!(
        "server.queue_bytes_max",
        Kind::Size(1, 1 << 40),
        server.queue_bytes_max,
        "Maximum memory for the messages of these requests; must be at least `server.frame_size_max` plus 16KiB."
    ),
    number!(
        "server.app_jobs_max",
        Kind::Count(1, 1 << 24),
        server.app_jobs_max,
        "Maximum number of requests queued or running per app, or per client for requests that name no app the client may use. One more \
         waits and is refused in the same way."
    ),
    number!(
        "server.app_bytes_max",
        Kind::Size(1, 1 << 40),
        server.app_bytes_max,
        "Maximum memory for the messages of these requests; must be at least `server.frame_size_max` plus 16KiB."
    ),
    time!(
        "server.admission_wait",
        0,
        server.admission_wait,
        "How long a request waits for room in the queue before it is answered with `overloaded`. Meanwhile its connection is not read."
    ),
    time!(
        "server.retry_after",
        0,
        server.retry_after,
        "The delay before a retry that an `overloaded` answer requests."
    ),
    choice!("server.scheduling", server.scheduling,
        "The order in which requests are processed. `fair`: in slices, shared fairly between apps and connections. \
         `first-come-first-served`: each as a whole, in order of arrival, by one worker; only to demonstrate how that delays small \
         requests.",
        "fair" => Scheduling::Fair, "first-come-first-served" => Scheduling::FirstComeFirstServed),
    flag!(
        "server.refuse_early",
        server.refuse_early,
        "Whether a request is answered with `overloaded` on arrival if it would, by an estimate of its wait, miss its deadline. Never \
         applies to requests without a deadline, while nothing waits, or with `server.scheduling` first-come-first-served."
    ),
    number!(
        "server.answers_bytes_max",
        Kind::Size(1, 1 << 40),
        server.answers_bytes_max,
        "Maximum memory for answers, being made or waiting to be sent, and for the working memory of requests; must be at least twice \
         `server.frame_size_max`. A request that does not fit is answered with `overloaded`."
    ),
    number!(
        "server.client_answers_bytes_max",
        Kind::Size(1, 1 << 40),
        server.client_answers_bytes_max,
        "The same for the connections of one client; must be at least twice `server.frame_size_max`."
    ),
    number!(
        "server.connection_answers_bytes_max",
        Kind::Size(1, 1 << 40),
        server.connection_answers_bytes_max,
        "The same for one connection; a single answer may exceed it."
    ),
    number!(
        "server.authentications_max",
        Kind::Count(1, 4096),
        server.authentications_max,
        "Maximum number of callers looked up in the keystore at once while they connect; further ones wait."
    ),
    time!(
        "server.handshake_timeout",
        1,
        server.handshake_timeout,
        "Maximum duration of a TLS handshake, including the lookup of its caller."
    ),
    time!(
        "server.half_open_timeout",
        2000,
        server.half_open_timeout,
        "How long a client's machine may acknowledge neither data nor TCP keepalive probes before its connection counts as dead."
    ),
    time!(
        "server.idle_timeout",
        1,
        server.idle_timeout,
        "How long a connection may be silent with no request in flight before it is closed."
    ),
    time!(
        "server.frame_timeout",
        1,
        server.frame_timeout,
        "Maximum time for a message to arrive, from its first byte to its last, excluding pauses in which the server does not read."
    ),
    time!(
        "server.paused_frame_timeout",
        1,
        server.paused_frame_timeout,
        "The same including these pauses; must be at least `server.frame_timeout`."
    ),
    time!(
        "server.write_timeout",
        1,
        server.write_timeout,
        "Time in which a client must read `server.write_progress_min` bytes of the answers waiting for it; otherwise its connection is \
         closed."
    ),
    number!(
        "server.write_progress_min",
        Kind::Size(1, 1 << 40),
        server.write_progress_min,
        "Bytes that a client must read in `server.write_timeout`, or all that wait if there are fewer. The operating system counts in \
         steps of up to 128KiB."
    ),
    time!(
        "server.outgoing_timeout",
        1,
        server.outgoing_timeout,
        "Maximum time for a client to read the answers waiting for it at one moment, however many; an answer is kept for at most twice \
         this time."
    ),
    time!(
        "server.close_timeout",
        0,
        server.close_timeout,
        "How long a connection that the server ends stays open for the client to read the reason."
    ),
    time!(
        "server.connection_age_max",
        0,
        server.connection_age_max,
        "Age at which clients are asked to leave a connection, each at 80 to 100 % of it, so that they spread over engines; 0 disables \
         the limit."
    ),
    time!(
        "server.connection_age_grace",
        0,
        server.connection_age_grace,
        "How long the server still reads requests on such a connection."
    ),
    time!(
        "server.drain_delay",
        0,
        server.drain_delay,
        "How long `serve` (and `dev`, if set) keeps serving after SIGTERM, while `/readyz` fails and clients are asked to go elsewhere. \
         Set it longer than load balancers take to notice. SIGINT skips it, and so does a second signal; a further signal ends the wait \
         for requests in flight."
    ),
    time!("server.drain_timeout", 0, server.drain_timeout, "How long a shutdown then waits for requests in flight."),
    number!(
        "server.refusal_lines_max",
        Kind::Count(0, 1 << 20),
        server.refusal_lines_max,
        "Maximum number of log lines in 10 s about refused connections, and the same number each about refused requests and refused calls \
         of the API. One client causes at most half of them. Omitted lines are counted."
    ),
    Key {
        name: "api.address",
        kind: Kind::OptionalAddress,
        about: "Where `serve` offers the HTTPS API. Port 0 lets the system choose one. `dev` offers it on 127.0.0.1:8443 by default.",
        default_text: None,
        get: |config| Value::OptionalAddress(config.server.api.address),
        set: |config, value| config.server.api.address = value.optional_address(),
    },
    path!(
        "api.certificate",
        certificates.api_certificate,
        "The API's certificate chain in PEM, its own certificate first."
    ),
    path!("api.private_key", certificates.api_private_key, "The private key of `api.certificate`, in PEM."),
    choice!("api.private_key_batching", certificates.api_private_key_settings.batching,
        "Whether signatures of TLS handshakes that are open at the same time are computed together. `auto`: with an RSA key of 2,048, \
         3,072 or 4,096 bits or a key on P-256, on a CPU with AVX-512 IFMA, where four or eight signatures cost as much as one.",
        "auto" => PrivateKeyBatching::Auto, "off" => PrivateKeyBatching::Off),
    time!(
        "api.private_key_batch_delay",
        0,
        certificates.api_private_key_settings.batch_delay,
        "How long such a signature waits for others while its thread has nothing else to do. With 0 a lone handshake never waits, and one \
         with a key on P-256 never does; more saves CPU time for latency."
    ),
    time!(
        "api.session_lifetime",
        0,
        certificates.api_session_lifetime,
        "How long after a full TLS handshake a client can resume its session. Tickets are sealed by the keys of \
         `server.session_ticket_keys`. 0 disables resumption; at most seven days count."
    ),
    number!(
        "api.body_size_max",
        Kind::Size(1, 4 * GIB - 2),
        server.api.body_size_max,
        "Maximum size of a body. A larger one is answered with 413, before it is read if it declares its length."
    ),
    number!(
        "api.inspect_size_max",
        Kind::Size(1, 1 << 20),
        server.api.inspect_size_max,
        "Maximum size of a body of `/inspect`, which is processed in one step."
    ),
    number!(
        "api.calls_max",
        Kind::Count(1, 1 << 20),
        server.api.calls_max,
        "Maximum number of calls in flight; one more is answered with 503."
    ),
    time!(
        "api.call_timeout",
        1,
        server.api.call_timeout,
        "Maximum duration of a call, from its head to its answer, including its body."
    ),
    Key {
        name: "api.team",
        kind: Kind::Text(64),
        about: "The team name returned to SDKs; the engine does not use it.",
        default_text: None,
        get: |config| Value::Text(config.server.api.team.clone()),
        set: |config, value| config.server.api.team = value.text().to_owned(),
    },
    Key {
        name: "api.cors_origins",
        kind: Kind::List(ORIGINS),
        about: "Origins whose pages may read public keys and decrypt with client-side tokens.",
        default_text: None,
        get: |config| Value::List(config.server.api.cors_origins.clone()),
        set: |config, value| config.server.api.cors_origins = value.list().to_vec(),
    },
    flag!("api.access_log", server.api.access_log, "Whether each call is logged, at level `info`."),
    number!(
        "api.connections_max",
        Kind::Count(1, 1 << 20),
        server.api.http.connections_max,
        "Maximum number of open connections. One more displaces the one that has been without a call the longest, or else the one with \
         the slowest peer that a call waits for; if there is none, the new one is closed at once."
    ),
    number!(
        "api.client_connections_max",
        Kind::Count(1, 1 << 20),
        server.api.http.clients.connections_max,
        "Maximum number of these connections per client (an IPv4 address, a /64 of IPv6); one more displaces one of the same client in \
         the same way."
    ),
    number!(
        "api.streams_max",
        Kind::Count(1, 1 << 16),
        server.api.http.streams_max,
        "Maximum number of calls in flight on one HTTP/2 connection."
    ),
    time!("api.handshake_timeout", 1, server.api.http.handshake_timeout, "Maximum duration of a TLS handshake."),
    time!(
        "api.header_read_timeout",
        1,
        server.api.http.header_read_timeout,
        "Maximum time for the head of an HTTP/1.1 call to arrive, from its first byte to its last."
    ),
    number!(
        "api.header_size_max",
        Kind::Size(8 << 10, 1 << 20),
        server.api.http.header_size_max,
        "Maximum size of the head of a call; a larger one is answered with 431."
    ),
    number!(
        "api.headers_max",
        Kind::Count(1, 1024),
        server.api.http.headers_max,
        "Maximum number of header fields of an HTTP/1.1 call; more are answered with 431."
    ),
    time!(
        "api.body_timeout",
        1,
        server.api.http.body_timeout,
        "Time in which a caller must send `api.body_progress_min` bytes of a body that the engine waits for; otherwise the call is \
         answered with 408."
    ),
    number!(
        "api.body_progress_min",
        Kind::Size(1, 1 << 30),
        server.api.http.body_progress_min,
        "Bytes of a body that a caller must send in `api.body_timeout`, or the rest of it if that is less."
    ),
    time!(
        "api.write_timeout",
        1,
        server.api.http.write_timeout,
        "Time in which a caller must read `api.write_progress_min` bytes of an answer waiting for it; otherwise its connection is closed."
    ),
    number!(
        "api.write_progress_min",
        Kind::Size(1, 1 << 30),
        server.api.http.write_progress_min,
        "Bytes of answers that a caller must read in `api.write_timeout`, or all that wait if there are fewer."
    ),
    time!(
        "api.idle_timeout",
        1,
        server.api.http.idle_timeout,
        "How long a connection may be without a call before it is closed."
    ),
    time!(
        "api.connection_age_max",
        0,
        server.api.http.connection_age_max,
        "Age at which a connection closes with its next answer, each at 80 to 100 % of it; 0 disables the limit."
    ),
    number!(
        "api.refused_body_max",
        Kind::Size(0, 1 << 40),
        server.api.http.refused_body_max,
        "Bytes of a refused body that are read and discarded, so that the caller receives the answer."
    ),
    time!(
        "api.refused_body_timeout",
        0,
        server.api.http.refused_body_timeout,
        "How long a refused body is read and discarded."
    ),
    time!(
        "api.half_open_timeout",
        2000,
        server.api.http.half_open_timeout,
        "How long a caller's machine may acknowledge neither data nor TCP keepalive probes before its connection counts as dead."
    ),
    time!(
        "api.close_timeout",
        0,
        server.api.http.close_timeout,
        "How long a connection that the engine closes stays open for the caller to read the last bytes."
    ),
    Key {
        name: "operator.address",
        kind: Kind::OptionalAddress,
        about: "Where probes and metrics are served. Port 0 lets the system choose one, as does port 0 in `server.address` if this key is \
                not set.",
        default_text: None,
        get: |config| Value::OptionalAddress(config.server.operator.address),
        set: |config, value| config.server.operator.address = value.optional_address(),
    },
    number!(
        "operator.connections_max",
        Kind::Count(1, 1 << 16),
        server.operator.connections_max,
        "Maximum number of calls in flight; one more displaces the oldest, whose connection is closed."
    ),
    number!(
        "operator.client_connections_max",
        Kind::Count(1, 1 << 16),
        server.operator.clients.connections_max,
        "Maximum number of these calls per client (an IPv4 address, a /64 of IPv6); one more displaces the oldest of the same client."
    ),
    number!(
        "operator.header_size_max",
        Kind::Size(8 << 10, 1 << 20),
        server.operator.header_size_max,
        "Maximum size of the head of a call."
    ),
    time!("operator.call_timeout", 1, server.operator.call_timeout, "Maximum duration of a call."),
    number!(
        "client.connections_max",
        Kind::Count(1, 1024),
        client.connections_max,
        "Maximum number of connections that one command opens at a time."
    ),
    number!(
        "client.requests_in_flight_max",
        Kind::Count(1, 1 << 20),
        client.requests_in_flight_max,
        "Maximum number of requests in flight on one connection; keep it at or below the engine's own limit."
    ),
    time!("client.connect_timeout", 1, client.connect_timeout, "Maximum time to connect, including TLS."),
    time!("client.request_timeout", 1, client.request_timeout, "Maximum duration of a request, including its retries."),
    time!(
        "client.abandoned_timeout",
        1,
        client.abandoned_timeout,
        "How long the answer to an abandoned request may be outstanding before its connection counts as dead."
    ),
    number!(
        "client.retries_max",
        Kind::Count(0, 1000),
        client.retries_max,
        "Maximum number of retries of a request that the engine has not started, or has refused as `unavailable` or `overloaded`. They \
         end with `client.request_timeout` and the request's deadline."
    ),
    time!(
        "client.backoff_min",
        1,
        client.backoff_min,
        "The delay after a failed connection and before a retry; it doubles each time."
    ),
    time!("client.backoff_max", 1, client.backoff_max, "The longest such delay."),
    number!(
        "client.frame_size_max",
        Kind::Size(1024, 4 * GIB - 1),
        client.limits.frame_size_max,
        "Maximum size of a message, in either direction."
    ),
    number!(
        "client.frame_depth_max",
        Kind::Count(5, 1024),
        client.limits.depth_max,
        "Maximum nesting of arrays and maps in a message."
    ),
    number!(
        "client.frame_elements_max",
        Kind::Count(1, u32::MAX as u64),
        client.limits.elements_max,
        "Maximum number of elements in an array, or pairs in a map, of a message."
    ),
    number!(
        "input.file_size_max",
        Kind::Size(1, 64 * GIB),
        input.file_size_max,
        "Maximum size of a file that `--file` encrypts or decrypts."
    ),
    number!(
        "input.line_size_max",
        Kind::Size(1, 4 * GIB - 2),
        input.line_size_max,
        "Maximum size of a line of JSON Lines."
    ),
    number!(
        "input.block_lines_max",
        Kind::Count(1, 65_536),
        input.block_lines_max,
        "Maximum number of lines in a block, the unit that a thread processes."
    ),
    number!(
        "input.block_size_max",
        Kind::Size(1, 4 * GIB),
        input.block_size_max,
        "Maximum size of a block; a longer line is a block of its own."
    ),
    Key {
        default_text: Some("one per core"),
        ..number!(
            "input.threads",
            Kind::Count(1, 1024),
            input.threads,
            "Threads that process blocks of lines; each has one block in progress and one waiting."
        )
    },
    flag!(
        "input.strict",
        input.strict,
        "Whether `encrypt`, `decrypt` and `rewrap` fail if a selector matches nothing, in JSON Lines in any line, as with `--strict`."
    ),
    choice!("log.level", log.level,
        "The lowest severity that is logged. `dev` logs from `warn` unless this is set.",
        "error" => tracing::Level::ERROR, "warn" => tracing::Level::WARN, "info" => tracing::Level::INFO,
        "debug" => tracing::Level::DEBUG, "trace" => tracing::Level::TRACE),
    choice!("log.format", log.format,
        "The format of log lines, including those of the relay's access log: JSON objects, or `name=value` pairs.",
        "json" => LogFormat::Json, "logfmt" => LogFormat::Logfmt),
];

#[cfg(test)]
mod tests;
