//! The benchmark's table: a row for each kind of request.

use leafseal_client::Curve;
use serde_json::{Value, json};

use super::{Provenance, duration, micros, tenths, thousandths};
use crate::arrivals::ArrivalProcess;
use crate::table::{Loop, RowFigures, TablePlan, TableRow};

/// The table as JSON.
pub fn table_json(plan: &TablePlan, rows: &[TableRow], provenance: &Provenance) -> Value {
    let mut report = provenance.json("table");
    let (model, rate) = match plan.model {
        Loop::Closed => ("closed", None),
        Loop::Open { rate, process: ArrivalProcess::Even } => ("open, even", Some(rate)),
        Loop::Open { rate, process: ArrivalProcess::Poisson } => ("open, poisson", Some(rate)),
    };
    report["settings"] = json!({
        "field_size": plan.field_size,
        "connections": plan.connections,
        "in_flight": plan.in_flight,
        "loop": model,
        "rate": rate,
        "duration_ms": u64::try_from(plan.duration.as_millis()).unwrap_or(u64::MAX),
        "rounds": plan.rounds,
        "seed": plan.seed,
    });
    report["rows"] = rows.iter().map(row_json).collect();
    report
}

fn row_json(row: &TableRow) -> Value {
    let figures = row.figures();
    let [p50, p90, p99] = figures.percentiles.map(micros);
    json!({
        "fields": row.content.fields,
        "operation": row.operation.as_str(),
        "scheme": row.content.scheme().as_str(),
        "curve": row.content.curve.map(Curve::as_str),
        "keying": row.content.keying.as_str(),
        "requests": row.rounds.iter().map(|round| round.requests).sum::<u64>(),
        "unsent": row.rounds.iter().map(|round| round.unsent).sum::<u64>(),
        "rounds": row.rounds.len(),
        "in_flight": row.in_flight,
        "distinct_requests": row.distinct_requests,
        "verified": true,
        "fields_per_s": tenths(figures.fields_per_s),
        "requests_per_s": tenths(figures.requests_per_s),
        "spread": thousandths(figures.spread),
        "latency_us": { "p50": p50, "p90": p90, "p99": p99, "max": micros(figures.max) },
        "server_cpu": figures.cpu.map(|cpu| json!({
            "per_request_us": thousandths(cpu.per_request * 1e6),
            "per_field_ns": tenths(cpu.per_field * 1e9),
            "network_share": thousandths(cpu.network),
            "workers_share": thousandths(cpu.workers),
            "cores_busy": thousandths(cpu.cores),
            "load_per_request_us": thousandths(figures.load_per_request * 1e6),
        })),
    })
}

/// The table for a terminal.
pub fn table_text(plan: &TablePlan, rows: &[TableRow], provenance: &Provenance) -> String {
    let mut out = provenance.text();
    let model = match plan.model {
        Loop::Closed => format!("{} connections with {} requests in flight each", plan.connections, plan.in_flight),
        Loop::Open { rate, process } => {
            format!(
                "{} connections, {rate} requests per second together, {} arrivals",
                plan.connections,
                process.as_str()
            )
        }
    };
    out.push_str(&format!("values of {} bytes; {model}; medians of up to {} rounds\n\n", plan.field_size, plan.rounds));
    HEADS.iter().for_each(|head| out.push_str(&format!("{head}\n")));
    let mut before = None;
    for row in rows {
        if before.is_some_and(|fields| fields != row.content.fields) {
            out.push('\n');
        }
        before = Some(row.content.fields);
        out.push_str(&row_text(row));
    }
    out
}

const HEADS: [&str; 2] = [
    "                                                                     latency                          engine's CPU",
    "fields operation           keying   fields/s requests/s       p50       p90       p99       max   a request    a field  net work   ±",
];

fn row_text(row: &TableRow) -> String {
    let RowFigures { fields_per_s, requests_per_s, percentiles, max, cpu, spread, load_per_request: _ } = row.figures();
    let [p50, p90, p99] = percentiles.map(duration);
    let (operation, keying) = (row.operation.as_str(), row.content.keying.as_str());
    let sealed = row.content.curve.map_or(row.content.scheme().as_str(), Curve::as_str);
    let cpu = cpu.map_or_else(
        || format!("{:>11} {:>10} {:>4} {:>4}", "-", "-", "-", "-"),
        |cpu| {
            let percent = |share: f64| format!("{:.0}%", share * 100.0);
            let (request, field) = (duration(cpu.per_request), format!("{:.0} ns", cpu.per_field * 1e9));
            format!("{request:>11} {field:>10} {:>4} {:>4}", percent(cpu.network), percent(cpu.workers))
        },
    );
    let what = format!("{:>6} {operation} {sealed:<9} {keying:>7}", row.content.fields);
    let latency = format!("{p50:>9} {p90:>9} {p99:>9} {:>9}", duration(max));
    format!("{what} {fields_per_s:>10.0} {requests_per_s:>10.1} {latency} {cpu} {:>2.0}%\n", spread * 100.0)
}
