//! The behaviour of an engine under more load than it can process.

use serde_json::{Value, json};

use leafseal_load::report::{Provenance, duration_of, latencies_json, micros, tenths};

use super::{mebibytes, verdict};
use crate::overload::{HEALTH_MAX, Outcome, Plan, RECOVERY_TARGET};

/// The experiment as JSON. `memory_bound` is the engine's maximum resident memory in bytes.
pub(crate) fn overload_json(plan: &Plan, outcome: &Outcome, memory_bound: u64, provenance: &Provenance) -> Value {
    let mut report = provenance.json("overload");
    report["settings"] = json!({
        "fields": plan.content.fields,
        "keying": plan.content.keying.as_str(),
        "deadline_ms": plan.deadline_ms,
        "connections": plan.connections,
        "in_flight": plan.in_flight_max,
        "factor": plan.factor,
        "duration_ms": u64::try_from(plan.duration.as_millis()).unwrap_or(u64::MAX),
        "seed": plan.seed,
    });
    let tally = &outcome.tally;
    report["capacity_per_s"] = json!(tenths(outcome.capacity));
    report["offered_per_s"] = json!(tenths(outcome.offered));
    report["requests"] = json!({
        "sent": tally.sent,
        "ok": tally.ok(),
        "errors": tally.errors,
        "unsent": tally.unsent,
        "ok_latency_us": latencies_json(&tally.latencies),
    });
    let health = &outcome.health;
    report["health"] =
        json!({ "asked": health.sent, "errors": health.errors, "latency_us": latencies_json(&health.latencies) });
    let memory = outcome.memory;
    report["memory_bytes"] =
        json!({ "before": memory.before, "max": memory.max, "after": memory.after, "bound": memory_bound });
    report["drained_in_us"] = json!(micros(outcome.drained_in.as_secs_f64()));
    report["recovered_in_us"] = json!(outcome.recovered_in.map(|after| micros(after.as_secs_f64())));
    report["recovered_per_s"] = json!(tenths(outcome.recovered_rate));
    let verdicts = outcome.verdicts(memory_bound);
    report["verdicts"] = json!({
        "health": verdicts.health,
        "answered_once": verdicts.answered_once,
        "recovered": verdicts.recovered,
        "memory": verdicts.memory,
    });
    report
}

/// The experiment for a terminal.
pub(crate) fn overload_text(plan: &Plan, outcome: &Outcome, memory_bound: u64, provenance: &Provenance) -> String {
    let Outcome { capacity, offered, tally, health, memory, .. } = outcome;
    let judged = outcome.verdicts(memory_bound);
    let mut out = provenance.text();
    let mut line = |name: &str, text: String| out.push_str(&format!("{name:10} {text}\n"));
    let deadline = plan.deadline_ms.map(|ms| format!(" with a deadline of {ms} ms")).unwrap_or_default();
    line("requests", format!("{} values with a key each, encrypted{deadline}", plan.content.fields));
    line("capacity", format!("{capacity:.0} requests per second"));
    line("load", format!("{offered:.0} requests per second for {}", duration_of(plan.duration)));
    let errors: Vec<String> = tally.errors.iter().map(|(code, count)| format!(", {count} {code}")).collect();
    let answers = format!("{} sent, {} ok{}, {} never sent", tally.sent, tally.ok(), errors.concat(), tally.unsent);
    line("answers", format!("{answers}: each exactly once, {}", verdict(judged.answered_once)));
    let [p50, p99] = [0.5, 0.99].map(|share| duration_of(health.latencies.quantile(share)));
    let most = duration_of(health.latencies.max());
    let health = format!("{} requests, p50 {p50}, p99 {p99}, at most {most}", health.sent);
    line("health", format!("{health}: under {}, {}", duration_of(HEALTH_MAX), verdict(judged.health)));
    let [before, max, after, bound] =
        [memory.before, memory.max, memory.after, memory_bound].map(|bytes| mebibytes(bytes as f64));
    let memory = format!("{before} before, {max} at most, {after} afterwards");
    line("memory", format!("{memory}: within {bound}, {}", verdict(judged.memory)));
    let drained = duration_of(outcome.drained_in);
    let recovered = outcome.recovered_in.map_or_else(|| "never".to_owned(), duration_of);
    let target = duration_of(RECOVERY_TARGET);
    let after = format!(
        "all answered after {drained}, full speed ({:.0} per second) after {recovered}",
        outcome.recovered_rate
    );
    line("afterwards", format!("{after}: within {target}, {}", verdict(judged.recovered)));
    out
}
