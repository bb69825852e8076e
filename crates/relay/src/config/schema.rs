//! The file: each key is declared once. [`settings`](super::settings) has the tables in which every key has a default.

use std::net::SocketAddr;
use std::path::PathBuf;

use leafseal_config::{KeyExchange, Spanned, settings};
use leafseal_net::tls::PrivateKeySettings;

use super::settings::{Calls, Limits, Process, UpstreamSettings};
use super::{Forwarded, KeylessConnect, Unlisted};
use crate::policy::selectors::SelectorKeys;
use crate::policy::{
    Action, Embedded, Mismatch, OtherCase, OtherSources, Overrides, Patches, RuleBinding, RuleReseal, RuleScheme,
    UnopenedAction,
};

settings! {
    /// The file.
    #[derive(Debug)]
    pub(super) struct File: FileTable {
        /// The process.
        pub relay: Process;
        /// The engine that does the cryptography.
        pub engine: EngineTable;
        /// Connections to upstreams and destinations.
        pub upstream: UpstreamSettings;
        /// Limits on clients.
        pub limits: Limits;
        /// Listeners in front of your APIs.
        pub inbound: Vec<Inbound>;
        /// Listeners for your clients that call third parties.
        pub outbound: Vec<Outbound>;
    }
}

settings! {
    #[derive(Debug)]
    pub(super) struct EngineTable: FileTable {
        /// `HOST:PORT` of one engine, or of several that serve the same apps.
        pub addresses: Vec<Spanned<String>>;
        /// PEM file of the authorities that issue the engines' certificates.
        pub authorities: PathBuf;
        /// PEM file of the relay's certificate chain.
        pub certificate: PathBuf;
        /// PEM file of its private key.
        pub private_key: PathBuf;
        /// Name in the engine's certificate.
        pub server_name: Option<String> => "the host of the address";
        /// Calls to the engine.
        pub calls: Calls, is section;
    }
}

settings! {
    /// What every listener has.
    #[derive(Debug)]
    pub(super) struct ListenerTable: FileTable {
        /// Name in logs and metrics.
        pub name: Option<String> => "`inbound-0` or `outbound-0`, by number";
        /// IP address and port to listen on.
        pub address: Spanned<SocketAddr>;
        /// PEM file of the listener's certificate chain. Without it the listener serves plain HTTP/1.1.
        pub certificate: Option<PathBuf>;
        /// PEM file of its private key.
        pub private_key: Option<PathBuf>;
        /// How operations with this key are computed.
        pub key_settings: PrivateKeySettings, is section("private_key_");
        /// The accepted groups of the key exchange.
        pub key_exchange: KeyExchange, is section("tls_");
        /// What happens to a path that equals that of a route or destination except for the case of its letters.
        pub other_case: OtherCase = OtherCase::Refuse;
        /// The same for names of JSON members, form fields and query parameters.
        pub other_case_names: OtherCase = OtherCase::Refuse;
    }
}

settings! {
    #[derive(Debug)]
    pub(super) struct Inbound: FileTable {
        /// What every listener has.
        pub listener: ListenerTable, is section;
        /// Upstream of routes that have no other: `http://HOST:PORT` or `https://HOST:PORT`.
        pub upstream: Option<Spanned<String>>;
        /// What happens to requests that no route matches.
        pub unmatched: Option<Unmatched> => "`pass`, with a warning if a route hides values";
        /// What happens to `Forwarded` and `X-Forwarded-*` headers of a request.
        pub forwarded: Forwarded = Forwarded::Set;
        /// What happens to fields by which a client has frameworks take another method or path than the request's, such as
        /// `X-HTTP-Method-Override`, where a route hides values.
        pub overrides: Overrides = Overrides::Refuse;
        /// Routes; the first that matches applies.
        pub route: Vec<Spanned<Route>>;
    }
}

settings! {
    /// What happens to requests that no route matches.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Unmatched {
        /// They are forwarded to `upstream` unchanged.
        Pass = "pass",
        /// They are refused.
        Refuse = "refuse",
    }
}

settings! {
    #[derive(Debug)]
    pub(super) struct Route: FileTable {
        /// Name in logs.
        pub name: Option<String> => "the path";
        /// Hosts that match, such as `api.example.com`, `*.example.com` or `[2001:db8::1]`; none means all.
        pub hosts: Vec<Spanned<String>> = Vec::new();
        /// Methods that match; none means all.
        pub methods: Vec<Spanned<String>> = Vec::new();
        /// Pattern of the path: `*` stands for one segment, a final `**` for any number.
        pub path: Spanned<String>;
        /// Upstream of this route.
        pub upstream: Option<Spanned<String>> => "that of the listener";
        /// App whose keys encrypt and decrypt.
        pub app: Option<Spanned<String>>;
        /// Rules for requests, applied in order.
        pub request: Vec<Spanned<Rule>>;
        /// Rules for responses, applied in order.
        pub response: Vec<Spanned<Rule>>;
        /// Which bodies rules take.
        pub bodies: BodySettings, is section;
    }
}

settings! {
    /// Which bodies the rules of a route or destination take.
    #[derive(Debug)]
    pub(super) struct BodySettings: FileTable {
        /// Exact media types of the request bodies that rules take. Without this key: those that they read; where a rule hides values in
        /// JSON, `application/json`, `text/json`, `application/merge-patch+json` and `application/problem+json` of all JSON types.
        pub types: Vec<Spanned<String>> = Vec::new();
        /// The same for response bodies.
        pub response_types: Vec<Spanned<String>> = Vec::new();
        /// How bodies in the shape of a JSON Patch (RFC 6902) or SCIM patch are read where a rule hides values in JSON.
        pub patches: Option<Spanned<Patches>> => "`refuse`";
        /// What happens to a body with a JSON text in a string or in a field of a form, in which a member has the name of a hidden JSON
        /// value.
        pub embedded_json: Embedded = Embedded::Refuse;
        /// What happens to a request whose query, cookies or form have a field that frameworks read as a value which rules hide in JSON, or
        /// whose JSON document has a member that they read as one which rules hide in the query or in forms.
        pub other_sources: OtherSources = OtherSources::Refuse;
        /// What happens to a request body that no rule can read.
        pub request_mismatch: Option<Mismatch> => "`refuse` if a rule of the direction encrypts or redacts, else `pass`";
        /// What happens to a response body that no rule can read.
        pub response_mismatch: Option<Mismatch> => "as for requests";
    }
}

settings! {
    #[derive(Debug)]
    pub(super) struct Rule: FileTable {
        /// What happens to the selected values.
        pub action: Action;
        /// Data role: written when encrypting, required when decrypting.
        pub role: Option<Spanned<String>>;
        /// How `encrypt` seals values. `symmetric` needs no public key, opens faster and can be bound to a `context`.
        pub scheme: Option<RuleScheme> => "the engine's `engine.scheme`";
        /// What symmetric envelopes are bound to: 1 to 1024 bytes.
        pub context: Option<Spanned<String>>;
        /// The path from a JSON object around each value to the member that is its context, such as `id` or `customer.id`, in place of
        /// `context`. The nearest object that has it counts.
        pub context_select: Option<Spanned<String>>;
        /// What of its path in the JSON document each value is bound to, beside its context.
        pub bind: Option<RuleBinding> => "nothing";
        /// What envelopes to a public key, such as those of browsers, become where `encrypt` meets them: `symmetric` makes symmetric
        /// ones with the mark `from-public-key` of those that carry the `role` and open. Values are then sealed with
        /// `scheme = "symmetric"`.
        pub reseal: Option<RuleReseal> => "they are encrypted again";
        /// The kinds of envelopes that `decrypt` opens: `public-key`, `symmetric`, `from-public-key`. Others fail as damaged ones do.
        pub accept: Option<Vec<Spanned<String>>> => "all; with `context`, `context_select` or `bind`, `symmetric` alone";
        /// What it selects.
        pub selectors: SelectorKeys, is section;
        /// What `redact` writes in place of a value.
        pub replacement: Option<String> => "`[redacted]`";
        /// What happens to an envelope that does not decrypt.
        pub on_failure: Option<UnopenedAction> => "`fail`";
        /// Whether a body is refused in which one of the selectors of `json`, or `form`, finds nothing.
        pub require_match: Option<bool> => "`false`";
        /// Whether `encrypt` leaves envelopes unchanged that the engine can decrypt. Without it they are encrypted again.
        pub skip_sealed: Option<bool> => "`false`";
    }
}

settings! {
    #[derive(Debug)]
    pub(super) struct Outbound: FileTable {
        /// What every listener has.
        pub listener: ListenerTable, is section;
        /// PEM file of the authority that signs certificates for destinations.
        pub ca_certificate: PathBuf;
        /// PEM file of its private key.
        pub ca_private_key: PathBuf;
        /// What happens to `CONNECT` without an API key.
        pub keyless_connect: KeylessConnect = KeylessConnect::Auto;
        /// What happens to requests to destinations that are not listed.
        pub unlisted: Unlisted = Unlisted::Refuse;
        /// The same for loopback, link-local, private and reserved addresses.
        pub unlisted_internal: Unlisted = Unlisted::Refuse;
        /// Destinations; the first that matches applies.
        pub destination: Vec<Spanned<Destination>>;
    }
}

settings! {
    #[derive(Debug)]
    pub(super) struct Destination: FileTable {
        /// Hosts that match, such as `api.example.com`, `*.example.com` or `[2001:db8::1]`.
        pub hosts: Vec<Spanned<String>>;
        /// Patterns of paths that match; none means all.
        pub paths: Vec<Spanned<String>> = Vec::new();
        /// Rules for requests.
        pub request: Option<Vec<Spanned<Rule>>> => "decrypt every envelope in JSON and forms";
        /// Rules for responses.
        pub response: Vec<Spanned<Rule>>;
        /// Which bodies rules take.
        pub bodies: BodySettings, is section;
    }
}
