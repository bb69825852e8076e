//! Takes records from many threads and makes them durable in groups, on one thread of its own, so that no request waits for a disk unless
//! it asks to.
//!
//! ```text
//! record:  to a ring of the thread's own, with its time          the ticket is its place there
//! writer:  all rings ─▶ entries in the order of their times ─▶ append ─▶ durable ─▶ wake who waits
//!          nobody waits: gathers records for a while first
//!          once in a while ─▶ what is new, to the thread that publishes, unless that is still busy
//! a disk refuses:  who waits learns it; the group is kept and tried again; the rings fill to their bound; then records are refused and
//!                  counted, and a gap record says how many there were as soon as one is written again
//! a disk hangs:    the same from a time on: `Recorder::watch`, on another thread, lets nobody wait longer
//! publishing lags: the journal grows to a bound; then groups wait as they do for a disk
//! ```

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::figures::RecorderFigures;
use crate::journal::FRAME_SIZE_MAX;
use crate::log::AuditLog;
use crate::recorder_state::{Clock, RecorderRules, RecorderShared, RecorderState};
use crate::rings::{Durability, RECORD_SIZE_MAX, RecordRefusal, RecordRings, RecordTicket};
use crate::writing::write_records;

/// Room in a frame for records that the recorder adds itself.
const OWN_RECORDS_SIZE: usize = 4096;

/// A log that many threads write to.
pub struct Recorder {
    shared: Arc<RecorderShared>,
    thread: Option<JoinHandle<Option<AuditLog>>>,
}

impl Recorder {
    /// Starts the threads that write. `clock` gives the time of records. If it goes back by up to a minute, the log's times stand still,
    /// and records have a second time. If it goes back further, an era begins with a record that says so, and the log's times follow.
    ///
    /// # Panics
    /// When the system starts no thread.
    pub fn start(log: AuditLog, rules: RecorderRules, clock: Clock) -> Self {
        let mut state = RecorderState::default();
        // A frame has at most twice as many bytes as its records count for.
        let waiting_bytes_max = rules.waiting_bytes_max.min((FRAME_SIZE_MAX - OWN_RECORDS_SIZE) / 2);
        if log.size() > log.published() {
            state.tally.await_checkpoint(Instant::now());
        }
        let (rings, state) = (RecordRings::new(waiting_bytes_max), Mutex::new(state));
        let kept_from = Arc::new(AtomicU64::new(u64::MAX));
        let shared = Arc::new(RecorderShared { rules, clock, rings, kept_from, state, ended: Condvar::new() });
        let end = EndOfWriting(Arc::clone(&shared));
        let writer = Arc::clone(&shared);
        let run = move || {
            let _end = end;
            write_records(writer, log)
        };
        let thread = std::thread::Builder::new().name("leafseal-audit".to_owned()).spawn(run).expect("a thread");
        Self { shared, thread: Some(thread) }
    }

    /// Takes a record: the text of a JSON object with at least one member, to which the time is added in front. Does not wait for the disk.
    ///
    /// # Errors
    /// [`RecordRefusal`]. A record that is refused is counted, and a gap record will say so, unless the recorder ends.
    pub fn record(&self, object: &[u8]) -> Result<RecordTicket, RecordRefusal> {
        self.take(object, false)
    }

    /// The same for a record that someone is going to wait for: it is written without gathering others first.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn record_awaited(&self, object: &[u8]) -> Result<RecordTicket, RecordRefusal> {
        self.take(object, true)
    }

    fn take(&self, object: &[u8], is_awaited: bool) -> Result<RecordTicket, RecordRefusal> {
        let members = object.strip_prefix(b"{").filter(|members| members.len() > 1 && object.len() <= RECORD_SIZE_MAX);
        let (rings, now_us) = (&self.shared.rings, (self.shared.clock)());
        let Some(members) = members else {
            if self.shared.lock().is_closed {
                return Err(RecordRefusal::Closed);
            }
            rings.lose(now_us);
            return Err(RecordRefusal::Malformed);
        };
        rings.put(now_us, members, is_awaited)
    }

    /// Whether a record is durable.
    pub fn is_durable(&self, ticket: RecordTicket) -> bool {
        self.shared.rings.is_durable(ticket)
    }

    /// Calls `then` once a record is durable, or the disk refuses: at once if that is so, else on the writing thread, which it must not
    /// hold up. For a record of [`Recorder::record`] that may take as long as records gather.
    pub fn when_durable(&self, ticket: RecordTicket, then: impl FnOnce(Durability) + Send + 'static) {
        self.shared.rings.when_durable(ticket, Box::new(then));
    }

    /// Lets nobody wait any longer for a write that lasts too long. Call it once in a while, on any thread.
    pub fn watch(&self, now: Instant) {
        let limit = self.shared.rules.write_wait_max;
        let mut state = self.shared.lock();
        let lasts = state.tally.writing_since().is_some_and(|since| now.saturating_duration_since(since) > limit);
        if !lasts || state.has_ended {
            return;
        }
        let refused = self.shared.rings.refuse();
        state.fault.get_or_insert_with(|| format!("the disk has not answered for {limit:?}"));
        drop(state);
        refused.into_iter().for_each(|then| then(Durability::Refused));
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
        let rings = &self.shared.rings;
        let (open_since, charged, lost) = (rings.since(), rings.charged(), rings.lost());
        self.shared.lock().tally.figures(open_since, charged, lost)
    }

    /// Ends: what waits is written and published if the disk takes it; else it is lost with this process.
    pub fn close(mut self) -> Option<AuditLog> {
        self.shared.close();
        self.thread.take().and_then(|thread| thread.join().ok().flatten())
    }
}

impl Recorder {
    /// The same without the log, until a time: false if the disk has not answered then. Who waits is answered in either case, and the
    /// thread is not waited for any more.
    pub fn close_by(&self, deadline: Instant) -> bool {
        self.shared.close();
        let mut state = self.shared.lock();
        while !state.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.is_abandoned = true;
                drop(state);
                self.shared.rings.end().into_iter().for_each(|then| then(Durability::Refused));
                return false;
            }
            state = self.shared.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_complete
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("rules", &self.shared.rules).finish_non_exhaustive()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.close();
        let is_abandoned = self.shared.lock().is_abandoned;
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
        drop(state);
        let waiters = self.0.rings.end();
        self.0.ended.notify_all();
        waiters.into_iter().for_each(|then| then(Durability::Refused));
    }
}
