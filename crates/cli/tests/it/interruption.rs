//! A command that is stopped while it writes plaintext to a file leaves no part of it.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::common::{TestFolder, with};
use rustix::process::{Pid, Signal, kill_process};

const SECRET: &str = "4242-plaintext";

/// Far more than pipes and buffers hold: once the command has read it, decrypted lines are in its temporary file.
const SIZE: usize = 24 << 20;

/// Starts `decrypt -o out.jsonl` and waits until it has written, with more input to come.
fn begin(test_folder: &TestFolder) -> Child {
    let line = format!("{{\"card\":\"{SECRET}\"}}\n");
    let arguments = ["encrypt", "--app", "acme", "--format", "jsonl"];
    let sealed = test_folder.run_with(&arguments, line.repeat(1000).as_bytes()).ok();
    let arguments = ["decrypt", "--app", "acme", "--format", "jsonl", "-o", "out.jsonl"];
    let mut command = with_default_signals(&test_folder.command(&arguments));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("piped");
    for _ in 0..SIZE / sealed.len() {
        stdin.write_all(&sealed).expect("read");
    }
    child.stdin = Some(stdin);
    child
}

/// The command, with signals that stop it even where the tests run under `nohup` or in the background of a shell, whose children ignore
/// SIGHUP or SIGINT.
fn with_default_signals(command: &Command) -> Command {
    if !cfg!(target_os = "linux") {
        return copied(command, Command::new(command.get_program()));
    }
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP,INT,TERM").arg(command.get_program());
    copied(command, env)
}

/// `into` with the arguments, folder and environment of `command`.
fn copied(command: &Command, mut into: Command) -> Command {
    into.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => into.env(name, value),
            None => into.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        into.current_dir(folder);
    }
    into
}

fn stop(mut child: Child, signal: Signal) -> (ExitStatus, String) {
    kill_process(Pid::from_child(&child), signal).expect("it runs");
    let mut message = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut message).expect("text");
    (child.wait().expect("ended"), message)
}

/// The files other than the store.
fn files(test_folder: &TestFolder) -> Vec<String> {
    let entries = std::fs::read_dir(test_folder.0.path()).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_signal_leaves_no_plaintext_and_reports_that_nothing_was_written() {
    let test_folder = TestFolder::with_app();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (status, message) = stop(begin(&test_folder), signal);
        assert_eq!(status.code(), Some(code), "{message}");
        assert_eq!(message, "leafseal: interrupted: nothing was written to out.jsonl\n");
        assert_eq!(files(&test_folder), [".leafseal"]);
    }
    // An existing file stays unchanged.
    test_folder.write("out.jsonl", "before");
    let (_, message) = stop(begin(&test_folder), Signal::TERM);
    assert!(message.contains("nothing was written"), "{message}");
    assert_eq!(
        (test_folder.read("out.jsonl"), files(&test_folder)),
        (b"before".to_vec(), vec![".leafseal".to_owned(), "out.jsonl".to_owned()])
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let workplace = TestFolder::with_app();
    let sealed = workplace.run_with(&["encrypt", "--app", "acme"], br#"["4242"]"#).ok();
    // As nohup does it.
    let program = workplace.command(&["decrypt", "--app", "acme", "-o", "out.json"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$0\" \"$@\""]).arg(program.get_program());
    let mut child = copied(&program, shell).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("piped");
    // Its handlers, if it sets any, are set before it has taken more than the pipe holds.
    stdin.write_all(&vec![b' '; 1 << 20]).expect("read");
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(Pid::from_child(&child), signal).expect("it runs");
    }
    stdin.write_all(&sealed).expect("it still runs");
    drop(stdin);
    assert!(child.wait().expect("ended").success());
    assert_eq!(workplace.read("out.json").trim_ascii(), br#"["4242"]"#);
}

#[cfg(target_os = "linux")]
#[test]
fn a_kill_leaves_no_plaintext_where_files_without_a_name_exist() {
    use rustix::fs::{Mode, OFlags, open};
    let test_folder = TestFolder::with_app();
    let flags = OFlags::TMPFILE | OFlags::WRONLY;
    if open(test_folder.0.path(), flags, Mode::RUSR | Mode::WUSR).is_err() {
        return;
    }
    for existing in [&[][..], &["out.jsonl"]] {
        existing.iter().for_each(|name| drop(test_folder.write(name, "before")));
        let (status, _) = stop(begin(&test_folder), Signal::KILL);
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(files(&test_folder), [&[".leafseal"][..], existing].concat());
    }
}

#[test]
fn a_file_is_complete_or_absent() {
    let test_folder = TestFolder::with_app();
    let sealed = test_folder.run_with(&["encrypt", "--app", "acme"], br#"["4242"]"#).ok();
    for _ in 0..2 {
        test_folder.run_with(&with(&["decrypt", "--app", "acme"], &["-o", "out.json"]), &sealed).ok();
        assert_eq!(test_folder.read("out.json"), br#"["4242"]"#);
        assert_eq!(files(&test_folder), [".leafseal", "out.json"]);
    }
}
