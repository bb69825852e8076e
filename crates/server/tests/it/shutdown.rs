//! An engine that shuts down, or a connection that reaches its maximum age: clients switch to other engines, and no call is lost.

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, Repetitions, TestServer, test_request, until, wait_until};
use leafseal_client::simulation::{Connecting, SimulatedNetwork, SimulatedStream};
use leafseal_client::{Client, ClientError, ClientSettings, Document, EncryptOptions, ErrorCode, ErrorKind};
use leafseal_protocol::{GoingAway, answer};
use leafseal_server::{Server, ServerSettings, ShutdownReport};
use tokio::io::AsyncWriteExt;

/// How long the engine keeps serving. No test waits for it except at the engine's end.
const DELAY: Duration = Duration::from_millis(500);

fn delayed(settings: &mut ServerSettings) {
    settings.drain_delay = DELAY;
}

async fn call(client: &Client, app: &str) -> Result<Document, ClientError> {
    client.encrypt_document(&EncryptOptions::new(app), None, b"x").await
}

/// Settings of a client with retries and one connection.
fn settings(test_server: &TestServer, others: &[&Server]) -> ClientSettings {
    let mut settings = ClientSettings {
        shuffle_addresses: false,
        retries_max: 4,
        connections_max: 1,
        ..test_server.client_settings()
    };
    settings.addresses.extend(others.iter().map(|server| server.local_addr().to_string()));
    settings
}

/// Stops a server as SIGTERM does.
async fn stop(server: Server) -> ShutdownReport {
    tokio::time::sleep(server.begin_shutdown()).await;
    tokio::task::spawn_blocking(move || server.shutdown()).await.expect("no panic")
}

/// Makes calls until `is_over`; each must be answered. Returns their number.
async fn call_until(client: Client, is_over: Arc<AtomicBool>) -> usize {
    let mut calls = 0;
    while !is_over.load(Ordering::SeqCst) {
        if let Err(error) = call(&client, "echo").await {
            panic!("call {calls} is lost: {error:?}");
        }
        calls += 1;
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_lost_while_engines_are_restarted_in_turn() {
    let test_server = TestServer::new();
    let ((service, first), (_, second)) = (test_server.beside(delayed), test_server.beside(delayed));
    let addresses = [&first, &second].map(|server| server.local_addr().to_string());
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let settings = ClientSettings { addresses: addresses.to_vec(), ..settings(&test_server, &[]) };
            tokio::spawn(call_until(Client::new(settings).unwrap(), Arc::clone(&is_over)))
        })
        .collect();
    until("calls are made", || service.begun() > 20).await;
    let mut restarted = Vec::new();
    for server in [first, second] {
        let address = server.local_addr();
        stop(server).await;
        restarted.push(test_server.beside(|settings| settings.address = address));
    }
    until("the engines serve again", || restarted.iter().any(|(service, _)| service.begun() > 20)).await;
    is_over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.expect("no call is lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_is_finished_where_it_began_and_new_ones_go_elsewhere() {
    let test_server = TestServer::new();
    let (other_toy, other) = test_server.beside(|_| {});
    let repetitions = Arc::new(Repetitions::default());
    let client = Client::new(settings(&test_server, &[&other])).unwrap();
    let client = client.observed_by(Arc::<Repetitions>::clone(&repetitions));
    let held = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "gate").await }
    });
    until("it has begun", || test_server.service.begun() == 1).await;
    let (service, server) = (Arc::clone(&test_server.service), test_server.server);
    // The delay lasts until the client has read the announcement, however busy the machine is.
    server.begin_shutdown();
    let began = Instant::now();
    while other_toy.begun() == 0 {
        call(&client, "echo").await.expect("it is served, here or there");
        assert!(began.elapsed() < PATIENCE, "the client does not close its connection");
    }
    assert!(!held.is_finished());
    let stopping = tokio::task::spawn_blocking(move || server.shutdown());
    service.open_gate();
    held.await.unwrap().expect("it is finished where it began");
    assert_eq!(stopping.await.unwrap().requests_abandoned, 0);
    // A call whose request was not yet written when the announcement came is made elsewhere; no other is made again.
    let repeated = repetitions.after.lock().unwrap();
    assert!(repeated.iter().all(|kind| *kind == ErrorKind::GoingAway), "{repeated:?}");
}

/// Even without a delay nothing is lost: requests that the engine has not started, or abandons, are retried elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_requests_are_retried_elsewhere() {
    let test_server = TestServer::with(|settings| settings.drain_timeout = Duration::from_millis(1));
    let (other_toy, other) = test_server.beside(|_| {});
    other_toy.open_gate();
    let repetitions = Arc::new(Repetitions::default());
    let client = Client::new(settings(&test_server, &[&other])).unwrap();
    let client = client.observed_by(Arc::<Repetitions>::clone(&repetitions));
    let held = tokio::spawn(async move { call(&client, "gate").await });
    until("it has begun", || test_server.service.begun() == 1).await;
    let server = test_server.server;
    let report = tokio::task::spawn_blocking(move || server.shutdown()).await.unwrap();
    assert_eq!(report.requests_abandoned, 1);
    held.await.unwrap().expect("the other engine has done it");
    let unavailable = ErrorKind::Engine(ErrorCode::Unavailable);
    assert_eq!(repetitions.after.lock().unwrap()[..], [unavailable]);
}

/// A deadline covers all attempts of a call.
#[tokio::test]
async fn repetitions_end_with_the_deadline_and_with_their_number() {
    let test_server = TestServer::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let with = |retries_max, backoff| ClientSettings {
        addresses: vec![nobody.to_string()],
        retries_max,
        backoff_min: backoff,
        ..test_server.client_settings()
    };
    for retries_max in [0, 3] {
        let repetitions = Arc::new(Repetitions::default());
        let client = Client::new(with(retries_max, Duration::from_millis(1))).unwrap();
        let client = client.observed_by(Arc::<Repetitions>::clone(&repetitions));
        assert_eq!(call(&client, "echo").await.unwrap_err().kind, ErrorKind::Connect);
        assert_eq!(repetitions.after.lock().unwrap().len(), retries_max as usize);
    }
    let repetitions = Arc::new(Repetitions::default());
    let client = Client::new(with(1000, Duration::from_secs(60))).unwrap();
    let client = client.observed_by(Arc::<Repetitions>::clone(&repetitions));
    let options = EncryptOptions { deadline_ms: Some(1000), ..EncryptOptions::new("echo") };
    let error = client.encrypt_document(&options, None, b"x").await.unwrap_err();
    assert_eq!((error.kind, repetitions.after.lock().unwrap().len()), (ErrorKind::Connect, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_replaced_at_their_age_without_losing_a_call() {
    let test_server = TestServer::with(|settings| {
        settings.connection_age_max = Duration::from_millis(20);
        settings.connection_age_grace = PATIENCE;
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let calling = tokio::spawn(call_until(Client::new(settings(&test_server, &[])).unwrap(), Arc::clone(&is_over)));
    until("connections were replaced", || {
        test_server.server.counters().connections_accepted > 5 || calling.is_finished()
    })
    .await;
    is_over.store(true, Ordering::SeqCst);
    calling.await.expect("no call is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_when_its_connection_reaches_its_age_is_answered_there() {
    let test_server = TestServer::with(|settings| {
        settings.connection_age_max = Duration::from_millis(100);
        settings.connection_age_grace = Duration::from_millis(1);
    });
    let client = Client::new(ClientSettings { retries_max: 1000, ..settings(&test_server, &[]) }).unwrap();
    let held = tokio::spawn(async move { call(&client, "gate").await });
    until("it has begun", || test_server.service.begun() == 1).await;
    // Two connections, opened one after the other, reach their ends: so the time of the first one has passed, too.
    for _ in 0..2 {
        let mut later = test_server.raw();
        let ended = tokio::task::spawn_blocking(move || later.read_frame()).await.unwrap();
        assert_eq!(ended, Err("closed".to_owned()));
    }
    assert!(!held.is_finished());
    test_server.service.open_gate();
    held.await.unwrap().expect("it is answered");
    assert_eq!(test_server.service.begun(), 1, "it was done once");
}

/// A client without support for `going_away` is served during the grace period, and then sees the end of the connection.
#[test]
fn an_old_client_is_served_until_the_connection_is_closed() {
    let at_once = |grace| {
        TestServer::with(|settings| {
            settings.connection_age_max = Duration::from_millis(1);
            settings.connection_age_grace = grace;
        })
    };
    let test_server = at_once(10 * PATIENCE);
    let mut old = test_server.raw();
    wait_until("going_away is sent", || test_server.server.counters().going_away_sent == 1);
    old.send(|out| test_request(1, "echo", "x", out));
    assert_eq!(old.read_response(), (1, String::new()));
    assert_eq!(old.reported, [GoingAway::Age]);

    let test_server = at_once(Duration::from_millis(1));
    let mut old = test_server.raw();
    assert_eq!(old.read_frame(), Err("closed".to_owned()));
    assert_eq!(old.reported, [GoingAway::Age, GoingAway::Closed]);
}

/// A client that receives `closed` can rely on unanswered requests having had no effect.
#[test]
fn a_gracefully_closed_connection_announces_that_nothing_else_was_started() {
    let test_server = TestServer::with(|settings| settings.idle_timeout = Duration::from_millis(100));
    let mut idle = test_server.raw();
    assert_eq!(idle.read_frame(), Err("closed".to_owned()));
    assert_eq!(idle.reported, [GoingAway::Closed]);

    let test_server = TestServer::new();
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "echo", "x", out));
    assert_eq!(raw.read_response(), (1, String::new()));
    let server = test_server.server;
    let stopping = std::thread::spawn(move || server.shutdown());
    assert_eq!(raw.read_frame(), Err("closed".to_owned()));
    // A thread that comes late, when nothing is in flight any more, announces only the end.
    let (last, before) = raw.reported.split_last().expect("an announcement");
    assert!(*last == GoingAway::Closed && [&[][..], &[GoingAway::Shutdown]].contains(&before), "{:?}", raw.reported);
    stopping.join().unwrap();
}

/// Engines that drain each connection as soon as it is open.
struct Hostile {
    reason: GoingAway,
    connections: Arc<AtomicUsize>,
}

impl SimulatedNetwork for Hostile {
    fn connect<'a>(&'a self, _: &'a str) -> Connecting<'a> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            let (ours, mut theirs) = tokio::io::duplex(1 << 16);
            let mut message = Vec::new();
            answer::going_away(self.reason, &mut message);
            theirs.write_all(&message).await?;
            tokio::spawn(async move {
                // It stays open as long as the client wants.
                let _ = tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await;
            });
            Ok(Box::new(ours) as Box<dyn SimulatedStream>)
        })
    }

    fn chance(&self) -> f64 {
        0.5
    }
}

/// In virtual time: a client connects to such engines at growing intervals, however many calls are made.
#[tokio::test(start_paused = true)]
async fn engines_that_drain_each_connection_at_once_are_not_connected_to_in_a_loop() {
    const CALLERS: usize = 20;
    let stage_settings = || {
        let tls = common::Pki::new();
        let tls = tls.client_tls(tls.client("shop"));
        let addresses = vec!["first:1".to_owned(), "second:1".to_owned()];
        ClientSettings { addresses, request_timeout: Duration::from_secs(10), ..ClientSettings::new("", tls) }
    };
    for &reason in GoingAway::ALL {
        let connections = Arc::new(AtomicUsize::new(0));
        let client = Client::simulated(stage_settings(), Hostile { reason, connections: Arc::clone(&connections) });
        let end = tokio::time::Instant::now() + Duration::from_secs(600);
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    while tokio::time::Instant::now() < end {
                        call(&client, "echo").await.expect_err("no engine serves");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("the calls end");
        }
        // The pauses grow to 5 s, reduced by jitter: here 3.75 s.
        let connections = connections.load(Ordering::SeqCst);
        assert!((2..=200).contains(&connections), "{connections} connections after {reason:?}");
    }
}
