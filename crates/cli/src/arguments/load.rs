//! The command line of `leafseal load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::bench::ProcessName;
use super::{AnswerFormat, time};

/// `leafseal load`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Exit codes: 0 every request succeeded, 1 requests failed or stayed unanswered or the run was interrupted, 2 and 3 nothing was
measured, 4 the result could not be written (the table is still printed)

Examples:
  leafseal load examples/load/printed.yml -o result.json
  leafseal load examples/load/incident.yml --start --set engine.curve=k1 --set server.workers=2 -o result.json
  leafseal load scenario.yml --metrics http://127.0.0.1:3444/metrics --json > result.json
  leafseal load report before.json after.json -o report.html"
)]
pub(crate) struct LoadArguments {
    /// A run.
    #[command(flatten)]
    pub run: LoadRunArguments,
    /// Something else than a run.
    #[command(subcommand)]
    pub command: Option<LoadCommand>,
}

/// Commands for results.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Render the results of one or more runs as one page of plots and figures
    #[command(after_help = "\
Examples:
  leafseal load report result.json -o report.html
  leafseal load report before.json after.json --name before --name after -o report.html")]
    Report(LoadReportArguments),
}

/// A run of a scenario.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print the whole result as JSON, as -o writes it, instead of the table")))]
pub(crate) struct LoadRunArguments {
    /// Scenario file in Artillery's YAML format (docs/load.md)
    #[arg(value_name = "SCENARIO.yml", required = true)]
    pub scenario: Option<PathBuf>,
    /// Apply the changes of this entry of the file's config.environments, as Artillery does
    #[arg(short, long, value_name = "NAME")]
    pub environment: Option<String>,
    /// Result file, JSON for `leafseal load report`
    #[arg(short, long, value_name = "RESULT.json")]
    pub output: Option<PathBuf>,
    /// Seed of arrivals, random choices and values
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Distribution of the intervals between arrivals [default: that of the scenario file, else even]
    #[arg(long, value_enum)]
    pub arrivals: Option<ProcessName>,
    /// Start an engine for the run, as bench does, configured by --set; ignores the file's address, certificates and apps
    #[arg(long, conflicts_with = "pid")]
    pub start: bool,
    /// Metrics URL of the engine, such as http://127.0.0.1:3444/metrics, to record its CPU time, busy workers and queue wait
    #[arg(long, value_name = "URL", conflicts_with = "start")]
    pub metrics: Option<String>,
    /// Process id of the engine, if it runs on this machine, to measure its CPU time
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Maximum requests recorded one by one in the result; of more, a random sample by the seed
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub requests_max: u32,
    /// Maximum concurrent users; arrivals beyond it are skipped and counted
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub users_max: u32,
    /// How long to wait for answers and users after the last phase
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub answer_timeout: Duration,
    /// The form of what is printed: the whole result, or a table.
    #[command(flatten)]
    pub form: AnswerFormat,
}

/// `leafseal load report`.
#[derive(Debug, Args)]
pub(crate) struct LoadReportArguments {
    /// Result files of `leafseal load`; each is compared with the first
    #[arg(value_name = "RESULT.json", required = true)]
    pub results: Vec<PathBuf>,
    /// Report file [default: standard output]
    #[arg(short, long, value_name = "REPORT.html")]
    pub output: Option<PathBuf>,
    /// Name of a result in the report, in the order of the results; may be repeated [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Title of the report
    #[arg(long, value_name = "TEXT", default_value = "Load test")]
    pub title: String,
}
