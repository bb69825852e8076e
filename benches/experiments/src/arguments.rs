//! The command line of the experiments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use leafseal_client::Scheme;

use crate::echo::Exchange;

/// Experiments on engines that they start: what large requests, an overload and long mixed work do
#[derive(Debug, Parser)]
#[command(
    name = "experiments",
    after_help = "Example:\n  cargo run --release --package leafseal-experiments -- soak --duration 10m"
)]
pub(crate) struct Arguments {
    /// The engines.
    #[command(flatten)]
    pub engine: EngineArguments,
    /// The experiment.
    #[command(subcommand)]
    pub command: Experiment,
}

/// How the engines are started.
#[derive(Debug, Clone, Args)]
pub(crate) struct EngineArguments {
    /// The program `leafseal` [default: the one beside this program]
    #[arg(long, global = true, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Configuration file of the engines
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A setting of the engines; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the report as one line of JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Measure whether small requests wait for large ones: their latency alone and beside them, and the system's own share
    Interference(InterferenceArguments),
    /// Overload the engine, by default tenfold: health, memory, answers and recovery time
    Overload(OverloadArguments),
    /// Run mixed requests for a long time, with cancellations and dropped connections; check every result and report growth
    Soak(SoakArguments),
    /// A server that does nothing, for `interference`; exits when its standard input closes
    #[command(hide = true)]
    Echo(EchoArguments),
}

/// `experiments interference`.
#[derive(Debug, Args)]
pub(crate) struct InterferenceArguments {
    /// Small requests per second, with Poisson arrivals
    #[arg(long, value_name = "RATE", default_value = "100", value_parser = rate)]
    pub rate: f64,
    /// Values per small request
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fields: u32,
    /// Values per large request
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub large_fields: u32,
    /// Scheme of all requests
    #[arg(long, default_value = "public-key", value_parser = scheme)]
    pub scheme: Scheme,
    /// Connections that send large requests in a loop
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub large_connections: u32,
    /// Duration of each case, all rounds together
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = time)]
    pub duration: Duration,
    /// Rounds; the cases alternate in each
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seed of values and arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `experiments overload`.
#[derive(Debug, Args)]
pub(crate) struct OverloadArguments {
    /// Load as a multiple of the engine's capacity
    #[arg(long, value_name = "FACTOR", default_value = "10", value_parser = rate)]
    pub factor: f64,
    /// Duration of the load
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub duration: Duration,
    /// Duration of the capacity measurement before the load
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub capacity: Duration,
    /// Values per request; each gets its own ephemeral key: much CPU time, few bytes
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fields: u32,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// Maximum requests in flight on each connection; requests due beyond it are not sent
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub in_flight: u32,
    /// Deadline of each request
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub deadline: Duration,
    /// Interval between health requests
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = time)]
    pub health_period: Duration,
    /// Seed of values and arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `experiments soak`.
#[derive(Debug, Args)]
pub(crate) struct SoakArguments {
    /// Duration of the run
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub duration: Duration,
    /// Connections, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// Seed of operations and values
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `experiments echo`.
#[derive(Debug, Args)]
pub(crate) struct EchoArguments {
    /// Per port: bytes of a request, bytes of its answer, and microseconds of work between them
    #[arg(long = "exchange", value_name = "REQUEST:ANSWER:WORK", required = true, value_parser = exchange)]
    pub exchanges: Vec<Exchange>,
}

/// Parses the value of `--exchange`.
fn exchange(text: &str) -> Result<Exchange, String> {
    let numbers: Result<Vec<usize>, _> = text.split(':').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[request_size, answer_size, work]) => {
            Ok(Exchange { request_size, answer_size, work: Duration::from_micros(work as u64) })
        }
        _ => Err("must be three numbers, as in 1100:4100:0".to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = leafseal_config::parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "must be a time above zero, such as 500ms, 15s or 2m".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= 1e7);
    rate.ok_or_else(|| "must be a number above 0, up to 10000000".to_owned())
}

fn scheme(text: &str) -> Result<Scheme, String> {
    let named = [Scheme::PublicKey, Scheme::Symmetric].into_iter().find(|scheme| scheme.as_str() == text);
    named.ok_or_else(|| "must be public-key or symmetric".to_owned())
}
