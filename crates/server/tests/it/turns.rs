//! The limit of a connection's turn, after which other connections of its thread are served.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use std::{future::Future, io};

use crate::common::{Pki, TestService};
use leafseal_engine::pool::PoolClock;
use leafseal_engine::{EntryPoint, RequestOrigin};
use leafseal_protocol::request;
use leafseal_server::ServerSettings;
use leafseal_server::simulation::{PlainSocket, Simulated};
use leafseal_service::{PeerIdentity, Service};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};

const REQUESTS: u32 = 200;
const ORIGIN: RequestOrigin = RequestOrigin::of(EntryPoint::Rpc);
/// The server's limit.
pub(crate) const TURN_MESSAGES_MAX: u64 = 8;

struct SystemClock;

impl PoolClock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A socket in memory, which is never closed.
pub(crate) struct Stream(pub(crate) DuplexStream);

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl PlainSocket for Stream {
    fn poll_closed(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn a_turn_handles_few_messages_however_many_have_arrived() {
    let service = Arc::new(TestService::default());
    let caller =
        service.authenticate(&PeerIdentity { name: "shop".to_owned(), certificate_sha256: [0; 32] }, ORIGIN).unwrap();
    let settings = ServerSettings::new(Pki::new().server_tls());
    let server = Simulated::new(settings, service, Arc::new(SystemClock));
    let (mut client, socket) = duplex(1 << 20);
    let mut serving = pin!(server.accept(caller, Stream(socket)).unwrap());
    let mut messages = Vec::new();
    (0..REQUESTS).for_each(|id| request::health(id, &mut messages));
    client.write_all(&messages).await.unwrap();
    let mut handled = 0;
    while handled < u64::from(REQUESTS) {
        let is_over = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx).is_ready())).await;
        assert!(!is_over);
        let now = server.counters().requests;
        if now == handled {
            // It waits for its turn, which comes when the thread has served all others.
            assert!(
                !server.turns_are_taken(),
                "a turn handles something: otherwise nothing would wake the connection again"
            );
            tokio::task::yield_now().await;
        }
        assert!(now - handled <= TURN_MESSAGES_MAX, "{} messages in a turn", now - handled);
        handled = now;
    }
}

/// Connections of one client, each with more messages than fit into a turn.
const BUSY: usize = 200;
/// Turns of the client before the other client is answered: eight in each round of the thread; its task uses a few rounds.
const TURNS_OF_CLIENT: u64 = 6 * 8;

#[tokio::test]
async fn a_client_waits_for_a_turn_of_another_and_not_for_all_its_connections() {
    let service = Arc::new(TestService::default());
    let caller_of = |name: &str| {
        service.authenticate(&PeerIdentity { name: name.to_owned(), certificate_sha256: [0; 32] }, ORIGIN).unwrap()
    };
    let settings = ServerSettings { network_threads: 1, ..ServerSettings::new(Pki::new().server_tls()) };
    let server = Simulated::new(settings, Arc::clone(&service), Arc::new(SystemClock));
    let mut messages = Vec::new();
    (0..REQUESTS).for_each(|id| request::health(id, &mut messages));
    let mut clients = Vec::new();
    for _ in 0..BUSY {
        let (mut client, socket) = duplex(1 << 20);
        client.write_all(&messages).await.unwrap();
        tokio::spawn(server.accept(caller_of("busy"), Stream(socket)).unwrap());
        clients.push(client);
    }
    let (mut quiet, socket) = duplex(1 << 20);
    let mut message = Vec::new();
    request::health(0, &mut message);
    quiet.write_all(&message).await.unwrap();
    tokio::spawn(server.accept(caller_of("quiet"), Stream(socket)).unwrap());
    quiet.read_u8().await.unwrap();
    let before = server.counters().requests;
    assert!(before <= TURNS_OF_CLIENT * TURN_MESSAGES_MAX, "{before} messages of {BUSY} connections went first");
    // The busy client is served completely, too.
    for client in &mut clients {
        client.read_u8().await.unwrap();
    }
    let all = u64::from(REQUESTS) * BUSY as u64 + 1;
    while server.counters().requests < all {
        tokio::task::yield_now().await;
    }
}
