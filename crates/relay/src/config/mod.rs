//! The relay's configuration: a TOML file, parsed, validated and compiled into patterns and rules.
//!
//! The program reads the file and passes its text; paths in it are opened only when the relay starts or reloads.

pub mod fuzzing;
mod overlap;
mod reach;
mod read;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use hyper::Method;
use leafseal_config::{FileTable, KeyExchange, TableShape, settings};
use leafseal_http::HttpSettings;
use leafseal_net::tls::PrivateKeySettings;

pub use leafseal_config::Problem;
pub use settings::{Calls, Limits, Process, UpstreamSettings};

use crate::policy::router::Router;
use crate::policy::{Destination, Origin, OtherCase, Overrides, Route};

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The `[relay]` section: settings of the process.
    pub process: Process,
    /// The engine that the relay calls.
    pub engine: EngineSettings,
    /// Connections to upstreams.
    pub upstream: UpstreamSettings,
    /// Limits.
    pub limits: Limits,
    /// Listeners of inbound relays, in front of APIs.
    pub inbound: Vec<Inbound>,
    /// Listeners of outbound relays, for clients that call third parties.
    pub outbound: Vec<Outbound>,
    /// Settings that are valid but probably unintended.
    pub warnings: Vec<Problem>,
}

/// The engine's addresses and the relay's identity for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// `HOST:PORT` of the engine, or of several that serve the same apps.
    pub addresses: Vec<String>,
    /// PEM file of the authorities that the engine's certificate must be signed by.
    pub authorities: PathBuf,
    /// PEM file of the relay's certificate chain.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub private_key: PathBuf,
    /// The name in the engine's certificate, if it is not the host of the address.
    pub server_name: Option<String>,
    /// Connections and calls.
    pub calls: Calls,
}

/// Certificate chain and private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub private_key: PathBuf,
    /// How a listener computes operations with it.
    pub settings: PrivateKeySettings,
}

/// A listener in front of APIs.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// The name in logs and metrics.
    pub name: Arc<str>,
    /// The address to listen on.
    pub address: SocketAddr,
    /// The listener's certificate; without one it serves plain HTTP.
    pub tls: Option<KeyPair>,
    /// The accepted groups of the key exchange.
    pub key_exchange: KeyExchange,
    /// The upstream for requests that no route matches; without one they are refused.
    pub otherwise: Option<Arc<Origin>>,
    /// How clients' addresses are forwarded.
    pub forwarded: Forwarded,
    /// The action for a path that equals that of a route only when case is ignored.
    pub other_case: OtherCase,
    /// The routes; the first match applies.
    pub routes: Vec<Route>,
    /// Their index.
    pub(crate) router: Arc<Router>,
    /// Whether rules of any route read bodies: clients then have weak tags that upstreams do not know.
    pub has_rules: bool,
    /// What becomes of fields by which a request asks for another method or path.
    pub overrides: Overrides,
    /// The methods that routes list and one that none lists, if a route hides or decrypts something and methods matter.
    pub(crate) methods: Vec<Method>,
}

impl Inbound {
    /// Whether a route hides something.
    pub fn hides(&self) -> bool {
        self.routes.iter().any(Route::hides)
    }
}

settings! {
    /// What becomes of `Forwarded` and `X-Forwarded-*` of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Forwarded {
        /// `X-Forwarded-For`, `-Proto` and `-Host` are what the relay observed, whatever `Connection` names; `Forwarded` and every other
        /// `X-Forwarded-*` field are removed, also when spelled with `_` for `-`.
        Set = "set",
        /// The client's `X-Forwarded-For` lines are extended; spellings with `_` are removed.
        Append = "append",
        /// They pass unchanged.
        Keep = "keep",
    }
}

/// A listener for clients that call third parties.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// The name in logs and metrics.
    pub name: Arc<str>,
    /// The address to listen on.
    pub address: SocketAddr,
    /// The proxy's own certificate; without one it serves plain HTTP.
    pub tls: Option<KeyPair>,
    /// The accepted groups of the key exchange, also of connections inside tunnels.
    pub key_exchange: KeyExchange,
    /// The authority that signs the certificates of destinations.
    pub authority: KeyPair,
    /// What the relay does with `CONNECT` without an API key.
    pub keyless_connect: KeylessConnect,
    /// What the relay does with requests to unlisted destinations.
    pub unlisted: Unlisted,
    /// The same for tunnels to internal addresses: loopback, link-local, private or unassigned.
    pub unlisted_internal: Unlisted,
    /// The action for a path that equals that of a destination only when case is ignored.
    pub other_case: OtherCase,
    /// The destinations; the first match applies.
    pub destinations: Vec<Destination>,
    /// Their index.
    pub(crate) router: Arc<Router>,
    /// As for inbound listeners.
    pub has_rules: bool,
    /// Whether a destination hides something.
    pub hides: bool,
}

settings! {
    /// What becomes of `CONNECT` to a listed destination without an API key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum KeylessConnect {
        /// It is answered with 407 if the client can answer that: not over HTTP/1.0, which has no such status, nor with `Connection:
        /// close`. Other clients get the tunnel.
        Auto = "auto",
        /// It is always answered with 407.
        Challenge = "challenge",
        /// The tunnel opens, and each request inside must carry the key.
        Tunnel = "tunnel",
    }
}

settings! {
    /// What becomes of destinations that are not configured.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Unlisted {
        /// They are tunnelled without inspection.
        Tunnel = "tunnel",
        /// They are refused.
        Refuse = "refuse",
    }
}

impl Configuration {
    /// The limits of listeners, which only a restart changes.
    pub(crate) fn http_settings(&self) -> HttpSettings {
        http_settings(&self.limits, &self.process)
    }

    /// The keys of a file and what they accept, which [`Configuration::parse`] checks first.
    pub fn shape() -> &'static TableShape {
        &SHAPE
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// All problems, with their lines.
    pub fn parse(text: &str) -> Result<Configuration, Vec<Problem>> {
        match read::examine(text) {
            (Some(configuration), problems) if problems.is_empty() => Ok(configuration),
            (_, problems) => Err(problems),
        }
    }

    /// As [`Configuration::parse`], with what could be read of a file that has problems. Only for reports about the files that it names.
    pub fn examine(text: &str) -> (Option<Configuration>, Vec<Problem>) {
        read::examine(text)
    }
}

static SHAPE: LazyLock<TableShape> = LazyLock::new(schema::File::shape);

fn http_settings(limits: &Limits, process: &Process) -> HttpSettings {
    HttpSettings {
        connections_max: limits.connections_max,
        client_connections_max: limits.client_connections_max,
        trusted_balancers: limits.trusted_balancers.clone(),
        handshake_timeout: limits.handshake_timeout,
        header_read_timeout: limits.header_timeout,
        header_size_max: limits.header_size_max,
        headers_max: limits.headers_max,
        streams_max: u32::try_from(limits.streams_max).unwrap_or(u32::MAX),
        body_timeout: limits.body_timeout,
        write_timeout: limits.write_timeout,
        idle_timeout: limits.idle_timeout,
        connection_age_max: limits.connection_age_max,
        drain_timeout: process.drain_timeout,
        ..HttpSettings::default()
    }
}
