//! The command line: every command with its flags, help and an example.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use leafseal_client::{DecryptOptions, EncryptOptions, InspectOptions, RewrapOptions};
use leafseal_engine::admin::{RECORD_KEY_SIZE, RotationRule};
use leafseal_engine::{AcceptedSchemes, Curve, Keying};

use crate::accepted;

pub(crate) use audit::{
    AuditCommand, CheckProofArguments, ExportLogArguments, LogPlace, ProveRecordArguments, PruneLogArguments,
    RecordFilter, RecordFormat, ShowLogArguments, VerifyLogArguments,
};
pub(crate) use bench::{
    BenchArguments, BenchCommand, CertificateKey, HandshakesArguments, OperationName, SchemeName, TableArguments,
};
pub(crate) use canaries::{AddCanaryArguments, CanariesCommand};
pub(crate) use load::{LoadArguments, LoadCommand, LoadReportArguments, LoadRunArguments};
use options::OptionArguments;
pub(crate) use slots::{SlotAddArguments, SlotCommand};

mod audit;
mod bench;
mod canaries;
mod load;
mod options;
mod slots;

const EXIT_CODES: &str = "\
Exit codes:
  0 success                       3 keystore or engine unavailable
  1 operation failed              4 output not written
  2 usage or configuration error  5 internal error

Example:
  leafseal keys create acme
  leafseal encrypt --app acme --select '$.card.number' payment.json > sealed.json
  leafseal decrypt --app acme sealed.json";

/// Encrypts and decrypts the chosen fields of JSON documents.
#[derive(Debug, Parser)]
#[command(name = "leafseal", version, about, after_help = EXIT_CODES, max_term_width = 110, subcommand_required = true)]
pub(crate) struct Arguments {
    /// Folder, configuration file and overrides.
    #[command(flatten)]
    pub global: GlobalArguments,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The global options: folder, configuration file and overrides.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArguments {
    /// Folder of the keystore, keys, certificates and leafseal.toml
    #[arg(
        long,
        global = true,
        env = "LEAFSEAL_DIR",
        default_value = ".leafseal",
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub dir: PathBuf,
    /// Configuration file [default: DIR/leafseal.toml, if it exists]
    #[arg(long, global = true, env = "LEAFSEAL_CONFIG", value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// Override one configuration key, as in --set engine.keying=session; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = "Global options")]
    pub set: Vec<String>,
    /// The command by its words, as in `keys rotate`, for the history of the keystore.
    #[arg(skip)]
    pub command_name: String,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a local engine for development; creates missing keys and certificates
    Dev(DevArguments),
    /// Run the engine
    Serve(ServeArguments),
    /// Open the sealed keystore of a running engine with a passphrase or shares
    Unseal(UnsealArguments),
    /// Run the relay, which encrypts, decrypts or redacts chosen fields of HTTP traffic in flight
    Relay(RelayArguments),
    /// Send the same small request at intervals; raise an alarm when it fails or takes too long
    Probe(ProbeArguments),
    /// Encrypt the chosen fields of a JSON document, of JSON Lines, or a whole file
    Encrypt(EncryptArguments),
    /// Decrypt the envelopes in a JSON document, in JSON Lines, or an encrypted file
    Decrypt(DecryptArguments),
    /// Re-encrypt envelopes with the app's newest key version
    Rewrap(RewrapArguments),
    /// Show the metadata of envelopes, never their values
    Inspect(InspectArguments),
    /// Manage apps and their keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Manage the certificates of the server and its clients, and the clients' permissions
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Manage API keys, which programs use to call the engine over HTTP
    #[command(subcommand)]
    ApiKeys(ApiKeysCommand),
    /// Manage canaries: envelopes that raise an alarm when someone decrypts them
    #[command(subcommand)]
    Canaries(CanariesCommand),
    /// Verify audit logs, or print their records
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Check or copy the keystore
    #[command(subcommand)]
    Store(StoreCommand),
    /// Manage the ways in which the keystore can be opened: root keys, passphrases, shares
    #[command(subcommand)]
    Slot(SlotCommand),
    /// Check or print the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Benchmark an engine end to end on this machine: throughput, latency and CPU time
    Bench(Box<BenchArguments>),
    /// Run a load test from a scenario file; render reports
    Load(Box<LoadArguments>),
    /// Show the version, CPU features, and the implementation of each primitive
    #[command(after_help = "Example:\n  leafseal info --json")]
    Info(InfoArguments),
    /// Write man pages and shell completions to a folder
    #[command(hide = true, after_help = "Example:\n  leafseal generate target/package")]
    Generate(GenerateArguments),
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct AnswerFormat {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `leafseal dev`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  leafseal dev\n  leafseal dev --port-base 20000\n  leafseal dev --port 0 --json")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON once the engine is ready: addresses, app and certificates")))]
pub(crate) struct DevArguments {
    /// App to create, unless it exists
    #[arg(long, default_value = "app_dev", value_name = "APP")]
    pub app: String,
    /// Engine port on 127.0.0.1; 0 lets the system choose it and every other port that is not given [default: 3443]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// HTTPS API port on 127.0.0.1; 0 lets the system choose [default: the port of api.address, else 8443]
    #[arg(long, value_name = "PORT")]
    pub api_port: Option<u16>,
    /// Use consecutive ports from PORT: engine, its operator port, the relay's operator port, API, inbound, outbound, upstream
    #[arg(long, value_name = "PORT", conflicts_with = "port", value_parser = clap::value_parser!(u16).range(1..=65_529))]
    pub port_base: Option<u16>,
    /// Do not start the relay and its demo upstream (ports 8444 inbound, 8445 outbound, 8446 upstream)
    #[arg(long)]
    pub no_relay: bool,
    /// How the ready line is printed: one line of JSON once the engine answers
    #[command(flatten)]
    pub form: AnswerFormat,
}

/// `leafseal serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
SIGHUP reloads certificates, keys, client authorities, session ticket keys and log.level. Renewed certificates and keys are loaded
without it: see server.reload_check.

Example:
  leafseal --dir /etc/leafseal serve --address 0.0.0.0:3443")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON once the engine is ready: its addresses")))]
pub(crate) struct ServeArguments {
    /// Address to listen on [default: server.address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub address: Option<std::net::SocketAddr>,
    /// Address of the HTTPS API [default: api.address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub api: Option<std::net::SocketAddr>,
    /// Start although nothing opens the keystore: refuse requests until leafseal unseal brings a passphrase or shares
    #[arg(long)]
    pub sealed: bool,
    /// Print one line of JSON on standard output once the engine answers
    #[command(flatten)]
    pub form: AnswerFormat,
}

/// `leafseal unseal`.
#[derive(Debug, Args)]
#[command(after_help = "\
The engine accepts only clients whose certificate server.unsealers names. Several people may bring one share each.

Examples:
  leafseal unseal --connect engine.internal:3443 --client alice
  leafseal unseal --connect engine.internal:3443 --client alice --file share.txt")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: status (unsealed, open, sealed) and how many shares are missing")))]
pub(crate) struct UnsealArguments {
    /// File with a passphrase, or with shares, one per line; - means standard input [default: ask at the terminal]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How the answer is printed.
    #[command(flatten)]
    pub form: AnswerFormat,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `leafseal relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
SIGHUP reloads the file and certificates and reopens the access log; requests in flight finish under the old configuration.

Example:
  leafseal --dir /etc/leafseal relay --file /etc/leafseal/relay.toml")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON once the relay listens: its addresses, by listener")))]
pub(crate) struct RelayArguments {
    /// Relay configuration: listeners, routes and rules [default: DIR/relay.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// File of the access log; - means standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub access_log: PathBuf,
    /// Print one line of JSON on standard output once it listens
    #[command(flatten)]
    pub form: AnswerFormat,
}

/// `leafseal probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal probe --app acme --connect localhost:3443 --relay https://localhost:8444/probe --limit 250ms
  leafseal probe --app acme --connect localhost:3443 --rounds 1 --json")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON per round: the alarm, and the time and failure of each request")))]
pub(crate) struct ProbeArguments {
    /// App whose keys the engine encrypts with
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// URL of a relay route that encrypts; its upstream must answer a POST of a JSON object with 2xx and the body it received
    #[arg(long, value_name = "URL")]
    pub relay: Option<String>,
    /// Accept every 2xx through the relay without checking the body: a relay that encrypts nothing is then not detected
    #[arg(long, requires = "relay")]
    pub status_only: bool,
    /// Values per request
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// Bytes per value
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=65_536))]
    pub size: u32,
    /// Interval between rounds
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = time)]
    pub every: std::time::Duration,
    /// Time limit of a request; a slower request counts as failed
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time)]
    pub limit: std::time::Duration,
    /// Consecutive failed rounds that raise the alarm; the first successful round ends it
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub failures: u32,
    /// URL to POST JSON to when the alarm begins and when it ends
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// Timeout of a webhook request, and the pause before a retry; 3 attempts in all
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = time)]
    pub webhook_timeout: std::time::Duration,
    /// Address to serve /metrics and /readyz on; /readyz fails during an alarm
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Stop after N rounds, with exit code 1 if the alarm is raised
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Stop with exit code 1 at the first alarm
    #[arg(long)]
    pub exit_on_alarm: bool,
    /// Print a line of JSON for each round
    #[command(flatten)]
    pub form: AnswerFormat,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

fn time(text: &str) -> Result<std::time::Duration, String> {
    let time = leafseal_config::parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "must be a time above zero, such as 500ms, 15s or 2m".to_owned())
}

fn any_time(text: &str) -> Result<std::time::Duration, String> {
    leafseal_config::parse_duration(text).ok_or_else(|| "must be a time, such as 168h or 30m".to_owned())
}

fn rotation(text: &str) -> Result<RotationRule, String> {
    match text {
        "never" => Ok(RotationRule::Never),
        "default" => Ok(RotationRule::Default),
        text => any_time(text).map(RotationRule::After),
    }
}

/// A running engine, in place of the store in `--dir`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectArguments {
    /// Use the engine at HOST:PORT instead of the keystore in --dir
    #[arg(long, value_name = "HOST:PORT", help_heading = "Engine")]
    pub connect: Option<String>,
    /// Client whose certificate in DIR/certs to present [default: the only one there]
    #[arg(long, value_name = "CLIENT", requires = "connect", conflicts_with_all = ["cert", "key"], help_heading = "Engine")]
    pub client: Option<String>,
    /// Certificate of the authority (CA) that issued the engine's certificate, PEM [default: DIR/certs/ca.pem]
    #[arg(long, value_name = "FILE", requires = "connect", help_heading = "Engine")]
    pub ca: Option<PathBuf>,
    /// The client's certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["connect", "key"], help_heading = "Engine")]
    pub cert: Option<PathBuf>,
    /// The client's private key, PEM
    #[arg(long, value_name = "FILE", requires_all = ["connect", "cert"], help_heading = "Engine")]
    pub key: Option<PathBuf>,
    /// Name in the engine's certificate, if it is not HOST
    #[arg(long, value_name = "NAME", requires = "connect", help_heading = "Engine")]
    pub server_name: Option<String>,
}

/// Input and output of a command.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON on standard error at the end: operation, count and seconds")))]
pub(crate) struct StreamArguments {
    /// Input file; - or none means standard input
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Output file, written atomically (unchanged on failure); a new file is accessible to its owner only [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the input
    #[arg(long, value_enum, default_value_t = InputFormat::Auto)]
    pub format: InputFormat,
    /// Tell on standard error, as JSON, what was done
    #[command(flatten)]
    pub form: AnswerFormat,
}

/// The form of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// JSON Lines for .jsonl and .ndjson files, else JSON
    Auto,
    /// One JSON document
    Json,
    /// One JSON document per line
    Jsonl,
}

/// A curve by its short name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CurveName {
    /// P-256
    R1,
    /// secp256k1
    K1,
}

impl CurveName {
    /// The curve.
    pub(crate) fn curve(self) -> Curve {
        match self {
            Self::R1 => Curve::P256,
            Self::K1 => Curve::Secp256k1,
        }
    }
}

/// A keying by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyingName {
    /// A fresh ephemeral key for each value
    Field,
    /// One ephemeral key per document, line or file
    Request,
    /// One ephemeral key for many documents or lines, within limits of time and count
    Session,
}

impl KeyingName {
    /// The keying.
    pub(crate) fn keying(self) -> Keying {
        match self {
            Self::Field => Keying::Field,
            Self::Request => Keying::Request,
            Self::Session => Keying::Session,
        }
    }
}

/// `leafseal encrypt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal encrypt --app acme --select '$.card.number' --select '$..email' payment.json
  leafseal encrypt --app acme --role pci customers.jsonl -o sealed.jsonl
  leafseal encrypt --app acme --scheme symmetric --context order/7 --select '$.card' order.json
  leafseal encrypt --app acme --file scan.pdf -o scan.pdf.enc
  leafseal encrypt --app acme --connect localhost:3443 < payment.json")]
pub(crate) struct EncryptArguments {
    /// The app whose keys are used
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// JSONPath (RFC 9535) of the values to encrypt, in an object or array all of them; may be repeated [default: every value]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    pub select: Vec<String>,
    /// The options of the protocol.
    #[command(flatten)]
    pub options: OptionArguments<EncryptOptions<'static>>,
    /// Fail if a selector matches nothing, in JSON Lines in any line [default: input.strict]
    #[arg(long, conflicts_with = "file")]
    pub strict: bool,
    /// Encrypt the whole input as a file, whatever its format
    #[arg(long, conflicts_with = "format")]
    pub file: bool,
    /// In and out.
    #[command(flatten)]
    pub stream: StreamArguments,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `leafseal decrypt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal decrypt --app acme sealed.json
  leafseal decrypt --app acme --select '$.card' sealed.json
  leafseal decrypt --app acme --file scan.pdf.enc -o scan.pdf")]
pub(crate) struct DecryptArguments {
    /// The app whose keys are used
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// JSONPath (RFC 9535) of the envelopes to decrypt; may be repeated [default: every envelope]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    pub select: Vec<String>,
    /// The options of the protocol.
    #[command(flatten)]
    pub options: OptionArguments<DecryptOptions<'static>>,
    /// Fail if a selector matches nothing, in JSON Lines in any line [default: input.strict]
    #[arg(long, conflicts_with = "file")]
    pub strict: bool,
    /// The input is an encrypted file
    #[arg(long, conflicts_with = "format")]
    pub file: bool,
    /// In and out.
    #[command(flatten)]
    pub stream: StreamArguments,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `leafseal rewrap`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leafseal keys rotate acme\n  leafseal rewrap --app acme sealed.jsonl -o sealed.jsonl"
)]
pub(crate) struct RewrapArguments {
    /// The app whose keys are used
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// JSONPath (RFC 9535) of the envelopes to re-encrypt; may be repeated [default: every envelope]
    #[arg(long, value_name = "PATH")]
    pub select: Vec<String>,
    /// Fail if a selector matches nothing, in JSON Lines in any line [default: input.strict]
    #[arg(long)]
    pub strict: bool,
    /// The options of the protocol.
    #[command(flatten)]
    pub options: OptionArguments<RewrapOptions<'static>>,
    /// In and out.
    #[command(flatten)]
    pub stream: StreamArguments,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `leafseal inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal inspect 'ev:UVRD:…:$'
  leafseal inspect --app acme --json sealed.json
  leafseal inspect --app acme --summary sealed.jsonl
  leafseal inspect --app acme --summary --context-select id --select '$.pan' bound.jsonl")]
#[command(mut_arg("json", |it| it.help("Print JSON: for each envelope a line with its metadata")))]
pub(crate) struct InspectArguments {
    /// Envelopes, or one text file that contains envelopes; - or none means standard input
    #[arg(value_name = "ENVELOPE|FILE")]
    pub inputs: Vec<String>,
    /// Open the envelopes with this app's keys to show also role, origin, time and key version; of a symmetric one that does not open,
    /// the key version
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// The options of the protocol.
    #[command(flatten)]
    pub options: OptionArguments<InspectOptions<'static>>,
    /// JSONPath (RFC 9535) of the envelopes to inspect in JSON; may be repeated [default: every envelope]
    #[arg(long, value_name = "PATH")]
    pub select: Vec<String>,
    /// Format of a file, read as JSON with --context-select, --bind, --select or --other-case [default: any text]
    #[arg(long, value_enum, default_value_t = InputFormat::Auto, hide_default_value = true)]
    pub format: InputFormat,
    /// Print how many there are of each scheme and key; with --app also of each role and age
    #[arg(long)]
    pub summary: bool,
    /// The form.
    #[command(flatten)]
    pub form: AnswerFormat,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

fn parsed_signer(text: &str) -> Result<[u8; RECORD_KEY_SIZE], String> {
    let bytes = hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "must be 64 hexadecimal digits, as `signer` in the output of keys export".to_owned())
}

/// `leafseal keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an app with fresh keys; also creates the keystore and root key if there are none
    #[command(after_help = "Example:\n  leafseal keys create acme")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app and its newest key version")))]
    Create {
        /// App name: a-z, 0-9, _ and -
        app: String,
        /// Succeed without a change if the app exists
        #[arg(long)]
        if_missing: bool,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Import existing keys, as a new app or as the app's newest key version
    #[command(after_help = "\
A file of --r1 or --k1 is taken as it is: make sure where it comes from. A file of --escrow is what a recipient has decrypted of a \
`keys export`: one key version, with a statement that the exporting keystore has signed. It comes back as a whole or not at all, several \
in the order of their numbers, and a new app accepts what the exported one did (`keys accept`). The statement must be signed by this \
keystore, or by the one that --signer names. A symmetric root comes in no other way: who chooses roots could make values that open \
under two of them.

Examples:
  leafseal keys import acme --r1 acme-p256.pem --k1 acme-k1.pem
  leafseal keys import acme --escrow 1.escrow 2.escrow --signer $SIGNER
  leafseal keys import billing --from-app acme --escrow 1.escrow")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app and its newest key version")))]
    Import {
        /// The app
        app: String,
        /// The P-256 private key, PEM: SEC1 or PKCS#8 [default: a fresh one]
        #[arg(long, value_name = "FILE", required_unless_present_any = ["k1", "escrow"])]
        r1: Option<PathBuf>,
        /// The secp256k1 private key, PEM: SEC1 or PKCS#8 [default: a fresh one]
        #[arg(long, value_name = "FILE")]
        k1: Option<PathBuf>,
        /// Key versions of one app, each as `keys export` has encrypted it
        #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["r1", "k1"])]
        escrow: Vec<PathBuf>,
        /// The app from which they were exported [default: an app of the same name]
        #[arg(long, value_name = "APP", requires = "escrow")]
        from_app: Option<String>,
        /// The keystore that has signed their statements: `signer` of its `keys export` [default: this one]
        #[arg(long, value_name = "HEX", requires = "escrow", value_parser = parsed_signer)]
        signer: Option<[u8; RECORD_KEY_SIZE]>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// List apps and key versions
    #[command(after_help = "Example:\n  leafseal keys list --json")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: an array of the apps with their key versions")))]
    List {
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Add a key version to an app; older versions still decrypt
    #[command(after_help = "Example:\n  leafseal keys rotate acme")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app and its newest key version")))]
    Rotate {
        /// The app
        app: String,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Disable an app or one of its key versions
    #[command(after_help = "Example:\n  leafseal keys disable acme --version 1")]
    Disable {
        /// The app
        app: String,
        /// The key version [default: the whole app]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Enable a disabled app or key version
    #[command(after_help = "Example:\n  leafseal keys enable acme --version 1")]
    Enable {
        /// The app
        app: String,
        /// The key version [default: the app; its disabled versions stay disabled]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Destroy the keys of disabled versions: values encrypted with them can never be decrypted again
    #[command(after_help = "\
Rewrap all stored values, disable the old versions, and wait until nothing needs them before you trim: a
disabled version can be enabled again, a trimmed one cannot. Trimmed versions do not count towards
keystore.version_count_max; their numbers are not reused. Engines may run meanwhile. Backups of the
keystore still have the keys.

Examples:
  leafseal keys trim acme
  leafseal keys trim acme --keep 10 --yes
  leafseal keys trim acme --version 1 --version 2 --yes")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app, the versions, and whether their keys are destroyed")))]
    Trim {
        /// The app
        app: String,
        /// Keep the N newest versions, disabled ones included [default: trim every disabled version]
        #[arg(long, value_name = "N")]
        keep: Option<usize>,
        /// Trim this version only, which must be disabled; may be repeated
        #[arg(long, value_name = "N", conflicts_with = "keep")]
        version: Vec<u32>,
        /// Destroy the keys; without it the command lists what it would destroy and changes nothing
        #[arg(long)]
        yes: bool,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Export the private keys and symmetric roots of an app for escrow, encrypted to a recipient's public key
    #[command(after_help = "\
Prints JSON with the active versions, each as JSON Web Encryption (RFC 7516: ECDH-ES on P-256, A256GCM) of a text: a statement of what \
it has, signed by the keystore, two private keys as PEM and the symmetric root. Any JOSE library opens them with the recipient's private \
key, and `keys import --escrow` reads the result. The holder of both can decrypt what the app has encrypted: keep both apart, and away \
from the engine.

`signer`, which is printed to standard error, too, is the key that has signed. Another keystore takes the versions back with it alone \
(`keys import --signer`): note it apart from the export.

Examples:
  leafseal keys export acme --recipient escrow.pub.pem --confirm acme -o acme.escrow.json
  jq -r '.keys[0].jwe' acme.escrow.json | step crypto jwe decrypt --key escrow.pem")]
    Export {
        /// The app
        app: String,
        /// Public key of the recipient on P-256, PEM
        #[arg(long, value_name = "FILE")]
        recipient: PathBuf,
        /// Export this version only, which must be active
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// The app's name again
        #[arg(long, value_name = "APP")]
        confirm: String,
        /// File to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete an app with all its keys, after a delay in which it can be undone; it is disabled at once
    #[command(after_help = "\
What the app's keys encrypted can never be decrypted again once the delay is over. The app is disabled at once, so that whatever still \
needs it fails while the deletion can be undone (`keys undelete`). It is refused while engines have recorded that envelopes of the app \
were opened within --unused-for; they record that about once a day (engine.use_record_interval), unless their role in PostgreSQL has \
SELECT alone. An engine, or `keys upkeep`, deletes the keys when the delay is over, with the app's API keys and its places in grants. If \
envelopes were opened after the request, it puts that off by a day (engine.use_record_interval). Backups of \
the keystore still have the keys; SQLite overwrites the rows, PostgreSQL with its next vacuum.

Examples:
  leafseal keys delete acme
  leafseal keys delete acme --confirm acme --delay 720h")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app, whether its deletion is planned, and when")))]
    Delete {
        /// The app
        app: String,
        /// The time until the keys are deleted
        #[arg(long, value_name = "TIME", default_value = "168h", value_parser = any_time)]
        delay: std::time::Duration,
        /// Refuse if envelopes of the app were opened so recently
        #[arg(long, value_name = "TIME", default_value = "168h", value_parser = any_time)]
        unused_for: std::time::Duration,
        /// The app's name again; without it the command changes nothing
        #[arg(long, value_name = "APP")]
        confirm: Option<String>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Undo `keys delete` before its delay is over: the app is as it was
    #[command(after_help = "Example:\n  leafseal keys undelete acme")]
    Undelete {
        /// The app
        app: String,
    },
    /// Set the age at which the keys of an app are rotated
    #[command(after_help = "\
Engines rotate by themselves (engine.store_upkeep_interval): of several on one keystore one acts. Older versions still decrypt.

Examples:
  leafseal keys rotate-after acme 2160h
  leafseal keys rotate-after acme default")]
    RotateAfter {
        /// The app
        app: String,
        /// An age such as 2160h; never, for rotation by command alone; default, for engine.rotate_after
        #[arg(value_name = "AGE", value_parser = rotation)]
        age: RotationRule,
    },
    /// Set which kinds of envelopes of an app are decrypted; others fail as damaged ones do
    #[command(after_help = "\
Anyone who has the public key can make public-key envelopes, and so put values of their own where yours are stored. An app that accepts \
symmetric alone decrypts only what an engine has encrypted; from-public-key is what `rewrap --scheme symmetric` made of a public-key \
envelope, which anyone may have made. Rewrap what is stored first, and set engine.scheme to symmetric: what is not accepted is not \
lost, but fails until it is accepted again. Running engines follow within seconds. A grant (`certs issue --accept`), an API key \
(`api-keys create --accept`) and a call (`--accept`) may accept less, not more. Engines refuse to seal what the app does not accept.

Examples:
  leafseal keys accept acme --kinds symmetric,from-public-key
  leafseal keys accept acme --kinds all")]
    Accept {
        /// The app
        app: String,
        /// The kinds, separated by commas: public-key, symmetric, from-public-key; or all
        #[arg(long, value_name = "KINDS", value_parser = accepted::parsed)]
        kinds: AcceptedSchemes,
    },
    /// Rotate and delete the keys whose time has come, as engines do
    #[command(after_help = "\
For keystores that engines cannot write to, or that no engine has open: run it from time to time.

Example:
  leafseal keys upkeep")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the apps that were rotated and deleted")))]
    Upkeep {
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Print the public keys that values are encrypted to
    #[command(after_help = "Example:\n  leafseal keys public acme --curve r1 > acme-r1.pem")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: app, key version and public keys (hexadecimal and PEM)")))]
    Public {
        /// The app
        app: String,
        /// Print only the key of this curve
        #[arg(long, value_enum)]
        curve: Option<CurveName>,
        /// Print PEM, the default
        #[arg(long, conflicts_with = "json")]
        pem: bool,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
        /// The engine.
        #[command(flatten)]
        engine: ConnectArguments,
    },
}

/// `leafseal certs`.
#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Create an authority (CA) and a server certificate in DIR/certs, or renew the certificate and add names to it
    #[command(after_help = "Example:\n  leafseal certs init --name engine.internal --name localhost --ip 10.0.0.7")]
    Init {
        /// Host name of the server, added to the names in the certificate; may be repeated [default: localhost]
        #[arg(long, value_name = "HOST")]
        name: Vec<String>,
        /// IP address of the server, added to those in the certificate; may be repeated [default: 127.0.0.1 and ::1]
        #[arg(long, value_name = "ADDRESS")]
        ip: Vec<std::net::IpAddr>,
        /// Issue the certificate for the given names and addresses only, and drop those that it has
        #[arg(long)]
        only: bool,
        /// Days that the server's certificate is valid
        #[arg(long, default_value_t = leafseal_net::tls::LEAF_DAYS, value_name = "N")]
        days: u32,
    },
    /// Issue a client certificate and grant the client permissions
    #[command(
        after_help = "Example:\n  leafseal certs issue billing --app acme --allow encrypt,decrypt --role pci --accept symmetric"
    )]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the client and the paths of its certificate and key")))]
    Issue {
        /// Client name: a-z, 0-9, ., _ and -
        client: String,
        /// App that the client may use; may be repeated
        #[arg(long, value_name = "APP", required_unless_present = "all_apps")]
        app: Vec<String>,
        /// Allow every app, including apps created later
        #[arg(long, conflicts_with = "app")]
        all_apps: bool,
        /// Operations that the client may use
        #[arg(long, value_enum, value_delimiter = ',', required = true)]
        allow: Vec<Allowed>,
        /// Data role whose values the client may decrypt; values without a role are always allowed; may be repeated [default:
        /// every role]
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// Kinds of envelopes that are decrypted for the client, of those that the app accepts, separated by commas: public-key,
        /// symmetric, from-public-key [default: all]
        #[arg(long, value_name = "KINDS", value_parser = accepted::parsed)]
        accept: Option<AcceptedSchemes>,
        /// Days that the certificate is valid
        #[arg(long, default_value_t = leafseal_net::tls::LEAF_DAYS, value_name = "N")]
        days: u32,
        /// Accept every certificate with this name that the authority signs, not only the newest
        #[arg(long)]
        unpinned: bool,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Renew certificates that expire soon; names and permissions stay, and engines, relays and clients load the new files by themselves
    #[command(after_help = "Example, daily by a timer:\n  leafseal certs renew")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: an array of the renewed certificates with their paths")))]
    Renew {
        /// Renew these at once: clients by name, or server [default: what DIR/certs has and expires soon]
        name: Vec<String>,
        /// Days before its end from which a certificate is renewed, at most a third of --days
        #[arg(long, default_value_t = 30, value_name = "N")]
        within: u32,
        /// Days that the new certificates are valid
        #[arg(long, default_value_t = leafseal_net::tls::LEAF_DAYS, value_name = "N")]
        days: u32,
        /// Days for which engines accept a client's old certificate, too, never beyond its end
        #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=366))]
        overlap: u32,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Create the authority (CA) that signs the outbound relay's certificates for destinations, unless it exists
    #[command(after_help = "Example:\n  leafseal certs relay-ca")]
    RelayCa,
    /// List certificates with their dates, and clients with their permissions
    #[command(after_help = "Example:\n  leafseal certs list")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: certificates with their dates, clients with their grants")))]
    List {
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Revoke all permissions of a client; running engines refuse it within seconds
    #[command(after_help = "Example:\n  leafseal certs revoke billing")]
    Revoke {
        /// The client
        client: String,
    },
}

/// The operations that a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allowed {
    /// Encrypt values
    Encrypt,
    /// Decrypt envelopes
    Decrypt,
}

/// `leafseal api-keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiKeysCommand {
    /// Create a key for an app and print it, only once: the keystore holds its hash
    #[command(
        after_help = "Example:\n  leafseal api-keys create acme --allow encrypt,decrypt --role pci --accept symmetric"
    )]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the key, its id and its permissions")))]
    Create {
        /// The app
        app: String,
        /// Operations that the key permits
        #[arg(long, value_enum, value_delimiter = ',', required = true)]
        allow: Vec<ApiAllowed>,
        /// Data role whose values the key may decrypt; values without a role are always allowed; may be repeated [default: every role]
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// Kinds of envelopes that are decrypted for the key and by its tokens, of those that the app accepts, separated by commas:
        /// public-key, symmetric, from-public-key [default: all]
        #[arg(long, value_name = "KINDS", value_parser = accepted::parsed)]
        accept: Option<AcceptedSchemes>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// List keys by id, with their permissions
    #[command(after_help = "Example:\n  leafseal api-keys list")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: an array of the keys with their ids and permissions")))]
    List {
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Revoke a key permanently; running engines refuse it within seconds
    #[command(after_help = "Example:\n  leafseal api-keys revoke 3f9c0a1b2c3d4e5f")]
    Revoke {
        /// Id of the key: the part between `lsk_` and the next `_`
        id: String,
    },
}

/// The operations that an API key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiAllowed {
    /// Encrypt values
    Encrypt,
    /// Decrypt envelopes
    Decrypt,
    /// Show the metadata of envelopes
    Inspect,
    /// Issue tokens with which another party decrypts one payload
    ClientSideTokens,
}

/// `leafseal store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Check that the keystore is intact, that nothing else has changed it, and that every key can be opened
    #[command(after_help = "Examples:
  leafseal store check
  leafseal store check --verify-record engine.log
  journalctl -u leafseal -o cat | leafseal store check --verify-record -")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: counts of apps, key versions, clients, API keys; records; faults")))]
    Check {
        /// Also check, in this log of an engine, the signed records of what happened while the keystore was sealed, and print them [- for
        /// standard input]
        #[arg(long, value_name = "FILE")]
        verify_record: Option<PathBuf>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Bring a keystore that an older Leafseal made to the newest schema, in which every row is authenticated
    #[command(after_help = "\
Run it once every engine, relay and command that uses the keystore is of this version: older ones refuse the keystore afterwards. Engines \
go on meanwhile. It is one transaction: a kill leaves the keystore as it was.

Examples:
  leafseal store migrate --dry-run
  leafseal store migrate")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: schemas before and after, entries, whether it was migrated")))]
    Migrate {
        /// Open every key and report what would be done, without changing anything
        #[arg(long)]
        dry_run: bool,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Show what was changed in the keystore, when and by whom, newest first; reading keys out counts
    #[command(after_help = "\
The keystore keeps the newest changes (keystore.change_count_max), authenticated as all of it. Engines with an audit log carry them there.

Examples:
  leafseal store history
  leafseal store history --last 1000 --json")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON per change: number, time, change, app, client, command, user")))]
    History {
        /// Changes to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        last: u32,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Write a backup of the keystore to a file, encrypted under its root key, while engines run
    #[command(after_help = "\
The backup is the keystore as of one moment: apps, key versions, grants and API keys, each row compared with what was authenticated. \
Only the root key opens it, which it does not contain: keep that apart. Engines go on; changes of a SQLite file wait meanwhile.

Examples:
  leafseal store backup keystore-2026-11-27.backup
  leafseal store backup - | ssh backup.internal 'cat > keystore.backup'")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the generation, rows and bytes")))]
    Backup {
        /// File to write, atomically; - means standard output
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Restore a backup as the configured keystore, a SQLite file or a PostgreSQL database, where there is none yet
    #[command(after_help = "\
The restored keystore is the one that was backed up, with the same root key, in whichever database. It never overwrites a keystore. \
Every row is authenticated before it is there at all, and every key is opened afterwards. Permissions are restored, too: revoke again \
what was revoked since.

Engines and commands refuse a keystore that is older than what they have seen, because someone may have put it back to undo a revocation. \
--accept-generation confirms it: the keystore goes on with a number that is newer than what any engine has seen, so one command suffices \
for all of them. Their refusal and `store check` print the generation. A machine that has seen another keystore in this place needs \
--accept-store as well, on each machine.

Examples:
  leafseal --dir restored store restore keystore-2026-11-27.backup
  leafseal store restore --accept-generation 1204")]
    #[command(group(clap::ArgGroup::new("restored").required(true).multiple(true)))]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: generation, rows, apps, key versions, clients and API keys")))]
    Restore {
        /// Backup to read; - means standard input
        #[arg(value_name = "FILE", group = "restored")]
        file: Option<PathBuf>,
        /// Confirm that this keystore was put on purpose in the place of another that was seen there
        #[arg(long, value_name = "ID", group = "restored")]
        accept_store: Option<String>,
        /// Confirm that the keystore, which is at this generation, was put back on purpose
        #[arg(long, value_name = "N", group = "restored")]
        accept_generation: Option<u64>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Copy the keystore between a SQLite file and the configured store, such as a PostgreSQL database
    #[command(after_help = "\
The copy is the same keystore under the same root key. The command compares every row with the original and opens every key of the copy. \
It never overwrites a keystore. Make no changes to the original meanwhile, and use only one of the two afterwards: changes are not merged.

Examples:
  leafseal store copy --from keystore.db --set keystore.url=postgres://leafseal@db.internal/keys
  leafseal store copy --to backup/keystore.db")]
    #[command(group(clap::ArgGroup::new("file").required(true)))]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the number of rows, apps, key versions, clients and API keys")))]
    Copy {
        /// Copy this SQLite file to the configured store
        #[arg(long, value_name = "FILE", group = "file")]
        from: Option<PathBuf>,
        /// Copy the configured store to this SQLite file
        #[arg(long, value_name = "FILE", group = "file")]
        to: Option<PathBuf>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Extract the keys of some apps to a keystore of their own under another root key, for jobs that decrypt on other machines
    #[command(after_help = "\
The extract is a folder that `--dir`, and Engine.open of Python, take. It contains no clients, no API keys and no other apps; disabled \
key versions are without their private keys. It does not follow the original: extract again after a rotation, and remove extracts that \
must not decrypt any more. Create no keys in an extract: the original would not have them.

Example:
  leafseal store extract acme --to extract --root-key-file extract.key")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: counts, the paths, and whether the root key was created")))]
    Extract {
        /// Apps to extract
        #[arg(value_name = "APP", required = true)]
        apps: Vec<String>,
        /// Folder for keystore.db, created if it does not exist; it must not contain a keystore
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
        /// Root key of the extract, created if it does not exist [default: root.key in the folder]
        #[arg(long, value_name = "FILE")]
        root_key_file: Option<PathBuf>,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
}

/// `leafseal config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report everything that would stop `serve` or `relay`: keys, files, certificates, the keystore and its root key
    #[command(after_help = "\
The check opens no listener, so it can run beside the programs. It brings a keystore of schema 1 to schema 2, as serve does.

Example:
  leafseal config check --config leafseal.toml --relay relay.toml")]
    Check {
        /// Relay configuration [default: DIR/relay.toml, if it exists]
        #[arg(long, value_name = "FILE")]
        relay: Option<PathBuf>,
        /// Check only what this program needs [default: serve, and relay if it has a file]
        #[arg(long = "for", value_enum, value_name = "PROGRAM")]
        program: Option<ConfiguredProgram>,
    },
    /// Print every key with its value and the origin of the value
    #[command(
        after_help = "Examples:\n  leafseal config show --json\n  leafseal config show --for relay --relay relay.toml"
    )]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: each key with its value, origin, default and range")))]
    Show {
        /// Relay configuration [default: DIR/relay.toml]
        #[arg(long, value_name = "FILE")]
        relay: Option<PathBuf>,
        /// The program whose configuration is printed
        #[arg(long = "for", value_enum, value_name = "PROGRAM", default_value = "serve")]
        program: ConfiguredProgram,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Print the JSON Schema of a configuration file, for editors
    #[command(after_help = "Example:\n  leafseal config schema --for relay > relay.schema.json")]
    Schema {
        /// The program whose configuration file the schema describes
        #[arg(long = "for", value_enum, value_name = "PROGRAM", default_value = "serve")]
        program: ConfiguredProgram,
    },
}

/// A program that reads the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfiguredProgram {
    /// The engine
    Serve,
    /// The relay
    Relay,
}

/// `leafseal generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// Folder for man/man1 and completions; created if it does not exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// `leafseal info`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: version, CPU features, implementation of each primitive")))]
pub(crate) struct InfoArguments {
    /// The form.
    #[command(flatten)]
    pub form: AnswerFormat,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Every command that does something shows an example in its help.
    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command) {
            if command.has_subcommands() {
                return command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(check);
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("leafseal "), "{} has no example", command.get_name());
            assert!(command.get_about().is_some(), "{} does not say what it does", command.get_name());
        }
        let command = Arguments::command();
        check(&command);
    }

    /// Without the command's own words a reader would have to run it to see what it prints.
    #[test]
    fn the_help_of_json_names_the_output_of_each_command() {
        fn check(command: &clap::Command) {
            if let Some(json) = command.get_arguments().find(|argument| argument.get_id() == "json") {
                let help = json.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("JSON") && help != "Print JSON", "{}: {help}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }
}
