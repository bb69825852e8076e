//! Valid and invalid configuration files.

use std::time::Duration;

use super::*;
use crate::policy::{Action, Mismatch};

const HEAD: &str = r#"[engine]
addresses = ["localhost:3443"]
authorities = "ca.pem"
certificate = "c.pem"
private_key = "c.key"
"#;

fn parse(rest: &str) -> Result<Configuration, Vec<Problem>> {
    Configuration::parse(&format!("{HEAD}{rest}"))
}

fn inbound(route: &str) -> String {
    format!("[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:8080\"\n[[inbound.route]]\n{route}")
}

#[test]
fn a_route_is_parsed_with_all_its_keys() {
    let route = "hosts = [\"api.example.com\"]\nmethods = [\"POST\"]\npath = \"/users/*/cards\"\napp = \"acme\"\n\
        request = [{ action = \"encrypt\", json = [\"$.card\"], form = [\"card\"], headers = [\"X-Card\"], role = \"pci\" }]\n\
        response = [{ action = \"redact\", json = [\"$..secret\"], replacement = \"gone\" }, { action = \"decrypt\", json = [\"$.a\"] }]\n\
        response_mismatch = \"pass\"\n";
    let text = format!("[limits]\nbody_size_max = \"1MiB\"\nidle_timeout = \"5s\"\n{}", inbound(route));
    let configuration = parse(&text).unwrap();
    assert_eq!(configuration.limits.body_size_max, 1 << 20);
    assert_eq!(configuration.limits.idle_timeout, Duration::from_secs(5));
    let listener = &configuration.inbound[0];
    assert_eq!(&*listener.name, "inbound-0");
    assert_eq!(listener.otherwise.as_ref().unwrap().authority(), "127.0.0.1:8080");
    let route = &listener.routes[0];
    assert_eq!((&*route.app, route.methods.as_slice()), ("acme", &[Method::POST][..]));
    assert_eq!(route.request.rules[0].role.as_deref(), Some("pci"));
    assert_eq!(route.request.mismatch, Mismatch::Refuse);
    assert_eq!((route.response.rules.len(), route.response.mismatch), (2, Mismatch::Pass));
}

#[test]
fn unmatched_requests_beside_hiding_routes_cause_a_warning() {
    let hides = inbound(
        "path = \"/\"\napp = \"a\"\nresponse = [{ action = \"redact\", json = [\"$\"], require_match = true }]\n",
    );
    let warnings = |text: &str| parse(text).unwrap().warnings;
    let reported = warnings(&hides);
    assert!(reported.len() == 1 && reported[0].line == 7 && reported[0].message.contains("unmatched"), "{reported:?}");
    for unmatched in ["pass", "refuse"] {
        let said = hides.replace("[[inbound]]", &format!("[[inbound]]\nunmatched = \"{unmatched}\""));
        assert_eq!(warnings(&said), []);
    }
    assert_eq!(warnings(&hides.replace("redact", "decrypt")), []);
}

#[test]
fn a_hiding_rule_without_require_match_causes_a_warning() {
    let route = |rule: &str| {
        format!(
            "[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\nunmatched = \"refuse\"\n\
        [[inbound.route]]\npath = \"/\"\napp = \"a\"\nrequest = [{{ {rule} }}]\n"
        )
    };
    let warnings = |rule: &str| parse(&route(rule)).unwrap().warnings;
    for selector in ["json = [\"$.a[*].b\"]", "form = [\"a\"]"] {
        let rule = format!("action = \"encrypt\", {selector}");
        let reported = warnings(&rule);
        assert!(reported.len() == 1 && reported[0].line == 13, "{reported:?}");
        assert!(reported[0].message.contains("set require_match = true"), "{reported:?}");
        for value in ["true", "false"] {
            assert_eq!(warnings(&format!("{rule}, require_match = {value}")), []);
        }
        assert_eq!(warnings(&rule.replace("encrypt", "decrypt")), []);
    }
    assert_eq!(warnings("action = \"encrypt\", headers = [\"X-A\"]"), []);
}

#[test]
fn types_and_patches_must_fit_the_rules() {
    let route = |keys: &str| {
        let text = format!("path = \"/\"\napp = \"a\"\n{keys}\n");
        match parse(&inbound(&text)) {
            Ok(_) => String::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    };
    let json = "request = [{ action = \"encrypt\", json = [\"$.a[*].b\"], require_match = true }]";
    let filter = "request = [{ action = \"encrypt\", json = [\"$.a[?@.b]\"], require_match = true }]";
    for (keys, problem) in [
        (format!("{json}\ntypes = [\"application/vnd.a+json\"]"), ""),
        (format!("{json}\npatches = \"operations\"\ntypes = [\"application/json-patch+json\"]"), ""),
        (format!("{json}\ntypes = [\"application/json; charset=utf-8\"]"), "an exact media type without parameters"),
        (format!("{json}\ntypes = [\"multipart/mixed\"]"), "rules do not read bodies of this type"),
        (format!("{json}\ntypes = [\"multipart/form-data\"]"), "no rule of this direction reads"),
        (format!("{json}\nresponse_types = [\"application/json\"]"), "no rule of this direction reads"),
        (format!("{json}\ntypes = [\"application/json-patch+json\"]"), "set patches = \"operations\""),
        (format!("{filter}\npatches = \"operations\""), "names and wildcards"),
        ("patches = \"operations\"".to_owned(), "`patches` needs a rule with `json`"),
        (json.replace("json = [\"$.a[*].b\"]", "headers = [\"X-A\"]"), "`require_match` is only valid"),
    ] {
        let found = route(&keys);
        assert!(if problem.is_empty() { found.is_empty() } else { found.contains(problem) }, "{keys}: {found}");
    }
}

#[test]
fn names_of_fields_are_bounded() {
    let route = inbound("path = \"/\"\napp = \"a\"\nrequest = []\n");
    for (size, is_valid) in [("255", false), ("256", true), ("\"64KiB\"", true), ("65537", false)] {
        let text = format!("[limits]\nform_name_size_max = {size}\n{route}");
        assert_eq!(parse(&text).is_ok(), is_valid, "{size}");
    }
    for (size, is_valid) in [(256, true), (257, false)] {
        let rule = format!("{{ action = \"redact\", form = [\"{}\"] }}", "a".repeat(size));
        assert_eq!(parse(&route.replace("[]", &format!("[{rule}]"))).is_ok(), is_valid, "{size}");
    }
}

#[test]
fn rules_for_every_field_of_one_source_cause_warnings() {
    let warnings = |rules: &str| -> Vec<String> {
        let text = inbound(&format!("path = \"/\"\napp = \"a\"\nrequest = [{rules}]\n"));
        let text = text.replace("[[inbound]]", "[[inbound]]\nunmatched = \"refuse\"");
        let messages = parse(&text).unwrap().warnings.into_iter().map(|warning| warning.message);
        messages.filter(|message| !message.contains("require_match")).collect()
    };
    let (query, form, cookie) =
        ("parameter in the query are refused", "no rule hides with `form`", "a cookie may have");
    for (rules, expected) in [
        ("{ action = \"redact\", form = [\"*\"] }", vec![query, cookie]),
        ("{ action = \"redact\", query = [\"*\"] }", vec![form, cookie]),
        ("{ action = \"redact\", query = [\"*\"], form = [\"*\"] }", vec![cookie]),
        ("{ action = \"redact\", query = [\"*\"], form = [\"*\"], headers = [\"Cookie\"] }", vec![]),
        ("{ action = \"redact\", form = [\"card\"] }", vec![]),
        ("{ action = \"decrypt\", form = [\"*\"] }", vec![]),
    ] {
        let found = warnings(rules);
        assert_eq!(found.len(), expected.len(), "{rules}: {found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{rules}: {found:?}");
    }
}

#[test]
fn values_that_two_rules_encrypt_cause_a_warning() {
    let warnings = |rules: &str| parse(&inbound(&format!("path = \"/\"\napp = \"a\"\nrequest = [\n{rules}]\n")));
    let encrypt = |rest: &str| format!("{{ action = \"encrypt\", {rest} }},\n");
    let is_quiet = |warnings: &[Problem]| !warnings.iter().any(|it| it.message.contains("encrypted twice"));
    for (first, second, part) in [
        ("json = [\"$.card\"]", "json = [\"$.x\", \"$..number\"]", "JSON value"),
        ("form = [\"*\"]", "form = [\"card\"]", "form field"),
        ("query = [\"a\", \"b\"]", "query = [\"b\"]", "query parameter"),
        ("headers = [\"X-Card\"]", "headers = [\"x-card\"]", "header field"),
        ("json = [\"$.a\"], role = \"pci\"", "json = [\"$.a\"], role = \"pii\", skip_sealed = true", "JSON value"),
        ("json = [\"$.a\"], role = \"pci\"", "json = [\"$.a\"], role = \"pii\", reseal = \"symmetric\"", "JSON value"),
        (
            "json = [\"$.a\"], role = \"pci\", scheme = \"symmetric\", bind = \"path\"",
            "json = [\"$.a\"], role = \"pci\", reseal = \"symmetric\"",
            "JSON value",
        ),
        (
            "json = [\"$.a\"], scheme = \"symmetric\", context = \"a\"",
            "json = [\"$.a\"], scheme = \"symmetric\", context = \"b\", skip_sealed = true",
            "JSON value",
        ),
        // What the first has resealed is marked, which a bound rule does not open by default.
        (
            "json = [\"$.a\"], role = \"pci\", reseal = \"symmetric\", context = \"a\"",
            "json = [\"$.a\"], role = \"pci\", scheme = \"symmetric\", context = \"a\", skip_sealed = true",
            "JSON value",
        ),
    ] {
        let reported = warnings(&(encrypt(first) + &encrypt(second))).unwrap().warnings;
        let found = reported.iter().find(|it| it.message.contains("encrypted twice"));
        let found = found.unwrap_or_else(|| panic!("{first}, {second}: {reported:?}"));
        assert!(found.line == 14 && found.message.contains(part) && found.message.contains("line 13"), "{found}");
    }
    for (first, second) in [
        ("json = [\"$.card\"]", "json = [\"$.x\"], form = [\"card\"]"),
        ("json = [\"$.a\"]", "json = [\"$.a\"], skip_sealed = true"),
        ("json = [\"$.a\"], role = \"pci\"", "json = [\"$.a\"], role = \"pci\", skip_sealed = true"),
        ("json = [\"$.a\"], role = \"pci\"", "json = [\"$.a\"], role = \"pci\", reseal = \"symmetric\""),
    ] {
        let reported = warnings(&(encrypt(first) + &encrypt(second))).unwrap().warnings;
        assert!(is_quiet(&reported), "{first}, {second}: {reported:?}");
    }
    // The case of names, where it does not count and where it makes a message ambiguous.
    for (setting, message) in [("same", "encrypted twice"), ("refuse", "differ only in case"), ("other", "")] {
        let rules = encrypt("json = [\"$.card\"]") + &encrypt("json = [\"$.CARD\"]");
        let text = inbound(&format!("path = \"/\"\napp = \"a\"\nrequest = [\n{rules}]\n"));
        let reported =
            parse(&text.replace("[[inbound]]", &format!("[[inbound]]\nother_case_names = \"{setting}\""))).unwrap();
        let found = reported.warnings.iter().filter(|it| it.message.contains("line 14")).map(|it| &*it.message);
        let found: Vec<_> = found.collect();
        assert!(found.len() == usize::from(!message.is_empty()), "{setting}: {found:?}");
        assert!(found.iter().all(|it| it.contains(message)), "{setting}: {found:?}");
    }
    let redacts = encrypt("json = [\"$.a\"]") + "{ action = \"redact\", json = [\"$.a\"] }\n";
    assert!(is_quiet(&warnings(&redacts).unwrap().warnings));
    let wrong = warnings("{ action = \"decrypt\", json = [\"$.a\"], skip_sealed = true }").unwrap_err();
    assert!(wrong.len() == 1 && wrong[0].message.contains("`skip_sealed` is only valid with"), "{wrong:?}");
}

#[test]
fn rules_of_schemes_that_cannot_hold_are_refused() {
    let read = |rule: &str| {
        let rules = format!("{{ json = [\"$.a\"], {rule} }}");
        parse(&inbound(&format!("path = \"/\"\napp = \"a\"\nrequest = [\n{rules}]\n")))
    };
    for rule in [
        "action = \"encrypt\", scheme = \"public-key\"",
        "action = \"encrypt\", scheme = \"symmetric\", context = \"a\", skip_sealed = true, accept = [\"symmetric\"]",
        "action = \"decrypt\", context = \"a\", accept = [\"symmetric\", \"from-public-key\"]",
        "action = \"encrypt\", scheme = \"symmetric\", context_select = \"customer.id\", bind = \"path\"",
        "action = \"encrypt\", scheme = \"symmetric\", context = \"a\", bind = \"path+index\"",
        "action = \"decrypt\", context_select = \"['a.b'].id\", bind = \"path\"",
        "action = \"encrypt\", role = \"card\", reseal = \"symmetric\", context_select = \"id\"",
        "action = \"encrypt\", role = \"card\", reseal = \"symmetric\", scheme = \"symmetric\", accept = [\"public-key\"]",
    ] {
        assert!(read(rule).is_ok(), "{rule}");
    }
    let long = format!("action = \"decrypt\", context = \"{}\"", "x".repeat(1_025));
    for (rule, fault) in [
        ("action = \"decrypt\", scheme = \"symmetric\"", "`scheme` is only valid with"),
        ("action = \"redact\", context = \"a\"", "are not valid with"),
        ("action = \"redact\", bind = \"path\"", "are not valid with"),
        ("action = \"encrypt\", context = \"a\"", "need scheme = \"symmetric\""),
        ("action = \"encrypt\", scheme = \"public-key\", context = \"a\"", "need scheme = \"symmetric\""),
        ("action = \"encrypt\", context_select = \"id\"", "need scheme = \"symmetric\""),
        ("action = \"encrypt\", scheme = \"public-key\", bind = \"path\"", "need scheme = \"symmetric\""),
        ("action = \"decrypt\", context = \"a\", context_select = \"id\"", "`context` is one for all values"),
        ("action = \"decrypt\", context_select = \"a[0]\"", "one to 16 member names"),
        ("action = \"decrypt\", context_select = \"\"", "context_select"),
        ("action = \"decrypt\", bind = \"index\"", "must be one of"),
        ("action = \"decrypt\", form = [\"a\"], context_select = \"id\"", "no other selectors"),
        ("action = \"decrypt\", query = [\"a\"], bind = \"path\"", "no other selectors"),
        ("action = \"decrypt\", headers = [\"a\"], bind = \"path\"", "no other selectors"),
        ("action = \"decrypt\", role = \"card\", reseal = \"symmetric\"", "`reseal` is only valid with"),
        ("action = \"redact\", reseal = \"symmetric\"", "`reseal` is only valid with"),
        ("action = \"encrypt\", reseal = \"symmetric\"", "`reseal` needs `role`"),
        ("action = \"encrypt\", role = \"a\", reseal = \"public-key\"", "must be"),
        (
            "action = \"encrypt\", role = \"a\", reseal = \"symmetric\", scheme = \"public-key\"",
            "`reseal` makes symmetric",
        ),
        ("action = \"encrypt\", role = \"a\", reseal = \"symmetric\", skip_sealed = true", "leave out `skip_sealed`"),
        ("action = \"encrypt\", role = \"a\", reseal = \"symmetric\", accept = [\"symmetric\"]", "add \"public-key\""),
        ("action = \"decrypt\", context = \"\"", "1 to 1024 bytes"),
        (&*long, "1 to 1024 bytes"),
        ("action = \"encrypt\", scheme = \"symmetric\", accept = [\"symmetric\"]", "`accept` is only valid with"),
        ("action = \"decrypt\", accept = []", "one kind at least"),
        ("action = \"decrypt\", accept = [\"symmetric\", \"symmetric\"]", "none twice"),
        ("action = \"decrypt\", accept = [\"symetric\"]", "a kind of envelopes is"),
        ("action = \"encrypt\", scheme = \"xaes\"", "must be one of"),
    ] {
        let problems = read(rule).map(|_| ()).unwrap_err();
        assert!(problems.iter().any(|problem| problem.message.contains(fault)), "{rule}: {problems:?}");
    }
}

/// The values of a patch's operations are not where they will be.
#[test]
fn operations_of_patches_are_not_bound_to_places() {
    for (rule, is_fine) in [
        ("scheme = \"symmetric\", context = \"a\"", true),
        ("scheme = \"symmetric\", context_select = \"id\"", false),
        ("scheme = \"symmetric\", bind = \"path\"", false),
    ] {
        for direction in ["request", "response"] {
            let rules = format!("{direction} = [{{ action = \"encrypt\", json = [\"$.a\"], {rule} }}]");
            let text = inbound(&format!("path = \"/\"\napp = \"a\"\npatches = \"operations\"\n{rules}\n"));
            let found = parse(&text).map(|_| ());
            let is_reported = found.as_ref().is_err_and(|all| all[0].message.contains("no rule may have"));
            assert_eq!((found.is_ok(), is_reported), (is_fine, !is_fine), "{rule} {direction}: {found:?}");
        }
    }
}

/// What a rule has encrypted, a later one of the same direction must not reveal again.
#[test]
fn a_rule_must_not_decrypt_what_an_earlier_one_encrypts() {
    let parse_rules = |direction: &str, setting: &str, rules: [(&str, &str); 2]| {
        let [one, other] = rules.map(|(action, rest)| format!("{{ action = \"{action}\", {rest} }},\n"));
        let text = inbound(&format!("path = \"/\"\napp = \"a\"\n{direction} = [\n{one}{other}]\n"));
        parse(&text.replace("[[inbound]]", &format!("[[inbound]]\n{setting}")))
    };
    for (setting, first, second, part) in [
        ("", "json = [\"$.card\"]", "json = [\"$..number\"]", "JSON value"),
        ("", "form = [\"card\"]", "form = [\"*\"]", "form field"),
        ("", "query = [\"card\"]", "query = [\"card\"]", "query parameter"),
        ("", "headers = [\"x-card\"]", "headers = [\"X-Card\"]", "header field"),
        ("", "json = [\"$.card\"]", "json = [\"$.card\"], role = \"pci\", on_failure = \"leave\"", "JSON value"),
        ("other_case_names = \"same\"", "json = [\"$.card\"]", "json = [\"$.Card\"]", "JSON value"),
        ("other_case_names = \"same\"", "form = [\"card\"]", "form = [\"Card\"]", "form field"),
    ] {
        let problems = parse_rules("request", setting, [("encrypt", first), ("decrypt", second)]).unwrap_err();
        let [problem] = &problems[..] else { panic!("{first}, {second}: {problems:?}") };
        assert!(problem.line == 15 && problem.message.contains("line 14"), "{problem}");
        assert!(problem.message.contains(part) && problem.message.contains("in the clear"), "{problem}");
        // The other order encrypts what was decrypted.
        let reordered = parse_rules("request", setting, [("decrypt", second), ("encrypt", first)]);
        assert!(reordered.is_ok(), "{first}, {second}: {reordered:?}");
    }
    for (first, second) in
        [("json = [\"$.card\"]", "json = [\"$.name\"]"), ("form = [\"card\"]", "json = [\"$.card\"]")]
    {
        let parsed = parse_rules("response", "", [("encrypt", first), ("decrypt", second)]);
        assert!(parsed.is_ok(), "{first}, {second}: {parsed:?}");
    }
}

#[test]
fn fields_have_names() {
    for (key, name, is_valid) in [
        ("form", "card number", true),
        ("query", "karte[n\u{fc}mmer]", true),
        ("form", "", false),
        ("query", " ", false),
        ("form", "card\\u0000", false),
        ("query", "card\\n", false),
    ] {
        let rule =
            format!("[[inbound.route]]\npath = \"/a\"\nrequest = [{{ action = \"redact\", {key} = [\"{name}\"] }}]");
        let text = format!("[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n{rule}");
        match parse(&text) {
            Ok(_) => assert!(is_valid, "{text}"),
            Err(problems) => {
                assert!(
                    !is_valid && problems[0].message.contains("must not be empty or contain control"),
                    "{problems:?}"
                );
            }
        }
    }
}

/// The first match applies: of two routes in the wrong order the second is never reached.
#[test]
fn unreachable_routes_are_reported() {
    let hides = "app = \"a\"\nrequest = [{ action = \"encrypt\", json = [\"$\"], require_match = true }]\n";
    let listener = "[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\nunmatched = \"refuse\"\n";
    let warnings_of = |first: &str, second: &str, hides: &str, setting: &str| {
        let text = format!("{listener}{setting}\n[[inbound.route]]\n{first}\n[[inbound.route]]\n{second}\n{hides}");
        parse(&text).unwrap().warnings
    };
    for (first, second) in [
        ("path = \"/a/**\"", "path = \"/a/b\""),
        ("path = \"/**\"", "path = \"/a/b\"\nhosts = [\"x\"]\nmethods = [\"PUT\"]"),
        (
            "path = \"/a\"\nhosts = [\"*.x\", \"y\"]\nmethods = [\"put\"]",
            "path = \"/a\"\nhosts = [\"y\", \"a.x\"]\nmethods = [\"PUT\"]",
        ),
    ] {
        let warnings = warnings_of(first, second, hides, "");
        let [warning] = warnings.as_slice() else { panic!("{warnings:?} of {first}, {second}") };
        assert!(warning.message.contains("line 11") && warning.message.contains("in the clear"), "{warning}");
        assert_eq!(warning.line, 13 + first.matches('\n').count());
        assert!(!warnings_of(first, second, "", "")[0].message.contains("in the clear"), "it hides nothing");
    }
    for (first, second) in [
        ("path = \"/a/b\"", "path = \"/a/**\""),
        ("path = \"/a/**\"\nmethods = [\"GET\"]", "path = \"/a/b\""),
        ("path = \"/a/**\"\nhosts = [\"x\"]", "path = \"/a/b\""),
        ("path = \"/A/**\"", "path = \"/a/b\""),
    ] {
        assert_eq!(warnings_of(first, second, hides, ""), [], "{first}, {second}");
    }
    assert_eq!(warnings_of("path = \"/A/**\"", "path = \"/a/b\"", hides, "other_case = \"same\"").len(), 1);
    // Two together.
    let both = "path = \"/a/**\"\nhosts = [\"x\"]\n[[inbound.route]]\npath = \"/a/b\"\nhosts = [\"y\"]";
    let warnings = warnings_of(both, "path = \"/a/b\"\nhosts = [\"y\", \"x\"]", hides, "");
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.message.contains("2 earlier ones, from line 11 to line 14, match all its requests"), "{warning}");
}

#[test]
fn unreachable_destinations_are_reported() {
    let warnings_of = |first: &str, second: &str| {
        let listener = "[[outbound]]\naddress = \"127.0.0.1:0\"\nca_certificate = \"a\"\nca_private_key = \"b\"\n";
        let hides = "response = [{ action = \"redact\", json = [\"$\"], require_match = true }]\n";
        let text = format!("{listener}[[outbound.destination]]\n{first}\n[[outbound.destination]]\n{second}\n{hides}");
        parse(&text).unwrap().warnings
    };
    let narrow = "hosts = [\"a.example.com\"]\npaths = [\"/x\", \"/y/**\"]";
    let warnings = warnings_of("hosts = [\"*.example.com\"]", narrow);
    assert!(warnings.len() == 1 && warnings[0].line == 12 && warnings[0].message.contains("line 10"), "{warnings:?}");
    assert!(warnings[0].message.contains("in the clear"));
    assert_eq!(warnings_of(narrow, "hosts = [\"*.example.com\"]"), []);
    assert_eq!(warnings_of(narrow, "hosts = [\"a.example.com\"]\npaths = [\"/x\", \"/z\"]"), []);
    assert_eq!(warnings_of(narrow, "hosts = [\"a.example.com\"]\npaths = [\"/y/1\"]").len(), 1);
}

/// `UPDATE=1 cargo test --profile checked --workspace --lib documentation` writes the tables.
#[test]
fn the_documentation_has_the_keys_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/relay-settings.md");
    let found = std::fs::read_to_string(path).unwrap();
    let expected = Configuration::shape().fill(&found).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert!(found == expected, "docs/relay-settings.md is not what the code says: run this test with UPDATE=1");
    }
}

#[test]
fn the_example_has_every_key_and_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/relay.toml");
    let example = std::fs::read_to_string(path).unwrap();
    let configuration = Configuration::parse(&example).unwrap();
    assert_eq!(configuration.warnings, []);
    assert_eq!(configuration.limits, Limits::default());
    assert_eq!(configuration.upstream, UpstreamSettings::default());
    let threads = configuration.process.threads;
    assert_eq!(configuration.process, Process { threads, ..Process::default() });
    assert_eq!(configuration.engine.calls, Calls::default());
    let keys = Configuration::shape().paths();
    assert!(keys.len() > 60, "{keys:?}");
    for key in keys.iter().filter_map(|path| path.rsplit('.').next()) {
        let is_shown = example.contains(&format!("{key} = ")) || example.contains(&format!("{key}]"));
        assert!(is_shown, "{key} in examples/relay.toml");
    }
}

#[test]
fn destinations_decrypt_everything_by_default() {
    let text = "[[outbound]]\naddress = \"127.0.0.1:0\"\nca_certificate = \"a\"\nca_private_key = \"b\"\n\
        [[outbound.destination]]\nhosts = [\"*.example.com\"]\n[[outbound.destination]]\nhosts = [\"x\"]\nrequest = []\n";
    let configuration = parse(text).unwrap();
    let [first, second] = configuration.outbound[0].destinations.as_slice() else { panic!("two destinations") };
    assert_eq!(first.request.rules[0].action, Action::Decrypt);
    assert!(second.request.is_empty());
    let listener = &configuration.outbound[0];
    assert_eq!((listener.unlisted, listener.other_case), (Unlisted::Refuse, OtherCase::Refuse));
    for (word, expected) in [("same", OtherCase::Same), ("other", OtherCase::Other), ("refuse", OtherCase::Refuse)] {
        let said = text.replace("[[outbound]]", &format!("[[outbound]]\nother_case = \"{word}\""));
        assert_eq!(parse(&said).unwrap().outbound[0].other_case, expected);
    }
}

#[test]
fn errors_are_reported_with_their_line() {
    let rule = |rule: &str| inbound(&format!("path = \"/\"\napp = \"a\"\nrequest = [{{ {rule} }}]\n"));
    for (text, line, part) in [
        ("", 1, "no listener"),
        ("[engin]\n", 6, "there is no key engin; did you mean engine?"),
        ("[limits]\nbody_size_max = \"1 parsec\"\n", 7, "64KiB"),
        ("[limits]\nidle_timeout = 5\n", 7, "limits.idle_timeout must be a duration from 1ms"),
        ("[relay]\nbody_scheduling = \"sometimes\"\n", 7, "relay.body_scheduling must be one of \"normal\", \"idle\""),
        ("[limits]\nheader_size_max = 1000\n", 7, "limits.header_size_max must be a size from 8KiB to 16MiB"),
        ("[limits]\nheader_size_max = \"17MiB\"\n", 7, "to 16MiB"),
        ("[upstream]\nheader_size_max = 8191\n", 7, "upstream.header_size_max must be a size from 8KiB"),
        ("[upstream]\nstream_window = 65534\n", 7, "upstream.stream_window must be a size from 65535"),
        (
            "[upstream]\nconnection_window = \"2GiB\"\n",
            7,
            "upstream.connection_window must be a size from 65535 to 2147483647",
        ),
        (
            "[limits]\ntrusted_balancers = [\"ten\"]\n",
            7,
            "limits.trusted_balancers must be a list of IP addresses and networks",
        ),
        ("[upstream]\nping_interval = \"0s\"\n", 7, "from 1ms"),
        ("[limits]\nbodies_size_max = \"1MiB\"\n", 1, "limits.bodies_size_max must be at least"),
        ("[limits]\nclient_bodies_size_max = \"1MiB\"\n", 1, "limits.client_bodies_size_max must be at least"),
        ("[[inbound]]\naddress = \"127.0.0.1:0\"\n", 7, "unmatched"),
        ("[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"ftp://x\"\n", 8, "http://HOST:PORT"),
        ("[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://x/y\"\n", 8, "without a path"),
        (&inbound("path = \"/a//b\"\n"), 10, "no empty segment"),
        (&inbound("path = \"/\"\nhosts = [\"a b\"]\n"), 11, "host pattern"),
        (&inbound("path = \"/\"\nrequest = [{ action = \"encrypt\", json = [\"$\"] }]\n"), 9, "name the app"),
        (&rule("action = \"encrypt\""), 12, "selects nothing"),
        (
            &rule("action = \"redact\", query = [\"a\"]").replace("request", "response"),
            12,
            "`query` is only valid for requests",
        ),
        (&rule("action = \"encrypt\", json = [\"$[\"]"), 12, "selector"),
        (&rule("action = \"encrypt\", headers = [\"Host\"]"), 12, "cannot be changed"),
        (&rule("action = \"encrypt\", json = [\"$\"], role = \"PCI\""), 12, "data role"),
        (&rule("action = \"encrypt\", json = [\"$\"], replacement = \"x\""), 12, "only valid with action = \"redact\""),
        (
            &rule("action = \"burn\", json = [\"$\"]"),
            12,
            "inbound[0].route[0].request[0].action must be one of \"encrypt\", \"decrypt\", \"redact\"",
        ),
    ] {
        let problems = parse(text).expect_err(part);
        let found = problems.iter().find(|problem| problem.message.contains(part));
        assert!(found.is_some_and(|problem| problem.line == line), "{part} in line {line}: {problems:?}");
    }
}

/// As in the engine's file: one run reports all.
#[test]
fn all_faults_of_shape_are_reported_at_once_with_line_and_column() {
    let text = "[relay]\naccess_log = \"yes\"\ntheads = 3\n[limits]\nbody_size_max = \"64MB\"\n[[inbound]]\nadress = \"127.0.0.1:0\"\n\
        [[inbound.route]]\npath = \"/\"\nrequest = [{ action = \"encrypts\", json = \"$\" }]\n";
    let problems: Vec<String> = Configuration::parse(text).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "1:1: the key engine is missing",
            "2:14: relay.access_log must be true or false: write true, not \"yes\"",
            "3:1: there is no key relay.theads; did you mean relay.threads?",
            "5:17: limits.body_size_max must be a size from 1 to 1024GiB, such as 65536 or \"64KiB\"",
            "6:1: the key inbound[0].address is missing",
            "7:1: there is no key inbound[0].adress; did you mean address?",
            "10:23: inbound[0].route[0].request[0].action must be one of \"encrypt\", \"decrypt\", \"redact\"",
            "10:42: inbound[0].route[0].request[0].json must be a list of texts: write [\"$\"]",
        ]
    );
}

/// What is shown of the example is the example, with the same meaning.
#[test]
fn a_shown_file_means_the_same() {
    let example = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/relay.toml")).unwrap();
    let shown = leafseal_config::TomlDocument::parse(&example).unwrap().show(Configuration::shape());
    let (before, after) = (Configuration::parse(&example).unwrap(), Configuration::parse(&shown).unwrap());
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
}
