//! The command line of `leafseal bench`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use leafseal_load::arrivals::Process;
use leafseal_load::echo::Exchange;
use leafseal_load::table::Operation;

use super::{ConnectArguments, CurveName, Form, KeyingName, time};

/// `leafseal bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  leafseal bench
  leafseal bench --quick
  leafseal bench --fields 30,2000 --curve r1 --keying request --json > bench.json
  leafseal bench --fields 30 --operation encrypt --rate 1000 --set server.workers=2"
)]
pub(crate) struct BenchArguments {
    /// The table.
    #[command(flatten)]
    pub table: TableArguments,
    /// Something else than the table.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

/// Experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure whether small requests wait for large ones: their latency alone and beside them, and the system's own share
    #[command(after_help = "Example:\n  leafseal bench interference --duration 40s --json")]
    Interference(InterferenceArguments),
    /// Open a new TLS connection for each request: with private-key operations one by one, in batches, and resuming sessions
    #[command(
        after_help = "Examples:\n  leafseal bench handshakes\n  leafseal bench handshakes --key rsa2048 --open 64 --json"
    )]
    Handshakes(HandshakesArguments),
    /// Overload the engine, by default tenfold: health, memory, answers and recovery time
    #[command(after_help = "Example:\n  leafseal bench overload --duration 60s")]
    Overload(OverloadArguments),
    /// Run mixed requests for a long time, with cancellations and dropped connections; check every result and report growth
    #[command(after_help = "Example:\n  leafseal bench soak --duration 10m --seed 7")]
    Soak(SoakArguments),
    /// A server that does nothing, for `interference`; exits when its standard input closes
    #[command(
        hide = true,
        after_help = "Example:\n  leafseal bench echo --exchange 1100:4100:0 --exchange 2000000:8000000:7500"
    )]
    Echo(EchoArguments),
}

/// `leafseal bench interference`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, and the latencies of each case")))]
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
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// `leafseal bench handshakes`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the machine, and rates, CPU time and latencies of each row")))]
pub(crate) struct HandshakesArguments {
    /// Keys of the engine's certificate [default: all four]
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub key: Vec<CertificateKey>,
    /// Connections that are open at a time, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,8,64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub open: Vec<u16>,
    /// Duration of each row, all rounds together
    #[arg(long, value_name = "TIME", default_value = "1500ms", value_parser = time)]
    pub duration: Duration,
    /// Rounds; the rows alternate in each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// The key of a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CertificateKey {
    /// RSA with 2,048 bits
    Rsa2048,
    /// RSA with 3,072 bits
    Rsa3072,
    /// RSA with 4,096 bits
    Rsa4096,
    /// P-256
    P256,
}

impl CertificateKey {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096, Self::P256];

    /// As the command line has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa2048",
            Self::Rsa3072 => "rsa3072",
            Self::Rsa4096 => "rsa4096",
            Self::P256 => "p256",
        }
    }
}

/// `leafseal bench overload`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, the capacity and the outcome of the requests")))]
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
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// `leafseal bench soak`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, the counts and the memory over time")))]
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
    /// The form.
    #[command(flatten)]
    pub form: Form,
}

/// `leafseal bench echo`.
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

/// The table of throughput, latency and CPU time.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: the plan, the machine, and the figures of each row")))]
pub(crate) struct TableArguments {
    /// Values per request, separated by commas [default: 1,30,150,2000,10000,60000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fields: Vec<u32>,
    /// Operations to measure [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub operation: Vec<OperationName>,
    /// Curves to measure [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub curve: Vec<CurveName>,
    /// How often to create an ephemeral key [default: all three ways]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub keying: Vec<KeyingName>,
    /// Bytes per value
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub field_size: u32,
    /// Short run with few rows: 1, 2,000 and 60,000 values, r1, request and session keying, unless flags override them
    #[arg(long)]
    pub quick: bool,
    /// Duration of each row, all rounds together [default: 1800ms, or 600ms with --quick]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Rounds; the rows alternate in each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Requests in flight on each connection; fewer if requests are long [default: 4, with --rate at most 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub in_flight: Option<u32>,
    /// Open loop: send RATE requests per second over all connections without waiting for answers
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Distribution of the intervals between requests of an open loop
    #[arg(long, value_enum, default_value_t = ProcessName::Poisson, requires = "rate")]
    pub arrivals: ProcessName,
    /// Seed of values and arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The form.
    #[command(flatten)]
    pub form: Form,
    /// App whose keys the engine given by --connect uses
    #[arg(long, value_name = "APP", default_value = "bench", requires = "connect", help_heading = "Engine")]
    pub app: String,
    /// Process id of that engine, to measure its CPU time
    #[arg(long, value_name = "PID", requires = "connect", help_heading = "Engine")]
    pub pid: Option<u32>,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OperationName {
    /// Encrypt values
    Encrypt,
    /// Decrypt envelopes
    Decrypt,
}

impl OperationName {
    /// The operation.
    pub(crate) fn operation(self) -> Operation {
        match self {
            Self::Encrypt => Operation::Encrypt,
            Self::Decrypt => Operation::Decrypt,
        }
    }
}

/// How the times between arrivals vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProcessName {
    /// Constant intervals
    Even,
    /// Random intervals, as from independent callers
    Poisson,
}

impl ProcessName {
    /// The process.
    pub(crate) fn process(self) -> Process {
        match self {
            Self::Even => Process::Even,
            Self::Poisson => Process::Poisson,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= 1e7);
    rate.ok_or_else(|| "must be a number above 0, up to 10000000".to_owned())
}
