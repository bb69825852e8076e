//! Client and server over real sockets: many concurrent calls, in any order, cancelled, late, too many, and at shutdown.

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, TestServer, test_request, until, wait_until};
use leafseal_client::{
    AnswerMemory, Client, ClientError, ClientSettings, Document, EncryptOptions, ErrorCode, ErrorKind, Prepared, Retry,
};
use leafseal_engine::pool::CancelReason;
use leafseal_protocol::{GoingAway, Health, Message, request};
use leafseal_server::{RequestOutcome, ShutdownReport};

async fn call(client: &Client, app: &str, document: &str) -> Result<Document, ClientError> {
    client.encrypt_document(&EncryptOptions::new(app), None, document.as_bytes()).await
}

async fn call_in_time(client: &Client, app: &str, document: &str, deadline_ms: u32) -> Result<Document, ClientError> {
    let options = EncryptOptions { deadline_ms: Some(deadline_ms), ..EncryptOptions::new(app) };
    client.encrypt_document(&options, None, document.as_bytes()).await
}

fn kind(outcome: Result<Document, ClientError>) -> ErrorKind {
    outcome.expect_err("a failure").kind
}

#[tokio::test]
async fn many_calls_are_in_flight_and_each_gets_its_own_answer() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let calls: Vec<_> = (0..400_usize)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                // Sizes around the thresholds for combining, copying and passing on buffers.
                let size = [1, 100, 16_300, 16_384, 16_400, 70_000, 300_000][number % 7] + number;
                let document = format!("{number} {}", "x".repeat(size));
                let answer = call(&client, "echo", &document).await.unwrap();
                assert!(answer.json == document.as_bytes(), "call {number}");
                assert_eq!(answer.count, 1);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let counters = test_server.server.counters();
    // The client sent `health` when it connected.
    assert_eq!((counters.ended.of(RequestOutcome::Ok), counters.connections_open), (401, 2));
}

#[tokio::test]
async fn a_small_call_overtakes_a_long_one_on_the_same_connection() {
    let test_server = TestServer::with(|settings| settings.workers = 1);
    let mut settings = test_server.client_settings();
    settings.connections_max = 1;
    let client = Client::connect(settings).await.unwrap();
    let long = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "gate", "long").await }
    });
    until("the long call has begun", || test_server.service.begun() == 1).await;
    assert_eq!(call(&client, "echo", "small").await.unwrap().json, b"small");
    assert!(!long.is_finished());
    test_server.service.open_gate();
    assert_eq!(long.await.unwrap().unwrap().json, b"long");
}

/// A limit on the memory for answers, and the largest request.
struct Bounded {
    size_max: usize,
    most: AtomicUsize,
}

impl AnswerMemory for Bounded {
    fn resize(&self, size: usize) -> bool {
        self.most.fetch_max(size, Ordering::Relaxed);
        size <= self.size_max
    }
}

async fn send_within(client: &Client, size: usize, size_max: usize) -> (Result<usize, ErrorKind>, usize) {
    let memory = Arc::new(Bounded { size_max, most: AtomicUsize::new(0) });
    let document = Prepared::encrypt_document(&EncryptOptions::new("echo"), None, "x".repeat(size).as_bytes());
    let answer = client.send_within(document, Arc::<Bounded>::clone(&memory)).await;
    let answer = answer.map_err(|error| error.kind).map(|answer| {
        let most = memory.most.load(Ordering::Relaxed);
        assert!(size < 40_000 || answer.capacity() <= most, "{} bytes, {most} were asked for", answer.capacity());
        answer.into_document().unwrap().json.len()
    });
    (answer, memory.most.load(Ordering::Relaxed))
}

#[tokio::test]
async fn an_answer_takes_memory_as_its_caller_grants_it() {
    let test_server = TestServer::new();
    let settings = ClientSettings { connections_max: 1, ..test_server.client_settings() };
    let client = Client::connect(settings).await.unwrap();
    for size in [1000, 100_000, 3_000_000] {
        let (answer, most) = send_within(&client, size, usize::MAX).await;
        assert_eq!(answer, Ok(size));
        assert!(most == 0 || (size..size + size / 4 + 70_000).contains(&most), "{most} for {size}");
    }
    // Refused bytes are dropped as they arrive; other calls continue on the same connection.
    let large = 20_000_000;
    let (refused, small) = tokio::join!(send_within(&client, large, 1 << 20), send_within(&client, 50_000, 1 << 20));
    assert_eq!((refused.0, small.0), (Err(ErrorKind::AnswerMemory), Ok(50_000)));
    assert!(refused.1 < 3 << 20, "{} bytes were asked for", refused.1);
    assert_eq!(send_within(&client, 3_000_000, usize::MAX).await.0, Ok(3_000_000));
    assert_eq!(test_server.server.counters().connections_open, 1, "the connection continues");
}

#[tokio::test]
async fn health_is_answered_while_every_worker_is_busy() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "gate", "").await })
        })
        .collect();
    until("both workers are busy", || test_server.server.counters().pool.workers_busy == 2).await;
    assert_eq!(client.health().await.unwrap(), "ok");
    test_server.service.open_gate();
    for call in busy {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_answer_in_many_buffers_arrives_whole() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    for count in [0, 1, 2, 60] {
        let expected: Vec<u8> = (0..count).flat_map(common::spread_part).collect();
        let answer = call(&client, "spread", &count.to_string()).await.unwrap();
        assert!(answer.json == expected && answer.count == count as u64, "{count} parts");
    }
    until("all memory is given back", || test_server.server.counters().answers_bytes == 0).await;
}

#[tokio::test]
async fn errors_of_the_service_arrive_with_code_and_advice() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let error = client.info().await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Engine(ErrorCode::InvalidParams), Retry::Never));
    assert!(error.message.contains("info: "), "{error}");
}

#[tokio::test]
async fn a_panic_is_answered_with_internal_and_spares_the_rest() {
    let test_server = TestServer::with(|settings| settings.workers = 1);
    let client = test_server.client().await;
    for app in ["panic", "panic"] {
        let error = call(&client, app, "secret").await.unwrap_err();
        assert_eq!((error.kind, error.retry), (ErrorKind::Engine(ErrorCode::Internal), Retry::Later));
        assert!(!error.message.contains("secret") && !error.message.contains("wishes"), "{error}");
    }
    call(&client, "echo", "fine").await.unwrap();
    let counters = test_server.server.counters();
    assert_eq!(
        (counters.ended.of(ErrorCode::Internal), counters.pool.jobs_panicked, test_server.service.alive()),
        (2, 2, 0)
    );
}

/// Calls whose timeout passes before a busy machine has started them are repeated.
#[tokio::test]
async fn a_timeout_cancels_the_request_at_the_engine() {
    const LIMIT: Duration = Duration::from_millis(100);
    let test_server = TestServer::new();
    let settings = test_server.client_settings();
    let client = Client::new(ClientSettings { request_timeout: LIMIT, connections_max: 1, ..settings }).unwrap();
    let patience = Instant::now() + PATIENCE;
    while client.health().await.is_err() {
        assert!(Instant::now() < patience, "no connection");
    }
    let accepted = test_server.server.counters().connections_accepted;
    while test_server.service.begun() == 0 {
        assert!(Instant::now() < patience, "no request arrives");
        let began = Instant::now();
        assert_eq!(kind(call(&client, "gate", "").await), ErrorKind::Timeout);
        assert!(began.elapsed() >= LIMIT);
    }
    until("the request is dropped", || test_server.service.alive() == 0).await;
    assert_eq!(test_server.service.cancellations.lock().unwrap()[0].reason(), Some(CancelReason::Cancelled));
    until("it is answered", || {
        test_server.server.counters().ended.of(ErrorCode::Cancelled) == test_server.service.begun() as u64
    })
    .await;
    while let Err(error) = call(&client, "echo", "on the same connection").await {
        assert!(error.kind == ErrorKind::Timeout && Instant::now() < patience, "{error}");
    }
    assert_eq!(test_server.server.counters().connections_accepted, accepted);
}

#[tokio::test]
async fn a_dropped_call_cancels_too_and_its_id_stays_its_own() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let dropped = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "gate", "").await }
    });
    until("it has begun", || test_server.service.begun() == 1).await;
    dropped.abort();
    until("the request is dropped", || test_server.service.alive() == 0).await;
    for number in 0..20 {
        let document = number.to_string();
        assert_eq!(call(&client, "echo", &document).await.unwrap().json, document.as_bytes());
    }
}

#[tokio::test]
async fn a_deadline_ends_a_request_in_flight() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let error = call_in_time(&client, "gate", "", 50).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Engine(ErrorCode::DeadlineExceeded), Retry::Later));
    assert_eq!(
        (test_server.service.alive(), test_server.server.counters().ended.of(ErrorCode::DeadlineExceeded)),
        (0, 1)
    );
    call_in_time(&client, "echo", "", 5000).await.unwrap();
}

#[tokio::test]
async fn a_closed_connection_stops_all_its_requests() {
    let test_server = TestServer::with(|settings| settings.workers = 1);
    let mut raw = test_server.raw();
    for id in 0..5 {
        raw.send(|out| test_request(id, "gate", "", out));
    }
    wait_until("all have begun", || test_server.service.begun() == 5);
    drop(raw);
    wait_until("all are dropped", || test_server.service.alive() == 0);
    let reasons: Vec<_> = test_server.service.cancellations.lock().unwrap().iter().map(|flag| flag.reason()).collect();
    assert_eq!(reasons, [Some(CancelReason::Disconnected); 5]);
    wait_until("its place is free", || test_server.server.counters().connections_open == 0);
    wait_until("the queue is empty", || test_server.server.counters().pool.jobs_held == 0);
    assert_eq!(test_server.server.counters().pool.bytes_held, 0);
    test_server.assert_healthy();
}

#[tokio::test]
async fn a_full_queue_answers_overloaded() {
    let test_server = TestServer::with(|settings| {
        settings.workers = 1;
        settings.queue_jobs_max = 2;
    });
    let client = test_server.client().await;
    let held: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "gate", "").await })
        })
        .collect();
    until("the queue is full", || test_server.server.counters().pool.jobs_held == 2).await;
    let error = call(&client, "echo", "one too many").await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Engine(ErrorCode::Overloaded), Retry::Later));
    assert_eq!(error.retry_after, Some(Duration::from_millis(100)));
    test_server.service.open_gate();
    for call in held {
        call.await.unwrap().unwrap();
    }
    call(&client, "echo", "room again").await.unwrap();
    assert_eq!(test_server.server.counters().ended.of(ErrorCode::Overloaded), 1);
}

#[tokio::test]
async fn a_request_that_would_be_late_is_answered_on_arrival() {
    let test_server = TestServer::with(|settings| settings.workers = 1);
    // A second connection would get an equal share, however much waits on it.
    let settings = ClientSettings { connections_max: 1, ..test_server.client_settings() };
    let client = Client::connect(settings).await.unwrap();
    let held: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "gate", "").await })
        })
        .collect();
    until("all wait", || test_server.server.counters().pool.jobs_held == 50).await;
    // They use a millisecond per turn, and take turns.
    let error = call_in_time(&client, "gate", "", 1).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Engine(ErrorCode::Overloaded), Retry::Later));
    assert_eq!(error.retry_after, Some(Duration::from_millis(100)));
    assert!(error.message.contains("the queue is too long for the deadline"), "{}", error.message);
    test_server.service.open_gate();
    for call in held {
        call.await.unwrap().unwrap();
    }
    let counters = test_server.server.counters();
    assert_eq!((counters.ended.of(ErrorCode::Overloaded), counters.pool.jobs_refused_early), (1, 1));
}

#[test]
fn a_slow_lookup_of_a_caller_delays_nobody_else() {
    let test_server = TestServer::with(|settings| {
        settings.handshake_timeout = Duration::from_millis(1500);
        settings.authentications_max = 2;
    });
    let waiter = || {
        common::Raw::connect(
            test_server.address(),
            common::raw_connector(&test_server.pki, Some(test_server.pki.client("waiter"))),
        )
    };
    let mut other = test_server.raw();
    other.send(|out| test_request(1, "echo", "before", out));
    assert_eq!(other.read_response(), (1, String::new()));
    let mut first = waiter();
    first.send(|out| test_request(1, "echo", "x", out));
    std::thread::sleep(Duration::from_millis(20));
    // The only network thread serves authenticated and new connections while the service waits.
    other.send(|out| test_request(2, "echo", "meanwhile", out));
    assert_eq!(other.read_response(), (2, String::new()));
    test_server.assert_healthy();
    let (code, message) = first.read_connection_error();
    assert!(code == "overloaded" && message.contains("in time"), "{code}: {message}");

    let mut second = waiter();
    second.send(|out| test_request(1, "echo", "x", out));
    test_server.service.open_gate();
    assert_eq!(second.read_response(), (1, String::new()));
}

#[test]
fn a_frame_of_exactly_the_limit_is_served_under_the_narrowest_bounds() {
    const FRAME_SIZE_MAX: usize = 1 << 20;
    const ROOM: usize = FRAME_SIZE_MAX + 16_384;
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = FRAME_SIZE_MAX;
        settings.incoming_bytes_max = ROOM;
        settings.queue_bytes_max = ROOM;
    });
    let frame = |size: usize| {
        let mut head = Vec::new();
        test_request(1, "echo", &"x".repeat(100_000), &mut head);
        let mut frame = Vec::new();
        test_request(1, "echo", &"x".repeat(size - (head.len() - 100_000)), &mut frame);
        assert_eq!(frame.len(), size);
        frame
    };
    let mut raw = test_server.raw();
    // The second arrives with the head of what follows, so that it does not fill the buffer alone.
    raw.write(&frame(FRAME_SIZE_MAX));
    assert_eq!(raw.read_response(), (1, String::new()));
    // The answer may arrive before the worker has reported its end to the pool.
    wait_until("its room is free", || test_server.server.counters().pool.bytes_held == 0);
    raw.write(&frame(FRAME_SIZE_MAX));
    raw.send(|out| request::health(2, out));
    let mut answers = [raw.read_response(), raw.read_response()];
    answers.sort();
    assert_eq!(answers, [(1, String::new()), (2, String::new())]);
    raw.write(&frame(FRAME_SIZE_MAX + 1));
    assert_eq!(raw.read_connection_error().0, "too_large");
}

#[test]
fn answers_are_bounded_over_all_connections() {
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = 8 << 20;
        settings.answers_bytes_max = 16 << 20;
    });
    // Larger than the sockets' buffers, smaller than the budget: it waits for its reader.
    let mut slow = test_server.raw();
    slow.send(|out| (0..3).for_each(|id| test_request(id, "large", "7000000", out)));
    wait_until("one answer waits, two were refused", || {
        let counters = test_server.server.counters();
        (counters.ended.of(RequestOutcome::Ok), counters.ended.of(ErrorCode::Overloaded)) == (1, 2)
    });
    assert!((7_000_000..=16 << 20).contains(&test_server.server.counters().answers_bytes));
    let mut other = test_server.raw();
    other.send(|out| test_request(1, "large", "7000000", out));
    assert_eq!(other.read_response(), (1, "overloaded".to_owned()));
    other.send(|out| test_request(2, "echo", "small", out));
    assert_eq!(other.read_response(), (2, String::new()));

    let mut codes: Vec<_> = (0..3).map(|_| slow.read_response().1).collect();
    codes.sort();
    assert_eq!(codes, ["", "overloaded", "overloaded"]);
    wait_until("the memory is free", || test_server.server.counters().answers_bytes == 0);
    other.send(|out| test_request(3, "large", "7000000", out));
    assert_eq!(other.read_response(), (3, String::new()));
}

#[test]
fn a_connection_with_too_many_requests_in_flight_is_paused() {
    let test_server = TestServer::with(|settings| {
        settings.workers = 1;
        settings.requests_in_flight_max = 2;
    });
    let mut raw = test_server.raw();
    // Six requests in one write: those beyond the second stay queued, even if they have been read.
    raw.send(|out| (0..6).for_each(|id| test_request(id, "gate", "", out)));
    wait_until("two have begun", || test_server.service.begun() == 2);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(test_server.service.begun(), 2);
    test_server.service.open_gate();
    let mut ids: Vec<_> = (0..6).map(|_| raw.read_response()).collect();
    ids.sort();
    assert_eq!(ids, (0..6).map(|id| (id, String::new())).collect::<Vec<_>>());
}

#[test]
fn a_peer_that_leaves_while_it_is_not_read_is_noticed() {
    let test_server = TestServer::with(|settings| settings.requests_in_flight_max = 1);
    let mut raw = test_server.raw();
    raw.send(|out| (0..3).for_each(|id| test_request(id, "gate", "", out)));
    wait_until("one has begun", || test_server.service.begun() == 1);
    // More bytes than any buffer holds would block; these stay unread in the socket.
    raw.write(&vec![0xc0; 100_000]);
    drop(raw);
    wait_until("it is dropped", || test_server.service.alive() == 0);
    assert_eq!(test_server.service.begun(), 1);
    test_server.assert_healthy();
}

/// The second address accepts connections and sends nothing: connecting to it lasts until the timeout.
#[tokio::test]
async fn a_call_does_not_wait_for_an_address_that_does_not_answer_while_a_connection_is_open() {
    let test_server = TestServer::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = test_server.client_settings();
    settings.addresses.push(silent.local_addr().unwrap().to_string());
    settings.shuffle_addresses = false;
    settings.connect_timeout = Duration::from_secs(3600);
    settings.request_timeout = PATIENCE;
    let client = Client::connect(settings).await.unwrap();
    let held = call(&client, "gate", "held");
    let others = async {
        until("it is in progress", || test_server.service.begun() == 1).await;
        for _ in 0..3 {
            client.health().await.expect("an answer on the open connection");
        }
        test_server.service.open_gate();
    };
    let (held, ()) = tokio::join!(held, others);
    held.expect("an answer");
    silent.set_nonblocking(true).unwrap();
    until("a further connection was tried", || silent.accept().is_ok()).await;
}

#[test]
fn more_connections_than_allowed_are_closed_at_once() {
    let test_server = TestServer::with(|settings| settings.connections_max = 2);
    let (mut first, second) = (test_server.raw(), test_server.raw());
    wait_until("both have their places", || test_server.server.counters().connections_open == 2);
    let third = common::Raw::try_connect(
        test_server.address(),
        common::raw_connector(&test_server.pki, Some(test_server.pki.client("shop"))),
    );
    assert!(third.is_err());
    assert_eq!(test_server.server.counters().connections_refused, 1);
    first.send(|out| test_request(1, "echo", "still served", out));
    assert_eq!(first.read_response(), (1, String::new()));
    drop(second);
    wait_until("a place is free", || test_server.server.counters().connections_open == 1);
    test_server.assert_healthy();
}

#[test]
fn one_address_has_its_share_of_connections() {
    let test_server = TestServer::with(|settings| settings.client_connections_max = 2);
    let (mut first, second) = (test_server.raw(), test_server.raw_of("other"));
    wait_until("both have their places", || test_server.server.counters().connections_open == 2);
    let connect = || {
        let connector = common::raw_connector(&test_server.pki, Some(test_server.pki.client("shop")));
        common::Raw::try_connect(test_server.address(), connector)
    };
    assert!(connect().is_err());
    assert_eq!(test_server.server.counters().connections_refused, 1);
    first.send(|out| test_request(1, "echo", "still served", out));
    assert_eq!(first.read_response(), (1, String::new()));
    drop(second);
    wait_until("a place is free", || test_server.server.counters().connections_open == 1);
    assert!(connect().is_ok());

    let behind_balancer = TestServer::with(|settings| {
        settings.client_connections_max = 1;
        settings.trusted_balancers = vec!["127.0.0.0/24".parse().unwrap()];
    });
    let _many: Vec<_> = (0..3).map(|_| behind_balancer.raw()).collect();
    wait_until("all have places", || behind_balancer.server.counters().connections_open == 3);
}

#[tokio::test]
async fn draining_finishes_requests_in_flight_and_refuses_new_ones() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let (service, address) = (test_server.service.clone(), test_server.address());
    let in_flight = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "gate", "kept").await }
    });
    until("it has begun", || service.begun() == 1).await;
    let mut old = test_server.raw();
    let server = test_server.server;
    let stopping = tokio::task::spawn_blocking(move || server.shutdown());
    let refused = tokio::task::spawn_blocking(move || {
        let mut status = String::new();
        while status != "draining" {
            old.send(|out| request::health(1, out));
            let frame = old.read_frame().unwrap();
            let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(&frame) else { panic!("no health") };
            status = Health::decode(result).unwrap().status.to_owned();
        }
        old.send(|out| test_request(2, "echo", "new", out));
        (old.read_response(), old.reported)
    });
    let unavailable = (2, "unavailable".to_owned());
    assert_eq!(refused.await.unwrap(), (unavailable, vec![GoingAway::Shutdown]), "what an old client sees");
    let mut error = call(&client, "echo", "new").await.unwrap_err();
    // Calls that begin before the client has read the announcement fail with it, or with the refusal.
    while matches!(error.kind, ErrorKind::GoingAway | ErrorKind::Engine(ErrorCode::Unavailable)) {
        assert_eq!(error.retry, Retry::Elsewhere);
        error = call(&client, "echo", "new").await.unwrap_err();
    }
    assert_eq!((error.kind, error.retry), (ErrorKind::Connect, Retry::Elsewhere), "there is no listener any more");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "there is no listener any more");

    service.open_gate();
    assert_eq!(in_flight.await.unwrap().unwrap().json, b"kept");
    let report = stopping.await.unwrap();
    assert_eq!(report, ShutdownReport { requests_abandoned: 0, connections_cut: 0 });
    let error = call(&client, "echo", "afterwards").await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Connect, Retry::Elsewhere));
}

#[tokio::test]
async fn draining_ends_in_time_whatever_is_in_flight() {
    let test_server = TestServer::with(|settings| settings.drain_timeout = Duration::from_millis(50));
    let client = test_server.client().await;
    let in_flight = tokio::spawn(async move { call(&client, "gate", "never").await });
    until("it has begun", || test_server.service.begun() == 1).await;
    let server = test_server.server;
    let report = tokio::task::spawn_blocking(move || server.shutdown()).await.unwrap();
    assert_eq!(report, ShutdownReport { requests_abandoned: 1, connections_cut: 0 });
    assert_eq!(kind(in_flight.await.unwrap()), ErrorKind::Engine(ErrorCode::Unavailable));
    assert_eq!(test_server.service.alive(), 0);
}

#[tokio::test]
async fn a_client_finds_a_restarted_server_again() {
    let test_server = TestServer::new();
    let client = test_server.client().await;
    let address = test_server.address();
    let tls = test_server.pki.server_tls();
    let server = test_server.server;
    tokio::task::spawn_blocking(move || server.shutdown()).await.unwrap();
    assert_eq!(kind(call(&client, "echo", "").await), ErrorKind::Connect);

    let settings = leafseal_server::ServerSettings {
        address,
        network_threads: 1,
        workers: 1,
        ..leafseal_server::ServerSettings::new(tls)
    };
    let _again = leafseal_server::Server::start(settings, test_server.service.clone()).unwrap();
    let began = Instant::now();
    while call(&client, "echo", "").await.is_err() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn maintenance_continues_after_a_panic() {
    let test_server = TestServer::new();
    test_server.service.maintenance_panics.store(true, Ordering::SeqCst);
    wait_until("it was called twice", || test_server.service.maintained.load(Ordering::SeqCst) >= 2);
}

/// Requests and maintenance go on whatever the scan does.
#[test]
fn the_scan_of_the_store_has_a_thread_of_its_own() {
    let TestServer { service, .. } = &TestServer::new();
    wait_until("it was called again after its pause", || service.scanned.load(Ordering::SeqCst) >= 3);
    assert!(service.scan_threads.lock().unwrap().iter().all(|name| name == "leafseal-scan"));
}

#[test]
fn maintenance_runs_when_the_service_requests_it() {
    let TestServer { service, .. } = &TestServer::new();
    // At one call per second this would exceed the patience of every test.
    wait_until("it was called on request", || {
        service.maintenance_due.lock().unwrap().as_ref().expect("registered")();
        service.maintained.load(Ordering::SeqCst) >= 500
    });
}
