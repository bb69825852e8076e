//! A TCP proxy that follows a script. It forwards TLS without decrypting it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::common::script::{Acceptance, Event, Fault, NetworkQuality, Plan};

const PIECE_SIZE_MAX: usize = 16_384;

/// The proxy; it runs until it is dropped, and then drops every socket.
pub(crate) struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
    accepting: JoinSet<()>,
}

struct State {
    target: SocketAddr,
    is_healed: AtomicBool,
    connections: AtomicU64,
    seen: Arc<Mutex<Seen>>,
    replaying: Mutex<JoinSet<()>>,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Injected faults, including refused connections.
    pub faults: u64,
    /// Faults after which some bytes of a connection did not arrive as they were sent.
    pub harm: u64,
    /// Faults by which bytes arrived that were never sent.
    pub forgeries: u64,
    /// Replayed connections, and how many of them the server has ended.
    pub replays: u64,
    pub replays_ended: u64,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr, seed: u64, quality: NetworkQuality) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            target,
            is_healed: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            seen: Arc::default(),
            replaying: Mutex::default(),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&state), seed, quality));
        Proxy { address, state, accepting }
    }

    /// Checks that the proxy itself has not failed.
    pub(crate) fn assert_sound(&mut self) {
        assert!(self.accepting.try_join_next().is_none(), "the proxy has panicked");
    }

    /// Forwards new connections without faults; the others keep their plans.
    pub(crate) fn heal(&self) {
        self.state.is_healed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.state.seen.lock().unwrap()
    }
}

impl State {
    fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap());
    }

    fn note_harm(&self) {
        self.note(|seen| {
            seen.faults += 1;
            seen.harm += 1;
        });
    }

    /// Sends a client's bytes again, as an eavesdropper could, and reads the server's reaction.
    fn replay(&self, bytes: Vec<u8>) {
        let (target, seen) = (self.target, Arc::clone(&self.seen));
        self.note(|seen| seen.replays += 1);
        self.replaying.lock().unwrap().spawn(async move {
            let mut server = TcpStream::connect(target).await.unwrap();
            // The server may refuse before it has read everything.
            let _ = (server.write_all(&bytes).await, server.shutdown().await);
            let _ = server.read_to_end(&mut Vec::new()).await;
            seen.lock().unwrap().replays_ended += 1;
        });
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, seed: u64, quality: NetworkQuality) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            Some(ended) = connections.join_next() => {
                ended.expect("the proxy follows its script");
                continue;
            }
        };
        let number = state.connections.fetch_add(1, Ordering::SeqCst);
        let is_healed = state.is_healed.load(Ordering::SeqCst);
        let plan = if is_healed { Plan::fair() } else { Plan::of(seed, quality, number) };
        connections.spawn(carry(client, plan, Arc::clone(&state)));
    }
}

/// How a direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// In order, and the end was forwarded.
    Passed,
    /// One side has disconnected.
    Broken,
    Closed,
    Reset,
}

async fn carry(client: TcpStream, plan: Plan, state: Arc<State>) {
    match plan.acceptance {
        Acceptance::Forward => {}
        Acceptance::Unserved => {
            state.note_harm();
            std::future::pending().await
        }
        Acceptance::Reset => {
            state.note_harm();
            return client.set_zero_linger().unwrap();
        }
    }
    let server = TcpStream::connect(state.target).await.unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let link = Link { is_lost: AtomicBool::new(false), state };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let end = {
        let up = Lane::new(&link, plan.to_server, plan.replay_at).forward(&mut from_client, &mut to_server);
        let down = Lane::new(&link, plan.to_client, None).forward(&mut from_server, &mut to_client);
        tokio::pin!(up, down);
        tokio::select! {
            end = &mut up => if end == End::Passed { down.await } else { end },
            end = &mut down => if end == End::Passed { up.await } else { end },
        }
    };
    if end == End::Broken && link.is_lost.load(Ordering::SeqCst) {
        // The remaining side must not notice that the other has disconnected.
        std::future::pending().await
    }
    if end == End::Reset {
        from_client.as_ref().set_zero_linger().unwrap();
        from_server.as_ref().set_zero_linger().unwrap();
    }
}

/// A connection between client and server.
struct Link {
    /// Bytes of one direction are dropped, and neither side notices.
    is_lost: AtomicBool,
    state: Arc<State>,
}

/// One direction of a connection.
struct Lane<'a> {
    link: &'a Link,
    events: VecDeque<Event>,
    replay_at: Option<u64>,
    piece_size: usize,
    pause: Duration,
    is_flipped: bool,
    /// All bytes that were forwarded.
    sent: Vec<u8>,
}

impl<'a> Lane<'a> {
    fn new(link: &'a Link, events: Vec<Event>, replay_at: Option<u64>) -> Self {
        let (piece_size, pause) = (PIECE_SIZE_MAX, Duration::ZERO);
        Lane { link, events: events.into(), replay_at, piece_size, pause, is_flipped: false, sent: Vec::new() }
    }

    async fn forward(mut self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> End {
        let mut bytes = [0; PIECE_SIZE_MAX];
        loop {
            while let Some(event) = self.events.pop_front_if(|event| event.at <= self.sent.len() as u64) {
                if let Err(end) = self.suffer(event.fault, from, to).await {
                    return end;
                }
            }
            let room = self.room();
            let size = match from.read(&mut bytes[..room]).await {
                Ok(0) => {
                    let _ = to.shutdown().await;
                    return End::Passed;
                }
                Ok(size) => size,
                Err(_) => return End::Broken,
            };
            bytes[0] ^= u8::from(std::mem::take(&mut self.is_flipped));
            self.sent.extend_from_slice(&bytes[..size]);
            if to.write_all(&bytes[..size]).await.is_err() {
                return End::Broken;
            }
            if let Some(at) = self.replay_at.take_if(|at| *at <= self.sent.len() as u64) {
                self.link.state.replay(self.sent[..at as usize].to_vec());
            }
            if self.pause > Duration::ZERO {
                sleep(self.pause).await;
            }
        }
    }

    /// The number of bytes up to the next event, or in a piece.
    fn room(&self) -> usize {
        let next = self.events.front().map_or(u64::MAX, |event| event.at) - self.sent.len() as u64;
        usize::try_from(next).unwrap_or(usize::MAX).min(self.piece_size).min(PIECE_SIZE_MAX)
    }

    async fn suffer(&mut self, fault: Fault, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> Result<(), End> {
        match fault {
            Fault::Delay(_) | Fault::Pieces { .. } => self.link.state.note(|seen| seen.faults += 1),
            _ => self.link.state.note_harm(),
        }
        match fault {
            Fault::Delay(time) => sleep(time).await,
            Fault::Pieces { size, pause } => (self.piece_size, self.pause) = (size, pause),
            Fault::Flip => {
                self.link.state.note(|seen| seen.forgeries += 1);
                self.is_flipped = true;
            }
            Fault::Repeat(size) => {
                self.link.state.note(|seen| seen.forgeries += 1);
                let start = self.sent.len().saturating_sub(size);
                to.write_all(&self.sent[start..]).await.map_err(|_| End::Broken)?;
            }
            Fault::HalfClose => {
                let _ = to.shutdown().await;
                return Err(End::Passed);
            }
            Fault::Close => return Err(End::Closed),
            Fault::Reset => return Err(End::Reset),
            Fault::Lose => {
                self.link.is_lost.store(true, Ordering::SeqCst);
                let mut bytes = [0; PIECE_SIZE_MAX];
                while from.read(&mut bytes).await.is_ok_and(|size| size > 0) {}
                std::future::pending().await
            }
            Fault::Stall => {
                self.link.is_lost.store(true, Ordering::SeqCst);
                std::future::pending().await
            }
        }
        Ok(())
    }
}
