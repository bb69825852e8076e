//! `load` with the real program against an engine: the CPU and queue figures in the results with `--metrics`, `--pid` and both; servers
//! other than an engine are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use crate::common::{Running, TestFolder};
use serde_json::{Value, json};

/// An engine with one worker, and a scenario that keeps it busy for a while.
struct TestEngine {
    test_folder: TestFolder,
    engine: Running,
}

impl TestEngine {
    fn new(seconds: f64) -> Self {
        let test_folder = TestFolder::new();
        let engine = test_folder.engine(&["--set", "server.workers=1"]);
        let ready = &engine.ready;
        let scenario = json!({
            "config": {
                "target": engine.address(),
                "e3": { "key": ready["key"], "cert": ready["certificate"], "ca": ready["ca"], "app": "acme" },
                "phases": [{ "duration": seconds, "connections": 3 }],
            },
            "scenarios": [{
                "engine": "e3",
                "flow": [{ "send": { "numEncrypts": 200, "curve": "k1", "keying": "field" } }],
            }],
        });
        test_folder.write("scenario.yml", scenario.to_string());
        Self { test_folder, engine }
    }

    fn metrics(&self) -> String {
        format!("http://{}/metrics", self.engine.ready["operator"].as_str().expect("an operator port"))
    }

    fn pid(&self) -> String {
        self.engine.child.id().to_string()
    }

    /// The result of a run with these flags.
    fn run(&self, flags: &[&str]) -> Value {
        let printed = self.test_folder.run(&[&["load", "scenario.yml", "--json"], flags].concat()).text();
        serde_json::from_str(&printed).expect("JSON")
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Checks that CPU time is reported, over time and in total, by threads.
fn assert_cpu(result: &Value) {
    let cpu = &result["cpu"];
    let parts = ["network", "workers", "other"].map(|part| number(&cpu["server_s"][part]));
    assert!(parts[0] > 0.0 && parts[1] > 0.0 && parts[2] >= 0.0, "{cpu}");
    let total: f64 = parts.iter().sum();
    let per_field = total * 1e9 / number(&result["totals"]["fields"]);
    assert!((number(&cpu["server_per_field_ns"]) / per_field - 1.0).abs() < 0.01, "{per_field} ns: {cpu}");

    let mut then = 0.0;
    for row in rows(result) {
        let at = number(&row["at_s"]);
        assert!(at > then, "{row}");
        assert!(["network", "workers", "other"].iter().all(|part| number(&row["cores"][part]) >= 0.0), "{row}");
        then = at;
    }
    assert!(rows(result).iter().any(|row| number(&row["cores"]["workers"]) > 0.0), "{result}");
}

fn assert_waits(result: &Value) {
    let waited: u64 = rows(result).iter().map(|row| row["queue_wait_us"]["count"].as_u64().expect("a count")).sum();
    let sent = result["totals"]["sent"].as_u64().expect("a count");
    assert!(waited > 0 && waited <= sent, "{waited} of {sent}");
    for row in rows(result) {
        assert!(number(&row["workers_busy"]) >= 0.0, "{row}");
        let wait = &row["queue_wait_us"];
        assert!(wait["count"] == 0 || number(&wait["p50"]) > 0.0, "{row}");
    }
    assert!(rows(result).iter().any(|row| number(&row["workers_busy"]) > 0.0), "{result}");
}

fn rows(result: &Value) -> &Vec<Value> {
    let rows = result["server"].as_array().expect("rows");
    assert!(!rows.is_empty(), "nothing was seen over time");
    rows
}

#[test]
fn metrics_alone_give_cpu_and_waiting() {
    let test_engine = TestEngine::new(2.3);
    let result = test_engine.run(&["--metrics", &test_engine.metrics(), "-o", "result.json"]);
    assert_cpu(&result);
    assert_waits(&result);
    assert!(rows(&result).len() >= 2, "{result}");
    let page = test_engine.test_folder.run(&["load", "report", "result.json"]).text();
    assert!(page.contains("cores: whole engine") && page.contains("cores, busy workers"));
    assert!(page.contains("data-path=\"cpu.server_s.workers\""));

    let table = test_engine.test_folder.run(&["load", "scenario.yml", "--metrics", &test_engine.metrics()]).text();
    let line = table.lines().find(|line| line.starts_with("cores ")).unwrap_or_else(|| panic!("{table}"));
    let workers = line.split(", ").nth(1).and_then(|part| part.strip_suffix(" of its workers"));
    let workers: f64 = workers.unwrap_or_else(|| panic!("{line}")).parse().expect("a number");
    assert!(workers >= 0.0, "{line}");
}

#[test]
fn the_process_gives_cpu_alone_and_with_metrics_everything() {
    let test_engine = TestEngine::new(0.8);
    let result = test_engine.run(&["--pid", &test_engine.pid()]);
    assert_cpu(&result);
    let row = &rows(&result)[0];
    assert!(row["workers_busy"].is_null() && row["queue_wait_us"].is_null(), "{row}");

    let result = test_engine.run(&["--pid", &test_engine.pid(), "--metrics", &test_engine.metrics()]);
    assert_cpu(&result);
    assert_waits(&result);

    let result = test_engine.run(&[]);
    assert!(result["server"] == json!([]) && result["cpu"]["server_s"].is_null(), "{result}");
}

#[test]
fn an_engine_that_it_starts_reports_all_figures() {
    let test_folder = TestFolder::new();
    let scenario = "\
config: { target: none, e3: { key: none, cert: none }, phases: [ { duration: 0.8, connections: 2 } ] }
scenarios: [ { engine: e3, flow: [ { send: { numEncrypts: 200, curve: k1, keying: field } } ] } ]
";
    test_folder.write("scenario.yml", scenario);
    let flags = ["--start", "--set", "server.workers=1", "--json"];
    let printed = test_folder.run(&[&["load", "scenario.yml"], &flags[..]].concat()).text();
    let result: Value = serde_json::from_str(&printed).expect("JSON");
    assert_waits(&result);
    let server = &result["cpu"]["server_s"];
    assert!(number(&server["network"]) > 0.0 && number(&server["workers"]) > 0.0, "{server}");
}

/// Forwards the metrics of `operator` without CPU time, as older engines sent them.
fn older(operator: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.expect("a connection");
            let mut request = [0; 4096];
            let length = socket.read(&mut request).unwrap_or(0);
            // A request that the end of the run cut off.
            if length == 0 {
                continue;
            }
            let mut engine = std::net::TcpStream::connect(operator).expect("the engine");
            engine.write_all(&request[..length]).expect("written");
            let mut answer = String::new();
            engine.read_to_string(&mut answer).expect("text");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let status = head.lines().next().expect("a status");
            let is_old = |line: &&str| !line.contains("cpu_seconds");
            let body: String = body.lines().filter(is_old).map(|line| format!("{line}\n")).collect();
            let _ = socket.write_all(format!("{status}\r\n\r\n{body}").as_bytes());
        }
    });
    address
}

#[test]
fn busy_workers_are_not_called_cpu() {
    let test_engine = TestEngine::new(0.8);
    let operator = test_engine.engine.ready["operator"].as_str().expect("an operator port");
    let metrics = format!("http://{}/metrics", older(operator.parse().expect("an address")));
    let result = test_engine.run(&["--metrics", &metrics, "-o", "result.json"]);
    assert_waits(&result);
    assert!(result["cpu"]["server_s"].is_null() && rows(&result).iter().all(|row| row["cores"].is_null()), "{result}");
    let page = test_engine.test_folder.run(&["load", "report", "result.json"]).text();
    assert!(page.contains("Busy workers") && !page.contains("cores: whole engine"));
}

#[test]
fn other_servers_are_refused() {
    let test_engine = TestEngine::new(600.0);
    let own = std::process::id().to_string();
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    // Metrics of other software, and a web page.
    let serve = |answer: &'static str| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(answer.as_bytes());
        });
        format!("http://{address}/metrics")
    };
    let other = serve("HTTP/1.1 200 OK\r\n\r\n# TYPE up gauge\nup 1\n# EOF\n");
    let page = serve("HTTP/1.1 404 Not Found\r\n\r\nno such page\n");
    let noise = serve("\u{15}\u{3}\u{3}");
    for (flags, code, part) in [
        (["--pid", "4294967295"], 2, "process 4294967295: there is none"),
        (["--pid", &own], 2, "is not an engine"),
        (["--pid", "engine"], 2, "invalid digit"),
        (["--metrics", "https://127.0.0.1/metrics"], 2, "--metrics: it must be the engine's metrics URL"),
        (["--metrics", "http://127.0.0.1/other"], 2, "--metrics: it must be the engine's metrics URL"),
        (["--metrics", &format!("http://{nobody}/metrics")], 3, "connection refused"),
        (["--metrics", &other], 2, "does not return an engine's metrics"),
        (["--metrics", &page], 2, "no metrics at 127.0.0.1:"),
        (["--metrics", &noise], 2, "no metrics at 127.0.0.1:"),
    ] {
        let message = test_engine.test_folder.run(&[&["load", "scenario.yml"], &flags[..]].concat()).fails(code);
        assert!(message.contains(part), "{flags:?}: {message}");
    }
}
