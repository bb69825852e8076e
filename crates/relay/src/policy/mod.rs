//! The routes and destinations of the relay, and the rules for their messages, as the configuration compiles them.
//!
//! Pure data and comparisons, below the configuration that creates them and the rules that are applied: nothing here reads a body.

pub(crate) mod choice;
mod hidden;
pub mod path;
pub mod route;
pub(crate) mod router;
pub(crate) mod selectors;
pub(crate) mod types;

use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderName;
use leafseal_config::settings;
use leafseal_document::CaseFold;

use crate::validators::Tags;
pub use choice::{OtherCase, Overrides};
pub use hidden::Hidden;
use route::{HostPattern, PathPattern};
use router::Entry;
pub use selectors::{JsonFields, Selectors};
pub use types::{Embedded, MediaTypes, OtherSources, Patches};

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
    pub(crate) fn entry(&self) -> Entry<'_> {
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
    pub(crate) fn entry(&self) -> Entry<'_> {
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
pub(crate) struct Bodies {
    pub(crate) mismatch: Mismatch,
    pub(crate) types: MediaTypes,
    pub(crate) patches: Patches,
    pub(crate) embedded_json: Embedded,
    pub(crate) other_sources: OtherSources,
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
    pub(crate) fn new(mut rules: Vec<Rule>, bodies: Bodies, other_case: OtherCase) -> Actions {
        let Bodies { mismatch, types, patches, embedded_json, other_sources } = bodies;
        let (hides, case) = (rules.iter().any(Rule::hides), other_case.for_names(true));
        let hidden = hides.then(|| Arc::new(Hidden::new(&rules, case, other_sources)));
        for rule in &mut rules {
            let case = other_case.for_names(rule.hides());
            rule.selectors.in_case(case);
        }
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
        self.rules.iter().filter(|rule| rule.hides()).flat_map(|rule| &rule.selectors.headers)
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

settings! {
    /// What becomes of a body that no rule reads.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mismatch {
        /// The message is refused.
        Refuse = "refuse",
        /// The message is forwarded unchanged.
        Pass = "pass",
    }
}

settings! {
    /// How values are sealed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RuleScheme {
        /// To a public key of the app.
        PublicKey = "public-key",
        /// With a symmetric key of the app.
        Symmetric = "symmetric",
    }
}

settings! {
    /// What envelopes to a public key become that arrive to be encrypted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RuleReseal {
        /// Symmetric ones, with the mark that they were to a public key.
        Symmetric = "symmetric",
    }
}

settings! {
    /// What of its path in a JSON document each value is bound to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RuleBinding {
        /// The normalized path, each index as `[*]`.
        Path = "path",
        /// The normalized path with its indexes.
        PathAndIndex = "path+index",
    }
}

/// How a rule seals, and what it opens; what is `None` is left to the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSealing {
    /// The scheme; for encryption only.
    pub scheme: Option<RuleScheme>,
    /// What symmetric envelopes are bound to.
    pub context: Option<Box<str>>,
    /// The path from an object around each value to its context; for JSON only.
    pub context_select: Option<Box<str>>,
    /// What of its path each value is bound to; for JSON only.
    pub bind: Option<RuleBinding>,
    /// What envelopes to a public key become; for encryption only.
    pub reseal: Option<RuleReseal>,
    /// The words of the kinds of envelopes that are opened, separated by commas.
    pub accept: Option<Box<str>>,
}

impl RuleSealing {
    /// Whether values are bound to anything.
    pub(crate) fn is_bound(&self) -> bool {
        self.context.is_some() || self.binds_places()
    }

    /// Whether each value is bound by its place in a document.
    pub(crate) fn binds_places(&self) -> bool {
        self.context_select.is_some() || self.bind.is_some()
    }
}

/// An action on selected fields.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The action.
    pub action: Action,
    /// The data role: written on encryption, required on decryption.
    pub role: Option<Box<str>>,
    /// How it seals, and what it opens.
    pub sealing: RuleSealing,
    /// What it selects.
    pub selectors: Selectors,
    /// The replacement of redacted values.
    pub replacement: Box<str>,
    /// What to do with envelopes that fail to decrypt; for decryption only.
    pub on_failure: UnopenedAction,
    /// Whether envelopes that the engine can decrypt stay unchanged; for encryption only.
    pub skip_sealed: bool,
    /// How names of JSON members are compared with selectors; names of fields contain the same setting.
    pub names: CaseFold,
    /// Whether a body is refused in which a selector of `json`, or `form`, finds nothing.
    pub require_match: bool,
}

impl Rule {
    /// Whether the rule encrypts or redacts, in any part of a message.
    pub fn hides(&self) -> bool {
        self.action != Action::Decrypt
    }

    /// Whether the rule encrypts and looks which envelopes the engine can decrypt, which what it forwards shows.
    pub(crate) fn probes(&self) -> bool {
        self.skip_sealed || self.sealing.reseal.is_some()
    }

    /// The value of [`Rule::names`] in calls to the engine; `None` for the engine's default.
    pub(crate) fn names_on_the_wire(&self) -> Option<leafseal_client::OtherCase> {
        match self.names {
            CaseFold::Refuse => Some(leafseal_client::OtherCase::Refuse),
            CaseFold::Same => Some(leafseal_client::OtherCase::Same),
            CaseFold::Other => None,
        }
    }

    /// Whether the rule encrypts or redacts in bodies.
    pub fn hides_in_bodies(&self) -> bool {
        self.hides() && self.reads_bodies()
    }

    /// Whether the rule reads bodies.
    pub fn reads_bodies(&self) -> bool {
        self.selectors.read_bodies()
    }

    /// Whether the rule reads what comes before the body.
    pub(crate) fn reads_heads(&self) -> bool {
        self.selectors.read_heads()
    }
}

settings! {
    /// What happens to selected values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Replaces values with envelopes.
        Encrypt = "encrypt",
        /// Replaces envelopes with their values.
        Decrypt = "decrypt",
        /// Replaces values with a fixed text.
        Redact = "redact",
    }
}

settings! {
    /// What becomes of an envelope that does not open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnopenedAction {
        /// The message is refused.
        Fail = "fail",
        /// The envelope stays unchanged.
        Leave = "leave",
        /// `null` replaces it; nothing, in forms and headers.
        Null = "null",
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

impl OtherCase {
    /// How a rule compares names. An ambiguous value may stay encrypted but must not be revealed.
    pub(crate) fn for_names(self, hides: bool) -> CaseFold {
        match self {
            OtherCase::Refuse if hides => CaseFold::Refuse,
            OtherCase::Same => CaseFold::Same,
            OtherCase::Refuse | OtherCase::Other => CaseFold::Other,
        }
    }
}
