//! The clients' rules, `vectors/client/rules.json`, as a table in each client's language.

use std::fmt::Write;

use leafseal_conversations::{Avoid, CallAction, DecisionRow, Rules};

use super::GeneratedFile;
use super::names::{MARK, camel_case};
use crate::source::SourceFile;

const SOURCE: &str = "vectors/client/rules.json";
const RUST: &str = "crates/client/src/rules.rs";
const GO: &str = "clients/go/rules_generated.go";
const TYPESCRIPT: &str = "bindings/node/client/src/rules_generated.ts";
const JAVA: &str = "bindings/java/client/src/main/java/io/leafseal/client/Rules.java";

pub(super) fn outputs(sources: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let source = sources.iter().find(|source| source.path == SOURCE).ok_or(format!("{SOURCE} is missing"))?;
    let rules: Rules = serde_json::from_str(&source.text).map_err(|error| format!("{SOURCE}: {error}"))?;
    Ok(vec![
        GeneratedFile { path: RUST.into(), text: rust(&rules) },
        GeneratedFile { path: GO.into(), text: go(&rules) },
        GeneratedFile { path: JAVA.into(), text: java(&rules) },
        GeneratedFile { path: TYPESCRIPT.into(), text: typescript(&source.text) },
    ])
}

/// The numbers: name, value, unit, comment.
struct NumberRow {
    name: &'static str,
    value: u64,
    unit: NumberUnit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberUnit {
    Milliseconds,
    Count,
}

fn numbers(rules: &Rules) -> Vec<NumberRow> {
    let count = |name, value: usize| NumberRow { name, value: value as u64, unit: NumberUnit::Count };
    let time = |name, value| NumberRow { name, value, unit: NumberUnit::Milliseconds };
    vec![
        time("avoided", rules.avoided_ms),
        time("backoff_min", rules.backoff.min_ms),
        time("backoff_max", rules.backoff.max_ms),
        count("backoff_factor", rules.backoff.factor as usize),
        count("retries_max", rules.retries_max as usize),
        count("credit_start", rules.budget.start as usize),
        count("credit_max", rules.budget.max as usize),
        count("retry_cost", rules.budget.retry_cost as usize),
        count("credit_earned", rules.budget.earned as usize),
        count("connections_max", rules.connections_max),
        count("requests_in_flight_max", rules.requests_in_flight_max),
        time("connect_timeout", rules.connect_timeout_ms),
        time("request_timeout", rules.request_timeout_ms),
        time("abandoned_timeout", rules.abandoned_timeout_ms),
    ]
}

fn rust(rules: &Rules) -> String {
    let mut text =
        format!("//! The client's action after each event, and all durations. {MARK}\n//! Source: `{SOURCE}`.\n\n");
    text.push_str("use std::time::Duration;\n\nuse leafseal_protocol::Method;\n\n");
    text.push_str("use crate::rule::{AttemptAction, AttemptEvent, AvoidRule, OutcomeRule};\n\n");
    text.push_str("#[rustfmt::skip]\npub(crate) const OUTCOMES: &[OutcomeRule] = &[\n");
    for DecisionRow { event, code, sent, elsewhere, action } in &rules.outcomes {
        let (event, action) = (camel_case(event), camel_case(&name_of(*action)));
        let _ = writeln!(
            text,
            "    OutcomeRule {{ event: AttemptEvent::{event}, code: {code:?}, sent: {sent:?},\n        elsewhere: {elsewhere:?}, \
             action: AttemptAction::{action} }},"
        );
    }
    text.push_str("];\n\n#[rustfmt::skip]\npub(crate) const AVOID: &[AvoidRule] = &[\n");
    for Avoid { event, code, until_success } in &rules.avoid {
        let event = camel_case(event);
        let _ = writeln!(
            text,
            "    AvoidRule {{ event: AttemptEvent::{event}, code: {code:?}, until_success: {until_success} }},"
        );
    }
    text.push_str("];\n\n");
    for NumberRow { name, value, unit } in numbers(rules) {
        let name = name.to_uppercase();
        let _ = match (unit, name.as_str()) {
            (NumberUnit::Milliseconds, _) => {
                writeln!(text, "pub(crate) const {name}: Duration = Duration::from_millis({});", grouped(value))
            }
            (NumberUnit::Count, "CONNECTIONS_MAX" | "REQUESTS_IN_FLIGHT_MAX") => {
                writeln!(text, "pub(crate) const {name}: usize = {};", grouped(value))
            }
            (NumberUnit::Count, _) => writeln!(text, "pub(crate) const {name}: u32 = {};", grouped(value)),
        };
    }
    let (from, to) = (rules.backoff.jitter_from, rules.backoff.jitter_to);
    let _ = writeln!(text, "pub(crate) const JITTER_FROM: f64 = {from:?};\npub(crate) const JITTER_TO: f64 = {to:?};");
    let except: Vec<String> =
        rules.budget.earned_except.iter().map(|name| format!("Method::{}", camel_case(name))).collect();
    let _ = writeln!(text, "pub(crate) const EARNED_EXCEPT: &[Method] = &[{}];", except.join(", "));
    text
}

fn go(rules: &Rules) -> String {
    let mut text = format!("// {MARK}\n// Source: {SOURCE}\n\npackage leafseal\n\nimport \"time\"\n\n");
    text.push_str(
        "// condition is part of a rule; the zero value fits everything.\ntype condition int8\n\nconst (\n\tisAny condition = iota\n\t\
         isTrue\n\tisFalse\n)\n\ntype action int8\n\nconst (\n\tactionFail action = iota\n\tactionRetryElsewhere\n\t\
         actionRetryLater\n\tactionRetryCharged\n)\n\n// outcomeRule is a line of the decision table; the code \"\" or \"*\" fits \
         everything.\ntype outcomeRule struct {\n\tevent, code     string\n\tsent, elsewhere condition\n\taction          \
         action\n}\n\nvar outcomeRules = []outcomeRule{\n",
    );
    for DecisionRow { event, code, sent, elsewhere, action } in &rules.outcomes {
        let code = code.as_deref().unwrap_or_default();
        let action = camel_case(&name_of(*action));
        let condition = |condition: &Option<bool>| match condition {
            None => "isAny",
            Some(true) => "isTrue",
            Some(false) => "isFalse",
        };
        let (sent, elsewhere) = (condition(sent), condition(elsewhere));
        let _ = writeln!(text, "\t{{{event:?}, {code:?}, {sent}, {elsewhere}, action{action}}},");
    }
    text.push_str(
        "}\n\n// avoidRule is an event after which a place is avoided.\ntype avoidRule struct {\n\tevent, code  string\n\t\
         untilSuccess bool\n}\n\nvar avoidRules = []avoidRule{\n",
    );
    for Avoid { event, code, until_success } in &rules.avoid {
        let _ = writeln!(text, "\t{{{event:?}, {code:?}, {until_success}}},");
    }
    text.push_str("}\n\n");
    for NumberRow { name, value, unit } in numbers(rules) {
        let _ = match unit {
            NumberUnit::Milliseconds => writeln!(text, "const rule{} = {value} * time.Millisecond", camel_case(name)),
            NumberUnit::Count => writeln!(text, "const rule{} = {value}", camel_case(name)),
        };
    }
    let (from, to) = (rules.backoff.jitter_from, rules.backoff.jitter_to);
    let _ = writeln!(text, "const ruleJitterFrom = {from:?}\nconst ruleJitterTo = {to:?}\n");
    let except: Vec<String> = rules.budget.earned_except.iter().map(|name| format!("{name:?}: true")).collect();
    let _ = writeln!(text, "// ruleEarnedExcept has the methods whose answers earn no credit.");
    let _ = writeln!(text, "var ruleEarnedExcept = map[string]bool{{{}}}", except.join(", "));
    text
}

fn java(rules: &Rules) -> String {
    let mut text = format!(
        "// {MARK}\n// Source: {SOURCE}\npackage io.leafseal.client;\n\nimport java.time.Duration;\nimport java.util.List;\n\
         import java.util.Set;\n\n/** The client's action after each event, and all durations. */\n\
         final class Rules {{\n    private Rules() {{}}\n\n"
    );
    text.push_str(
        "    enum Action {\n        FAIL,\n        RETRY_ELSEWHERE,\n        RETRY_LATER,\n        RETRY_CHARGED\n    }\n\n    \
         /** A line of the decision table; what is null, and the code \"*\", fits everything. */\n    \
         record Outcome(String event, String code, Boolean sent, Boolean elsewhere, Action action) {}\n\n    \
         /** An event after which a place is avoided. */\n    \
         record Avoid(String event, String code, boolean untilSuccess) {}\n\n    static final List<Outcome> OUTCOMES = List.of(\n",
    );
    let null = |value: Option<String>| value.unwrap_or("null".into());
    let outcomes = rules.outcomes.iter().map(|DecisionRow { event, code, sent, elsewhere, action }| {
        let code = null(code.as_ref().map(|code| format!("{code:?}")));
        let (sent, elsewhere) = (null(sent.map(|sent| sent.to_string())), null(elsewhere.map(|is| is.to_string())));
        let action = name_of(*action).to_uppercase();
        format!("        new Outcome({event:?}, {code}, {sent}, {elsewhere}, Action.{action})")
    });
    let avoid = rules
        .avoid
        .iter()
        .map(|Avoid { event, code, until_success }| format!("        new Avoid({event:?}, {code:?}, {until_success})"));
    let (outcomes, avoid) = (outcomes.collect::<Vec<_>>().join(",\n"), avoid.collect::<Vec<_>>().join(",\n"));
    let _ = writeln!(text, "{outcomes});\n\n    static final List<Avoid> AVOID = List.of(\n{avoid});\n");
    for NumberRow { name, value, unit } in numbers(rules) {
        let name = name.to_uppercase();
        let _ = match unit {
            NumberUnit::Milliseconds => {
                writeln!(text, "    static final Duration {name} = Duration.ofMillis({value});")
            }
            NumberUnit::Count => writeln!(text, "    static final int {name} = {value};"),
        };
    }
    let (from, to) = (rules.backoff.jitter_from, rules.backoff.jitter_to);
    let _ =
        writeln!(text, "    static final double JITTER_FROM = {from:?};\n    static final double JITTER_TO = {to:?};");
    let except: Vec<String> = rules.budget.earned_except.iter().map(|name| format!("{name:?}")).collect();
    let _ = writeln!(text, "    /** The methods whose answers earn no credit. */");
    let _ = writeln!(text, "    static final Set<String> EARNED_EXCEPT = Set.of({});\n}}", except.join(", "));
    text
}

/// The file itself, because JSON is an expression of TypeScript.
fn typescript(json: &str) -> String {
    format!("// {MARK}\n// Source: {SOURCE}\n\nexport const RULES = {} as const;\n", json.trim_end())
}

fn name_of(action: CallAction) -> String {
    let name = serde_json::to_value(action).expect("a string");
    name.as_str().expect("a string").to_owned()
}

/// Digits as Rust groups them from five digits on.
fn grouped(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        _ => format!("{}_{:03}", value / 1000, value % 1000),
    }
}
