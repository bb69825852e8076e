//! A real PostgreSQL in a temporary folder, with TLS by certificates of its own, for tests.
//!
//! The server runs as an unprivileged user, as it refuses to run as root. It ends with the test program, however that ends: a shell
//! beside it waits for the end of a pipe.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use leafseal_engine::admin::{PostgresSettings, PostgresUrl, SslMode};
pub use leafseal_net::tls::Validity;
use leafseal_net::tls::{CertificateAuthority, Issued, ServerName};

use crate::ports::lasting_port;

/// The role that owns the databases of tests.
pub const ROLE: &str = "leafseal";
/// Its password.
pub const PASSWORD: &str = "correct horse battery staple";
/// A role that logs in by its certificate, `client.pem`.
pub const CERTIFICATE_ROLE: &str = "certified";
/// A role that may log in without TLS; its password is the same.
pub const PLAIN_ROLE: &str = "plain";

/// The user that runs the server when the tests run as root: that of Debian's package.
const USER: &str = "postgres";
/// How long a server may take to start on a slow machine.
pub(crate) const START_TRIES: u32 = 1_200;
pub(crate) const TRY_PAUSE: Duration = Duration::from_millis(50);
/// How long a client waits for a server that does not respond.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a server is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// `fsync = off`: fast, and enough where only processes are killed and not the machine.
    Fast,
    /// As after an installation.
    Full,
}

/// A server. It stops, and its folder is gone, when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    /// Outlives `process` in the order of drops.
    process: Mutex<Option<Process>>,
    folder: tempfile::TempDir,
    sockets: PathBuf,
    port: u16,
    durability: Durability,
    databases: AtomicU32,
}

/// The shell that keeps a server; it ends the server when its input ends.
#[derive(Debug)]
pub(crate) struct Process {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Process {
    /// Starts a server, which `signal` ends; with `remove` the shell removes that folder when the test program ends.
    pub(crate) fn start(server: &Command, signal: &str, remove: Option<&Path>, log: &Path) -> Self {
        let script = "\"$@\" & server=$!; read -r _; kill -\"$SIGNAL\" $server 2>/dev/null; wait $server; \
                      [ -z \"$REMOVE\" ] || rm -rf \"$REMOVE\"";
        let log = fs::File::options().create(true).append(true).open(log).expect("a log");
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(server.get_program())
            .args(server.get_args())
            .env("REMOVE", remove.unwrap_or(Path::new("")))
            .env("SIGNAL", signal)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let input = shell.stdin.take();
        Self { shell, input }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        // It has nothing to report.
        let _ = self.shell.wait();
    }
}

static SHARED: LazyLock<PostgresServer> = LazyLock::new(|| {
    let mut server = PostgresServer::prepare(Durability::Fast, &[]);
    // A static is never dropped: the shell removes the folder.
    server.folder.disable_cleanup(true);
    server.start_with(Some(server.folder.path()));
    server
});

impl PostgresServer {
    /// The server that the tests of a program share.
    pub fn shared() -> &'static PostgresServer {
        &SHARED
    }

    /// A server of the test's own, with lines of `postgresql.conf` in addition.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start(durability: Durability, configuration: &[&str]) -> PostgresServer {
        let server = Self::prepare(durability, configuration);
        server.start_with(None);
        server
    }

    /// Makes a cluster without starting it.
    fn prepare(durability: Durability, configuration: &[&str]) -> PostgresServer {
        let folder = tempfile::Builder::new().prefix("leafseal-postgres-").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        fs::create_dir(folder.path().join("server")).expect("a folder");
        give_away(&folder.path().join("server"));
        let port = lasting_port();
        let process = Mutex::new(None);
        let sockets = folder.path().join("server");
        let server = PostgresServer { process, folder, sockets, port, durability, databases: AtomicU32::new(0) };
        let data = server.data();
        let arguments = ["-U", "postgres", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"];
        succeed(as_user(&tool("initdb")).arg("-D").arg(&data).args(arguments));
        server.write_certificates();
        server.configure(configuration);
        server
    }

    /// Makes the copy of another server that follows it as a standby, and starts it.
    ///
    /// # Panics
    /// When that fails.
    pub fn standby_of(primary: &PostgresServer, configuration: &[&str]) -> PostgresServer {
        let standby = Self::prepare(primary.durability, &[]);
        fs::remove_dir_all(standby.data()).expect("removed");
        for name in ["ca.pem", "ca.key", "client.pem", "client.key"] {
            fs::copy(primary.file(name), standby.file(name)).expect("copied");
        }
        fs::copy(primary.file("ca.pem"), standby.folder.path().join("server/ca.pem")).expect("copied");
        standby.write_server_certificate("localhost", Validity::of_leaf(SystemTime::now()));
        succeed(
            as_user(&tool("pg_basebackup"))
                .arg("-D")
                .arg(standby.data())
                .args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--username=postgres"])
                .args(["--host", primary.socket_folder(), "--port", &primary.port.to_string()]),
        );
        standby.configure(configuration);
        standby.start_with(None);
        standby
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("server/data")
    }

    /// The folder of the server's Unix socket.
    pub fn socket_folder(&self) -> &str {
        self.sockets.to_str().expect("text")
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file that clients need: `ca.pem`, `other-ca.pem`, `client.pem`, `client.key`, `password`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file that the server itself reads: `server.pem`, `server.key`.
    pub(crate) fn server_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("server").join(name)
    }

    /// Adds lines to the configuration; later ones win. Takes effect at the next start or [`PostgresServer::reload`].
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn configure(&self, lines: &[&str]) {
        let folder = self.folder.path().join("server");
        let path = self.data().join("postgresql.conf");
        let before = fs::read_to_string(&path).expect("there");
        let fast = match self.durability {
            Durability::Fast => "fsync = off\nfull_page_writes = off\n",
            Durability::Full => "",
        };
        let basics = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{sockets}'\nmax_connections = 300\n\
             shared_buffers = 16MB\nssl = on\nssl_cert_file = '{folder}/server.pem'\nssl_key_file = '{folder}/server.key'\n\
             ssl_ca_file = '{folder}/ca.pem'\nlog_error_verbosity = verbose\n{fast}",
            port = self.port,
            sockets = self.sockets.display(),
            folder = folder.display(),
        );
        fs::write(&path, format!("{before}\n{basics}{}\n", lines.join("\n"))).expect("written");
        let access = format!(
            "local all all trust\nlocal replication all trust\nhostssl all {CERTIFICATE_ROLE} 127.0.0.1/32 cert\n\
             hostnossl all {PLAIN_ROLE} 127.0.0.1/32 scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(self.data().join("pg_hba.conf"), access).expect("written");
    }

    /// An authority's certificate and key for `localhost` and no other name, one of another authority, and a client's.
    fn write_certificates(&self) {
        let now = SystemTime::now();
        let authority = CertificateAuthority::create("test", Validity::of_authority(now)).expect("an authority");
        let other = CertificateAuthority::create("other", Validity::of_authority(now)).expect("an authority");
        let client = authority.issue_client(CERTIFICATE_ROLE, "urn:x:test", Validity::of_leaf(now)).expect("issued");
        let key = authority.private_key_pem().expect("a key");
        for (name, content) in [
            ("ca.pem", authority.certificate_pem().expect("PEM").as_slice()),
            ("ca.key", &key),
            ("other-ca.pem", &other.certificate_pem().expect("PEM")),
            ("client.pem", &client.certificate_pem),
            ("client.key", &client.private_key_pem),
            ("password", format!("{PASSWORD}\n").as_bytes()),
        ] {
            fs::write(self.file(name), content).expect("written");
            fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o600)).expect("its mode");
        }
        fs::copy(self.file("ca.pem"), self.folder.path().join("server/ca.pem")).expect("copied");
        give_away(&self.folder.path().join("server/ca.pem"));
        self.write_server_certificate("localhost", Validity::of_leaf(now));
    }

    /// Gives the server another certificate, for the next start or [`PostgresServer::reload`].
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write_server_certificate(&self, name: &str, validity: Validity) {
        let read = |name| fs::read(self.file(name)).expect("there");
        let authority = CertificateAuthority::from_pem(&read("ca.pem"), &read("ca.key")).expect("an authority");
        let Issued { certificate_pem, private_key_pem, .. } =
            authority.issue_server(&[ServerName::parse(name)], validity).expect("issued");
        for (name, content) in [("server.pem", certificate_pem.as_slice()), ("server.key", &private_key_pem)] {
            let path = self.folder.path().join("server").join(name);
            fs::write(&path, content).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            give_away(&path);
        }
    }

    /// Starts the server; with `remove` the shell removes that folder when the test program ends.
    fn start_with(&self, remove: Option<&Path>) {
        let mut server = as_user(&tool("postgres"));
        server.arg("-D").arg(self.data());
        let process = Process::start(&server, "QUIT", remove, &self.file("log"));
        *self.process.lock().expect("no panic") = Some(process);
        self.wait_until_ready();
        if self.is_empty() {
            self.sql(
                "postgres",
                &format!(
                    "CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE {CERTIFICATE_ROLE} LOGIN;
                     CREATE ROLE {PLAIN_ROLE} LOGIN PASSWORD '{PASSWORD}'; GRANT {ROLE} TO {CERTIFICATE_ROLE}, {PLAIN_ROLE}"
                ),
            );
        }
    }

    fn is_empty(&self) -> bool {
        let count =
            format!("SELECT (SELECT count(*) FROM pg_roles WHERE rolname = '{ROLE}') + pg_is_in_recovery()::int");
        self.sql("postgres", &count) == "0"
    }

    fn wait_until_ready(&self) {
        for _ in 0..START_TRIES {
            if self.try_sql("postgres", "SELECT 1").status.success() {
                return;
            }
            std::thread::sleep(TRY_PAUSE);
        }
        let log = fs::read_to_string(self.file("log")).unwrap_or_default();
        panic!("PostgreSQL does not start:\n{log}");
    }

    /// Runs SQL as a superuser and returns what it prints: rows as lines, columns separated by `|`.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = self.try_sql(database, sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Repeats a statement until it prints `expected`.
    ///
    /// # Panics
    /// When it fails.
    pub fn wait_until(&self, sql: &str, expected: &str) {
        while self.sql("postgres", sql) != expected {
            std::thread::sleep(TRY_PAUSE);
        }
    }

    /// Runs SQL that may fail as a superuser.
    ///
    /// # Panics
    /// When there is no `psql`.
    pub fn try_sql(&self, database: &str, sql: &str) -> Output {
        Command::new(tool("psql"))
            .args([
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                "--username=postgres",
            ])
            .arg(format!("--host={}", self.socket_folder()))
            .arg(format!("--port={}", self.port))
            .args(["--dbname", database, "--command", sql])
            .output()
            .expect("psql runs")
    }

    /// Everything in a database, as SQL.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn dump(&self, database: &str) -> String {
        let mut command = Command::new(tool("pg_dump"));
        let output = self.connected(&mut command).arg(database).output().expect("pg_dump runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Puts what [`PostgresServer::dump`] returned into an empty database.
    ///
    /// # Panics
    /// When it is not accepted.
    pub fn restore(&self, database: &str, dump: &str) {
        let path = self.file(&format!("{database}.dump"));
        fs::write(&path, dump).expect("written");
        let mut command = Command::new(tool("psql"));
        succeed(
            self.connected(&mut command)
                .args(["--quiet", "--set=ON_ERROR_STOP=1", "--dbname", database, "--file"])
                .arg(path),
        );
    }

    /// Adds the superuser's way to the server.
    fn connected<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.args(["--username=postgres", "--host", self.socket_folder(), "--port", &self.port.to_string()])
    }

    /// An empty database of [`ROLE`].
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {ROLE}"));
        name
    }

    /// Settings with which [`ROLE`] reaches a database: TLS, verified, and a password. Their timeouts allow for a machine that does much
    /// else.
    ///
    /// # Panics
    /// On names that are none.
    pub fn settings(&self, database: &str) -> PostgresSettings {
        let url = format!("postgres://{ROLE}@localhost:{}/{database}", self.port);
        PostgresSettings {
            sslmode: SslMode::VerifyFull,
            authorities: Some(self.file("ca.pem")),
            password_file: Some(self.file("password")),
            connect_timeout: PATIENCE,
            statement_timeout: PATIENCE,
            ..PostgresSettings::new(PostgresUrl::parse(&url).expect("a URL"))
        }
    }

    /// The process id of the server.
    fn pid(&self) -> String {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).expect("it runs");
        text.lines().next().expect("a line").to_owned()
    }

    /// Sends a signal to the server.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: &str) {
        succeed(Command::new("kill").args([format!("-{signal}"), self.pid()]));
    }

    /// Lets the server read its configuration and certificates again.
    ///
    /// # Panics
    /// When it does not run.
    pub fn reload(&self) {
        self.signal("HUP");
    }

    /// Kills the server, as a crash of its machine would.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self) {
        self.signal("KILL");
        drop(self.process.lock().expect("no panic").take());
        self.wait_for_backends();
    }

    /// Waits for the processes of a killed server: until they have noticed, its shared memory is in use, and no other server starts.
    fn wait_for_backends(&self) {
        let data = fs::canonicalize(self.data()).expect("the folder is there");
        let works_there = |process: fs::DirEntry| fs::read_link(process.path().join("cwd")).is_ok_and(|at| at == data);
        // Only Linux shows them.
        for _ in 0..START_TRIES {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            if !processes.into_iter().any(works_there) {
                return;
            }
            std::thread::sleep(TRY_PAUSE);
        }
    }

    /// Stops the server in order.
    ///
    /// # Panics
    /// When it does not run.
    pub fn stop(&self) {
        self.signal("INT");
        drop(self.process.lock().expect("no panic").take());
    }

    /// Starts the server again.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&self) {
        // Processes of a killed server take a moment to notice.
        for _ in 0..START_TRIES {
            let Ok(pid) = fs::read_to_string(self.data().join("postmaster.pid")) else { break };
            let pid = pid.lines().next().unwrap_or_default().to_owned();
            if !Path::new("/proc").join(&pid).exists() {
                break;
            }
            std::thread::sleep(TRY_PAUSE);
        }
        self.start_with(None);
    }

    /// Ends all connections to a database, as a pooler or an administrator does.
    pub fn end_connections(&self, database: &str) {
        let select = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()"
        );
        self.sql("postgres", &select);
    }

    /// The server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }
}

/// A program of PostgreSQL. Debian keeps them out of the path.
fn tool(name: &str) -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut folders: Vec<(u32, PathBuf)> = versions
            .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
            .filter(|(_, folder)| folder.join("initdb").exists())
            .collect();
        folders.sort();
        let in_path = || {
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        };
        folders.pop().map(|(_, folder)| folder).or_else(in_path).expect(
            "these tests need a PostgreSQL server, and none is installed: run `make setup` as root, or install Debian's package \
             `postgresql`",
        )
    });
    FOLDER.join(name)
}

fn is_root() -> bool {
    static IS_ROOT: LazyLock<bool> = LazyLock::new(|| {
        let output = Command::new("id").arg("-u").output().expect("id runs");
        output.stdout.trim_ascii() == b"0"
    });
    *IS_ROOT
}

/// A command that runs as the unprivileged user if the tests run as root.
pub(crate) fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

/// Makes the unprivileged user the owner of a path.
pub(crate) fn give_away(path: &Path) {
    if is_root() {
        succeed(Command::new("chown").arg(format!("{USER}:")).arg(path));
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
