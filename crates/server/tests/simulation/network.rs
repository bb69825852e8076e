//! Connections in memory, each with its plan. Messages are reported to the recorders at both ends.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leafseal_client::simulation::{Connecting, SimulatedNetwork, SimulatedStream};
use leafseal_protocol::{FrameBuffer, Message};
use leafseal_server::simulation::PlainSocket;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, sleep, sleep_until};

use crate::common::script::{Acceptance, Plan};
use crate::lane::{Harm, Lane};
use crate::world::World;

const LATENCY_MAX_MS: u64 = 3;
/// How long the sender of a replayed connection waits for the reaction.
const REPEATED_MAX_MS: u64 = 40;
/// The maximum size of a read in some of the connections.
const SHORT_READ: usize = 700;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The client that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    Client(usize),
    /// An eavesdropper.
    Eavesdropper,
}

struct Link {
    world: Arc<World>,
    /// The address of the connection.
    host: usize,
    number: u64,
    opener: Opener,
    read_size_max: usize,
    /// The client's lane, then the server's.
    lanes: Mutex<[Lane; 2]>,
    replay: Mutex<Option<Replay>>,
}

/// A client's bytes, recorded to be replayed.
struct Replay {
    at: u64,
    bytes: Vec<u8>,
}

/// One end of a connection, which is closed on drop.
pub(crate) struct Endpoint {
    link: Arc<Link>,
    side: Side,
}

impl Link {
    fn connect(world: &Arc<World>, host: usize, number: u64, opener: Opener, plan: Plan) -> Option<Endpoint> {
        let latency = || Duration::from_millis(world.below(LATENCY_MAX_MS + 1));
        let lanes = [Lane::new(plan.to_server, latency()), Lane::new(plan.to_client, latency())];
        let read_size_max = if world.below(4) == 0 { SHORT_READ } else { usize::MAX };
        let link = Arc::new(Link {
            world: Arc::clone(world),
            host,
            number,
            opener,
            read_size_max,
            lanes: Mutex::new(lanes),
            replay: Mutex::new(plan.replay_at.map(|at| Replay { at, bytes: Vec::new() })),
        });
        let [near, far] = [Side::Client, Side::Server].map(|side| Endpoint { link: Arc::clone(&link), side });
        world.accept(host, number, opener, far).then_some(near)
    }

    fn lock(&self) -> MutexGuard<'_, [Lane; 2]> {
        self.lanes.lock().unwrap()
    }

    /// Changes the lanes and applies the effects.
    fn with<T>(self: &Arc<Self>, change: impl FnOnce(&mut [Lane; 2]) -> T) -> T {
        let mut lanes = self.lock();
        let had_ended = lanes[0].has_ended();
        let changed = change(&mut lanes);
        if lanes[0].has_ended() && !had_ended {
            self.world.watch.note_end(self.number);
        }
        for (index, lane) in lanes.iter_mut().enumerate() {
            if lane.next_due().is_some() && !lane.has_courier {
                lane.has_courier = true;
                tokio::spawn(carry(Arc::downgrade(self), index));
            }
        }
        changed
    }

    fn suffer(&self, lanes: &mut [Lane; 2], harm: Harm) {
        match harm {
            Harm::Close => lanes.iter_mut().for_each(Lane::finish),
            Harm::Reset => lanes.iter_mut().for_each(Lane::reset),
            Harm::Silent => {}
        }
        self.world.journal.note_harm(self.opener, harm == Harm::Silent);
        self.world.note("harm", self.number, harm as u64);
    }

    fn write(self: &Arc<Self>, side: Side, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.with(|lanes| {
            let lane = &mut lanes[side as usize];
            let written = lane.write(cx, bytes);
            if let Poll::Ready(Ok(size)) = written.poll {
                for_each_frame(&mut lane.written_frames, &bytes[..size], |message| self.tell_written(side, message));
            }
            written.harms.into_iter().for_each(|harm| self.suffer(lanes, harm));
            written.poll
        });
        if let (Side::Client, Poll::Ready(Ok(size))) = (side, &written) {
            self.listen(&bytes[..*size]);
        }
        written
    }

    /// Records the client's bytes, to replay them if the plan requires it.
    fn listen(&self, bytes: &[u8]) {
        let mut replay = self.replay.lock().unwrap();
        let Some(Replay { at, bytes: heard }) = &mut *replay else { return };
        heard.extend_from_slice(bytes);
        if heard.len() as u64 >= *at {
            heard.truncate(usize::try_from(*at).expect("within what was heard"));
            tokio::spawn(repeat(Arc::clone(&self.world), self.host, std::mem::take(heard)));
            *replay = None;
        }
    }

    fn read(self: &Arc<Self>, side: Side, cx: &mut Context<'_>, size: usize) -> Poll<io::Result<Vec<u8>>> {
        let size = size.min(self.read_size_max);
        self.with(|lanes| {
            let lane = &mut lanes[1 - side as usize];
            let read = lane.read(cx, size);
            if let Poll::Ready(Ok(bytes)) = &read {
                for_each_frame(&mut lane.read_frames, bytes, |message| self.tell_read(side, message));
            }
            read
        })
    }

    fn tell_written(&self, side: Side, (message, frame): (Message<'_>, &[u8])) {
        let (number, world) = (self.number, &self.world);
        match (side, self.opener) {
            (Side::Client, Opener::Client(_)) => world.journal.note_written(number, &message, frame),
            (Side::Client, Opener::Eavesdropper) => {}
            (Side::Server, _) => world.watch.note_answer(number, &message),
        }
    }

    fn tell_read(&self, side: Side, (message, _): (Message<'_>, &[u8])) {
        let (number, world) = (self.number, &self.world);
        match (side, self.opener) {
            (Side::Client, Opener::Client(_)) => world.journal.note_read(number, &message),
            (Side::Client, Opener::Eavesdropper) => {}
            (Side::Server, _) => world.watch.note_read(number, &message),
        }
    }
}

fn for_each_frame(frames: &mut FrameBuffer, mut bytes: &[u8], mut tell: impl FnMut((Message<'_>, &[u8]))) {
    while !bytes.is_empty() {
        let spare = frames.spare();
        let size = bytes.len().min(spare.capacity() - spare.len());
        spare.extend_from_slice(&bytes[..size]);
        bytes = &bytes[size..];
        while let Some(frame) = frames.next_frame().expect("both sides write frames") {
            let frame = frame.into_bytes();
            tell((Message::parse(&frame).expect("both sides write messages"), &frame));
        }
    }
}

/// Delivers the bytes of one lane when they are due.
async fn carry(link: Weak<Link>, index: usize) {
    while let Some(link) = link.upgrade() {
        let due = link.with(|lanes| {
            let due = lanes[index].arrive(Instant::now());
            lanes[index].has_courier = due.is_some();
            due
        });
        drop(link);
        match due {
            Some(due) => sleep_until(due).await,
            None => return,
        }
    }
}

/// Replays recorded bytes on a new connection, and closes it.
async fn repeat(world: Arc<World>, host: usize, bytes: Vec<u8>) {
    let number = world.network_connections.fetch_add(1, Ordering::Relaxed);
    world.journal.count(|seen| seen.repeated += 1);
    let Some(mut stream) = Link::connect(&world, host, number, Opener::Eavesdropper, Plan::fair()) else { return };
    let patience = Duration::from_millis(world.below(REPEATED_MAX_MS));
    let talk = async {
        stream.write_all(&bytes).await?;
        stream.read_to_end(&mut Vec::new()).await
    };
    // The server may refuse before it has read everything.
    let _ = tokio::time::timeout(patience, talk).await;
}

impl AsyncRead for Endpoint {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bytes = ready!(self.link.read(self.side, cx, out.remaining()))?;
        out.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endpoint {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.link.write(self.side, cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.with(|lanes| lanes[self.side as usize].finish());
        Poll::Ready(Ok(()))
    }
}

impl PlainSocket for Endpoint {
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.lock()[1 - self.side as usize].poll_end(cx)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let side = self.side as usize;
        let close = |lanes: &mut [Lane; 2]| {
            lanes[side].finish();
            lanes[1 - side].abandon();
        };
        // Nothing is delivered any more when the runtime has ended.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.link.with(close);
        }
    }
}

/// The address of a host.
pub(crate) fn address_of(host: usize) -> String {
    format!("engine:{host}")
}

fn host_of(address: &str) -> usize {
    address.strip_prefix("engine:").and_then(|host| host.parse().ok()).expect("an address of ours")
}

/// The network as one client sees it.
pub(crate) struct ClientNetwork {
    pub world: Arc<World>,
    pub client: usize,
}

impl ClientNetwork {
    async fn connect(&self, address: &str) -> io::Result<Box<dyn SimulatedStream>> {
        let world = &self.world;
        let host = host_of(address);
        let number = world.network_connections.fetch_add(1, Ordering::Relaxed);
        let plan = world.plan(number);
        sleep(Duration::from_millis(world.below(LATENCY_MAX_MS + 1))).await;
        match plan.acceptance {
            Acceptance::Forward => {}
            Acceptance::Unserved => {
                world.journal.note_harm(Opener::Client(self.client), true);
                std::future::pending().await
            }
            Acceptance::Reset => {
                world.journal.note_harm(Opener::Client(self.client), false);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
        if !world.is_listening_at(host) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        match Link::connect(world, host, number, Opener::Client(self.client), plan) {
            Some(stream) => Ok(Box::new(stream)),
            None => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl SimulatedNetwork for ClientNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(self.connect(address))
    }

    fn chance(&self) -> f64 {
        self.world.below(1 << 20) as f64 / (1_u64 << 20) as f64
    }
}
