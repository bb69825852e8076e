//! The states of an entry, and the queues that it can be in.

use super::*;
use crate::cancellation::CancelReason;
use crate::flows::IDLE_FLOWS_SPARE;
use crate::ledger::Amount;

mod inline;

const SLICE: Duration = Duration::from_micros(50);

struct TestScheduler {
    scheduler: Scheduler<char>,
    now: Instant,
}

impl TestScheduler {
    fn new(scheduling: Scheduling) -> Self {
        let most = Amount { jobs: 100, bytes: 1000 };
        let limits = LedgerLimits { total: most, tenant: most, connection: most };
        TestScheduler { scheduler: Scheduler::new(limits, scheduling, 1, false), now: Instant::now() }
    }

    fn submit_with(&mut self, name: char, tenant: u64, connection: u64, cancellation: &Arc<Cancellation>) -> JobTicket {
        let admission = Admission { tenant, client: 0, connection, bytes: 1, cancellation: Arc::clone(cancellation) };
        self.scheduler.admit(name, admission, self.now).unwrap()
    }

    fn submit(&mut self, name: char, tenant: u64, connection: u64) -> JobTicket {
        self.submit_with(name, tenant, connection, &Arc::default())
    }

    fn take(&mut self) -> Option<TakenSlice<char>> {
        self.scheduler.take(self.now)
    }

    /// Takes a slice, which must exist.
    fn hand(&mut self, name: char) -> SliceHandle {
        let taken = self.take().expect("something waits");
        assert_eq!(taken.item, name);
        taken.hand
    }

    fn share(&mut self, hand: &mut SliceHandle) -> bool {
        self.scheduler.share(hand, self.now)
    }

    /// Returns the result of a slice; returns how the entry ended, and releases it.
    fn give_back(&mut self, hand: SliceHandle, outcome: SliceOutcome) -> Option<EntryEnd> {
        self.now += SLICE;
        let ending = self.scheduler.give_back(hand, outcome, SLICE, self.now)?;
        self.scheduler.release(ending.receipt);
        Some(ending.end)
    }

    /// Runs all jobs to their ends on one worker, each for as many slices as it occurs in `slices`.
    fn run(&mut self, slices: &str) -> String {
        let mut left: Vec<char> = slices.chars().collect();
        let mut order = String::new();
        while let Some(taken) = self.take() {
            order.push(taken.item);
            let at = left.iter().position(|&name| name == taken.item).expect("one slice more");
            left.remove(at);
            let outcome = if left.contains(&taken.item) { SliceOutcome::More } else { SliceOutcome::Done };
            self.give_back(taken.hand, outcome);
        }
        order
    }

    fn assert_empty(&self) {
        let scheduler = &self.scheduler;
        assert_eq!(
            (scheduler.jobs(), scheduler.bytes(), scheduler.waiting(), scheduler.running_slices()),
            (0, 0, 0, 0)
        );
        assert!(scheduler.entries.is_empty() && scheduler.deadlines.is_empty() && scheduler.parked.is_empty());
        assert!(scheduler.flows.is_empty());
    }
}

fn fair() -> TestScheduler {
    TestScheduler::new(Scheduling::Fair)
}

#[test]
fn jobs_of_a_connection_take_turns() {
    let mut test = fair();
    for name in ['A', 'B', 's'] {
        test.submit(name, 0, 0);
    }
    assert_eq!(test.run("AAABBs"), "ABsABA");
    test.assert_empty();
}

#[test]
fn connections_share_what_their_tenant_gets() {
    let mut test = fair();
    // Tenant 1 with three connections, the first with three jobs; tenant 2 with one.
    for (name, tenant, connection) in
        [('a', 1, 10), ('b', 1, 10), ('c', 1, 10), ('d', 1, 11), ('e', 1, 12), ('X', 2, 20)]
    {
        test.submit(name, tenant, connection);
    }
    assert_eq!(test.run("aabbccdddddeeeeeXXXXXXXXXXXXXXXX"), "aXdXeXbXdXeXcXdXeXaXdXeXbXdXeXcX");
    test.assert_empty();
}

#[test]
fn first_come_first_served_keeps_the_order() {
    let mut test = TestScheduler::new(Scheduling::FirstComeFirstServed);
    let gone = Arc::new(Cancellation::new());
    for (name, tenant) in [('A', 1), ('B', 2)] {
        test.submit(name, tenant, tenant);
    }
    let late = test.submit_with('C', 3, 3, &gone);
    gone.cancel(CancelReason::Cancelled);
    test.scheduler.hurry(late, test.now);
    let mut hand = test.hand('A');
    assert!(!test.share(&mut hand));
    assert_eq!(test.give_back(hand, SliceOutcome::More), None);
    assert_eq!(test.run("AABBBC"), "AABBBC");
    test.assert_empty();
}

#[test]
fn a_shared_job_is_worked_on_by_several() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let mut first = test.hand('A');
    assert!(test.take().is_none(), "the turn is held");
    assert!(test.share(&mut first) && !test.share(&mut first), "once");
    let taken = test.take().unwrap();
    assert!(taken.is_spread);
    let second = taken.hand;
    // `More` from a worker that has shared while another has the turn is remembered until that one returns.
    assert_eq!(test.give_back(first, SliceOutcome::More), None);
    assert!(test.take().is_none());
    assert_eq!(test.give_back(second, SliceOutcome::Left), None);
    let mut third = test.hand('A');
    assert!(test.share(&mut third));
    let fourth = test.hand('A');
    // The holder of the turn has no part, and no other worker has one: the turn is kept until the other returns `More`.
    assert_eq!(test.give_back(fourth, SliceOutcome::Left), None);
    assert!(test.take().is_none());
    assert_eq!(test.give_back(third, SliceOutcome::More), None);
    let fifth = test.hand('A');
    assert_eq!(test.give_back(fifth, SliceOutcome::Done), Some(EntryEnd::Done));
    test.assert_empty();
}

#[test]
fn done_waits_for_the_worker_that_has_just_taken_the_turn() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let mut first = test.hand('A');
    assert!(test.share(&mut first));
    let second = test.hand('A');
    assert_eq!(test.give_back(first, SliceOutcome::Done), None);
    assert_eq!(test.scheduler.jobs(), 1);
    assert_eq!(test.give_back(second, SliceOutcome::More), Some(EntryEnd::Done), "what it returns does not matter");
    test.assert_empty();
}

#[test]
fn done_takes_the_job_out_of_its_line() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let mut hand = test.hand('A');
    assert!(test.share(&mut hand));
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    assert!(test.take().is_none());
    test.assert_empty();
}

#[test]
fn a_panic_ends_the_job_when_the_last_worker_is_out() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let mut first = test.hand('A');
    assert!(test.share(&mut first));
    let mut second = test.hand('A');
    assert!(test.share(&mut second));
    assert_eq!(test.give_back(first, SliceOutcome::Panicked), None);
    assert!(test.take().is_none(), "handed out no more");
    assert_eq!(test.give_back(second, SliceOutcome::More), Some(EntryEnd::Panicked));
    test.assert_empty();
}

#[test]
fn a_job_that_returns_done_is_done_despite_panics() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let mut first = test.hand('A');
    assert!(test.share(&mut first));
    let second = test.hand('A');
    assert_eq!(test.give_back(first, SliceOutcome::Panicked), None);
    assert_eq!(test.give_back(second, SliceOutcome::Done), Some(EntryEnd::Done));
    test.assert_empty();
}

/// A minute from now.
fn later(test: &TestScheduler) -> Instant {
    test.now + Duration::from_secs(60)
}

#[test]
fn a_parked_job_holds_its_place_but_no_worker_until_it_is_woken() {
    let mut test = fair();
    let ticket = test.submit('A', 0, 0);
    test.submit('B', 1, 0);
    let hand = test.hand('A');
    let until = later(&test);
    assert_eq!(test.give_back(hand, SliceOutcome::Park(until)), None);
    assert_eq!((test.scheduler.jobs(), test.scheduler.waiting(), test.scheduler.parked()), (2, 1, 1));
    assert_eq!(test.scheduler.next_due(), Some(until));
    let other = test.hand('B');
    assert_eq!(test.give_back(other, SliceOutcome::Done), Some(EntryEnd::Done));
    assert!(test.take().is_none());
    test.scheduler.wake(ticket, test.now);
    test.scheduler.wake(ticket, test.now);
    let hand = test.hand('A');
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    test.scheduler.wake(ticket, test.now);
    test.assert_empty();
}

#[test]
fn a_job_that_was_woken_before_it_parks_continues_at_once() {
    let mut test = fair();
    let ticket = test.submit('A', 0, 0);
    let hand = test.hand('A');
    test.scheduler.wake(ticket, test.now);
    let until = later(&test);
    assert_eq!(test.give_back(hand, SliceOutcome::Park(until)), None);
    let hand = test.hand('A');
    assert_eq!(test.give_back(hand, SliceOutcome::Park(until)), None, "a waker counts once");
    assert!(test.take().is_none());
    test.scheduler.wake(ticket, test.now);
    let hand = test.hand('A');
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    test.assert_empty();
}

#[test]
fn a_parked_job_is_queued_at_its_time_at_its_deadline_and_when_it_is_cancelled() {
    let mut test = fair();
    let (timed, cancelled) = (Arc::<Cancellation>::default(), Arc::<Cancellation>::default());
    timed.set_deadline(test.now + Duration::from_secs(1));
    test.submit('A', 0, 0);
    test.submit_with('B', 0, 0, &timed);
    let ticket = test.submit_with('C', 0, 0, &cancelled);
    for name in ['A', 'B', 'C'] {
        let hand = test.hand(name);
        let until = test.now + Duration::from_secs(2);
        assert_eq!(test.give_back(hand, SliceOutcome::Park(until)), None);
    }
    assert!(test.take().is_none());
    cancelled.cancel(CancelReason::Cancelled);
    test.scheduler.hurry(ticket, test.now);
    let hand = test.hand('C');
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    test.now += Duration::from_secs(1);
    let hand = test.hand('B');
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    assert!(test.take().is_none());
    test.now += Duration::from_secs(1);
    let hand = test.hand('A');
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    test.assert_empty();
}

#[test]
fn a_job_that_was_cancelled_while_it_ran_does_not_park() {
    let mut test = fair();
    let cancellation = Arc::<Cancellation>::default();
    let ticket = test.submit_with('A', 0, 0, &cancellation);
    let hand = test.hand('A');
    cancellation.cancel(CancelReason::Cancelled);
    test.scheduler.hurry(ticket, test.now);
    let until = later(&test);
    assert_eq!(test.give_back(hand, SliceOutcome::Park(until)), None);
    let hand = test.hand('A');
    assert_eq!(test.give_back(hand, SliceOutcome::Done), Some(EntryEnd::Done));
    test.assert_empty();
}

#[test]
fn of_several_workers_the_last_one_parks_the_job() {
    let mut test = fair();
    let ticket = test.submit('A', 0, 0);
    let mut first = test.hand('A');
    assert!(test.share(&mut first));
    let second = test.hand('A');
    let until = later(&test);
    assert_eq!(test.give_back(first, SliceOutcome::Park(until)), None);
    assert_eq!(test.scheduler.parked(), 0, "another worker runs it");
    assert_eq!(test.give_back(second, SliceOutcome::Left), None, "and finds nothing to do");
    assert_eq!(test.scheduler.parked(), 1);
    test.scheduler.wake(ticket, test.now);
    let mut third = test.hand('A');
    assert!(test.share(&mut third));
    assert_eq!(test.give_back(third, SliceOutcome::Park(until)), None);
    let fourth = test.hand('A');
    assert_eq!(test.give_back(fourth, SliceOutcome::Done), Some(EntryEnd::Done));
    test.assert_empty();
}

#[test]
fn a_stop_ends_parked_jobs() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let hand = test.hand('A');
    let until = later(&test);
    assert_eq!(test.give_back(hand, SliceOutcome::Park(until)), None);
    for ending in test.scheduler.stop() {
        assert_eq!(ending.end, EntryEnd::ShutDown);
        test.scheduler.release(ending.receipt);
    }
    test.assert_empty();
}

#[test]
fn a_job_that_everybody_left_is_not_held_forever() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let hand = test.hand('A');
    assert_eq!(test.give_back(hand, SliceOutcome::Left), Some(EntryEnd::Panicked));
    test.assert_empty();
}

#[test]
fn a_hurried_job_goes_first_and_once() {
    let mut test = fair();
    for (name, connection) in [('A', 1), ('B', 1), ('C', 2)] {
        test.submit(name, 0, connection);
    }
    let ticket = test.submit('D', 0, 1);
    test.scheduler.hurry(ticket, test.now);
    let hand = test.hand('D');
    test.scheduler.hurry(ticket, test.now);
    assert_eq!(test.give_back(hand, SliceOutcome::More), None);
    test.scheduler.hurry(ticket, test.now);
    assert_eq!(test.run("ABCDD"), "CABDD");
    test.scheduler.hurry(ticket, test.now);
    let other = test.submit('E', 0, 1);
    assert_eq!(other.index, ticket.index, "the place is used again");
    test.submit('F', 0, 2);
    test.scheduler.hurry(ticket, test.now);
    assert_eq!(test.run("EF"), "EF", "the old ticket names nothing");
    test.assert_empty();
}

#[test]
fn a_running_job_that_is_cancelled_goes_first_on_return() {
    let mut test = fair();
    let cancellation = Arc::new(Cancellation::new());
    test.submit_with('A', 0, 1, &cancellation);
    test.submit('B', 0, 1);
    let hand = test.hand('A');
    cancellation.cancel(CancelReason::Disconnected);
    assert_eq!(test.give_back(hand, SliceOutcome::More), None);
    assert_eq!(test.run("ABB"), "ABB");
    test.assert_empty();
}

#[test]
fn the_late_go_first_in_their_connection_and_their_tenant_pays_for_it() {
    let mut test = fair();
    let start = test.now;
    test.submit('L', 0, 0);
    for (name, slices) in [('A', 5), ('B', 1), ('C', 5)] {
        let cancellation = Arc::new(Cancellation::new());
        cancellation.set_deadline(start + SLICE * slices);
        test.submit_with(name, 0, 0, &cancellation);
    }
    test.submit('x', 1, 100);
    // After one slice B is late, after five A and C; a live one has its turn after each that took as long as a slice.
    assert_eq!(test.run("LLLLABCxxxxxxxxx"), "LxBxAxCxLxLxLxxx");
    test.assert_empty();
}

/// However many are late at once, one call moves only a few of them.
#[test]
fn many_that_are_late_at_once_are_moved_a_few_at_a_time() {
    let mut test = fair();
    let deadline = test.now + SLICE;
    for connection in 0..99 {
        let cancellation = Arc::new(Cancellation::new());
        cancellation.set_deadline(deadline);
        test.submit_with('l', 0, connection, &cancellation);
    }
    test.now += SLICE;
    let mut left = test.scheduler.deadlines.len();
    while let Some(taken) = test.take() {
        let moved = left - test.scheduler.deadlines.len();
        assert!(moved <= HURRIED_MAX + 1, "{moved}");
        test.give_back(taken.hand, SliceOutcome::Done);
        left = test.scheduler.deadlines.len();
    }
    test.assert_empty();
}

/// Stopped and live jobs take turns by time, so that neither starve.
#[test]
fn ending_jobs_leave_the_live_ones_of_their_connection_their_turns() {
    let mut test = fair();
    test.submit('L', 0, 0);
    for name in ['g', 'h', 'i', 'j'] {
        let gone = Arc::new(Cancellation::new());
        gone.cancel(CancelReason::Cancelled);
        test.submit_with(name, 0, 0, &gone);
    }
    assert_eq!(test.run("LLLLLghij"), "gLhLiLjLL");
    test.assert_empty();
}

fn deadline_in(slices: u32, test: &TestScheduler) -> Arc<Cancellation> {
    let cancellation = Arc::new(Cancellation::new());
    cancellation.set_deadline(test.now + SLICE * slices);
    cancellation
}

impl TestScheduler {
    /// With early refusal, where jobs have cost one slice so far.
    fn refusing() -> Self {
        let most = Amount { jobs: 10_000, bytes: usize::MAX };
        let limits = LedgerLimits { total: most, tenant: most, connection: most };
        TestScheduler { scheduler: Scheduler::new(limits, Scheduling::Fair, 1, true), now: Instant::now() }
    }

    /// Whether a job with a deadline after this many slices is admitted; if so, it is queued.
    fn admits(&mut self, tenant: u64, client: u64, connection: u64, slices: u32) -> bool {
        let cancellation = deadline_in(slices, self);
        let admission = Admission { tenant, client, connection, bytes: 1, cancellation };
        match self.scheduler.admit('d', admission, self.now) {
            Ok(_) => true,
            Err((_, _, cause)) => {
                assert!(matches!(cause, Rejection::TooLate { wait } if wait > SLICE * slices * 4 / 5), "{cause:?}");
                false
            }
        }
    }

    fn finish(&mut self) {
        while let Some(taken) = self.take() {
            self.give_back(taken.hand, SliceOutcome::Done);
        }
    }
}

#[test]
fn a_job_that_would_be_late_is_refused_while_others_wait_and_only_then() {
    let mut test = TestScheduler::refusing();
    assert!(test.admits(1, 0, 0, 1), "nothing waits");
    for _ in 0..5_000 {
        test.submit('b', 1, 0);
    }
    test.now += SLICE;
    assert!(!test.admits(1, 0, 0, 100), "thousands wait");
    assert!(test.admits(1, 0, 1, 100), "another connection does not wait for them");
    assert!(test.admits(1, 1, 2, 100), "nor another client");
    assert!(test.admits(2, 0, 3, 100), "nor another tenant");
    assert!(test.admits(1, 0, 0, 1_000_000), "there is time");
    test.finish();
    assert!(test.admits(1, 0, 0, 1), "nothing waits any more");
    test.finish();
    test.assert_empty();
}

#[test]
fn a_small_job_among_large_ones_of_its_connection_is_not_refused() {
    let mut test = TestScheduler::refusing();
    for _ in 0..4 {
        let admission = Admission { tenant: 1, client: 1, connection: 0, bytes: 1 << 30, cancellation: Arc::default() };
        assert!(test.scheduler.admit('L', admission, test.now).is_ok());
    }
    test.now += Duration::from_secs(1);
    // 300 slices are much less than the large ones need, but they take turns.
    assert!(test.admits(1, 1, 0, 300));
}

#[test]
fn an_odd_slice_is_soon_forgotten() {
    let mut test = TestScheduler::refusing();
    for _ in 0..100 {
        assert!(test.admits(1, 0, 0, 1));
        test.finish();
    }
    test.submit('o', 1, 0);
    test.submit('w', 1, 0);
    let hand = test.take().unwrap().hand;
    test.now += Duration::from_secs(10);
    let ending = test.scheduler.give_back(hand, SliceOutcome::Done, Duration::from_secs(10), test.now).unwrap();
    test.scheduler.release(ending.receipt);
    // Some tens wait: at ten seconds each, none would be in time.
    for _ in 0..50 {
        test.submit('w', 1, 0);
    }
    assert!(test.admits(1, 0, 0, 400));
    test.finish();
    test.assert_empty();
}

#[test]
fn a_stop_ends_waiting_jobs_at_once_and_running_ones_on_return() {
    let mut test = fair();
    for name in ['A', 'B', 'C'] {
        test.submit(name, 0, 0);
    }
    let mut running = test.hand('A');
    let done = test.hand('B');
    test.scheduler.set_draining();
    let admission = Admission { tenant: 0, client: 0, connection: 0, bytes: 0, cancellation: Arc::default() };
    assert_eq!(test.scheduler.admit('D', admission, test.now).unwrap_err().2, Rejection::ShuttingDown);
    let ended: Vec<(char, EntryEnd)> =
        test.scheduler.stop().into_iter().map(|ending| (ending.item, ending.end)).collect();
    assert_eq!(ended, [('C', EntryEnd::ShutDown)]);
    test.scheduler.release(Receipt { tenant: 0, connection: 0, bytes: 1 });
    assert!(test.take().is_none() && !test.share(&mut running));
    assert_eq!(test.give_back(running, SliceOutcome::More), Some(EntryEnd::ShutDown));
    assert_eq!(test.give_back(done, SliceOutcome::Done), Some(EntryEnd::Done), "it has answered");
    test.assert_empty();
}

/// New flows are served first, and are remembered with their service; but neither without limit.
#[test]
fn a_stream_of_newcomers_neither_fills_memory_nor_starves_others() {
    let mut test = fair();
    test.submit('A', 0, 0);
    let mut turns = 0;
    for newcomer in 1..2_000 {
        let (tenant, connection) = if newcomer % 2 == 0 { (newcomer, 0) } else { (0, newcomer) };
        test.submit('n', tenant, connection);
        let taken = test.take().unwrap();
        turns += u64::from(taken.item == 'A');
        let outcome = if taken.item == 'A' { SliceOutcome::More } else { SliceOutcome::Done };
        test.give_back(taken.hand, outcome);
        let (held, scheduler) = (test.scheduler.jobs(), &test.scheduler);
        for (level, _, children) in scheduler.flows.remembered() {
            assert!(children <= 2 * held + IDLE_FLOWS_SPARE, "{children} at level {level}");
        }
    }
    assert!(turns > 10, "{turns}");
    while let Some(taken) = test.take() {
        test.give_back(taken.hand, SliceOutcome::Done);
    }
    test.assert_empty();
}
