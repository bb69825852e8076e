//! Removes records that are older than they are to be kept, in steps, on the thread that publishes.
//!
//! The wall clock decides what is old, and it may be wrong. So the monotonic clock bounds how fast records go: while the engine runs for a
//! day, at most the records of three days are removed, and none for a day after the wall clock jumped ahead.

use std::time::{Duration, Instant};

use crate::error::LogError;
use crate::merkle::ROW_BITS;
use crate::publisher::LogPublisher;
use crate::reader::{LogReader, ReadError};
use crate::time::{entry_time, time_text};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(600);
/// Most bundles that one step removes: a checkpoint waits for it.
const BUNDLES_MAX: u64 = 4096;
/// How far the wall clock may run ahead of the monotonic one between two looks.
const AHEAD_TOLERANCE: Duration = Duration::from_secs(60);
/// How long nothing is removed after the wall clock ran further ahead, unless it comes back before.
const HOLD: Duration = Duration::from_secs(86_400);
/// For each second that passes, records of so many seconds may be removed.
const PACE: u32 = 2;
/// Most of this that is saved up.
const ALLOWANCE_MAX: Duration = Duration::from_secs(86_400);

/// The log whose old records are removed, as its writer knows it.
pub(crate) trait PruningLog {
    /// The number of a record.
    type Ticket: Copy;

    /// Takes the record of a pruning; `None` if the log is closed.
    fn announce(&self, text: &str) -> Option<Self::Ticket>;

    /// Whether that record is durable.
    fn is_durable(&self, ticket: Self::Ticket) -> bool;

    /// The index from which on records are kept, whatever their age.
    fn kept_from(&self) -> u64;
}

/// How much may be removed by now.
#[derive(Debug, Default)]
struct PruneBudget {
    /// Both clocks at the last look.
    last: Option<(Instant, u64)>,
    /// Both clocks before the wall clock jumped, and when that was noticed.
    jump: Option<((Instant, u64), Instant)>,
    allowance: Duration,
}

impl PruneBudget {
    /// Looks at both clocks. Returns records of how much time may be removed, or how far the wall clock has jumped ahead.
    fn look(&mut self, now: Instant, wall_us: u64) -> Result<Duration, Duration> {
        let Some(last) = self.last.replace((now, wall_us)) else { return Ok(Duration::ZERO) };
        let (before, noticed) = self.jump.unwrap_or((last, now));
        let passed = now.saturating_duration_since(before.0);
        let ahead = Duration::from_micros(wall_us.saturating_sub(before.1)).saturating_sub(passed);
        if ahead > AHEAD_TOLERANCE && now.saturating_duration_since(noticed) < HOLD {
            self.jump = Some((before, noticed));
            return Err(ahead);
        }
        self.jump = None;
        let more = now.saturating_duration_since(last.0).saturating_mul(PACE);
        self.allowance = self.allowance.saturating_add(more).min(ALLOWANCE_MAX);
        Ok(self.allowance)
    }

    fn spend(&mut self, removed: Duration) {
        self.allowance = self.allowance.saturating_sub(removed);
    }
}

/// What is too old, and what is being removed.
#[derive(Debug)]
pub(crate) struct Retention<T> {
    kept_for: Duration,
    next: Option<Instant>,
    budget: PruneBudget,
    /// How far the wall clock was ahead at the last look.
    ahead: Option<Duration>,
    /// The record of a pruning, and from where on it keeps records.
    announced: Option<(T, u64)>,
}

impl<T: Copy> Retention<T> {
    pub(crate) fn new(kept_for: Duration) -> Self {
        Self { kept_for, next: None, budget: PruneBudget::default(), ahead: None, announced: None }
    }

    /// Removes bundles of 256 records that are all too old, if it is time to look for them. The record that names them is durable before
    /// the first of them goes: it is taken by one step, and a later one removes them.
    pub(crate) fn step(
        &mut self,
        publisher: &mut LogPublisher,
        now: Instant,
        wall_us: u64,
        log: &impl PruningLog<Ticket = T>,
    ) -> Result<(), LogError> {
        if let Some((ticket, minimum)) = self.announced {
            if !log.is_durable(ticket) {
                return Ok(());
            }
            publisher.prune(minimum)?;
            self.announced = None;
        }
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + INTERVAL.min(self.kept_for));
            let looked = self.budget.look(now, wall_us);
            self.ahead = looked.err();
            if let Ok(allowance) = looked {
                let failed = |error| LogError::of_reading(publisher.path(), error);
                let reader = LogReader::open(publisher.path(), publisher.key()).map_err(failed)?;
                self.announce(&reader, wall_us, allowance, now, log).map_err(failed)?;
            }
        }
        self.ahead.map_or(Ok(()), |ahead| Err(LogError::ClockAhead { ahead }))
    }

    fn announce(
        &mut self,
        reader: &LogReader,
        wall_us: u64,
        allowance: Duration,
        now: Instant,
        log: &impl PruningLog<Ticket = T>,
    ) -> Result<(), ReadError> {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let Some(last) = reader.size().checked_sub(1) else { return Ok(()) };
        let oldest = time_at(reader, reader.minimum())?;
        let too_old = reader.first_since(&time_text(wall_us.saturating_sub(us(self.kept_for))))?;
        let allowed = reader.first_since(&time_text(oldest.saturating_add(us(allowance))))?;
        let wanted = too_old.min(allowed).min(log.kept_from()).min(last) >> ROW_BITS;
        let old = reader.minimum() >> ROW_BITS;
        if wanted <= old {
            return Ok(());
        }
        let end = wanted.min(old + BUNDLES_MAX);
        if end < wanted {
            // The rest comes right after the next checkpoint.
            self.next = Some(now);
        }
        let minimum = end << ROW_BITS;
        if let Some(ticket) = log.announce(&format!("{{\"kind\":\"pruned\",\"minimum\":{minimum}}}")) {
            self.announced = Some((ticket, minimum));
            self.budget.spend(Duration::from_micros(time_at(reader, minimum)?.saturating_sub(oldest)));
        }
        Ok(())
    }
}

/// The time of a record, in microseconds.
fn time_at(reader: &LogReader, index: u64) -> Result<u64, ReadError> {
    let (start, entries) = reader.bundle_of(index)?;
    Ok(entry_time(&entries[(index - start) as usize]).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn us(duration: Duration) -> u64 {
        duration.as_micros() as u64
    }

    /// Whatever the wall clock shows at a start, a day removes at most the records of three.
    #[test]
    fn a_day_removes_the_records_of_three() {
        for wall_us in [0, us(DAY * 20_000), u64::MAX / 2] {
            let (start, mut budget) = (Instant::now(), PruneBudget::default());
            assert_eq!(budget.look(start, wall_us), Ok(Duration::ZERO), "no time has passed");
            let mut removed = Duration::ZERO;
            for look in 1..=144 * 3_u32 {
                let passed = INTERVAL * look;
                let allowance = budget.look(start + passed, wall_us + us(passed)).expect("the clock does not jump");
                // Nothing is removed on the first day, and everything that may be from then on.
                if passed > DAY {
                    removed += allowance;
                    budget.spend(allowance);
                }
                if passed == DAY * 2 {
                    assert!(removed <= DAY * 3 && removed > DAY * 2, "{removed:?}");
                }
            }
            assert!(removed <= DAY * 5, "{removed:?}");
        }
    }

    /// A clock that jumps ahead by years: nothing is removed for a day, however often the clocks are looked at, or until it is back.
    #[test]
    fn a_clock_that_jumps_ahead_holds() {
        let (start, wall_us, years) = (Instant::now(), us(DAY * 20_000), DAY * 3650);
        let at = |passed: Duration| (start + passed, wall_us + us(passed));
        let ahead = |passed: Duration| (start + passed, wall_us + us(passed + years));
        let mut budget = PruneBudget::default();
        let mut look = |(now, wall_us): (Instant, u64)| budget.look(now, wall_us);
        assert_eq!(look(at(Duration::ZERO)), Ok(Duration::ZERO));
        assert_eq!(look(at(INTERVAL)), Ok(INTERVAL * 2));
        for looks in 2..100 {
            assert_eq!(look(ahead(INTERVAL * looks)), Err(years));
        }
        // It is back.
        assert_eq!(look(at(INTERVAL * 100)), Ok(INTERVAL * 4));
        // It stays ahead: after a day it is believed, and records go at their speed.
        assert_eq!(look(ahead(INTERVAL * 101)), Err(years));
        assert_eq!(look(ahead(INTERVAL * 101 + DAY - INTERVAL)), Err(years));
        assert_eq!(look(ahead(INTERVAL * 101 + DAY)), Ok(INTERVAL * 6));
        assert_eq!(look(ahead(INTERVAL * 102 + DAY)), Ok(INTERVAL * 8));
        // Small steps, and a clock that goes back, are none.
        let late = INTERVAL * 103 + DAY;
        assert!(look((start + late, wall_us + us(late + years + AHEAD_TOLERANCE))).is_ok());
        assert!(look(at(late + INTERVAL)).is_ok());
    }
}
