//! The plots of results. All results share the same axes, so that they can be compared side by side.

use std::collections::BTreeSet;

use crate::result::{IntervalRow, LoadResult, ResultSeries, ServerRow, samples_min};

use super::svg::{Axis, COLOURS, Layer, PointStyle};

/// A plot with a panel for each result.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Its id in the page.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Explains what it shows and how to read it.
    pub about: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Number of rows of crosses below the vertical axis, and their label.
    pub rows: (usize, &'static str),
    /// The meaning of each mark.
    pub legend: Vec<(Mark, String)>,
    /// The layers of each result.
    pub panels: Vec<Vec<Layer>>,
    /// Text in place of a panel without points.
    pub empty: &'static str,
}

/// Text in place of a panel if the result has no figures of the engine.
const NOT_MEASURED: &str = "Not measured: run with --metrics, --pid or --start.";
/// Text in place of a panel if no request succeeded.
const NO_ANSWERS: &str = "No good answers.";

/// The mark beside a name in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A colour by its index.
    Colour(usize),
    /// A cross of any colour.
    Cross,
    /// A line of normal width and any colour.
    Line,
    /// A thin line of any colour.
    Thin,
}

/// No rows below the axis.
const NO_ROWS: (usize, &str) = (0, "");

/// The kinds of requests of all results, in order of size; each has its colour.
#[derive(Clone, Debug)]
pub(super) struct Palette(Vec<(usize, String)>);

impl Palette {
    /// Collects the kinds of all series.
    pub(super) fn new(results: &[&LoadResult]) -> Self {
        let mut all: Vec<(usize, String)> = results
            .iter()
            .flat_map(|result| &result.series)
            .map(|series| (series.fields, series.name.clone()))
            .collect();
        all.sort();
        all.dedup();
        Palette(all)
    }

    /// Returns the colour of a series, which depends on its size.
    pub(super) fn colour(&self, series: &ResultSeries) -> usize {
        spread(self.place(series), self.0.len())
    }

    fn place(&self, series: &ResultSeries) -> usize {
        self.0.iter().position(|(fields, name)| *fields == series.fields && *name == series.name).unwrap_or(0)
    }

    fn legend(&self) -> Vec<(Mark, String)> {
        let colour = |place| Mark::Colour(spread(place, self.0.len()));
        let entry = |(place, (_, name)): (usize, &(usize, String))| (colour(place), name.clone());
        self.0.iter().enumerate().map(entry).collect()
    }

    /// The kinds with failed requests, by their positions in the legend.
    fn failing(&self, results: &[&LoadResult]) -> BTreeSet<usize> {
        let all = results.iter().flat_map(|result| &result.series);
        all.filter(|series| !series.failures.due_us.is_empty()).map(|series| self.place(series)).collect()
    }
}

/// The index of a colour: the colours of a few series are as far apart as possible.
fn spread(place: usize, count: usize) -> usize {
    if count <= 1 { 0 } else { place * (COLOURS - 1) / (count - 1) }
}

/// Returns all plots for which the results have data; the speed of requests comes first.
pub(super) fn plots(results: &[&LoadResult]) -> Vec<Plot> {
    let palette = Palette::new(results);
    let all = [
        Some(speed(results, &palette)),
        Some(latency(results, &palette)),
        Some(distribution(results, &palette)),
        Some(throughput(results)),
        errors(results),
        server(results),
        queue(results),
    ];
    all.into_iter().flatten().collect()
}

/// A time axis that covers the longest result with a margin.
fn time(results: &[&LoadResult]) -> Axis {
    let last = |result: &&LoadResult| result.elapsed_s.max(result.phases.last().map_or(0.0, |phase| phase.end_s));
    let max = results.iter().map(last).fold(1.0, f64::max);
    Axis { min: 0.0, max, is_log: false, label: "seconds since start", format: plain }
}

/// An axis that fits the layers; from 1 to 10 if they are empty.
fn fitting(panels: &[Vec<Layer>], is_log: bool, label: &'static str, format: fn(f64) -> String) -> Axis {
    let values = || {
        let points = panels.iter().flatten().flat_map(|layer| &layer.points);
        points.map(|(_, y)| *y).filter(|y| y.is_finite() && (!is_log || *y > 0.0))
    };
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let most = if most > 0.0 { most } else { 10.0 };
    let min = if !is_log {
        0.0
    } else if least.is_finite() {
        10_f64.powf(least.log10().floor())
    } else {
        1.0
    };
    let max = if is_log { 10_f64.powf((most * 1.001).log10().ceil()).max(min * 10.0) } else { most * 1.05 };
    Axis { min, max, is_log, label, format }
}

fn speed(results: &[&LoadResult], palette: &Palette) -> Plot {
    const ABOUT: &str = "A point is a request, at the time when it was due: its number of values divided by its latency. If large \
                         requests delay small ones, the points of small ones drop while a large one is in flight.";
    const FAILED: &str = " A cross below the axis is a request without a good answer, including cancelled ones, at the time when it \
                          was due. Each kind has its own row, in the order of the legend.";
    let failing = palette.failing(results);
    let layers = |result: &&LoadResult| -> Vec<Layer> {
        let both = result.series.iter().flat_map(|series| {
            let colour = palette.colour(series);
            let row = failing.iter().position(|place| *place == palette.place(series));
            [Some(answered(series, colour)), row.map(|row| failed(series, colour, row))]
        });
        both.flatten().collect()
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(layers).collect();
    let mut legend = palette.legend();
    let mut about = ABOUT.to_owned();
    if !failing.is_empty() {
        legend.push((Mark::Cross, "without a good answer".to_owned()));
        about.push_str(FAILED);
    }
    Plot {
        id: "speed",
        title: "Encrypted fields per second of each request",
        about,
        x: time(results),
        y: fitting(&panels, true, "fields per second", short),
        rows: (failing.len(), "failed"),
        legend,
        panels,
        empty: "No requests.",
    }
}

/// The speeds of a series' requests.
fn answered(series: &ResultSeries, colour: usize) -> Layer {
    let pairs = series.requests.due_us.iter().zip(&series.requests.latency_us);
    let points = pairs.filter(|&(_, &latency)| latency > 0.0);
    let points = points.map(|(&due, &latency)| (due as f64 / 1e6, series.fields as f64 * 1e6 / latency)).collect();
    Layer { colour, form: PointStyle::Points, points }
}

/// The due times of failed requests.
fn failed(series: &ResultSeries, colour: usize, row: usize) -> Layer {
    let points = series.failures.due_us.iter().map(|&due| (due as f64 / 1e6, f64::NAN)).collect();
    Layer { colour, form: PointStyle::Below(row), points }
}

/// Returns the quantile of a histogram at `share`, in microseconds.
fn quantile(histogram: &[(u64, u64)], share: f64) -> f64 {
    crate::statistics::quantile(histogram, share).map_or(f64::NAN, |value| value as f64)
}

/// The percentile that represents tail latency.
const TAIL: f64 = 0.99;

fn latency(results: &[&LoadResult], palette: &Palette) -> Plot {
    let layers = |result: &&LoadResult| -> Vec<Layer> {
        let length = result.intervals.length_s;
        let line = |index: usize, share: f64| {
            let of = |row: &IntervalRow| {
                let found = row.latencies.iter().find(|latencies| latencies.series == index);
                found.map_or(f64::NAN, |latencies| quantile(&latencies.histogram, share) / 1e6)
            };
            // An interval without answers breaks the line: its latency is unknown.
            let rows = result.intervals.rows.iter().enumerate();
            rows.map(|(place, row)| ((place as f64 + 0.5) * length, of(row))).collect::<Vec<(f64, f64)>>()
        };
        let both = result.series.iter().enumerate().flat_map(|(index, series)| {
            let colour = palette.colour(series);
            let layer = |form, share| Layer { colour, form, points: line(index, share) };
            [layer(PointStyle::Line, TAIL), layer(PointStyle::Thin, 0.5)]
        });
        both.collect()
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(layers).collect();
    let mut legend = palette.legend();
    let tail = format!("p99, or the slowest of fewer than {}", samples_min(TAIL));
    legend.extend([(Mark::Line, tail), (Mark::Thin, "p50".to_owned())]);
    Plot {
        id: "latency",
        title: "Latency over time",
        about: "Latency of good answers, by the interval in which their requests were due, counted from that time. Lines break where \
                an interval has no good answer."
            .to_owned(),
        x: time(results),
        y: fitting(&panels, true, "latency", seconds),
        rows: NO_ROWS,
        legend,
        panels,
        empty: NO_ANSWERS,
    }
}

/// Latency by percentile.
fn distribution(results: &[&LoadResult], palette: &Palette) -> Plot {
    let layer = |series: &ResultSeries| {
        let total: u64 = series.histogram.iter().map(|(_, count)| count).sum();
        let mut below = 0;
        let points = series.histogram.iter().map(|&(micros, count)| {
            let before = below;
            below += count;
            // The reciprocal of the share of slower requests: a decade of it is a further nine.
            (total as f64 / (total - before) as f64, micros / 1e6)
        });
        Layer { colour: palette.colour(series), form: PointStyle::Line, points: points.collect() }
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(|result| result.series.iter().map(layer).collect()).collect();
    let most = panels.iter().flatten().flat_map(|layer| &layer.points).map(|(x, _)| *x).fold(10.0, f64::max);
    Plot {
        id: "distribution",
        title: "Latency by percentile",
        about: "The latency that a share of requests does not exceed. Each decade of the axis divides the share of slower requests by \
                ten; a line ends at its slowest request. The whole histogram of good answers, to three digits."
            .to_owned(),
        x: Axis { min: 1.0, max: 10_f64.powf(most.log10().ceil()), is_log: true, label: "percentile", format: percentile },
        y: fitting(&panels, true, "latency", seconds),
        rows: NO_ROWS,
        legend: palette.legend(),
        panels,
        empty: NO_ANSWERS,
    }
}

fn over_time(result: &LoadResult, of: impl Fn(&IntervalRow) -> f64) -> Vec<(f64, f64)> {
    let length = result.intervals.length_s;
    result
        .intervals
        .rows
        .iter()
        .enumerate()
        .map(|(place, row)| ((place as f64 + 0.5) * length, of(row) / length))
        .collect()
}

fn throughput(results: &[&LoadResult]) -> Plot {
    let layers = |result: &&LoadResult| {
        vec![Layer { colour: 0, form: PointStyle::Line, points: over_time(result, |row| row.fields as f64) }]
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(layers).collect();
    Plot {
        id: "throughput",
        title: "Throughput",
        about: "Values per second in good answers.".to_owned(),
        x: time(results),
        y: fitting(&panels, false, "fields per second", short),
        rows: NO_ROWS,
        legend: Vec::new(),
        panels,
        empty: NO_ANSWERS,
    }
}

fn errors(results: &[&LoadResult]) -> Option<Plot> {
    if results.iter().all(|result| result.totals.errors.is_empty()) {
        return None;
    }
    let layers = |result: &&LoadResult| {
        vec![Layer { colour: 5, form: PointStyle::Line, points: over_time(result, |row| row.errors as f64) }]
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(layers).collect();
    Some(Plot {
        id: "errors",
        title: "Errors",
        about: "Requests per second that ended in an error, including cancelled ones.".to_owned(),
        x: time(results),
        y: fitting(&panels, false, "errors per second", short),
        rows: NO_ROWS,
        legend: Vec::new(),
        panels,
        empty: "No errors.",
    })
}

fn seen(result: &LoadResult, of: impl Fn(&ServerRow) -> Option<f64>) -> Vec<(f64, f64)> {
    result.server.iter().map(|row| (row.at_s, of(row).unwrap_or(f64::NAN))).collect()
}

/// A layer, if it has any points.
fn if_any(colour: usize, form: PointStyle, points: Vec<(f64, f64)>) -> Option<Layer> {
    points.iter().any(|(_, y)| y.is_finite()).then_some(Layer { colour, form, points })
}

/// A busy worker may be waiting for a core, so the title depends on whether CPU time was measured.
fn server(results: &[&LoadResult]) -> Option<Plot> {
    const BUSY: &str = "Number of the engine's workers that were busy, from its metrics.";
    let layers = |result: &&LoadResult| -> Vec<Layer> {
        let total = seen(result, |row| row.cores.map(|cores| cores.network + cores.workers + cores.other));
        let network = seen(result, |row| row.cores.map(|cores| cores.network));
        let busy = seen(result, |row| row.workers_busy);
        let all = [
            if_any(4, PointStyle::Line, total),
            if_any(2, PointStyle::Thin, network),
            if_any(0, PointStyle::Line, busy),
        ];
        all.into_iter().flatten().collect()
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(layers).collect();
    let has = |colour| panels.iter().flatten().any(|layer| layer.colour == colour);
    let (title, about, axis) = match (has(4), has(0)) {
        (true, true) => (
            "The engine's CPU",
            "Cores that the process used, as the operating system accounts them, and number of busy workers, from the engine's metrics: \
             where more workers are busy than cores used, workers waited for a core.",
            "cores, busy workers",
        ),
        (true, false) => {
            ("The engine's CPU", "Cores that the process used, as the operating system accounts them.", "cores")
        }
        (false, true) => ("Busy workers", BUSY, "workers"),
        (false, false) => return None,
    };
    let names = [(0, "workers busy"), (2, "cores: network threads"), (4, "cores: whole engine")];
    let legend = names.into_iter().filter(|(colour, _)| has(*colour));
    Some(Plot {
        id: "server",
        title,
        about: about.to_owned(),
        x: time(results),
        y: fitting(&panels, false, axis, plain),
        rows: NO_ROWS,
        legend: legend.map(|(colour, name)| (Mark::Colour(colour), name.to_owned())).collect(),
        panels,
        empty: NOT_MEASURED,
    })
}

fn queue(results: &[&LoadResult]) -> Option<Plot> {
    let layers = |result: &&LoadResult| -> Vec<Layer> {
        let wait = |at: fn(&crate::result::QueueWait) -> Option<f64>| {
            seen(result, |row| row.queue_wait_us.as_ref().filter(|wait| wait.count > 0).and_then(at).map(|us| us / 1e6))
        };
        let all =
            [if_any(5, PointStyle::Line, wait(|wait| wait.p99)), if_any(1, PointStyle::Thin, wait(|wait| wait.p50))];
        all.into_iter().flatten().collect()
    };
    let panels: Vec<Vec<Layer>> = results.iter().map(layers).collect();
    if panels.iter().all(Vec::is_empty) {
        return None;
    }
    Some(Plot {
        id: "queue",
        title: "Waiting for a worker",
        about: "Time that requests waited in the engine before a worker started them: upper bounds of the buckets of the engine's metrics."
            .to_owned(),
        x: time(results),
        y: fitting(&panels, true, "wait", seconds),
        rows: NO_ROWS,
        legend: vec![(Mark::Colour(1), "p50".to_owned()), (Mark::Colour(5), "p99".to_owned())],
        panels,
        empty: NOT_MEASURED,
    })
}

/// A number with the digits it needs, at most three after the point.
fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s >= 0.9995 => (s, "s"),
        s if s >= 0.000_999_5 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    if number >= 10.0 || (number - number.round()).abs() < 0.05 {
        format!("{number:.0} {unit}")
    } else {
        format!("{number:.1} {unit}")
    }
}

/// A number in thousands or millions.
pub(super) fn short(number: f64) -> String {
    let (number, unit) = match number {
        n if n >= 999_500.0 => (n / 1e6, " M"),
        n if n >= 999.5 => (n / 1e3, " k"),
        n => (n, ""),
    };
    if number >= 10.0 || (number - number.round()).abs() < 0.05 {
        format!("{number:.0}{unit}")
    } else {
        format!("{number:.1}{unit}")
    }
}

/// The percentile at a position on the axis.
fn percentile(times: f64) -> String {
    let share = 100.0 * (1.0 - 1.0 / times.max(1.0));
    let digits = (times.log10().ceil() as i32 - 2).clamp(0, 6) as usize;
    format!("{share:.digits$} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{IntervalLatencies, Intervals, RecordedRequests};

    #[test]
    fn numbers_at_axes_are_short() {
        assert_eq!([0.0, 0.5, 2.0, 100.0, 0.005].map(plain), ["0", "0.5", "2", "100", "0.005"]);
        assert_eq!([0.5, 12.0, 1500.0, 20_000.0, 2e6].map(short), ["0.5", "12", "1.5 k", "20 k", "2 M"]);
        assert_eq!(
            [1e-6, 2.5e-4, 0.001, 0.25, 1.0, 12.3].map(seconds),
            ["1 µs", "250 µs", "1 ms", "250 ms", "1 s", "12 s"]
        );
        assert_eq!([1.0, 2.0, 10.0, 100.0, 1000.0].map(percentile), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
    }

    /// A result with two kinds of requests, each with these numbers of successful and failed requests.
    fn result(ok: [usize; 2], failed: [usize; 2]) -> LoadResult {
        let mut result = crate::page::tests::example();
        let one = |place: usize, fields: usize| {
            let requests = |count: usize| RecordedRequests {
                of: count as u64,
                due_us: (0..count as u64).map(|index| index * 1_000_000).collect(),
                latency_us: vec![1000.0; count],
            };
            let (requests, failures) = (requests(ok[place]), requests(failed[place]));
            ResultSeries { name: format!("{fields} values"), fields, requests, failures, ..result.series[0].clone() }
        };
        result.series = vec![one(0, 2000), one(1, 30)];
        result
    }

    #[test]
    fn each_request_is_a_point_or_a_cross() {
        let (good, bad) = (result([3, 2], [0, 0]), result([1, 0], [2, 4]));
        let only_good = &plots(&[&good])[0];
        assert_eq!((only_good.id, only_good.rows.0, only_good.legend.len()), ("speed", 0, 2));
        let both = &plots(&[&good, &bad])[0];
        assert_eq!(both.rows.0, 2, "of the same height in both panels");
        assert!(both.legend.iter().any(|(mark, _)| *mark == Mark::Cross) && both.about.contains("cross"));
        let large = Layer { colour: 5, form: PointStyle::Points, points: vec![(0.0, 2e6), (1.0, 2e6), (2.0, 2e6)] };
        assert_eq!(both.panels[0][0], large);
        let seen =
            |layer: &Layer| (layer.colour, layer.form, layer.points.iter().map(|(x, _)| *x).collect::<Vec<f64>>());
        let expected = [
            (5, PointStyle::Points, vec![0.0]),
            (5, PointStyle::Below(1), vec![0.0, 1.0]),
            (0, PointStyle::Points, vec![]),
            (0, PointStyle::Below(0), vec![0.0, 1.0, 2.0, 3.0]),
        ];
        assert_eq!(both.panels[1].iter().map(seen).collect::<Vec<_>>(), expected);
    }

    /// A line through an outage would show latencies that were never measured.
    #[test]
    fn lines_break_where_nothing_was_answered() {
        let mut result = result([1, 1], [0, 0]);
        let row = |answered: bool| IntervalRow {
            due: 10,
            ok: u64::from(answered),
            fields: 30,
            errors: 0,
            latencies: if answered {
                vec![IntervalLatencies { series: 0, histogram: vec![(1000, 10)] }]
            } else {
                Vec::new()
            },
        };
        result.intervals = Intervals { length_s: 1.0, rows: [true, true, false, false, false, true].map(row).to_vec() };
        let plots = plots(&[&result]);
        let latency = plots.iter().find(|plot| plot.id == "latency").expect("it is there");
        let is_known: Vec<bool> = latency.panels[0][0].points.iter().map(|(_, y)| y.is_finite()).collect();
        assert_eq!(is_known, [true, true, false, false, false, true]);
        let styles: Vec<_> =
            latency.legend.iter().filter(|(mark, _)| matches!(mark, Mark::Line | Mark::Thin)).collect();
        assert_eq!(styles.len(), 2, "p99 and p50 have their marks: {:?}", latency.legend);
    }

    #[test]
    fn the_axis_of_percentiles_reaches_past_the_slowest_request() {
        let mut result = result([1, 1], [0, 0]);
        result.series[0].histogram = vec![(1000.0, 149), (2000.0, 1)];
        result.series[1].histogram = vec![(1000.0, 1)];
        let plots = plots(&[&result]);
        let plot = plots.iter().find(|plot| plot.id == "distribution").expect("it is there");
        assert_eq!((plot.x.min, plot.x.max, percentile(plot.x.max)), (1.0, 1000.0, "99.9 %".to_owned()));
    }
}
