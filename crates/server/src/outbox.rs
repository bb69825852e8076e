//! Passes answers from the workers to a connection's network task.
//!
//! A worker appends an answer and wakes the task if it has taken everything before: many answers that finish together cost one wake-up.
//! Small answers are combined, so that they are sent in one TLS record; large ones are sent in the buffers in which they were written.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use leafseal_engine::pool::is_inline;
use leafseal_protocol::{ErrorObject, FrameLimits, Scanner, answer};

use crate::audit::AnswerRelease;
use crate::metrics::RequestRecord;
use leafseal_service::Share;
use leafseal_service::{AnswerReceiver, Answered, Effort};
use leafseal_service::{FREED_BUFFERS_MAX, MERGE_SIZE_MAX, Rope};

/// One message, or several that are sent together, or a piece of a large one.
struct OutboxBuffer {
    bytes: Vec<u8>,
    /// Their share of the memory for answers; `None` for the server's own short messages, which are not charged.
    share: Option<Share>,
    /// Bytes of those short messages.
    uncounted: usize,
}

impl OutboxBuffer {
    fn extend(&mut self, other: OutboxBuffer) {
        self.bytes.extend_from_slice(&other.bytes);
        self.uncounted += other.uncounted;
        match (&mut self.share, other.share) {
            (Some(own), Some(share)) => own.absorb(share),
            (own @ None, share) => *own = share,
            (Some(_), None) => {}
        }
    }
}

/// Complete messages waiting to be sent, in order.
#[derive(Default)]
pub(crate) struct OutboxBuffers {
    buffers: VecDeque<OutboxBuffer>,
    /// How many bytes of the first buffer are written.
    written: usize,
    bytes: usize,
    uncounted: usize,
}

impl OutboxBuffers {
    /// Appends a complete message. Its share is released as it is written.
    pub(crate) fn push(&mut self, message: Rope, mut share: Option<Share>) {
        for bytes in message.into_buffers().filter(|bytes| !bytes.is_empty()) {
            let of_this = share.as_mut().map(|share| share.split(bytes.capacity()));
            let uncounted = if of_this.is_some() { 0 } else { bytes.len() };
            self.push_buffer(OutboxBuffer { bytes, share: of_this, uncounted });
        }
    }

    fn push_buffer(&mut self, buffer: OutboxBuffer) {
        self.bytes += buffer.bytes.len();
        self.uncounted += buffer.uncounted;
        match self.buffers.back_mut() {
            Some(last) if last.bytes.len() + buffer.bytes.len() <= MERGE_SIZE_MAX => {
                last.extend(buffer);
            }
            _ => self.buffers.push_back(buffer),
        }
    }

    pub(crate) fn append(&mut self, other: OutboxBuffers) {
        if self.bytes == 0 {
            *self = other;
        } else {
            other.buffers.into_iter().for_each(|buffer| self.push_buffer(buffer));
        }
    }

    /// The bytes to write next; empty if there are none.
    pub(crate) fn front(&self) -> &[u8] {
        self.buffers.front().map_or(&[], |buffer| &buffer.bytes[self.written..])
    }

    /// Records that `size` bytes of [`OutboxBuffers::front`] are written. A buffer that is written completely is freed at once.
    pub(crate) fn advance(&mut self, size: usize) {
        self.written += size;
        self.bytes -= size;
        if self.buffers.front().is_some_and(|buffer| self.written == buffer.bytes.len()) {
            self.uncounted -= self.buffers.pop_front().map_or(0, |buffer| buffer.uncounted);
            self.written = 0;
        }
    }

    /// Frees some of the buffers, as many as a thread frees at once; returns whether those were all.
    pub(crate) fn free_some(&mut self) -> bool {
        self.buffers.truncate(self.buffers.len().saturating_sub(FREED_BUFFERS_MAX));
        self.buffers.is_empty()
    }

    /// Returns all bytes, for callers that do not write to a socket.
    pub(crate) fn into_bytes(self) -> Vec<Vec<u8>> {
        self.buffers.into_iter().map(|buffer| buffer.bytes).collect()
    }

    /// Bytes not yet written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes among them that are not charged, until the buffer that contains them is written.
    pub(crate) fn uncounted(&self) -> usize {
        self.uncounted
    }
}

/// Answers since the task's last check.
#[derive(Default)]
pub(crate) struct UncheckedAnswers {
    /// The ids of answered requests.
    pub(crate) ids: Vec<u32>,
    /// Their answers.
    pub(crate) buffers: OutboxBuffers,
}

#[derive(Default)]
struct OutboxState {
    answers: UncheckedAnswers,
    task: Option<Waker>,
    is_closed: bool,
}

/// The queue of answers of one connection, shared by its task and its requests.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
}

/// Omits the answers, which may be plaintext.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().expect("nothing panics while this is locked")
    }

    /// Registers the task to wake. Called in each of its polls, before it checks for answers.
    pub(crate) fn register(&self, task: &Waker) {
        let mut state = self.lock();
        if !state.task.as_ref().is_some_and(|known| known.will_wake(task)) {
            state.task = Some(task.clone());
        }
    }

    pub(crate) fn take(&self) -> UncheckedAnswers {
        std::mem::take(&mut self.lock().answers)
    }

    /// Wakes the task for a reason other than an answer.
    pub(crate) fn wake(&self) {
        let task = self.lock().task.clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Closes the queue: later answers are dropped at once. Returns earlier ones, to be freed.
    pub(crate) fn close(&self) -> OutboxBuffers {
        let mut state = self.lock();
        state.is_closed = true;
        state.task = None;
        std::mem::take(&mut state.answers).buffers
    }

    fn send(&self, id: u32, message: Rope, share: Option<Share>) {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            // A large answer is freed outside the lock, and its share afterwards.
            drop((message, share));
            return;
        }
        // An inline slice runs within the task, which then looks for answers by itself.
        let must_wake = state.answers.ids.is_empty() && !is_inline();
        let task = must_wake.then(|| state.task.clone()).flatten();
        state.answers.ids.push(id);
        state.answers.buffers.push(message, share);
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Receives the answer of a request and queues it as a message among the others of its connection.
pub(crate) struct ConnectionReceiver {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) id: u32,
    pub(crate) record: RequestRecord,
}

impl AnswerReceiver for ConnectionReceiver {
    fn takes(&self, written: &Rope) -> bool {
        debug_assert!(written.size() == 0 || is_one_message(written), "the service writes exactly one message");
        written.size() > 0
    }

    fn receive(self: Box<Self>, answered: Answered, effort: Effort) {
        let ConnectionReceiver { outbox, id, record } = *self;
        let (release, message, share) = match answered {
            Ok((message, share)) => (record.end(Ok(message.size()), effort), message, Some(share)),
            Err(error) => {
                let message = error_message(id, &error);
                (record.end(Err((&error, message.size())), effort), message, None)
            }
        };
        match release {
            AnswerRelease::Now => outbox.send(id, message, share),
            AnswerRelease::Durable(held) => held.release(move |released| match released {
                Ok(()) => outbox.send(id, message, share),
                Err(error) => outbox.send(id, error_message(id, &error), None),
            }),
            AnswerRelease::Withheld(error) => outbox.send(id, error_message(id, &error), None),
        }
    }
}

fn error_message(id: u32, error: &ErrorObject) -> Rope {
    let mut out = Vec::new();
    answer::error(id, error, &mut out);
    out.into()
}

fn is_one_message(written: &Rope) -> bool {
    let limits = FrameLimits { frame_size_max: usize::MAX, elements_max: u32::MAX, ..FrameLimits::default() };
    let bytes = written.buffers().collect::<Vec<_>>().concat();
    Scanner::new(limits).scan(&bytes) == Ok(Some(bytes.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use leafseal_engine::pool::{CancelReason, Cancellation};
    use leafseal_protocol::ErrorCode;

    use super::*;
    use crate::clock;
    use crate::metrics::{Arrival, RequestOutcome, Requests};
    use leafseal_service::Reply;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn small_messages_are_sent_together_and_large_ones_separately() {
        let mut buffers = OutboxBuffers::default();
        let sizes = [10, 20, MERGE_SIZE_MAX - 30, 1, MERGE_SIZE_MAX + 1, 5];
        sizes.into_iter().for_each(|size| buffers.push(vec![size as u8; size].into(), None));
        let total: usize = sizes.iter().sum();
        assert_eq!(buffers.bytes(), total);
        let mut seen = Vec::new();
        let mut fronts = Vec::new();
        while !buffers.front().is_empty() {
            let front = buffers.front();
            fronts.push(front.len());
            let piece = front.len().min(9_999);
            seen.extend_from_slice(&front[..piece]);
            buffers.advance(piece);
        }
        assert_eq!(buffers.bytes(), 0);
        assert!(seen == sizes.map(|size| vec![size as u8; size]).concat());
        assert_eq!(fronts[0], MERGE_SIZE_MAX);
    }

    #[test]
    fn a_share_lasts_until_its_message_is_written() {
        let mut origin = Share::alone(100_000);
        let mut share = |bytes| {
            origin.resize(bytes).unwrap();
            Some(origin.take())
        };
        let mut buffers = OutboxBuffers::default();
        buffers.push(vec![0; 5].into(), None);
        for size in [10, 20, 50_000] {
            let share = share(size);
            buffers.push(vec![0; size].into(), share);
        }
        let watch = Share::take(&mut origin);
        let mut other = OutboxBuffers::default();
        std::mem::swap(&mut other, &mut buffers);
        buffers.append(other);
        buffers.push(vec![0; 7].into(), None);
        let mut held = Vec::new();
        for size in [34, 1, 49_999, 1, 7] {
            held.push((watch.budget_used(), buffers.uncounted()));
            buffers.advance(size);
        }
        assert_eq!(held, [(50_030, 12), (50_030, 12), (50_000, 7), (50_000, 7), (0, 7)]);
        assert_eq!((watch.budget_used(), buffers.uncounted(), buffers.bytes()), (0, 0, 0));
    }

    #[test]
    fn unsent_answers_are_freed_in_pieces_with_their_share() {
        const COUNT: usize = 10 * FREED_BUFFERS_MAX + 1;
        let mut origin = Share::alone(COUNT * MERGE_SIZE_MAX);
        let mut buffers = OutboxBuffers::default();
        for _ in 0..COUNT {
            origin.resize(MERGE_SIZE_MAX).unwrap();
            buffers.push(vec![0; MERGE_SIZE_MAX].into(), Some(origin.take()));
        }
        for left in (0..COUNT).rev().step_by(FREED_BUFFERS_MAX) {
            assert_eq!(origin.budget_used(), (left + 1) * MERGE_SIZE_MAX);
            assert_eq!(buffers.free_some(), left < FREED_BUFFERS_MAX);
        }
        assert_eq!((origin.budget_used(), buffers.free_some()), (0, true));
    }

    #[test]
    fn one_wake_for_all_answers_until_they_are_taken() {
        let outbox = Arc::new(Outbox::default());
        let wakes = Arc::new(Count::default());
        outbox.register(&Waker::from(Arc::clone(&wakes)));
        for id in [3, 1, 2] {
            outbox.send(id, vec![id as u8].into(), None);
        }
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        let answers = outbox.take();
        assert_eq!((answers.ids, answers.buffers.front()), (vec![3, 1, 2], &[3, 1, 2][..]));
        outbox.send(4, vec![4].into(), None);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        drop(outbox.close());
        outbox.send(5, vec![5].into(), None);
        assert_eq!((outbox.take().ids, wakes.0.load(Ordering::Relaxed)), (vec![], 2));
    }

    #[test]
    fn a_reply_is_sent_and_counted_once_and_never_forgotten() {
        let mut shares = Share::alone(1);
        let (outbox, requests) = (Arc::new(Outbox::default()), Arc::new(Requests::default()));
        let arrival = Arrival { method: None, size: 5, at: clock::now() };
        let cancellations: Vec<Arc<Cancellation>> = (0..4).map(|_| Arc::default()).collect();
        let reply = |id: u32| {
            let cancellation = Arc::clone(&cancellations[id as usize]);
            let record = RequestRecord::new(Arc::clone(&requests), arrival, cancellation);
            Reply::new(ConnectionReceiver { outbox: Arc::clone(&outbox), id, record })
        };
        reply(1).send(vec![0x90].into(), shares.take(), Effort::default());
        drop(reply(2));
        let late = reply(3);
        cancellations[3].cancel(CancelReason::Disconnected);
        late.send(vec![0x90].into(), shares.take(), Effort::default());
        let answers = outbox.take();
        assert_eq!(answers.ids, [1, 2, 3]);
        assert!(String::from_utf8_lossy(answers.buffers.front()).contains("internal"));
        let outcomes = requests.outcomes();
        assert_eq!((outcomes.total(), outcomes.of(RequestOutcome::Ok), outcomes.of(ErrorCode::Internal)), (3, 1, 1));
        assert_eq!(outcomes.of(RequestOutcome::Disconnected), 1, "an answer that cannot be delivered is no success");
    }
}
