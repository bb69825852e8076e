//! The program over a keystore on PostgreSQL: the same commands, several engines, outages, copies from and to a file, and no password in
//! sight.

use std::path::Path;
use std::process::Stdio;

use leafseal_testkit::postgres::{Durability, PASSWORD, PostgresServer, ROLE};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{CommandResult, Running, TestFolder, until};
use crate::reload::{Log, signal};

const SERVE: [&str; 10] = [
    "serve",
    "--json",
    "--address",
    "127.0.0.1:0",
    "--api",
    "127.0.0.1:0",
    "--set",
    "operator.address=127.0.0.1:0",
    "--set",
    "log.format=json",
];

/// A folder whose configuration names a database of its own.
pub(crate) struct Place<'s> {
    pub folder: TestFolder,
    pub server: &'s PostgresServer,
    pub database: String,
}

impl Place<'static> {
    pub(crate) fn new() -> Self {
        Self::on(PostgresServer::shared())
    }
}

impl<'s> Place<'s> {
    pub(crate) fn on(server: &'s PostgresServer) -> Self {
        let place = Self { folder: TestFolder::new(), server, database: server.database() };
        std::fs::create_dir(place.folder.path(".leafseal")).expect("a folder");
        place.configure("");
        place
    }

    /// The same with an app, certificates, a client that may do everything, and a document to encrypt.
    pub(crate) fn with_client(self) -> Self {
        self.run(&["keys", "create", "acme"]).ok();
        self.run(&["certs", "init"]).ok();
        self.run(&["certs", "issue", "shop", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
        self.folder.write("payment.json", r#"{"card": "4111111111111111"}"#);
        self
    }

    /// Writes the configuration, with lines of `[keystore]` in addition.
    fn configure(&self, more: &str) {
        self.configure_url(&format!("postgres://{ROLE}@localhost:{}/{}", self.server.port(), self.database), more);
    }

    /// The same with another URL.
    pub(crate) fn configure_url(&self, url: &str, more: &str) {
        let server = self.server;
        let configuration = format!(
            "[keystore]\nurl = \"{url}\"\nauthorities = \"{}\"\npassword_file = \"{}\"\n\
             connect_timeout = \"5m\"\nstatement_timeout = \"5m\"\n{more}\n[server]\ndrain_delay = \"0s\"\n",
            server.file("ca.pem").display(),
            server.file("password").display(),
        );
        self.folder.write(".leafseal/leafseal.toml", configuration);
    }

    /// Keeps the store in a file instead.
    pub(crate) fn use_file(&mut self) {
        self.folder.write(".leafseal/leafseal.toml", "[server]\ndrain_delay = \"0s\"\n");
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandResult {
        self.folder.run(arguments)
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Running {
        let arguments = [&SERVE[..], more].concat();
        Running::start(self.folder.command(&arguments).stderr(Stdio::piped()))
    }

    /// Runs a command for the app with an engine.
    fn call(&self, engine: &Running, command: &[&str]) -> CommandResult {
        let with = ["--app", "acme", "--connect", engine.address(), "--client", "shop"];
        self.run(&[command, &with[..]].concat())
    }

    pub(crate) fn encrypt(&self, engine: &Running) -> CommandResult {
        self.call(engine, &["encrypt", "--select", "$.card", "payment.json"])
    }

    pub(crate) fn decrypts(&self, engine: &Running, file: &str) -> bool {
        self.call(engine, &["decrypt", file]).code == 0
    }
}

#[test]
fn every_command_works_on_a_database() {
    let place = Place::new();
    let created = place.run(&["keys", "create", "acme"]);
    assert!(created.stderr.contains("created the keystore postgres://") && created.stderr.contains("root.key"));
    created.ok();
    assert!(!place.folder.path(".leafseal/keystore.db").exists());
    place.run(&["keys", "rotate", "acme"]).ok();
    place.run(&["certs", "init"]).ok();
    place.run(&["certs", "issue", "shop", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
    let key = place.run(&["api-keys", "create", "acme", "--allow", "encrypt"]).text();
    assert!(key.starts_with("lsk_"));
    let listed: Value = serde_json::from_slice(&place.run(&["keys", "list", "--json"]).ok()).expect("JSON");
    assert_eq!(listed[0]["versions"].as_array().map(Vec::len), Some(2));
    place.folder.write("payment.json", r#"{"card": "4111111111111111"}"#);
    let sealed = place.run(&["encrypt", "--app", "acme", "--select", "$.card", "payment.json"]).ok();
    place.folder.write("sealed.json", &sealed);
    assert!(place.run(&["decrypt", "--app", "acme", "sealed.json"]).text().contains("4111111111111111"));
    assert!(place.run(&["store", "check"]).text().contains("key versions 2, clients 1: every key was opened"));
    place.run(&["config", "check", "--for", "serve"]).ok();
    // `dev` uses what is there.
    let engine = place.folder.engine(&["--no-relay"]);
    let call = [&["encrypt", "--app", "acme", "--select", "$.card", "payment.json"], &engine.flags()[..]].concat();
    place.folder.write("sealed.json", place.run(&call).ok());
    assert!(place.run(&["decrypt", "--app", "acme", "sealed.json"]).text().contains("4111111111111111"));
    drop(engine);
    // Another root key is refused and not created.
    std::fs::rename(place.folder.path(".leafseal/root.key"), place.folder.path("root.key")).expect("moved");
    assert!(place.run(&["keys", "create", "other"]).fails(3).contains("no root key at"));
    assert!(!place.folder.path(".leafseal/root.key").exists());
}

#[test]
fn a_store_is_copied_to_a_database_and_back() {
    let place = Place::new();
    let file = ["--set", "keystore.url="];
    place.run(&[&["keys", "create", "acme"], &file[..]].concat()).ok();
    place.run(&[&["keys", "rotate", "acme"], &file[..]].concat()).ok();
    let from = place.folder.path(".leafseal/keystore.db");
    let from = from.to_str().expect("text");
    let copied = place.run(&["store", "copy", "--from", from]).text();
    let counts = "apps 1, key versions 2, clients 0: every row was compared, every key was opened";
    assert!(copied.contains(counts), "{copied}");
    assert!(place.run(&["store", "copy", "--from", from]).fails(1).contains("has a keystore already"));
    let back = place.run(&["store", "copy", "--to", "backup/keystore.db", "--json"]).ok();
    let back: Value = serde_json::from_slice(&back).expect("JSON");
    assert_eq!((&back["apps"], &back["key_versions"], &back["api_keys"]), (&1.into(), &2.into(), &0.into()), "{back}");
    assert!(back["rows"].as_u64() > Some(6), "{back}");
    let at = place.folder.path("backup/keystore.db");
    let at = format!("keystore.path={}", at.display());
    place.run(&["store", "check", "--set", "keystore.url=", "--set", &at]).ok();
    let missing = place.run(&["store", "copy", "--from", "none.db"]);
    assert!(missing.fails(3).contains("no keystore at none.db"));
    place.run(&["store", "copy"]).fails(2);
    place.run(&["store", "copy", "--from", from, "--to", from]).fails(2);
}

/// Asserts that no password is in what a command printed or in what `/proc` shows.
#[track_caller]
fn assert_hidden(shown: &str) {
    assert!(!shown.contains(PASSWORD) && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn passwords_are_refused_in_settings_and_never_printed() {
    let place = Place::new();
    place.run(&["keys", "create", "acme"]).ok();
    let url = format!("keystore.url=postgres://{ROLE}:hunter2@localhost:{}/{}", place.server.port(), place.database);
    for command in [&["keys", "list"][..], &["config", "show"], &["config", "show", "--json"], &["config", "check"]] {
        let result = place.run(&[command, &["--set", &url]].concat());
        assert_hidden(&String::from_utf8_lossy(&result.stdout));
        assert_eq!(result.code, 2);
        assert_hidden(&result.stderr);
        assert!(result.stderr.contains("keystore.url must not contain a password"), "{}", result.stderr);
    }
    let wrong = place.folder.write("wrong", "hunter2\n");
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
    let refused = place.run(&["keys", "list", "--set", &format!("keystore.password_file={}", wrong.display())]);
    let refused = refused.fails(3);
    assert!(refused.contains("password authentication failed"), "{refused}");
    assert_hidden(&refused);

    place.run(&["certs", "init"]).ok();
    let engine = place.serve(&[]);
    let process = Path::new("/proc").join(engine.child.id().to_string());
    for name in ["cmdline", "environ"] {
        assert_hidden(&String::from_utf8_lossy(&std::fs::read(process.join(name)).expect("ours")));
    }
}

#[test]
fn another_server_is_refused_and_weaker_checks_are_warned_of() {
    let place = Place::new();
    let other = format!("keystore.authorities={}", place.server.file("other-ca.pem").display());
    let refused = place.run(&["keys", "create", "acme", "--set", &other]).fails(3);
    assert!(refused.contains("certificate is refused"), "{refused}");
    let without = place.run(&["keys", "list", "--set", "keystore.authorities=off"]).fails(2);
    assert!(without.contains("keystore.authorities must name"), "{without}");
    let ambiguous = place.run(&["keys", "list", "--set", "keystore.path=keystore.db"]).fails(2);
    assert!(ambiguous.contains("keystore.path and keystore.url are both set"), "{ambiguous}");
    place.configure("sslmode = \"require\"");
    let warned = place.run(&["config", "check", "--for", "serve"]);
    assert!(warned.stderr.contains("keystore.sslmode is require"), "{}", warned.stderr);
}

#[test]
fn engines_on_one_database_follow_its_changes() {
    let place = Place::new().with_client();
    let engines = [place.serve(&[]), place.serve(&[])];
    let old = place.encrypt(&engines[0]).ok();
    place.folder.write("old.json", old);
    assert!(engines.iter().all(|engine| place.decrypts(engine, "old.json")));

    place.run(&["keys", "rotate", "acme"]).ok();
    place.run(&["keys", "disable", "acme", "--version", "1"]).ok();
    for engine in &engines {
        until("the engine refuses the disabled version", || !place.decrypts(engine, "old.json"));
    }
    place.folder.write("new.json", place.encrypt(&engines[0]).ok());
    assert!(engines.iter().all(|engine| place.decrypts(engine, "new.json")), "the new version is known to both");

    place.run(&["certs", "revoke", "shop"]).ok();
    for engine in &engines {
        until("the engine refuses the client", || place.encrypt(engine).code != 0);
        assert!(engine.probe("/metrics").contains("leafseal_keystore_silence_seconds "));
    }
}

#[test]
fn an_edit_that_no_request_meets_is_found_by_running_engines() {
    let place = Place::new().with_client();
    place.run(&["certs", "issue", "idle", "--app", "acme", "--allow", "encrypt"]).ok();
    let mut engine = place.serve(&["--set", "engine.store_scan_interval=1s"]);
    let log = Log::of(&mut engine);
    let has = |line: &str| engine.probe("/metrics").lines().any(|found| found == line);
    place.encrypt(&engine).ok();
    until("the whole store was scanned", || !has("leafseal_keystore_scans_total 0"));
    assert!(has("leafseal_keystore_edits 0"));
    let edit = |flag| {
        let update = format!("UPDATE leafseal.client SET may_decrypt = {flag} WHERE name = 'idle'");
        place.server.sql(&place.database, &update)
    };
    edit("TRUE");
    until("the edit is found", || has("leafseal_keystore_edits 1"));
    log.wait_for("found an edit in the keystore", 1);
    place.encrypt(&engine).ok();
    edit("FALSE");
    until("it is gone", || has("leafseal_keystore_edits 0"));
    log.wait_for("the keystore has no edits any more", 1);
    assert_eq!(log.others(), Vec::<Value>::new());
}

#[test]
fn an_engine_outlives_an_outage_of_its_store_but_not_a_long_one() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let place = Place::on(&server).with_client();
    let forgiving = place.serve(&["--set", "engine.store_silence_max=1h"]);
    let mut strict = place.serve(&["--set", "engine.store_silence_max=1s"]);
    let log = Log::of(&mut strict);
    let engines = [&forgiving, &strict];
    for engine in engines {
        place.encrypt(engine).ok();
    }
    server.kill();
    let is_ready = |engine: &Running| engine.probe("/readyz").starts_with("HTTP/1.1 200 ");
    until("the engine is not ready", || !is_ready(&strict));
    let refused = place.encrypt(&strict).fails(3);
    assert!(refused.contains("the keystore does not answer"), "{refused}");
    log.wait_for("lost the keystore", 1);
    place.encrypt(&forgiving).ok();
    assert!(is_ready(&forgiving));
    server.start_again();
    until("both are ready and serve", || {
        engines.iter().all(|engine| is_ready(engine) && place.encrypt(engine).code == 0)
    });
    log.wait_for("the keystore is back", 1);
    // This server does not flush. The warning of it is in the log as everything else.
    log.wait_for("fsync", 1);
    assert_eq!(log.others(), Vec::<Value>::new());
}

/// Files are read at each connect; keys of the configuration at the start.
#[test]
fn a_new_password_needs_no_restart_and_a_new_url_does() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let place = Place::on(&server).with_client();
    let mut engine = place.serve(&[]);
    let log = Log::of(&mut engine);
    server.sql("postgres", &format!("ALTER ROLE {ROLE} PASSWORD 'another password'"));
    std::fs::write(server.file("password"), "another password\n").expect("written");
    server.end_connections(&place.database);
    log.wait_for("connected to the keystore again", 1);
    place.encrypt(&engine).ok();

    place.configure("busy_timeout = \"7s\"");
    signal(&engine, Signal::HUP);
    assert_eq!(log.wait_for("requires a restart", 1)["keys"], "keystore.busy_timeout");
    let file = place.folder.path(".leafseal/leafseal.toml");
    let text = std::fs::read_to_string(&file).expect("there");
    std::fs::write(&file, text.replace(&format!("{ROLE}@"), &format!("{ROLE}:hunter2@"))).expect("written");
    signal(&engine, Signal::HUP);
    let refused = log.wait_for("engine not reloaded", 1).to_string();
    assert!(refused.contains("keystore.url must not contain a password"), "{refused}");
    assert_hidden(&refused);
}
