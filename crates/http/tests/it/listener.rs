//! A listener on real sockets: both protocols, refusals, disconnected peers, and shutdown.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::{Answer, Client, Served, settings};
use hyper::StatusCode;
use hyper_util::rt::TokioIo;
use leafseal_http::HttpSettings;
use leafseal_net::ShutdownNotice;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Longer than anything in these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_serve_and_keep_their_connection() {
    let served = Served::start(settings(), true);
    for is_http2 in [false, true] {
        let mut client = Client::connect(&served, is_http2).await;
        for size in [0, 1, 65_536, 3_000_000] {
            let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let Answer { status, body: echoed, .. } = client.post("/echo", body.clone()).await;
            assert_eq!(status, StatusCode::OK);
            assert!(echoed == body, "{size} bytes, HTTP/2: {is_http2}");
        }
        assert_eq!(client.post("/protocol", vec![]).await.body, if is_http2 { "Http2" } else { "Http1" });
    }
    assert_eq!(served.listener.counters().connections_accepted, 2);
}

/// A caller that sends everything before it reads the answer receives it, and can continue to use the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_reaches_a_caller_that_is_still_sending() {
    let served = Served::start(settings(), true);
    for is_http2 in [false, true] {
        let mut client = Client::connect(&served, is_http2).await;
        let answer = client.post("/refuse", vec![7; 20_000_000]).await;
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (StatusCode::PAYLOAD_TOO_LARGE, "application/problem+json")
        );
        let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let expected =
            serde_json::json!({"code": "too_large", "title": "Payload Too Large", "status": 413, "detail": "no more"});
        assert_eq!(problem, expected);
        assert_eq!(client.post("/echo", b"again".to_vec()).await.body, "again", "HTTP/2: {is_http2}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_after_a_refusal_is_limited() {
    let bounds = HttpSettings { refused_body_max: 1 << 20, ..settings() };
    let served = Served::start(bounds, false);
    let mut socket = served.socket().await;
    socket.write_all(b"POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n").await.unwrap();
    let sending = async {
        let bytes = vec![0; 1 << 20];
        for sent in 0..1000 {
            if socket.write_all(&bytes).await.is_err() {
                return sent;
            }
        }
        1000
    };
    let sent = timeout(PATIENCE, sending).await.unwrap();
    assert!(sent < 100, "{sent} MiB were taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_heads_slow_bodies_and_idle_connections_end() {
    let bounds =
        HttpSettings { header_read_timeout: SHORT, body_timeout: SHORT, idle_timeout: SHORT * 3, ..settings() };
    let served = Served::start(bounds, false);
    let began = Instant::now();

    let mut slow_head = served.socket().await;
    let mut bytes = Vec::new();
    let dribble = async {
        for byte in b"GET / HTTP/1.1\r\nx-long: ".iter().chain(std::iter::repeat(&b'a')) {
            if slow_head.write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, dribble).await.unwrap();
    assert!(began.elapsed() >= SHORT);
    assert_eq!(served.listener.counters().connections_cut, 1);

    let mut slow_body = served.socket().await;
    slow_body.write_all(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf").await.unwrap();
    timeout(PATIENCE, slow_body.read_to_end(&mut bytes)).await.unwrap().unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&bytes));

    let mut idle = served.socket().await;
    idle.write_all(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
    bytes.clear();
    timeout(PATIENCE, idle.read_to_end(&mut bytes)).await.unwrap().unwrap();
    assert!(bytes.ends_with(b"hi"));
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_read_nothing_are_disconnected() {
    let bounds = HttpSettings { write_timeout: SHORT, ..settings() };
    let served = Served::start(bounds, true);
    let socket = served.socket().await;
    let plain = Served::start(HttpSettings { write_timeout: SHORT, ..settings() }, false);
    let mut lazy = plain.socket().await;
    lazy.write_all(b"GET /endless HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    plain.until(|counters| counters.connections_cut == 1 && counters.connections_open == 0).await;

    // Over HTTP/2 the socket accepts everything, because the peer leaves the stream no window.
    let mut client = Client::over(common::tls(socket, &served, true).await, true).await;
    let unread = client.begin("/endless").await;
    served.until(|counters| counters.connections_cut == 1 && counters.connections_open == 0).await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnecting_caller_ends_its_request() {
    let served = Served::start(settings(), true);
    for is_http2 in [false, true] {
        let mut client = Client::connect(&served, is_http2).await;
        let waiting = tokio::spawn(async move { client.post("/hang", vec![1]).await });
        served.hanging_is(1).await;
        waiting.abort();
        served.hanging_is(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited_and_idle_ones_displaced() {
    let served = Served::start(HttpSettings { connections_max: 2, ..settings() }, true);
    let mut first = Client::connect(&served, false).await;
    assert_eq!(first.post("/echo", b"1".to_vec()).await.body, "1");
    let mut second = Client::connect(&served, true).await;
    let hanging = tokio::spawn(async move { second.post("/hang", vec![1]).await });
    served.hanging_is(1).await;
    let mut third = Client::connect(&served, true).await;
    assert_eq!(third.post("/echo", b"3".to_vec()).await.body, "3");
    assert_eq!(served.listener.counters().connections_displaced, 1);
    let also_hanging = tokio::spawn(async move { third.post("/hang", vec![1]).await });
    served.hanging_is(2).await;
    let mut refused = served.socket().await;
    let mut bytes = Vec::new();
    // Closed at once, with or without a reset.
    let _ = timeout(PATIENCE, refused.read_to_end(&mut bytes)).await.unwrap();
    assert_eq!((bytes.len(), served.listener.counters().connections_refused), (0, 1));
    hanging.abort();
    also_hanging.abort();
}

/// Starts a request whose body never arrives.
async fn slow_upload(served: &Served, path: &str) -> TcpStream {
    let mut socket = served.socket().await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf");
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

/// The status of an answer on a new connection from `address`; `None` if it is closed at once.
async fn asked_from(served: &Served, address: [u8; 4]) -> Option<String> {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::from(address), 0).into()).unwrap();
    let mut socket = socket.connect(served.listener.local_addr()).await.unwrap();
    let _ = socket.write_all(b"GET /protocol HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.unwrap();
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes[..12]).into_owned())
}

/// Stalled uploads occupy no slots that others need, whether or not they were answered already.
#[tokio::test(flavor = "multi_thread")]
async fn connections_with_slow_bodies_are_displaced() {
    for path in ["/echo", "/refuse"] {
        let served = Served::start(HttpSettings { connections_max: 2, ..settings() }, false);
        let uploads = [slow_upload(&served, path).await, slow_upload(&served, path).await];
        let asking = async {
            while asked_from(&served, [127, 0, 0, 2]).await.as_deref() != Some("HTTP/1.1 200") {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, asking).await.expect("a slow upload is displaced");
        assert!(served.listener.counters().connections_displaced > 0, "{path}");
        drop(uploads);
    }
}

/// One address has its share: its new connections displace its own, not those of others; a balancer has no such limit.
#[tokio::test(flavor = "multi_thread")]
async fn one_client_takes_no_more_than_its_share() {
    let trusted_balancers = vec!["127.9.0.0/16".parse().unwrap()];
    let limits = HttpSettings { connections_max: 8, client_connections_max: 2, trusted_balancers, ..settings() };
    let served = Served::start(limits, false);
    let _uploads = [slow_upload(&served, "/echo").await, slow_upload(&served, "/echo").await];
    served.until(|counters| counters.connections_open == 2).await;
    assert_eq!(asked_from(&served, [127, 0, 0, 2]).await.as_deref(), Some("HTTP/1.1 200"), "another client");
    let mut silent = Vec::new();
    for _ in 0..4 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 9, 0, 1], 0).into()).unwrap();
        silent.push(socket.connect(served.listener.local_addr()).await.unwrap());
    }
    served.until(|counters| counters.connections_open >= 6).await;
    assert_eq!(served.listener.counters().connections_displaced, 0, "a balancer");
    // Once they are slow enough, the client's own uploads are displaced, and no other connections.
    let asking = async {
        while asked_from(&served, [127, 0, 0, 1]).await.is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, asking).await.expect("its own is displaced");
    let counters = served.listener.counters();
    assert_eq!(counters.connections_displaced, 1);
    served.until(|counters| counters.connections_open == 5).await;
    drop(silent);
}

/// Opens a connection that switches to another protocol.
async fn changed(served: &Served) -> TcpStream {
    let mut socket = served.socket().await;
    socket.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, socket.read_u8()).await.unwrap().unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    socket
}

async fn is_echoed(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> bool {
    stream.write_all(b"ping").await.unwrap();
    let mut echoed = [0; 4];
    timeout(PATIENCE, stream.read_exact(&mut echoed)).await.unwrap().unwrap();
    &echoed == b"ping"
}

/// A connection with another protocol is not idle: it keeps its slot and counts towards the limit.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_other_protocols_keep_their_places() {
    let served = Served::start(HttpSettings { connections_max: 2, idle_timeout: SHORT, ..settings() }, false);
    let (mut first, mut second) = (changed(&served).await, changed(&served).await);
    sleep(SHORT * 2).await;
    let mut third = served.socket().await;
    let _ = third.write_all(b"GET /protocol HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut bytes = Vec::new();
    // Closed at once, with or without a reset.
    let _ = timeout(PATIENCE, third.read_to_end(&mut bytes)).await.unwrap();
    assert!(bytes.is_empty(), "{}", String::from_utf8_lossy(&bytes));
    let counters = served.listener.counters();
    assert_eq!((counters.connections_open, counters.connections_refused, counters.connections_displaced), (2, 1, 0));
    assert!(is_echoed(&mut first).await && is_echoed(&mut second).await);
    drop(first);
    served.until(|counters| counters.connections_open == 1).await;
    assert!(is_echoed(&mut changed(&served).await).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_over_http_2_is_not_idle() {
    let served = Served::start(HttpSettings { idle_timeout: SHORT, ..settings() }, true);
    let mut client = Client::connect(&served, true).await;
    let mut tunnel = TokioIo::new(client.connect_through().await);
    sleep(SHORT * 3).await;
    assert!(is_echoed(&mut tunnel).await);
    assert_eq!(served.listener.counters().connections_open, 1);
    drop(tunnel);
    served.until(|counters| counters.connections_open == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_bounded() {
    let served = Served::start(settings(), false);
    let fields = |count: usize, size: usize| format!("x: {}\r\n", "a".repeat(size)).repeat(count);
    for (fields, status) in [(fields(90, 10), "200"), (fields(101, 1), "431"), (fields(2, 20_000), "431")] {
        let mut socket = served.socket().await;
        let head = format!("GET /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut bytes = vec![0; 12];
        timeout(PATIENCE, socket.read_exact(&mut bytes)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), format!("HTTP/1.1 {status}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_are_bounded_in_time_and_by_protocol() {
    let served = Served::start(HttpSettings { handshake_timeout: SHORT, ..settings() }, true);
    let mut silent = served.socket().await;
    let mut bytes = Vec::new();
    timeout(PATIENCE, silent.read_to_end(&mut bytes)).await.unwrap().unwrap();
    let mut plain = served.socket().await;
    plain.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut bytes)).await.unwrap();
    assert!(!bytes.starts_with(b"HTTP"));
    served.until(|counters| counters.handshakes_failed == 2).await;
    for (version, is_served) in [(common::TLS1_1, false), (common::TLS1_2, true), (common::TLS1_3, true)] {
        let secured = common::try_tls(served.socket().await, &served, true, version).await;
        assert_eq!(secured.is_some(), is_served, "{version:?}");
    }
}

/// Requests in flight finish, new connections are refused, and idle ones are closed at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_requests_end() {
    for is_http2 in [false, true] {
        let served = Served::start(settings(), true);
        let mut idle = Client::connect(&served, is_http2).await;
        assert_eq!(idle.post("/echo", b"1".to_vec()).await.body, "1");
        let mut busy = Client::connect(&served, is_http2).await;
        let answer = tokio::spawn(async move { busy.post("/hang", vec![1]).await });
        served.hanging_is(1).await;
        served.listener.begin_draining();
        served.until(|counters| counters.connections_open == 1).await;
        let release = served.release.clone();
        let ending = tokio::spawn(async move { served.listener.shutdown().await });
        release.notify_waiters();
        assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap().body, "released");
        assert_eq!(timeout(PATIENCE, ending).await.unwrap().unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_for_ever() {
    let served = Served::start(HttpSettings { drain_timeout: SHORT, ..settings() }, true);
    let mut busy = Client::connect(&served, true).await;
    let answer = tokio::spawn(async move { busy.try_post("/hang", vec![1]).await });
    served.hanging_is(1).await;
    assert_eq!(timeout(PATIENCE, served.listener.shutdown()).await.unwrap(), 1);
    assert!(timeout(PATIENCE, answer).await.unwrap().unwrap().is_none());
}

/// Sends a request over a plain HTTP/1.1 connection; returns the answer's head in lower case, or nothing if the connection has ended.
async fn exchange(socket: &mut TcpStream) -> String {
    let _ = socket.write_all(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match timeout(PATIENCE, socket.read_u8()).await.expect("an answer or the end") {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

const CLOSE: &str = "connection: close\r\n";

/// A shutdown in which the moment of every connection has passed.
fn over() -> ShutdownNotice {
    ShutdownNotice::new(Instant::now() - SHORT, SHORT)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_shuts_down_serves_and_asks_clients_to_leave() {
    let served = Served::start(settings(), false);
    let mut before = served.socket().await;
    assert!(!exchange(&mut before).await.contains(CLOSE));
    served.listener.begin_shutdown(over());
    // One that was open, and a new one.
    for mut socket in [before, served.socket().await] {
        let head = exchange(&mut socket).await;
        assert!(head.starts_with("http/1.1 200 ") && head.contains(CLOSE), "{head}");
        assert_eq!(exchange(&mut socket).await, "", "it is closed");
    }
    // Another protocol that runs on the connection is not HTTP.
    let mut socket = served.socket().await;
    socket.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nping").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nping") {
        answer.push(timeout(PATIENCE, socket.read_u8()).await.unwrap().expect("the tunnel is open"));
    }
    assert!(!String::from_utf8(answer).unwrap().to_ascii_lowercase().contains(CLOSE));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_clients_are_asked_to_leave_and_finish_their_requests() {
    let served = Served::start(settings(), true);
    let mut idle = Client::connect(&served, true).await;
    assert_eq!(idle.post("/echo", b"1".to_vec()).await.body, "1");
    let mut busy = Client::connect(&served, true).await;
    let answer = tokio::spawn(async move { busy.post("/hang", vec![1]).await });
    served.hanging_is(1).await;
    served.listener.begin_shutdown(over());
    served.until(|counters| counters.connections_open == 1).await;
    assert!(idle.try_post("/echo", vec![]).await.is_none(), "its connection has ended");
    let mut fresh = Client::connect(&served, true).await;
    // Whether it arrives before or after GOAWAY, nothing breaks.
    let _ = fresh.try_post("/echo", b"2".to_vec()).await;
    served.release.notify_waiters();
    assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap().body, "released");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_end_with_the_answer_after_their_age() {
    let young = Served::start(HttpSettings { connection_age_max: Duration::ZERO, ..settings() }, false);
    let mut socket = young.socket().await;
    for _ in 0..3 {
        assert!(!exchange(&mut socket).await.contains(CLOSE));
    }
    let old = Served::start(HttpSettings { connection_age_max: Duration::from_nanos(1), ..settings() }, false);
    let mut socket = old.socket().await;
    assert!(exchange(&mut socket).await.contains(CLOSE));
    assert_eq!(exchange(&mut socket).await, "");
    let old = Served::start(HttpSettings { connection_age_max: SHORT, ..settings() }, true);
    let _client = Client::connect(&old, true).await;
    old.until(|counters| counters.connections_accepted == 1).await;
    old.until(|counters| counters.connections_open == 0).await;
}
