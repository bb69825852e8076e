//! Jobs whose first slice runs on the thread that submits them.

use super::*;

/// A job that was submitted.
#[derive(Clone, Copy, Debug)]
pub struct Submitted {
    /// Identifies it.
    pub ticket: JobTicket,
    /// The counted work that the submitting thread has done.
    pub inline_work: Duration,
    /// Whether the submitting thread ran it and had to leave it to the workers.
    pub is_left: bool,
}

impl Submitted {
    /// A job that nothing has run yet.
    pub fn queued(ticket: JobTicket) -> Self {
        Self { ticket, inline_work: Duration::ZERO, is_left: false }
    }
}

impl Pool {
    /// Queues a job as [`Pool::submit`] does, and if the next slice is the job's and nothing else of its tenant waits, runs that slice on
    /// the calling thread, as one more worker would: its time is charged to the tenant, and the job parks or goes on to the workers.
    ///
    /// In such a slice the job does only what [`SliceTurn::takes`] grants, up to `work_max` in total.
    ///
    /// # Errors
    /// As [`Pool::submit`].
    pub fn submit_inline(
        &self,
        job: Arc<dyn Job>,
        admission: Admission,
        work_max: Duration,
    ) -> Result<Submitted, Rejected> {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        let ticket = state.admit(job, admission, now)?;
        let taken = state.scheduler.take_inline(ticket, now);
        state.counters.slices += u64::from(taken.is_some());
        self.shared.unlock_beside(state, 0);
        let Some(taken) = taken else { return Ok(Submitted::queued(ticket)) };
        let left = Cell::new(Some(work_max));
        let ran = {
            let _inline = InlineSlice::begin();
            self.shared.run_within(taken, now, &left)
        };
        let is_done = ran.outcome == SliceOutcome::Done;
        let is_parked = matches!(ran.outcome, SliceOutcome::Park(_));
        let mut state = self.shared.lock();
        let ending = state.give_back(ran);
        state.counters.jobs_inline += u64::from(is_done);
        // Workers that sleep already do so until a time that they knew, which may be later than this job is due.
        let must_wake = is_parked && state.wake_one();
        self.shared.unlock_beside(state, 0);
        if must_wake {
            self.shared.work.notify_one();
        }
        self.shared.end_all(ending);
        let inline_work = work_max.saturating_sub(left.get().unwrap_or_default());
        Ok(Submitted { ticket, inline_work, is_left: !is_done })
    }
}

impl SliceTurn<'_> {
    /// Whether this slice runs on the thread that submitted the job.
    pub fn is_inline(&self) -> bool {
        self.work_left.get().is_some()
    }

    /// Takes this much work from what the slice may do. False, and takes nothing, if that is not left, or if the work cannot be counted.
    /// Workers have no limit: always true there.
    pub fn takes(&self, work: Option<Duration>) -> bool {
        let Some(left) = self.work_left.get() else { return true };
        let rest = work.and_then(|work| left.checked_sub(work));
        self.work_left.set(Some(rest.unwrap_or(left)));
        rest.is_some()
    }
}

impl PoolState {
    /// Queues a job, or counts it as rejected.
    pub(super) fn admit(
        &mut self,
        job: Arc<dyn Job>,
        admission: Admission,
        now: Instant,
    ) -> Result<JobTicket, Rejected> {
        self.scheduler.admit(job, admission, now).map_err(|(job, admission, cause)| {
            self.counters.jobs_rejected += 1;
            self.counters.jobs_refused_early += u64::from(matches!(cause, Rejection::TooLate { .. }));
            Rejected { job, admission, cause }
        })
    }
}
