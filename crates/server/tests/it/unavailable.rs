//! An engine that answers `unavailable`, because it has lost its keystore: clients use other engines, or this one if there is no other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{Repetitions, TestServer, TestService};
use leafseal_client::{Client, ClientSettings, EncryptOptions, ErrorCode, ErrorKind};
use tokio::net::{TcpListener, TcpStream};

const UNAVAILABLE: ErrorKind = ErrorKind::Engine(ErrorCode::Unavailable);

fn client(test_server: &TestServer, others: &[String], connections_max: usize) -> (Client, Arc<Repetitions>) {
    let mut settings =
        ClientSettings { shuffle_addresses: false, retries_max: 4, connections_max, ..test_server.client_settings() };
    settings.addresses.extend_from_slice(others);
    let repetitions = Arc::new(Repetitions::default());
    let client = Client::new(settings).expect("a client").observed_by(Arc::<Repetitions>::clone(&repetitions));
    (client, repetitions)
}

async fn call(client: &Client) -> Result<(), ErrorKind> {
    let called = client.encrypt_document(&EncryptOptions::new("echo"), None, b"x").await;
    called.map(drop).map_err(|error| error.kind)
}

fn set(service: &TestService, is_unavailable: bool) {
    service.is_unavailable.store(is_unavailable, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_is_used_and_the_first_one_left_alone() {
    for connections_max in [1, 2, 3] {
        let test_server = TestServer::new();
        let (other_service, other) = test_server.beside(|_| {});
        let (client, repetitions) = client(&test_server, &[other.local_addr().to_string()], connections_max);
        call(&client).await.expect("served");
        assert_eq!((test_server.service.begun(), other_service.begun()), (1, 0));
        set(&test_server.service, true);
        for number in 0..60 {
            assert_eq!(call(&client).await, Ok(()), "call {number} with {connections_max} connections");
        }
        assert_eq!(test_server.service.begun(), 2, "it was asked once more");
        assert_eq!(*repetitions.after.lock().unwrap(), [UNAVAILABLE]);
        assert_eq!(other_service.begun(), 60);
    }
}

/// The budget for retries, which a new client has for ten, is for engines that may all be overloaded.
#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_are_moved() {
    let test_server = TestServer::new();
    let (other_service, other) = test_server.beside(|_| {});
    set(&test_server.service, true);
    let (client, _) = client(&test_server, &[other.local_addr().to_string()], 1);
    let calls = (0..100).map(|_| {
        let client = client.clone();
        async move { call(&client).await }
    });
    let outcomes = calls.collect::<tokio::task::JoinSet<_>>().join_all().await;
    assert_eq!(outcomes, vec![Ok(()); 100]);
    assert_eq!(other_service.begun(), 100);
}

/// The address is that of a balancer, which sends new connections to the engine that is ready.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_through_a_balancer_leads_to_another_engine() {
    for connections_max in [1, 2] {
        let test_server = TestServer::new();
        let (other_service, other) = test_server.beside(|_| {});
        let balancer = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = balancer.local_addr().expect("bound").to_string();
        let engines = [test_server.address(), other.local_addr()];
        tokio::spawn(async move {
            for number in 0.. {
                let (mut client, _) = balancer.accept().await.expect("accepted");
                let engine = engines[usize::min(number, 1)];
                tokio::spawn(async move {
                    let mut engine = TcpStream::connect(engine).await.expect("connected");
                    tokio::io::copy_bidirectional(&mut client, &mut engine).await
                });
            }
        });
        let repetitions = Arc::new(Repetitions::default());
        let settings = ClientSettings {
            addresses: vec![address],
            retries_max: 4,
            connections_max,
            ..test_server.client_settings()
        };
        let client = Client::new(settings).expect("a client").observed_by(Arc::<Repetitions>::clone(&repetitions));
        call(&client).await.expect("served");
        set(&test_server.service, true);
        for number in 0..60 {
            assert_eq!(call(&client).await, Ok(()), "call {number}");
        }
        assert_eq!((test_server.service.begun(), other_service.begun()), (2, 60));
        assert_eq!(*repetitions.after.lock().unwrap(), [UNAVAILABLE]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_a_substitute_is_asked_again() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for others in [&[][..], &[nobody]] {
        let test_server = TestServer::new();
        let (client, _) = client(&test_server, others, 2);
        call(&client).await.expect("served");
        set(&test_server.service, true);
        for _ in 0..50 {
            assert_eq!(call(&client).await, Err(UNAVAILABLE), "its error, not that of an address without a listener");
        }
        let asked = test_server.service.begun();
        assert!(
            asked < 1 + 50 + 10 + 40,
            "the budget for retries allows 10 at first, and each attempt elsewhere one: {asked}"
        );
        set(&test_server.service, false);
        assert_eq!(call(&client).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_are_all_unavailable_are_used_when_one_is_back() {
    let test_server = TestServer::new();
    let (other_service, other) = test_server.beside(|_| {});
    let (client, _) = client(&test_server, &[other.local_addr().to_string()], 2);
    for service in [&test_server.service, &other_service] {
        set(service, true);
    }
    assert_eq!(call(&client).await, Err(UNAVAILABLE));
    set(&other_service, false);
    assert_eq!(call(&client).await, Ok(()));
}
