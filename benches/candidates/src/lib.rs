//! Shared by both candidate benches: contenders timed in turn, medians, the table and its JSON form.
//!
//! Contenders of one row are sampled round-robin and the order rotates each round, so that frequency changes and
//! neighbours on the machine hit all of them alike. Only the ratios of a row mean something on a shared machine.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

mod machine;

pub use machine::Machine;

/// One library doing one operation.
pub struct Contender {
    /// The library, as it appears in the table.
    pub library: &'static str,
    /// Repeats the operation and returns how long that took.
    run: Box<dyn FnMut(u32) -> Duration>,
}

impl Contender {
    /// A contender whose operation is `operation`. It is called in a loop that the compiler cannot take apart.
    pub fn new<R>(library: &'static str, mut operation: impl FnMut() -> R + 'static) -> Self {
        let run = move |iterations| {
            let start = Instant::now();
            for _ in 0..iterations {
                black_box(operation());
            }
            start.elapsed()
        };
        Self { library, run: Box::new(run) }
    }

    /// A contender of which only a part counts: `operation` returns the time of that part.
    pub fn self_timed(library: &'static str, mut operation: impl FnMut() -> Duration + 'static) -> Self {
        let run = move |iterations| (0..iterations).map(|_| operation()).sum();
        Self { library, run: Box::new(run) }
    }
}

/// The contenders of one row of the table.
pub struct Row {
    /// A label of the measurement, for people.
    pub label: String,
    /// Bytes that one operation works on, for the GB/s column; none where throughput means nothing.
    pub bytes: Option<usize>,
    /// Those that are compared.
    pub contenders: Vec<Contender>,
}

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Samples per contender, of which the median counts.
    pub rounds: usize,
    /// How long one sample should take: long against the clock's resolution, short against a change of frequency.
    pub sample: Duration,
}

/// The median of one contender.
pub struct Measured {
    /// The library.
    pub library: &'static str,
    /// Median time of one operation in nanoseconds.
    pub median_ns: f64,
    /// Half the distance between the quartiles, as a share of the median: how far to trust it.
    pub spread: f64,
}

/// One row, measured, the quickest first.
pub struct MeasuredRow {
    /// See [`Row::label`].
    pub label: String,
    /// See [`Row::bytes`].
    pub bytes: Option<usize>,
    /// Per contender.
    pub results: Vec<Measured>,
}

/// Measures one row.
pub fn measure(row: Row, effort: Effort) -> MeasuredRow {
    let Row { label, bytes, mut contenders } = row;
    let iterations: Vec<u32> = contenders.iter_mut().map(|c| calibrate(c, effort.sample)).collect();
    let mut samples = vec![Vec::with_capacity(effort.rounds); contenders.len()];
    for round in 0..effort.rounds {
        for turn in 0..contenders.len() {
            let index = (round + turn) % contenders.len();
            let elapsed = (contenders[index].run)(iterations[index]);
            samples[index].push(elapsed.as_nanos() as f64 / f64::from(iterations[index]));
        }
    }
    let mut results: Vec<Measured> = contenders.iter().zip(samples).map(|(c, s)| summarise(c.library, s)).collect();
    results.sort_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
    MeasuredRow { label, bytes, results }
}

/// The number of iterations that fill one sample; doubling warms caches and predictors on the way.
fn calibrate(contender: &mut Contender, sample: Duration) -> u32 {
    let mut iterations = 1u32;
    loop {
        let elapsed = (contender.run)(iterations);
        if elapsed >= sample / 2 || iterations > 1 << 28 {
            let scale = sample.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
            return (f64::from(iterations) * scale).ceil().max(1.0) as u32;
        }
        iterations *= 2;
    }
}

fn summarise(library: &'static str, mut samples: Vec<f64>) -> Measured {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| samples[((samples.len() - 1) as f64 * share).round() as usize];
    Measured { library, median_ns: at(0.5), spread: (at(0.75) - at(0.25)) / 2.0 / at(0.5) }
}

/// The row as lines for people: library, time, throughput, ratio to the best.
pub fn render(row: &MeasuredRow) -> String {
    let best = row.results.first().map_or(0.0, |r| r.median_ns);
    let mut text = format!("\n{}\n", row.label);
    for Measured { library, median_ns, spread } in &row.results {
        let rate = row.bytes.map_or(String::new(), |b| format!("{:.2} GB/s", b as f64 / median_ns));
        let (ratio, spread) = (median_ns / best, spread * 100.0);
        text += &format!("  {library:<38} {:>12} {rate:>12} {ratio:>7.2}x  ±{spread:.0}%\n", time_text(*median_ns));
    }
    text
}

fn time_text(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// The row as one JSON object.
pub fn to_json(row: &MeasuredRow) -> serde_json::Value {
    let results: Vec<_> = row
        .results
        .iter()
        .map(|r| serde_json::json!({ "library": r.library, "median_ns": r.median_ns, "spread": r.spread }))
        .collect();
    serde_json::json!({ "operation": row.label, "bytes": row.bytes, "results": results })
}

/// The command line's arguments.
pub struct Arguments {
    /// Print JSON lines instead of a table.
    pub json: bool,
    /// Only rows whose label contains this.
    pub only: Option<String>,
    /// Samples per contender.
    pub rounds: usize,
}

impl Arguments {
    /// Reads `[--json] [--only TEXT] [--rounds N]`; anything else ends the program with that usage line.
    pub fn from_command_line() -> Self {
        let mut arguments = Self { json: false, only: None, rounds: 41 };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => arguments.json = true,
                "--only" => arguments.only = Some(words.next().unwrap_or_else(|| usage())),
                "--rounds" => {
                    let count = words.next().and_then(|text| text.parse().ok()).filter(|&count| count > 0);
                    arguments.rounds = count.unwrap_or_else(|| usage());
                }
                _ => usage(),
            }
        }
        arguments
    }

    /// Whether the row of this label was asked for.
    pub fn wants(&self, label: &str) -> bool {
        self.only.as_ref().is_none_or(|text| label.contains(text.as_str()))
    }

    /// Prints the machine, then measures and prints every row that was asked for.
    pub fn run(&self, rows: Vec<Row>, effort: Effort) {
        let machine = Machine::detect();
        println!("{}", if self.json { machine.to_json().to_string() } else { machine.to_string() });
        for row in rows {
            if self.only.as_ref().is_some_and(|text| !row.label.contains(text.as_str())) {
                continue;
            }
            let measured = measure(row, effort);
            println!("{}", if self.json { to_json(&measured).to_string() } else { render(&measured) });
        }
    }
}

fn usage() -> ! {
    eprintln!("usage: [--json] [--only TEXT] [--rounds N]");
    std::process::exit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_median_and_half_the_quartile_distance() {
        let measured = summarise("any", vec![50.0, 10.0, 40.0, 20.0, 30.0]);
        assert_eq!(measured.median_ns, 30.0);
        assert!((measured.spread - 10.0 / 30.0).abs() < 1e-12);
        assert_eq!(summarise("any", vec![7.0]).median_ns, 7.0);
    }

    #[test]
    fn quickest_comes_first_and_every_contender_is_sampled() {
        let sleeper = |library, ms| Contender::self_timed(library, move || Duration::from_millis(ms));
        let row = Row { label: "row".into(), bytes: Some(1), contenders: vec![sleeper("slow", 3), sleeper("fast", 1)] };
        let measured = measure(row, Effort { rounds: 3, sample: Duration::from_millis(1) });
        let order: Vec<_> = measured.results.iter().map(|r| (r.library, r.median_ns)).collect();
        assert_eq!(order, [("fast", 1e6), ("slow", 3e6)]);
        assert!(render(&measured).contains("3.00x"));
    }
}
