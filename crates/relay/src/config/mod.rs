//! The relay's configuration: a TOML file, parsed, validated and compiled into patterns and rules.
//!
//! The program reads the file and passes its text; paths in it are opened only when the relay starts or reloads.

pub mod fuzzing;
mod hidden;
mod overlap;
mod reach;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderName;
use leafseal_document::form::FieldNames;
use leafseal_document::{OtherCase as NameCase, Selection};
use leafseal_http::HttpSettings;
use leafseal_net::tls::PrivateKeySettings;
use schemars::generate::SchemaSettings;

pub use hidden::Hidden;
pub use leafseal_config::Problem;
pub use schema::{Limits, OnFailure, Process, UpstreamSettings};

pub use crate::rules::choice::{OtherCase, Overrides};
use crate::rules::route::{HostPattern, PathPattern};
use crate::rules::router::{Entry, Router};
pub use crate::rules::types::{Embedded, MediaTypes, OtherSources, Patches};
use crate::validators::Tags;

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
    /// Connections per thread.
    pub connections_max: usize,
    /// Maximum duration of a call; also sent to the engine as the deadline.
    pub timeout: Duration,
    /// Retries of a call that the engine has not started, or has refused as unavailable or overloaded.
    pub retries_max: u32,
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

impl OtherCase {
    /// How a rule compares names. An ambiguous value may stay encrypted but must not be revealed.
    fn for_names(self, hides: bool) -> NameCase {
        match self {
            OtherCase::Refuse if hides => NameCase::Refuse,
            OtherCase::Same => NameCase::Same,
            OtherCase::Refuse | OtherCase::Other => NameCase::Other,
        }
    }
}

/// What becomes of `Forwarded` and `X-Forwarded-*` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Forwarded {
    /// Set by the relay; the client's fields are dropped, including spellings with `_`.
    Set,
    /// The client's address is appended to the client's fields.
    Append,
    /// Forwarded unchanged.
    Keep,
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

/// What becomes of `CONNECT` to a listed destination without an API key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeylessConnect {
    /// It is answered with 407 if the client can answer that: not over HTTP/1.0, which has no such status, nor with `Connection: close`.
    /// Other clients get the tunnel.
    #[default]
    Auto,
    /// It is always answered with 407.
    Challenge,
    /// The tunnel opens, and each request inside must carry the key.
    Tunnel,
}

/// What becomes of destinations that are not configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unlisted {
    /// Tunnels them without inspection.
    Tunnel,
    /// Refuses them.
    Refuse,
}

/// A destination of outgoing requests.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Its hosts.
    pub hosts: Vec<HostPattern>,
    /// Paths; empty means all. Requests to other paths of these hosts are forwarded unchanged.
    pub paths: Vec<PathPattern>,
    /// Rules for requests.
    pub request: Actions,
    /// Rules for responses.
    pub response: Actions,
}

impl Destination {
    /// Whether a rule hides something.
    pub fn hides(&self) -> bool {
        self.request.hide() || self.response.hide()
    }

    /// Returns it as the router indexes it.
    fn entry(&self) -> Entry<'_> {
        let reveals = self.request.reveal() || self.response.reveal();
        Entry { hosts: &self.hosts, methods: &[], paths: &self.paths, hides: self.hides(), reveals }
    }
}

/// A route of incoming requests.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name in logs.
    pub name: Arc<str>,
    /// Hosts; empty means all.
    pub hosts: Vec<HostPattern>,
    /// Methods; empty means all.
    pub methods: Vec<Method>,
    /// Its path.
    pub path: PathPattern,
    /// The upstream.
    pub upstream: Arc<Origin>,
    /// The app whose keys are used; not required for routes without rules.
    pub app: Arc<str>,
    /// Rules for requests.
    pub request: Actions,
    /// Rules for responses.
    pub response: Actions,
}

impl Route {
    /// Whether a rule hides something.
    pub fn hides(&self) -> bool {
        self.request.hide() || self.response.hide()
    }

    /// Whether a rule decrypts.
    pub fn reveals(&self) -> bool {
        self.request.reveal() || self.response.reveal()
    }

    /// Returns it as the router indexes it.
    fn entry(&self) -> Entry<'_> {
        let reveals = self.reveals();
        let (methods, paths) = (&*self.methods, std::slice::from_ref(&self.path));
        Entry { hosts: &self.hosts, methods, paths, hides: self.hides(), reveals }
    }
}

/// The rules for messages of one direction.
#[derive(Clone, Debug)]
pub struct Actions {
    /// The rules, in the order in which they are applied.
    pub rules: Vec<Rule>,
    /// What to do with a body of a type that no rule reads.
    pub mismatch: Mismatch,
    /// The types of bodies that the route lists.
    pub types: MediaTypes,
    /// How bodies in the shape of a patch are read.
    pub patches: Patches,
    /// What to do with a JSON text inside a body.
    pub embedded_json: Embedded,
    /// What must not be readable in the clear under any interpretation of the message; `None` if no rule hides anything.
    pub hidden: Option<Arc<Hidden>>,
}

/// Which bodies the rules of a direction take.
struct Bodies {
    mismatch: Mismatch,
    types: MediaTypes,
    patches: Patches,
    embedded_json: Embedded,
    other_sources: OtherSources,
}

impl Actions {
    /// No rules.
    pub const NONE: Actions = Actions {
        rules: Vec::new(),
        mismatch: Mismatch::Pass,
        types: MediaTypes::NONE,
        patches: Patches::Refuse,
        embedded_json: Embedded::Refuse,
        hidden: None,
    };

    /// Creates actions from these rules. Names that some parsers treat as one that a rule hides are refused before rules are applied.
    fn new(mut rules: Vec<Rule>, bodies: Bodies, other_case: OtherCase) -> Actions {
        let hiding = || rules.iter().filter(|rule| rule.hides());
        let form = FieldNames::union(hiding().map(|rule| &*rule.form));
        let query = FieldNames::union(hiding().map(|rule| &*rule.query));
        let hides = hiding().next().is_some();
        let case = other_case.for_names(true);
        for rule in &mut rules {
            let case = other_case.for_names(rule.hides());
            for names in [&mut rule.form, &mut rule.query] {
                *names = Arc::new(Arc::unwrap_or_clone(std::mem::take(names)).in_case(case));
            }
        }
        let Bodies { mismatch, types, patches, embedded_json, other_sources } = bodies;
        let hidden = hides.then(|| Arc::new(Hidden::new(&rules, form, query, (case, other_sources))));
        Actions { rules, mismatch, types, patches, embedded_json, hidden }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule hides something.
    pub fn hide(&self) -> bool {
        self.rules.iter().any(Rule::hides)
    }

    /// Whether a rule decrypts.
    pub fn reveal(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == Action::Decrypt)
    }

    /// Header fields that are encrypted or redacted.
    pub fn hidden_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.rules.iter().filter(|rule| rule.hides()).flat_map(|rule| &rule.headers)
    }

    /// Whether a rule encrypts or redacts in bodies.
    pub fn hide_in_bodies(&self) -> bool {
        self.rules.iter().any(Rule::hides_in_bodies)
    }

    /// What becomes of the entity tags of bodies that the rules change.
    pub(crate) fn tags(&self) -> Tags {
        let redacts = |rule: &Rule| rule.action == Action::Redact && rule.reads_bodies();
        if self.rules.iter().any(redacts) { Tags::Remove } else { Tags::Weaken }
    }

    /// Whether a rule calls the engine.
    pub fn need_the_engine(&self) -> bool {
        self.rules.iter().any(|rule| rule.action != Action::Redact)
    }

    /// Whether a form is refused that has a field which a rule hides in the query or in JSON alone.
    pub fn guard_forms(&self) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| !hidden.in_forms.is_empty())
    }

    /// Whether a JSON document is refused that has a member which a rule hides in forms or in the query alone.
    pub fn guard_json(&self) -> bool {
        self.hidden
            .as_ref()
            .is_some_and(|hidden| hidden.in_json.as_ref().is_some_and(|members| !members.has_paths_alone()))
    }

    /// Whether a rule looks into bodies.
    pub fn read_bodies(&self) -> bool {
        self.rules.iter().any(Rule::reads_bodies)
    }
}

/// What becomes of a body that no rule reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mismatch {
    /// Refuse the message.
    Refuse,
    /// Forward it unchanged.
    Pass,
}

/// An action on selected fields.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The action.
    pub action: Action,
    /// The data role: written on encryption, required on decryption.
    pub role: Option<Box<str>>,
    /// JSON values.
    pub json: Option<JsonFields>,
    /// Form fields.
    pub form: Arc<FieldNames>,
    /// Query parameters.
    pub query: Arc<FieldNames>,
    /// Header fields.
    pub headers: Vec<HeaderName>,
    /// The replacement of redacted values.
    pub replacement: Box<str>,
    /// What to do with envelopes that fail to decrypt; for decryption only.
    pub on_failure: OnFailure,
    /// Whether envelopes that the engine can decrypt stay unchanged; for encryption only.
    pub skip_sealed: bool,
    /// How names of JSON members are compared with selectors; `form` and `query` contain the same setting.
    pub names: NameCase,
    /// Whether a body is refused in which a selector of `json`, or `form`, finds nothing.
    pub require_match: bool,
}

impl Rule {
    /// Whether the rule encrypts or redacts, in any part of a message.
    pub fn hides(&self) -> bool {
        self.action != Action::Decrypt
    }

    /// The value of [`Rule::names`] in calls to the engine; `None` for the engine's default.
    pub(crate) fn names_on_the_wire(&self) -> Option<leafseal_client::OtherCase> {
        match self.names {
            NameCase::Refuse => Some(leafseal_client::OtherCase::Refuse),
            NameCase::Same => Some(leafseal_client::OtherCase::Same),
            NameCase::Other => None,
        }
    }

    /// Whether the rule encrypts or redacts in bodies.
    pub fn hides_in_bodies(&self) -> bool {
        self.hides() && self.reads_bodies()
    }

    /// Whether the rule reads bodies.
    pub fn reads_bodies(&self) -> bool {
        self.json.is_some() || !self.form.is_empty()
    }
}

/// Selected values of JSON documents.
#[derive(Clone, Debug)]
pub struct JsonFields {
    /// JSONPath selectors, for the engine.
    pub selectors: Arc<[String]>,
    /// The compiled selectors.
    pub selection: Selection,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Replaces values with envelopes.
    Encrypt,
    /// Replaces envelopes with their values.
    Decrypt,
    /// Replaces values with a fixed text.
    Redact,
}

impl Action {
    /// The word in files, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Encrypt => "encrypt",
            Action::Decrypt => "decrypt",
            Action::Redact => "redact",
        }
    }
}

/// The destination of requests: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Whether to use TLS.
    pub is_tls: bool,
    /// Host name or address, without brackets.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl Origin {
    /// Parses `http://HOST[:PORT]` or `https://HOST[:PORT]`; nothing may follow.
    pub fn parse(text: &str) -> Option<Origin> {
        let (is_tls, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let authority: hyper::http::uri::Authority = rest.strip_suffix('/').unwrap_or(rest).parse().ok()?;
        if authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.port() {
            Some(port) => port.as_str().parse().ok().filter(|&port| port > 0)?,
            None if authority.as_str().ends_with(':') => return None,
            None if is_tls => 443,
            None => 80,
        };
        (!host.is_empty()).then(|| Origin { is_tls, host: host.to_ascii_lowercase().into(), port })
    }

    /// `host:port`, or `host` if the scheme implies the port.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl Configuration {
    /// The limits of listeners, which only a restart changes.
    pub(crate) fn http_settings(&self) -> HttpSettings {
        http_settings(&self.limits, &self.process)
    }

    /// The JSON Schema of a file, which [`Configuration::parse`] checks first.
    pub fn schema() -> &'static serde_json::Value {
        &SCHEMA
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

static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(|| {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<schema::File>().to_value();
    leafseal_config::without_null(&mut schema);
    schema
});

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
