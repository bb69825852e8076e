//! The table of keys. The order is that of the documentation.

use fieldseal_engine::{Curve, EmptyStrings, Keying};
use fieldseal_net::LogFormat;
use fieldseal_server::Scheduling;

use super::Config;
use super::value::{Kind, TIME_MAX_MS, Value};

/// One key of the configuration.
pub struct Key {
    /// `section.key`. The environment variable is `FIELDSEAL_SECTION_KEY`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it does: a sentence or two.
    pub about: &'static str,
    /// Stands for the default in the documentation, where that differs from machine to machine.
    pub default_text: Option<&'static str>,
    /// Its value in a configuration.
    pub get: fn(&Config) -> Value,
    /// Puts a value, which is one of `kind`, into a configuration.
    pub set: fn(&mut Config, Value),
}

impl Key {
    /// The key of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Section and key.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').expect("every name has a section")
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("FIELDSEAL_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const GIB: u64 = 1 << 30;

/// A number, converted to the setting's own type; the kind's bounds see to it that it fits.
macro_rules! number {
    ($name:literal, $kind:expr, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: $kind,
            about: $about,
            default_text: None,
            get: |config| Value::Number(config.$($field).+.try_into().expect("settings fit 64 bits")),
            set: |config, value| config.$($field).+ = value.number().try_into().expect("bounded by its kind"),
        }
    };
}

macro_rules! time {
    ($name:literal, $min_ms:literal, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: Kind::Time($min_ms, TIME_MAX_MS),
            about: $about,
            default_text: None,
            get: |config| Value::Time(config.$($field).+),
            set: |config, value| config.$($field).+ = value.time(),
        }
    };
}

macro_rules! path {
    ($name:literal, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: Kind::Path,
            about: $about,
            default_text: None,
            get: |config| Value::Text(config.$($field).+.to_string_lossy().into_owned()),
            set: |config, value| config.$($field).+ = value.text().into(),
        }
    };
}

/// One of some words, each standing for a value.
macro_rules! choice {
    ($name:literal, $($field:ident).+, $about:literal, $($word:literal => $value:expr),+) => {
        Key {
            name: $name,
            kind: Kind::Choice(&[$($word),+]),
            about: $about,
            default_text: None,
            get: |config| {
                let words = [$(($word, $value)),+];
                let found = words.iter().find(|(_, value)| *value == config.$($field).+);
                Value::Text(found.expect("every value has a word").0.to_owned())
            },
            set: |config, value| {
                let words = [$(($word, $value)),+];
                let found = words.into_iter().find(|(word, _)| *word == value.text());
                config.$($field).+ = found.expect("one of the kind's words").1;
            },
        }
    };
}

/// Every key.
pub static KEYS: &[Key] = &[
    choice!("engine.curve", engine.curve, "The curve when a request names none.",
        "r1" => Curve::P256, "k1" => Curve::Secp256k1),
    choice!("engine.keying", engine.keying,
        "How often a fresh ephemeral key is made when a request does not say: for each value, once a request, or once for many requests.",
        "field" => Keying::Field, "request" => Keying::Request, "session" => Keying::Session),
    choice!("engine.empty_strings", engine.empty_strings, "What happens to empty strings.",
        "encrypt" => EmptyStrings::Encrypt, "leave" => EmptyStrings::Leave),
    time!("engine.session_age_max", 1, engine.session_age_max, "How long keying `session` uses one key."),
    number!(
        "engine.session_values_max",
        Kind::Count(1, 1 << 32),
        engine.session_values_max,
        "How many values keying `session` seals with one key."
    ),
    time!(
        "engine.spare_key_age_max",
        0,
        engine.spare_key_age_max,
        "How long a key that was made together with a request's own, which saves a fifth, waits for the next request; 0 makes none."
    ),
    number!(
        "engine.opening_keys_max",
        Kind::Count(0, 10_000_000),
        engine.opening_keys_max,
        "Derived keys kept across requests for decryption, about 2 KiB each and key version; 0 keeps none."
    ),
    time!("engine.opening_key_age_max", 0, engine.opening_key_age_max, "How long such a key is kept."),
    number!(
        "engine.request_opening_keys_max",
        Kind::Count(1, 10_000_000),
        engine.request_opening_keys_max,
        "Derived keys that one request keeps for itself."
    ),
    number!(
        "engine.failure_paths_max",
        Kind::Count(0, 1_000),
        engine.failure_paths_max,
        "Places of envelopes that did not open which one request reports; the others are only counted."
    ),
    number!(
        "engine.recipients_max",
        Kind::Count(0, 1_000_000),
        engine.recipients_max,
        "Public keys kept with a table for encrypting to them, 84 KiB each; 0 keeps none: a fresh key takes three times as long."
    ),
    number!(
        "engine.step_values_max",
        Kind::Count(1, 65_536),
        engine.step_values_max,
        "Values that a worker does before it looks up again."
    ),
    number!(
        "engine.step_bytes_max",
        Kind::Size(1024, 64 << 20),
        engine.step_bytes_max,
        "Bytes of values that a worker does before it looks up again, and twice as many as it walks; what is longer is done in pieces."
    ),
    time!(
        "engine.blinding_age_max",
        0,
        engine.blinding_age_max,
        "How long the blinding of private-key operations stays as it is."
    ),
    time!(
        "engine.store_silence_max",
        0,
        engine.store_silence_max,
        "How long grants and keys that are known stay in use while the keystore does not answer."
    ),
    choice!("engine.wipe_buffers", wipe_buffers,
        "Whether memory is overwritten with zeros before it is freed, so that no plaintext is left in it. Off, since it costs time: \
         docs/threat-model.md has the price.",
        "no" => false, "yes" => true),
    number!(
        "document.document_size_max",
        Kind::Size(1, 4 * GIB - 2),
        engine.document.document_size_max,
        "Bytes of one document."
    ),
    number!(
        "document.depth_max",
        Kind::Count(0, 1024),
        engine.document.depth_max,
        "Arrays and objects inside one another."
    ),
    number!(
        "document.selectors_max",
        Kind::Count(1, 65_536),
        engine.document.selectors_max,
        "Selectors of one request."
    ),
    number!(
        "document.selector_length_max",
        Kind::Size(1, 1 << 20),
        engine.document.selector_length_max,
        "Bytes of one selector."
    ),
    number!(
        "document.segments_max",
        Kind::Count(1, 1 << 20),
        engine.document.segments_max,
        "Segments of all selectors of one request together."
    ),
    number!(
        "document.filter_depth_max",
        Kind::Count(0, 128),
        engine.document.filter_depth_max,
        "Parentheses, functions and filters inside one another in a selector."
    ),
    number!(
        "document.tree_nodes_max",
        Kind::Count(1, 1 << 31),
        engine.document.tree_nodes_max,
        "Values of a document that selectors with filters may look at as a tree, 32 bytes each."
    ),
    number!(
        "document.filter_steps_max",
        Kind::Count(1, 1 << 40),
        engine.document.filter_steps_max,
        "Values that the filters of one request may look at in all."
    ),
    number!(
        "document.filter_comparison_max",
        Kind::Size(0, 1 << 30),
        engine.document.filter_comparison_max,
        "The longest string or number, and all names of an object together, that a filter compares with another value."
    ),
    number!(
        "document.filter_members_max",
        Kind::Count(0, 1 << 20),
        engine.document.filter_members_max,
        "Members of the largest object that a filter compares with another one."
    ),
    number!(
        "document.patterns_max",
        Kind::Count(0, 4096),
        engine.document.patterns_max,
        "Calls of `match` and `search` in all selectors of a request together."
    ),
    number!(
        "document.pattern_size_max",
        Kind::Size(1024, 1 << 30),
        engine.document.pattern_size_max,
        "Memory of a pattern of `match` or `search` once it is compiled; time to compile it grows with it, and counts among \
         `filter_steps_max`."
    ),
    path!("keystore.path", store.path, "The SQLite file with apps, keys and grants."),
    path!(
        "keystore.root_key_file",
        store.root_key_file,
        "The file with the root key. The environment variable `FIELDSEAL_ROOT_KEY` with the key's text goes before it."
    ),
    number!("keystore.app_count_max", Kind::Count(1, 10_000_000), keystore.app_count_max, "Apps in the store."),
    number!(
        "keystore.version_count_max",
        Kind::Count(1, 65_536),
        keystore.version_count_max,
        "Key versions of one app."
    ),
    number!(
        "keystore.client_count_max",
        Kind::Count(1, 10_000_000),
        keystore.client_count_max,
        "Clients in the store."
    ),
    number!(
        "keystore.api_key_count_max",
        Kind::Count(1, 10_000_000),
        keystore.api_key_count_max,
        "API keys in the store, revoked ones included."
    ),
    number!(
        "keystore.grant_entry_count_max",
        Kind::Count(1, 100_000),
        keystore.grant_entry_count_max,
        "Apps, and apart from them roles, that one grant names."
    ),
    number!("keystore.store_size_max", Kind::Size(1 << 20, 1 << 40), keystore.store_size_max, "Size of the store."),
    time!(
        "keystore.busy_timeout",
        0,
        keystore.busy_timeout,
        "How long a command waits for another process that holds the store."
    ),
    Key {
        name: "server.address",
        kind: Kind::Address,
        about: "Where `serve` listens. Port 0 lets the system choose one. `dev` listens on 127.0.0.1 unless told otherwise by a flag.",
        default_text: None,
        get: |config| Value::Address(config.server.address),
        set: |config, value| config.server.address = value.address(),
    },
    path!(
        "server.certificate",
        certificates.certificate,
        "The server's certificate, then those that lead to its authority, in PEM."
    ),
    path!("server.private_key", certificates.private_key, "Its private key, in PEM."),
    path!(
        "server.client_authorities",
        certificates.client_authorities,
        "The authorities whose client certificates are accepted, in PEM."
    ),
    time!(
        "server.reload_check",
        0,
        reload_check,
        "How often the engine looks whether the files of its certificates, keys and configuration have changed, and takes them up as on \
         SIGHUP; 0: on SIGHUP alone."
    ),
    Key {
        default_text: Some("one for eight cores"),
        ..number!(
            "server.network_threads",
            Kind::Count(1, 1024),
            server.network_threads,
            "Threads for sockets, TLS and frames."
        )
    },
    Key {
        default_text: Some("the other cores"),
        ..number!("server.workers", Kind::Count(1, 4096), server.workers, "Threads that compute.")
    },
    number!(
        "server.frame_size_max",
        Kind::Size(1024, 4 * GIB - 1),
        server.limits.frame_size_max,
        "Bytes of one message, either way."
    ),
    number!(
        "server.frame_depth_max",
        Kind::Count(5, 1024),
        server.limits.depth_max,
        "Arrays and maps inside one another in a message."
    ),
    number!(
        "server.frame_elements_max",
        Kind::Count(1, u32::MAX as u64),
        server.limits.elements_max,
        "Elements of one array, pairs of one map in a message."
    ),
    number!(
        "server.connections_max",
        Kind::Count(1, 1 << 20),
        server.connections_max,
        "Connections at a time, their handshakes done; one more is closed at once."
    ),
    number!(
        "server.client_connections_max",
        Kind::Count(1, 1 << 20),
        server.clients.connections_max,
        "Connections of one client among them (an IPv4 address, a /64 of IPv6); one more is closed at once."
    ),
    Key {
        name: "server.trusted_balancers",
        kind: Kind::Networks,
        about: "Balancers that show their own address for all clients behind them: no bound for one client applies to them, at any \
                listener.",
        default_text: None,
        get: |config| Value::Networks(config.server.clients.trusted_balancers.clone()),
        set: |config, value| {
            let server = &mut config.server;
            for clients in [&mut server.clients, &mut server.api.http.clients, &mut server.operator.clients] {
                clients.trusted_balancers = value.networks().to_vec();
            }
        },
    },
    number!(
        "server.handshakes_max",
        Kind::Count(1, 1 << 20),
        server.handshakes_max,
        "TLS handshakes at a time; one more takes the place of the oldest, whose connection is closed. One client has half of them at most."
    ),
    number!(
        "server.requests_in_flight_max",
        Kind::Count(1, 1 << 20),
        server.requests_in_flight_max,
        "Requests in work on one connection; the server reads no further until one is answered."
    ),
    number!(
        "server.connection_bytes_max",
        Kind::Size(1, 1 << 40),
        server.connection_bytes_max,
        "Bytes of messages in work on one connection from which on the server reads no further until one is answered."
    ),
    number!(
        "server.outgoing_bytes_max",
        Kind::Size(1, 64 * GIB),
        server.outgoing_bytes_max,
        "Answers that wait on one connection before the server reads no further."
    ),
    number!(
        "server.outgoing_short_bytes_max",
        Kind::Size(1, GIB),
        server.outgoing_short_bytes_max,
        "Errors and answers to `health` among them, which count to no other bound, before the server reads no further."
    ),
    number!(
        "server.incoming_bytes_max",
        Kind::Size(1, 1 << 40),
        server.incoming_bytes_max,
        "Bytes of the buffers that messages are still arriving in, over all connections; at least `server.frame_size_max` and 16KiB."
    ),
    number!(
        "server.client_incoming_bytes_max",
        Kind::Size(1, 1 << 40),
        server.client_incoming_bytes_max,
        "Bytes of them over the connections of one client; at least `server.frame_size_max` and 16KiB."
    ),
    time!(
        "server.incoming_wait",
        0,
        server.incoming_wait,
        "How long a connection waits, unread, for room for the message that is arriving before it is closed with `overloaded`."
    ),
    number!(
        "server.queue_jobs_max",
        Kind::Count(1, 1 << 24),
        server.queue_jobs_max,
        "Requests held, waiting or in work; one more waits for `server.admission_wait`, then it is answered with `overloaded`."
    ),
    number!(
        "server.queue_bytes_max",
        Kind::Size(1, 1 << 40),
        server.queue_bytes_max,
        "Bytes of the buffers of their messages; at least `server.frame_size_max` and 16KiB."
    ),
    number!(
        "server.app_jobs_max",
        Kind::Count(1, 1 << 24),
        server.app_jobs_max,
        "Requests held for one app, or for one client that names no app which is its to use; one more waits and is refused in the same way."
    ),
    number!(
        "server.app_bytes_max",
        Kind::Size(1, 1 << 40),
        server.app_bytes_max,
        "Bytes of the buffers of their messages; at least `server.frame_size_max` and 16KiB."
    ),
    time!(
        "server.admission_wait",
        0,
        server.admission_wait,
        "How long a request waits for room among those held, its connection unread, before it is refused."
    ),
    time!(
        "server.retry_after",
        0,
        server.retry_after,
        "The pause that whoever is answered with `overloaded` is told to make."
    ),
    choice!("server.scheduling", server.scheduling,
        "In which order requests are worked on: slice by slice, fairly to apps and connections; or each whole, in the order of arrival, by \
         one worker, which is for demonstrations of what that does to small requests, and for nothing else.",
        "fair" => Scheduling::Fair, "first-come-first-served" => Scheduling::FirstComeFirstServed),
    choice!("server.refuse_early", server.refuse_early,
        "Whether a request that would not be done before its deadline is answered with `overloaded` when it comes, by an estimate of how \
         long it would wait; without a deadline none is, nor while nothing waits, nor with `server.scheduling` first-come-first-served.",
        "yes" => true, "no" => false),
    number!(
        "server.answers_bytes_max",
        Kind::Size(1, 1 << 40),
        server.answers_bytes_max,
        "Bytes of answers made or waiting to be written, and of what requests work with; at least twice `server.frame_size_max`."
    ),
    number!(
        "server.client_answers_bytes_max",
        Kind::Size(1, 1 << 40),
        server.client_answers_bytes_max,
        "Bytes of them over the connections of one client; at least twice `server.frame_size_max`."
    ),
    number!(
        "server.connection_answers_bytes_max",
        Kind::Size(1, 1 << 40),
        server.connection_answers_bytes_max,
        "Bytes of them on one connection, where they are more than one answer."
    ),
    number!(
        "server.authentications_max",
        Kind::Count(1, 4096),
        server.authentications_max,
        "Callers that are looked up in the keystore at a time, while they connect; further ones wait."
    ),
    time!(
        "server.handshake_timeout",
        1,
        server.handshake_timeout,
        "How long a TLS handshake may take, with the look-up of its caller."
    ),
    time!(
        "server.half_open_timeout",
        2000,
        server.half_open_timeout,
        "How long a client's machine may acknowledge nothing, neither answers nor the system's probes, until it counts as dead."
    ),
    time!("server.idle_timeout", 1, server.idle_timeout, "How long a connection may stay silent with nothing in work."),
    time!(
        "server.frame_timeout",
        1,
        server.frame_timeout,
        "How long a message may take from its first byte to its last, not counting pauses in which the server does not read."
    ),
    time!(
        "server.paused_frame_timeout",
        1,
        server.paused_frame_timeout,
        "How long it may take with them; at least `server.frame_timeout`."
    ),
    time!(
        "server.write_timeout",
        1,
        server.write_timeout,
        "How long a client may take fewer than `server.write_progress_min` bytes of the answers that wait for it."
    ),
    number!(
        "server.write_progress_min",
        Kind::Size(1, 1 << 40),
        server.write_progress_min,
        "Bytes that a client takes at least in that time, if there are that many; the system counts in lumps of up to 128KiB."
    ),
    time!(
        "server.outgoing_timeout",
        1,
        server.outgoing_timeout,
        "How long a client may take for the answers that wait for it at one moment, however many; an answer is held up to twice as long."
    ),
    time!(
        "server.close_timeout",
        0,
        server.close_timeout,
        "How long a connection that the server ends is kept for the client to read why."
    ),
    time!(
        "server.connection_age_max",
        0,
        server.connection_age_max,
        "The age at which clients are asked to leave a connection, each after 80 to 100 % of it, so that they spread over engines; 0 \
         for none."
    ),
    time!(
        "server.connection_age_grace",
        0,
        server.connection_age_grace,
        "How long requests are still read on such a connection."
    ),
    time!(
        "server.drain_delay",
        0,
        server.drain_delay,
        "How long `serve` (and `dev`, where it is set) still serves everything after SIGTERM, while `/readyz` fails and clients are \
         asked to go elsewhere; longer than balancers take to notice. SIGINT skips it, and so does a second signal; a further one does \
         not wait for requests in flight."
    ),
    time!("server.drain_timeout", 0, server.drain_timeout, "How long a shutdown then waits for requests in flight."),
    number!(
        "server.refusal_lines_max",
        Kind::Count(0, 1 << 20),
        server.refusal_lines_max,
        "Lines of the log in 10 s about refused connections, and as many each about refused requests and refused calls of the API; one \
         client causes half of them at most. What is left out is counted."
    ),
    Key {
        name: "api.address",
        kind: Kind::OptionalAddress,
        about: "Where `serve` has the HTTPS API. Port 0 lets the system choose one. `dev` has it on port 8443 of 127.0.0.1 by itself.",
        default_text: None,
        get: |config| Value::OptionalAddress(config.server.api.address),
        set: |config, value| config.server.api.address = value.optional_address(),
    },
    path!(
        "api.certificate",
        certificates.api_certificate,
        "The API's certificate, then those that lead to its authority, in PEM."
    ),
    path!("api.private_key", certificates.api_private_key, "Its private key, in PEM."),
    number!(
        "api.body_size_max",
        Kind::Size(1, 4 * GIB - 2),
        server.api.body_size_max,
        "Bytes of a body; a larger one is answered with 413, unread where it says so."
    ),
    number!(
        "api.inspect_size_max",
        Kind::Size(1, 1 << 20),
        server.api.inspect_size_max,
        "Bytes of the body of `/inspect`, which is read in one step."
    ),
    number!(
        "api.calls_max",
        Kind::Count(1, 1 << 20),
        server.api.calls_max,
        "Calls at a time; one more is answered with 503."
    ),
    time!(
        "api.call_timeout",
        1,
        server.api.call_timeout,
        "How long a call may take from its head to its answer, its body included."
    ),
    Key {
        name: "api.team",
        kind: Kind::Text(64),
        about: "What SDKs are told is the team; the engine has no use for it.",
        default_text: None,
        get: |config| Value::Text(config.server.api.team.clone()),
        set: |config, value| config.server.api.team = value.text().to_owned(),
    },
    Key {
        name: "api.cors_origins",
        kind: Kind::Words(4096),
        about: "Origins whose pages may read public keys and open by tokens, such as \"https://app.example.com\", or \"*\" for all.",
        default_text: None,
        get: |config| Value::Text(config.server.api.cors_origins.join(" ")),
        set: |config, value| {
            config.server.api.cors_origins = value.text().split_whitespace().map(str::to_owned).collect();
        },
    },
    choice!("api.access_log", server.api.access_log, "Whether each call is a line of the log, at level `info`.",
        "no" => false, "yes" => true),
    number!(
        "api.connections_max",
        Kind::Count(1, 1 << 20),
        server.api.http.connections_max,
        "Connections at a time; one more takes the place of the one without a call for longest, else of the slowest peer that is waited \
         for; without either it is closed at once."
    ),
    number!(
        "api.client_connections_max",
        Kind::Count(1, 1 << 20),
        server.api.http.clients.connections_max,
        "Connections of one client among them (an IPv4 address, a /64 of IPv6); one more takes the place of one of its own in the same way."
    ),
    number!(
        "api.streams_max",
        Kind::Count(1, 1 << 16),
        server.api.http.streams_max,
        "Calls at a time on one connection of HTTP/2."
    ),
    time!("api.handshake_timeout", 1, server.api.http.handshake_timeout, "How long a TLS handshake may take."),
    time!(
        "api.header_read_timeout",
        1,
        server.api.http.header_read_timeout,
        "How long the head of an HTTP/1.1 call may take from its first byte to its last."
    ),
    number!(
        "api.header_size_max",
        Kind::Size(8 << 10, 1 << 20),
        server.api.http.header_size_max,
        "Bytes of the head of a call; more is answered with 431."
    ),
    number!(
        "api.headers_max",
        Kind::Count(1, 1024),
        server.api.http.headers_max,
        "Header fields of an HTTP/1.1 call; more are answered with 431."
    ),
    time!(
        "api.body_timeout",
        1,
        server.api.http.body_timeout,
        "How long a caller may bring fewer than `api.body_progress_min` bytes of a body that is waited for."
    ),
    number!(
        "api.body_progress_min",
        Kind::Size(1, 1 << 30),
        server.api.http.body_progress_min,
        "Bytes of a body that a caller brings at least in that time, if there are that many."
    ),
    time!(
        "api.write_timeout",
        1,
        server.api.http.write_timeout,
        "How long a caller may take fewer than `api.write_progress_min` bytes of an answer that waits for it."
    ),
    number!(
        "api.write_progress_min",
        Kind::Size(1, 1 << 30),
        server.api.http.write_progress_min,
        "Bytes of answers that a caller takes at least in that time, if there are that many."
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
        "The age at which a connection ends with its next answer, each after 80 to 100 % of it; 0 for none."
    ),
    number!(
        "api.refused_body_max",
        Kind::Size(0, 1 << 40),
        server.api.http.refused_body_max,
        "Bytes of a refused body that are read on and thrown away, so that its caller sees why."
    ),
    time!("api.refused_body_timeout", 0, server.api.http.refused_body_timeout, "How long they are read on."),
    time!(
        "api.half_open_timeout",
        2000,
        server.api.http.half_open_timeout,
        "How long a caller's machine may acknowledge nothing until it counts as dead."
    ),
    time!(
        "api.close_timeout",
        0,
        server.api.http.close_timeout,
        "How long a connection that is closed by the engine is kept for its last bytes."
    ),
    Key {
        name: "operator.address",
        kind: Kind::OptionalAddress,
        about: "Where probes and metrics are. Port 0 lets the system choose one; without this key, port 0 of the listener does too.",
        default_text: None,
        get: |config| Value::OptionalAddress(config.server.operator.address),
        set: |config, value| config.server.operator.address = value.optional_address(),
    },
    number!(
        "operator.connections_max",
        Kind::Count(1, 1 << 16),
        server.operator.connections_max,
        "Calls at a time; one more takes the place of the oldest, which is closed."
    ),
    number!(
        "operator.client_connections_max",
        Kind::Count(1, 1 << 16),
        server.operator.clients.connections_max,
        "Calls of one client among them (an IPv4 address, a /64 of IPv6); one more takes the place of its own oldest."
    ),
    number!(
        "operator.header_size_max",
        Kind::Size(8 << 10, 1 << 20),
        server.operator.header_size_max,
        "Bytes of the head of a call."
    ),
    time!("operator.call_timeout", 1, server.operator.call_timeout, "How long a call may take in all."),
    number!(
        "client.connections_max",
        Kind::Count(1, 1024),
        client.connections_max,
        "Connections of one command at a time."
    ),
    number!(
        "client.requests_in_flight_max",
        Kind::Count(1, 1 << 20),
        client.requests_in_flight_max,
        "Requests in flight on one connection; keep it at or below the engine's own bound."
    ),
    time!("client.connect_timeout", 1, client.connect_timeout, "How long making a connection may take, TLS included."),
    time!("client.request_timeout", 1, client.request_timeout, "How long one request may take in all."),
    time!(
        "client.abandoned_timeout",
        1,
        client.abandoned_timeout,
        "How long an answer that nobody waits for may be missing before its connection counts as dead."
    ),
    number!(
        "client.retries_max",
        Kind::Count(0, 1000),
        client.retries_max,
        "Repetitions of a request that the engine has not begun, or has refused as `unavailable` or `overloaded`; within \
         `client.request_timeout` and the request's deadline."
    ),
    time!(
        "client.backoff_min",
        1,
        client.backoff_min,
        "The pause after a failed connection, and before a repetition, doubled at each further one."
    ),
    time!("client.backoff_max", 1, client.backoff_max, "The longest such pause."),
    number!(
        "client.frame_size_max",
        Kind::Size(1024, 4 * GIB - 1),
        client.limits.frame_size_max,
        "Bytes of one message, either way."
    ),
    number!(
        "client.frame_depth_max",
        Kind::Count(5, 1024),
        client.limits.depth_max,
        "Arrays and maps inside one another in a message."
    ),
    number!(
        "client.frame_elements_max",
        Kind::Count(1, u32::MAX as u64),
        client.limits.elements_max,
        "Elements of one array, pairs of one map in a message."
    ),
    number!(
        "input.file_size_max",
        Kind::Size(1, 64 * GIB),
        input.file_size_max,
        "Bytes of a file that `--file` encrypts or decrypts."
    ),
    number!("input.line_size_max", Kind::Size(1, 4 * GIB - 2), input.line_size_max, "Bytes of one line of JSON Lines."),
    number!("input.block_lines_max", Kind::Count(1, 65_536), input.block_lines_max, "Lines that are taken together."),
    number!(
        "input.block_size_max",
        Kind::Size(1, 4 * GIB),
        input.block_size_max,
        "Bytes that are taken together; a longer line is taken alone."
    ),
    Key {
        default_text: Some("one a core"),
        ..number!(
            "input.threads",
            Kind::Count(1, 1024),
            input.threads,
            "Threads that work on blocks of lines; each has one in work and one waiting."
        )
    },
    choice!("input.strict", input.strict,
        "Whether `encrypt`, `decrypt` and `rewrap` fail if a selector matches nothing, as with `--strict`.",
        "no" => false, "yes" => true),
    choice!("log.level", log.level, "The least severe event that is logged. `dev` logs from `warn` on unless this is set.",
        "error" => tracing::Level::ERROR, "warn" => tracing::Level::WARN, "info" => tracing::Level::INFO,
        "debug" => tracing::Level::DEBUG, "trace" => tracing::Level::TRACE),
    choice!("log.format", log.format,
        "The format of lines, of the relay's access log too: JSON objects, or `name=value` pairs.",
        "json" => LogFormat::Json, "logfmt" => LogFormat::Logfmt),
];

#[cfg(test)]
mod tests;
