//! The file's structure: listeners for clients that call third parties.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use leafseal_net::tls::PrivateKeyBatching;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::{Rule, value};
use crate::config::{KeylessConnect, Unlisted};
use crate::policy::{Embedded, Mismatch, OtherCase, OtherSources, Patches};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Outbound {
    /// Name in logs and metrics.
    pub name: Option<String>,
    /// IP address and port to listen on.
    #[schemars(with = "value::address::Kinded")]
    pub address: Spanned<SocketAddr>,
    /// PEM file of the proxy's own certificate chain. Without it the listener serves plain HTTP.
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
    /// PEM file of the authority that signs certificates for destinations.
    pub ca_certificate: PathBuf,
    /// PEM file of its private key.
    pub ca_private_key: PathBuf,
    /// What happens to `CONNECT` without an API key.
    #[serde(default)]
    pub keyless_connect: KeylessConnect,
    /// What happens to requests to destinations that are not listed.
    #[serde(default = "unlisted")]
    pub unlisted: Unlisted,
    /// The same for loopback, link-local, private and reserved addresses.
    #[serde(default = "unlisted")]
    pub unlisted_internal: Unlisted,
    /// What happens to a path that equals that of a destination except for the case of its letters.
    #[serde(default)]
    pub other_case: OtherCase,
    /// The same for names of JSON members, form fields and query parameters.
    #[serde(default)]
    pub other_case_names: OtherCase,
    /// Destinations; the first that matches applies.
    #[serde(default)]
    #[schemars(with = "Vec<Destination>")]
    pub destination: Vec<Spanned<Destination>>,
}

fn unlisted() -> Unlisted {
    Unlisted::Refuse
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Destination {
    /// Hosts that match, such as `api.example.com`, `*.example.com` or `[2001:db8::1]`.
    #[schemars(with = "Vec<String>")]
    pub hosts: Vec<Spanned<String>>,
    /// Patterns of paths that match; none means all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub paths: Vec<Spanned<String>>,
    /// Rules for requests; default: decrypt every envelope in JSON and forms.
    #[schemars(with = "Option<Vec<Rule>>")]
    pub request: Option<Vec<Spanned<Rule>>>,
    /// Rules for responses.
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
