//! What became of figures from one result to another, in words.

use crate::report::duration;
use crate::result::{LoadResult, ResultSeries};

use super::plots::short;

/// Ratios between these say nothing.
const SAME: std::ops::RangeInclusive<f64> = 0.95..=1.05;

/// A sentence for each figure that both results have.
pub fn compared(before: &LoadResult, after: &LoadResult) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut from_small_to_large: Vec<&ResultSeries> = before.series.iter().collect();
    from_small_to_large.sort_by_key(|series| series.fields);
    for one in from_small_to_large {
        let same = |other: &&ResultSeries| {
            (&other.name, &other.operation, other.fields) == (&one.name, &one.operation, one.fields)
        };
        let Some(other) = after.series.iter().find(same).filter(|other| one.ok > 0 && other.ok > 0) else { continue };
        let [was, is] = [one, other].map(|series| series.latency_us.p99 / 1e6);
        let times =
            format!("{} before, {} after: {}", duration(was), duration(is), ratio(was, is, "as long", "shorter"));
        // The same ratio again: a request's speed is its size by its latency.
        let [was, is] = [one, other].map(|series| short(series.fields_per_s.p1));
        let speeds = format!("all but the slowest 1 % reached {was} fields a second before, {is} after");
        sentences.push(format!("{}: p99 {times}; {speeds}.", one.name));
    }
    let [was, is] = [before, after].map(|result| result.totals.fields_per_s);
    if was > 0.0 && is > 0.0 {
        let words = ratio(was, is, "as many", "fewer");
        sentences.push(format!("Throughput: {} fields a second before, {} after: {words}.", short(was), short(is)));
    }
    sentences
}

/// How often one number is the other: `2.3 times as long`, `10 times shorter`, `about the same`.
fn ratio(was: f64, is: f64, more: &str, less: &str) -> String {
    let ratio = is / was;
    let times = |ratio: f64| if ratio >= 9.95 { format!("{ratio:.0} times") } else { format!("{ratio:.1} times") };
    match ratio {
        ratio if !ratio.is_finite() || ratio <= 0.0 => "not to be compared".to_owned(),
        ratio if SAME.contains(&ratio) => "about the same".to_owned(),
        ratio if ratio > 1.0 => format!("{} {more}", times(ratio)),
        ratio => format!("{} {less}", times(1.0 / ratio)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn ratios_are_words() {
        for (was, is, words) in [
            (1.0, 2.0, "2.0 times as long"),
            (120.0, 10.0, "12 times shorter"),
            (100.0, 104.0, "about the same"),
            (3.0, 2.0, "1.5 times shorter"),
            (0.0, 2.0, "not to be compared"),
        ] {
            assert_eq!(super::ratio(was, is, "as long", "shorter"), words);
        }
    }
}
