//! A faulty network between client and server, and servers that violate the protocol: no answer reaches the wrong call, no call fails
//! silently, and the next call works.

use crate::common;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{Pki, TestServer, until};
use boring::pkey::PKey;
use boring::ssl::{SslAcceptor, SslMethod, SslStream};
use boring::x509::X509;
use leafseal_client::{
    Client, ClientError, ClientSettings, EncryptOptions, ErrorCode, ErrorKind, RequestProgress, Retry, Scalar,
};
use leafseal_protocol::{ErrorObject, FrameLimits, Health, InfoResult, Message, Scanner, answer, write};

/// Forwards every connection to `target`, each direction on its own thread running `forward`.
fn proxy(target: SocketAddr, forward: impl Fn(TcpStream, TcpStream, usize) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let forward = Arc::new(forward);
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, server) = (client.unwrap(), TcpStream::connect(target).unwrap());
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to, forward) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&forward));
                std::thread::spawn(move || forward(from, to, number));
            }
        }
    });
    address
}

fn through(test_server: &TestServer, address: SocketAddr) -> ClientSettings {
    ClientSettings {
        addresses: vec![address.to_string()],
        connections_max: 1,
        backoff_min: Duration::from_millis(1),
        ..test_server.client_settings()
    }
}

async fn echo(client: &Client, document: &str) -> Result<(), ClientError> {
    let echoed = client.encrypt_document(&EncryptOptions::new("echo"), None, document.as_bytes()).await?;
    assert!(echoed.json == document.as_bytes(), "the answer of another call");
    Ok(())
}

#[tokio::test]
async fn a_byte_at_a_time_arrives_whole() {
    let test_server = TestServer::new();
    let address = proxy(test_server.address(), |mut from, mut to, _| {
        let mut byte = [0];
        while from.read(&mut byte).is_ok_and(|size| size > 0) && to.write_all(&byte).is_ok() {}
        let _ = to.shutdown(Shutdown::Write);
    });
    let client = Client::connect(through(&test_server, address)).await.unwrap();
    let calls: Vec<_> = (0..10)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { echo(&client, &number.to_string().repeat(500)).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_connection_cut_in_a_frame_fails_its_calls_and_the_next_one_works() {
    // The handshake takes about 3 KB each way; the cuts fall into requests and answers of 100 KB.
    for (to_server_max, to_client_max) in [(50_000, usize::MAX), (usize::MAX, 50_000)] {
        let test_server = TestServer::new();
        let server = test_server.address();
        let address = proxy(server, move |mut from, mut to, number| {
            let is_to_server = to.peer_addr().is_ok_and(|peer| peer == server);
            let max = if is_to_server { to_server_max } else { to_client_max };
            let (mut left, mut bytes) = (if number == 0 { max } else { usize::MAX }, [0; 4096]);
            while left > 0
                && let Ok(size @ 1..) = from.read(&mut bytes)
                && to.write_all(&bytes[..size.min(left)]).is_ok()
            {
                left -= size.min(left);
            }
            let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
        });
        let client = Client::connect(through(&test_server, address)).await.unwrap();
        let error = echo(&client, &"x".repeat(100_000)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ConnectionLost { sent: RequestProgress::Maybe }, "{error}");
        assert_eq!(error.retry, Retry::Elsewhere);
        echo(&client, &"x".repeat(100_000)).await.unwrap();
        until("the first connection is gone", || test_server.server.counters().connections_open == 1).await;
        until("nothing is left in flight", || test_server.server.counters().pool.jobs_held == 0).await;
    }
}

/// Whether TLS refuses the byte at the client or at the engine, which sends an alert: the certificates remain valid.
#[tokio::test]
async fn a_byte_that_is_forged_on_the_way_breaks_the_connection_and_the_next_one_works() {
    for is_forged_to_server in [true, false] {
        let test_server = TestServer::new();
        let server = test_server.address();
        let address = proxy(server, move |mut from, mut to, number| {
            let is_to_server = to.peer_addr().is_ok_and(|peer| peer == server);
            let (mut position, mut bytes) = (0, [0; 4096]);
            while let Ok(size @ 1..) = from.read(&mut bytes) {
                let is_here = (position..position + size).contains(&50_000);
                if number == 0 && is_here && is_to_server == is_forged_to_server {
                    bytes[50_000 - position] ^= 1;
                }
                if to.write_all(&bytes[..size]).is_err() {
                    break;
                }
                position += size;
            }
            let _ = to.shutdown(Shutdown::Write);
        });
        let client = Client::connect(through(&test_server, address)).await.unwrap();
        let error = echo(&client, &"x".repeat(100_000)).await.unwrap_err();
        assert_eq!(
            (error.kind, error.retry),
            (ErrorKind::ConnectionLost { sent: RequestProgress::Maybe }, Retry::Elsewhere)
        );
        echo(&client, &"x".repeat(100_000)).await.unwrap();
    }
}

#[tokio::test]
async fn an_engine_that_is_away_is_passed_over() {
    let test_server = TestServer::new();
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = ClientSettings {
        addresses: vec![away.to_string(), test_server.address().to_string()],
        ..test_server.client_settings()
    };
    let client = Client::connect(settings).await.unwrap();
    echo(&client, "found").await.unwrap();

    let nowhere = ClientSettings {
        addresses: vec![away.to_string()],
        backoff_min: Duration::from_secs(60),
        ..test_server.client_settings()
    };
    let client = Client::new(nowhere).unwrap();
    let first = client.health().await.unwrap_err();
    assert_eq!((first.kind, first.retry), (ErrorKind::Connect, Retry::Elsewhere));
    assert!(first.message.contains(&away.to_string()), "{first}");
    // During the pause the same error is returned without an attempt, even when the engine is back.
    let _back = TcpListener::bind(away).unwrap();
    assert_eq!(client.health().await.unwrap_err(), first);
}

#[tokio::test]
async fn a_server_that_does_not_speak_is_given_up() {
    let pki = Pki::new();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = pki.client_tls(pki.client("shop"));
    let settings = ClientSettings {
        connect_timeout: Duration::from_millis(100),
        ..ClientSettings::new(mute.local_addr().unwrap().to_string(), tls)
    };
    let error = Client::connect(settings).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.contains("within 100 ms"), "{error}");
}

/// A TLS server whose every connection runs `script`; it stops after `connections`.
struct Fake {
    pki: Pki,
    address: SocketAddr,
    thread: JoinHandle<()>,
}

impl Fake {
    fn new(connections: usize, script: impl Fn(&mut Peer, usize) + Send + 'static) -> Fake {
        let pki = Pki::new();
        let tls = pki.server_tls();
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
        acceptor.set_certificate(&X509::from_pem(&tls.certificate_chain_pem).unwrap()).unwrap();
        acceptor.set_private_key(&PKey::private_key_from_pem(&tls.private_key_pem).unwrap()).unwrap();
        let acceptor = acceptor.build();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for number in 0..connections {
                let (socket, _) = listener.accept().unwrap();
                socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
                let stream = acceptor.accept(socket).expect("the client shakes hands");
                script(&mut Peer { stream, received: Vec::new() }, number);
            }
        });
        Fake { pki, address, thread }
    }

    /// Waits for the script's end, while the client's tasks continue.
    async fn join(self) {
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await.unwrap();
        joined.expect("the script is followed");
    }

    fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    fn client_with(&self, change: impl FnOnce(&mut ClientSettings)) -> Client {
        let tls = self.pki.client_tls(self.pki.client("shop"));
        let mut settings = ClientSettings {
            connections_max: 1,
            retries_max: 0,
            ..ClientSettings::new(format!("localhost:{}", self.address.port()), tls)
        };
        change(&mut settings);
        Client::new(settings).unwrap()
    }
}

/// The fake server's end of a connection.
struct Peer {
    stream: SslStream<TcpStream>,
    received: Vec<u8>,
}

impl Peer {
    /// Returns the id of the next request, or `None` at the end.
    fn read_id(&mut self) -> Option<u32> {
        let frame = self.read_frame()?;
        match Message::parse(&frame) {
            Ok(Message::Request { id, .. }) => Some(id),
            other => panic!("no request: {other:?}"),
        }
    }

    /// As [`Peer::read_id`], skipping notifications.
    fn next_request(&mut self) -> Option<u32> {
        loop {
            if let Ok(Message::Request { id, .. }) = Message::parse(&self.read_frame()?) {
                return Some(id);
            }
        }
    }

    fn read_frame(&mut self) -> Option<Vec<u8>> {
        let mut scanner = Scanner::new(FrameLimits::default());
        loop {
            if let Some(size) = scanner.scan(&self.received).unwrap() {
                let rest = self.received.split_off(size);
                return Some(std::mem::replace(&mut self.received, rest));
            }
            let mut bytes = [0; 4096];
            let size = self.stream.read(&mut bytes).unwrap_or(0);
            self.received.extend_from_slice(&bytes[..size]);
            if size == 0 {
                return None;
            }
        }
    }

    fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        let _ = self.stream.write_all(&bytes);
    }

    fn answer_health(&mut self, id: u32) {
        self.send(|out| answer::health(id, Health::OK, out));
    }
}

/// The errors of two calls whose connection the fake server breaks; then a third call on a new connection succeeds.
async fn broken(script: impl Fn(&mut Peer, u32) + Send + 'static) -> ClientError {
    let fake = Fake::new(2, move |peer, number| {
        let id = peer.read_id().expect("a request");
        if number == 0 {
            script(peer, id);
            while peer.read_frame().is_some() {}
        } else {
            peer.answer_health(id);
        }
    });
    let client = fake.client();
    let error = client.health().await.expect_err("the connection is broken");
    assert_eq!(client.health().await.unwrap(), "ok");
    fake.join().await;
    error
}

#[tokio::test]
async fn answers_that_break_the_rules_end_the_connection_and_nothing_else() {
    type Script = fn(&mut Peer, u32);
    let rows: [(&str, Script); 6] = [
        ("which is not in flight", |peer, id| peer.answer_health(id.wrapping_add(1))),
        ("invalid frame", |peer, _| peer.send(|out| out.push(0xc1))),
        ("invalid frame", |peer, _| peer.send(|out| write::binary_header((1 << 30) + 1, out))),
        ("no message", |peer, _| peer.send(|out| out.push(0x2a))),
        ("sent a request", |peer, id| peer.send(|out| leafseal_protocol::request::health(id, out))),
        ("cannot be read", |peer, _| {
            peer.send(|out| out.extend_from_slice(b"\x93\x02\xb0connection_error\x91\x01"));
        }),
    ];
    for (words, script) in rows {
        let error = broken(script).await;
        assert_eq!((error.kind, error.retry), (ErrorKind::Protocol, Retry::Elsewhere), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_dies_loses_the_call_but_not_silently() {
    let error = broken(|peer, id| {
        let mut whole = Vec::new();
        answer::health(id, Health::OK, &mut whole);
        let half = &whole[..whole.len() / 2];
        let _ = peer.stream.write_all(half);
        let _ = peer.stream.get_ref().shutdown(Shutdown::Both);
    })
    .await;
    assert_eq!(error.kind, ErrorKind::ConnectionLost { sent: RequestProgress::Maybe });
}

#[tokio::test]
async fn the_reason_of_the_engine_reaches_the_caller() {
    let error = broken(|peer, _| {
        let reason = ErrorObject::new(ErrorCode::TooLarge, "this is the reason");
        peer.send(|out| answer::connection_error(&reason, out));
    })
    .await;
    assert_eq!((error.kind, error.retry), (ErrorKind::ConnectionRefused(ErrorCode::TooLarge), Retry::Never));
    assert!(error.message.contains("too_large: this is the reason"), "{error}");
}

#[tokio::test]
async fn a_duplicate_answer_reaches_one_call_once() {
    let fake = Fake::new(1, |peer, _| {
        let id = peer.read_id().expect("a request");
        let mut both = Vec::new();
        answer::health(id, Health::OK, &mut both);
        answer::health(id, Health::DRAINING, &mut both);
        let _ = peer.stream.write_all(&both);
        while peer.read_frame().is_some() {}
    });
    let client = fake.client();
    assert_eq!(client.health().await.unwrap(), "ok");
    fake.join().await;
}

fn info(id: u32) -> InfoResult {
    InfoResult { facts: vec![("id".to_owned(), id.to_string())] }
}

#[tokio::test]
async fn answers_in_reverse_order_find_their_calls() {
    const CALLS: usize = 50;
    let fake = Fake::new(1, |peer, _| {
        let mut ids: Vec<u32> = (0..CALLS).filter_map(|_| peer.read_id()).collect();
        ids.reverse();
        for id in ids {
            peer.send(|out| answer::result(id, &info(id), out));
        }
        while peer.read_frame().is_some() {}
    });
    let client = fake.client();
    let asked = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let (client, asked) = (client.clone(), Arc::clone(&asked));
            tokio::spawn(async move {
                let own_id = AtomicUsize::new(usize::MAX);
                let answer = client.call_raw(None, |id, _, out| {
                    own_id.store(id as usize, Ordering::SeqCst);
                    leafseal_protocol::request::info(id, out);
                });
                let answer = answer.await.unwrap();
                let facts = InfoResult::decode(answer.result()).unwrap();
                let (_, reported) = &facts.facts[0];
                assert_eq!(*reported, own_id.load(Ordering::SeqCst).to_string());
                asked.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), CALLS);
    drop(client);
    fake.join().await;
}

#[tokio::test]
async fn a_timeout_sends_cancel_and_a_late_answer_is_passed_over() {
    let (came, mut has_come) = tokio::sync::mpsc::unbounded_channel();
    let fake = Fake::new(1, move |peer, _| {
        let first = peer.read_id().expect("a request");
        came.send(()).expect("it is waited for");
        let cancel = peer.read_frame().expect("a notification");
        let Ok(Message::Notification { method: "cancel", params }) = Message::parse(&cancel) else {
            panic!("another message");
        };
        assert_eq!(leafseal_protocol::decode_cancel(params), Ok(first));
        let second = peer.read_id().expect("another request");
        assert_ne!(second, first, "an id stays in use until its answer has come");
        peer.answer_health(first);
        peer.answer_health(second);
        while peer.read_frame().is_some() {}
    });
    let client = fake.client();
    tokio::select! {
        health = client.health() => panic!("no engine answers: {health:?}"),
        // From here on no caller waits for the answer, as after a timeout.
        _ = has_come.recv() => {}
    }
    assert_eq!(client.health().await.unwrap(), "ok");
    drop(client);
    fake.join().await;
}

#[tokio::test]
async fn a_connection_that_answers_nothing_is_given_up_even_when_its_places_are_all_abandoned() {
    let fake = Fake::new(2, |peer, number| {
        while let Some(id) = peer.next_request() {
            if number > 0 {
                peer.answer_health(id);
            }
        }
    });
    let client = fake.client_with(|settings| {
        settings.requests_in_flight_max = 2;
        settings.request_timeout = Duration::from_millis(100);
        settings.abandoned_timeout = Duration::from_millis(150);
    });
    let (first, second) = tokio::join!(client.health(), client.health());
    assert_eq!([first.unwrap_err().kind, second.unwrap_err().kind], [ErrorKind::Timeout; 2]);
    let began = Instant::now();
    while client.health().await.is_err() {
        assert!(began.elapsed() < common::PATIENCE, "the dead connection stays in use");
    }
    drop(client);
    fake.join().await;
}

#[tokio::test]
async fn calls_that_were_never_written_say_so() {
    // The server reads nothing: the first request fills the sockets, the second waits behind it.
    let fake = Fake::new(1, |peer, _| {
        std::thread::sleep(Duration::from_millis(1000));
        let _ = peer.stream.get_ref().shutdown(Shutdown::Both);
    });
    let client = fake.client();
    let large = "x".repeat(30_000_000);
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.encrypt(&EncryptOptions::new("a"), &[Scalar::from(large.as_str())]).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = client.health().await.unwrap_err();
    assert_eq!(second.kind, ErrorKind::ConnectionLost { sent: RequestProgress::No }, "{second}");
    let first = first.await.unwrap().unwrap_err();
    assert_eq!(first.kind, ErrorKind::ConnectionLost { sent: RequestProgress::Maybe }, "{first}");
    fake.join().await;
}
