//! The operator port: its answers, also under full load, and that no client can block it. Its metrics of requests and connections are
//! tested in `metrics.rs`.

use crate::common;
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::operator::{call, connect, exchange, get, sample, test_server};
use crate::common::{test_request, wait_until};
use leafseal_net::OperatorSettings;

#[test]
fn there_are_three_paths_and_two_methods() {
    let (_stage, address) = test_server(|_| {});
    for path in ["/livez", "/readyz", "/readyz?verbose"] {
        assert_eq!(get(address, path), (200, "ok\n".to_owned()));
    }
    let (status, head, body) = call(address, "HEAD", "/metrics");
    assert!(status == 200 && body.is_empty() && head.contains("content-type: application/openmetrics-text"), "{head}");
    assert!(head.contains("cache-control: no-store") && head.contains("connection: close"), "{head}");
    assert_eq!(get(address, "/").0, 404);
    assert_eq!(get(address, "/metrics/").0, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "MELT"] {
        let (status, head, _) = call(address, method, "/livez");
        assert!(status == 405 && head.contains("allow: get, head"), "{method}: {head}");
    }
}

#[test]
fn it_answers_while_every_worker_is_busy() {
    let (test_server, address) = test_server(|_| {});
    let mut raw = test_server.raw();
    raw.send(|out| (0..9).for_each(|id| test_request(id, "gate", "", out)));
    wait_until("both workers are busy", || test_server.server.counters().pool.workers_busy == 2);
    let read = |name: &str| sample(&get(address, "/metrics").1, name);
    wait_until("each has had a slice", || read("leafseal_queue_wait_seconds_bucket{le=\"+Inf\"}") >= 9.0);
    assert_eq!((get(address, "/livez").0, get(address, "/readyz").0), (200, 200));
    assert_eq!((read("leafseal_workers"), read("leafseal_queue_jobs")), (2.0, 9.0));
    assert!(read("leafseal_worker_busy_seconds_total") > 0.0);
    test_server.service.open_gate();
}

#[cfg(target_os = "linux")]
#[test]
fn it_reports_the_system_accounting_of_the_process() {
    let (test_server, address) = test_server(|_| {});
    test_server.assert_healthy();
    let look = || {
        let text = get(address, "/metrics").1;
        let parts =
            ["network", "workers", "other"].map(|part| format!("leafseal_cpu_seconds_total{{threads=\"{part}\"}}"));
        (sample(&text, "process_cpu_seconds_total"), parts.map(|name| sample(&text, &name)), text)
    };
    let (cpu, parts, text) = look();
    assert!(cpu > 0.0 && parts[0] > 0.0, "a handshake was done: {cpu} s, {parts:?}");
    let began = sample(&text, "process_start_time_seconds");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    // The system's boot time is reported in whole seconds.
    assert!(began < now + 2.0 && began > now - 24.0 * 3600.0, "{began} at {now}");
    assert!(sample(&text, "process_resident_memory_bytes") > 1e6);
    let (open, max) = (sample(&text, "process_open_fds"), sample(&text, "process_max_fds"));
    assert!(open > 5.0 && open <= max, "{open} of {max}");

    wait_until("handshakes have taken their time", || {
        drop(test_server.raw());
        look().1[0] > parts[0] + 0.005
    });
    let (cpu_later, parts_later, _) = look();
    assert!(parts_later.iter().zip(parts).all(|(later, before)| *later >= before), "{parts:?} {parts_later:?}");
    // The last milliseconds of each running thread may be missing.
    let (of_all, of_parts) = (cpu_later - cpu, parts_later.iter().sum::<f64>() - parts.iter().sum::<f64>());
    assert!(of_parts <= of_all + 0.1 && of_all > 0.004, "{of_parts} s of {of_all} s");
}

#[test]
fn an_engine_that_cannot_serve_is_not_ready_but_lives() {
    let (test_server, address) = test_server(|_| {});
    test_server.service.is_unready.store(true, Ordering::SeqCst);
    assert_eq!(get(address, "/readyz"), (503, "as the test wishes\n".to_owned()));
    assert_eq!(sample(&get(address, "/metrics").1, "leafseal_ready"), 0.0);
    assert_eq!(get(address, "/livez").0, 200);
    test_server.service.is_unready.store(false, Ordering::SeqCst);
    assert_eq!(get(address, "/readyz").0, 200);
    assert_eq!(sample(&get(address, "/metrics").1, "leafseal_ready"), 1.0);
}

#[test]
fn an_engine_that_drains_is_not_ready_until_its_end() {
    let (test_server, address) = test_server(|_| {});
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "gate", "", out));
    wait_until("it has begun", || test_server.service.begun() == 1);
    let (service, server) = (test_server.service.clone(), test_server.server);
    let stopping = std::thread::spawn(move || server.shutdown());
    wait_until("it drains", || get(address, "/readyz") == (503, "the engine is shutting down\n".to_owned()));
    assert_eq!(get(address, "/livez").0, 200);
    service.open_gate();
    assert_eq!(raw.read_response(), (1, String::new()));
    drop(raw);
    assert_eq!(stopping.join().unwrap().requests_abandoned, 0);
    assert!(TcpStream::connect(address).is_err(), "there is no listener any more");
}

#[test]
fn a_call_is_bounded_in_size_and_time() {
    let (_stage, address) = test_server(|operator| {
        operator.header_size_max = 8 << 10;
        operator.call_timeout = Duration::from_millis(300);
    });
    let long = "x".repeat(9 << 10);
    let answer = exchange(address, &format!("GET /livez HTTP/1.1\r\nHost: operator\r\nCookie: {long}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = "A: b\r\n".repeat(70);
    let answer = exchange(address, &format!("GET /livez HTTP/1.1\r\n{many}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(exchange(address, "\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // A head that never ends.
    let began = Instant::now();
    let answer = exchange(address, "GET /livez HTTP/1.1\r\nHost: operator\r\n");
    assert!(answer.is_empty() && began.elapsed() >= Duration::from_millis(300), "{answer}");
    // A body is neither read nor awaited.
    let answer = exchange(address, "GET /livez HTTP/1.1\r\nHost: operator\r\nContent-Length: 1000000\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(get(address, "/livez").0, 200);
}

#[test]
fn callers_that_only_hold_a_slot_are_displaced() {
    let (_stage, address) = test_server(|operator| {
        operator.connections_max = 2;
        operator.call_timeout = Duration::from_secs(3600);
    });
    let mut silent: Vec<_> = (0..5).map(|_| connect(address)).collect();
    assert_eq!(get(address, "/livez").0, 200);
    for socket in &mut silent[..4] {
        assert_eq!(socket.read(&mut [0; 9]).unwrap(), 0);
    }
}

#[test]
fn a_port_in_use_is_named() {
    let (_stage, address) = test_server(|_| {});
    let pki = common::Pki::new();
    let settings = leafseal_server::ServerSettings {
        address: ([127, 0, 0, 1], 0).into(),
        operator: OperatorSettings { address: Some(address), ..OperatorSettings::default() },
        ..leafseal_server::ServerSettings::new(pki.server_tls())
    };
    let error =
        leafseal_server::Server::start(settings, std::sync::Arc::new(common::TestService::default())).unwrap_err();
    assert!(matches!(error, leafseal_server::StartError::Listen { setting: "operator.address", .. }), "{error:?}");
}
