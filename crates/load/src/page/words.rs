//! Sentences that compare two results.

use crate::result::{LoadResult, ResultSeries, samples_min};

use super::escaped;
use super::numbers::{NumberPath, count, failures, micros, number, quotient};
use super::plots::short;

/// Ratios in this range count as equal.
const SAME: std::ops::RangeInclusive<f64> = 0.95..=1.05;
/// The percentile of latency that is compared.
const COMPARED: f64 = 0.99;

/// One of the two results.
#[derive(Clone, Copy, Debug)]
struct Side<'a> {
    /// Its index on the page.
    index: usize,
    result: &'a LoadResult,
    /// `before` or `after`.
    when: &'static str,
}

impl<'a> Side<'a> {
    fn at(&self, path: impl Into<String>) -> NumberPath {
        NumberPath { result: Some(self.index), path: path.into() }
    }

    /// The series of this result with the same requests.
    fn part(self, like: &ResultSeries) -> Option<SeriesPart<'a>> {
        let key = |series: &ResultSeries| (series.name.clone(), series.operation.clone(), series.fields);
        let place = self.result.series.iter().position(|series| key(series) == key(like))?;
        Some(SeriesPart { side: self, place, series: &self.result.series[place] })
    }
}

/// A series of one side.
#[derive(Clone, Copy, Debug)]
struct SeriesPart<'a> {
    side: Side<'a>,
    /// Its index among the series.
    place: usize,
    series: &'a ResultSeries,
}

impl SeriesPart<'_> {
    /// The JSON paths of fields of the series.
    fn at(&self, fields: &[&str]) -> NumberPath {
        let paths: Vec<String> = fields.iter().map(|field| format!("series.{}.{field}", self.place)).collect();
        self.side.at(paths.join(" "))
    }

    /// The number of successful answers.
    fn ok(&self) -> String {
        count(&self.at(&["ok"]), self.series.ok)
    }

    fn ended(&self) -> u64 {
        self.series.ok + failures(self.series)
    }

    /// `91 of 200`.
    fn answered(&self) -> String {
        format!("{} of {} {}", self.ok(), count(&self.at(&["ok", "errors"]), self.ended()), self.side.when)
    }

    fn is_rare(&self) -> bool {
        self.series.ok < samples_min(COMPARED)
    }

    /// The latency that is compared, by its name in the JSON.
    fn latency(&self) -> (&'static str, f64) {
        let latency = &self.series.latency_us;
        if self.is_rare() { ("latency_us.max", latency.max) } else { ("latency_us.p99", latency.p99) }
    }

    fn latency_html(&self) -> String {
        let (field, value) = self.latency();
        micros(&self.at(&[field]), value)
    }

    /// The speed of that request: its size divided by its latency.
    fn speed_html(&self) -> String {
        let speed = self.series.fields_per_s.p1;
        number(&self.at(&["fields_per_s.p1"]), speed, &short(speed))
    }

    /// The share of requests without a successful answer.
    fn failures_html(&self) -> String {
        let share = failures(self.series) as f64 / self.ended() as f64;
        quotient(&self.at(&["errors"]), &self.at(&["ok", "errors"]), share, &percent(share))
    }
}

/// Returns sentences, as HTML, that compare two results, each given with its index on the page: failures first, then each figure that
/// both results have.
pub(super) fn compared(before: (usize, &LoadResult), after: (usize, &LoadResult)) -> Vec<String> {
    let side = |(index, result), when| Side { index, result, when };
    let sides = [side(before, "before"), side(after, "after")];
    let mut from_small_to_large: Vec<&ResultSeries> = sides[0].result.series.iter().collect();
    from_small_to_large.sort_by_key(|series| series.fields);
    let of_series = from_small_to_large.into_iter().filter_map(|series| {
        let [one, other] = sides.map(|side| side.part(series));
        compared_series([one?, other?])
    });
    [unanswered(sides), skipped(sides)].into_iter().flatten().chain(of_series).chain(throughput(sides)).collect()
}

/// The number of requests without a successful answer, if there are any.
fn unanswered(sides: [Side<'_>; 2]) -> Option<String> {
    if sides.iter().all(|side| side.result.totals.errors.is_empty() && side.result.unfinished == 0) {
        return None;
    }
    let counts = sides.map(|side| {
        let (ok, errors) = (side.result.totals.ok, &side.result.totals.errors);
        let failed = errors.values().sum::<u64>();
        let code = |(code, &value): (&String, &u64)| {
            format!("{} {}", count(&side.at(format!("totals.errors.{code}")), value), escaped(code))
        };
        let mut codes: Vec<String> = errors.iter().map(code).collect();
        if side.result.unfinished > 0 {
            let unfinished = count(&side.at("unfinished"), side.result.unfinished);
            codes.push(format!("{unfinished} in flight when the run was interrupted"));
        }
        let codes = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
        let [failed, all] =
            [("totals.errors", failed), ("totals.ok totals.errors", ok + failed)].map(|(at, n)| count(&side.at(at), n));
        format!("{failed} of {all} {}{codes}", side.when)
    });
    Some(format!("Requests without a good answer: {}.", counts.join(", ")))
}

/// The number of skipped users, if there are any.
fn skipped(sides: [Side<'_>; 2]) -> Option<String> {
    if sides.iter().all(|side| side.result.totals.users.skipped == 0) {
        return None;
    }
    let counts = sides.map(|side| {
        let users = side.result.totals.users;
        let skipped = count(&side.at("totals.users.skipped"), users.skipped);
        let all = count(&side.at("totals.users.created totals.users.skipped"), users.created + users.skipped);
        format!("{skipped} of {all} {}", side.when)
    });
    Some(format!("Users skipped at the limit on concurrent users: {}.", counts.join(", ")))
}

fn compared_series(parts: [SeriesPart<'_>; 2]) -> Option<String> {
    let [one, other] = parts;
    if parts.iter().any(|part| part.ended() == 0) {
        return None;
    }
    let name = escaped(&one.series.name);
    let answered = parts.map(|part| part.answered()).join(", ");
    if parts.iter().any(|part| part.series.ok == 0) {
        return Some(format!("{name}: nothing to compare, good answers: {answered}."));
    }
    let subject = if parts.iter().all(|part| failures(part.series) == 0) {
        name
    } else {
        format!("{name}, good answers only ({answered})")
    };
    let [was, is] = parts.map(|part| part.latency_html());
    let times = match parts.map(|part| part.is_rare()) {
        [false, false] => format!("p99 {was} before, {is} after: {}", ratio_of(parts)),
        [true, true] => format!(
            "the slowest of {} took {was} before, the slowest of {} took {is} after: {}",
            one.ok(),
            other.ok(),
            ratio_of(parts)
        ),
        rare => {
            let text = |part: SeriesPart<'_>, is_rare, time| {
                let what = if is_rare { "the slowest of" } else { "p99 of" };
                format!("{what} {}: {time} {}", part.ok(), part.side.when)
            };
            format!("{}, {}, too few for a ratio", text(one, rare[0], was), text(other, rare[1], is))
        }
    };
    let [was, is] = parts.map(|part| part.speed_html());
    let who = parts.map(|part| if part.is_rare() { "the slowest" } else { "all but the slowest 1 %" });
    let again = if who[0] == who[1] { String::new() } else { format!("{} ", who[1]) };
    let times = times + &rise(parts);
    Some(format!("{subject}: {times}; {} reached {was} fields per second before, {again}{is} after.", who[0]))
}

/// The ratio of the two latencies.
fn ratio_of(parts: [SeriesPart<'_>; 2]) -> String {
    let latency = |part: SeriesPart<'_>| (part.at(&[part.latency().0]), part.latency().1);
    ratio_html(parts.map(latency), "as long", "shorter")
}

/// The share of requests that the latencies omit, if it rose.
fn rise(parts: [SeriesPart<'_>; 2]) -> String {
    let [one, other] = parts;
    // Compared as whole numbers, so that rounding cannot look like a rise.
    let weighted =
        |part: SeriesPart<'_>, by: SeriesPart<'_>| u128::from(failures(part.series)) * u128::from(by.ended());
    if weighted(other, one) <= weighted(one, other) {
        return String::new();
    }
    let [was, is] = parts.map(|part| part.failures_html());
    format!(", while the share of requests without a good answer rose from {was} to {is}")
}

fn throughput(sides: [Side<'_>; 2]) -> Option<String> {
    let values = sides.map(|side| side.result.totals.fields_per_s);
    if values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let at = |side: Side<'_>| (side.at("totals.fields_per_s"), side.result.totals.fields_per_s);
    let [was, is] = sides.map(at).map(|(place, value)| number(&place, value, &short(value)));
    let words = ratio_html(sides.map(at), "as many", "fewer");
    Some(format!("Throughput in good answers: {was} fields per second before, {is} after: {words}."))
}

/// The ratio of the second number to the first, with their JSON paths.
fn ratio_html([(before, was), (after, is)]: [(NumberPath, f64); 2], more: &str, less: &str) -> String {
    let words = ratio(was, is, more, less);
    if was > 0.0 { quotient(&after, &before, is / was, &words) } else { words }
}

/// The ratio of two numbers: `2.3 times as long`, `10 times shorter`, `about the same`.
fn ratio(was: f64, is: f64, more: &str, less: &str) -> String {
    let ratio = is / was;
    let times = |ratio: f64| if ratio >= 9.95 { format!("{ratio:.0} times") } else { format!("{ratio:.1} times") };
    match ratio {
        ratio if !ratio.is_finite() || ratio <= 0.0 => "not comparable".to_owned(),
        ratio if SAME.contains(&ratio) => "about the same".to_owned(),
        ratio if ratio > 1.0 => format!("{} {more}", times(ratio)),
        ratio => format!("{} {less}", times(1.0 / ratio)),
    }
}

/// A share as a percentage with one decimal. Only exact values are shown as 0 % and 100 %.
pub(super) fn percent(share: f64) -> String {
    match share {
        share if share <= 0.0 => "0 %".to_owned(),
        share if share >= 1.0 => "100 %".to_owned(),
        share if share < 0.0005 => "less than 0.1 %".to_owned(),
        share if share >= 0.9995 => "more than 99.9 %".to_owned(),
        share => format!("{:.1} %", share * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::page::tests::example;
    use crate::result::{Percentiles, Speeds};

    #[test]
    fn ratios_are_words() {
        for (was, is, words) in [
            (1.0, 2.0, "2.0 times as long"),
            (120.0, 10.0, "12 times shorter"),
            (100.0, 104.0, "about the same"),
            (3.0, 2.0, "1.5 times shorter"),
            (0.0, 2.0, "not comparable"),
        ] {
            assert_eq!(ratio(was, is, "as long", "shorter"), words);
        }
    }

    #[test]
    fn shares_are_all_or_nothing_only_where_they_are() {
        let shares = [0.0, 0.0001, 0.0006, 0.545, 0.9994, 0.9999, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "less than 0.1 %", "0.1 %", "54.5 %", "99.9 %", "more than 99.9 %", "100 %"]);
    }

    /// A result with one series: the numbers of successful answers and failures, and latencies in microseconds.
    fn result(ok: u64, failed: u64, p99: f64, max: f64) -> LoadResult {
        let mut result = example();
        let errors: BTreeMap<String, u64> =
            [("no_answer".to_owned(), failed)].into_iter().filter(|(_, n)| *n > 0).collect();
        let latency_us = Percentiles { p99, max, ..Percentiles::default() };
        let fields_per_s = Speeds { p1: 30e6 / p99, ..Speeds::default() };
        let name = "small & quick".to_owned();
        let first = result.series[0].clone();
        result.series =
            vec![ResultSeries { name, fields: 30, ok, errors: errors.clone(), latency_us, fields_per_s, ..first }];
        (result.totals.ok, result.totals.errors, result.totals.fields_per_s) = (ok, errors, 1000.0);
        result.totals.users.skipped = 0;
        result.unfinished = 0;
        result
    }

    /// The sentences as plain text.
    fn read(before: &LoadResult, after: &LoadResult) -> Vec<String> {
        let text = |html: String| {
            let pieces = html.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
            pieces.collect::<String>().replace("&amp;", "&")
        };
        compared((0, before), (1, after)).into_iter().map(text).collect()
    }

    const SAME_THROUGHPUT: &str =
        "Throughput in good answers: 1 k fields per second before, 1 k after: about the same.";

    #[test]
    fn without_failures_no_sentence_mentions_them() {
        assert_eq!(
            read(&result(200, 0, 2e4, 3e4), &result(300, 0, 1e4, 4e4)),
            [
                "small & quick: p99 20.0 ms before, 10.0 ms after: 2.0 times shorter; all but the slowest 1 % reached 1.5 k fields per \
                 second before, 3 k after.",
                SAME_THROUGHPUT,
            ]
        );
    }

    #[test]
    fn failures_come_first_and_qualify_the_latencies() {
        let (good, bad) = (result(200, 0, 13e3, 2e4), result(91 + 20, 109, 1e4, 3e4));
        assert_eq!(
            read(&good, &bad),
            [
                "Requests without a good answer: 0 of 200 before, 109 of 220 after (109 no_answer).",
                "small & quick, good answers only (200 of 200 before, 111 of 220 after): p99 13.0 ms before, 10.0 ms after: 1.3 \
                 times shorter, while the share of requests without a good answer rose from 0 % to 49.5 %; all but the slowest 1 % \
                 reached 2.3 k fields per second before, 3 k after.",
                SAME_THROUGHPUT,
            ]
        );
        // In the other direction the share fell; the figures still state how many answers they cover.
        let sunk = read(&bad, &good);
        assert!(sunk[0].contains("109 of 220 before (109 no_answer), 0 of 200 after"), "{sunk:?}");
        assert!(sunk[1].contains("(111 of 220 before, 200 of 200 after)") && !sunk[1].contains("rose"), "{sunk:?}");
        let none = read(&good, &result(0, 7, 0.0, 0.0));
        assert_eq!(none[1], "small & quick: nothing to compare, good answers: 200 of 200 before, 0 of 7 after.");
    }

    #[test]
    fn few_answers_give_the_slowest_instead_of_a_percentile() {
        let (few, many) = (result(99, 0, 15e3, 15e3), result(100, 0, 1e4, 3e4));
        assert_eq!(
            read(&few, &result(40, 0, 3e4, 3e4))[0],
            "small & quick: the slowest of 99 took 15.0 ms before, the slowest of 40 took 30.0 ms after: 2.0 times as long; the slowest \
             reached 2 k fields per second before, 1 k after."
        );
        assert_eq!(
            read(&few, &many)[0],
            "small & quick: the slowest of 99: 15.0 ms before, p99 of 100: 10.0 ms after, too few for a ratio; the slowest reached 2 k \
             fields per second before, all but the slowest 1 % 3 k after."
        );
    }

    #[test]
    fn skipped_users_and_requests_in_flight_are_reported() {
        let (mut before, after) = (result(200, 0, 1e4, 1e4), result(200, 0, 1e4, 1e4));
        before.unfinished = 3;
        (before.totals.users.created, before.totals.users.skipped) = (50, 7);
        let sentences = read(&before, &after);
        assert!(
            sentences[0].contains("0 of 200 before (3 in flight when the run was interrupted), 0 of 200"),
            "{sentences:?}"
        );
        assert!(sentences[1].contains("7 of 57 before, 0 of"), "{sentences:?}");
    }
}
