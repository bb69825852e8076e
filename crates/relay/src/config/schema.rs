//! The file's structure: the engine, listeners, routes and rules. [`settings`](super::settings) has the tables of settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use leafseal_net::tls::PrivateKeyBatching;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::Forwarded;
use super::value;
use crate::policy::{Action, Embedded, Mismatch, OnFailure, OtherCase, OtherSources, Overrides, Patches};

mod outbound;

pub(super) use outbound::{Destination, Outbound};

/// The file without its [settings](super::settings).
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct File {
    /// The engine that does the cryptography.
    pub engine: Engine,
    /// Listeners in front of your APIs.
    #[serde(default)]
    pub inbound: Vec<Inbound>,
    /// Listeners for your clients that call third parties.
    #[serde(default)]
    pub outbound: Vec<Outbound>,
}

#[derive(Debug, Deserialize, JsonSchema)]
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
