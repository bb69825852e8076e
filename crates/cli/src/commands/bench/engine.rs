//! The engine to measure: a child process with its own folder, or one that runs elsewhere.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leafseal_client::{ClientSettings, ClientTls};
use leafseal_engine::admin::{AcceptedSchemes, AppName, Apps, ClientName, NewKeys, Operation, Roles};
use leafseal_load::accounting::ProcessAccount;
use leafseal_net::tls::LEAF_DAYS;
use tempfile::TempDir;

use crate::arguments::{ConnectArguments, GlobalArguments};
use crate::commands::certs::{Grant, Pinning, init, issue, local_names};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::transform::client_settings;

/// The names of the child engine's app and client.
const NAME: &str = "bench";
/// How long a graceful shutdown of the engine may take before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval for polling the end of the process.
const STOP_POLL: Duration = Duration::from_millis(5);
/// Paths that must be in the engine's own folder, whatever the environment sets.
const PATH_KEYS: [&str; 8] = [
    "keystore.path=keystore.db",
    "keystore.url=",
    "keystore.root_key_file=root.key",
    "server.certificate=certs/server.pem",
    "server.private_key=certs/server.key",
    "server.client_authorities=certs/ca.pem",
    "api.certificate=certs/server.pem",
    "api.private_key=certs/server.key",
];

/// An engine to measure.
pub(crate) struct BenchTarget {
    /// The connection settings.
    pub client: ClientSettings,
    /// The address of its metrics, if enabled.
    pub operator: Option<SocketAddr>,
    /// The app whose keys are used.
    pub app: String,
    /// Its process, if known.
    pub process: Option<ProcessAccount>,
    /// Opening keys that it keeps across requests.
    pub opening_keys_kept: usize,
    /// The addresses of its RPC listener and of its API, if it is a child and the API is enabled.
    pub addresses: Option<[SocketAddr; 2]>,
    /// Its settings, as `key=value`.
    pub settings: Vec<String>,
    /// Stopped on drop.
    _child: Option<ChildEngine>,
}

impl BenchTarget {
    /// Starts an engine. `defaults` apply unless the command line overrides them.
    pub(crate) fn start(global: &GlobalArguments, defaults: &[&str]) -> CommandOutcome<Self> {
        Self::start_with(global, defaults, |_, _| Ok(()))
    }

    /// The same, after `prepare` has changed the folder. It receives the certificate and key of the client.
    pub(crate) fn start_with(
        global: &GlobalArguments,
        defaults: &[&str],
        prepare: impl FnOnce(&RunContext, (&Path, &Path)) -> CommandOutcome,
    ) -> CommandOutcome<Self> {
        let folder = tempfile::Builder::new().prefix("leafseal-bench-").tempdir();
        let folder = folder.map_err(|error| CommandFailure::writing("the folder for temporary files", &error))?;
        let settings: Vec<String> =
            defaults.iter().map(|&setting| setting.to_owned()).chain(global.set.iter().cloned()).collect();
        let set = settings.iter().cloned().chain(PATH_KEYS.map(str::to_owned)).collect();
        let own_global =
            GlobalArguments { dir: folder.path().to_owned(), config: global.config.clone(), set, ..global.clone() };
        let context = RunContext::checked(&own_global)?;
        let (certificate, key) = set_up(&context)?;
        prepare(&context, (&certificate, &key))?;
        let own = ChildEngine::start(&own_global, folder)?;
        let authority = context.certificates().join("ca.pem");
        let tls = ClientTls::from_files(&authority, &certificate, &key).map_err(CommandFailure::from)?;
        Ok(Self {
            client: context.config().client(&own.address, None, tls),
            operator: own.operator,
            addresses: own.address.parse().ok().zip(own.api).map(|(rpc, api)| [rpc, api]),
            app: NAME.to_owned(),
            process: Some(ProcessAccount::new(own.child.id())),
            opening_keys_kept: context.config().engine.opening_keys_max,
            settings,
            _child: Some(own),
        })
    }

    /// An engine that runs elsewhere; its settings are assumed to be the defaults.
    pub(crate) fn elsewhere(
        global: &GlobalArguments,
        address: &str,
        arguments: &ConnectArguments,
        app: &str,
        process: Option<u32>,
    ) -> CommandOutcome<Self> {
        let context = RunContext::checked(global)?;
        Ok(Self {
            client: client_settings(&context, address, arguments)?,
            operator: None,
            addresses: None,
            app: app.to_owned(),
            process: process.map(ProcessAccount::new),
            opening_keys_kept: context.config().engine.opening_keys_max,
            settings: Vec::new(),
            _child: None,
        })
    }
}

/// Creates a store with one app, certificates, and a client that may do everything; returns the client's certificate and key.
fn set_up(context: &RunContext) -> CommandOutcome<(PathBuf, PathBuf)> {
    let app = AppName::parse(NAME).expect("a name by its rule");
    let (store, _) = context.new_store()?;
    store.create_app(&app, NewKeys::generated())?;
    init(&context.certificates(), &local_names(), LEAF_DAYS)?;
    let grant = Grant {
        apps: Apps::Only(BTreeSet::from([app])),
        operations: BTreeSet::from([Operation::Encrypt, Operation::Decrypt]),
        roles: Roles::Any,
        accept: AcceptedSchemes::ALL,
        pinning: Pinning::ThisOne,
    };
    issue(context, &*store, &ClientName::parse(NAME).expect("a name by its rule"), grant, LEAF_DAYS)
}

/// A child process with its folder; both are removed on drop.
struct ChildEngine {
    child: Child,
    address: String,
    operator: Option<SocketAddr>,
    api: Option<SocketAddr>,
    _folder: TempDir,
}

impl ChildEngine {
    /// Starts `serve` and waits until it answers.
    fn start(global: &GlobalArguments, folder: TempDir) -> CommandOutcome<Self> {
        let internal =
            |what: &str, error: std::io::Error| CommandFailure::internal(format!("cannot {what} the engine: {error}"));
        let program = std::env::current_exe().map_err(|error| internal("find", error))?;
        let mut command = Command::new(program);
        command.arg("--dir").arg(&global.dir);
        if let Some(config) = &global.config {
            command.arg("--config").arg(config);
        }
        // Each connection would be logged, and each that a signal ends in its handshake causes a warning.
        command.args(["--set", "log.level=error"]);
        command.args(global.set.iter().flat_map(|setting| ["--set", setting]));
        command.args(["serve", "--json", "--address", "127.0.0.1:0"]);
        // Ctrl-C in a terminal signals only this process, which then stops the engine.
        command.process_group(0);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| internal("start", error))?;
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        // Only one line is expected; unlimited output must not be buffered.
        let read = BufReader::new(output.take(1 << 16)).read_line(&mut line);
        let ready: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let reported = |name: &str| ready.as_ref().and_then(|ready| ready[name].as_str().map(str::to_owned));
        let [operator, api] = ["operator", "api"].map(|name| reported(name).and_then(|address| address.parse().ok()));
        let own = Self { child, address: reported("address").unwrap_or_default(), operator, api, _folder: folder };
        if own.address.is_empty() {
            let cause = read.err().map_or_else(String::new, |error| format!(": {error}"));
            return Err(CommandFailure::unreachable(format!(
                "the engine did not start{cause}: see its messages above"
            )));
        }
        Ok(own)
    }
}

impl Drop for ChildEngine {
    fn drop(&mut self) {
        // Both fail only if the process has ended already. No other client uses the engine, so it need not keep serving, as after SIGTERM.
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::INT);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > STOP_TIMEOUT {
                let _ = self.child.kill();
            }
            std::thread::sleep(STOP_POLL);
        }
    }
}
