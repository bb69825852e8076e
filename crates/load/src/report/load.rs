//! A load test's result as text for a terminal.

use std::collections::BTreeMap;

use super::{Provenance, duration};
use crate::result::{LoadResult, ResultSeries, Totals, samples_min};

const HEAD: &str =
    "                                              latency                              fields/s of a request";

/// Renders a result as a table.
pub fn load_text(result: &LoadResult, provenance: &Provenance) -> String {
    let mut out = provenance.text();
    let Totals { users, sent, ok, errors, fields, requests_per_s, fields_per_s, .. } = &result.totals;
    out.push_str(&format!(
        "{}: {} in {}, seed {}\n",
        result.scenario,
        result.ended,
        duration(result.elapsed_s),
        result.settings.seed
    ));
    out.push_str(&format!(
        "users    {} began, {} completed, {} failed, {} skipped\n",
        users.created, users.completed, users.failed, users.skipped
    ));
    let over = duration(result.measured_s());
    out.push_str(&format!(
        "requests {sent} sent, {ok} ok{}, {requests_per_s:.1} per second over {over}\n",
        error_counts(errors)
    ));
    out.push_str(&format!("fields   {fields}, {fields_per_s:.0} per second\n"));
    if let (Some(load), per_field) = (result.cpu.load_s, result.cpu.load_per_field_ns) {
        out.push_str(&format!("cpu      {} of the tester{}", duration(load), per_field_text(per_field)));
        if let Some(server) = result.cpu.server_s {
            let total = server.network + server.workers + server.other;
            let per_field = per_field_text(result.cpu.server_per_field_ns);
            out.push_str(&format!("; {} of the engine{per_field}", duration(total)));
        }
        out.push('\n');
        out.push_str(&cores_text(result).unwrap_or_default());
    }
    out.push_str(&format!(
        "\n{HEAD}\n      ok errors       p50       p90       p99       max        p50         p1  what\n"
    ));
    for series in &result.series {
        out.push_str(&series_text(series));
        out.push_str(&failures_text(series).unwrap_or_default());
    }
    out
}

/// The share of a core that the engine's threads used while the run was measured, which shows whether workers were saturated.
fn cores_text(result: &LoadResult) -> Option<String> {
    let measured = result.measured_s();
    let server = result.cpu.server_s.filter(|_| measured > 0.0)?;
    let [network, workers, other] = [server.network, server.workers, server.other].map(|seconds| seconds / measured);
    Some(format!(
        "cores    {network:.2} of the engine's network threads, {workers:.2} of its workers, {other:.2} of others\n"
    ))
}

fn per_field_text(nanoseconds: Option<f64>) -> String {
    nanoseconds.map(|ns| format!(", {ns:.0} ns per field")).unwrap_or_default()
}

fn error_counts(errors: &BTreeMap<String, u64>) -> String {
    errors.iter().map(|(code, count)| format!(", {count} {code}")).collect()
}

/// Placeholder for a missing figure.
const NONE: &str = "–";

/// Whether `count` samples are enough for a percentile; the maximum, with share 0, needs one.
fn carries(count: u64, share: f64) -> bool {
    count >= samples_min(share)
}

fn series_text(series: &ResultSeries) -> String {
    let errors: u64 = series.errors.values().sum();
    let latency = series.latency_us;
    let carried = |share: f64, figure: String| if carries(series.ok, share) { figure } else { NONE.to_owned() };
    let percentiles = [(0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99), (0.0, latency.max)];
    let [p50, p90, p99, max] = percentiles.map(|(share, us)| carried(share, duration(us / 1e6)));
    let speeds = [(0.5, series.fields_per_s.p50), (0.99, series.fields_per_s.p1)];
    let [speed_p50, speed_p1] = speeds.map(|(share, speed)| carried(share, format!("{speed:.0}")));
    format!(
        "{:>8} {errors:>6} {p50:>9} {p90:>9} {p99:>9} {max:>9} {speed_p50:>10} {speed_p1:>10}  {}{}\n",
        series.ok,
        series.name,
        error_counts(&series.errors)
    )
}

/// Durations of failed requests, which the latencies in the line above omit.
fn failures_text(series: &ResultSeries) -> Option<String> {
    let failed: u64 = series.errors.values().sum();
    let latency = series.failure_latency_us;
    let named = [("p50", 0.5, latency.p50), ("p99", 0.99, latency.p99), ("max", 0.0, latency.max)];
    let carried = named.into_iter().filter(|(_, share, _)| carries(failed, *share));
    let figures: Vec<String> = carried.map(|(name, _, us)| format!("{name} {}", duration(us / 1e6))).collect();
    let indent = " ".repeat(17);
    let what = format!("{failed} of {} that failed after {}", series.ok + failed, figures.join(", "));
    (failed > 0).then(|| format!("{indent}not in these latencies: {what}\n"))
}
