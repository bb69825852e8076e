//! The command line of `leafseal bench`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use leafseal_load::arrivals::ArrivalProcess;
use leafseal_load::table::TableOperation;

use super::{AnswerFormat, ConnectArguments, CurveName, KeyingName, time};

/// `leafseal bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  leafseal bench
  leafseal bench --quick
  leafseal bench --fields 30,2000 --curve r1 --keying request --json > bench.json
  leafseal bench --fields 1,30,2000 --scheme public-key,symmetric --curve r1
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

/// Other measurements.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Open a new TLS connection for each request: with private-key operations one by one, in batches, and resuming sessions
    #[command(
        after_help = "Examples:\n  leafseal bench handshakes\n  leafseal bench handshakes --key rsa2048 --open 64 --json"
    )]
    Handshakes(HandshakesArguments),
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
    pub form: AnswerFormat,
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
    /// Schemes to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "public-key")]
    pub scheme: Vec<SchemeName>,
    /// Curves to measure, of the scheme public-key [default: both]
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
    pub form: AnswerFormat,
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

/// How values are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemeName {
    /// To a public key
    PublicKey,
    /// With a symmetric key
    Symmetric,
}

impl From<SchemeName> for leafseal_engine::Scheme {
    fn from(name: SchemeName) -> Self {
        match name {
            SchemeName::PublicKey => Self::PublicKey,
            SchemeName::Symmetric => Self::Symmetric,
        }
    }
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
    pub(crate) fn operation(self) -> TableOperation {
        match self {
            Self::Encrypt => TableOperation::Encrypt,
            Self::Decrypt => TableOperation::Decrypt,
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
    pub(crate) fn process(self) -> ArrivalProcess {
        match self {
            Self::Even => ArrivalProcess::Even,
            Self::Poisson => ArrivalProcess::Poisson,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= 1e7);
    rate.ok_or_else(|| "must be a number above 0, up to 10000000".to_owned())
}
