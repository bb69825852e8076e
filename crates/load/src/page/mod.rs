//! Results as one page of HTML that needs nothing else: figures, plots, and several results side by side.

mod plots;
mod svg;
mod words;

use crate::report::duration;
use crate::result::{LoadResult, Percentiles, ResultSeries};
use plots::{Palette, Plot, plots, short};
use svg::draw;

/// Pixels of a drawing on a wide screen or paper, alone and beside another, and on a narrow screen.
const ALONE: (u32, u32) = (1200, 460);
const BESIDE: (u32, u32) = (720, 420);
const NARROW: (u32, u32) = (420, 340);

/// A result and what it is called.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub result: LoadResult,
}

/// The page. Without results it is an empty one.
pub fn page(title: &str, results: &[Named]) -> String {
    let all: Vec<&LoadResult> = results.iter().map(|named| &named.result).collect();
    let palette = Palette::new(&all);
    let mut body = format!("<h1>{}</h1>\n", escaped(title));
    results.iter().for_each(|named| body.push_str(&about(named)));
    let mut figures_of = plots(&all).into_iter().map(|plot| figure(&plot, results));
    body.extend(figures_of.next());
    if let [first, others @ ..] = results {
        others.iter().for_each(|other| body.push_str(&comparison(first, other)));
    }
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

/// Text that may stand in HTML, in an attribute too.
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

/// What was run where.
fn about(named: &Named) -> String {
    let result = &named.result;
    let head = &result.head;
    let commit = head.program.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    let build = if head.program.release { "" } else { ", no release build" };
    let settings = if head.engine_settings.is_empty() {
        String::new()
    } else {
        format!(" The engine was given {}.", head.engine_settings.join(", "))
    };
    let cut = if result.ended == "finished" { "" } else { " It was interrupted: these are the results until then." };
    let text = format!(
        "{}, seed {}, {} seconds, {} requests. fieldseal {}{commit}{build} on {}, {} cores, Linux {}.{settings}{cut}",
        result.scenario,
        result.settings.seed,
        result.elapsed_s.round(),
        result.totals.sent,
        head.program.version,
        head.machine.cpu,
        head.machine.cores,
        head.machine.kernel,
    );
    format!("<p class=\"faint\"><b>{}</b>: {}</p>\n", escaped(&named.name), escaped(&text))
}

fn comparison(before: &Named, after: &Named) -> String {
    let sentences = words::compared(&before.result, &after.result);
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|sentence| format!("<li>{}</li>\n", escaped(sentence))).collect();
    let heading = format!("From “{}” (before) to “{}” (after)", before.name, after.name);
    format!("<section class=\"words\"><h2>{}</h2>\n<ul>\n{items}</ul></section>\n", escaped(&heading))
}

fn figure(plot: &Plot, results: &[Named]) -> String {
    let legend: String = plot
        .legend
        .iter()
        .map(|(colour, name)| format!("<li><i style=\"background:var(--series-{colour})\"></i>{}</li>", escaped(name)))
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
        escaped(plot.about),
    )
}

fn drawing(plot: &Plot, layers: &[svg::Layer], size: (u32, u32)) -> String {
    let image = draw(plot.x, plot.y, layers, size);
    image.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(plot.title)), 1)
}

/// A number of the result, as it stands there and as people read it.
fn number(path: &str, value: f64, text: &str) -> String {
    format!("<data data-path=\"{path}\" value=\"{value}\">{}</data>", escaped(text))
}

fn count(path: &str, value: u64) -> String {
    number(path, value as f64, &value.to_string())
}

fn micros(path: &str, value: f64) -> String {
    number(path, value, &duration(value / 1e6))
}

/// The tables of a result.
fn figures(index: usize, named: &Named, palette: &Palette) -> String {
    let result = &named.result;
    let totals = &result.totals;
    let users = totals.users;
    let errors = told("totals.errors", &totals.errors);
    let mut out =
        format!("<section data-result=\"{index}\">\n<h2>{}</h2>\n", escaped(&format!("Figures of {}", named.name)));
    let cells = [
        ("users began", count("totals.users.created", users.created)),
        ("completed", count("totals.users.completed", users.completed)),
        ("failed", count("totals.users.failed", users.failed)),
        ("skipped", count("totals.users.skipped", users.skipped)),
        ("requests sent", count("totals.sent", totals.sent)),
        ("ok", count("totals.ok", totals.ok)),
        ("errors", errors),
        ("fields", count("totals.fields", totals.fields)),
        (
            "requests/s",
            number("totals.requests_per_s", totals.requests_per_s, &format!("{:.1}", totals.requests_per_s)),
        ),
        ("fields/s", number("totals.fields_per_s", totals.fields_per_s, &short(totals.fields_per_s))),
    ];
    let (heads, values): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
    out.push_str(&table(&heads, &[values]));
    out.push_str(&cpu(result));
    out.push_str("<h3>Requests</h3>\n");
    let heads =
        ["", "ok", "errors", "p50", "p90", "p99", "p99.9", "max", "fields/s p50", "slowest 10 %", "slowest 1 %"];
    let rows: Vec<Vec<String>> =
        result.series.iter().enumerate().map(|(place, series)| row(place, series, palette.colour(series))).collect();
    out.push_str(&table(&heads, &rows));
    for series in &result.series {
        if (series.requests.due_us.len() as u64) < series.requests.of {
            let text = format!(
                "{}: {} of {} requests are plotted, drawn by the seed.",
                series.name,
                series.requests.due_us.len(),
                series.requests.of
            );
            out.push_str(&format!("<p class=\"faint\">{}</p>\n", escaped(&text)));
        }
    }
    out.push_str("</section>\n");
    out
}

fn told(path: &str, errors: &std::collections::BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return "0".to_owned();
    }
    let one = |(code, &value): (&String, &u64)| {
        format!("{} {}", count(&format!("{path}.{}", escaped(code)), value), escaped(code))
    };
    errors.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn row(place: usize, series: &ResultSeries, colour: usize) -> Vec<String> {
    let path = |rest: &str| format!("series.{place}.{rest}");
    let Percentiles { p50, p90, p99, p99_9, max } = series.latency_us;
    let speed = |name: &str, value: f64| number(&path(&format!("fields_per_s.{name}")), value, &short(value));
    let mut cells = vec![
        format!("<span style=\"color:var(--series-{colour})\">●</span> {}", escaped(&series.name)),
        count(&path("ok"), series.ok),
        told(&path("errors"), &series.errors),
    ];
    if series.ok == 0 {
        cells.extend(std::iter::repeat_n("–".to_owned(), 8));
        return cells;
    }
    cells.extend([
        micros(&path("latency_us.p50"), p50),
        micros(&path("latency_us.p90"), p90),
        micros(&path("latency_us.p99"), p99),
        micros(&path("latency_us.p99_9"), p99_9),
        micros(&path("latency_us.max"), max),
        speed("p50", series.fields_per_s.p50),
        speed("p10", series.fields_per_s.p10),
        speed("p1", series.fields_per_s.p1),
    ]);
    cells
}

/// CPU time, as far as it is known.
fn cpu(result: &LoadResult) -> String {
    let nanoseconds = |path: &str, value: Option<f64>| {
        value.map(|value| format!(", {} a field", number(path, value, &format!("{value:.0} ns")))).unwrap_or_default()
    };
    let mut parts = Vec::new();
    if let Some(load) = result.cpu.load_s {
        let per_field = nanoseconds("cpu.load_per_field_ns", result.cpu.load_per_field_ns);
        parts.push(format!("the tester {}{per_field}", number("cpu.load_s", load, &duration(load))));
    }
    if let Some(server) = result.cpu.server_s {
        let per_field = nanoseconds("cpu.server_per_field_ns", result.cpu.server_per_field_ns);
        let [network, workers] = [("network", server.network), ("workers", server.workers)].map(|(name, value)| {
            format!("{name} {}", number(&format!("cpu.server_s.{name}"), value, &duration(value)))
        });
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
