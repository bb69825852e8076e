//! The effect of large requests on small ones.

use serde_json::{Value, json};

use leafseal_load::report::{Provenance, duration, duration_of, latencies_json, micros, thousandths};

use super::verdict;
use crate::interference::{Case, Outcome, Plan};
use leafseal_load::metrics::Buckets;

/// The experiment as JSON.
pub(crate) fn interference_json(plan: &Plan, outcome: &Outcome, provenance: &Provenance) -> Value {
    let mut report = provenance.json("interference");
    report["settings"] = json!({
        "scheme": plan.small.scheme().as_str(),
        "small_fields": plan.small.fields,
        "rate": plan.rate,
        "large_fields": plan.large.fields,
        "large_connections": plan.large_connections,
        "round_ms": u64::try_from(plan.round.as_millis()).unwrap_or(u64::MAX),
        "seed": plan.seed,
    });
    let case = |(case, round): &(Case, crate::interference::Round)| {
        let large_fields_per_s = (!round.large_elapsed.is_zero())
            .then(|| (round.large.ok() * plan.large.fields as u64) as f64 / round.large_elapsed.as_secs_f64());
        json!({
            "case": case.as_str(),
            "requests": round.small.ok(),
            "errors": round.small.errors,
            "unsent": round.small.unsent,
            "latency_us": latencies_json(&round.small.latencies),
            "large_requests": round.large.ok(),
            "large_fields_per_s": large_fields_per_s.map(f64::round),
            "queue_wait_us": round.queue_waits.as_ref().map(waits_json),
        })
    };
    report["cases"] = outcome.cases.iter().map(case).collect();
    let verdict = outcome.verdict();
    report["verdict"] = json!({
        "p99_to_alone": thousandths(verdict.to_alone),
        "p99_to_floor": thousandths(verdict.to_floor),
        "kept": verdict.is_kept(),
    });
    report
}

/// Upper bounds of buckets; null for the last one, which has none.
fn waits_json(waits: &Buckets) -> Value {
    let at = |share| Some(waits.quantile(share)).filter(|end| end.is_finite()).map(micros);
    json!({ "count": waits.count(), "p50": at(0.5), "p99": at(0.99), "max": at(1.0) })
}

/// The experiment for a terminal.
pub(crate) fn interference_text(plan: &Plan, outcome: &Outcome, provenance: &Provenance) -> String {
    let mut out = provenance.text();
    out.push_str(&format!(
        "{}: {} values per request, {} requests per second; in addition {} connections that loop requests of {} values\n\n",
        plan.small.scheme().as_str(), plan.small.fields, plan.rate, plan.large_connections, plan.large.fields
    ));
    let head = format!("{:34} {:>8} {:>9} {:>9} {:>9} {:>9}", "", "requests", "p50", "p99", "p99.9", "max");
    out.push_str(&format!("{head}  large values/s\n"));
    for (case, round) in &outcome.cases {
        let latencies = &round.small.latencies;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| duration_of(latencies.quantile(share)));
        let max = duration_of(latencies.max());
        let large = (round.large.ok() * plan.large.fields as u64) as f64 / round.large_elapsed.as_secs_f64().max(1e-9);
        let large = if round.large_elapsed.is_zero() { String::from("-") } else { format!("{large:.0}") };
        let what = format!("{:34} {:>8}", case.title(), latencies.count());
        out.push_str(&format!("{what} {p50:>9} {p99:>9} {p999:>9} {max:>9} {large:>15}\n"));
    }
    for (case, waits) in outcome.cases.iter().filter_map(|(case, round)| Some((case, round.queue_waits.as_ref()?))) {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| duration(waits.quantile(share)));
        let waits = format!("p50 {p50}, p99 {p99}, at most {max} (upper ends of buckets)");
        out.push_str(&format!("\nwaits for a worker, {}: {waits}", case.title()));
    }
    let judged = outcome.verdict();
    out.push_str(&format!(
        "\np99 beside large requests is {:.2} times p99 alone (at most {}) and {:.2} times \
         the floor under the same traffic (or at most {}): {}\n",
        judged.to_alone,
        crate::interference::TO_ALONE_MAX,
        judged.to_floor,
        crate::interference::TO_FLOOR_MAX,
        verdict(judged.is_kept())
    ));
    out
}
