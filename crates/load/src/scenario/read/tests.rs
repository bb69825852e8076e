//! Tests with valid, invalid and arbitrary files.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::scenario::flow::{FlowPosition, NextAction};

const PRINTED: &str = include_str!("../../../../../examples/load/printed.yml");

fn problems(text: &str) -> Vec<String> {
    Script::read(text).expect_err(text).iter().map(ToString::to_string).collect()
}

/// A file with this flow.
fn with_flow(flow: &str) -> String {
    format!(
        "config: {{ target: h, e3: {{ key: k, cert: c }}, phases: [{{ duration: 1, arrivalRate: 1 }}] }}\n\
         scenarios:\n- engine: e3\n  flow: {flow}\n"
    )
}

fn with_phase(phase: &str) -> String {
    const FILE: &str =
        "config: { target: h, e3: { key: k, cert: c } }\nscenarios: [{ engine: e3, flow: [{ think: 1 }] }]\n";
    FILE.replace(" } }\n", &format!(" }},\n  phases: [{phase}] }}\n"))
}

#[test]
fn the_published_scenario_is_parsed() {
    let script = Script::read(PRINTED).unwrap();
    assert_eq!((script.target.host.as_str(), script.target.port, script.target.connections), ("127.0.0.1", 3443, 2));
    assert_eq!(script.target.authority, TargetAuthority::BesideCertificate);
    let load = PhaseLoad::Open { from: 2.0, to: 2.0, process: ArrivalProcess::Even, users_max: None };
    assert_eq!(script.phases, [ScenarioPhase { name: None, duration: Duration::from_secs(90), load }]);
    let reported: Vec<(&str, u32, u64)> = script
        .scenarios
        .iter()
        .map(|scenario| (scenario.name.as_str(), scenario.weight, scenario.flow.requests()))
        .collect();
    assert_eq!(
        reported,
        [("Send 30 encryptions", 80, 1), ("Send 150 encryptions", 18, 1), ("Send 2000 encryptions", 2, 1)]
    );
    let sizes: Vec<usize> = script.kinds.iter().map(|kind| kind.fields).collect();
    assert_eq!(sizes, [30, 150, 2000]);
    assert_eq!(
        (script.kinds[0].field_size, script.kinds[0].curve, script.kinds[0].app.as_str()),
        (32, None, "app_dev")
    );
}

#[test]
fn every_key_is_read() {
    let send = "send: { numEncrypts: '7', fieldSize: 9, curve: k1, keying: field, decrypt: true, cancelAfter: 50ms, app: other }";
    let script =
        Script::read(&with_flow(&format!("[{{ {send} }}, {{ count: 2, loop: [{{ {send} }}, {{ think: 0.5 }}] }}]")))
            .unwrap();
    let kind = RequestKind {
        fields: 7,
        field_size: 9,
        curve: Some(Curve::K1),
        keying: Some(Keying::Field),
        decrypt: true,
        cancel_after: Some(Duration::from_millis(50)),
        app: "other".into(),
    };
    assert_eq!(script.kinds, [kind]);
    let mut cursor = FlowPosition::default();
    let steps: Vec<NextAction> = std::iter::repeat_with(|| cursor.advance(&script.scenarios[0].flow)).take(6).collect();
    let pause = NextAction::Think(Duration::from_millis(500));
    assert_eq!(steps, [NextAction::Send(0), NextAction::Send(0), pause, NextAction::Send(0), pause, NextAction::Done]);
}

#[test]
fn phases_take_their_forms() {
    let phase = |text: &str| Script::read(&with_phase(text)).map(|script| script.phases[0].clone());
    let open = |from, to, process, users_max| PhaseLoad::Open { from, to, process, users_max };
    for (text, seconds, load) in [
        ("{ duration: 10, arrivalRate: 1, rampTo: 5.5 }", 10.0, open(1.0, 5.5, ArrivalProcess::Even, None)),
        (
            "{ duration: '1.5m', arrivalRate: 0, rampTo: 5, mode: poisson, maxVusers: 3 }",
            90.0,
            open(0.0, 5.0, ArrivalProcess::Poisson, Some(3)),
        ),
        ("{ duration: 5, arrivalCount: 20 }", 5.0, open(4.0, 4.0, ArrivalProcess::Even, None)),
        ("{ pause: 250ms }", 0.25, PhaseLoad::Pause),
        ("{ duration: 1h, connections: 8, name: busy }", 3600.0, PhaseLoad::Closed { connections: 8 }),
    ] {
        let phase = phase(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        assert_eq!((phase.duration.as_secs_f64(), phase.load), (seconds, load), "{text}");
    }
    for (text, part) in [
        ("{ duration: 1 }", "a phase must have exactly one of"),
        ("{ duration: 1, arrivalRate: 1, arrivalCount: 1 }", "a phase must have exactly one of"),
        ("{ arrivalRate: 1 }", "the key `duration` is missing"),
        ("{ duration: 0, arrivalRate: 1 }", "a time above 0"),
        ("{ duration: 1, connections: 2, rampTo: 1 }", "not allowed together with `connections`"),
        ("{ duration: 1, arrivalRate: 0 }", "the phase has no arrivals"),
        ("{ duration: 1, arrivalRate: many }", "must be a number from 0 to 1000000, found `many`"),
        ("{ duration: 1, arrivalRate: -1 }", "found `-1`"),
        ("{ duration: 1 fortnight, arrivalRate: 1 }", "found `1 fortnight`"),
    ] {
        let found = Script::read(&with_phase(text)).expect_err(text)[0].to_string();
        assert!(found.contains(part), "{text}: {found}");
    }
}

#[test]
fn targets_are_hosts_with_a_port_or_without() {
    for (text, expected) in [
        ("engine.internal", Some(("engine.internal", None))),
        ("10.0.0.7:99", Some(("10.0.0.7", Some("99")))),
        ("::1", Some(("::1", None))),
        ("[::1]", Some(("::1", None))),
        ("[::1]:99", Some(("::1", Some("99")))),
        ("[::1", None),
        ("[::1]99", None),
        ("https://engine", None),
        (":99", None),
    ] {
        assert_eq!(split_address(text), expected, "{text}");
    }
    let both = with_flow("[{ think: 1 }]").replace("target: h, e3: {", "target: 'h:1', e3: { port: 2,");
    assert!(problems(&both)[0].contains("remove one of them"));
}

const WITH_ENVIRONMENTS: &str = "
x-times: &times { duration: 5, arrivalRate: 1 }
config:
  e3: { key: k, cert: c, connections: 3 }
  phases: [ { <<: *times, name: first }, { pause: 1 } ]
  environments:
    local: { target: h }
    staging:
      target: 's:99'
      e3: { app: shop }
      phases: [ { duration: 7 }, { pause: 2 }, { <<: *times, arrivalRate: 3 } ]
    broken: { target: h, phases: many }
    empty:
scenarios: [ { engine: e3, flow: [ { send: { numEncrypts: 1 } } ] } ]
";

#[test]
fn an_environment_changes_the_config_that_it_is_in() {
    let of = |name| Script::read_for(WITH_ENVIRONMENTS, name);
    let phases = |script: &Script| -> Vec<(u64, Option<f64>)> {
        let rate = |load| if let PhaseLoad::Open { from, .. } = load { Some(from) } else { None };
        script.phases.iter().map(|phase| (phase.duration.as_secs(), rate(phase.load))).collect()
    };
    let local = of(Some("local")).unwrap();
    assert_eq!((local.target.host.as_str(), local.target.port, local.target.connections), ("h", 3443, 3));
    assert_eq!(phases(&local), [(5, Some(1.0)), (1, None)]);
    assert_eq!((local.phases[0].name.as_deref(), local.kinds[0].app.as_str()), (Some("first"), "app_dev"));
    let staging = of(Some("staging")).unwrap();
    assert_eq!((staging.target.host.as_str(), staging.target.port, staging.target.connections), ("s", 99, 3));
    assert_eq!(phases(&staging), [(7, Some(1.0)), (2, None), (5, Some(3.0))]);
    assert_eq!((staging.phases[0].name.as_deref(), staging.kinds[0].app.as_str()), (Some("first"), "shop"));

    for (name, expected) in [
        (None, "4:3: config: the key `target` is missing"),
        (Some("broken"), "12:34: config.phases: must be a list, found `many`"),
        (Some("other"), "2:1: unknown environment `other`: config.environments has local, staging, broken, empty"),
        (Some("empty"), "13:5: the environment `empty` is empty: write `{}` if it changes nothing"),
    ] {
        let problems = of(name).expect_err(expected);
        assert!(problems.iter().any(|problem| problem.to_string().starts_with(expected)), "{name:?}: {problems:?}");
    }
    let none = Script::read_for(&with_flow("[{ think: 1 }]"), Some("a")).unwrap_err();
    assert!(none[0].to_string().contains("the file has no config.environments"), "{none:?}");
    let unknown = WITH_ENVIRONMENTS.replace("local: { target: h }", "local: { target: h, environments: {} }");
    let problems = Script::read_for(&unknown, Some("staging")).unwrap_err();
    assert!(problems[0].to_string().contains("unknown key `config.environments.local.environments`"), "{problems:?}");
}

#[test]
fn the_scenarios_that_are_shipped_are_right() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/load");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "yml")).collect();
    assert!(files.len() >= 5, "{files:?}");
    for path in files {
        let script = Script::read(&std::fs::read_to_string(&path).unwrap());
        assert!(script.is_ok(), "{}: {script:?}", path.display());
    }
}

/// Every file of the corpus lists all of its errors in its last lines.
#[test]
fn the_errors_of_the_invalid_corpus_are_reported_line_by_line() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#! ")).collect();
        assert!(!expected.is_empty(), "{} says nothing", path.display());
        assert_eq!(problems(&text), expected, "{}", path.display());
        count += 1;
    }
    assert!(count >= 8, "{count} files");
}

/// Valid and invalid pieces of which random files are composed.
const PIECES: [&str; 24] = [
    "config:",
    "scenarios:",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ": ",
    "\n",
    "  ",
    "send: { numEncrypts: 1 }",
    "think: 1",
    "loop:",
    "count: 3",
    "phases:",
    "e3:",
    "&a ",
    "*a",
    "'",
    "\"",
    "#",
    "\u{fc}",
    "1e9",
];

/// Any file is either read or refused, with positions inside it and one line for each problem.
#[test]
fn no_file_is_answered_with_a_panic() {
    let count = std::env::var("LEAFSEAL_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(4000_u64);
    for seed in 0..count {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut text: Vec<char> = PRINTED.chars().collect();
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..text.len());
            match random.random_range(0..3) {
                0 => {
                    let end = (at + random.random_range(1..30)).min(text.len());
                    text.drain(at..end);
                }
                1 => {
                    let piece: Vec<char> = PIECES[random.random_range(0..PIECES.len())].chars().collect();
                    text.splice(at..at, piece);
                }
                _ => text.truncate(at.max(1)),
            }
            if text.is_empty() {
                text.push('a');
            }
        }
        let text: String = text.into_iter().collect();
        let lines = text.lines().count() + 1;
        match Script::read(&text) {
            Ok(script) => assert!(!script.phases.is_empty() && !script.scenarios.is_empty(), "seed {seed}"),
            Err(problems) => {
                assert!(!problems.is_empty(), "seed {seed}: refused and nothing said:\n{text}");
                for problem in problems {
                    assert!((1..=lines).contains(&problem.place.line), "seed {seed}: {problem} of {lines} lines");
                    assert!(!problem.message.contains('\n'), "seed {seed}: {problem}");
                }
            }
        }
    }
}
