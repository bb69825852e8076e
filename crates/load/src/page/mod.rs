//! Renders results as one self-contained HTML page: figures, plots, and several results side by side.

mod numbers;
mod plots;
mod svg;
mod words;

use crate::report::duration;
use crate::result::{LoadResult, Percentiles, ResultSeries, samples_min};
use numbers::{NumberPath, count, failures, micros, number, quotient};
use plots::{Mark, Palette, Plot, plots, short};
use svg::{PlotArea, draw};

/// Width and height of a drawing in pixels: alone or beside another on a wide screen or paper, and on a narrow screen.
const ALONE: (u32, u32) = (1200, 460);
const BESIDE: (u32, u32) = (720, 420);
const NARROW: (u32, u32) = (420, 340);

/// A result with its name.
#[derive(Clone, Debug)]
pub struct NamedResult {
    /// Its name.
    pub name: String,
    /// Its result.
    pub result: LoadResult,
}

/// Renders the page; without results it is empty.
pub fn page(title: &str, results: &[NamedResult]) -> String {
    let all: Vec<&LoadResult> = results.iter().map(|named| &named.result).collect();
    let palette = Palette::new(&all);
    let mut body = format!("<h1>{}</h1>\n", escaped(title));
    results.iter().enumerate().for_each(|(index, named)| body.push_str(&about(index, named)));
    results.iter().enumerate().for_each(|(index, named)| body.push_str(&headline(index, named)));
    let mut figures_of = plots(&all).into_iter().map(|plot| figure(&plot, results));
    body.extend(figures_of.next());
    (1..results.len()).for_each(|other| body.push_str(&comparison(results, other)));
    body.extend(figures_of);
    results.iter().enumerate().for_each(|(index, named)| body.push_str(&figures(index, named, &palette)));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data: blob:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n\
         <body class=\"of-{}\">\n{body}<script>\n{}</script>\n</body>\n</html>\n",
        escaped(title),
        include_str!("style.css"),
        results.len(),
        include_str!("script.js"),
    )
}

/// Text escaped for HTML, also for attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The program, the machine and the settings of a run.
fn about(index: usize, named: &NamedResult) -> String {
    let result = &named.result;
    let head = &result.head;
    let commit = head.program.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    let build = if head.program.release { "" } else { ", not a release build" };
    let settings = if head.engine_settings.is_empty() {
        String::new()
    } else {
        format!(" Engine settings: {}.", head.engine_settings.join(", "))
    };
    let cut =
        if result.ended == "finished" { "" } else { " The run was interrupted; these are the results until then." };
    let whole = |path: &str, value: u64| count(&NumberPath::here(path), value);
    let seconds = number(&NumberPath::here("elapsed_s"), result.elapsed_s, &result.elapsed_s.round().to_string());
    let run = format!(
        "{}, seed {}, {seconds} seconds, {} requests. leafseal {} on {}, {} cores, Linux {}.{}",
        escaped(&result.scenario),
        whole("settings.seed", result.settings.seed),
        whole("totals.sent", result.totals.sent),
        escaped(&format!("{}{commit}{build}", head.program.version)),
        escaped(&head.machine.cpu),
        whole("machine.cores", head.machine.cores as u64),
        escaped(&head.machine.kernel),
        escaped(&format!("{settings}{cut}")),
    );
    format!("<p class=\"faint\" data-result=\"{index}\"><b>{}</b>: {run}</p>\n", escaped(&named.name))
}

/// The most important figures: throughput, failures, and the latency of each kind of request.
fn headline(index: usize, named: &NamedResult) -> String {
    let LoadResult { totals, series, .. } = &named.result;
    let failed: u64 = totals.errors.values().sum();
    let ended = totals.ok + failed;
    let at = |path: &str| NumberPath::here(path);
    let mut tiles = vec![(
        number(&at("totals.fields_per_s"), totals.fields_per_s, &short(totals.fields_per_s)),
        "fields per second".to_owned(),
    )];
    if ended > 0 {
        let share = failed as f64 / ended as f64;
        let share = quotient(&at("totals.errors"), &at("totals.ok totals.errors"), share, &words::percent(share));
        tiles.push((share, "of requests failed".to_owned()));
    }
    for (place, series) in series.iter().enumerate().filter(|(_, series)| series.ok > 0) {
        let (name, field, value) = if series.ok >= samples_min(0.99) {
            ("p99", "p99", series.latency_us.p99)
        } else {
            ("slowest", "max", series.latency_us.max)
        };
        let time = micros(&at(&format!("series.{place}.latency_us.{field}")), value);
        tiles.push((time, format!("{name}, {}", series.name)));
    }
    let tile = |(figure, what): &(String, String)| format!("<li><b>{figure}</b> {}</li>", escaped(what));
    format!("<ul class=\"headline\" data-result=\"{index}\">{}</ul>\n", tiles.iter().map(tile).collect::<String>())
}

/// Sentences that compare the first result with another.
fn comparison(results: &[NamedResult], other: usize) -> String {
    let (before, after) = (&results[0], &results[other]);
    let sentences = words::compared((0, &before.result), (other, &after.result));
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|sentence| format!("<li>{sentence}</li>\n")).collect();
    let heading = format!("From “{}” (before) to “{}” (after)", before.name, after.name);
    format!("<section class=\"words\"><h2>{}</h2>\n<ul>\n{items}</ul></section>\n", escaped(&heading))
}

fn figure(plot: &Plot, results: &[NamedResult]) -> String {
    let legend: String = plot
        .legend
        .iter()
        .map(|(mark, name)| match mark {
            Mark::Colour(colour) => {
                format!("<li><i style=\"background:var(--series-{colour})\"></i>{}</li>", escaped(name))
            }
            Mark::Cross => format!("<li><i class=\"cross\">×</i>{}</li>", escaped(name)),
            Mark::Line => format!("<li><i class=\"line\">━</i>{}</li>", escaped(name)),
            Mark::Thin => format!("<li><i class=\"line\">─</i>{}</li>", escaped(name)),
        })
        .collect();
    let wide = if results.len() > 1 { BESIDE } else { ALONE };
    let panels: String = plot
        .panels
        .iter()
        .zip(results)
        .map(|(layers, named)| {
            let title =
                if results.len() > 1 { format!("{}: {}", named.name, plot.title) } else { plot.title.to_owned() };
            let name = if results.len() > 1 { escaped(&named.name) } else { String::new() };
            if is_empty(layers) {
                return format!(
                    "<div class=\"panel empty\"><header><b>{name}</b></header><p>{}</p></div>\n",
                    plot.empty
                );
            }
            format!(
                "<div class=\"panel\" data-title=\"{}\" data-result=\"{}\">\n<header><b>{name}</b>\
                 <button class=\"png\" type=\"button\">PNG</button></header>\n\
                 <div class=\"wide\">{}</div><div class=\"narrow\">{}</div>\n</div>\n",
                escaped(&title),
                escaped(&named.name),
                drawing(plot, layers, wide),
                drawing(plot, layers, NARROW),
            )
        })
        .collect();
    format!(
        "<figure id=\"{}\">\n<h2>{}</h2>\n<figcaption>{}</figcaption>\n<ul class=\"legend\">{legend}</ul>\n\
         <div class=\"panels\">\n{panels}</div>\n</figure>\n",
        plot.id,
        escaped(plot.title),
        escaped(&plot.about),
    )
}

/// Whether there is nothing to draw: an empty grid would look like a measurement.
fn is_empty(layers: &[svg::Layer]) -> bool {
    let has_time = |layer: &svg::Layer| {
        layer
            .points
            .iter()
            .any(|(x, y)| x.is_finite() && (y.is_finite() || matches!(layer.form, svg::PointStyle::Below(_))))
    };
    !layers.iter().any(has_time)
}

fn drawing(plot: &Plot, layers: &[svg::Layer], size: (u32, u32)) -> String {
    let image = draw(&PlotArea { x: plot.x, y: plot.y, rows: plot.rows, layers, size });
    image.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(plot.title)), 1)
}

/// The tables of a result.
fn figures(index: usize, named: &NamedResult, palette: &Palette) -> String {
    let result = &named.result;
    let totals = &result.totals;
    let users = totals.users;
    let whole = |path: &str, value: u64| count(&NumberPath::here(format!("totals.{path}")), value);
    let per_second =
        |path: &str, value: f64, text: &str| number(&NumberPath::here(format!("totals.{path}")), value, text);
    let mut out =
        format!("<section data-result=\"{index}\">\n<h2>{}</h2>\n", escaped(&format!("Figures of {}", named.name)));
    let cells = [
        ("users started", whole("users.created", users.created)),
        ("completed", whole("users.completed", users.completed)),
        ("failed", whole("users.failed", users.failed)),
        ("skipped", whole("users.skipped", users.skipped)),
        ("requests sent", whole("sent", totals.sent)),
        ("ok", whole("ok", totals.ok)),
        ("errors", error_counts("totals.errors", &totals.errors)),
        ("fields", whole("fields", totals.fields)),
        ("requests/s", per_second("requests_per_s", totals.requests_per_s, &format!("{:.1}", totals.requests_per_s))),
        ("fields/s", per_second("fields_per_s", totals.fields_per_s, &short(totals.fields_per_s))),
    ];
    let (heads, values): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
    out.push_str(&table(&heads, &[values]));
    out.push_str(&cpu(result));
    out.push_str("<h3>Requests</h3>\n");
    let heads =
        ["", "ok", "errors", "p50", "p90", "p99", "p99.9", "max", "fields/s p50", "slowest 10 %", "slowest 1 %"];
    let all = || result.series.iter().enumerate();
    let rows: Vec<Vec<String>> = all().map(|(place, series)| row(place, series, palette.colour(series))).collect();
    out.push_str(&table(&heads, &rows));
    let failed: Vec<Vec<String>> = all()
        .filter(|(_, series)| failures(series) > 0)
        .map(|(place, series)| failed_row(place, series, palette.colour(series)))
        .collect();
    if !failed.is_empty() {
        out.push_str("<h3>Requests without a good answer</h3>\n");
        let heads = ["time from due to failure", "failed", "p50", "p90", "p99", "p99.9", "max"];
        out.push_str(&table(&heads, &failed));
    }
    result.series.iter().enumerate().for_each(|(place, series)| out.push_str(&left_out(place, series)));
    out.push_str("</section>\n");
    out
}

/// States which requests of a series the first plot omits.
fn left_out(place: usize, series: &ResultSeries) -> String {
    let mut out = String::new();
    let all = [
        ("good answers", "requests", series.requests.due_us.len() as u64, "requests.of", series.requests.of),
        ("failures", "failures", series.failures.due_us.len() as u64, "errors", failures(series)),
    ];
    for (what, list, plotted, whole, of) in all.into_iter().filter(|(_, _, plotted, _, of)| plotted < of) {
        let at = |rest: &str| NumberPath::here(format!("series.{place}.{rest}"));
        let [plotted_count, of] = [count(&at(&format!("{list}.due_us.length")), plotted), count(&at(whole), of)];
        let why = if plotted == 0 { "the result does not record them individually" } else { "a sample by the seed" };
        let name = escaped(&series.name);
        out.push_str(&format!("<p class=\"faint\">{name}: {plotted_count} of {of} {what} are plotted: {why}.</p>\n"));
    }
    out
}

fn error_counts(path: &str, errors: &std::collections::BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return count(&NumberPath::here(path), 0);
    }
    let one = |(code, &value): (&String, &u64)| {
        format!("{} {}", count(&NumberPath::here(format!("{path}.{code}")), value), escaped(code))
    };
    errors.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Placeholder for a missing number.
const NONE: &str = "–";

fn name_of(series: &ResultSeries, colour: usize) -> String {
    format!("<span style=\"color:var(--series-{colour})\">●</span> {}", escaped(&series.name))
}

/// Cells of the percentiles in `field`, computed from `samples` samples.
fn latencies(field: &str, latencies: &Percentiles, samples: u64) -> [String; 5] {
    let &Percentiles { p50, p90, p99, p99_9, max } = latencies;
    [("p50", 0.5, p50), ("p90", 0.9, p90), ("p99", 0.99, p99), ("p99_9", 0.999, p99_9), ("max", 0.0, max)].map(
        |(name, share, value)| carried(share, samples, || micros(&NumberPath::here(format!("{field}.{name}")), value)),
    )
}

/// A percentile's cell, if there are enough samples for it.
fn carried(share: f64, samples: u64, cell: impl Fn() -> String) -> String {
    let least = samples_min(share);
    if samples >= least { cell() } else { format!("<span title=\"requires {least} requests\">{NONE}</span>") }
}

fn row(place: usize, series: &ResultSeries, colour: usize) -> Vec<String> {
    let path = |rest: &str| format!("series.{place}.{rest}");
    let mut cells = vec![
        name_of(series, colour),
        count(&NumberPath::here(path("ok")), series.ok),
        error_counts(&path("errors"), &series.errors),
    ];
    if series.ok == 0 {
        cells.extend(std::iter::repeat_n(NONE.to_owned(), 8));
        return cells;
    }
    cells.extend(latencies(&path("latency_us"), &series.latency_us, series.ok));
    let speeds = series.fields_per_s;
    let speed = |(name, share, value): (&str, f64, f64)| {
        let cell = || number(&NumberPath::here(path(&format!("fields_per_s.{name}"))), value, &short(value));
        carried(share, series.ok, cell)
    };
    cells.extend([("p50", 0.5, speeds.p50), ("p10", 0.9, speeds.p10), ("p1", 0.99, speeds.p1)].map(speed));
    cells
}

/// The number of failed requests of a series, and how long callers waited for them.
fn failed_row(place: usize, series: &ResultSeries, colour: usize) -> Vec<String> {
    let path = |rest: &str| format!("series.{place}.{rest}");
    let mut cells = vec![name_of(series, colour), count(&NumberPath::here(path("errors")), failures(series))];
    if series.failures.of == 0 {
        // Older results lack the durations.
        cells.extend(std::iter::repeat_n(NONE.to_owned(), 5));
    } else {
        cells.extend(latencies(&path("failure_latency_us"), &series.failure_latency_us, series.failures.of));
    }
    cells
}

/// CPU time, if known.
fn cpu(result: &LoadResult) -> String {
    let nanoseconds = |path: &str, value: Option<f64>| {
        let reported =
            |value| format!(", {} per field", number(&NumberPath::here(path), value, &format!("{value:.0} ns")));
        value.map(reported).unwrap_or_default()
    };
    let seconds = |path: &str, value: f64| number(&NumberPath::here(path), value, &duration(value));
    let mut parts = Vec::new();
    if let Some(load) = result.cpu.load_s {
        let per_field = nanoseconds("cpu.load_per_field_ns", result.cpu.load_per_field_ns);
        parts.push(format!("the tester {}{per_field}", seconds("cpu.load_s", load)));
    }
    if let Some(server) = result.cpu.server_s {
        let per_field = nanoseconds("cpu.server_per_field_ns", result.cpu.server_per_field_ns);
        let [network, workers] = [("network", server.network), ("workers", server.workers)]
            .map(|(name, value)| format!("{name} {}", seconds(&format!("cpu.server_s.{name}"), value)));
        parts.push(format!("the engine: {network}, {workers}{per_field}"));
    }
    if parts.is_empty() { String::new() } else { format!("<p class=\"faint\">CPU time: {}.</p>\n", parts.join("; ")) }
}

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = heads.iter().map(|head| format!("<th>{}</th>", escaped(head))).collect();
    let cells = |row: &Vec<String>| row.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>();
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells(row))).collect();
    format!("<div class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A complete result, which tests modify.
    pub(super) fn example() -> LoadResult {
        LoadResult::read(include_str!("../../../../examples/load/reports/before.json")).expect("a result")
    }

    fn of(errors: u64, kept: &[u64]) -> LoadResult {
        let mut result = example();
        let one = &mut result.series[0];
        one.errors = [("no_answer".to_owned(), errors)].into();
        one.failures.of = kept.len() as u64;
        one.failures.due_us = kept.to_vec();
        one.failures.latency_us = vec![1e6; kept.len()];
        one.failure_latency_us = Percentiles { p50: 60.5e6, max: 61e6, ..Percentiles::default() };
        result
    }

    #[test]
    fn failed_requests_are_crossed_counted_and_timed() {
        let without = page("t", &[NamedResult { name: "n".to_owned(), result: example() }]);
        assert!(!without.contains("class=\"failures\"") && !without.contains("without a good answer"), "none failed");
        let with = page("t", &[NamedResult { name: "n".to_owned(), result: of(2, &[1_000_000, 2_000_000]) }]);
        assert_eq!(with.matches("class=\"failures\"").count(), 2, "on a wide and on a narrow screen");
        for cell in [
            "<i class=\"cross\">×</i>",
            "<data data-path=\"series.0.errors\" value=\"2\">2</data>",
            "<data data-path=\"series.0.failure_latency_us.p50\" value=\"60500000\">60.5 s</data>",
            "<data data-path=\"series.0.failure_latency_us.max\" value=\"61000000\">61.0 s</data>",
        ] {
            assert!(with.contains(cell), "{cell}");
        }
    }

    #[test]
    fn requests_that_are_not_plotted_are_stated() {
        let reported =
            |errors, kept: &[u64]| page("t", &[NamedResult { name: "n".to_owned(), result: of(errors, kept) }]);
        let text = |errors, kept, why: &str| {
            format!(
                "\">{kept}</data> of <data data-path=\"series.0.errors\" value=\"{errors}\">{errors}</data> failures are plotted: {why}."
            )
        };
        assert!(reported(9, &[5, 6]).contains(&text(9, 2, "a sample by the seed")));
        let older = reported(9, &[]);
        assert!(older.contains(&text(9, 0, "the result does not record them individually")));
        assert!(!older.contains("failure_latency_us"), "their durations are unknown");
        assert!(!reported(2, &[5, 6]).contains("failures are plotted"));
    }
}
