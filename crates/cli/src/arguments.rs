//! The command line: every command with its flags, help and an example.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fieldseal_engine::{Curve, Keying, OnFailure};

pub use bench::{
    BenchArguments, BenchCommand, EchoArguments, InterferenceArguments, OperationName, OverloadArguments,
    SoakArguments, TableArguments,
};
pub use load::{LoadArguments, LoadCommand, LoadReportArguments, LoadRunArguments};

mod bench;
mod load;

const EXIT_CODES: &str = "\
Exit codes:
  0 done               3 store or engine out of reach
  1 the work failed    4 output could not be written
  2 usage or config    5 a fault of Fieldseal itself

Example:
  fieldseal keys create acme
  fieldseal encrypt --app acme --select '$.card.number' payment.json > sealed.json
  fieldseal decrypt --app acme sealed.json";

/// Encrypts and decrypts the chosen fields of JSON documents.
#[derive(Debug, Parser)]
#[command(name = "fieldseal", version, about, after_help = EXIT_CODES, max_term_width = 110, subcommand_required = true)]
pub struct Arguments {
    /// Where things lie.
    #[command(flatten)]
    pub place: Place,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where things lie and how they are set.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Folder of keystore, keys, certificates and fieldseal.toml
    #[arg(
        long,
        global = true,
        env = "FIELDSEAL_DIR",
        default_value = ".fieldseal",
        value_name = "DIR",
        help_heading = "Place"
    )]
    pub dir: PathBuf,
    /// Configuration file [default: DIR/fieldseal.toml, if it is there]
    #[arg(long, global = true, env = "FIELDSEAL_CONFIG", value_name = "FILE", help_heading = "Place")]
    pub config: Option<PathBuf>,
    /// Sets one key of the configuration, as --set engine.keying=session; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = "Place")]
    pub set: Vec<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make everything that is missing and run an engine on this machine, for a trial
    Dev(DevArguments),
    /// Run the engine
    Serve(ServeArguments),
    /// Run the relay: HTTP in flight, with chosen fields encrypted, decrypted or redacted
    Relay(RelayArguments),
    /// Send the same small request again and again, and raise an alarm when it takes too long
    Probe(ProbeArguments),
    /// Encrypt the chosen fields of a JSON document, of JSON Lines, or a whole file
    Encrypt(EncryptArguments),
    /// Decrypt the envelopes in a JSON document, in JSON Lines, or an encrypted file
    Decrypt(DecryptArguments),
    /// Bring envelopes to the app's newest key version
    Rewrap(RewrapArguments),
    /// Tell what envelopes say about themselves, never their value
    Inspect(InspectArguments),
    /// Apps and their keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Certificates of the server and its clients, and what clients may do
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Keys with which programs call the engine over HTTP
    #[command(subcommand)]
    ApiKeys(ApiKeysCommand),
    /// The keystore itself
    #[command(subcommand)]
    Store(StoreCommand),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure an engine end to end on this machine: throughput, latency, and CPU time from the system's accounting
    Bench(Box<BenchArguments>),
    /// Drive an engine as a scenario file says and measure every request; reports of what came of it
    Load(Box<LoadArguments>),
    /// Version, CPU features, and which implementation serves each primitive
    #[command(after_help = "Example:\n  fieldseal info --json")]
    Info(InfoArguments),
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct Form {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `fieldseal dev`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fieldseal dev\n  fieldseal dev --port-base 20000\n  fieldseal dev --port 0 --json"
)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON once the engine answers: addresses, app and certificates")))]
pub struct DevArguments {
    /// The app to make
    #[arg(long, default_value = "app_dev", value_name = "APP")]
    pub app: String,
    /// Port of 127.0.0.1; 0 lets the system choose this and all others that are not given [default: 3443]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Port of 127.0.0.1 for the HTTPS API; 0 lets the system choose [default: that of api.address, else 8443]
    #[arg(long, value_name = "PORT")]
    pub api_port: Option<u16>,
    /// Move all ports: PORT for the engine, then its operator port, the relay's operator port, the API, inbound, outbound, upstream
    #[arg(long, value_name = "PORT", conflicts_with = "port", value_parser = clap::value_parser!(u16).range(1..=65_529))]
    pub port_base: Option<u16>,
    /// Do not run the relay and the small upstream to try it on, at 8444 (inbound), 8445 (outbound) and 8446
    #[arg(long)]
    pub no_relay: bool,
    /// How the ready line is printed: one line of JSON once the engine answers
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
On SIGHUP it reloads certificates, keys, client authorities and log.level; server.reload_check does so when the files change.

Example:
  fieldseal --dir /etc/fieldseal serve --address 0.0.0.0:3443")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON once the engine answers: its addresses")))]
pub struct ServeArguments {
    /// Where to listen [default: server.address of the configuration]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub address: Option<std::net::SocketAddr>,
    /// Where to have the HTTPS API [default: api.address of the configuration]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub api: Option<std::net::SocketAddr>,
    /// Print one line of JSON on standard output once the engine answers
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
On SIGHUP it reloads its file and certificates, and reopens the access log; requests in flight end by the old ones.

Example:
  fieldseal --dir /etc/fieldseal relay --file /etc/fieldseal/relay.toml")]
#[command(mut_arg("json", |it| it.help("Print one line of JSON once the relay listens: its addresses, by listener")))]
pub struct RelayArguments {
    /// Listeners, routes and rules [default: DIR/relay.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where the access log goes; - means standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub access_log: PathBuf,
    /// Print one line of JSON on standard output once it listens
    #[command(flatten)]
    pub form: Form,
}

/// `fieldseal probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fieldseal probe --app acme --connect localhost:3443 --relay https://localhost:8444/probe --limit 250ms
  fieldseal probe --app acme --connect localhost:3443 --rounds 1 --json")]
#[command(mut_arg("json", |it| it.help("Print a line of JSON for each round: the alarm, and each request with time and failure")))]
pub struct ProbeArguments {
    /// The app for which the engine encrypts
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// A URL behind a relay, on a route that encrypts: its upstream answers a POST of a JSON object with 2xx and what it got
    #[arg(long, value_name = "URL")]
    pub relay: Option<String>,
    /// Take a 2xx from behind the relay as good, whatever the upstream got: a relay that seals nothing goes unnoticed then
    #[arg(long, requires = "relay")]
    pub status_only: bool,
    /// Values of a request
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// Bytes of a value
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=65_536))]
    pub size: u32,
    /// Time between two rounds
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = time)]
    pub every: std::time::Duration,
    /// A request that takes longer has failed
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time)]
    pub limit: std::time::Duration,
    /// Failed rounds one after the other that raise the alarm; the first that goes well ends it
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub failures: u32,
    /// A URL that gets a POST of JSON when the alarm begins and when it ends
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// How long the webhook may take to answer; after as long it is told again, 3 times in all
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = time)]
    pub webhook_timeout: std::time::Duration,
    /// Tell /metrics, and /readyz, which fails during an alarm, here
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
    /// End after so many rounds, with code 1 if there is an alarm then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// End with code 1 at the first alarm
    #[arg(long)]
    pub exit_on_alarm: bool,
    /// Print a line of JSON for each round
    #[command(flatten)]
    pub form: Form,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

fn time(text: &str) -> Result<std::time::Duration, String> {
    let time = crate::config::read_time(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "it takes a time longer than nothing, such as 500ms, 15s or 2m".to_owned())
}

/// A running engine, in place of the store in `--dir`.
#[derive(Debug, Clone, Args)]
pub struct ConnectArguments {
    /// Use the engine at HOST:PORT, not the keystore in --dir
    #[arg(long, value_name = "HOST:PORT", help_heading = "Engine")]
    pub connect: Option<String>,
    /// The client whose certificate in DIR/certs is shown [default: the only one there]
    #[arg(long, value_name = "CLIENT", requires = "connect", conflicts_with_all = ["cert", "key"], help_heading = "Engine")]
    pub client: Option<String>,
    /// The authority of the engine's certificate, PEM [default: DIR/certs/ca.pem]
    #[arg(long, value_name = "FILE", requires = "connect", help_heading = "Engine")]
    pub ca: Option<PathBuf>,
    /// The client's certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["connect", "key"], help_heading = "Engine")]
    pub cert: Option<PathBuf>,
    /// The client's private key, PEM
    #[arg(long, value_name = "FILE", requires_all = ["connect", "cert"], help_heading = "Engine")]
    pub key: Option<PathBuf>,
    /// The name in the engine's certificate, where it is not HOST
    #[arg(long, value_name = "NAME", requires = "connect", help_heading = "Engine")]
    pub server_name: Option<String>,
}

/// What goes in and out.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON on standard error at the end: operation, count and seconds")))]
pub struct StreamArguments {
    /// What to read; - or nothing: standard input
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Where to write; the file is there whole or as it was, and a new one is for its owner alone [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What the input is
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// Tell on standard error, as JSON, what was done
    #[command(flatten)]
    pub form: Form,
}

/// What the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON Lines by the endings .jsonl and .ndjson, else JSON
    Auto,
    /// One JSON document
    Json,
    /// One JSON document a line
    Jsonl,
}

/// A curve by its short name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CurveName {
    /// P-256
    R1,
    /// secp256k1
    K1,
}

impl CurveName {
    /// The curve.
    pub fn curve(self) -> Curve {
        match self {
            Self::R1 => Curve::P256,
            Self::K1 => Curve::Secp256k1,
        }
    }
}

/// A keying by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyingName {
    /// A fresh ephemeral key for each value
    Field,
    /// One for a document, a line or a file
    Request,
    /// One for many of them, within bounds of time and count
    Session,
}

impl KeyingName {
    /// The keying.
    pub fn keying(self) -> Keying {
        match self {
            Self::Field => Keying::Field,
            Self::Request => Keying::Request,
            Self::Session => Keying::Session,
        }
    }
}

/// What becomes of an envelope that does not open, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnFailureName {
    /// The command fails
    Fail,
    /// It stays as it is
    Leave,
    /// null takes its place
    Null,
}

impl OnFailureName {
    /// What becomes of it.
    pub fn on_failure(self) -> OnFailure {
        match self {
            Self::Fail => OnFailure::Fail,
            Self::Leave => OnFailure::Leave,
            Self::Null => OnFailure::Null,
        }
    }
}

/// `fieldseal encrypt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fieldseal encrypt --app acme --select '$.card.number' --select '$..email' payment.json
  fieldseal encrypt --app acme --role pci customers.jsonl -o sealed.jsonl
  fieldseal encrypt --app acme --file scan.pdf -o scan.pdf.enc
  fieldseal encrypt --app acme --connect localhost:3443 < payment.json")]
pub struct EncryptArguments {
    /// The app whose keys are used
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// JSONPath (RFC 9535) of what to encrypt, an object or array with all in it; may be repeated [default: every value]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    pub select: Vec<String>,
    /// The curve [default: engine.curve]
    #[arg(long, value_enum)]
    pub curve: Option<CurveName>,
    /// How often a fresh ephemeral key is made [default: engine.keying; where that is not set, session for JSON Lines]
    #[arg(long, value_enum, conflicts_with = "file")]
    pub keying: Option<KeyingName>,
    /// The data role to write into each envelope
    #[arg(long, conflicts_with = "file")]
    pub role: Option<String>,
    /// Leave alone the envelopes that decrypt under this app and role, in place of sealing them twice
    #[arg(long, conflicts_with = "file")]
    pub skip_sealed: bool,
    /// Fail if a selector matches nothing [default: input.strict]
    #[arg(long, conflicts_with = "file")]
    pub strict: bool,
    /// Encrypt the whole input as a file, whatever it is
    #[arg(long, conflicts_with = "format")]
    pub file: bool,
    /// In and out.
    #[command(flatten)]
    pub stream: StreamArguments,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `fieldseal decrypt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fieldseal decrypt --app acme sealed.json
  fieldseal decrypt --app acme --select '$.card' sealed.json
  fieldseal decrypt --app acme --file scan.pdf.enc -o scan.pdf")]
pub struct DecryptArguments {
    /// The app whose keys are used
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// JSONPath (RFC 9535) of the envelopes to open; may be repeated [default: every envelope]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    pub select: Vec<String>,
    /// The data role that every envelope must carry
    #[arg(long, conflicts_with = "file")]
    pub role: Option<String>,
    /// What becomes of an envelope that does not open; the first of them are listed on standard error
    #[arg(long, value_enum, default_value_t = OnFailureName::Fail, value_name = "WHAT", conflicts_with = "file")]
    pub on_failure: OnFailureName,
    /// Fail if a selector matches nothing [default: input.strict]
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

/// `fieldseal rewrap`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  fieldseal keys rotate acme\n  fieldseal rewrap --app acme sealed.jsonl -o sealed.jsonl"
)]
pub struct RewrapArguments {
    /// The app whose keys are used
    #[arg(long, value_name = "APP")]
    pub app: String,
    /// JSONPath (RFC 9535) of the envelopes to bring up; may be repeated [default: every envelope]
    #[arg(long, value_name = "PATH")]
    pub select: Vec<String>,
    /// Fail if a selector matches nothing [default: input.strict]
    #[arg(long)]
    pub strict: bool,
    /// The curve of the new envelopes [default: each keeps its own]
    #[arg(long, value_enum)]
    pub curve: Option<CurveName>,
    /// In and out.
    #[command(flatten)]
    pub stream: StreamArguments,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `fieldseal inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fieldseal inspect 'ev:UVRD:…:$'
  fieldseal inspect --app acme --json sealed.json")]
#[command(mut_arg("json", |it| it.help("Print JSON: an array with the metadata of each envelope")))]
pub struct InspectArguments {
    /// Envelopes, or one file of any text with envelopes in it; - or nothing: standard input
    #[arg(value_name = "ENVELOPE|FILE")]
    pub inputs: Vec<String>,
    /// Open them with this app's keys, to tell also role, origin, time and key version
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// The form.
    #[command(flatten)]
    pub form: Form,
    /// The engine.
    #[command(flatten)]
    pub engine: ConnectArguments,
}

/// `fieldseal keys`.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make an app with fresh keys, and the keystore and root key if there are none
    #[command(after_help = "Example:\n  fieldseal keys create acme")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app and its newest key version")))]
    Create {
        /// The app: a-z, 0-9, _ and -
        app: String,
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// Take existing keys over, as a new app or as the app's newest version
    #[command(after_help = "Example:\n  fieldseal keys import acme --r1 acme-p256.pem --k1 acme-k1.pem")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app and its newest key version")))]
    Import {
        /// The app
        app: String,
        /// The P-256 private key, PEM: SEC1 or PKCS#8 [default: a fresh one]
        #[arg(long, value_name = "FILE", required_unless_present = "k1")]
        r1: Option<PathBuf>,
        /// The secp256k1 private key, PEM: SEC1 or PKCS#8 [default: a fresh one]
        #[arg(long, value_name = "FILE")]
        k1: Option<PathBuf>,
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// List apps and key versions
    #[command(after_help = "Example:\n  fieldseal keys list --json")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: an array of the apps with their key versions")))]
    List {
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// Give an app a new key version; older ones still decrypt
    #[command(after_help = "Example:\n  fieldseal keys rotate acme")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the app and its newest key version")))]
    Rotate {
        /// The app
        app: String,
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// Put an app, or one version of its keys, out of use
    #[command(after_help = "Example:\n  fieldseal keys disable acme --version 1")]
    Disable {
        /// The app
        app: String,
        /// The key version [default: the whole app]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Put an app, or one version of its keys, into use again
    #[command(after_help = "Example:\n  fieldseal keys enable acme --version 1")]
    Enable {
        /// The app
        app: String,
        /// The key version [default: the app, with the versions that are active]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Print the public keys that values are encrypted to
    #[command(after_help = "Example:\n  fieldseal keys public acme --curve r1 > acme-r1.pem")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: app, key version and public keys (hexadecimal and PEM)")))]
    Public {
        /// The app
        app: String,
        /// Only this curve's
        #[arg(long, value_enum)]
        curve: Option<CurveName>,
        /// Print PEM, the default
        #[arg(long, conflicts_with = "json")]
        pem: bool,
        /// The form.
        #[command(flatten)]
        form: Form,
        /// The engine.
        #[command(flatten)]
        engine: ConnectArguments,
    },
}

/// `fieldseal certs`.
#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Make an authority and a server certificate in DIR/certs, or renew the certificate, with more names if given
    #[command(after_help = "Example:\n  fieldseal certs init --name engine.internal --name localhost --ip 10.0.0.7")]
    Init {
        /// A host name by which clients reach the server, besides those that the certificate has; may be repeated [default: localhost]
        #[arg(long, value_name = "HOST")]
        name: Vec<String>,
        /// An address by which clients reach the server, besides those that the certificate has; may be repeated [default: 127.0.0.1
        /// and ::1]
        #[arg(long, value_name = "ADDRESS")]
        ip: Vec<std::net::IpAddr>,
        /// Issue the certificate for the given names and addresses alone: it loses those that it has
        #[arg(long)]
        only: bool,
        /// How long the server's certificate is valid
        #[arg(long, default_value_t = fieldseal_net::tls::LEAF_DAYS, value_name = "N")]
        days: u32,
    },
    /// Issue a client certificate and grant the client what it may do
    #[command(after_help = "Example:\n  fieldseal certs issue billing --app acme --allow encrypt,decrypt --role pci")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the client and the paths of its certificate and key")))]
    Issue {
        /// The client: a-z, 0-9, ., _ and -
        client: String,
        /// An app that it may use; may be repeated
        #[arg(long, value_name = "APP", required_unless_present = "all_apps")]
        app: Vec<String>,
        /// It may use every app, also those made later
        #[arg(long, conflicts_with = "app")]
        all_apps: bool,
        /// What it may do
        #[arg(long, value_enum, value_delimiter = ',', required = true)]
        allow: Vec<Allowed>,
        /// A data role whose values it may decrypt, beside those without a role, which it always may; may be repeated [default:
        /// every role]
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// How long the certificate is valid
        #[arg(long, default_value_t = fieldseal_net::tls::LEAF_DAYS, value_name = "N")]
        days: u32,
        /// Accept every certificate of this name that the authority signs, not the newest alone
        #[arg(long)]
        unpinned: bool,
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// Make the authority by which the outbound relay speaks for destinations, unless it is there
    #[command(after_help = "Example:\n  fieldseal certs relay-ca")]
    RelayCa,
    /// List certificates with their dates, and clients with what they may do
    #[command(after_help = "Example:\n  fieldseal certs list")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: certificates with their dates, clients with their grants")))]
    List {
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// Take everything from a client; running engines refuse it within seconds
    #[command(after_help = "Example:\n  fieldseal certs revoke billing")]
    Revoke {
        /// The client
        client: String,
    },
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Allowed {
    /// Values to envelopes
    Encrypt,
    /// Envelopes to values
    Decrypt,
}

/// `fieldseal api-keys`.
#[derive(Debug, Subcommand)]
pub enum ApiKeysCommand {
    /// Make a key for an app and print it, this once: the keystore holds its hash alone
    #[command(after_help = "Example:\n  fieldseal api-keys create acme --allow encrypt,decrypt --role pci")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the key, its id and what it is for")))]
    Create {
        /// The app
        app: String,
        /// What it may be used for, and nothing else
        #[arg(long, value_enum, value_delimiter = ',', required = true)]
        allow: Vec<ApiAllowed>,
        /// A data role whose values it shows, beside those without a role, which it always does; may be repeated [default: every role]
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// List keys by their ids, with what they may be used for
    #[command(after_help = "Example:\n  fieldseal api-keys list")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: an array of the keys with their ids and what they are for")))]
    List {
        /// The form.
        #[command(flatten)]
        form: Form,
    },
    /// Revoke a key for good; running engines refuse it within seconds
    #[command(after_help = "Example:\n  fieldseal api-keys revoke 3f9c0a1b2c3d4e5f")]
    Revoke {
        /// Its id: what stands between `fsk_` and the next `_`
        id: String,
    },
}

/// What an API key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApiAllowed {
    /// Values to envelopes
    Encrypt,
    /// Envelopes to values
    Decrypt,
    /// What envelopes tell beside their values
    Inspect,
    /// Tokens with which somebody else may decrypt one payload
    ClientSideTokens,
}

/// `fieldseal store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Look at everything in the keystore: that it is whole and every key opens
    #[command(after_help = "Example:\n  fieldseal store check")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: counts of apps, key versions, clients, API keys; faults")))]
    Check {
        /// The form.
        #[command(flatten)]
        form: Form,
    },
}

/// `fieldseal config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report everything that would stop `serve` or `relay`: keys, files, certificates, the keystore and its root key
    #[command(after_help = "\
Addresses are not tried, so that it can run beside the programs. A keystore of an older version is migrated, as serve does.

Example:
  fieldseal config check --config fieldseal.toml --relay relay.toml")]
    Check {
        /// The relay's file [default: DIR/relay.toml, if it is there]
        #[arg(long, value_name = "FILE")]
        relay: Option<PathBuf>,
        /// Check what this program needs alone [default: serve, and relay where it has a file]
        #[arg(long = "for", value_enum, value_name = "PROGRAM")]
        program: Option<Program>,
    },
    /// Print every key, its value and where that comes from
    #[command(after_help = "Example:\n  fieldseal config show --json")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: each key with its value, origin, default and range")))]
    Show {
        /// The form.
        #[command(flatten)]
        form: Form,
    },
}

/// A program that reads the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The engine
    Serve,
    /// The relay
    Relay,
}

/// `fieldseal info`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |it| it.help("Print one line of JSON: version, CPU features, implementation of each primitive")))]
pub struct InfoArguments {
    /// The form.
    #[command(flatten)]
    pub form: Form,
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
            assert!(help.contains("fieldseal "), "{} has no example", command.get_name());
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
