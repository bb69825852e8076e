//! Several engines on one PostgreSQL, under load that checks every answer: rolling restarts, a database that is killed and fails over,
//! processes killed in the middle of rotations, how soon changes apply, and how connections spread.
//!
//! Envoy is in front of the engines where ENVOY names it. `tests/cluster/run.sh` runs these tests alone, and documents the variables that
//! set their sizes. Each prints its figures; none asserts a time.

mod cost;
mod envoy;
mod kills;
mod outages;
mod restarts;
mod spread;
mod traffic;
mod upgrade;
mod visibility;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use leafseal_client::{ClientSettings, ClientTls};
use leafseal_engine::admin::{
    ChangeAuthor, Environment, LocalRootKey, OpenMode, PostgresKeystore, PostgresUrl, StoreLimits, system_clock,
};
use leafseal_engine::system_random;
use leafseal_testkit::postgres::{PostgresServer, ROLE};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{PROGRAM, Running, until};
use crate::reload::signal;
use crate::shared_store::Place;

/// The size of a test, from the environment.
fn size(name: &str, default: u32) -> u32 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")),
        Err(_) => default,
    }
}

/// Prints figures, and adds them as a line of JSON to the file that RESULTS names.
fn report(test: &str, mut figures: Value) {
    println!("cluster: {test}: {figures}");
    let Some(path) = std::env::var_os("RESULTS") else { return };
    figures["test"] = test.into();
    let mut file = std::fs::File::options().create(true).append(true).open(path).expect("RESULTS can be written");
    writeln!(file, "{figures}").expect("written");
}

/// An engine that is started again and again on the same ports.
struct Engine {
    host: String,
    port: u16,
    operator: u16,
    /// Another program than the one that is tested.
    program: Option<PathBuf>,
    running: Option<Running>,
}

impl Engine {
    /// Each has an IP address of its own: its ports are then safe from the connections that this machine makes, which are from 127.0.0.1.
    fn new(number: u8) -> Self {
        let host = format!("127.77.0.{number}");
        let free =
            || TcpListener::bind((host.as_str(), 0)).and_then(|socket| socket.local_addr()).expect("a port").port();
        Self { port: free(), operator: free(), host, program: None, running: None }
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn start(&mut self, place: &Place<'_>, more: &[&str]) {
        let (address, operator) = (self.address(), format!("operator.address={}:{}", self.host, self.operator));
        let arguments = ["serve", "--json", "--address", &address, "--set", &operator];
        let arguments = [&arguments[..], &["--set", "log.level=error"], more].concat();
        let program = self.program.as_deref().unwrap_or(Path::new(PROGRAM));
        let mut command = place.folder.command_of(program, &arguments);
        self.running = Some(Running::start(command.stderr(Stdio::inherit())));
        until("the engine is ready", || self.is_ready());
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("started")
    }

    fn is_ready(&self) -> bool {
        self.running().probe("/readyz").starts_with("HTTP/1.1 200 ")
    }

    /// A sample of its metrics.
    fn metric(&self, name: &str) -> f64 {
        let text = self.running().probe("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Stops it as an orchestrator does, and waits for its end.
    fn terminate(&mut self) {
        let mut running = self.running.take().expect("started");
        signal(&running, Signal::TERM);
        let status = running.child.wait().expect("waited");
        assert!(status.success(), "{status}");
    }

    fn kill(&mut self) {
        drop(self.running.take());
    }
}

/// Engines on one database.
struct Cluster<'s> {
    place: Place<'s>,
    engines: Vec<Engine>,
    settings: Vec<String>,
}

impl<'s> Cluster<'s> {
    /// Starts engines 1 to `count` of those that a test has; `first` differs between tests, which run side by side.
    fn start(place: Place<'s>, first: u8, count: u8, settings: &[&str]) -> Self {
        Self::start_of(None, place, (first, count), settings)
    }

    /// The same with another program.
    fn start_of(program: Option<PathBuf>, place: Place<'s>, (first, count): (u8, u8), settings: &[&str]) -> Self {
        let settings = settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect();
        let engine = |number| Engine { program: program.clone(), ..Engine::new(number) };
        let mut cluster = Self { place, engines: (first..first + count).map(engine).collect(), settings };
        (0..usize::from(count)).for_each(|index| cluster.start_engine(index));
        cluster
    }

    fn start_engine(&mut self, index: usize) {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        self.engines[index].start(&self.place, &settings);
    }

    fn addresses(&self) -> Vec<String> {
        self.engines.iter().map(Engine::address).collect()
    }

    /// Settings of the client `shop` for these addresses.
    fn client_settings(&self, addresses: Vec<String>) -> ClientSettings {
        let path = |name: &str| self.place.folder.path(&format!(".leafseal/certs/{name}"));
        let tls = ClientTls::from_files(&path("ca.pem"), &path("shop.pem"), &path("shop.key")).expect("files");
        ClientSettings {
            addresses,
            server_name: Some("localhost".to_owned()),
            connections_max: 8,
            request_timeout: Duration::from_secs(60),
            ..ClientSettings::new("", tls)
        }
    }
}

/// The keystore of a place, opened as a command opens it.
fn open_keystore(place: &Place<'_>) -> PostgresKeystore {
    open_keystore_in(place, OpenMode::Existing)
}

fn open_keystore_in(place: &Place<'_>, mode: OpenMode) -> PostgresKeystore {
    let root_key = std::fs::read_to_string(place.folder.path(".leafseal/root.key")).expect("there");
    let environment = Environment {
        providers: vec![Box::new(LocalRootKey::from_text(root_key.trim_end()).expect("a root key"))],
        clock: Box::new(system_clock),
        rng: Box::new(system_random()),
        author: ChangeAuthor::default(),
    };
    let settings = place.server.settings(&place.database);
    PostgresKeystore::open(&settings, mode, environment, StoreLimits::default()).expect("it opens")
}

/// The key versions of an app in `keys list`, in ascending order.
fn versions(place: &Place<'_>, app: &str) -> Vec<u64> {
    let listed: Value = serde_json::from_slice(&place.run(&["keys", "list", "--json"]).ok()).expect("JSON");
    let apps = listed.as_array().expect("a list");
    let app = apps.iter().find(|entry| entry["app"] == app).unwrap_or_else(|| panic!("no app {app}: {listed}"));
    let versions = app["versions"].as_array().expect("a list").iter();
    let mut versions: Vec<u64> = versions.map(|version| version["version"].as_u64().expect("a number")).collect();
    versions.sort_unstable();
    versions
}

/// A URL for several servers.
fn url(servers: &[&PostgresServer], database: &str) -> String {
    let hosts: Vec<String> = servers.iter().map(|server| format!("localhost:{}", server.port())).collect();
    let url = format!("postgres://{ROLE}@{}/{database}", hosts.join(","));
    PostgresUrl::parse(&url).expect("a URL");
    url
}
