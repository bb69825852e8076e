//! A real PgBouncer in front of a [`PostgresServer`], for tests. It ends with the test program, as the server does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use leafseal_engine::admin::{PostgresSettings, PostgresUrl};

use crate::ports::lasting_port;
use crate::postgres::{PASSWORD, PostgresServer, Process, ROLE, START_TRIES, TRY_PAUSE, as_user, give_away};

/// When PgBouncer gives a client another connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// After each transaction.
    Transaction,
}

/// A PgBouncer that clients reach with TLS and a password, as the server itself. It stops when this is dropped.
#[derive(Debug)]
pub struct PgBouncer<'s> {
    /// Outlives `folder` in the order of drops.
    process: Mutex<Option<Process>>,
    folder: tempfile::TempDir,
    server: &'s PostgresServer,
    port: u16,
}

impl<'s> PgBouncer<'s> {
    /// A pooler for all databases of `server`, with at most `pool_size` connections for each.
    ///
    /// # Panics
    /// When PgBouncer is not installed or does not start.
    pub fn start(server: &'s PostgresServer, mode: PoolMode, pool_size: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("leafseal-pgbouncer-").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let port = lasting_port();
        let pooler = PgBouncer { process: Mutex::new(None), folder, server, port };
        let at = |name: &str| pooler.folder.path().join(name).display().to_string();
        let configuration = format!(
            "[databases]\n* = host={sockets} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {users}\nclient_tls_sslmode = require\n\
             client_tls_cert_file = {certificate}\nclient_tls_key_file = {key}\npool_mode = {mode}\n\
             default_pool_size = {pool_size}\nmax_client_conn = 200\n",
            sockets = server.socket_folder(),
            server_port = server.port(),
            users = at("users.txt"),
            certificate = at("server.pem"),
            key = at("server.key"),
            mode = match mode {
                PoolMode::Session => "session",
                PoolMode::Transaction => "transaction",
            },
        );
        let read = |name: &str| fs::read_to_string(server.server_file(name)).expect("a server");
        pooler.write("pgbouncer.ini", &configuration);
        pooler.write("users.txt", &format!("\"{ROLE}\" \"{PASSWORD}\"\n"));
        pooler.write("server.pem", &read("server.pem"));
        pooler.write("server.key", &read("server.key"));
        pooler.start_again();
        pooler
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        give_away(&path);
    }

    /// The port at which clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Settings with which the owner of a database reaches it through the pooler.
    ///
    /// # Panics
    /// On names that are none.
    pub fn settings(&self, database: &str) -> PostgresSettings {
        let url = format!("postgres://{ROLE}@localhost:{}/{database}", self.port);
        PostgresSettings { url: PostgresUrl::parse(&url).expect("a URL"), ..self.server.settings(database) }
    }

    /// Ends the pooler, and with it all connections.
    ///
    /// # Panics
    /// When an earlier call panicked.
    pub fn stop(&self) {
        drop(self.process.lock().expect("no panic").take());
    }

    /// Starts it on the same port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&self) {
        let mut command = as_user(program());
        command.arg(self.folder.path().join("pgbouncer.ini"));
        let log = self.folder.path().join("log");
        *self.process.lock().expect("no panic") = Some(Process::start(&command, "TERM", None, &log));
        for _ in 0..START_TRIES {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(TRY_PAUSE);
        }
        panic!("PgBouncer does not start:\n{}", fs::read_to_string(log).unwrap_or_default());
    }
}

/// The program. Debian keeps it out of the path of ordinary users.
fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists()).expect(
            "these tests need PgBouncer, and it is not installed: run `make setup` as root, or install Debian's package `pgbouncer`",
        )
    });
    &PROGRAM
}
