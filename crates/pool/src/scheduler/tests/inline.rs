//! Slices on the threads that submit jobs.

use super::*;

/// Runs the job inline if it may be; returns whether it was.
fn runs_inline(test: &mut TestScheduler, ticket: JobTicket) -> bool {
    let Some(taken) = test.scheduler.take_inline(ticket, test.now) else { return false };
    assert_eq!(test.scheduler.running_slices(), 0, "no worker runs it");
    assert_eq!(test.give_back(taken.hand, SliceOutcome::Done), Some(EntryEnd::Done));
    true
}

#[test]
fn a_job_runs_inline_only_where_it_overtakes_none() {
    let mut test = fair();
    let first = test.submit('A', 0, 0);
    assert!(runs_inline(&mut test, first), "nothing waits");
    // The tenant has a job that waits: on the same connection, then on another one.
    test.submit('B', 0, 0);
    let behind = test.submit('C', 0, 0);
    assert!(!runs_inline(&mut test, behind));
    assert_eq!(test.run("BC"), "BC");
    test.submit('B', 0, 0);
    let beside = test.submit('C', 0, 1);
    assert!(!runs_inline(&mut test, beside));
    // Another tenant goes first, as it would on a worker, until it has been served as much as the one that waits.
    let hand = test.hand('B');
    assert_eq!(test.give_back(hand, SliceOutcome::More), None);
    let jobs = (0..4)
        .map(|_| {
            let ticket = test.submit('D', 1, 10);
            runs_inline(&mut test, ticket)
        })
        .filter(|was_inline| *was_inline)
        .count();
    assert!((1..=2).contains(&jobs), "{jobs} slices as long as that of B");
    assert_eq!(test.scheduler.waiting(), 2 + 4 - jobs);
}

#[test]
fn an_inline_slice_may_hand_its_job_over() {
    let mut test = fair();
    let ticket = test.submit('A', 0, 0);
    let taken = test.scheduler.take_inline(ticket, test.now).expect("nothing waits");
    assert!(taken.submitted.is_some());
    assert!(test.take().is_none(), "the turn is held");
    assert_eq!(test.give_back(taken.hand, SliceOutcome::More), None);
    assert_eq!(test.run("A"), "A");
    let ticket = test.submit('B', 0, 0);
    let taken = test.scheduler.take_inline(ticket, test.now).expect("nothing waits");
    let until = test.now + Duration::from_secs(1);
    assert_eq!(test.give_back(taken.hand, SliceOutcome::Park(until)), None);
    assert_eq!(test.scheduler.parked(), 1);
    test.scheduler.wake(ticket, test.now);
    assert_eq!(test.run("B"), "B");
    test.assert_empty();
}

#[test]
fn nothing_runs_inline_in_the_order_of_arrival_or_after_the_end() {
    let mut test = TestScheduler::new(Scheduling::FirstComeFirstServed);
    let ticket = test.submit('A', 0, 0);
    assert!(!runs_inline(&mut test, ticket));
    assert_eq!(test.run("A"), "A");
    let mut test = fair();
    let ticket = test.submit('A', 0, 0);
    assert_eq!(test.scheduler.stop().len(), 1);
    assert!(test.scheduler.take_inline(ticket, test.now).is_none());
}
