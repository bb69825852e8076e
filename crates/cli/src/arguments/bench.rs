//! `fieldseal bench` on the command line.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fieldseal_load::arrivals::Process;
use fieldseal_load::echo::Exchange;
use fieldseal_load::table::Operation;

use super::{ConnectArguments, CurveName, Form, KeyingName, time};

/// `fieldseal bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  fieldseal bench
  fieldseal bench --quick
  fieldseal bench --fields 30,2000 --curve r1 --keying request --json > bench.json
  fieldseal bench --fields 30 --operation encrypt --rate 1000 --set server.workers=2"
)]
pub struct BenchArguments {
    /// The table.
    #[command(flatten)]
    pub table: TableArguments,
    /// Something else than the table.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

/// Experiments.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Whether small requests wait for large ones: their latency alone and beside them, and what the system itself takes
    #[command(after_help = "Example:\n  fieldseal bench interference --duration 40s --json")]
    Interference(InterferenceArguments),
    /// Ten times more load than the engine can do: health, memory, answers, and how soon it is itself again
    #[command(after_help = "Example:\n  fieldseal bench overload --duration 60s")]
    Overload(OverloadArguments),
    /// Mixed work for long, with cancelled requests and dropped connections, every result checked: whether anything grows
    #[command(after_help = "Example:\n  fieldseal bench soak --duration 10m --seed 7")]
    Soak(SoakArguments),
    /// A server that does nothing, for `interference`: ends with its standard input
    #[command(
        hide = true,
        after_help = "Example:\n  fieldseal bench echo --exchange 1100:4100:0 --exchange 2000000:8000000:7500"
    )]
    Echo(EchoArguments),
}

/// `fieldseal bench interference`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, and the latencies of each case")))]
pub struct InterferenceArguments {
    /// Small requests a second, in Poisson arrivals
    #[arg(long, value_name = "RATE", default_value = "100", value_parser = rate)]
    pub rate: f64,
    /// Values in a small request
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fields: u32,
    /// Values in a large request
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub large_fields: u32,
    /// Connections that loop large requests
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub large_connections: u32,
    /// How long each case is measured, all rounds together
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = time)]
    pub duration: Duration,
    /// Rounds in which the cases take turns
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// What values and arrivals are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal bench overload`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, the capacity and what became of the requests")))]
pub struct OverloadArguments {
    /// How much more than the engine can do
    #[arg(long, value_name = "FACTOR", default_value = "10", value_parser = rate)]
    pub factor: f64,
    /// How long the load lasts
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub duration: Duration,
    /// How long the engine's capacity is measured before
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub capacity: Duration,
    /// Values in a request; each gets a key of its own, so that the work is much and the bytes are few
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fields: u32,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// Most requests in flight on each connection; what is due beyond that is not sent
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub in_flight: u32,
    /// The deadline that each request carries
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub deadline: Duration,
    /// How often the engine is asked for its health
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = time)]
    pub health_period: Duration,
    /// What values and arrivals are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal bench soak`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, the counts and the memory over time")))]
pub struct SoakArguments {
    /// For how long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub duration: Duration,
    /// Connections, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// What is done and with which values comes from this
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal bench echo`.
#[derive(Debug, Args)]
pub struct EchoArguments {
    /// Bytes of a request, bytes of its answer, and microseconds of work between them, for each port
    #[arg(long = "exchange", value_name = "REQUEST:ANSWER:WORK", required = true, value_parser = exchange)]
    pub exchanges: Vec<Exchange>,
}

/// Reads what `--exchange` takes.
fn exchange(text: &str) -> Result<Exchange, String> {
    let numbers: Result<Vec<usize>, _> = text.split(':').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[request_size, answer_size, work]) => {
            Ok(Exchange { request_size, answer_size, work: Duration::from_micros(work as u64) })
        }
        _ => Err("three numbers, as in 1100:4100:0".to_owned()),
    }
}

/// The table of throughput, latency and CPU time.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, and the figures of each row")))]
pub struct TableArguments {
    /// Values in a request; several separated by commas [default: 1,30,150,2000,10000,60000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fields: Vec<u32>,
    /// What is asked [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub operation: Vec<OperationName>,
    /// The curves [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub curve: Vec<CurveName>,
    /// How often a fresh ephemeral key is made [default: all three ways]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub keying: Vec<KeyingName>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub field_size: u32,
    /// Few rows and little time: 1, 2,000 and 60,000 values, r1, request and session keying, unless flags say otherwise
    #[arg(long)]
    pub quick: bool,
    /// How long each row is measured, all rounds together [default: 1800ms, or 600ms with --quick]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Rounds in which the rows take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Requests in flight on each connection; fewer where requests are long [default: 4, with --rate at most 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub in_flight: Option<u32>,
    /// An open loop: so many requests a second over all connections, due whatever was answered
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// How the times between requests of an open loop vary
    #[arg(long, value_enum, default_value_t = ProcessName::Poisson, requires = "rate")]
    pub arrivals: ProcessName,
    /// What values and arrivals are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The form.
    #[command(flatten)]
    pub form: Form,
    /// The app whose keys the engine that --connect names shall use
    #[arg(long, value_name = "APP", default_value = "bench", requires = "connect", help_heading = "Engine")]
    pub app: String,
    /// The process of that engine, for its CPU time
    #[arg(long, value_name = "PID", requires = "connect", help_heading = "Engine")]
    pub pid: Option<u32>,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OperationName {
    /// Values to envelopes
    Encrypt,
    /// Envelopes to values
    Decrypt,
}

impl OperationName {
    /// The operation.
    pub fn operation(self) -> Operation {
        match self {
            Self::Encrypt => Operation::Encrypt,
            Self::Decrypt => Operation::Decrypt,
        }
    }
}

/// How the times between arrivals vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProcessName {
    /// Not at all
    Even,
    /// As for independent callers
    Poisson,
}

impl ProcessName {
    /// The process.
    pub fn process(self) -> Process {
        match self {
            Self::Even => Process::Even,
            Self::Poisson => Process::Poisson,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= 1e7);
    rate.ok_or_else(|| "it takes a number above 0, up to 10000000".to_owned())
}
