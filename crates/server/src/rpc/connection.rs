//! Serves one connection after its handshake: reads frames, submits requests to the pool, writes answers.
//!
//! One task drives both directions, because neither may wait for the other: a client that writes a large request while it is sent a large
//! answer would otherwise deadlock. A connection stops reading when it has too many requests in flight or too many bytes to write. A turn
//! is one poll of the task: it moves a bounded number of bytes, and then other connections have theirs.

mod ending;
mod requests;
mod turn;

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use leafseal_engine::pool::{Admission, Cancellation};
use leafseal_engine::{Engine, EntryPoint};
use leafseal_net::{AccessRecord, BulkMember, ShutdownPhase};
use leafseal_protocol::{
    CANCEL, ErrorCode, ErrorObject, Frame, FrameBuffer, GoingAway, Health, HealthParams, Message, MessageError, Method,
    Peek, RawParams, answer, decode_cancel,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep_until, timeout};

use crate::attempts::Attempts;
use crate::client_slots::ClientSlot;
use crate::clock;
use crate::metrics::{Arrival, LiveCounters, RequestOutcome, RequestRecord};
use crate::outbox::{ConnectionReceiver, Outbox, OutboxBuffers};
use crate::rpc::frame_timeout::FrameTimeout;
use crate::rpc::in_flight::InFlight;
use crate::rpc::shutdown::ConnectionShutdown;
use crate::rpc::wire::{PlainSocket, Wire, discard};
use crate::rpc::write_timeout::WriteTimeout;
use crate::server_state::{ConnectionMemory, Registration, ServerState};
use leafseal_service::PeerIdentity;
use leafseal_service::RequestJob;
use leafseal_service::Service;
use leafseal_service::gather;
use leafseal_service::{Effort, Reply};
use leafseal_service::{Exhausted, Share};
use turn::TurnBudget;

/// Buffers above this size count towards `incoming_bytes_max` while frames arrive in them.
const UNCOUNTED_SIZE_MAX: usize = 64 << 10;
/// How often a connection that does not read checks whether its peer has disconnected.
const PAUSED_LOOK: Duration = Duration::from_millis(250);

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum ConnectionEnding {
    /// The peer closed it.
    Closed,
    /// It broke.
    Broken(io::Error),
    /// The connection cannot continue; the peer receives the error.
    Fault(ErrorObject),
    /// The connection was idle for longer than `idle_timeout`.
    Idle,
    /// It reached its maximum age, and its peer had time to reconnect.
    AgeReached,
    /// The peer does not read its answers.
    SlowReader,
    /// The server shuts down and everything is answered.
    ShutDown,
}

/// Whether one direction moved bytes in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TurnProgress {
    Something,
    Nothing,
}

pub(crate) struct RpcConnection<S: Service, W: Wire> {
    server_state: Arc<ServerState>,
    service: Arc<S>,
    caller: Arc<S::Caller>,
    stream: W,
    frames: FrameBuffer,
    memory: ConnectionMemory,
    incoming: Share,
    /// Set while there is no memory for an incoming frame.
    no_room: Option<Attempts>,
    in_flight: InFlight,
    outbox: Arc<Outbox>,
    outgoing: OutboxBuffers,
    is_flushed: bool,
    counted: CountedBytes,
    times: Times,
    shutdown: ConnectionShutdown,
    /// Its claim on one of the slots of its client.
    slot: ClientSlot,
    /// Its place among the bulk connections of all clients.
    bulk: BulkMember<u64>,
    /// Whether the connection reads no more because it has reached its maximum age.
    has_ended_reading: bool,
    timer: Pin<Box<Sleep>>,
    number: u64,
    /// Identifies the client, whose connections share its limits.
    client: u64,
    /// The peer's address.
    address: IpAddr,
    /// What records of its requests have of the peer.
    peer: Arc<AccessRecord<'static>>,
}

/// The times of the last events, for timeouts.
struct Times {
    active: Instant,
    /// The timeout of the incoming frame.
    frame: Option<FrameTimeout>,
    /// The timeout of writing.
    write_timeout: WriteTimeout,
    /// When the first certificate of the peer's verified chain expires.
    expires: Instant,
}

/// Bytes of the socket that have been counted.
#[derive(Default)]
struct CountedBytes {
    taken: u64,
    given: u64,
}

impl<S: Service, W: Wire> RpcConnection<S, W> {
    /// Creates a connection to the peer at `address`, whose chain expires at `expires`.
    pub(crate) fn new(
        server_state: Arc<ServerState>,
        service: Arc<S>,
        caller: Arc<S::Caller>,
        stream: W,
        registration: &Registration,
        (address, expires): (IpAddr, Instant),
    ) -> Self {
        let now = clock::now();
        let client = server_state.number_of(service.tenant(&caller, None));
        let memory = server_state.memory_of(client);
        RpcConnection {
            stream,
            frames: FrameBuffer::new(server_state.settings.limits),
            incoming: memory.incoming_share(),
            slot: ClientSlot::new(memory.slots(), registration.number),
            bulk: server_state.bulk.join(client),
            memory,
            no_room: None,
            in_flight: InFlight::default(),
            outbox: Arc::clone(&registration.outbox),
            outgoing: OutboxBuffers::default(),
            is_flushed: true,
            counted: CountedBytes::default(),
            times: Times { active: now, frame: None, write_timeout: WriteTimeout::new(now), expires },
            shutdown: ConnectionShutdown::new(&server_state.settings, registration.number, now),
            has_ended_reading: false,
            timer: Box::pin(sleep_until((now + server_state.settings.idle_timeout).into())),
            number: registration.number,
            client,
            address,
            peer: Arc::default(),
            service,
            caller,
            server_state,
        }
    }

    /// The same for a peer with this certificate.
    pub(crate) fn of_peer(mut self, peer: &PeerIdentity) -> Self {
        let PeerIdentity { name, certificate_sha256 } = peer;
        let (entry_point, client) = (Some(EntryPoint::Rpc.as_str().into()), Some(name.clone().into()));
        self.peer = Arc::new(AccessRecord {
            entry_point,
            client,
            certificate: Some(*certificate_sha256),
            ..AccessRecord::default()
        });
        self
    }

    /// Serves the connection until it ends.
    pub(crate) async fn run(mut self) -> ConnectionEnding {
        let end = poll_fn(|cx| self.poll(cx)).await;
        let mut left = self.disconnect();
        if matches!(
            end,
            ConnectionEnding::Fault(_)
                | ConnectionEnding::Idle
                | ConnectionEnding::AgeReached
                | ConnectionEnding::ShutDown
        ) {
            self.close(&end).await;
        }
        // A large answer is freed over many turns: other tasks wait for this thread.
        while !(left.free_some() && self.outgoing.free_some()) {
            yield_now().await;
        }
        end
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEnding> {
        self.slot.begin_round();
        if self.bulk.poll_turn(cx).is_pending() || !self.slot.enter(cx.waker()) {
            return Poll::Pending;
        }
        let mut budget = TurnBudget::new(&self.server_state.settings);
        let result = self.take_turn(cx, &mut budget);
        self.slot.leave(budget.is_touched(), cx.waker());
        self.count_bytes();
        match result.and_then(|()| self.check_end(cx)) {
            Ok(()) => Poll::Pending,
            Err(end) => Poll::Ready(end),
        }
    }

    /// Moves bytes in both directions until none move or the turn is over.
    fn take_turn(&mut self, cx: &mut Context<'_>, budget: &mut TurnBudget) -> Result<(), ConnectionEnding> {
        self.outbox.register(cx.waker());
        let now = clock::now();
        self.in_flight.retry(&self.server_state.pool, now);
        self.announce_going_away(now);
        loop {
            self.take_answers(now);
            let written = self.write(cx, budget, now)?;
            let read = self.read(cx, budget, now)?;
            if budget.is_used_up() {
                // Requests that were answered within the turn woke nobody.
                self.take_answers(now);
                self.write(cx, budget, now)?;
                // Frames that have arrived may wait here: nothing else would wake this task for them.
                self.bulk.end_turn(cx);
                return Ok(());
            }
            if written == TurnProgress::Nothing && read == TurnProgress::Nothing {
                return Ok(());
            }
        }
    }

    /// Announces to the peer that the connection will close, when it is due.
    fn announce_going_away(&mut self, now: Instant) {
        if let Some(reason) = self.shutdown.announce(self.server_state.phase(), self.server_state.notice(), now) {
            LiveCounters::add(&self.server_state.counters.going_away_sent);
            self.send(now, |out| answer::going_away(reason, out));
        }
        self.has_ended_reading = self.shutdown.has_ended_reading(&self.server_state.settings, now);
    }

    fn count_bytes(&mut self) {
        let gathered = self.stream.gathered();
        let now = CountedBytes { taken: gathered.bytes_taken(), given: gathered.bytes_given() };
        let before = std::mem::replace(&mut self.counted, now);
        let counters = &self.server_state.counters;
        LiveCounters::add_many(&counters.network_bytes_sent, self.counted.taken - before.taken);
        LiveCounters::add_many(&counters.network_bytes_received, self.counted.given - before.given);
    }

    fn take_answers(&mut self, now: Instant) {
        let answers = self.outbox.take();
        if answers.ids.is_empty() {
            return;
        }
        for id in answers.ids {
            self.in_flight.end(id);
        }
        self.times.active = now;
        self.note_outgoing(now);
        self.outgoing.append(answers.buffers);
    }

    /// Queues a message of the network side; returns its size.
    fn send(&mut self, now: Instant, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut message = Vec::new();
        encode(&mut message);
        let size = message.len();
        self.note_outgoing(now);
        self.outgoing.push(message.into(), None);
        size
    }

    /// Starts the write timeout when there is something to read for the peer.
    fn note_outgoing(&mut self, now: Instant) {
        if self.outgoing.bytes() == 0 && self.is_flushed {
            self.times.write_timeout.begin(now, self.stream.gathered().bytes_taken());
        }
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut TurnBudget,
        now: Instant,
    ) -> Result<TurnProgress, ConnectionEnding> {
        let before = self.outgoing.bytes();
        let moved = self.write_out(cx, budget);
        // Progress is measured at the socket, not at the buffer before it: a slow reader drains the buffer in large steps.
        let (taken, waiting) = (self.stream.gathered().bytes_taken(), self.outgoing.bytes());
        self.times.write_timeout.note(&self.server_state.settings, now, taken, before - waiting, waiting);
        moved
    }

    fn write_out(&mut self, cx: &mut Context<'_>, budget: &mut TurnBudget) -> Result<TurnProgress, ConnectionEnding> {
        let mut moved = TurnProgress::Nothing;
        while self.outgoing.bytes() > 0 && budget.bytes > 0 {
            match Pin::new(&mut self.stream).poll_write(cx, self.outgoing.front()) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Err(error)) => return Err(ConnectionEnding::Broken(error)),
                Poll::Ready(Ok(size)) => {
                    self.outgoing.advance(size);
                    self.is_flushed = false;
                    budget.bytes = budget.bytes.saturating_sub(size);
                    moved = TurnProgress::Something;
                }
            }
        }
        if !self.is_flushed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Err(error)) => return Err(ConnectionEnding::Broken(error)),
                Poll::Ready(Ok(())) => self.is_flushed = true,
            }
        }
        Ok(moved)
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut TurnBudget,
        now: Instant,
    ) -> Result<TurnProgress, ConnectionEnding> {
        let mut moved = TurnProgress::Nothing;
        loop {
            if self.handle_frames(budget, now)? {
                // Requests that were answered at once woke nobody.
                moved = TurnProgress::Something;
            }
            let freed = self.charge_arriving(self.frames.capacity());
            debug_assert!(freed.is_ok(), "taking frames makes the buffer smaller or nothing");
            if self.is_paused() || !self.charge_read(now)? {
                self.times.frame.iter_mut().for_each(|frame| frame.pause(now));
                return self.check_peer(cx).map(|()| moved);
            }
            self.times.frame.iter_mut().for_each(|frame| frame.resume(now));
            if budget.is_used_up() {
                return Ok(moved);
            }
            match pin!(self.stream.read_buf(self.frames.spare())).poll(cx) {
                Poll::Pending => {
                    self.frames.release_if_empty();
                    return Ok(moved);
                }
                Poll::Ready(Err(error)) => return Err(ConnectionEnding::Broken(error)),
                Poll::Ready(Ok(0)) => return Err(ConnectionEnding::Closed),
                Poll::Ready(Ok(size)) => {
                    self.times.active = now;
                    budget.bytes = budget.bytes.saturating_sub(size);
                    moved = TurnProgress::Something;
                }
            }
        }
    }

    /// Whether the connection stops reading until something is answered or written, or for good.
    fn is_paused(&self) -> bool {
        let settings = &self.server_state.settings;
        self.has_ended_reading
            || !self.in_flight.has_room(settings)
            || self.outgoing.bytes() >= settings.outgoing_bytes_max
            || self.outgoing.uncounted() >= settings.outgoing_short_bytes_max
    }

    /// Whether it reads nothing, for any reason.
    fn is_reading_nothing(&self) -> bool {
        self.is_paused() || self.no_room.is_some()
    }

    /// While nothing is read, only the socket's readiness shows the end of the stream.
    fn check_peer(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionEnding> {
        match self.stream.gathered().socket().poll_closed(cx) {
            Poll::Ready(Ok(())) => Err(ConnectionEnding::Closed),
            Poll::Ready(Err(error)) => Err(ConnectionEnding::Broken(error)),
            Poll::Pending => Ok(()),
        }
    }

    /// Handles complete frames, within the turn and while there is room for their requests. Returns whether there were any.
    fn handle_frames(&mut self, budget: &mut TurnBudget, now: Instant) -> Result<bool, ConnectionEnding> {
        let before = budget.messages;
        while !self.is_paused() && budget.messages > 0 {
            match self.frames.next_frame() {
                Ok(Some(frame)) => {
                    self.times.frame = None;
                    budget.messages -= 1;
                    self.handle(frame, budget, now)?;
                }
                Ok(None) => {
                    if self.frames.partial_size() > 0 {
                        self.times.frame.get_or_insert_with(|| FrameTimeout::new(now));
                    }
                    break;
                }
                Err(error) => return Err(ConnectionEnding::Fault(error.into())),
            }
        }
        Ok(budget.messages < before)
    }

    /// Charges a frame buffer of this size.
    fn charge_arriving(&mut self, size: usize) -> Result<(), Exhausted> {
        self.incoming.resize(if size > UNCOUNTED_SIZE_MAX { size } else { 0 })
    }

    /// Charges the memory that the next read needs for incoming frames. Without memory the connection stops reading, so that TCP slows its
    /// peer down; eventually it is closed.
    fn charge_read(&mut self, now: Instant) -> Result<bool, ConnectionEnding> {
        if self.server_state.settings.reserve_large_frames
            && let Some(capacity) = self.frames.capacity_for_whole()
            && self.incoming.resize_while_ample(capacity).is_ok()
        {
            self.frames.reserve_whole();
        }
        if self.charge_arriving(self.frames.capacity_with_spare()).is_ok() {
            self.no_room = None;
            return Ok(true);
        }
        let settings = &self.server_state.settings;
        let attempts = self.no_room.get_or_insert_with(|| Attempts::new(now, now + settings.incoming_wait));
        if attempts.record_failure(now) {
            return Ok(false);
        }
        let message = "the engine holds too many large frames that are still arriving";
        Err(ConnectionEnding::Fault(ErrorObject::new(ErrorCode::Overloaded, message).retry_after(settings.retry_after)))
    }

    /// Handles a frame. Its first piece contains everything that the network side reads; a worker reads the rest of a large one.
    fn handle(&mut self, frame: Frame, budget: &mut TurnBudget, now: Instant) -> Result<(), ConnectionEnding> {
        let size = frame.size();
        match Message::parse(frame.head()) {
            Ok(Message::Request { id, method, params }) => {
                self.check_id(id)?;
                LiveCounters::add(&self.server_state.counters.requests);
                let arrival = Arrival { method: Method::parse(method), size, at: now };
                if arrival.method == Some(Method::Health) {
                    self.answer_health(id, params, &arrival);
                } else if self.server_state.is_serving() {
                    let known = self.peek(params, arrival.method, now);
                    self.admit(frame, id, known, arrival, budget);
                } else {
                    self.answer_error(id, ErrorCode::Unavailable, "the engine is shutting down", &arrival);
                }
                Ok(())
            }
            Ok(Message::Notification { method: CANCEL, params }) => self.cancel(params),
            Ok(Message::Notification { .. }) => Ok(()),
            Ok(Message::Response { .. }) => Err(invalid("the engine sends no requests, so there is nothing to answer")),
            Err(MessageError { id: Some(id), fault }) => {
                self.check_id(id)?;
                LiveCounters::add(&self.server_state.counters.requests);
                let arrival = Arrival { method: None, size, at: now };
                self.answer_error(id, ErrorCode::InvalidRequest, &fault.to_string(), &arrival);
                Ok(())
            }
            Err(error) => Err(ConnectionEnding::Fault(error.into())),
        }
    }

    /// Refuses the id of a request in flight, with which answers would be ambiguous.
    fn check_id(&self, id: u32) -> Result<(), ConnectionEnding> {
        if self.in_flight.contains(id) {
            return Err(invalid("the id of this request is that of one in flight"));
        }
        Ok(())
    }

    fn answer_health(&mut self, id: u32, params: RawParams<'_>, arrival: &Arrival) {
        let health = match self.server_state.phase() {
            ShutdownPhase::Serving | ShutdownPhase::Notice if self.is_sealed() => Health::SEALED,
            ShutdownPhase::Serving | ShutdownPhase::Notice => Health::OK,
            ShutdownPhase::Draining | ShutdownPhase::Closing => Health::DRAINING,
        };
        match HealthParams::decode(params) {
            Ok(HealthParams {}) => self.answer(arrival, RequestOutcome::Ok, |out| answer::health(id, health, out)),
            Err(error) => {
                let error = ErrorObject::from(error);
                self.answer(arrival, error.code.into(), |out| answer::error(id, &error, out));
            }
        }
    }

    fn is_sealed(&self) -> bool {
        self.service.engine().is_some_and(Engine::is_sealed)
    }

    fn answer_error(&mut self, id: u32, code: ErrorCode, message: &str, arrival: &Arrival) {
        let error = ErrorObject::new(code, message);
        self.answer(arrival, code.into(), |out| answer::error(id, &error, out));
    }

    /// Answers a request immediately.
    fn answer(&mut self, arrival: &Arrival, outcome: RequestOutcome, encode: impl FnOnce(&mut Vec<u8>)) {
        let size = self.send(arrival.at, encode);
        self.server_state.requests.count(arrival, outcome, Effort::default(), size, clock::now());
    }

    fn cancel(&mut self, params: RawParams<'_>) -> Result<(), ConnectionEnding> {
        let id = decode_cancel(params).map_err(|error| ConnectionEnding::Fault(error.into()))?;
        self.in_flight.cancel(&self.server_state.pool, id);
        Ok(())
    }

    /// Cancels the connection's requests and frees its memory, except unsent answers, which are returned.
    fn disconnect(&mut self) -> OutboxBuffers {
        self.in_flight.disconnect(&self.server_state.pool);
        self.frames = FrameBuffer::new(self.server_state.settings.limits);
        self.incoming = self.memory.incoming_share();
        self.outbox.close()
    }

    /// Writes what is left and the reason for the end, and gives the peer time to read it.
    async fn close(&mut self, end: &ConnectionEnding) {
        let limit = self.server_state.settings.close_timeout;
        if let ConnectionEnding::Fault(error) = end {
            LiveCounters::add(&self.server_state.counters.connections_faulted);
            self.send(clock::now(), |out| answer::connection_error(error, out));
        } else {
            // Everything that was read is answered. Requests that the peer has sent meanwhile were not started: they can safely be retried.
            self.send(clock::now(), |out| answer::going_away(GoingAway::Closed, out));
        }
        let parting = async {
            while self.outgoing.bytes() > 0 {
                let size = self.stream.write(self.outgoing.front()).await?;
                self.outgoing.advance(size);
            }
            self.stream.shutdown().await?;
            discard(self.stream.gathered_mut().socket_mut()).await
        };
        if let Ok(Err(error)) = timeout(limit, parting).await {
            tracing::debug!(%error, "the peer closed the connection during shutdown");
        }
    }
}

/// However the task ends, including a panic or the end of the runtime, no worker continues for a closed connection.
impl<S: Service, W: Wire> Drop for RpcConnection<S, W> {
    fn drop(&mut self) {
        drop(self.disconnect());
    }
}

fn invalid(message: &str) -> ConnectionEnding {
    ConnectionEnding::Fault(ErrorObject::new(ErrorCode::InvalidRequest, message))
}
