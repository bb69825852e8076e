//! Upkeep of the store in the background: keys are rotated and deleted when their time has come, and it is recorded which apps are in use.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leafseal_keystore::{AppName, Keystore, StoreError, Upkeep};

/// Parts of [`UpkeepRules::use_record_interval`] that pass between two records: so late a use is recorded at most.
const RECORDS_PER_INTERVAL: u32 = 24;

/// When things are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpkeepRules {
    /// Between two looks; zero turns the upkeep off.
    pub(crate) interval: Duration,
    /// For apps without a rule of their own; zero for never.
    pub(crate) rotate_after: Duration,
    /// How old the record of an app's use may become while it is in use.
    pub(crate) use_record_interval: Duration,
}

/// What an upkeep did.
#[derive(Debug, Default)]
pub struct UpkeepNews {
    /// Rotations and deletions.
    pub done: Upkeep,
    /// Why it could not look for what is due, or could not record uses.
    pub failure: Option<StoreError>,
    /// How long to wait before the next one.
    pub pause: Duration,
}

/// What is not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct StoreUpkeep {
    pending: Mutex<Pending>,
    /// Deletions that were put off.
    put_off: AtomicU64,
}

#[derive(Debug, Default)]
struct Pending {
    used: BTreeSet<AppName>,
    recorded: Option<Duration>,
}

impl StoreUpkeep {
    /// Deletions that were put off so far.
    pub(crate) fn put_off(&self) -> u64 {
        self.put_off.load(Ordering::Relaxed)
    }

    /// Does what is due. `used`: apps of which envelopes were opened since the last call.
    pub(crate) fn run(
        &self,
        store: &dyn Keystore,
        rules: UpkeepRules,
        used: Vec<AppName>,
        now: Duration,
    ) -> Option<UpkeepNews> {
        let life = store.life()?;
        // Held during the calls, so that one is made at a time.
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.used.extend(used);
        let pause = rules.use_record_interval / RECORDS_PER_INTERVAL;
        let is_time = pending.recorded.is_none_or(|at| now.saturating_sub(at) >= pause);
        let mut news = UpkeepNews { pause: rules.interval, ..UpkeepNews::default() };
        let mut unrecorded = Vec::new();
        if is_time && !pending.used.is_empty() {
            let used: Vec<AppName> = std::mem::take(&mut pending.used).into_iter().collect();
            pending.recorded = Some(now);
            match life.record_use(&used, rules.use_record_interval) {
                Ok(record) => unrecorded = record.failed,
                Err(error) => {
                    pending.used.extend(used);
                    news.failure = Some(error);
                }
            }
        }
        let rotate_after = (!rules.rotate_after.is_zero()).then_some(rules.rotate_after);
        match life.upkeep(rotate_after, rules.use_record_interval) {
            Ok(done) => {
                self.put_off.fetch_add(done.put_off.len() as u64, Ordering::Relaxed);
                news.done = done;
            }
            Err(error) => news.failure = Some(error),
        }
        news.done.failed.append(&mut unrecorded);
        Some(news)
    }
}
