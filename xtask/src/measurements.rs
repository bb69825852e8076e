//! Generates `docs/measurements.md` from the result files under `benches/results/`: one file for each run of a benchmark, and `index.json`
//! with the machines and the order of the areas.

use std::{collections::BTreeMap, error::Error, fmt::Write, fs, path::Path};

use serde::Deserialize;

use crate::source::Source;

/// The folder of the results, and the page generated from them.
pub const RESULTS: &str = "benches/results/";
/// The page.
pub const PAGE: &str = "docs/measurements.md";

const HEAD: &str = "\
# Measurements

What Fieldseal costs, compared with its peers or with the floor. `cargo xtask measurements` writes this page from the result files in
[benches/results](../benches/results); add a file there after a run, or replace the one of the last run, and run it again.

Read the ratios first: the machines are shared, and their clocks drift. A bar is what the project has promised itself.
The name in the last column leads to the command, the machine and the commit below.
";

/// `index.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    machines: BTreeMap<String, String>,
    areas: Vec<String>,
}

/// The measurements of one command on one machine at one commit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    area: String,
    command: String,
    machine: String,
    commit: String,
    date: String,
    conditions: String,
    figures: Vec<Figure>,
    tables: Vec<Table>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    figure: String,
    result: String,
    /// Comparison with peers, with the minimum possible, or with the same setup without the measured feature.
    ratio: String,
    bar: String,
    /// Whether the bar is met, if there is one.
    met: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Writes the page of the repository at `root`.
///
/// # Errors
/// If files cannot be read or written, or results are invalid.
pub fn write(root: &Path, sources: &[Source]) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(root.join(PAGE), page(sources)?)?)
}

/// Renders the page from the results among `sources`.
///
/// # Errors
/// A message with the path of the invalid result.
pub fn page(sources: &[Source]) -> Result<String, String> {
    let mut index = None;
    let mut runs = BTreeMap::new();
    for source in sources {
        let Some(name) = source.path.strip_prefix(RESULTS).and_then(|name| name.strip_suffix(".json")) else {
            continue;
        };
        let wrong = |error| format!("{}: {error}", source.path);
        if name == "index" {
            index = Some(serde_json::from_str::<Index>(&source.text).map_err(wrong)?);
        } else {
            runs.insert(name, serde_json::from_str::<Run>(&source.text).map_err(wrong)?);
        }
    }
    let index = index.ok_or_else(|| format!("{RESULTS}index.json is missing"))?;
    for (name, run) in &runs {
        check(&index, run).map_err(|what| format!("{RESULTS}{name}.json: {what}"))?;
    }
    let mut page = HEAD.to_owned();
    for area in &index.areas {
        let of_area = || runs.iter().filter(|(_, run)| run.area == *area);
        write_area(&mut page, area, of_area().map(|(name, run)| (*name, run)).collect());
    }
    write_runs(&mut page, &index, &runs);
    Ok(page)
}

fn check(index: &Index, run: &Run) -> Result<(), String> {
    if !index.areas.contains(&run.area) {
        return Err(format!("index.json has no area \"{}\"", run.area));
    }
    if !index.machines.contains_key(&run.machine) {
        return Err(format!("index.json has no machine \"{}\"", run.machine));
    }
    match run.figures.iter().find(|figure| figure.bar.is_empty() != figure.met.is_none()) {
        Some(figure) => Err(format!("\"{}\" needs both a bar and whether it is met, or neither", figure.figure)),
        None => Ok(()),
    }
}

fn row<'a>(page: &mut String, cells: impl IntoIterator<Item = &'a str>) {
    for cell in cells {
        let _ = write!(page, "| {} ", cell.replace('|', "\\|"));
    }
    page.push_str("|\n");
}

fn table_head(page: &mut String, columns: &[&str]) {
    page.push('\n');
    row(page, columns.iter().copied());
    let _ = writeln!(page, "{}|", "|---".repeat(columns.len()));
}

fn write_area(page: &mut String, area: &str, runs: Vec<(&str, &Run)>) {
    let _ = write!(page, "\n## {area}\n");
    if runs.iter().any(|(_, run)| !run.figures.is_empty()) {
        table_head(page, &["figure", "result", "compared", "bar", "run"]);
    }
    for (name, run) in &runs {
        for figure in &run.figures {
            let bar = match figure.met {
                None => String::new(),
                Some(true) => format!("{}: met", figure.bar),
                Some(false) => format!("{}: **missed**", figure.bar),
            };
            row(page, [figure.figure.as_str(), &figure.result, &figure.ratio, &bar, &format!("[{name}](#runs)")]);
        }
    }
    for (name, run) in &runs {
        for table in &run.tables {
            let _ = writeln!(page, "\n{} ([{name}](#runs)):", table.title);
            table_head(page, &table.columns.iter().map(String::as_str).collect::<Vec<_>>());
            table.rows.iter().for_each(|cells| row(page, cells.iter().map(String::as_str)));
        }
    }
}

fn write_runs(page: &mut String, index: &Index, runs: &BTreeMap<&str, Run>) {
    page.push_str("\n## Runs\n\nMachines:\n\n");
    for (name, machine) in &index.machines {
        let _ = writeln!(page, "- **{name}**: {machine}.");
    }
    table_head(page, &["run", "command", "machine", "commit", "date", "conditions"]);
    for (name, run) in runs {
        row(page, [*name, &format!("`{}`", run.command), &run.machine, &run.commit, &run.date, &run.conditions]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = r#"{"machines": {"A": "a machine"}, "areas": ["Walking", "Sealing"]}"#;
    const RUN: &str = r#"{"area": "Sealing", "command": "make bench", "machine": "A", "commit": "abc", "date": "2026-11-21",
        "conditions": "",
        "figures": [{"figure": "a field", "result": "43 ns", "ratio": "3.8 times a | b", "bar": "45 ns", "met": true},
                    {"figure": "a file", "result": "9 ms", "ratio": "", "bar": "8 ms", "met": false}],
        "tables": [{"title": "By size", "columns": ["bytes", "16"], "rows": [["ours", "3"]]}]}"#;

    fn sources(run: &str) -> [Source; 2] {
        [Source::new("benches/results/index.json", INDEX), Source::new("benches/results/fields.json", run)]
    }

    #[test]
    fn figures_stand_in_their_area_with_bar_and_run() {
        let page = page(&sources(RUN)).unwrap();
        let expected = "## Walking\n\n## Sealing\n\n| figure | result | compared | bar | run |\n|---|---|---|---|---|\n\
                        | a field | 43 ns | 3.8 times a \\| b | 45 ns: met | [fields](#runs) |\n\
                        | a file | 9 ms |  | 8 ms: **missed** | [fields](#runs) |\n\
                        \nBy size ([fields](#runs)):\n\n| bytes | 16 |\n|---|---|\n| ours | 3 |\n\n## Runs\n";
        assert!(page.contains(expected), "{page}");
        assert!(page.ends_with("| fields | `make bench` | A | abc | 2026-11-21 |  |\n"), "{page}");
    }

    #[test]
    fn impossible_results_are_errors_with_their_file() {
        for (run, reported) in [
            (RUN.replace("Sealing", "Sleeping"), "benches/results/fields.json: index.json has no area \"Sleeping\""),
            (RUN.replace("\"A\"", "\"C\""), "no machine \"C\""),
            (RUN.replace("true", "null"), "\"a field\" needs both a bar and whether it is met"),
            (RUN.replace("figures", "numbers"), "fields.json: unknown field `numbers`"),
        ] {
            let error = page(&sources(&run)).unwrap_err();
            assert!(error.contains(reported), "{error}");
        }
        assert_eq!(page(&[]).unwrap_err(), "benches/results/index.json is missing");
    }
}
