//! The resources of an engine during long mixed load.

use serde_json::{Value, json};

use leafseal_load::report::{Provenance, duration_of};

use super::mebibytes;
use crate::soak::{Outcome, Plan, Quarter};

/// The experiment as JSON.
pub(crate) fn soak_json(plan: &Plan, outcome: &Outcome, provenance: &Provenance) -> Value {
    let mut report = provenance.json("soak");
    report["settings"] = json!({
        "duration_ms": u64::try_from(plan.duration.as_millis()).unwrap_or(u64::MAX),
        "connections": plan.connections,
        "seed": plan.seed,
    });
    let counts = outcome.counts;
    report["counts"] = json!({
        "round_trips": counts.round_trips,
        "fields": counts.fields,
        "cancelled": counts.cancelled,
        "cancelled_too_late": counts.cancelled_too_late,
        "late": counts.late,
        "late_but_done": counts.late_but_done,
        "reconnected": counts.reconnected,
    });
    let quarter = |quarter: &Quarter| {
        json!({
            "memory_bytes": quarter.memory,
            "memory_min_bytes": quarter.memory_min,
            "threads": quarter.threads,
            "descriptors": quarter.descriptors,
        })
    };
    report["quarters"] = outcome.quarters().iter().map(quarter).collect();
    report["grows"] = json!(outcome.growth().map(|growth| growth.is_growth()));
    report
}

/// The experiment for a terminal.
pub(crate) fn soak_text(plan: &Plan, outcome: &Outcome, provenance: &Provenance) -> String {
    let mut out = provenance.text();
    let counts = outcome.counts;
    out.push_str(&format!(
        "{} connections for {}: {} round trips with {} values, every result correct\n",
        plan.connections,
        duration_of(outcome.elapsed),
        counts.round_trips,
        counts.fields
    ));
    out.push_str(&format!(
        "{} requests cancelled ({} too late), {} deadlines passed ({} were met), {} connections dropped in the middle\n\n",
        counts.cancelled, counts.cancelled_too_late, counts.late, counts.late_but_done, counts.reconnected
    ));
    for (place, quarter) in outcome.quarters().iter().enumerate() {
        let Quarter { memory, memory_min, threads, descriptors } = quarter;
        let [memory, least] = [*memory, *memory_min].map(mebibytes);
        let held = format!("{memory:>11} (at least {least:>11}), {threads} threads, {descriptors} descriptors");
        out.push_str(&format!("quarter {}: {held}\n", place + 1));
    }
    if let Some(growth) = outcome.growth() {
        let judged = if growth.is_growth() { "IT GROWS" } else { "no growth" };
        let (memory, share) = (growth.memory / f64::from(1 << 20), growth.memory_share * 100.0);
        out.push_str(&format!(
            "last to second quarter: least memory {memory:+.1} MiB ({share:+.1} %), threads {:+}, descriptors {:+}: {judged}\n",
            growth.threads, growth.descriptors
        ));
    }
    out
}
