//! Simulations of lanes: explicit schedules of clients, whose cost is counted and never measured.

use super::*;

/// The steps of a slice of busy clients.
const STEP_COST: u64 = SLICE_COST / 4;
/// The client whose waiting is counted.
const QUIET: u32 = u32::MAX;

fn client(number: u32) -> IpAddr {
    IpAddr::from(number.to_be_bytes())
}

/// Work in steps.
#[derive(Clone, Copy, Debug)]
struct Work {
    client: u32,
    steps: u64,
    step_cost: u64,
}

impl Work {
    fn long(client: u32) -> Self {
        Work { client, steps: u64::MAX, step_cost: STEP_COST }
    }
}

/// A lane with one thread.
struct Lane {
    turns: Turns<Work>,
    /// Cost of the work done for each client.
    served: HashMap<u32, u64>,
}

impl Lane {
    fn new() -> Self {
        Lane { turns: Turns::new(), served: HashMap::new() }
    }

    fn push(&mut self, work: Work) -> u64 {
        let expected = work.steps.saturating_mul(work.step_cost);
        self.turns.push(client(work.client), work, expected)
    }

    fn add(&mut self, work: Work) {
        self.push(work);
    }

    /// Runs a slice, in the first step of which work may arrive. Returns the client and the cost; `None` if nothing waits.
    fn slice_with(&mut self, arriving: Option<Work>) -> Option<(u32, u64)> {
        let (turn, mut work) = self.turns.pop()?;
        let arrived = arriving.map(|arriving| self.push(arriving));
        let mut cost = 0;
        while work.steps > 0 && cost < SLICE_COST {
            work.steps -= 1;
            cost += work.step_cost;
            if arrived.is_some_and(|arrived| turn.yields_to(arrived)) {
                break;
            }
        }
        *self.served.entry(work.client).or_default() += cost;
        self.turns.end_turn(turn, (work.steps > 0).then_some(work), cost);
        Some((work.client, cost))
    }

    fn slice(&mut self) -> Option<(u32, u64)> {
        self.slice_with(None)
    }

    /// Runs slices, each followed by `after`.
    fn slices(&mut self, count: usize, mut after: impl FnMut(&mut Self, u32)) {
        for _ in 0..count {
            let (client, _) = self.slice().expect("work waits");
            after(self, client);
        }
    }

    /// Runs a request of the quiet client in pieces of this cost, each of which arrives when a slice of another has just begun. Returns the
    /// cost of others that it waited for.
    fn quiet_request(&mut self, pieces: usize, step_cost: u64, mut after: impl FnMut(&mut Self, u32)) -> u64 {
        let mut waited = 0;
        for _ in 0..pieces {
            let mut arriving = Some(Work { client: QUIET, steps: 1, step_cost });
            loop {
                let (client, cost) = self.slice_with(arriving.take()).expect("work waits");
                after(self, client);
                if client == QUIET {
                    break;
                }
                waited += cost;
            }
        }
        waited
    }
}

/// The most that a quiet client's small request may wait for.
const WAIT_MAX: u64 = 5 * SLICE_COST;

#[test]
fn a_quiet_client_waits_for_few_slices_beside_any_number_of_busy_ones() {
    for count in [1, 10, 1000] {
        // From a burst in which no client has had a turn to a long time later.
        for slices in [0, 1, count / 2, count, 7 * count + 3, 20 * count] {
            let mut lane = Lane::new();
            (0..count).for_each(|number| lane.add(Work::long(number as u32)));
            lane.slices(slices, |_, _| {});
            // Pieces that are expected to cost as much as they do: a slice altogether beside a burst.
            let waited = lane.quiet_request(4, SLICE_COST / 5, |_, _| {});
            assert!(waited <= WAIT_MAX, "{count} clients, {slices} slices: {waited}");
        }
        let mut lane = Lane::new();
        (0..count).for_each(|number| lane.add(Work::long(number as u32)));
        lane.slices(10 * count, |_, _| {});
        // Beside clients that are busy, pieces of one step each wait for a step of another.
        for _ in 0..20 {
            let waited = lane.quiet_request(12, SLICE_COST / 12, |_, _| {});
            assert!(waited <= WAIT_MAX, "{count} clients: {waited}");
            lane.slices(20 * count, |_, _| {});
        }
    }
}

#[test]
fn a_quiet_client_waits_for_few_slices_beside_many_small_requests_of_others() {
    for count in [10, 1000] {
        let small = |number: u32| Work { client: number, steps: 1, step_cost: SLICE_COST / 10 };
        // Each client sends its next request when one has ended; one client has many at a time.
        let again = |lane: &mut Lane, number: u32| {
            if number != QUIET {
                lane.push(small(number));
            }
        };
        let mut lane = Lane::new();
        for number in 0..count {
            let pieces = if number == 0 { 500 } else { 1 };
            (0..pieces).for_each(|_| lane.add(small(number)));
        }
        lane.slices(50 * count as usize, again);
        for _ in 0..10 {
            let waited = lane.quiet_request(10, SLICE_COST / 10, again);
            assert!(waited <= WAIT_MAX, "{count} clients: {waited}");
            lane.slices(100 * count as usize, again);
        }
    }
}

#[test]
fn a_quiet_client_waits_for_few_slices_beside_one_that_comes_and_goes() {
    for slices in 1..8 {
        let mut lane = Lane::new();
        (0..100).for_each(|number| lane.add(Work::long(number)));
        let visit = Work { client: 500, steps: 4 * slices, step_cost: STEP_COST };
        lane.push(visit);
        let mut left = 4 * slices;
        // It returns as soon as its work is done.
        let mut again = |lane: &mut Lane, number: u32| {
            left -= if number == 500 { left.min(4) } else { 0 };
            if left == 0 {
                left = 4 * slices;
                lane.push(visit);
            }
        };
        lane.slices(3000, &mut again);
        let (gone, stayed) = (lane.served[&500], lane.served[&0]);
        assert!(gone.abs_diff(stayed) <= ALLOWANCE + SLICE_COST, "{gone} {stayed}");
        let waited = lane.quiet_request(6, SLICE_COST / 6, &mut again);
        assert!(waited <= WAIT_MAX, "{waited}");
    }
}

/// Busy clients of all kinds in any mixture: one long piece, many of them, small ones one after the other, and visits of some slices.
#[test]
fn a_quiet_client_waits_for_few_slices_in_random_schedules() {
    for seed in 1..60_u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut lane = Lane::new();
        let count = 1 + random(300) as u32;
        let kinds: Vec<(u64, u64)> = (0..count).map(|_| (random(4), STEP_COST / (1 + random(9)))).collect();
        let piece = |number: u32| {
            let (kind, step_cost) = kinds[number as usize];
            let steps = [u64::MAX, u64::MAX, 1, 40][kind as usize];
            Work { client: number, steps, step_cost }
        };
        let mut owed: HashMap<u32, u64> = HashMap::new();
        for number in 0..count {
            let pieces = if kinds[number as usize].0 == 1 { 20 } else { 1 };
            (0..pieces).for_each(|_| lane.add(piece(number)));
        }
        // A client whose work is done sends more.
        let mut again = |lane: &mut Lane, number: u32| {
            if number == QUIET || kinds[number as usize].0 < 2 {
                return;
            }
            let all = piece(number).steps * piece(number).step_cost;
            let served = lane.served[&number];
            let sent = owed.entry(number).or_insert(all);
            if served >= *sent {
                *sent += all;
                lane.push(piece(number));
            }
        };
        lane.slices(30 * count as usize, &mut again);
        for _ in 0..4 {
            let waited = lane.quiet_request(8, SLICE_COST / 8, &mut again);
            assert!(waited <= WAIT_MAX, "seed {seed}: {waited}");
            lane.slices(40 * count as usize + random(100) as usize, &mut again);
        }
    }
}

#[test]
fn equal_clients_get_equal_shares_within_a_slice() {
    let mut lane = Lane::new();
    // One long piece; many long ones; many small ones; small ones one after the other; steps of another size.
    let small = |client| Work { client, steps: 1, step_cost: SLICE_COST / 50 };
    lane.push(Work::long(0));
    (0..50).for_each(|_| lane.add(Work::long(1)));
    (0..100).for_each(|_| lane.add(small(2)));
    lane.push(small(3));
    lane.push(Work { client: 4, steps: u64::MAX, step_cost: SLICE_COST / 7 });
    let mut last = 0;
    for turn in 0..20_000 {
        let (client, _) = lane.slice().unwrap();
        if client == 2 || client == 3 {
            lane.push(small(client));
        }
        let shares = || (0..5).map(|client| lane.served.get(&client).copied().unwrap_or(0));
        let (least, most) = (shares().min().unwrap(), shares().max().unwrap());
        // The slices of client 4 are longer by a part of a step.
        assert!(most - least <= SLICE_COST + SLICE_COST / 7, "turn {turn}: {least} to {most}");
        last = least;
    }
    assert!(last > 100 * SLICE_COST);
}

#[test]
fn clients_that_share_a_lane_have_turns_by_cost_and_not_by_pieces() {
    let mut lane = Lane::new();
    lane.push(Work { client: 1, steps: u64::MAX, step_cost: SLICE_COST });
    let small = Work { client: 2, steps: 1, step_cost: SLICE_COST / 10 };
    (0..100).for_each(|_| lane.add(small));
    lane.slices(110, |lane, client| {
        if client == 2 {
            lane.push(small);
        }
    });
    assert!(lane.served[&1].abs_diff(lane.served[&2]) <= SLICE_COST, "{:?}", lane.served);
}

#[test]
fn new_clients_without_end_stop_no_other() {
    let mut lane = Lane::new();
    lane.push(Work::long(0));
    lane.slices(10, |_, _| {});
    lane.served.clear();
    for number in 1..2000 {
        lane.push(Work { client: 2 * number, steps: 4, step_cost: STEP_COST });
        lane.push(Work { client: 2 * number + 1, steps: 4, step_cost: STEP_COST });
        lane.slice();
    }
    let all: u64 = lane.served.values().sum();
    assert!(lane.served[&0] >= all / 5 - SLICE_COST, "{} of {all}", lane.served[&0]);
}

#[test]
fn quiet_clients_that_arrive_together_have_equal_turns() {
    let mut lane = Lane::new();
    lane.push(Work::long(0));
    lane.slices(10, |_, _| {});
    (1..=10).for_each(|number| lane.add(Work { client: number, steps: 8, step_cost: STEP_COST }));
    let order: Vec<u32> = (0..26).filter_map(|_| lane.slice()).map(|(client, _)| client).collect();
    let turns = |client| order.iter().filter(|&&other| other == client).count();
    assert!((1..=10).all(|client| turns(client) == 2), "{order:?}");
    assert!(order[..10].iter().filter(|&&client| client == 0).count() <= 2, "{order:?}");
}

#[test]
fn the_memory_of_clients_is_bounded() {
    let mut lane = Lane::new();
    lane.push(Work::long(0));
    for number in 1..=3 * IDLE_CLIENTS_MAX as u32 {
        // Each has had its allowance, so that none is like new at once.
        lane.push(Work { client: number, steps: 1, step_cost: SLICE_COST });
        while lane.slice().is_some_and(|(client, _)| client == 0) {}
        assert!(lane.turns.idle.len() <= IDLE_CLIENTS_MAX && lane.turns.clients.len() <= IDLE_CLIENTS_MAX + 2);
    }
    // Those that the virtual time has passed are forgotten.
    lane.slices(1000, |_, _| {});
    assert_eq!(lane.turns.clients.len(), 1);
    let mut lane = Lane::new();
    (0..1000).for_each(|number| lane.add(Work { client: number, steps: 9, step_cost: STEP_COST }));
    while lane.slice().is_some() {}
    assert!(lane.turns.clients.is_empty() && lane.turns.idle.is_empty(), "no competition");
}

#[test]
fn a_client_is_not_quiet_while_its_work_runs() {
    let mut lane = Lane::new();
    (0..10).for_each(|number| lane.add(Work::long(number)));
    lane.slices(100, |_, _| {});
    let (turn, work) = lane.turns.pop().unwrap();
    // A piece that arrives now starts behind what runs, and interrupts neither it nor others of equal rank.
    let arrived = lane.push(Work { client: work.client, steps: 1, step_cost: 1 });
    assert!(!turn.yields_to(arrived));
    lane.turns.end_turn(turn, Some(work), SLICE_COST);
    let order: Vec<u32> = (0..9).filter_map(|_| lane.slice()).map(|(client, _)| client).collect();
    assert!(!order.contains(&work.client), "{order:?}");
}

/// Several threads take turns of one client at the same time.
#[test]
fn running_slices_are_charged_before_they_end() {
    let mut turns = Turns::new();
    for number in [1, 2] {
        (0..10).for_each(|_| {
            turns.push(client(number), number, SLICE_COST);
        });
    }
    let running: Vec<_> = (0..4).filter_map(|_| turns.pop()).collect();
    assert_eq!(running.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [1, 2, 1, 2]);
    running.into_iter().for_each(|(turn, _)| turns.end_turn(turn, None, SLICE_COST));
}

/// Behind a balancer many users are one client.
#[test]
fn a_new_piece_of_work_goes_before_old_ones_of_its_client() {
    let mut turns = Turns::new();
    let run = |turns: &mut Turns<&'static str>| {
        let (turn, name) = turns.pop().unwrap();
        turns.end_turn(turn, (name == "long").then_some(name), SLICE_COST);
        name
    };
    (0..10).for_each(|_| {
        turns.push(client(1), "long", SLICE_COST);
    });
    (0..40).for_each(|_| {
        run(&mut turns);
    });
    turns.push(client(1), "small", 1);
    let waited = std::iter::repeat_with(|| run(&mut turns)).take_while(|name| *name != "small").count();
    assert!(waited <= 1, "{waited}");
}
