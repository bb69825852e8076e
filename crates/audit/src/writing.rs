//! The thread that writes records: it forms entries of them, with their times, makes these durable, and hands them over to be published.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::appender::LogAppender;
use crate::error::LogError;
use crate::log::AuditLog;
use crate::publisher::LogPublisher;
use crate::publishing::{Publishing, PublishingThread};
use crate::recorder_state::RecorderShared;
use crate::retention::Retention;
use crate::rings::{Durability, Losses, RecordTicket, TakenRecords};
use crate::sleep::WakeReason;
use crate::tile::push_entry_of;
use crate::time::{TimeText, entry_era, entry_time, time_text};

/// How much the clock may go back before a record says so.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
/// How much the clock may go back before an era begins, in which times follow it.
const ERA_TOLERANCE: Duration = Duration::from_secs(60);
/// How long awaited records gather while others are being written all the time: as long as the last write has taken, within these bounds.
/// Without, a disk that flushes at once has a group for every other record, and what wakes threads costs more than the records.
const AWAITED_GATHERING_MIN: Duration = Duration::from_micros(200);
const AWAITED_GATHERING_MAX: Duration = Duration::from_millis(1);

/// Writes until the recorder is closed. Returns the log, unless a thread has panicked or the disk refuses at the end.
pub(crate) fn write_records(shared: Arc<RecorderShared>, log: AuditLog) -> Option<AuditLog> {
    let forming = EntryForming::after(&log);
    let besides = Besides { shared: Arc::clone(&shared), retention: shared.rules.retention.map(Retention::new) };
    let AuditLog { appender, publisher } = log;
    let publishing = PublishingThread::start(publisher, shared.rules.retry_interval, Box::new(besides));
    let now = Instant::now();
    let (taken, gathering) = (TakenRecords::default(), GroupWait { wrote_at: None, awaited: Duration::ZERO });
    RecordWriter { shared, appender, publishing, handed_over_at: now, forming, taken, gathering }.run()
}

/// What the thread that publishes does for the recorder.
struct Besides {
    shared: Arc<RecorderShared>,
    retention: Option<Retention<RecordTicket>>,
}

impl Publishing for Besides {
    fn attempted(&self) {
        self.shared.wake_writer();
    }

    fn tidy(&mut self, publisher: &mut LogPublisher) -> Result<(), LogError> {
        let Some(retention) = &mut self.retention else { return Ok(()) };
        retention.step(publisher, Instant::now(), (self.shared.clock)(), &*self.shared)
    }
}

/// Makes entries of records.
struct EntryForming {
    /// Time of the last record.
    last_us: u64,
    /// The index of the first record of the era; 0 for the first era.
    era: u64,
    /// The index of the next record.
    next: u64,
    time: TimeText,
    /// The group of entries, as a bundle.
    group: Vec<u8>,
}

impl EntryForming {
    fn after(log: &AuditLog) -> Self {
        let (last_us, era) = (entry_time(log.last_entry()).unwrap_or(0), entry_era(log.last_entry()));
        Self { last_us, era, next: log.size(), time: TimeText::default(), group: Vec::new() }
    }

    /// Adds a record with its time, after one of kind `clock` if the clock went back far. `members` is a JSON object without its first
    /// brace.
    fn push(&mut self, now_us: u64, members: &[u8]) {
        if Duration::from_micros(self.last_us.saturating_sub(now_us)) > ERA_TOLERANCE {
            self.era = self.next;
            let before = time_text(std::mem::replace(&mut self.last_us, now_us));
            self.push_timed(now_us, format!("\"kind\":\"clock\",\"before\":\"{before}\"}}").as_bytes());
        }
        self.push_timed(now_us, members);
    }

    fn push_timed(&mut self, now_us: u64, members: &[u8]) {
        let time_us = now_us.max(self.last_us);
        self.last_us = time_us;
        self.next += 1;
        let time = self.time.of(time_us);
        let (mut era, mut clock) = (String::new(), String::new());
        if self.era > 0 {
            era = format!("\"era\":{},", self.era);
        }
        if Duration::from_micros(time_us - now_us) > CLOCK_TOLERANCE {
            clock = format!("\"clock\":\"{}\",", time_text(now_us));
        }
        let parts = [b"{\"time\":\"", time, b"\",", era.as_bytes(), clock.as_bytes(), members];
        push_entry_of(&parts, &mut self.group);
    }

    /// Adds what was refused, if anything was.
    fn push_gap(&mut self, now_us: u64, losses: Losses) {
        if losses.records > 0 {
            let since = time_text(losses.since_us);
            let gap = format!("\"kind\":\"gap\",\"records\":{},\"since\":\"{since}\"}}", losses.records);
            self.push(now_us, gap.as_bytes());
        }
    }
}

/// When the last group was written, and how long the next one gathers.
struct GroupWait {
    wrote_at: Option<Instant>,
    /// If someone waits.
    awaited: Duration,
}

/// What the thread does next.
enum WriterTurn {
    /// The group that was formed.
    Write,
    /// A checkpoint is due.
    Publish,
    End,
}

/// What the thread has.
struct RecordWriter {
    shared: Arc<RecorderShared>,
    appender: LogAppender,
    publishing: PublishingThread,
    handed_over_at: Instant,
    forming: EntryForming,
    taken: TakenRecords,
    gathering: GroupWait,
}

impl RecordWriter {
    fn run(mut self) -> Option<AuditLog> {
        loop {
            match self.next_turn() {
                WriterTurn::Write if !self.write() => break,
                WriterTurn::Write | WriterTurn::Publish => self.hand_over_if_due(),
                WriterTurn::End => {
                    self.shared.lock().is_complete = true;
                    break;
                }
            }
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

    /// Waits until there are records, a checkpoint is due, or the recorder ends.
    fn next_turn(&mut self) -> WriterTurn {
        let shared = Arc::clone(&self.shared);
        loop {
            let is_closed = self.look();
            if !shared.rings.is_empty() {
                if !is_closed {
                    self.gather();
                }
                self.form();
                return WriterTurn::Write;
            }
            if is_closed {
                return WriterTurn::End;
            }
            let due = self.until_checkpoint();
            if due.is_zero() {
                return WriterTurn::Publish;
            }
            let has_come = || !shared.rings.is_empty() || shared.lock().is_closed || self.publishing.is_done();
            shared.rings.writer.until(WakeReason::Record, due, has_come);
        }
    }

    /// Notes what the other thread has done. Returns whether the recorder ends.
    fn look(&mut self) -> bool {
        self.take_done();
        let mut state = self.shared.lock();
        state.checkpoint_fault = self.publishing.any_fault();
        state.is_closed
    }

    /// Waits for more records: for as long as the rules say since the last write, or as the last write has taken if someone waits.
    fn gather(&self) {
        let rings = &self.shared.rings;
        let since = self.gathering.wrote_at.map_or(Duration::MAX, |at| at.elapsed());
        let left = self.shared.rules.gathering.saturating_sub(since);
        if !left.is_zero() && !rings.is_urgent() {
            rings.writer.until(WakeReason::Awaited, left, || rings.is_urgent() || self.shared.lock().is_closed);
        }
        let since = self.gathering.wrote_at.map_or(Duration::MAX, |at| at.elapsed());
        let left = self.gathering.awaited.saturating_sub(since);
        if !left.is_zero() {
            rings.writer.until(WakeReason::Control, left, || self.shared.lock().is_closed);
        }
    }

    /// Takes all records, and forms their entries.
    fn form(&mut self) {
        let Self { shared, forming, taken, .. } = self;
        forming.group.clear();
        let losses = shared.rings.take_losses();
        shared.rings.take(taken);
        taken.merge(|time_us, members| forming.push(time_us, members));
        forming.push_gap((shared.clock)(), losses);
        let mut state = shared.lock();
        state.tally.lose(losses.records);
        state.tally.begin_writing(taken.since);
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
    fn write(&mut self) -> bool {
        let group = std::mem::take(&mut self.forming.group);
        let (before, began) = (self.appender.size(), Instant::now());
        while let Err(error) = self.append(&group) {
            let mut state = self.shared.lock();
            state.fault = Some(error.to_string());
            state.checkpoint_fault = self.publishing.any_fault();
            drop(state);
            self.shared.rings.refuse().into_iter().for_each(|then| then(Durability::Refused));
            let is_closed = || self.shared.lock().is_closed;
            if is_closed() {
                return false;
            }
            self.shared.rings.writer.until(WakeReason::Control, self.shared.rules.retry_interval, is_closed);
        }
        let now = Instant::now();
        let mut state = self.shared.lock();
        state.fault = None;
        state.tally.end_writing(self.appender.size() - before, group.len());
        let waiters = self.shared.rings.set_durable(&self.taken);
        drop(state);
        // One record alone was not held up by a write before, so that the next one may not have to wait either.
        let is_busy = waiters.len() > 1;
        let awaited = (now - began).clamp(AWAITED_GATHERING_MIN, AWAITED_GATHERING_MAX);
        self.gathering.awaited = if is_busy { awaited } else { Duration::ZERO };
        self.gathering.wrote_at = Some(now);
        waiters.into_iter().for_each(|then| then(Durability::Durable));
        self.forming.group = group;
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
            let has_news = || self.publishing.has_news();
            self.shared.rings.writer.until(WakeReason::Control, Duration::MAX, has_news);
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
