//! The gain of a client that sends each small job over its own connection: from its own busy connection, and from another client of the
//! same tenant.

use super::workers::Workers;
use super::*;

const SCHEDULES: u64 = 100;
const TIME_NS: u64 = 40_000_000;
const BUSY: usize = 0;
const FRESH: usize = 1;

/// The share of the service that new connections get; they belong to `client`, the busy connection to client 0.
fn share_of_fresh(mut rng: StdRng, client: u64) -> f64 {
    let mut workers = Workers::new(1, usize::MAX, true);
    let mut connection = 0;
    let submit = |workers: &mut Workers, job, client, connection| {
        let admission = Admission { tenant: 0, client, connection, bytes: 0, cancellation: Arc::default() };
        let now = workers.now();
        workers.scheduler.admit(job, admission, now).expect("room");
    };
    // Independent of the number of jobs that wait on the busy connection.
    let busy = rng.random_range(1..300);
    (0..busy).for_each(|_| submit(&mut workers, BUSY, 0, connection));
    let longest = [2_000, 20_000, 100_000][rng.random_range(0..3)];
    let mut served = [0; 2];
    while workers.now_ns < TIME_NS {
        connection += 1;
        submit(&mut workers, FRESH, client, connection);
        loop {
            workers.hand_out(|job| if job == BUSY { 50_000 } else { rng.random_range(1_000..longest) });
            let ended = workers.end_next();
            served[ended.job] += ended.cost_ns;
            workers.give_back(&ended, if ended.job == BUSY { SliceOutcome::More } else { SliceOutcome::Done });
            if ended.job == FRESH {
                break;
            }
        }
    }
    served[FRESH] as f64 / (served[BUSY] + served[FRESH]) as f64
}

#[test]
fn fresh_connections_leave_a_busy_one_of_the_same_client_a_tenth() {
    // As if each of the remembered connections, and one more, were busy.
    let most = (IDLE_CONNECTIONS_MAX + 1) as f64 / (IDLE_CONNECTIONS_MAX + 2) as f64;
    play(SCHEDULES, |rng| {
        let share = share_of_fresh(rng, 0);
        assert!(share < most + 0.01, "{share}");
    });
}

#[test]
fn fresh_connections_take_no_more_from_another_client_than_its_half() {
    play(SCHEDULES, |rng| {
        let share = share_of_fresh(rng, 1);
        assert!(share < 0.51, "{share}");
    });
}
