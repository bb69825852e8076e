//! Parses the file's text into the configuration and reports all problems at once, with their lines.

mod bodies;

use std::fmt;
use std::sync::Arc;

use hyper::Method;
use leafseal_client::{AcceptedScheme, Field, Word, WordSet};
use leafseal_config::{FileTable, KeyExchange, Problem, Spanned, TomlDocument, line_column, parse_each};
use leafseal_document::{CaseFold, ContextSelector, DocumentLimits};
use leafseal_net::tls::PrivateKeySettings;

use super::overlap::{Effect, Overlap, find_overlap};
use super::reach::{Candidate, Unreachable, find_unreachable};
use super::schema::{self, Unmatched};
use super::{Configuration, EngineSettings, Inbound, KeyPair, Outbound, http_settings};
use crate::policy::route::{HostPattern, PathPattern};
use crate::policy::router::Router;
use crate::policy::selectors::{Selectors, warnings_of_other_sources};
use crate::policy::{
    Action, Actions, Destination, Origin, OtherCase, Route, Rule, RuleReseal, RuleScheme, RuleSealing, UnopenedAction,
};
use bodies::DirectionSettings;

/// The default replacement of redacted values.
const REPLACEMENT: &str = "[redacted]";

/// The configuration as far as the text can be read, and its problems.
pub(super) fn examine(text: &str) -> (Option<Configuration>, Vec<Problem>) {
    let document = match TomlDocument::parse(text) {
        Ok(document) => document,
        Err(problem) => return (None, vec![problem]),
    };
    let problems = document.check(Configuration::shape());
    if !problems.is_empty() {
        return (None, problems);
    }
    let mut reader = Reader { text, problems: Vec::new(), warnings: Vec::new() };
    let file = schema::File::of(&document).expect("a file without problems can be read");
    let mut configuration = reader.configuration(file);
    reader.problems.sort_by_key(|problem| (problem.line, problem.column));
    configuration.warnings = reader.warnings;
    (Some(configuration), reader.problems)
}

struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Reader<'_> {
    /// Warns about routes or destinations that no request reaches.
    fn warn_of_unreachable(&mut self, candidates: &[Candidate<'_>], other_case: OtherCase) {
        for Unreachable { offset, behind, reveals } in find_unreachable(candidates, other_case) {
            let lines: Vec<String> = behind.iter().map(|at| line_column(self.text, *at).0.to_string()).collect();
            let earlier = match &lines[..] {
                [line] => format!("line {line} matches"),
                [first, .., last] => format!("{} earlier ones, from line {first} to line {last}, match", lines.len()),
                [] => continue,
            };
            let lost = match (reveals, lines.len()) {
                (false, _) => "",
                (true, 1) => ", and leaves in the clear what this one would hide",
                (true, _) => ", and leave in the clear what this one would hide",
            };
            self.warning(offset, format!("this is unreachable: {earlier} all its requests{lost}"));
        }
    }

    /// Reports values that two rules of one direction select where the second undoes or repeats the work of the first.
    fn check_overlaps(&mut self, rules: &[Rule], offsets: &[usize]) {
        for (at, later) in rules.iter().enumerate() {
            let find = |(before, earlier)| Some((before, find_overlap(earlier, later)?));
            let Some((before, overlap)) = rules[..at].iter().enumerate().find_map(find) else { continue };
            let line = line_column(self.text, offsets[before]).0;
            let Overlap { part, effect } = overlap;
            match effect {
                Effect::Twice => self.warning(
                    offsets[at],
                    format!(
                        "a {part} that this rule and the one of line {line} select is encrypted twice: select it in one of them, or \
                         set skip_sealed = true here"
                    ),
                ),
                Effect::Refused => self.warning(
                    offsets[at],
                    format!(
                        "names that this rule and the one of line {line} select in JSON differ only in case, so that messages with either \
                         are refused: write them alike, or set other_case_names"
                    ),
                ),
                Effect::Undone => self.problem(
                    offsets[at],
                    format!(
                        "this rule would decrypt a {part} that the rule of line {line} has just encrypted, and forward it in the clear: \
                         select it in one of them, or put this rule first to encrypt what it decrypts"
                    ),
                ),
            }
        }
    }

    fn problem(&mut self, offset: usize, message: impl Into<String>) {
        self.problems.push(Problem::at(self.text, offset, message));
    }

    fn warning(&mut self, offset: usize, message: impl Into<String>) {
        self.warnings.push(Problem::at(self.text, offset, message));
    }

    /// Parses each text of a list; errors are reported as problems.
    fn each<T, E: fmt::Display>(
        &mut self,
        texts: &[Spanned<String>],
        what: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        parse_each(texts, what, parse, &mut |offset, message| self.problem(offset, message))
    }

    fn configuration(&mut self, file: schema::File) -> Configuration {
        let schema::File { relay, engine, upstream, limits, inbound, outbound } = file;
        if let Err(error) = http_settings(&limits, &relay).validate() {
            self.problem(0, format!("section [limits]: {error}"));
        }
        if limits.bodies_size_max < limits.body_size_max {
            self.problem(0, "limits.bodies_size_max must be at least limits.body_size_max");
        }
        if limits.client_bodies_size_max < limits.body_size_max {
            self.problem(0, "limits.client_bodies_size_max must be at least limits.body_size_max");
        }
        if inbound.is_empty() && outbound.is_empty() {
            self.problem(0, "the file has no listener: add an [[inbound]] or an [[outbound]] section");
        }
        self.check_key_exchange(0, "engine.", &engine.calls.key_exchange);
        self.check_key_exchange(0, "upstream.", &upstream.key_exchange);
        let engine = self.engine(engine);
        let inbound: Vec<Inbound> =
            inbound.into_iter().enumerate().map(|(index, inbound)| self.inbound(index, inbound)).collect();
        let outbound: Vec<Outbound> =
            outbound.into_iter().enumerate().map(|(index, outbound)| self.outbound(index, outbound)).collect();
        let mut names: Vec<&Arc<str>> =
            inbound.iter().map(|it| &it.name).chain(outbound.iter().map(|it| &it.name)).collect();
        let is_name = |name: &str| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            self.problem(
                0,
                format!(
                    "{name:?} is not a valid listener name: it must have 1 to 64 of the characters a-z, A-Z, 0-9, -, _ and ."
                ),
            );
        }
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            self.problem(0, format!("two listeners have the name {:?}: names must be unique", twice[0]));
        }
        Configuration { process: relay, engine, upstream, limits, inbound, outbound, warnings: Vec::new() }
    }

    fn engine(&mut self, engine: schema::EngineTable) -> EngineSettings {
        if engine.addresses.is_empty() {
            self.problem(0, "engine.addresses must contain at least one HOST:PORT");
        }
        let addresses = self.each(&engine.addresses, "engine address", |text| match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
            _ => Err("must be HOST:PORT"),
        });
        EngineSettings {
            addresses,
            authorities: engine.authorities,
            certificate: engine.certificate,
            private_key: engine.private_key,
            server_name: engine.server_name,
            calls: engine.calls,
        }
    }

    fn key_pair(&mut self, listener: &schema::ListenerTable) -> Option<KeyPair> {
        match (listener.certificate.clone(), listener.private_key.clone()) {
            (Some(certificate), Some(private_key)) => {
                Some(KeyPair { certificate, private_key, settings: listener.key_settings })
            }
            (None, None) => None,
            _ => {
                self.problem(
                    listener.address.span().start,
                    "only one of certificate and private_key is set: set both, or neither",
                );
                None
            }
        }
    }

    fn check_key_exchange(&mut self, offset: usize, table: &str, key_exchange: &KeyExchange) {
        if let Err(error) = key_exchange.list() {
            self.problem(offset, format!("{table}tls_groups {error}"));
        }
    }

    fn inbound(&mut self, index: usize, inbound: schema::Inbound) -> Inbound {
        let listener = inbound.listener;
        let offset = listener.address.span().start;
        let tls = self.key_pair(&listener);
        self.check_key_exchange(offset, "", &listener.key_exchange);
        if tls.is_none() && listener.key_exchange.requires_hybrid() {
            self.problem(offset, "tls_require is hybrid, but the listener has no certificate and does not use TLS");
        }
        let default = inbound.upstream.as_ref().and_then(|upstream| self.origin(upstream));
        let has_default = inbound.upstream.is_some();
        let names = listener.other_case_names;
        let offsets: Vec<usize> = inbound.route.iter().map(|route| route.span().start).collect();
        let routes: Vec<Route> =
            inbound.route.into_iter().map(|route| self.route(route, default.as_ref(), has_default, names)).collect();
        let candidates: Vec<Candidate<'_>> =
            offsets.iter().zip(&routes).map(|(&offset, route)| Candidate::of_route(offset, route)).collect();
        self.warn_of_unreachable(&candidates, listener.other_case);
        let router = Arc::new(Router::new(routes.iter().map(Route::entry)));
        let unmatched = inbound.unmatched.unwrap_or(Unmatched::Pass);
        if inbound.unmatched.is_none() && routes.iter().any(Route::hides) {
            self.warning(
                offset,
                "requests that no route matches are forwarded unchanged, even if the upstream treats their path as that of a route that \
                 hides values: set unmatched = \"refuse\", or \"pass\" if this is intended",
            );
        }
        if unmatched == Unmatched::Pass && inbound.upstream.is_none() {
            self.problem(
                offset,
                "there is no `upstream` for requests that no route matches: set it, or set unmatched = \"refuse\"",
            );
        }
        Inbound {
            name: listener.name.unwrap_or_else(|| format!("inbound-{index}")).into(),
            address: *listener.address.get_ref(),
            tls,
            key_exchange: listener.key_exchange,
            otherwise: default.filter(|_| unmatched == Unmatched::Pass),
            forwarded: inbound.forwarded,
            other_case: listener.other_case,
            has_rules: routes.iter().any(|it| it.request.read_bodies() || it.response.read_bodies()),
            overrides: inbound.overrides,
            methods: methods_that_matter(&routes),
            routes,
            router,
        }
    }

    fn origin(&mut self, upstream: &Spanned<String>) -> Option<Arc<Origin>> {
        let origin = Origin::parse(upstream.get_ref());
        if origin.is_none() {
            let message = format!(
                "upstream {:?}: must be http://HOST:PORT or https://HOST:PORT, without a path",
                upstream.get_ref()
            );
            self.problem(upstream.span().start, message);
        }
        origin.map(Arc::new)
    }

    fn route(
        &mut self,
        route: Spanned<schema::Route>,
        default: Option<&Arc<Origin>>,
        has_default: bool,
        names: OtherCase,
    ) -> Route {
        let offset = route.span().start;
        let route = route.into_inner();
        let hosts = self.each(&route.hosts, "host", HostPattern::parse);
        let methods = self.each(&route.methods, "method", |text| Method::from_bytes(text.as_bytes()));
        let path = self.each(std::slice::from_ref(&route.path), "path", PathPattern::parse).pop();
        let upstream = match &route.upstream {
            Some(upstream) => self.origin(upstream),
            None => default.cloned(),
        };
        if upstream.is_none() && route.upstream.is_none() && !has_default {
            self.problem(offset, "neither the route nor its listener has an `upstream`: set one");
        }
        let bodies = DirectionSettings::of_request(&route.bodies);
        let request = self.actions(&route.request, &bodies, names);
        self.warn_of_other_sources(&route.request);
        self.check_response(&route.response);
        let bodies = DirectionSettings::of_response(&route.bodies);
        let response = self.actions(&route.response, &bodies, names);
        self.check_patches(bodies.patches, &[&request.rules, &response.rules]);
        let app = match &route.app {
            Some(app) => app.get_ref().as_str(),
            None => "",
        };
        if app.is_empty() && (request.need_the_engine() || response.need_the_engine()) {
            self.problem(offset, "the route encrypts or decrypts: name the app whose keys are used with `app`");
        }
        let nowhere = || Arc::new(Origin { is_tls: false, host: "".into(), port: 0 });
        Route {
            name: route.name.unwrap_or_else(|| route.path.get_ref().clone()).into(),
            hosts,
            methods,
            path: path.unwrap_or_else(|| PathPattern::parse("/").expect("a pattern")),
            upstream: upstream.unwrap_or_else(nowhere),
            app: app.into(),
            request,
            response,
        }
    }

    /// Warns about rules of a request that hide every field of one source.
    fn warn_of_other_sources(&mut self, rules: &[Spanned<schema::Rule>]) {
        let hiding = rules.iter().filter(|rule| rule.get_ref().action != Action::Decrypt);
        let hiding: Vec<_> = hiding.map(|rule| (rule.span().start, &rule.get_ref().selectors)).collect();
        for (offset, message) in warnings_of_other_sources(&hiding) {
            self.warning(offset, message);
        }
    }

    /// Reports selectors that only requests have.
    fn check_response(&mut self, rules: &[Spanned<schema::Rule>]) {
        for rule in rules {
            if let Some(fault) = rule.get_ref().selectors.fault_in_responses() {
                self.problem(rule.span().start, fault);
            }
        }
    }

    fn actions(
        &mut self,
        rules: &[Spanned<schema::Rule>],
        bodies: &DirectionSettings<'_>,
        other_case: OtherCase,
    ) -> Actions {
        let offsets: Vec<usize> = rules.iter().map(|rule| rule.span().start).collect();
        let rules: Vec<Rule> = rules.iter().map(|rule| self.rule(rule, other_case)).collect();
        let bodies = self.bodies(bodies, &rules);
        let actions = Actions::new(rules, bodies, other_case);
        self.check_overlaps(&actions.rules, &offsets);
        actions
    }

    fn rule(&mut self, spanned: &Spanned<schema::Rule>, other_case: OtherCase) -> Rule {
        let rule = spanned.get_ref();
        let offset = spanned.span().start;
        let hides = rule.action != Action::Decrypt;
        let names = other_case.for_names(hides);
        let selectors =
            rule.selectors.compile(offset, (names, hides), &mut |offset, message| self.problem(offset, message));
        if rule.replacement.is_some() && rule.action != Action::Redact {
            self.problem(offset, "`replacement` is only valid with action = \"redact\"");
        }
        if rule.role.is_some() && rule.action == Action::Redact {
            self.problem(offset, "`role` is not valid with action = \"redact\"");
        }
        if rule.on_failure.is_some() && rule.action != Action::Decrypt {
            self.problem(offset, "`on_failure` is only valid with action = \"decrypt\"");
        }
        if rule.skip_sealed.is_some() && rule.action != Action::Encrypt {
            self.problem(offset, "`skip_sealed` is only valid with action = \"encrypt\"");
        }
        let sealing = self.sealing(rule, offset);
        let role = rule.role.as_ref().map(|role| self.each(std::slice::from_ref(role), "role", parse_role));
        let replacement = rule.replacement.clone().unwrap_or_else(|| REPLACEMENT.to_owned());
        if let Some(fault) = rule.selectors.fault_of_replacement(&replacement) {
            self.problem(offset, fault);
        }
        Rule {
            action: rule.action,
            role: role.and_then(|mut role| role.pop()),
            sealing,
            selectors,
            replacement: replacement.into(),
            on_failure: rule.on_failure.unwrap_or(UnopenedAction::Fail),
            skip_sealed: rule.skip_sealed.unwrap_or(false),
            names,
            require_match: self.require_match(rule, offset),
        }
    }

    /// How a rule seals, and what it opens.
    fn sealing(&mut self, rule: &schema::Rule, offset: usize) -> RuleSealing {
        let (encrypts, opens) = (rule.action == Action::Encrypt, rule.action == Action::Decrypt);
        if rule.scheme.is_some() && !encrypts {
            self.problem(offset, "`scheme` is only valid with action = \"encrypt\"");
        }
        for fault in faults_of_binding(rule).into_iter().chain(faults_of_resealing(rule)) {
            self.problem(offset, fault);
        }
        if rule.accept.is_some() && !opens && rule.skip_sealed != Some(true) && rule.reseal.is_none() {
            let message = "`accept` is only valid with action = \"decrypt\", with skip_sealed = true or with reseal";
            self.problem(offset, message);
        }
        let accept =
            rule.accept.as_ref().map(|kinds| self.each(kinds, "accept", parse_kind).join(",").into_boxed_str());
        if accept.as_deref().is_some_and(|words| WordSet::<AcceptedScheme>::parse(words).is_none()) {
            self.problem(offset, "`accept` must have one kind at least, and none twice");
        }
        let mut one = |text: &Option<Spanned<String>>, name, parse: fn(&str) -> Result<Box<str>, String>| {
            text.as_ref().and_then(|text| self.each(std::slice::from_ref(text), name, parse).pop())
        };
        RuleSealing {
            context: one(&rule.context, "context", parse_context),
            context_select: one(&rule.context_select, "context_select", parse_context_select),
            scheme: rule.reseal.map(|RuleReseal::Symmetric| RuleScheme::Symmetric).or(rule.scheme),
            bind: rule.bind,
            reseal: rule.reseal,
            accept,
        }
    }

    fn outbound(&mut self, index: usize, outbound: schema::Outbound) -> Outbound {
        let listener = outbound.listener;
        let tls = self.key_pair(&listener);
        self.check_key_exchange(listener.address.span().start, "", &listener.key_exchange);
        let names = listener.other_case_names;
        let offsets: Vec<usize> = outbound.destination.iter().map(|it| it.span().start).collect();
        let destinations: Vec<Destination> =
            outbound.destination.into_iter().map(|it| self.destination(it, names)).collect();
        let candidates: Vec<Candidate<'_>> =
            offsets.iter().zip(&destinations).map(|(&offset, it)| Candidate::of_destination(offset, it)).collect();
        self.warn_of_unreachable(&candidates, listener.other_case);
        let router = Arc::new(Router::new(destinations.iter().map(Destination::entry)));
        Outbound {
            name: listener.name.unwrap_or_else(|| format!("outbound-{index}")).into(),
            address: *listener.address.get_ref(),
            tls,
            key_exchange: listener.key_exchange,
            authority: KeyPair {
                certificate: outbound.ca_certificate,
                private_key: outbound.ca_private_key,
                settings: PrivateKeySettings::default(),
            },
            keyless_connect: outbound.keyless_connect,
            unlisted: outbound.unlisted,
            unlisted_internal: outbound.unlisted_internal,
            other_case: listener.other_case,
            has_rules: destinations.iter().any(|it| it.request.read_bodies() || it.response.read_bodies()),
            hides: destinations.iter().any(Destination::hides),
            destinations,
            router,
        }
    }

    fn destination(&mut self, spanned: Spanned<schema::Destination>, names: OtherCase) -> Destination {
        let offset = spanned.span().start;
        let destination = spanned.into_inner();
        if destination.hosts.is_empty() {
            self.problem(offset, "`hosts` must contain at least one host");
        }
        let hosts = self.each(&destination.hosts, "host", HostPattern::parse);
        let paths = self.each(&destination.paths, "path", PathPattern::parse);
        let bodies = DirectionSettings::of_request(&destination.bodies);
        let request = match &destination.request {
            Some(rules) => {
                self.warn_of_other_sources(rules);
                self.actions(rules, &bodies, names)
            }
            None => {
                let rules = vec![decrypt_everything()];
                let bodies = self.bodies(&bodies, &rules);
                Actions::new(rules, bodies, names)
            }
        };
        self.check_response(&destination.response);
        let bodies = DirectionSettings::of_response(&destination.bodies);
        let response = self.actions(&destination.response, &bodies, names);
        self.check_patches(bodies.patches, &[&request.rules, &response.rules]);
        Destination { hosts, paths, request, response }
    }
}

/// What of a rule cannot bind values.
fn faults_of_binding(rule: &schema::Rule) -> Vec<&'static str> {
    let (binds_places, is_bound) = (rule.context_select.is_some() || rule.bind.is_some(), rule.context.is_some());
    let (is_bound, is_symmetric) =
        (is_bound || binds_places, rule.scheme == Some(RuleScheme::Symmetric) || rule.reseal.is_some());
    let mut faults = Vec::new();
    if is_bound && rule.action == Action::Redact {
        faults.push("`context`, `context_select` and `bind` are not valid with action = \"redact\"");
    }
    if is_bound && rule.action == Action::Encrypt && !is_symmetric {
        faults.push(
            "`context`, `context_select` and `bind` with action = \"encrypt\" need scheme = \"symmetric\" or reseal",
        );
    }
    if rule.context.is_some() && rule.context_select.is_some() {
        faults.push("`context` is one for all values: leave it out, or `context_select`");
    }
    if binds_places && !rule.selectors.read_json_alone() {
        faults.push("`context_select` and `bind` are only valid in a rule with `json` and no other selectors");
    }
    faults
}

/// What of a rule does not go with `reseal`.
fn faults_of_resealing(rule: &schema::Rule) -> Vec<&'static str> {
    if rule.reseal.is_none() {
        return Vec::new();
    }
    let opens_public_key =
        |kinds: &Vec<Spanned<String>>| kinds.iter().any(|kind| kind.get_ref() == AcceptedScheme::PublicKey.as_str());
    let checks = [
        (rule.action == Action::Encrypt, "`reseal` is only valid with action = \"encrypt\""),
        (rule.role.is_some(), "`reseal` needs `role`: values of another role, or without one, are not resealed"),
        (rule.scheme != Some(RuleScheme::PublicKey), "`reseal` makes symmetric envelopes: use scheme = \"symmetric\""),
        (
            rule.skip_sealed != Some(true),
            "`reseal` leaves symmetric envelopes unchanged by itself: leave out `skip_sealed`",
        ),
        (
            rule.accept.as_ref().is_none_or(opens_public_key),
            "`reseal` opens envelopes to a public key: add \"public-key\" to `accept`",
        ),
    ];
    checks.into_iter().filter_map(|(holds, fault)| (!holds).then_some(fault)).collect()
}

/// The methods that routes list and one that none lists; none if the method of a request makes no difference to what is hidden.
fn methods_that_matter(routes: &[Route]) -> Vec<Method> {
    let mut methods: Vec<Method> = routes.iter().flat_map(|route| route.methods.iter().cloned()).collect();
    if methods.is_empty() || !routes.iter().any(|route| route.hides() || route.reveals()) {
        return Vec::new();
    }
    methods.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    methods.dedup();
    methods.extend(Method::from_bytes(b"OTHER").ok());
    methods
}

/// The default rule for a destination's requests: decrypts every envelope in JSON and forms.
fn decrypt_everything() -> Rule {
    Rule {
        action: Action::Decrypt,
        role: None,
        sealing: RuleSealing::default(),
        selectors: Selectors::everything_in_bodies(),
        replacement: "".into(),
        on_failure: UnopenedAction::Fail,
        skip_sealed: false,
        names: CaseFold::Other,
        require_match: false,
    }
}

fn parse_role(text: &str) -> Result<Box<str>, &'static str> {
    let is_role = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = (1..=20).contains(&text.len()) && text.bytes().all(is_role);
    is_valid.then(|| text.into()).ok_or("a data role must have 1 to 20 characters of a-z, 0-9 and -")
}

fn parse_kind(text: &str) -> Result<&'static str, String> {
    let words = AcceptedScheme::WORDS.joined("\"", ", ", " or ");
    AcceptedScheme::parse(text).map(AcceptedScheme::as_str).ok_or_else(|| format!("a kind of envelopes is {words}"))
}

fn parse_context_select(text: &str) -> Result<Box<str>, String> {
    let parsed = ContextSelector::parse(text, &DocumentLimits::default());
    parsed.map(|_| text.into()).map_err(|error| format!("at byte {}: {}", error.position, error.kind))
}

fn parse_context(text: &str) -> Result<Box<str>, String> {
    Field::Context
        .has_in_range(text)
        .then(|| text.into())
        .ok_or_else(|| format!("a context has {}", Field::Context.range().unwrap_or_default()))
}
