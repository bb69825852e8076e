//! Configuration: one TOML file, environment variables over it, flags over both.
//!
//! A single table ([`KEYS`]) holds every key with its type, bounds, meaning and place in [`Config`]. The file, the environment,
//! `--set`, `config show`, `config check` and `docs/configuration.md` all go by it, so that none can know a key that another
//! does not. Defaults are those of the crates that own the settings.

#[cfg(test)]
mod docs;
mod keys;
mod load;
mod schema;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fieldseal_client::{ClientSettings, ClientTls, Limits};
use fieldseal_engine::{Settings, admin};
use fieldseal_net::LogFormat;
use fieldseal_net::OperatorSettings;
use fieldseal_server::{Scheduling, ServerSettings, TlsSettings};

pub use keys::{KEYS, Key};
pub use load::{Loaded, Origin, Presence, Sources, load};
pub use schema::{engine_schema, relay_schema};

/// Where the operator port is: only on the machine itself, because anyone who reaches it can read its content.
const OPERATOR_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3444);

/// Everything that can be configured.
#[derive(Debug, Clone)]
pub struct Config {
    /// Encryption, caches and documents.
    pub engine: Settings,
    /// Whether memory is overwritten when it is freed.
    pub wipe_buffers: bool,
    /// The store's bounds.
    pub keystore: admin::Limits,
    /// The store's places.
    pub store: StorePaths,
    /// The listener; its certificates are read from [`Config::certificates`] when it starts.
    pub server: ServerSettings,
    /// The listener's certificates.
    pub certificates: CertificatePaths,
    /// How often files are looked at for changes, which are taken up as on SIGHUP; zero: never.
    pub reload_check: Duration,
    /// Commands with `--connect`; address and certificates come from their flags.
    pub client: ClientBounds,
    /// How files and lines are read.
    pub input: Input,
    /// The log of `serve` and `dev`.
    pub log: Log,
}

/// Where the store lies; relative paths start at the folder that `--dir` names.
#[derive(Debug, Clone)]
pub struct StorePaths {
    /// The SQLite file.
    pub path: PathBuf,
    /// The file with the root key.
    pub root_key_file: PathBuf,
}

/// PEM files of the listener; relative paths start at the folder that `--dir` names.
#[derive(Debug, Clone)]
pub struct CertificatePaths {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
    /// Authorities of the clients.
    pub client_authorities: PathBuf,
    /// The API's certificate chain.
    pub api_certificate: PathBuf,
    /// Its private key.
    pub api_private_key: PathBuf,
}

/// Bounds of `--connect`.
#[derive(Debug, Clone)]
pub struct ClientBounds {
    /// Connections at a time.
    pub connections_max: usize,
    /// Requests in flight on one connection.
    pub requests_in_flight_max: usize,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How long an answer that nobody waits for may be missing before its connection counts as dead.
    pub abandoned_timeout: Duration,
    /// Repetitions of one request.
    pub retries_max: u32,
    /// The pause after a failed connection, and before a repetition, doubled at each further one.
    pub backoff_min: Duration,
    /// The longest such pause.
    pub backoff_max: Duration,
    /// Bounds of a message.
    pub limits: Limits,
}

impl ClientBounds {
    /// The settings for one engine.
    pub fn settings(&self, address: &str, server_name: Option<&str>, tls: ClientTls) -> ClientSettings {
        ClientSettings {
            server_name: server_name.map(str::to_owned),
            connections_max: self.connections_max,
            requests_in_flight_max: self.requests_in_flight_max,
            connect_timeout: self.connect_timeout,
            request_timeout: self.request_timeout,
            abandoned_timeout: self.abandoned_timeout,
            retries_max: self.retries_max,
            backoff_min: self.backoff_min,
            backoff_max: self.backoff_max,
            limits: self.limits,
            ..ClientSettings::new(address, tls)
        }
    }
}

/// The client's own defaults, except for the request: a command may wait for a document of 100 MB on a slow machine.
impl Default for ClientBounds {
    fn default() -> Self {
        let no_certificates = ClientTls {
            authorities_pem: Vec::new(),
            certificate_chain_pem: Vec::new(),
            private_key_pem: Vec::new().into(),
        };
        let ClientSettings {
            addresses: _,
            tls: _,
            server_name: _,
            connections_max,
            requests_in_flight_max,
            connect_timeout,
            request_timeout: _,
            abandoned_timeout,
            retries_max,
            backoff_min,
            backoff_max,
            limits,
        } = ClientSettings::new("", no_certificates);
        Self {
            connections_max,
            requests_in_flight_max,
            connect_timeout,
            request_timeout: Duration::from_secs(300),
            abandoned_timeout,
            retries_max,
            backoff_min,
            backoff_max,
            limits,
        }
    }
}

/// Bounds of what is read from files and standard input. Documents are bounded by the engine's own limits.
#[derive(Debug, Clone)]
pub struct Input {
    /// Bytes of a file that is encrypted or decrypted in the file form.
    pub file_size_max: usize,
    /// Bytes of one line of JSON Lines.
    pub line_size_max: usize,
    /// Lines that are taken together.
    pub block_lines_max: usize,
    /// Bytes that are taken together; a longer line is taken alone.
    pub block_size_max: usize,
    /// Threads that work on blocks of lines; each has one block in progress and one waiting.
    pub threads: usize,
    /// Whether a selector that matches nothing is a failure.
    pub strict: bool,
}

/// What is logged and how.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// The least severe event that is written.
    pub level: tracing::Level,
    /// The form of a line.
    pub format: LogFormat,
}

impl Default for Config {
    fn default() -> Self {
        let no_certificates = TlsSettings {
            certificate_chain_pem: Vec::new(),
            private_key_pem: Vec::new().into(),
            client_authorities_pem: Vec::new(),
        };
        Self {
            engine: Settings::default(),
            wipe_buffers: false,
            keystore: admin::Limits::default(),
            store: StorePaths { path: "keystore.db".into(), root_key_file: "root.key".into() },
            server: ServerSettings {
                operator: OperatorSettings { address: Some(OPERATOR_ADDRESS), ..OperatorSettings::default() },
                ..ServerSettings::new(no_certificates)
            },
            certificates: CertificatePaths {
                certificate: "certs/server.pem".into(),
                private_key: "certs/server.key".into(),
                client_authorities: "certs/ca.pem".into(),
                api_certificate: "certs/server.pem".into(),
                api_private_key: "certs/server.key".into(),
            },
            reload_check: Duration::ZERO,
            client: ClientBounds::default(),
            input: Input {
                file_size_max: 1 << 30,
                line_size_max: 16 << 20,
                block_lines_max: 64,
                block_size_max: 256 << 10,
                threads: std::thread::available_parallelism().map_or(1, usize::from),
                strict: false,
            },
            log: Log { level: tracing::Level::INFO, format: LogFormat::Json },
        }
    }
}

impl Config {
    /// What is allowed and should not be there in earnest: a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let is_fair = self.server.scheduling == Scheduling::Fair;
        let unfair = "server.scheduling is first-come-first-served: small requests wait for large ones; it is for demonstrations, and for \
                      nothing else";
        if is_fair { Vec::new() } else { vec![unfair.to_owned()] }
    }

    /// Checks what concerns several keys at once.
    ///
    /// # Errors
    /// A sentence for each thing that does not fit.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        if let Err(error) = self.server.validate() {
            problems.push(format!("section [server]: {error}"));
        }
        if let Err(error) = self.server.api.validate() {
            problems.push(format!("section [api]: {error}"));
        }
        if self.engine.document.document_size_max > self.server.limits.frame_size_max {
            problems.push(
                "document.document_size_max is larger than server.frame_size_max: a document of that size could not be \
                 sent; raise the second, or lower the first"
                    .to_owned(),
            );
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
