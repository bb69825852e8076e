//! `fieldseal load` on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::bench::ProcessName;
use super::{Form, time};

/// `fieldseal load`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Exit codes: 0 all requests went well, 1 some failed, were left unanswered or the run was interrupted, 2 and 3 nothing was measured,
4 the result cannot be written: the table is printed all the same

Examples:
  fieldseal load examples/load/printed.yml -o result.json
  fieldseal load examples/load/incident.yml --start --set engine.curve=k1 --set server.workers=2 -o result.json
  fieldseal load scenario.yml --metrics http://127.0.0.1:3444/metrics --json > result.json
  fieldseal load report before.json after.json -o report.html"
)]
pub struct LoadArguments {
    /// A run.
    #[command(flatten)]
    pub run: LoadRunArguments,
    /// Something else than a run.
    #[command(subcommand)]
    pub command: Option<LoadCommand>,
}

/// What is done with results.
#[derive(Debug, Subcommand)]
pub enum LoadCommand {
    /// One page of plots and figures of a run, or of several side by side
    #[command(after_help = "\
Examples:
  fieldseal load report result.json -o report.html
  fieldseal load report before.json after.json --name before --name after -o report.html")]
    Report(LoadReportArguments),
}

/// A run of a scenario.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print the whole result as JSON, as -o writes it, not the table")))]
pub struct LoadRunArguments {
    /// The scenario file: YAML as Artillery has it (docs/load.md)
    #[arg(value_name = "SCENARIO.yml", required = true)]
    pub scenario: Option<PathBuf>,
    /// Where to write the result, JSON for `fieldseal load report`
    #[arg(short, long, value_name = "RESULT.json")]
    pub output: Option<PathBuf>,
    /// What arrivals, draws and values are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How the times between arrivals vary [default: as the file says, evenly]
    #[arg(long, value_enum)]
    pub arrivals: Option<ProcessName>,
    /// Start an engine for the run, as bench does, set by --set; the file's address, certificates and apps do not count then
    #[arg(long, conflicts_with = "pid")]
    pub start: bool,
    /// Where the engine tells its metrics, such as http://127.0.0.1:3444/metrics: its CPU time, busy workers and queue wait are kept
    #[arg(long, value_name = "URL", conflicts_with = "start")]
    pub metrics: Option<String>,
    /// The engine's process id, where it runs on this machine: its CPU time is taken from there
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Requests that are kept one by one in the result; beyond that a draw by the seed
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub requests_max: u32,
    /// Users that may be there at a time; whoever arrives beyond that is skipped and counted
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub users_max: u32,
    /// How long answers and users are waited for after the last phase
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub answer_timeout: Duration,
    /// The form of what is printed: the whole result, or a table.
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal load report`.
#[derive(Debug, Args)]
pub struct LoadReportArguments {
    /// Results of `fieldseal load`; several are compared with the first
    #[arg(value_name = "RESULT.json", required = true)]
    pub results: Vec<PathBuf>,
    /// Where to write the page [default: standard output]
    #[arg(short, long, value_name = "REPORT.html")]
    pub output: Option<PathBuf>,
    /// What a result is called in the page, in their order; may be repeated [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// The page's title
    #[arg(long, value_name = "TEXT", default_value = "Load test")]
    pub title: String,
}
