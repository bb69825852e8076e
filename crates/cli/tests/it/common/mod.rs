//! The real program in a temporary folder: commands with their input, output and exit code, and a running engine.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leafseal_client::{ClientSettings, ClientTls};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_leafseal");

/// How long a condition may take; a passing test never waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for a condition.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// The peak memory of the process in bytes, as last seen before its end.
    pub memory_max: u64,
}

impl CommandResult {
    /// The output of a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> Vec<u8> {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    #[track_caller]
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.ok()).expect("text")
    }

    /// The message of a command that must fail with `code` and print nothing on standard output.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert_eq!(String::from_utf8_lossy(&self.stdout), "");
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("internal error"), "{}", self.stderr);
        self.stderr
    }
}

/// A temporary folder with a store.
pub(crate) struct TestFolder(pub TempDir);

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("folder"))
    }

    /// Creates a folder with an app `acme`.
    pub(crate) fn with_app() -> Self {
        let test_folder = Self::new();
        test_folder.run(&["keys", "create", "acme"]).ok();
        test_folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("read")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(PROGRAM), arguments)
    }

    /// The same of another program.
    pub(crate) fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).args(arguments);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEAFSEAL")) {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandResult {
        self.run_with(arguments, b"")
    }

    /// Runs with `input` on standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> CommandResult {
        finish(&mut self.command(arguments), input)
    }

    /// Starts `dev` for the app `acme`.
    pub(crate) fn engine(&self, more: &[&str]) -> Running {
        let mut arguments = vec!["dev", "--json", "--port", "0", "--app", "acme"];
        arguments.extend(more);
        let mut command = self.command(&arguments);
        Running::start(command.stderr(Stdio::piped()))
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> CommandResult {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // A command that refuses early does not read its input; the broken pipe does not matter.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let reader = |mut stream: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut content = Vec::new();
            stream.read_to_end(&mut content).expect("read");
            content
        })
    };
    let stdout = reader(Box::new(child.stdout.take().expect("piped")));
    let stderr = reader(Box::new(child.stderr.take().expect("piped")));
    let mut memory_max = 0;
    let status = loop {
        memory_max = memory_max.max(memory(child.id()));
        match child.try_wait().expect("waited") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(3)),
        }
    };
    writer.join().expect("written");
    CommandResult {
        code: status.code().unwrap_or(-1),
        stdout: stdout.join().expect("read"),
        stderr: String::from_utf8(stderr.join().expect("read")).expect("text"),
        memory_max,
    }
}

/// The peak memory of a process in bytes; 0 when it has ended.
pub(crate) fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// An engine that stops with the test.
pub(crate) struct Running {
    pub child: Child,
    pub ready: Value,
}

impl Running {
    /// Starts an engine and waits until it answers.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("a line");
        let Ok(ready) = serde_json::from_str(&line) else {
            let mut message = String::new();
            let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut message));
            panic!("the engine did not start: {message}")
        };
        Self { child, ready }
    }

    pub(crate) fn address(&self) -> &str {
        self.ready["address"].as_str().expect("an address")
    }

    /// The flags to connect to it with the certificate of `dev`.
    pub(crate) fn flags(&self) -> Vec<&str> {
        vec!["--connect", self.address(), "--client", "dev"]
    }

    /// The same for the client library.
    pub(crate) fn client_settings(&self) -> ClientSettings {
        let path = |name: &str| Path::new(self.ready[name].as_str().expect("a path"));
        let tls = ClientTls::from_files(path("ca"), path("certificate"), path("key"));
        ClientSettings::new(self.address(), tls.expect("files"))
    }

    /// Reads a path of the operator port.
    pub(crate) fn probe(&self, path: &str) -> String {
        let operator = self.ready["operator"].as_str().expect("an operator port");
        let mut socket = TcpStream::connect(operator).expect("connected");
        socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: operator\r\n\r\n").as_bytes()).expect("written");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("text");
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> Vec<u8> {
    let path = root().join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Concatenates `a` and `b`.
pub(crate) fn with<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<&'a str> {
    [a, b].concat()
}

/// A document with exactly `fields` scalars, mostly strings, in objects of ten as exports have them.
pub(crate) fn document(fields: usize, padding: usize) -> Vec<u8> {
    let mut out = String::from("[");
    for field in 0..fields {
        let (object, place) = (field / 10, field % 10);
        out.push_str(match (place, object) {
            (0, 0) => "\n  {",
            (0, _) => ",\n  {",
            _ => ", ",
        });
        match place {
            0 => out.push_str(&format!("\"id\": {object}")),
            1 => out.push_str(&format!("\"active\": {}", object % 3 == 0)),
            2 => out.push_str(&format!("\"balance\": {object}.50")),
            _ => out.push_str(&format!("\"field{place}\": \"value {field} {}\"", "é".repeat(padding / 2))),
        }
        if place == 9 || field + 1 == fields {
            out.push('}');
        }
    }
    out.push_str("\n]\n");
    out.into_bytes()
}
