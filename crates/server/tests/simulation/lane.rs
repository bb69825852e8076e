//! One direction of a connection in memory: bytes in transit, as a script determines, and those that have arrived.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leafseal_protocol::{FrameBuffer, FrameLimits};
use tokio::time::Instant;

use crate::common::script::{Event, Fault};

/// The capacity of a lane before its writer has to wait, like the buffers of a socket.
const CAPACITY: usize = 64 << 10;

/// How a lane ends for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Orderly,
    Reset,
}

/// Bytes in transit.
enum Transit {
    Bytes(Vec<u8>),
    End,
}

/// The effect of a fault beyond its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// A peer may wait in vain.
    Silent,
    /// Both sides see the end, after the bytes written before.
    Close,
    /// Both sides see it at once.
    Reset,
}

/// The fate of written bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Routing {
    ToReader,
    /// They are dropped.
    Dropped,
    /// They are accepted while there is room, and never arrive.
    Blocked,
}

pub(crate) struct Lane {
    events: VecDeque<Event>,
    latency: Duration,
    piece_size: usize,
    pause: Duration,
    routing: Routing,
    /// Bytes accepted from the writer.
    pub taken: u64,
    in_flight: VecDeque<(Instant, Transit)>,
    in_flight_bytes: usize,
    /// When the last byte arrives.
    last_due: Instant,
    pub has_courier: bool,
    arrived: VecDeque<u8>,
    end: Option<End>,
    /// Why nothing can be written any more.
    refusal: Option<io::ErrorKind>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The frames in the written and in the read bytes.
    pub written_frames: FrameBuffer,
    pub read_frames: FrameBuffer,
}

/// The result of a write.
pub(crate) struct Written {
    pub poll: Poll<io::Result<usize>>,
    pub harms: Vec<Harm>,
}

impl Lane {
    pub(crate) fn new(events: Vec<Event>, latency: Duration) -> Lane {
        Lane {
            events: events.into(),
            latency,
            piece_size: usize::MAX,
            pause: Duration::ZERO,
            routing: Routing::ToReader,
            taken: 0,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            last_due: Instant::now(),
            has_courier: false,
            arrived: VecDeque::new(),
            end: None,
            refusal: None,
            reader: None,
            writer: None,
            written_frames: FrameBuffer::new(FrameLimits::default()),
            read_frames: FrameBuffer::new(FrameLimits::default()),
        }
    }

    /// Accepts bytes up to the next event.
    pub(crate) fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Written {
        let mut harms = Vec::new();
        while let Some(event) = self.events.pop_front_if(|event| event.at <= self.taken) {
            harms.extend(self.suffer(event.fault));
        }
        let poll = self.take(cx, bytes);
        Written { poll, harms }
    }

    fn take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(kind) = self.refusal {
            return Poll::Ready(Err(kind.into()));
        }
        let room = CAPACITY.saturating_sub(self.in_flight_bytes + self.arrived.len());
        let until_event = self.events.front().map_or(u64::MAX, |event| event.at) - self.taken;
        let size = bytes.len().min(room).min(usize::try_from(until_event).unwrap_or(usize::MAX));
        if size == 0 {
            self.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.taken += size as u64;
        match self.routing {
            Routing::ToReader => bytes[..size].chunks(self.piece_size).for_each(|piece| self.send(piece)),
            Routing::Dropped => {}
            Routing::Blocked => self.in_flight_bytes += size,
        }
        Poll::Ready(Ok(size))
    }

    fn send(&mut self, piece: &[u8]) {
        self.in_flight_bytes += piece.len();
        self.dispatch(Transit::Bytes(piece.to_vec()));
        self.last_due += self.pause;
    }

    /// Sends bytes, which arrive in order, and at once if nothing delays them.
    fn dispatch(&mut self, parcel: Transit) {
        let now = Instant::now();
        self.last_due = self.last_due.max(now + self.latency);
        self.in_flight.push_back((self.last_due, parcel));
        self.arrive(now);
    }

    /// Applies a fault to this lane; returns its effect on others.
    fn suffer(&mut self, fault: Fault) -> Option<Harm> {
        match fault {
            Fault::Delay(time) => {
                self.last_due = self.last_due.max(Instant::now()) + time;
                None
            }
            Fault::Pieces { size, pause } => {
                (self.piece_size, self.pause) = (size, pause);
                None
            }
            Fault::HalfClose => {
                self.finish();
                self.routing = Routing::Blocked;
                Some(Harm::Silent)
            }
            Fault::Lose => {
                self.routing = Routing::Dropped;
                Some(Harm::Silent)
            }
            Fault::Stall => {
                self.routing = Routing::Blocked;
                Some(Harm::Silent)
            }
            Fault::Close => Some(Harm::Close),
            Fault::Reset => Some(Harm::Reset),
            Fault::Flip | Fault::Repeat(_) => unreachable!("without TLS a forgery is not detected"),
        }
    }

    /// The writer has finished, or its side is closed. Lanes that drop or block bytes swallow the end, too.
    pub(crate) fn finish(&mut self) {
        if self.routing == Routing::ToReader && self.refusal.is_none() {
            self.dispatch(Transit::End);
        }
        self.refuse(io::ErrorKind::BrokenPipe);
    }

    /// The reader has disconnected.
    pub(crate) fn abandon(&mut self) {
        self.refuse(io::ErrorKind::BrokenPipe);
        self.arrived.clear();
    }

    /// Drops all bytes in transit.
    pub(crate) fn reset(&mut self) {
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.arrived.clear();
        self.end = Some(End::Reset);
        self.refuse(io::ErrorKind::ConnectionReset);
        wake(&mut self.reader);
    }

    fn refuse(&mut self, kind: io::ErrorKind) {
        self.refusal.get_or_insert(kind);
        wake(&mut self.writer);
    }

    /// Delivers what is due. Returns when the next bytes are.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<Instant> {
        while let Some((_, parcel)) = self.in_flight.pop_front_if(|(due, _)| *due <= now) {
            match parcel {
                Transit::Bytes(bytes) => {
                    self.in_flight_bytes -= bytes.len();
                    self.arrived.extend(bytes);
                }
                Transit::End => self.end = Some(End::Orderly),
            }
            wake(&mut self.reader);
        }
        self.next_due()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.in_flight.front().map(|(due, _)| *due)
    }

    /// Reads up to `size` bytes that have arrived; none at the end.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, size: usize) -> Poll<io::Result<Vec<u8>>> {
        if !self.arrived.is_empty() {
            let size = size.min(self.arrived.len());
            wake(&mut self.writer);
            return Poll::Ready(Ok(self.arrived.drain(..size).collect()));
        }
        self.poll_end(cx).map_ok(|()| Vec::new())
    }

    /// Completes once the end has arrived, regardless of unread bytes.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.end {
            Some(End::Orderly) => Poll::Ready(Ok(())),
            Some(End::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
