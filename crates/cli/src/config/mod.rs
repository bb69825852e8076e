//! Configuration: one TOML file, overridden by environment variables, overridden by flags.
//!
//! A single table ([`KEYS`]) contains every key with its type, limits, description and place in [`Config`]. The file, the environment,
//! `--set`, `config show`, `config check` and `docs/configuration.md` are all derived from it, so that none can know a key that another
//! does not. Defaults are those of the crates that own the settings.

#[cfg(test)]
mod docs;
mod keys;
mod load;
mod schema;
mod store;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use leafseal_client::{ClientSettings, ClientTls, Limits};
use leafseal_engine::{Settings, admin};
use leafseal_net::LogFormat;
use leafseal_net::OperatorSettings;
use leafseal_net::tls::{PrivateKeySettings, SessionSettings, VerifiedChains};
use leafseal_server::{Scheduling, ServerSettings, TlsSettings};

pub(crate) use keys::{KEYS, Key};
pub(crate) use load::{Loaded, Origin, Presence, Sources, load};
pub(crate) use schema::{engine_schema, relay_schema};
pub(crate) use store::StorePlace;

/// The default address of the operator port: loopback, because anyone who can reach the port can read its content.
const OPERATOR_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3444);

/// Everything that can be configured.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Encryption, caches and documents.
    pub engine: Settings,
    /// Whether memory is overwritten when it is freed.
    pub wipe_buffers: bool,
    /// Limits of the store.
    pub keystore: admin::Limits,
    /// Where the store is.
    pub store: StorePlace,
    /// The listener; its certificates are read from [`Config::certificates`] when it starts.
    pub server: ServerSettings,
    /// The listener's certificates.
    pub certificates: CertificatePaths,
    /// How often files are checked for changes, which trigger a reload as on SIGHUP; zero: never.
    pub reload_check: Duration,
    /// Commands with `--connect`; address and certificates come from their flags.
    pub client: ClientBounds,
    /// How files and lines are read.
    pub input: Input,
    /// The log of `serve` and `dev`.
    pub log: Log,
}

/// PEM files of the listener; relative paths start at the folder that `--dir` names.
#[derive(Debug, Clone)]
pub(crate) struct CertificatePaths {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
    /// Authorities of the clients.
    pub client_authorities: PathBuf,
    /// How operations with it are computed.
    pub private_key_settings: PrivateKeySettings,
    /// The API's certificate chain.
    pub api_certificate: PathBuf,
    /// Its private key.
    pub api_private_key: PathBuf,
    /// How operations with it are computed.
    pub api_private_key_settings: PrivateKeySettings,
    /// How long sessions of the RPC listener can be resumed.
    pub session_lifetime: Duration,
    /// How long sessions of the API can be resumed.
    pub api_session_lifetime: Duration,
    /// The keys of session tickets, if engines share them.
    pub session_ticket_keys: Option<PathBuf>,
    /// Bounds of the client certificates that are remembered as verified.
    pub verified_chains: VerifiedChains,
}

/// Limits for `--connect`.
#[derive(Debug, Clone)]
pub(crate) struct ClientBounds {
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Maximum number of requests in flight on one connection.
    pub requests_in_flight_max: usize,
    /// Maximum time to connect.
    pub connect_timeout: Duration,
    /// Maximum duration of a request.
    pub request_timeout: Duration,
    /// How long the answer to an abandoned request may be outstanding before its connection counts as dead.
    pub abandoned_timeout: Duration,
    /// Maximum number of retries of a request.
    pub retries_max: u32,
    /// The delay after a failed connection and before a retry; doubles each time.
    pub backoff_min: Duration,
    /// The longest such delay.
    pub backoff_max: Duration,
    /// Limits on messages.
    pub limits: Limits,
}

impl ClientBounds {
    /// The settings for one engine.
    pub(crate) fn settings(&self, address: &str, server_name: Option<&str>, tls: ClientTls) -> ClientSettings {
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

/// The client's own defaults, except for the request timeout: a command may wait for a document of 100 MB on a slow machine.
impl Default for ClientBounds {
    fn default() -> Self {
        let no_certificates = ClientTls {
            authorities_pem: Vec::new(),
            certificate_chain_pem: Vec::new(),
            private_key_pem: Vec::new().into(),
        };
        let ClientSettings {
            addresses: _,
            shuffle_addresses: _,
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

/// Limits on files and standard input. Documents are limited by the engine's own settings.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// Maximum size in bytes of a file that is encrypted or decrypted in the file form.
    pub file_size_max: usize,
    /// Maximum size in bytes of a line of JSON Lines.
    pub line_size_max: usize,
    /// Maximum number of lines in a block.
    pub block_lines_max: usize,
    /// Maximum size of a block in bytes; a longer line is a block by itself.
    pub block_size_max: usize,
    /// Threads that process blocks of lines; each has one block in progress and one waiting.
    pub threads: usize,
    /// Whether a selector that matches nothing is an error.
    pub strict: bool,
}

/// The log's level and format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    /// The minimum severity of logged events.
    pub level: tracing::Level,
    /// The format of lines.
    pub format: LogFormat,
}

impl Default for Config {
    fn default() -> Self {
        let no_certificates = TlsSettings {
            certificate_chain_pem: Vec::new(),
            private_key_pem: Vec::new().into(),
            private_key_settings: PrivateKeySettings::default(),
            sessions: SessionSettings::default(),
            verified_chains: VerifiedChains::default(),
            client_authorities_pem: Vec::new(),
        };
        Self {
            engine: Settings::default(),
            wipe_buffers: false,
            keystore: admin::Limits::default(),
            store: StorePlace::default(),
            server: ServerSettings {
                operator: OperatorSettings { address: Some(OPERATOR_ADDRESS), ..OperatorSettings::default() },
                ..ServerSettings::new(no_certificates)
            },
            certificates: CertificatePaths {
                certificate: "certs/server.pem".into(),
                private_key: "certs/server.key".into(),
                client_authorities: "certs/ca.pem".into(),
                api_certificate: "certs/server.pem".into(),
                private_key_settings: PrivateKeySettings::default(),
                api_private_key: "certs/server.key".into(),
                api_private_key_settings: PrivateKeySettings::default(),
                session_lifetime: SessionSettings::default().lifetime,
                api_session_lifetime: SessionSettings::default().lifetime,
                session_ticket_keys: None,
                verified_chains: VerifiedChains::default(),
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
    /// Warnings about settings that should not be used in production.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let is_fair = self.server.scheduling == Scheduling::Fair;
        let unfair = "server.scheduling is first-come-first-served: small requests wait for large ones; it is for demonstrations, and for \
                      nothing else";
        let unfair = (!is_fair).then(|| unfair.to_owned());
        unfair.into_iter().chain(self.store.warning()).collect()
    }

    /// Checks settings that depend on one another.
    ///
    /// # Errors
    /// A sentence for each problem.
    pub(crate) fn check(&self) -> Result<(), Vec<String>> {
        let mut problems = self.store.problems();
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
        if self.engine.request_key_trials_max < self.keystore.version_count_max.into() {
            problems.push(format!(
                "engine.request_key_trials_max ({}) must be at least keystore.version_count_max ({}): otherwise a single value could not \
                 be tried with every key version",
                self.engine.request_key_trials_max, self.keystore.version_count_max
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
