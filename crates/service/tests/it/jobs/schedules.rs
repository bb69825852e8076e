//! Random schedules, and the invariants of each: one answer, counted once, and all memory released.

use super::*;

struct Simulation {
    world: Arc<World>,
    pool: Arc<Pool>,
    script: Script,
    answers: Mutex<Share>,
    inbox: Inbox,
    waits: Arc<Waits>,
}

impl Simulation {
    fn new(script: Script, random: Option<Random>, workers: usize, answers_bytes_max: usize) -> Simulation {
        let waits = Arc::<Waits>::default();
        let observer = Arc::<Waits>::clone(&waits);
        let settings = PoolSettings { workers, observer, ..PoolSettings::default() };
        let world = World { workers, random: Mutex::new(random), ..World::default() };
        let clock = StepClock { began: Instant::now(), time: Arc::clone(&world.time), tick: Arc::clone(&world.tick) };
        let pool = Arc::new(Pool::manual(settings, Arc::new(clock)));
        world.engine.set(Arc::clone(&pool)).expect("set once");
        let answers = Mutex::new(Share::alone(answers_bytes_max));
        Simulation { world: Arc::new(world), pool, script, answers, inbox: Inbox::default(), waits }
    }

    /// Submits the one request, whose answer is [`Simulation::inbox`].
    fn submit(&self) {
        let cancellation = Arc::<Cancellation>::default();
        *self.world.cancellation.lock().unwrap() = Some(Arc::clone(&cancellation));
        let share = self.answers.lock().unwrap().take();
        let (job, admission) = self.job_with(self.script.clone(), 0, cancellation, share, self.inbox.clone());
        if let Err(rejected) = self.pool.submit(job, admission) {
            rejected.job.abandoned(Abandoned::Rejected(rejected.cause));
        }
    }

    /// A request with its own tenant and connection, as it arrives from the network.
    fn job(&self, script: Script, tenant: u64) -> (Arc<RequestJob>, Admission) {
        self.job_with(script, tenant, Arc::default(), Share::alone(1 << 20), Inbox::default())
    }

    fn job_with(
        &self,
        script: Script,
        tenant: u64,
        cancellation: Arc<Cancellation>,
        share: Share,
        inbox: Inbox,
    ) -> (Arc<RequestJob>, Admission) {
        let request = RequestStage::working(ScriptedRequest::new(&self.world, script));
        let job = RequestJob::new(request, Arc::clone(&cancellation), share, Reply::new(inbox));
        (Arc::new(job), Admission { tenant, client: tenant, connection: tenant, bytes: REQUEST_SIZE, cancellation })
    }

    fn run(&self) {
        self.world.depth.store(1, Ordering::Relaxed);
        while self.pool.run_one() {}
    }

    fn answers_bytes(&self) -> usize {
        self.answers.lock().unwrap().budget_used()
    }

    /// Checks that the one answer has all the work that was done, whatever the result.
    fn assert_is_counted(&self) {
        let answers = self.inbox.0.lock().unwrap();
        let [(_, effort)] = &answers[..] else { panic!("{} answers", answers.len()) };
        assert_eq!(effort.fields, self.world.fields.load(Ordering::Relaxed));
        let passed = Duration::from_nanos(self.world.time.load(Ordering::Relaxed));
        match self.world.workers {
            1 => assert_eq!(effort.time, passed),
            // Slices that run nested count in both.
            workers => assert!(effort.time >= passed && effort.time <= passed * workers as u32),
        }
    }

    fn assert_all_is_given_back(&self) {
        assert_eq!(self.world.alive.load(Ordering::Relaxed), 0, "requests and parts that were not dropped");
        assert_eq!(self.answers_bytes(), 0, "memory that still counts");
        let counters = self.pool.counters();
        assert_eq!((counters.jobs_held, counters.bytes_held, counters.workers_busy), (0, 0, 0));
    }
}

/// A clock that the steps of requests advance.
struct StepClock {
    began: Instant,
    time: Arc<AtomicU64>,
    tick: Arc<AtomicU64>,
}

impl PoolClock for StepClock {
    fn now(&self) -> Instant {
        let tick = self.tick.load(Ordering::Relaxed);
        self.began + Duration::from_nanos(self.time.fetch_add(tick, Ordering::Relaxed))
    }
}

fn one_seed(seed: u64) {
    let mut random = Random(seed);
    let script = Script::from_random(&mut random);
    let workers = random.below(4) + 1;
    let answers_bytes_max = if random.one_in(8) { random.below(600) } else { 1 << 20 };
    let cancel_in = if random.one_in(4) { random.below(30) + 1 } else { usize::MAX };
    let expected = [true, !script.works_unplanned].map(|is_planned| script.expected(is_planned));
    let panics = script.parts.iter().any(|part| part.panics);
    let simulation = Simulation::new(script, Some(random), workers, answers_bytes_max);
    simulation.world.cancel_in.store(cancel_in, Ordering::Relaxed);
    simulation.submit();
    simulation.run();

    // The work of a part that panicked is dropped with it.
    if !panics {
        simulation.assert_is_counted();
    }
    let answer = reported(simulation.inbox.take());
    let cancelled_at = *simulation.world.cancelled_at.lock().unwrap();
    match answer {
        Ok(content) => assert_eq!(Ok(content), expected[0]),
        Err((code, _)) if code == "cancelled" => assert!(cancelled_at.is_some()),
        Err((code, _)) if code == "internal" => assert!(panics),
        Err((code, _)) if code == "overloaded" => assert!(answers_bytes_max < 600),
        Err((_, message)) => assert!(expected.contains(&Err(message.clone())), "{message}: {expected:?}"),
    }
    if let Some((steps, inside)) = cancelled_at {
        let later = simulation.world.steps.load(Ordering::Relaxed) - steps;
        assert!(later <= inside, "{later} steps after it was cancelled, with {inside} workers inside");
    }
    simulation.assert_all_is_given_back();
}

/// `LEAFSEAL_SEED` replays one schedule.
#[test]
fn whatever_the_schedule_the_answer_is_that_of_one_worker() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("as the script wishes") {
            default(info);
        }
    }));
    if let Some(seed) = std::env::var("LEAFSEAL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return one_seed(seed);
    }
    for seed in 0..20_000 {
        let run = std::panic::catch_unwind(|| one_seed(seed));
        assert!(run.is_ok(), "replay it with LEAFSEAL_SEED={seed}");
    }
}

fn parts(sizes: &[usize]) -> Script {
    let parts = sizes.iter().map(|&size| PartScript { steps: vec![size], fails: false, panics: false, walks: 0 });
    Script { parts: parts.collect(), size_max: usize::MAX, ..Script::default() }
}

#[test]
fn large_parts_go_out_in_the_buffers_that_they_were_written_in() {
    let sizes = [20_000, 30, 40, 30_000];
    let simulation = Simulation::new(parts(&sizes), None, 2, 1 << 20);
    simulation.submit();
    simulation.run();
    let held = simulation.answers_bytes();
    let answer = simulation.inbox.take().expect("an answer");
    assert_eq!(answer.iter().map(Vec::len).collect::<Vec<_>>(), [HEAD_SIZE, 20_000, 70, 30_000]);
    assert_eq!(held, answer.iter().map(Vec::capacity).sum::<usize>(), "each byte counts until it is taken");
    assert_eq!(reported(Ok(answer)).expect("content").len(), sizes.iter().sum::<usize>());
    simulation.assert_all_is_given_back();
}

/// Working memory of a request counts from the call that allocates it to the call that frees it; if there is no room for it, the request
/// fails as it does if there is none for its answer.
#[test]
fn the_memory_that_a_request_works_with_counts_as_its_answer_does() {
    /// More than all buffers of these answers.
    const BUFFERS: usize = 400;
    let memory = vec![1_000, 7_000, 3_000, 9_000, 2_000];
    let alone = Script { steps_alone: 4, memory: memory.clone(), ..Script::default() };
    let spread = Script { memory: memory.clone(), ..parts(&[10; 6]) };
    // The step before which to check, and the number of calls of the request until then: each part runs right after it was planned.
    let looks_alone = [(2, 1), (3, 2), (4, 3), (5, 4)];
    let looks_spread = [(2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (9, 5), (11, 6)];
    for (script, looks) in [(&alone, &looks_alone[..]), (&spread, &looks_spread[..])] {
        for &(step, calls) in looks {
            let simulation = Simulation::new(script.clone(), None, 1, 9_000 + BUFFERS);
            let (watch, held) = (simulation.answers.lock().unwrap().take(), Arc::new(AtomicUsize::new(usize::MAX)));
            let seen = Arc::clone(&held);
            let look = Box::new(move || seen.store(watch.budget_used(), Ordering::Relaxed));
            *simulation.world.arrival.lock().unwrap() = Some((step, look));
            simulation.submit();
            simulation.run();
            let (held, expected) = (held.load(Ordering::Relaxed), memory.get(calls - 1).copied().unwrap_or(0));
            assert!((expected..expected + BUFFERS).contains(&held), "{held} bytes before step {step}, not {expected}");
            assert!(simulation.answers_bytes() < BUFFERS, "the answer alone is left");
            reported(simulation.inbox.take()).expect("content");
            simulation.assert_all_is_given_back();
        }
        let simulation = Simulation::new(script.clone(), None, 1, 8_999);
        simulation.submit();
        simulation.run();
        assert_eq!(reported(simulation.inbox.take()).expect_err("no room").0, "overloaded");
        assert!(simulation.world.steps.load(Ordering::Relaxed) <= 6, "it has ended with the fourth call");
        simulation.assert_all_is_given_back();
    }
}

/// A guarantee of the design, a small request of another tenant waits only for the running slices,
/// regardless of the large request ahead of it.
#[test]
fn a_small_request_waits_for_the_slices_in_hand_only() {
    let mut longest = Duration::ZERO;
    for seed in 0..200 {
        let mut random = Random(seed);
        let (workers, step) = (random.below(3) + 1, random.below(900) + 10);
        let simulation = Simulation::new(Script::default(), Some(random), workers, 1 << 20);
        let (large, of_large) = simulation.job(parts(&[10; 1_000]), 1);
        let (small, of_small) = simulation.job(Script::default(), 2);
        let pool = Arc::clone(&simulation.pool);
        pool.submit(large, of_large).expect("admitted");
        let arrive = Box::new(move || {
            pool.submit(small, of_small).expect("admitted");
        });
        *simulation.world.arrival.lock().unwrap() = Some((step, arrive));
        simulation.run();
        let waits = &simulation.waits;
        // A slice with time left begins one more step; steps of other workers run nested in it.
        let slice = SLICE_TIME + Duration::from_nanos(STEP_TIME_MAX_NS as u64);
        let (count, sum, most) = (waits.count(), waits.sum(), slice * workers as u32);
        assert!(count == 2 && sum <= most, "seed {seed}, {workers} workers: {count} waits of {sum:?} in all");
        longest = longest.max(sum);
    }
    assert!(longest > SLICE_TIME / 2, "some had to wait: {longest:?}");
}

/// A large answer that is not needed any more is freed over many slices, however its request ends, because freeing it at once would occupy
/// a worker for milliseconds. Other requests are processed meanwhile.
#[test]
fn unwanted_answers_are_freed_in_pieces() {
    const PARTS: usize = 5_000;
    let many = parts(&[5_000; PARTS]);
    let faulty = Script { fault_in_planning: Some(PARTS - 1), ..many.clone() };
    let too_large = Script { size_max: PARTS * 5_000 - 1, ..many.clone() };
    for (script, code) in [(many, "cancelled"), (faulty, "invalid_params"), (too_large, "invalid_params")] {
        let simulation = Simulation::new(script, None, 1, 1 << 30);
        if code == "cancelled" {
            simulation.world.cancel_in.store(2 * PARTS - 2, Ordering::Relaxed);
        }
        let (small, of_small) = simulation.job(Script::default(), 2);
        let (pool, tick) = (Arc::clone(&simulation.pool), Arc::clone(&simulation.world.tick));
        let at_the_end = Box::new(move || {
            // From now on each reading of the clock ends a slice.
            tick.store(SLICE_TIME.as_nanos() as u64, Ordering::Relaxed);
            pool.submit(small, of_small).expect("admitted");
        });
        *simulation.world.arrival.lock().unwrap() = Some((2 * PARTS - 3, at_the_end));
        simulation.submit();
        simulation.run();
        assert_eq!(reported(simulation.inbox.take()).expect_err("no content").0, code);
        let counters = simulation.pool.counters();
        let least = PARTS / FREED_BUFFERS_MAX;
        assert!(counters.slices as usize >= least, "{} slices, not {least}", counters.slices);
        assert_eq!(counters.jobs_done, 2);
        let waits = &simulation.waits;
        assert!(waits.sum() <= 10 * SLICE_TIME, "{:?}", waits.sum());
        simulation.assert_all_is_given_back();
    }
}

#[test]
fn a_deadline_ends_a_request_between_two_parts() {
    // Before the clock of the simulation, which stands still, however long the machine takes to get there.
    let past = Instant::now() - Duration::from_millis(1);
    let simulation = Simulation::new(parts(&[10; 50]), None, 2, 1 << 20);
    simulation.submit();
    let cancellation = simulation.world.cancellation.lock().unwrap().take().expect("submitted");
    cancellation.set_deadline(past);
    simulation.run();
    assert_eq!(reported(simulation.inbox.take()).expect_err("late").0, "deadline_exceeded");
    assert_eq!(simulation.world.steps.load(Ordering::Relaxed), 0);
    simulation.assert_all_is_given_back();
}

#[test]
fn a_pool_that_shuts_down_answers_for_what_it_drops() {
    let simulation = Simulation::new(parts(&[10; 5_000]), None, 2, 1 << 20);
    simulation.submit();
    simulation.world.depth.store(1, Ordering::Relaxed);
    assert!(simulation.pool.run_one(), "some of it");
    simulation.pool.shutdown(Duration::ZERO);
    assert_eq!(reported(simulation.inbox.take()).expect_err("dropped").0, "unavailable");
    simulation.assert_all_is_given_back();
}
