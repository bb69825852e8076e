//! The scan of the store in the background: every row is compared with its authentication, step by step, so that an edit is noticed even
//! if nothing reads what it changed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leafseal_keystore::{Keystore, ScanStep, StoreEdit, StoreError, StoreScan};

use crate::clock::EngineClock;

/// Edits that one pass names. Further ones are only counted.
const EDITS_NAMED_MAX: usize = 1_000;
/// The pause after a step that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// The rate of a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanRate {
    /// Rows in a second; 0 turns the scan off.
    pub(crate) rows_per_second: u32,
    /// From the beginning of a pass to that of the next.
    pub(crate) interval: Duration,
}

/// The result of a step of the scan.
#[derive(Debug, Default)]
pub struct ScanNews {
    /// Edits that neither this pass nor the one before has found.
    pub edits: Vec<StoreEdit>,
    /// The pass is over and found no edit, unlike the one before.
    pub is_clean_again: bool,
    /// Why the step has failed. The next one repeats it.
    pub failure: Option<StoreError>,
    /// How long to wait before the next step.
    pub pause: Duration,
}

/// Counters of the scan since the start, and what it has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Rows read.
    pub rows: u64,
    /// Passes over the whole store.
    pub passes: u64,
    /// Edits that the last whole pass has found, or the present one if these are more.
    pub edits: u64,
    /// How long ago the last whole pass ended, or the engine started if there was none; 0 if the scan is turned off.
    pub age: Duration,
}

/// A scan that never ends.
#[derive(Debug)]
pub(crate) struct StoreScanner {
    /// Locked during a step, so that it is one at a time.
    position: Mutex<StoreScan>,
    findings: Mutex<ScanFindings>,
}

#[derive(Debug, Default)]
struct ScanFindings {
    rows: u64,
    passes: u64,
    present: ScanPass,
    last: ScanPass,
    /// When the last pass ended.
    ended: Duration,
}

#[derive(Debug, Default)]
struct ScanPass {
    began: Option<Duration>,
    /// The named ones.
    edits: BTreeSet<StoreEdit>,
    count: u64,
}

impl StoreScanner {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            position: Mutex::default(),
            findings: Mutex::new(ScanFindings { ended: now, ..ScanFindings::default() }),
        }
    }

    /// Makes a step.
    pub(crate) fn step(&self, store: &dyn Keystore, rate: ScanRate, clock: &dyn EngineClock) -> ScanNews {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let began = clock.monotonic();
        let step = store.scan(&mut position);
        let now = clock.monotonic();
        match step {
            Ok(step) => self.findings().note(step, rate, (began, now)),
            Err(error) => ScanNews { failure: Some(error), pause: FAILURE_PAUSE, ..ScanNews::default() },
        }
    }

    pub(crate) fn counters(&self, now: Duration, rate: ScanRate) -> ScanCounters {
        let ScanFindings { rows, passes, present, last, ended } = &*self.findings();
        let age = if rate.rows_per_second > 0 { now.saturating_sub(*ended) } else { Duration::ZERO };
        ScanCounters { rows: *rows, passes: *passes, edits: last.count.max(present.count), age }
    }

    fn findings(&self) -> MutexGuard<'_, ScanFindings> {
        // Counts and sets are whole at every moment.
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScanFindings {
    fn note(&mut self, step: ScanStep, rate: ScanRate, (began, now): (Duration, Duration)) -> ScanNews {
        let mut news = ScanNews::default();
        self.rows += step.row_count;
        for edit in step.edits {
            if self.present.edits.contains(&edit) {
                continue;
            }
            self.present.count += 1;
            if self.present.edits.len() < EDITS_NAMED_MAX {
                if !self.last.edits.contains(&edit) {
                    news.edits.push(edit.clone());
                }
                self.present.edits.insert(edit);
            }
        }
        let of_rows = Duration::from_secs(step.row_count) / rate.rows_per_second.max(1);
        let taken = now.saturating_sub(began);
        // Requests read the store on the same connection: at most half of its time is the scan's.
        news.pause = of_rows.saturating_sub(taken).max(taken);
        let start = *self.present.began.get_or_insert(began);
        if step.is_last {
            news.is_clean_again = self.last.count > 0 && self.present.count == 0;
            news.pause = news.pause.max(rate.interval.saturating_sub(now.saturating_sub(start)));
            self.last = std::mem::take(&mut self.present);
            self.passes += 1;
            self.ended = now;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use leafseal_keystore::{EditKind, EditedPart};

    use super::*;
    use crate::Settings;

    fn edit(name: &str) -> StoreEdit {
        StoreEdit { part: EditedPart::App(name.to_owned()), kind: EditKind::Changed }
    }

    fn step(row_count: u64, edits: &[&str], is_last: bool) -> ScanStep {
        ScanStep { row_count, edits: edits.iter().map(|name| edit(name)).collect(), is_last }
    }

    const RATE: ScanRate = ScanRate { rows_per_second: 1_000, interval: Duration::from_secs(30) };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_pace_counts_rows_and_leaves_half_of_the_time() {
        let mut findings = ScanFindings::default();
        let mut pause = |rows, is_last, times| findings.note(step(rows, &[], is_last), RATE, times).pause;
        assert_eq!(pause(5_000, false, (seconds(1), seconds(2))), seconds(4));
        assert_eq!(pause(1, false, (seconds(6), seconds(9))), seconds(3), "a slow store");
        assert_eq!(pause(0, true, (seconds(12), seconds(12))), seconds(30 - 11), "the next pass");
        assert_eq!(pause(50_000, false, (seconds(31), seconds(31))), seconds(50));
        assert_eq!(pause(0, true, (seconds(81), seconds(81))), Duration::ZERO);
    }

    #[test]
    fn each_edit_is_named_once_until_it_is_gone() {
        let mut findings = ScanFindings::default();
        let mut note = |edits: &[&str], is_last| findings.note(step(1, edits, is_last), RATE, <_>::default());
        assert_eq!(note(&["a", "b"], false).edits, [edit("a"), edit("b")]);
        assert_eq!(note(&["a"], true).edits, []);
        let second = note(&["b", "c"], true);
        assert_eq!((second.edits, second.is_clean_again), (vec![edit("c")], false));
        assert_eq!(note(&["a"], false).edits, [edit("a")], "it came back");
        note(&[], true);
        assert!(note(&[], true).is_clean_again);
        assert!(!note(&[], true).is_clean_again);
    }

    #[test]
    fn an_endless_list_of_edits_is_counted() {
        let mut findings = ScanFindings::default();
        let names: Vec<String> = (0..EDITS_NAMED_MAX + 5).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(findings.note(step(1, &names, true), RATE, <_>::default()).edits.len(), EDITS_NAMED_MAX);
        assert_eq!(findings.last.count, names.len() as u64);
    }

    /// A pass over 100,000 apps, of at most 13 rows each, and what passes before it begins again.
    #[test]
    fn by_default_edits_among_100_000_apps_are_found_within_60_s() {
        let settings = Settings::default();
        let pass = Duration::from_secs(100_000 * 13) / settings.store_scan_rows_per_second;
        assert!(pass.max(settings.store_scan_interval) < seconds(60));
    }
}
