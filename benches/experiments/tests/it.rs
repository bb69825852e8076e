//! The experiments with the program of this build, each for a moment: the format of their reports, and no files left behind.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for a condition.
const PATIENCE: Duration = Duration::from_secs(20);

/// The experiments, with their own folder for temporary files.
fn experiments(folder: &TempDir, arguments: &[&str]) -> Command {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_experiments"));
    let mut command = Command::new(&own);
    command.env("TMPDIR", folder.path()).arg("--program").arg(own.with_file_name("leafseal")).args(arguments);
    command
}

fn is_empty(folder: &TempDir) -> bool {
    std::fs::read_dir(folder.path()).expect("read").count() == 0
}

/// Runs an experiment and returns its report.
fn report(experiment: &str, flags: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let output = experiments(&folder, &[&[experiment, "--json"], flags].concat()).output().expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_empty(&folder));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The latencies of a report, each a number, in ascending order.
fn latencies(of: &Value) {
    let quantiles: Vec<f64> =
        ["p50", "p90", "p99", "p99_9", "max"].iter().map(|name| of[name].as_f64().expect("a number")).collect();
    assert!(quantiles.is_sorted() && quantiles[4] > 0.0, "{of}");
}

#[test]
fn interference_compares_engine_and_floor() {
    let flags =
        ["--duration", "300ms", "--rounds", "1", "--large-fields", "3000", "--large-connections", "2", "--rate", "200"];
    let report = report("interference", &flags);
    let cases = report["cases"].as_array().expect("cases");
    let names: Vec<&str> = cases.iter().map(|case| case["case"].as_str().expect("a name")).collect();
    assert_eq!(names, ["alone", "beside", "beside_first_come_first_served", "floor_alone", "floor_beside"]);
    for case in cases {
        assert!(case["requests"].as_u64().is_some_and(|requests| requests > 0), "{case}");
        assert_eq!(case["errors"], serde_json::json!({}));
        latencies(&case["latency_us"]);
        assert_eq!(case["large_requests"].as_u64() > Some(0), case["case"].as_str().unwrap().contains("beside"));
    }
    assert!(report["verdict"]["p99_to_floor"].as_f64() > Some(0.0), "{report}");
}

#[test]
fn an_overloaded_engine_answers_each_request_once() {
    let flags =
        ["--duration", "1s", "--capacity", "300ms", "--connections", "3", "--deadline", "200ms", "--factor", "5"];
    let report = report("overload", &flags);
    let requests = &report["requests"];
    let count = |value: &Value| value.as_u64().expect("a count");
    let errors: u64 = requests["errors"].as_object().expect("codes").values().map(count).sum();
    assert_eq!(count(&requests["sent"]), count(&requests["ok"]) + errors, "{requests}");
    assert!(count(&requests["ok"]) > 0, "{requests}");
    assert_eq!(report["verdicts"]["answered_once"], true);
    assert!(count(&report["health"]["asked"]) >= 20, "{report}");
    latencies(&report["health"]["latency_us"]);
    let memory = &report["memory_bytes"];
    assert!(
        count(&memory["before"]) <= count(&memory["max"]) && count(&memory["max"]) < count(&memory["bound"]),
        "{memory}"
    );
    assert!(report["recovered_in_us"].as_f64().is_some(), "{report}");
}

#[test]
fn a_soak_checks_every_result_and_samples_the_engine() {
    let report = report("soak", &["--duration", "10s", "--connections", "3"]);
    let counts = &report["counts"];
    assert!(counts["round_trips"].as_u64() > Some(0) && counts["fields"].as_u64() > Some(0), "{counts}");
    let quarters = report["quarters"].as_array().expect("quarters");
    assert_eq!(quarters.len(), 4, "{report}");
    for quarter in quarters {
        let number = |name: &str| quarter[name].as_f64().unwrap_or_else(|| panic!("{name}: {quarter}"));
        assert!(number("memory_bytes") >= number("memory_min_bytes") && number("memory_min_bytes") > 0.0, "{quarter}");
        // Network, one worker, maintenance and the main thread.
        assert!(number("threads") >= 4.0 && number("descriptors") > 3.0, "{quarter}");
    }
    assert!(report["grows"].is_boolean());
}

#[test]
fn a_signal_ends_it_with_its_engine_and_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = experiments(&folder, &["soak", "--duration", "10m"]);
    let mut running = command.stderr(Stdio::null()).spawn().expect("started");
    let began = Instant::now();
    let has_certificate = || {
        let made = std::fs::read_dir(folder.path()).expect("read").next();
        made.is_some_and(|entry| entry.expect("an entry").path().join("certs/bench.pem").exists())
    };
    while !has_certificate() {
        assert!(began.elapsed() < PATIENCE, "nothing was set up");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-TERM", &running.id().to_string()]).status().expect("run").success());
    assert_eq!(running.wait().expect("ended").code(), Some(130));
    assert!(is_empty(&folder));
}

#[test]
fn a_missing_program_and_refused_settings_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, part) in [
        (&["--program", "none", "soak"][..], "name it with --program"),
        (&["--set", "server.workers=0", "soak"], "server.workers"),
        (&["interference", "--rounds", "0"], "0 is not in"),
        (&["echo", "--exchange", "1:2"], "three numbers"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_experiments"));
        let output = command.args(arguments).env("TMPDIR", folder.path()).output().expect("started");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(part), "{message}");
        assert!(is_empty(&folder));
    }
}
