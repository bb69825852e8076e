//! Renders results as JSON (`docs/benchmarks.md` explains the fields) and as text for a terminal.

mod load;
mod table;

use std::time::Duration;

use serde_json::{Value, json};

use crate::latencies::Latencies;

pub use crate::provenance::{Provenance, SCHEMA};
pub use load::load_text;
pub use table::{table_json, table_text};

/// Percentiles of latencies in microseconds.
pub fn latencies_json(latencies: &Latencies) -> Value {
    let at = |share| micros(latencies.quantile(share).as_secs_f64());
    let max = micros(latencies.max().as_secs_f64());
    json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p99_9": at(0.999), "max": max })
}

/// Microseconds with one decimal.
pub fn micros(seconds: f64) -> f64 {
    tenths(seconds * 1e6)
}

/// Rounds to tenths.
pub fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Rounds to thousandths.
pub fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Formats a duration with three digits and a unit.
pub fn duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let digits = if number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {unit}")
}

/// The same for a [`Duration`].
pub fn duration_of(time: Duration) -> String {
    duration(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (seconds, text) in
            [(0.0, "0.00 µs"), (4.2e-7, "0.42 µs"), (117e-6, "117 µs"), (0.012_34, "12.3 ms"), (3.3, "3.30 s")]
        {
            assert_eq!(duration(seconds), text);
        }
    }
}
