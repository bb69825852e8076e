//! The states of an entry, one by one, and the lines that it can stand in.

use super::*;
use crate::cancellation::Reason;
use crate::ledger::Amount;

const SLICE: Duration = Duration::from_micros(50);

struct Stage {
    scheduler: Scheduler<char>,
    now: Instant,
}

impl Stage {
    fn new(scheduling: Scheduling) -> Self {
        let most = Amount { jobs: 100, bytes: 1000 };
        let limits = Limits { total: most, tenant: most, connection: most };
        Stage { scheduler: Scheduler::new(limits, scheduling), now: Instant::now() }
    }

    fn submit_with(&mut self, name: char, tenant: u64, connection: u64, cancellation: &Arc<Cancellation>) -> Ticket {
        let admission = Admission { tenant, connection, bytes: 1, cancellation: Arc::clone(cancellation) };
        self.scheduler.admit(name, admission, self.now).unwrap()
    }

    fn submit(&mut self, name: char, tenant: u64, connection: u64) -> Ticket {
        self.submit_with(name, tenant, connection, &Arc::default())
    }

    fn take(&mut self) -> Option<Taken<char>> {
        self.scheduler.take(self.now)
    }

    /// Takes what must be there.
    fn hand(&mut self, name: char) -> Hand {
        let taken = self.take().expect("something waits");
        assert_eq!(taken.item, name);
        taken.hand
    }

    fn share(&mut self, hand: &mut Hand) -> bool {
        self.scheduler.share(hand, self.now)
    }

    /// Gives back after a slice; tells how the entry ended, and releases it.
    fn give_back(&mut self, hand: Hand, outcome: Outcome) -> Option<End> {
        self.now += SLICE;
        let ending = self.scheduler.give_back(hand, outcome, SLICE, self.now)?;
        self.scheduler.release(ending.receipt);
        Some(ending.end)
    }

    /// Runs all to their ends on one worker, each for as many slices as it occurs in `slices`.
    fn run(&mut self, slices: &str) -> String {
        let mut left: Vec<char> = slices.chars().collect();
        let mut order = String::new();
        while let Some(taken) = self.take() {
            order.push(taken.item);
            let at = left.iter().position(|&name| name == taken.item).expect("one slice more");
            left.remove(at);
            let outcome = if left.contains(&taken.item) { Outcome::More } else { Outcome::Done };
            self.give_back(taken.hand, outcome);
        }
        order
    }

    fn assert_empty(&self) {
        let scheduler = &self.scheduler;
        assert_eq!((scheduler.jobs(), scheduler.bytes(), scheduler.waiting(), scheduler.in_hand()), (0, 0, 0, 0));
        assert!(scheduler.entries.is_empty() && scheduler.deadlines.is_empty());
        assert!(scheduler.tenants.is_empty() && scheduler.tenants_by_id.is_empty());
        assert!(scheduler.connections.is_empty() && scheduler.connections_by_id.is_empty());
    }
}

fn fair() -> Stage {
    Stage::new(Scheduling::Fair)
}

#[test]
fn jobs_of_a_connection_take_turns() {
    let mut stage = fair();
    for name in ['A', 'B', 's'] {
        stage.submit(name, 0, 0);
    }
    assert_eq!(stage.run("AAABBs"), "ABsABA");
    stage.assert_empty();
}

#[test]
fn connections_share_what_their_tenant_gets() {
    let mut stage = fair();
    // Tenant 1 with three connections, the first with three jobs; tenant 2 with one.
    for (name, tenant, connection) in
        [('a', 1, 10), ('b', 1, 10), ('c', 1, 10), ('d', 1, 11), ('e', 1, 12), ('X', 2, 20)]
    {
        stage.submit(name, tenant, connection);
    }
    assert_eq!(stage.run("aabbccdddddeeeeeXXXXXXXXXXXXXXXX"), "aXdXeXbXdXeXcXdXeXaXdXeXbXdXeXcX");
    stage.assert_empty();
}

#[test]
fn first_come_first_served_keeps_to_it() {
    let mut stage = Stage::new(Scheduling::FirstComeFirstServed);
    let gone = Arc::new(Cancellation::new());
    for (name, tenant) in [('A', 1), ('B', 2)] {
        stage.submit(name, tenant, tenant);
    }
    let late = stage.submit_with('C', 3, 3, &gone);
    gone.cancel(Reason::Cancelled);
    stage.scheduler.hurry(late);
    let mut hand = stage.hand('A');
    assert!(!stage.share(&mut hand));
    assert_eq!(stage.give_back(hand, Outcome::More), None);
    assert_eq!(stage.run("AABBBC"), "AABBBC");
    stage.assert_empty();
}

#[test]
fn a_shared_job_is_worked_on_by_several() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let mut first = stage.hand('A');
    assert!(stage.take().is_none(), "the turn is held");
    assert!(stage.share(&mut first) && !stage.share(&mut first), "once");
    let taken = stage.take().unwrap();
    assert!(taken.is_spread);
    let second = taken.hand;
    // More from one that has shared, while the other holds the turn: remembered until that one comes back.
    assert_eq!(stage.give_back(first, Outcome::More), None);
    assert!(stage.take().is_none());
    assert_eq!(stage.give_back(second, Outcome::Left), None);
    let mut third = stage.hand('A');
    assert!(stage.share(&mut third));
    let fourth = stage.hand('A');
    // The holder has nothing to hand out, and nor has anybody else: the turn is away until the other says more.
    assert_eq!(stage.give_back(fourth, Outcome::Left), None);
    assert!(stage.take().is_none());
    assert_eq!(stage.give_back(third, Outcome::More), None);
    let fifth = stage.hand('A');
    assert_eq!(stage.give_back(fifth, Outcome::Done), Some(End::Done));
    stage.assert_empty();
}

#[test]
fn done_waits_for_who_has_just_taken_the_turn() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let mut first = stage.hand('A');
    assert!(stage.share(&mut first));
    let second = stage.hand('A');
    assert_eq!(stage.give_back(first, Outcome::Done), None);
    assert_eq!(stage.scheduler.jobs(), 1);
    assert_eq!(stage.give_back(second, Outcome::More), Some(End::Done), "what it returns does not matter");
    stage.assert_empty();
}

#[test]
fn done_takes_the_job_out_of_its_line() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let mut hand = stage.hand('A');
    assert!(stage.share(&mut hand));
    assert_eq!(stage.give_back(hand, Outcome::Done), Some(End::Done));
    assert!(stage.take().is_none());
    stage.assert_empty();
}

#[test]
fn a_panic_ends_the_job_when_the_last_worker_is_out() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let mut first = stage.hand('A');
    assert!(stage.share(&mut first));
    let mut second = stage.hand('A');
    assert!(stage.share(&mut second));
    assert_eq!(stage.give_back(first, Outcome::Panicked), None);
    assert!(stage.take().is_none(), "handed out no more");
    assert_eq!(stage.give_back(second, Outcome::More), Some(End::Panicked));
    stage.assert_empty();
}

#[test]
fn a_job_that_says_done_is_done_whoever_panicked() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let mut first = stage.hand('A');
    assert!(stage.share(&mut first));
    let second = stage.hand('A');
    assert_eq!(stage.give_back(first, Outcome::Panicked), None);
    assert_eq!(stage.give_back(second, Outcome::Done), Some(End::Done));
    stage.assert_empty();
}

#[test]
fn a_job_that_everybody_left_is_not_held_forever() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let hand = stage.hand('A');
    assert_eq!(stage.give_back(hand, Outcome::Left), Some(End::Panicked));
    stage.assert_empty();
}

#[test]
fn a_hurried_job_goes_first_and_once() {
    let mut stage = fair();
    for (name, connection) in [('A', 1), ('B', 1), ('C', 2)] {
        stage.submit(name, 0, connection);
    }
    let ticket = stage.submit('D', 0, 1);
    stage.scheduler.hurry(ticket);
    let hand = stage.hand('D');
    stage.scheduler.hurry(ticket);
    assert_eq!(stage.give_back(hand, Outcome::More), None);
    stage.scheduler.hurry(ticket);
    assert_eq!(stage.run("ABCDD"), "CABDD");
    stage.scheduler.hurry(ticket);
    let other = stage.submit('E', 0, 1);
    assert_eq!(other.index, ticket.index, "the place is used again");
    stage.submit('F', 0, 2);
    stage.scheduler.hurry(ticket);
    assert_eq!(stage.run("EF"), "EF", "the old ticket names nothing");
    stage.assert_empty();
}

#[test]
fn one_that_is_cancelled_while_it_runs_goes_first_when_it_comes_back() {
    let mut stage = fair();
    let cancellation = Arc::new(Cancellation::new());
    stage.submit_with('A', 0, 1, &cancellation);
    stage.submit('B', 0, 1);
    let hand = stage.hand('A');
    cancellation.cancel(Reason::Disconnected);
    assert_eq!(stage.give_back(hand, Outcome::More), None);
    assert_eq!(stage.run("ABB"), "ABB");
    stage.assert_empty();
}

#[test]
fn the_late_go_first_in_the_order_of_their_deadlines() {
    let mut stage = fair();
    let start = stage.now;
    for (name, slices) in [('A', 3), ('B', 1), ('C', 5)] {
        let cancellation = Arc::new(Cancellation::new());
        cancellation.set_deadline(start + SLICE * slices);
        stage.submit_with(name, 0, u64::from(slices), &cancellation);
    }
    stage.submit('x', 1, 100);
    // After one slice B is late, after three A, after five C; their tenant pays for it.
    assert_eq!(stage.run("AABBCCxxxxxxxxx"), "ABxAxCxxBxCxxxx");
    stage.assert_empty();
}

#[test]
fn a_stop_ends_what_waits_at_once_and_what_runs_when_it_comes_back() {
    let mut stage = fair();
    for name in ['A', 'B', 'C'] {
        stage.submit(name, 0, 0);
    }
    let mut running = stage.hand('A');
    let done = stage.hand('B');
    stage.scheduler.set_draining();
    let admission = Admission { tenant: 0, connection: 0, bytes: 0, cancellation: Arc::default() };
    assert_eq!(stage.scheduler.admit('D', admission, stage.now).unwrap_err().2, Rejection::ShuttingDown);
    let ended: Vec<(char, End)> = stage.scheduler.stop().into_iter().map(|ending| (ending.item, ending.end)).collect();
    assert_eq!(ended, [('C', End::ShutDown)]);
    stage.scheduler.release(Receipt { tenant: 0, connection: 0, bytes: 1 });
    assert!(stage.take().is_none() && !stage.share(&mut running));
    assert_eq!(stage.give_back(running, Outcome::More), Some(End::ShutDown));
    assert_eq!(stage.give_back(done, Outcome::Done), Some(End::Done), "it has answered");
    stage.assert_empty();
}

/// Newcomers go first, each of them, and are remembered for what they had; but neither without end.
#[test]
fn a_stream_of_newcomers_neither_fills_memory_nor_starves_others() {
    let mut stage = fair();
    stage.submit('A', 0, 0);
    let mut turns = 0;
    for newcomer in 1..2_000 {
        let (tenant, connection) = if newcomer % 2 == 0 { (newcomer, 0) } else { (0, newcomer) };
        stage.submit('n', tenant, connection);
        let taken = stage.take().unwrap();
        turns += u64::from(taken.item == 'A');
        let outcome = if taken.item == 'A' { Outcome::More } else { Outcome::Done };
        stage.give_back(taken.hand, outcome);
        let (held, scheduler) = (stage.scheduler.jobs(), &stage.scheduler);
        assert!(scheduler.tenants.len() <= 2 * held + IDLE_FLOWS_SPARE, "{} tenants", scheduler.tenants.len());
        assert!(scheduler.connections.len() <= 3 * (held + IDLE_FLOWS_SPARE), "{}", scheduler.connections.len());
    }
    assert!(turns > 10, "{turns}");
    while let Some(taken) = stage.take() {
        stage.give_back(taken.hand, Outcome::Done);
    }
    stage.assert_empty();
}
