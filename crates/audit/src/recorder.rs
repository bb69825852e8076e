//! Takes records from many threads and makes them durable in groups, on one thread of its own, so that no request waits for a disk unless
//! it asks to.
//!
//! ```text
//! record:  under a short lock, time and text go to the open group        the ticket is its number
//! thread:  take the open group ─▶ append ─▶ durable up to its last ticket ─▶ wake who waits
//!          once in a while ─▶ what is new, to the thread that publishes, unless that is still busy
//! a disk refuses:  who waits learns it; the group is kept and tried again; the open group grows to its bound; then records are refused
//!                  and counted, and a gap record says how many there were as soon as one is written again
//! publishing lags: the journal grows to a bound; then groups wait as they do for a disk
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::appender::LogAppender;
use crate::error::LogError;
use crate::figures::{RecorderFigures, RecorderTally};
use crate::journal::FRAME_SIZE_MAX;
use crate::log::AuditLog;
use crate::publisher::LogPublisher;
use crate::publishing::{Publishing, PublishingThread};
use crate::retention::{PruningLog, Retention};
use crate::tile::{ENTRY_SIZE_MAX, push_entry};
use crate::time::{entry_era, entry_time, time_text};

/// Bytes of a record that its time takes.
const TIME_SIZE_MAX: usize = 128;
/// Longest text of a record, without its time.
pub const RECORD_SIZE_MAX: usize = ENTRY_SIZE_MAX - TIME_SIZE_MAX;
/// How much the clock may go back before a record says so.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
/// How much the clock may go back before an era begins, in which times follow it.
const ERA_TOLERANCE: Duration = Duration::from_secs(60);
/// Room in a frame for records that the recorder adds itself.
const OWN_RECORDS_SIZE: usize = 4096;

/// Bounds and pace of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderRules {
    /// Bytes of records that wait to be written.
    pub waiting_bytes_max: usize,
    /// Between two checkpoints, while there are new records.
    pub checkpoint_interval: Duration,
    /// Between two attempts while a disk refuses.
    pub retry_interval: Duration,
    /// How long records are kept; all without.
    pub retention: Option<Duration>,
}

impl Default for RecorderRules {
    fn default() -> Self {
        Self {
            waiting_bytes_max: 8 << 20,
            checkpoint_interval: Duration::from_secs(1),
            retry_interval: Duration::from_millis(500),
            retention: None,
        }
    }
}

/// The number of a record, in the order of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordTicket(u64);

/// Why a record was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordRefusal {
    /// The log's disk refuses, or is too slow: what waits to be written has reached its bound.
    #[error("the audit log takes no records: its disk is full or does not answer")]
    Full,
    /// Longer than [`RECORD_SIZE_MAX`], or no JSON object.
    #[error("not a record of at most {RECORD_SIZE_MAX} bytes")]
    Malformed,
    /// The recorder ends.
    #[error("the audit log is closed")]
    Closed,
}

/// Unix time in microseconds.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// Whether a record that was waited for is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is.
    Durable,
    /// The disk refuses. The record is kept, and may become durable later.
    Refused,
}

type Waiter = (RecordTicket, Box<dyn FnOnce(Durability) + Send>);

/// A log that many threads write to.
pub struct Recorder {
    shared: Arc<RecorderShared>,
    thread: Option<JoinHandle<Option<AuditLog>>>,
}

struct RecorderShared {
    rules: RecorderRules,
    clock: Clock,
    /// The index from which on records are kept, whatever their age.
    kept_from: Arc<AtomicU64>,
    state: Mutex<RecorderState>,
    news: Condvar,
}

#[derive(Default)]
struct RecorderState {
    /// Records that are not being written yet, as a bundle.
    open: Vec<u8>,
    /// The number of the next record.
    next: u64,
    /// Records below are durable.
    durable: u64,
    /// Bytes that are being written.
    writing_bytes: usize,
    /// By ticket.
    waiters: VecDeque<Waiter>,
    /// Time of the last record.
    last_us: u64,
    /// The index of the record with ticket 0.
    base: u64,
    /// The index of the first record of the era; 0 for the first era.
    era: u64,
    /// Records that were refused since the last gap record, and the time of the first.
    lost: u64,
    lost_since_us: u64,
    fault: Option<String>,
    /// Why no checkpoint can be written. Records are durable without.
    checkpoint_fault: Option<String>,
    tally: RecorderTally,
    is_closed: bool,
    /// The writing thread has ended.
    has_ended: bool,
    /// It is not waited for any more.
    is_abandoned: bool,
}

impl Recorder {
    /// Starts the threads that write. `clock` gives the time of records. If it goes back by up to a minute, the log's times stand still,
    /// and records have a second time. If it goes back further, an era begins with a record that says so, and the log's times follow.
    ///
    /// # Panics
    /// When the system starts no thread.
    pub fn start(log: AuditLog, rules: RecorderRules, clock: Clock) -> Self {
        let (last_us, era) = (entry_time(log.last_entry()).unwrap_or(0), entry_era(log.last_entry()));
        let mut state = RecorderState { last_us, era, base: log.size(), ..RecorderState::default() };
        let waiting_bytes_max = rules.waiting_bytes_max.min(FRAME_SIZE_MAX - OWN_RECORDS_SIZE);
        let rules = RecorderRules { waiting_bytes_max, ..rules };
        if log.size() > log.published() {
            state.tally.await_checkpoint(Instant::now());
        }
        let kept_from = Arc::new(AtomicU64::new(u64::MAX));
        let shared =
            Arc::new(RecorderShared { rules, clock, kept_from, state: Mutex::new(state), news: Condvar::new() });
        let writer = Arc::clone(&shared);
        let end = EndOfWriting(Arc::clone(&shared));
        let published = Arc::clone(&shared);
        let run = move || {
            let _end = end;
            let AuditLog { appender, publisher } = log;
            let besides = Besides { shared: published, retention: rules.retention.map(Retention::new) };
            let publishing = PublishingThread::start(publisher, rules.retry_interval, Box::new(besides));
            RecordWriter { shared: writer, appender, publishing, handed_over_at: Instant::now() }.run()
        };
        let thread = std::thread::Builder::new().name("leafseal-audit".to_owned()).spawn(run).expect("a thread");
        Self { shared, thread: Some(thread) }
    }

    /// Takes a record: the text of a JSON object with at least one member, to which the time is added in front. Does not wait for the disk.
    ///
    /// # Errors
    /// [`RecordRefusal`]. A record that is refused is counted, and a gap record will say so, unless the recorder ends.
    pub fn record(&self, object: &[u8]) -> Result<RecordTicket, RecordRefusal> {
        let members = object.strip_prefix(b"{").filter(|members| members.len() > 1 && object.len() <= RECORD_SIZE_MAX);
        let now_us = (self.shared.clock)();
        let mut state = self.shared.lock();
        if state.is_closed {
            return Err(RecordRefusal::Closed);
        }
        let Some(members) = members else {
            state.lose(now_us);
            return Err(RecordRefusal::Malformed);
        };
        if state.open.len() + state.writing_bytes + object.len() + TIME_SIZE_MAX > self.shared.rules.waiting_bytes_max {
            state.lose(now_us);
            return Err(RecordRefusal::Full);
        }
        state.push_gap(now_us);
        let ticket = state.push(now_us, members);
        drop(state);
        self.shared.news.notify_one();
        Ok(ticket)
    }

    /// Whether a record is durable.
    pub fn is_durable(&self, ticket: RecordTicket) -> bool {
        ticket.0 < self.shared.lock().durable
    }

    /// Calls `then` once a record is durable, or the disk refuses: at once if that is so, else on the writing thread, which it must not
    /// hold up.
    pub fn when_durable(&self, ticket: RecordTicket, then: impl FnOnce(Durability) + Send + 'static) {
        let mut state = self.shared.lock();
        let is_durable = ticket.0 < state.durable;
        if !is_durable && state.fault.is_none() && !state.is_closed {
            let place = state.waiters.partition_point(|(other, _)| *other <= ticket);
            state.waiters.insert(place, (ticket, Box::new(then)));
            return;
        }
        drop(state);
        then(if is_durable { Durability::Durable } else { Durability::Refused });
    }

    /// Why the disk refuses, while it does.
    pub fn fault(&self) -> Option<String> {
        self.shared.lock().fault.clone()
    }

    /// Why no checkpoint can be written, or old records are not removed, while that is so. Records are durable without.
    pub fn checkpoint_fault(&self) -> Option<String> {
        self.shared.lock().checkpoint_fault.clone()
    }

    /// The index from which on records are kept whatever their age: of those that others still need. By default, none are.
    pub fn kept_from(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.kept_from)
    }

    /// What it has done since its start, and what waits.
    pub fn figures(&self) -> RecorderFigures {
        let state = self.shared.lock();
        state.tally.figures(state.durable, state.open.len() + state.writing_bytes)
    }

    /// Ends: what waits is written and published if the disk takes it; else it is lost with this process.
    pub fn close(mut self) -> Option<AuditLog> {
        self.shared.lock().is_closed = true;
        self.shared.news.notify_one();
        self.thread.take().and_then(|thread| thread.join().ok().flatten())
    }
}

impl Recorder {
    /// The same without the log, until a time: false if the disk has not answered then. Who waits is answered in either case, and the
    /// thread is not waited for any more.
    pub fn close_by(&self, deadline: Instant) -> bool {
        let mut state = self.shared.lock();
        state.is_closed = true;
        self.shared.news.notify_all();
        while !state.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.is_abandoned = true;
                let waiters = std::mem::take(&mut state.waiters);
                drop(state);
                waiters.into_iter().for_each(|(_, then)| then(Durability::Refused));
                return false;
            }
            state = self.shared.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.durable >= state.next
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Recorder").field("next", &state.next).field("durable", &state.durable).finish_non_exhaustive()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let is_abandoned = state.is_abandoned;
        drop(state);
        self.shared.news.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| !is_abandoned) {
            let _ = thread.join();
        }
    }
}

/// Lets nobody wait for a thread that has ended, also by a panic.
struct EndOfWriting(Arc<RecorderShared>);

impl Drop for EndOfWriting {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if !state.is_closed {
            state.fault = Some("its thread has ended, which is a bug".to_owned());
        }
        (state.is_closed, state.has_ended) = (true, true);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        self.0.news.notify_all();
        waiters.into_iter().for_each(|(_, then)| then(Durability::Refused));
    }
}

impl RecorderShared {
    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecorderState {
    /// Adds a record with its time, after one of kind `clock` if the clock went back far. `members` is a JSON object without its first
    /// brace.
    fn push(&mut self, now_us: u64, members: &[u8]) -> RecordTicket {
        if Duration::from_micros(self.last_us.saturating_sub(now_us)) > ERA_TOLERANCE {
            self.era = self.base + self.next;
            let before = time_text(std::mem::replace(&mut self.last_us, now_us));
            self.push_timed(now_us, format!("\"kind\":\"clock\",\"before\":\"{before}\"}}").as_bytes());
        }
        self.push_timed(now_us, members)
    }

    fn push_timed(&mut self, now_us: u64, members: &[u8]) -> RecordTicket {
        let time_us = now_us.max(self.last_us);
        self.last_us = time_us;
        let mut entry = format!("{{\"time\":\"{}\",", time_text(time_us)).into_bytes();
        if self.era > 0 {
            entry.extend_from_slice(format!("\"era\":{},", self.era).as_bytes());
        }
        if Duration::from_micros(time_us - now_us) > CLOCK_TOLERANCE {
            entry.extend_from_slice(format!("\"clock\":\"{}\",", time_text(now_us)).as_bytes());
        }
        entry.extend_from_slice(members);
        push_entry(&entry, &mut self.open);
        self.tally.take();
        self.next += 1;
        RecordTicket(self.next - 1)
    }

    /// Counts a record that is refused.
    fn lose(&mut self, now_us: u64) {
        if self.lost == 0 {
            self.lost_since_us = now_us;
        }
        self.lost += 1;
        self.tally.lose();
    }

    /// Adds what was refused, if anything was.
    fn push_gap(&mut self, now_us: u64) {
        if self.lost > 0 {
            let since = time_text(self.lost_since_us);
            let gap = format!("\"kind\":\"gap\",\"records\":{},\"since\":\"{since}\"}}", self.lost);
            self.lost = 0;
            self.push(now_us, gap.as_bytes());
        }
    }
}

/// What the thread that publishes does for the recorder.
struct Besides {
    shared: Arc<RecorderShared>,
    retention: Option<Retention<RecordTicket>>,
}

impl Publishing for Besides {
    fn attempted(&self) {
        // With the lock, so that the writer does not miss it between a look and its sleep.
        drop(self.shared.lock());
        self.shared.news.notify_all();
    }

    fn tidy(&mut self, publisher: &mut LogPublisher) -> Result<(), LogError> {
        let Some(retention) = &mut self.retention else { return Ok(()) };
        retention.step(publisher, Instant::now(), (self.shared.clock)(), &*self.shared)
    }
}

impl PruningLog for RecorderShared {
    type Ticket = RecordTicket;

    fn announce(&self, text: &str) -> Option<RecordTicket> {
        let now_us = (self.clock)();
        let mut state = self.lock();
        let ticket = (!state.is_closed).then(|| state.push(now_us, &text.as_bytes()[1..]));
        drop(state);
        self.news.notify_all();
        ticket
    }

    fn is_durable(&self, ticket: RecordTicket) -> bool {
        ticket.0 < self.lock().durable
    }

    fn kept_from(&self) -> u64 {
        self.kept_from.load(Ordering::Relaxed)
    }
}

/// What the thread has.
struct RecordWriter {
    shared: Arc<RecorderShared>,
    appender: LogAppender,
    publishing: PublishingThread,
    handed_over_at: Instant,
}

impl RecordWriter {
    fn run(mut self) -> Option<AuditLog> {
        while let Some((group, last)) = self.next_group() {
            if !group.is_empty() && !self.write(&group, last) {
                break;
            }
            self.hand_over_if_due();
        }
        // The last records are durable; a start publishes what this attempt does not.
        let Self { publishing, mut appender, .. } = self;
        let rest = if publishing.is_idle() { appender.publication() } else { None };
        if let Some(rest) = rest {
            publishing.hand_over(rest);
        }
        let (publisher, done) = publishing.close()?;
        if let Some(done) = done {
            appender.acknowledge(done);
        }
        let mut log = AuditLog { appender, publisher };
        let _ = log.publish();
        Some(log)
    }

    /// The open group, once it has records, and the number after its last; an empty one when a checkpoint is due, and none at the end.
    fn next_group(&self) -> Option<(Vec<u8>, u64)> {
        let mut state = self.shared.lock();
        loop {
            if state.open.is_empty() && state.lost > 0 {
                state.push_gap((self.shared.clock)());
            }
            if !state.open.is_empty() {
                let group = std::mem::take(&mut state.open);
                state.writing_bytes = group.len();
                state.tally.begin_writing();
                return Some((group, state.next));
            }
            if state.is_closed {
                return None;
            }
            state.checkpoint_fault = self.publishing.any_fault();
            if self.publishing.is_done() {
                state.tally.cover(self.newer_since());
            }
            let due = self.until_checkpoint();
            if due.is_zero() {
                return Some((Vec::new(), state.next));
            }
            let waited = self.shared.news.wait_timeout(state, due);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How long no checkpoint is due. The end of a publication wakes this thread.
    fn until_checkpoint(&self) -> Duration {
        if !self.appender.has_fresh() || !self.publishing.is_idle() {
            return Duration::MAX;
        }
        if self.appender.has_many_fresh() {
            return Duration::ZERO;
        }
        self.shared.rules.checkpoint_interval.saturating_sub(self.handed_over_at.elapsed())
    }

    /// Writes a group, however long the disk refuses; false if the recorder ends before.
    fn write(&mut self, group: &[u8], last: u64) -> bool {
        while let Err(error) = self.append(group) {
            let mut state = self.shared.lock();
            state.fault = Some(error.to_string());
            state.checkpoint_fault = self.publishing.any_fault();
            let waiters = std::mem::take(&mut state.waiters);
            drop(state);
            waiters.into_iter().for_each(|(_, then)| then(Durability::Refused));
            let state = self.shared.lock();
            if state.is_closed {
                return false;
            }
            let waited =
                self.shared.news.wait_timeout_while(state, self.shared.rules.retry_interval, |state| !state.is_closed);
            drop(waited);
        }
        let mut state = self.shared.lock();
        (state.durable, state.writing_bytes, state.fault) = (last, 0, None);
        state.tally.end_writing(group.len());
        let now_us = (self.shared.clock)();
        state.push_gap(now_us);
        let count = state.waiters.partition_point(|(ticket, _)| ticket.0 < last);
        let woken: Vec<_> = state.waiters.drain(..count).collect();
        drop(state);
        woken.into_iter().for_each(|(_, then)| then(Durability::Durable));
        true
    }

    /// Appends a group; waits before while publishing lags and goes on.
    fn append(&mut self, group: &[u8]) -> Result<(), LogError> {
        loop {
            self.take_done();
            if !self.appender.is_lagging() {
                return self.appender.append(group);
            }
            if self.publishing.is_idle() {
                self.hand_over();
            }
            if self.publishing.fault().is_some() {
                return Err(LogError::Lagging);
            }
            // The end of a publication takes this lock and wakes this thread.
            let mut state = self.shared.lock();
            while !self.publishing.has_news() {
                state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn take_done(&mut self) {
        if let Some(done) = self.publishing.take_done() {
            self.appender.acknowledge(done);
            self.shared.lock().tally.cover(self.newer_since());
        }
    }

    /// Since when there are records that the last publication lacks.
    fn newer_since(&self) -> Option<Instant> {
        self.appender.has_fresh().then_some(self.handed_over_at)
    }

    fn hand_over_if_due(&mut self) {
        self.take_done();
        if self.until_checkpoint().is_zero() {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.handed_over_at = Instant::now();
        if let Some(publication) = self.appender.publication() {
            self.publishing.hand_over(publication);
        }
    }
}
