//! Generates `docs/measurements.md` from the result files under `benches/results/`: one file for each run of a benchmark, and `index.json`
//! with the machines and the order of the areas.

use std::{collections::BTreeMap, error::Error, fmt::Write, fs, path::Path};

use serde::Deserialize;

use crate::source::SourceFile;

/// The folder of the results, and the page generated from them.
pub(crate) const RESULTS: &str = "benches/results/";
/// The page.
pub(crate) const PAGE: &str = "docs/measurements.md";

const HEAD: &str = "\
# Measurements

The cost of Leafseal, compared with peers or with a lower bound. `cargo xtask measurements` generates this page from the result files in
[benches/results](../benches/results): add or replace a file after a run, then run the command again.

- Compare ratios first: the machines are shared, and their clock rates vary. A bar is a target of the project.
- ″ means the command of the row above. Each command links to its result file, which has the conditions of the run (other load on the
  machine, rounds, versions) and, for some runs, further tables.
";

const COLUMNS: [&str; 8] = ["Area", "Figure", "Result", "Ratio or bar", "Command", "Machine", "Commit", "Date"];

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
    /// Stays in the result file.
    #[allow(dead_code, reason = "part of the format, not of the page")]
    conditions: String,
    figures: Vec<Figure>,
    /// Wide data that stays in the result file.
    tables: Vec<MarkdownTable>,
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
struct MarkdownTable {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Writes the page of the repository at `root`.
///
/// # Errors
/// If files cannot be read or written, or results are invalid.
pub(crate) fn write(root: &Path, sources: &[SourceFile]) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(root.join(PAGE), page(sources)?)?)
}

/// Renders the page from the results among `sources`.
///
/// # Errors
/// A message with the path of the invalid result.
pub(crate) fn page(sources: &[SourceFile]) -> Result<String, String> {
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
    page.push('\n');
    row(&mut page, COLUMNS);
    let _ = writeln!(page, "{}|", "|---".repeat(COLUMNS.len()));
    for area in &index.areas {
        for (name, run) in runs.iter().filter(|(_, run)| run.area == *area) {
            write_run(&mut page, name, run);
        }
    }
    page.push_str("\n## Machines\n\n");
    for (name, machine) in &index.machines {
        let _ = writeln!(page, "- **{name}**: {machine}.");
    }
    Ok(page)
}

fn check(index: &Index, run: &Run) -> Result<(), String> {
    if !index.areas.contains(&run.area) {
        return Err(format!("index.json has no area \"{}\"", run.area));
    }
    if !index.machines.contains_key(&run.machine) {
        return Err(format!("index.json has no machine \"{}\"", run.machine));
    }
    if let Some(table) = run.tables.iter().find(|table| table.rows.iter().any(|row| row.len() != table.columns.len())) {
        return Err(format!("the table \"{}\" has a row that is longer or shorter than its head", table.title));
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

/// Writes a row for each figure of a run; the first one has the command.
fn write_run(page: &mut String, name: &str, run: &Run) {
    let mut command = format!("[`{}`](../{RESULTS}{name}.json)", run.command);
    for figure in &run.figures {
        row(
            page,
            [
                run.area.as_str(),
                &figure.figure,
                &figure.result,
                &ratio(figure),
                &command,
                &run.machine,
                &run.commit,
                &run.date,
            ],
        );
        "″".clone_into(&mut command);
    }
}

/// The ratio to peers, and the bar with whether it is met.
fn ratio(figure: &Figure) -> String {
    let bar = match figure.met {
        None => return figure.ratio.clone(),
        Some(true) => format!("bar {}: met", figure.bar),
        Some(false) => format!("bar {}: **missed**", figure.bar),
    };
    if figure.ratio.is_empty() { bar } else { format!("{}; {bar}", figure.ratio) }
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

    fn sources(run: &str) -> [SourceFile; 2] {
        [SourceFile::new("benches/results/index.json", INDEX), SourceFile::new("benches/results/fields.json", run)]
    }

    #[test]
    fn every_figure_is_a_row_with_its_run() {
        let page = page(&sources(RUN)).unwrap();
        let expected = "\n| Area | Figure | Result | Ratio or bar | Command | Machine | Commit | Date |\n\
                        |---|---|---|---|---|---|---|---|\n\
                        | Sealing | a field | 43 ns | 3.8 times a \\| b; bar 45 ns: met | \
                        [`make bench`](../benches/results/fields.json) | A | abc | 2026-11-21 |\n\
                        | Sealing | a file | 9 ms | bar 8 ms: **missed** | ″ | A | abc | 2026-11-21 |\n\
                        \n## Machines\n\n- **A**: a machine.\n";
        assert!(page.ends_with(expected), "{page}");
    }

    #[test]
    fn impossible_results_are_errors_with_their_file() {
        for (run, reported) in [
            (RUN.replace("Sealing", "Sleeping"), "benches/results/fields.json: index.json has no area \"Sleeping\""),
            (RUN.replace("\"A\"", "\"C\""), "no machine \"C\""),
            (RUN.replace("true", "null"), "\"a field\" needs both a bar and whether it is met"),
            (RUN.replace("[\"ours\", \"3\"]", "[\"ours\"]"), "\"By size\" has a row that is longer or shorter"),
            (RUN.replace("figures", "numbers"), "fields.json: unknown field `numbers`"),
        ] {
            let error = page(&sources(&run)).unwrap_err();
            assert!(error.contains(reported), "{error}");
        }
        assert_eq!(page(&[]).unwrap_err(), "benches/results/index.json is missing");
    }
}
