//! The state shared by a connection's calls and its task: calls in flight, and messages to write.
//!
//! An id belongs to its call until the answer has arrived, even if the call was dropped: so an answer never reaches the wrong call, and an
//! answer without a call is a fault of the peer.
//!
//! When the engine announces `going_away`, the connection drains: calls whose request is not written fail at once, to be retried elsewhere;
//! it ends when the others are answered.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use leafseal_protocol::{CONNECTION_ERROR, Frame, GOING_AWAY, GoingAway, Message, connection_error, request};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::answer::Answer;
use crate::answer_memory::AnswerMemory;
use crate::decisions::event_of;
use crate::error::{ClientError, RequestProgress};
use crate::outgoing::{Outgoing, WRITE_SIZE};
use crate::places::DialTarget;
use crate::rule::AttemptEvent;
use crate::settings::ClientSettings;
use crate::signals::PoolSignals;

type CallResult = Result<Answer, ClientError>;

/// The owner of connections: the pool, which they notify of what concerns other calls.
pub(crate) trait Owner: Send + Sync {
    /// A slot is free: another call may begin.
    fn released(self: Arc<Self>);

    /// A connection has ended, or takes no further calls.
    fn became_unusable(self: Arc<Self>, connection: &ConnectionShared, has_answered: bool);

    /// The engine of a place is avoided after an event with this code, if the rules say so.
    fn avoid_after(&self, place: DialTarget, event: AttemptEvent, code: &str);

    /// An engine has done a call that began when this many refusals were known.
    fn succeeded(&self, place: DialTarget, refusals: u64);
}

pub(crate) struct ConnectionShared {
    state: Mutex<ConnectionState>,
    /// Notified when there is something to write, or the connection must close.
    to_write: Notify,
    /// Notified when a call is abandoned.
    to_watch: Notify,
    /// Slots for calls; closed with the connection.
    slots: Arc<Semaphore>,
    slots_max: usize,
    abandoned_timeout: Duration,
    place: DialTarget,
    /// Whether calls may begin here.
    is_usable: AtomicBool,
    owner: Weak<dyn Owner>,
    signals: Arc<PoolSignals>,
}

/// The resources of a call while it is in flight.
pub(crate) struct CallOrigin {
    /// Called before a large answer needs memory.
    pub(crate) memory: Option<Arc<dyn AnswerMemory>>,
    /// Held until the answer has arrived.
    pub(crate) _slot: OwnedSemaphorePermit,
    /// How many refusals the pool knew when the call began.
    pub(crate) refusals: u64,
    /// Whether success earns credit for retries.
    pub(crate) earns: bool,
}

#[derive(Default)]
struct ConnectionState {
    /// Bounded by the slots: each message is the request of a call that has one, whose caller waits and would hold the bytes anyway, or
    /// the few bytes of `cancel` for a call that was dropped and keeps its slot.
    queue: VecDeque<Queued>,
    calls: HashMap<u32, ConnectionCall>,
    next_id: u32,
    /// Set once an answer has arrived.
    has_answered: bool,
    /// Set once the connection drains: no call begins afterwards, those in flight finish.
    going_away: Option<GoingAway>,
    /// Set once; nothing begins afterwards.
    ended: Option<ClientError>,
}

struct Queued {
    /// The request's id; a notification has none.
    id: Option<u32>,
    message: Outgoing,
}

struct ConnectionCall {
    stage: CallStage,
    origin: CallOrigin,
}

enum CallStage {
    /// No byte is written.
    Queued(oneshot::Sender<CallResult>),
    /// Written partly or completely.
    Written(oneshot::Sender<CallResult>),
    /// Written, and dropped by its caller since then.
    Abandoned(Instant),
}

/// The writer's next action.
pub(crate) enum WriterAction {
    Write(Outgoing),
    Wait,
    Close,
}

impl ConnectionShared {
    pub(crate) fn new(
        settings: &ClientSettings,
        owner: Weak<dyn Owner>,
        signals: Arc<PoolSignals>,
        place: DialTarget,
    ) -> Self {
        let slots_max = settings.requests_in_flight_max;
        ConnectionShared {
            state: Mutex::default(),
            to_write: Notify::new(),
            to_watch: Notify::new(),
            slots: Arc::new(Semaphore::new(slots_max)),
            slots_max,
            abandoned_timeout: settings.abandoned_timeout,
            place,
            is_usable: AtomicBool::new(true),
            owner,
            signals,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().expect("nothing panics while this is locked")
    }

    /// Whether calls may begin here.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_usable.load(Ordering::Acquire)
    }

    /// The pool has replaced this connection: no call begins any more.
    pub(crate) fn note_replaced(&self) {
        self.is_usable.store(false, Ordering::Release);
    }

    /// No call begins any more; notifies the pool once.
    fn note_unusable(&self) {
        if self.is_usable.swap(false, Ordering::AcqRel)
            && let Some(owner) = self.owner.upgrade()
        {
            let has_answered = self.lock().has_answered;
            owner.became_unusable(self, has_answered);
        }
    }

    /// A slot is free: another call may begin.
    fn note_released(&self) {
        if self.signals.has_waiting()
            && let Some(owner) = self.owner.upgrade()
        {
            owner.released();
        }
    }

    /// The effects of an event on the pool, which precede those on its calls.
    fn note_error(&self, error: &ClientError) {
        if let Some((event, code)) = event_of(error) {
            self.avoid_after(event, code);
        }
    }

    fn avoid_after(&self, event: AttemptEvent, code: &str) {
        if let Some(owner) = self.owner.upgrade() {
            owner.avoid_after(self.place, event, code);
        }
    }

    /// The effects of an answer on the pool.
    fn note_answer(&self, answer: &CallResult, origin: &CallOrigin) {
        match answer {
            Ok(_) if !origin.earns => {}
            Ok(_) => {
                self.signals.budget.earn();
                if self.signals.has_refusals()
                    && let Some(owner) = self.owner.upgrade()
                {
                    owner.succeeded(self.place, origin.refusals);
                }
            }
            Err(error) => self.note_error(error),
        }
    }

    /// Calls whose answer has not arrived.
    pub(crate) fn load(&self) -> usize {
        self.slots_max - self.slots.available_permits()
    }

    /// A slot for a call, if one is free.
    pub(crate) fn take_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    /// Begins a call: assigns an id, queues what `encode` returns.
    pub(crate) fn begin(
        self: &Arc<Self>,
        origin: CallOrigin,
        encode: impl FnOnce(u32) -> Result<Outgoing, ClientError>,
    ) -> Result<Ticket, ClientError> {
        let (sender, answer) = oneshot::channel();
        let id = self.lock().insert(sender, origin)?;
        // From here on the ticket releases the id, whatever happens.
        let ticket = Ticket { shared: Arc::clone(self), id, answer, is_answered: false };
        let message = encode(id)?;
        {
            let mut state = self.lock();
            // `going_away` may have failed the call during the encoding; the caller then retries it on another connection.
            if state.calls.contains_key(&id) {
                state.queue.push_back(Queued { id: Some(id), message });
            }
        }
        self.to_write.notify_one();
        Ok(ticket)
    }

    /// Drains the connection: no new requests are sent, and it ends once everything in flight is answered.
    pub(crate) fn drain(&self, reason: GoingAway) {
        let unsent = self.lock().drain(reason);
        self.slots.close();
        self.note_unusable();
        for waiting in unsent {
            let _ = waiting.send(Err(ClientError::going_away()));
        }
        self.to_write.notify_one();
    }

    /// The bytes to write next. Requests in them count as written from here on.
    pub(crate) fn next_write(&self) -> WriterAction {
        let mut state = self.lock();
        let Some(first) = state.queue.pop_front() else {
            return if state.ended.is_some() { WriterAction::Close } else { WriterAction::Wait };
        };
        state.note_written(first.id);
        let mut message = first.message;
        while let Some(next) = state.queue.front()
            && message.size() + next.message.size() <= WRITE_SIZE
        {
            let next = state.queue.pop_front().expect("it was there a moment ago");
            state.note_written(next.id);
            message.append(&next.message);
        }
        WriterAction::Write(message)
    }

    pub(crate) async fn wait_to_write(&self) {
        self.to_write.notified().await;
    }

    /// Whether an arriving answer that now needs `size` bytes of memory is kept. If not, its call has failed, or was dropped.
    pub(crate) fn wants(&self, id: u32, size: usize) -> bool {
        let (memory, is_awaited) = self.lock().memory_of(id);
        // Called without the lock, because it is the caller's code.
        let has_room = memory.is_none_or(|memory| memory.resize(size));
        if is_awaited && has_room {
            return true;
        }
        if let Some(waiting) = self.lock().give_up(id, Instant::now()) {
            let _ = waiting.send(Err(ClientError::no_memory(size)));
        }
        false
    }

    /// Whether the call of an arriving answer is still waiting and does not limit the memory of its answer.
    pub(crate) fn is_unlimited(&self, id: u32) -> bool {
        matches!(self.lock().memory_of(id), (None, true))
    }

    /// The rest of a discarded answer has arrived.
    pub(crate) fn discarded(&self, id: u32) {
        if self.lock().answered(id).1 {
            self.to_write.notify_one();
        }
        self.note_released();
    }

    /// Delivers a message of the engine to its call.
    ///
    /// # Errors
    /// If the connection cannot continue, for all calls in flight.
    pub(crate) fn deliver(&self, frame: Frame) -> Result<(), ClientError> {
        let id = match Message::parse(frame.head()) {
            Ok(Message::Response { id, .. }) => id,
            Ok(Message::Notification { method: CONNECTION_ERROR, params }) => {
                return Err(match connection_error(params) {
                    Ok(error) => ClientError::of_connection(&error),
                    Err(_) => ClientError::protocol("the engine ended the connection for a reason that cannot be read"),
                });
            }
            Ok(Message::Notification { method: GOING_AWAY, params }) => match GoingAway::decode(params) {
                GoingAway::Closed => return Err(ClientError::going_away()),
                reason => {
                    self.avoid_after(AttemptEvent::GoingAway, reason.as_str());
                    self.drain(reason);
                    return Ok(());
                }
            },
            Ok(Message::Notification { .. }) => return Ok(()),
            Ok(Message::Request { .. }) => return Err(ClientError::protocol("the engine sent a request")),
            Err(error) => return Err(ClientError::protocol(format!("the engine sent no message: {error}"))),
        };
        let (call, is_over) = self.lock().answered(id);
        if is_over {
            self.to_write.notify_one();
        }
        match call {
            Some(ConnectionCall { stage: CallStage::Written(waiting), origin }) => {
                let answer = Answer::of_response(frame);
                self.note_answer(&answer, &origin);
                drop(origin);
                // The caller may have dropped the call at this moment; the answer is not needed then.
                let _ = waiting.send(answer);
                self.note_released();
                Ok(())
            }
            Some(ConnectionCall { stage: CallStage::Abandoned(_), origin }) => {
                drop(origin);
                self.note_released();
                Ok(())
            }
            Some(ConnectionCall { stage: CallStage::Queued(_), .. }) | None => {
                let message = format!("the engine answered id {id}, which is not in flight");
                Err(ClientError::protocol(message))
            }
        }
    }

    /// Ends the connection for all calls, present and future. The first reason is kept.
    pub(crate) fn fail(&self, error: ClientError) {
        self.note_error(&error);
        let mut state = self.lock();
        let error = state.ended.get_or_insert(error).clone();
        state.queue.clear();
        let mut calls: Vec<_> = std::mem::take(&mut state.calls).into_iter().collect();
        drop(state);
        self.slots.close();
        self.note_unusable();
        // In a fixed order, so that a simulation can be replayed.
        calls.sort_unstable_by_key(|(id, _)| *id);
        for (_, call) in calls {
            let (waiting, sent) = match call.stage {
                CallStage::Queued(waiting) => (waiting, RequestProgress::No),
                CallStage::Written(waiting) => (waiting, RequestProgress::Maybe),
                CallStage::Abandoned(_) => continue,
            };
            let _ = waiting.send(Err(error.for_call(sent)));
        }
        self.to_write.notify_one();
    }

    /// Begins nothing more; queued messages are still written.
    pub(crate) fn close(&self) {
        self.is_usable.store(false, Ordering::Release);
        let closed = ClientError::lost(RequestProgress::No, "the connection was closed");
        self.lock().ended.get_or_insert(closed);
        self.slots.close();
        self.to_write.notify_one();
    }

    /// The call `id` was dropped.
    fn abandon(&self, id: u32) {
        let is_released = self.lock().abandon(id, Instant::now());
        self.to_watch.notify_one();
        self.to_write.notify_one();
        if is_released {
            self.note_released();
        }
    }

    /// Waits until an abandoned call has missed its answer for too long; returns why the connection ends. This must not depend on a further
    /// call: if all slots are abandoned none could begin.
    pub(crate) async fn watch(&self) -> ClientError {
        loop {
            let Some(since) = self.lock().oldest_abandoned() else {
                self.to_watch.notified().await;
                continue;
            };
            let until = since + self.abandoned_timeout;
            if until <= Instant::now() {
                return ClientError::lost(RequestProgress::Maybe, "the engine does not answer on this connection");
            }
            sleep_until(until).await;
        }
    }
}

impl ConnectionState {
    fn insert(&mut self, waiting: oneshot::Sender<CallResult>, origin: CallOrigin) -> Result<u32, ClientError> {
        if let Some(error) = &self.ended {
            return Err(error.for_call(RequestProgress::No));
        }
        if self.going_away.is_some() {
            return Err(ClientError::going_away());
        }
        // There are far fewer slots than ids, so a free one is near.
        while self.calls.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.calls.insert(id, ConnectionCall { stage: CallStage::Queued(waiting), origin });
        Ok(id)
    }

    /// The memory limiter of a call's answer, and whether the call still waits. An answer without a call counts as awaited: it is a fault
    /// of the peer, which is detected when it is complete.
    fn memory_of(&self, id: u32) -> (Option<Arc<dyn AnswerMemory>>, bool) {
        let Some(call) = self.calls.get(&id) else { return (None, true) };
        (call.origin.memory.clone(), !matches!(call.stage, CallStage::Abandoned(_)))
    }

    /// Abandons a call whose answer is discarded while it arrives; returns its sender.
    fn give_up(&mut self, id: u32, now: Instant) -> Option<oneshot::Sender<CallResult>> {
        let call = self.calls.get_mut(&id)?;
        call.origin.memory = None;
        match std::mem::replace(&mut call.stage, CallStage::Abandoned(now)) {
            CallStage::Queued(waiting) | CallStage::Written(waiting) => Some(waiting),
            CallStage::Abandoned(since) => {
                call.stage = CallStage::Abandoned(since);
                None
            }
        }
    }

    /// Removes an answered call; also returns whether that ends the connection.
    fn answered(&mut self, id: u32) -> (Option<ConnectionCall>, bool) {
        self.has_answered = true;
        self.remove(id)
    }

    /// Removes a call; also returns whether that ends the connection.
    fn remove(&mut self, id: u32) -> (Option<ConnectionCall>, bool) {
        let call = self.calls.remove(&id);
        (call, self.end_if_drained())
    }

    /// Ends a draining connection if nothing is in flight.
    fn end_if_drained(&mut self) -> bool {
        let is_over = self.going_away.is_some() && self.calls.is_empty();
        if is_over {
            self.ended.get_or_insert_with(ClientError::going_away);
        }
        is_over
    }

    /// Begins to drain; returns the calls of which nothing is written, in the order of their ids, so that a simulation can
    /// be replayed.
    fn drain(&mut self, reason: GoingAway) -> Vec<oneshot::Sender<CallResult>> {
        self.going_away.get_or_insert(reason);
        self.queue.retain(|queued| queued.id.is_none());
        let is_queued = |call: &ConnectionCall| matches!(call.stage, CallStage::Queued(_));
        let mut ids: Vec<u32> = self.calls.iter().filter(|(_, call)| is_queued(call)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let calls = ids.into_iter().filter_map(|id| self.calls.remove(&id));
        let waiting = calls.filter_map(|call| match call.stage {
            CallStage::Queued(waiting) => Some(waiting),
            CallStage::Written(_) | CallStage::Abandoned(_) => None,
        });
        let waiting = waiting.collect();
        self.end_if_drained();
        waiting
    }

    fn note_written(&mut self, id: Option<u32>) {
        let Some(call) = id.and_then(|id| self.calls.get_mut(&id)) else {
            return;
        };
        let stage = std::mem::replace(&mut call.stage, CallStage::Abandoned(Instant::now()));
        call.stage = match stage {
            CallStage::Queued(waiting) => CallStage::Written(waiting),
            other => other,
        };
    }

    /// Removes a request that is not written yet; for a written one, queues `cancel`, and its id waits for the answer.
    /// Returns whether its slot is free.
    fn abandon(&mut self, id: u32, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&id) else {
            return false;
        };
        match call.stage {
            CallStage::Queued(_) => {
                self.remove(id);
                self.queue.retain(|queued| queued.id != Some(id));
                return true;
            }
            CallStage::Written(_) => {
                call.stage = CallStage::Abandoned(now);
                let message = Outgoing::new(|out| request::cancel(id, out));
                self.queue.push_back(Queued { id: None, message });
            }
            CallStage::Abandoned(_) => {}
        }
        false
    }

    fn oldest_abandoned(&self) -> Option<Instant> {
        let since = |call: &ConnectionCall| match call.stage {
            CallStage::Abandoned(since) => Some(since),
            CallStage::Queued(_) | CallStage::Written(_) => None,
        };
        self.calls.values().filter_map(since).min()
    }
}

/// A call in flight. If it is dropped before its answer has arrived, the call is cancelled.
pub(crate) struct Ticket {
    shared: Arc<ConnectionShared>,
    id: u32,
    answer: oneshot::Receiver<CallResult>,
    is_answered: bool,
}

impl Ticket {
    pub(crate) async fn answer(mut self) -> CallResult {
        let outcome = (&mut self.answer).await;
        self.is_answered = true;
        outcome.unwrap_or_else(|_| Err(ClientError::lost(RequestProgress::Maybe, "the connection's task has ended")))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_answered {
            self.shared.abandon(self.id);
        }
    }
}
