//! An engine to measure: the program `leafseal serve` as a child process, with a store and certificates in a folder of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leafseal_client::{ClientSettings, ClientTls};
use leafseal_load::accounting::ProcessAccount;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::arguments::EngineArguments;
use crate::error::ExperimentError;

/// The name of the engine's app and of its client.
pub(crate) const NAME: &str = "bench";
/// How long a graceful shutdown of the engine may take before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval for polling the end of the process.
const STOP_POLL: Duration = Duration::from_millis(5);
/// The longest line that the program may print.
const LINE_MAX: u64 = 1 << 20;
/// Memory of the program before any request: code, caches, threads.
const MEMORY_AT_REST: u64 = 64 << 20;
/// Limits that together bound the memory of requests and answers.
const MEMORY_LIMITS: [&str; 3] = ["server.incoming_bytes_max", "server.queue_bytes_max", "server.answers_bytes_max"];
/// Paths that must be in the engine's own folder, whatever the configuration sets. Each connection would be logged otherwise.
const OWN_SETTINGS: [&str; 9] = [
    "keystore.path=keystore.db",
    "keystore.url=",
    "keystore.root_key_file=root.key",
    "server.certificate=certs/server.pem",
    "server.private_key=certs/server.key",
    "server.client_authorities=certs/ca.pem",
    "api.certificate=certs/server.pem",
    "api.private_key=certs/server.key",
    "log.level=error",
];

/// A running engine; stopped on drop, with its folder removed.
pub(crate) struct Engine {
    /// How to connect.
    pub client: ClientSettings,
    /// The address of its metrics, if enabled.
    pub operator: Option<SocketAddr>,
    /// Its process.
    pub process: ProcessAccount,
    /// The maximum memory that its limits permit, in bytes.
    pub memory_bound: u64,
    /// The settings that differ from its defaults, as `key=value`.
    pub settings: Vec<String>,
    _child: ChildEngine,
}

impl Engine {
    /// Starts an engine. `defaults` apply unless the command line overrides them.
    ///
    /// # Errors
    /// Fails if the program is missing, refuses the settings or does not start.
    pub(crate) fn start(arguments: &EngineArguments, defaults: &[&str]) -> Result<Self, ExperimentError> {
        let folder = tempfile::Builder::new().prefix("leafseal-experiment-").tempdir();
        let folder = folder.map_err(|error| ExperimentError::System("a temporary folder", error))?;
        let settings: Vec<String> =
            defaults.iter().map(|&setting| setting.to_owned()).chain(arguments.set.iter().cloned()).collect();
        let program = Program::new(arguments, folder.path(), &settings)?;
        program.run(&["keys", "create", NAME])?;
        program.run(&["certs", "init"])?;
        let issued = program
            .json(&["certs", "issue", NAME, "--app", NAME, "--allow", "encrypt,decrypt", "--json"], "certs issue")?;
        let memory_bound = memory_bound(&program.json(&["config", "show", "--json"], "config show")?)?;
        let child = ChildEngine::start(&program, folder)?;
        let path = |name: &str| issued[name].as_str().map(PathBuf::from).ok_or(ExperimentError::Output("certs issue"));
        let authority = child.folder.path().join("certs/ca.pem");
        let tls = ClientTls::from_files(&authority, &path("certificate")?, &path("key")?)?;
        Ok(Self {
            client: ClientSettings::new(child.address.as_str(), tls),
            operator: child.operator,
            process: ProcessAccount::new(child.child.id()),
            memory_bound,
            settings,
            _child: child,
        })
    }
}

/// The limits of requests and answers together, plus the memory of an idle engine.
fn memory_bound(settings: &Value) -> Result<u64, ExperimentError> {
    let limit = |key: &&str| settings[key]["value"].as_str().and_then(leafseal_config::parse_size);
    let limits: Option<u64> = MEMORY_LIMITS.iter().map(limit).sum();
    limits.map(|limits| MEMORY_AT_REST + limits).ok_or(ExperimentError::Output("config show"))
}

/// The program with the arguments that every command has.
struct Program {
    path: PathBuf,
    arguments: Vec<String>,
}

impl Program {
    fn new(arguments: &EngineArguments, folder: &Path, settings: &[String]) -> Result<Self, ExperimentError> {
        let own =
            std::env::current_exe().map_err(|error| ExperimentError::System("the path of this program", error))?;
        let path = arguments.program.clone().unwrap_or_else(|| own.with_file_name("leafseal"));
        let config = arguments.config.iter().flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
        let own = OWN_SETTINGS.map(str::to_owned);
        let set = settings.iter().chain(&own).flat_map(|setting| ["--set".to_owned(), setting.clone()]);
        let folder = ["--dir".to_owned(), folder.display().to_string()];
        Ok(Self { path, arguments: folder.into_iter().chain(config).chain(set).collect() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).args(arguments).stdin(Stdio::null());
        command
    }

    fn failed(&self, error: std::io::Error) -> ExperimentError {
        ExperimentError::Program { program: self.path.display().to_string(), error }
    }

    /// Runs a command and returns its output.
    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, ExperimentError> {
        let output = self.command(arguments).stderr(Stdio::inherit()).output().map_err(|error| self.failed(error))?;
        if output.status.success() { Ok(output.stdout) } else { Err(ExperimentError::Command(arguments.join(" "))) }
    }

    fn json(&self, arguments: &[&str], command: &'static str) -> Result<Value, ExperimentError> {
        serde_json::from_slice(&self.run(arguments)?).map_err(|_| ExperimentError::Output(command))
    }
}

/// A child process with its folder; both are removed on drop.
struct ChildEngine {
    child: Child,
    address: String,
    operator: Option<SocketAddr>,
    folder: TempDir,
}

impl ChildEngine {
    /// Starts `serve` and waits until it is ready.
    fn start(program: &Program, folder: TempDir) -> Result<Self, ExperimentError> {
        let mut command = program.command(&["serve", "--json", "--address", "127.0.0.1:0"]);
        // Ctrl-C in a terminal signals only this process, which then stops the engine.
        command.process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| program.failed(error))?;
        let output = child.stdout.take().expect("piped");
        let mut own = Self { child, address: String::new(), operator: None, folder };
        let mut line = String::new();
        BufReader::new(output.take(LINE_MAX))
            .read_line(&mut line)
            .map_err(|error| ExperimentError::System("the output of the engine", error))?;
        let ready: Value = serde_json::from_str(&line).map_err(|_| ExperimentError::Command("serve".to_owned()))?;
        own.address = ready["address"].as_str().ok_or(ExperimentError::Output("serve"))?.to_owned();
        own.operator = ready["operator"].as_str().and_then(|address| address.parse().ok());
        Ok(own)
    }
}

impl Drop for ChildEngine {
    fn drop(&mut self) {
        // Both fail only if the process has ended already. No other client uses the engine, so it need not keep serving, as after SIGTERM.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > STOP_TIMEOUT {
                let _ = self.child.kill();
            }
            std::thread::sleep(STOP_POLL);
        }
    }
}
