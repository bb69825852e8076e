//! `bench` with the real program: the format of its reports, correct values, and no files left behind.

use crate::common;
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{CommandResult, TestFolder, with};
use serde_json::Value;

fn json(ran: CommandResult) -> Value {
    serde_json::from_str(&ran.text()).expect("JSON")
}

/// Runs with its own folder for temporary files, which is empty afterwards.
fn bench(test_folder: &TestFolder, arguments: &[&str]) -> CommandResult {
    let folder = test_folder.path("tmp");
    std::fs::create_dir_all(&folder).expect("made");
    let mut command = test_folder.command(&with(&["bench"], arguments));
    let ran = common::finish(command.env("TMPDIR", &folder), b"");
    let left: Vec<_> = std::fs::read_dir(&folder).expect("read").collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!test_folder.path(".leafseal").exists());
    ran
}

/// Short rows of every kind.
const TINY: [&str; 6] = ["--fields", "1,30", "--duration", "40ms", "--rounds", "2"];

#[test]
fn the_table_has_a_row_for_each_kind_of_request() {
    let test_folder = TestFolder::new();
    let report = json(bench(&test_folder, &with(&TINY, &["--json"])));
    assert_eq!((&report["schema"], &report["kind"]), (&1.into(), &"table".into()));
    assert_eq!(report["program"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["settings"]["loop"], "closed");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 2 * 2 * 3);
    for row in rows {
        assert_eq!(row["verified"], true);
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {row}"));
        let (latency, cpu) = (&row["latency_us"], &row["server_cpu"]);
        assert!(number(&row["requests"]) >= 1.0 && number(&row["requests_per_s"]) > 0.0, "{row}");
        assert!(number(&latency["p50"]) > 0.0 && number(&latency["p50"]) <= number(&latency["max"]), "{row}");
        assert!(number(&cpu["per_request_us"]) > 0.0 && number(&cpu["per_field_ns"]) > 0.0, "{row}");
        let shares = number(&cpu["network_share"]) + number(&cpu["workers_share"]);
        assert!((0.0..=1.001).contains(&shares), "{row}");
        let distinct = number(&row["distinct_requests"]);
        let is_fresh = row["operation"] == "decrypt" && row["keying"] == "request";
        // More than the four keys that the engine caches.
        assert!(if is_fresh { distinct > 4.0 } else { distinct >= 1.0 }, "{row}");
    }
}

#[test]
fn an_open_loop_measures_an_engine_that_runs_elsewhere() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let pid = engine.child.id().to_string();
    let narrow =
        ["--fields", "3", "--operation", "encrypt", "--curve", "k1", "--keying", "session", "--duration", "200ms"];
    let open = ["--rounds", "1", "--rate", "200", "--arrivals", "even", "--app", "acme", "--pid", &pid, "--json"];
    let arguments = [&["bench"], &engine.flags()[..], &narrow, &open].concat();
    let report = json(test_folder.run(&arguments));
    let row = &report["rows"][0];
    // Every one that was due, and none twice.
    assert_eq!((&row["requests"], &row["unsent"]), (&40.into(), &0.into()), "{row}");
    assert!(row["server_cpu"]["per_request_us"].as_f64().is_some_and(|cpu| cpu > 0.0), "{row}");
    assert_eq!(report["settings"]["loop"], "open, even");

    let without_pid = [&["bench"], &engine.flags()[..], &narrow, &["--rounds", "1", "--app", "acme"]].concat();
    let text = test_folder.run(&without_pid).text();
    assert!(text.lines().any(|line| line.contains("encrypt k1        session")), "{text}");
    let unknown = [&["bench"], &engine.flags()[..], &narrow, &["--app", "nobody"]].concat();
    let message = test_folder.run(&unknown).fails(1);
    assert!(message.contains("unknown_app") || message.contains("forbidden"), "{message}");
}

#[test]
fn a_signal_ends_it_quietly_with_its_engine_and_its_folder() {
    let test_folder = TestFolder::new();
    let folder = test_folder.path("tmp");
    std::fs::create_dir(&folder).expect("made");
    let mut command = test_folder.command(&["bench", "--duration", "10m"]);
    let mut bench = command.env("TMPDIR", &folder).stderr(std::process::Stdio::piped()).spawn().expect("started");
    // The last file created before the engine starts.
    let certificate = || {
        let made = std::fs::read_dir(&folder).expect("read").next()?.expect("an entry").path();
        made.join("certs/bench.pem").exists().then_some(())
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while certificate().is_none() {
        assert!(Instant::now() < deadline, "nothing was set up");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = bench.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("run").success());
    let mut message = String::new();
    // Its engine shares the pipe: the end comes when both have exited.
    bench.stderr.take().expect("piped").read_to_string(&mut message).expect("text");
    assert_eq!(bench.wait().expect("ended").code(), Some(130), "{message}");
    assert_eq!(message.replace("leafseal: warning: not a release build: the figures are not representative\n", ""), "");
    assert_eq!(std::fs::read_dir(&folder).expect("read").count(), 0);
}

#[test]
fn unmeasurable_plans_are_refused() {
    let test_folder = TestFolder::new();
    for (arguments, part) in [
        (&["--fields", "0"][..], "0 is not in"),
        (&["--duration", "fast"], "such as 500ms"),
        (&["--rate", "0"], "a number above 0"),
        (&["--arrivals", "even"], "--rate"),
        (&["--set", "server.workers=0"], "server.workers"),
        (&["handshakes", "--rounds", "0"], "0 is not in"),
        (&["--fields", "1", "handshakes"], "cannot be used with"),
    ] {
        let message = bench(&test_folder, arguments).fails(2);
        assert!(message.contains(part), "{message}");
    }
}
