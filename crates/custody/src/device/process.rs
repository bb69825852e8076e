//! The side of the engine: starts the process of a device, asks it once, and ends it.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use leafseal_keystore::ProviderError;

use super::exchange::{DeviceAnswer, DeviceRequest, read_answer};
use crate::message::shortened;

/// What of the process's messages is read; the rest is thrown away.
const MESSAGES_SIZE_MAX: u64 = 4096;
/// For how long a process may end by itself once it has answered: it returns its session to the device.
const GRACE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(5);

/// How the process of a device is started.
#[derive(Debug, Clone)]
pub(crate) struct DeviceProcess {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of the environment that it does not get.
    pub kept_variables: Vec<OsString>,
    /// How the device is called in errors.
    pub name: String,
    /// From the start of the process to its answer.
    pub timeout: Duration,
}

/// What a process came to before it answered.
enum Silence {
    /// Its answer ended early, or was none.
    Ended,
    TimedOut,
}

impl DeviceProcess {
    /// One request.
    pub(crate) fn ask(&self, request: DeviceRequest) -> DeviceAnswer {
        let named = |reason: String| format!("{}: {reason}", self.name);
        let answer = self.start(request).map_err(ProviderError::Unavailable)?;
        answer.map_err(|error| match error {
            ProviderError::Denied(reason) => ProviderError::Denied(named(shortened(&reason))),
            ProviderError::Unavailable(reason) => ProviderError::Unavailable(named(shortened(&reason))),
            error => error,
        })
    }

    fn start(&self, request: DeviceRequest) -> Result<DeviceAnswer, String> {
        let Self { program, name, .. } = self;
        let mut child =
            self.command().spawn().map_err(|error| format!("{name}: {} does not start: {error}", program.display()))?;
        let messages = messages(&mut child);
        match self.exchange(&mut child, request) {
            Ok((answer, input)) => {
                release(child, input);
                Ok(answer)
            }
            Err(Silence::TimedOut) => {
                kill(child);
                Err(format!("{name}: no answer within {:?}: its process was ended", self.timeout))
            }
            Err(Silence::Ended) => {
                let status = wait(&mut child, GRACE);
                kill(child);
                let status = status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
                let messages = messages.recv_timeout(GRACE).unwrap_or_default();
                let end = if messages.is_empty() { String::new() } else { format!(": {}", shortened(&messages)) };
                Err(format!("{name}: its process ended without an answer ({status}){end}"))
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Libraries read variables of their own, which stay; ours hold secrets of the engine.
        for name in &self.kept_variables {
            command.env_remove(name);
        }
        command
    }

    /// Returns the process's input, too, which must stay open for as long as it may run.
    fn exchange(&self, child: &mut Child, request: DeviceRequest) -> Result<(DeviceAnswer, ChildStdin), Silence> {
        let (mut input, mut output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, receiver) = mpsc::channel();
        // Its own thread, which a process that neither reads nor writes can hold up.
        thread::spawn(move || {
            // A process that ends before it has read all may have said why.
            let _ = request.write(&mut input);
            let answer = read_answer(&mut output);
            let _ = sender.send(answer.map(|answer| (answer, input)));
        });
        receiver
            .recv_timeout(self.timeout)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => Silence::TimedOut,
                RecvTimeoutError::Disconnected => Silence::Ended,
            })?
            .map_err(|_: io::Error| Silence::Ended)
    }
}

/// Reads what the process says, so that it never waits for that.
fn messages(child: &mut Child) -> mpsc::Receiver<String> {
    let mut errors = child.stderr.take().expect("piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.by_ref().take(MESSAGES_SIZE_MAX).read_to_end(&mut text);
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
        let _ = io::copy(&mut errors, &mut io::sink());
    });
    receiver
}

/// Lets a process end that has answered. Nobody waits for it.
fn release(mut child: Child, input: ChildStdin) {
    thread::spawn(move || {
        wait(&mut child, GRACE);
        drop(input);
        kill(child);
    });
}

/// Ends a process, on a thread of its own: one that is inside a driver may take its time even then.
fn kill(mut child: Child) {
    let _ = child.kill();
    thread::spawn(move || child.wait());
}

fn wait(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(None) if start.elapsed() < time => thread::sleep(STEP),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::device::exchange::DeviceOperation;

    /// Enough for a shell on a busy machine; the tests of a timeout use none that is shorter than what they wait for.
    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, timeout: Duration) -> DeviceProcess {
        let arguments = vec!["-c".into(), script.into()];
        let kept_variables = vec!["LEAFSEAL_ROOT_KEY".into()];
        DeviceProcess { program: "/bin/sh".into(), arguments, kept_variables, name: "device".into(), timeout }
    }

    fn ask(process: &DeviceProcess) -> String {
        let input = Zeroizing::new(vec![7; 88]);
        let request =
            DeviceRequest { operation: DeviceOperation::Wrap, associated_data: Vec::new(), input, device: Vec::new() };
        match process.ask(request) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// An answer with this outcome and these bytes, of less than ten each.
    fn answer(outcome: &str, bytes: &str) -> String {
        let (a, b) = (outcome.len(), bytes.len());
        format!(r"printf '\0\0\0\{:o}\0\0\0\{a:o}{outcome}\0\0\0\{b:o}{bytes}'", a + b + 8)
    }

    #[test]
    fn an_answer_is_returned_whatever_the_process_does_then() {
        for after in ["", "; exec sleep 600", "; kill -SEGV $$", "; yes >&2"] {
            assert_eq!(ask(&shell(&format!("{}{after}", answer("ok", "wrapped")), LONG)), "wrapped", "{after}");
        }
        assert_eq!(ask(&shell(&answer("denied", "no"), LONG)), "device: no");
        assert_eq!(ask(&shell(&answer("refused", ""), LONG)), "it does not open the slot");
    }

    #[test]
    fn a_process_that_ends_or_writes_something_else_is_an_error_with_its_words() {
        for (script, part) in [
            ("exit 3", "exit status: 3"),
            ("kill -SEGV $$", "signal: 11"),
            ("echo 'no\x1b[2J such library' >&2; exit 1", "(exit status: 1): no [2J such library"),
            ("exec 1>&-; exec sleep 600", "it closed its output"),
            ("head -c 1000000 /dev/zero", "ended without an answer"),
            ("yes >&2 & yes", "ended without an answer"),
        ] {
            let error = ask(&shell(script, LONG));
            assert!(error.starts_with("device: ") && error.contains(part), "{script}: {error}");
        }
        let missing = DeviceProcess { program: "/nowhere/program".into(), ..shell("", LONG) };
        assert!(ask(&missing).contains("/nowhere/program does not start"), "{}", ask(&missing));
    }

    #[test]
    fn a_process_that_hangs_is_ended() {
        let mark = format!("600.{}", std::process::id());
        let error = ask(&shell(&format!("exec sleep {mark}"), Duration::from_millis(500)));
        assert!(error.contains("no answer within 500ms"), "{error}");
        let runs = || {
            let folders = std::fs::read_dir("/proc").expect("a folder").flatten();
            let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
            lines.filter(|line| line.windows(mark.len()).any(|it| it == mark.as_bytes())).count()
        };
        while runs() > 0 {
            thread::sleep(STEP);
        }
    }

    #[test]
    fn variables_with_our_secrets_stay_here() {
        let command = shell("", LONG).command();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert_eq!(removed, ["LEAFSEAL_ROOT_KEY"]);
    }
}
