//! Removes records that are older than they are to be kept, in steps, on the thread that publishes.

use std::time::{Duration, Instant};

use crate::error::LogError;
use crate::merkle::ROW_BITS;
use crate::publisher::LogPublisher;
use crate::reader::LogReader;
use crate::time::time_text;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(600);
/// Most bundles that one step removes: a checkpoint waits for it.
const BUNDLES_MAX: u64 = 4096;

/// When records were looked for that are too old, and how old they may be.
#[derive(Debug)]
pub(crate) struct Retention {
    kept_for: Duration,
    next: Option<Instant>,
}

impl Retention {
    pub(crate) fn new(kept_for: Duration) -> Self {
        Self { kept_for, next: None }
    }

    /// Removes bundles of 256 records that are all too old, if it is time to look for them. `record` takes the record that says so.
    pub(crate) fn step(
        &mut self,
        publisher: &mut LogPublisher,
        now_us: u64,
        record: impl FnOnce(&str),
    ) -> Result<(), LogError> {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return Ok(());
        }
        self.next = Some(now + INTERVAL.min(self.kept_for));
        let failed = |error| LogError::of_reading(publisher.path(), error);
        let reader = LogReader::open(publisher.path(), publisher.key()).map_err(failed)?;
        let kept_us = u64::try_from(self.kept_for.as_micros()).unwrap_or(u64::MAX);
        let first = reader.first_since(&time_text(now_us.saturating_sub(kept_us))).map_err(failed)?;
        let (old, wanted) = (reader.minimum() >> ROW_BITS, first.min(reader.size().saturating_sub(1)) >> ROW_BITS);
        if wanted <= old {
            return Ok(());
        }
        let end = wanted.min(old + BUNDLES_MAX);
        if end < wanted {
            // The rest comes right after the next checkpoint.
            self.next = Some(now);
        }
        let minimum = end << ROW_BITS;
        record(&format!("{{\"kind\":\"pruned\",\"minimum\":{minimum}}}"));
        publisher.prune(minimum).map(drop)
    }
}
