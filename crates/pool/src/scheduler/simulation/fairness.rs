//! Shares of service: tenants and connections that are always busy, while others come and go, one job at a time.

use super::*;

/// Maximum duration of a slice.
const SLICE_MAX_NS: u64 = 200_000;
const SCHEDULES: u64 = 300;
const SLICES: usize = 4_000;

struct Client {
    tenant: u64,
    connection: u64,
    /// Maximum duration of its slices; the minimum is 1 µs.
    slice_ns: u64,
    /// Whether its jobs release their turn early.
    shares: bool,
    /// If set, it has one job at a time, of one slice, and a pause of up to this after each.
    pause_ns: Option<u64>,
}

impl Client {
    fn is_busy(&self) -> bool {
        self.pause_ns.is_none()
    }
}

struct Working {
    client: usize,
    hand: SliceHandle,
    began_ns: u64,
    until_ns: u64,
}

struct Floor {
    rng: StdRng,
    scheduler: Scheduler<usize>,
    start: Instant,
    now_ns: u64,
    clients: Vec<Client>,
    workers: Vec<Option<Working>>,
    /// Finished service by client.
    served_ns: Vec<u64>,
    /// When which clients return from their pause.
    pausing: Vec<(u64, usize)>,
}

impl Floor {
    fn new(mut rng: StdRng) -> Floor {
        let most = Amount { jobs: usize::MAX, bytes: usize::MAX };
        let mut clients = Vec::new();
        let mut add = |rng: &mut StdRng, tenant, connections, pause_ns| {
            for connection in 0..connections {
                let slice_ns = [2_000, 50_000, SLICE_MAX_NS][rng.random_range(0..3)];
                clients.push(Client { tenant, connection, slice_ns, shares: rng.random(), pause_ns });
            }
        };
        for tenant in 0..rng.random_range(2..5) {
            let connections = rng.random_range(1..5);
            add(&mut rng, tenant, connections, None);
        }
        for tenant in 10..10 + rng.random_range(0..4) {
            let pause_ns = rng.random_range(1..300_000);
            add(&mut rng, tenant, 1, Some(pause_ns));
        }
        let workers = rng.random_range(1..=8);
        let mut floor = Floor {
            scheduler: Scheduler::new(
                LedgerLimits { total: most, tenant: most, connection: most },
                Scheduling::Fair,
                workers,
                true,
            ),
            start: Instant::now(),
            now_ns: 0,
            served_ns: vec![0; clients.len()],
            clients,
            workers: (0..workers).map(|_| None).collect(),
            pausing: Vec::new(),
            rng,
        };
        for client in 0..floor.clients.len() {
            // So many that some always wait, whichever the workers run.
            let jobs = if floor.clients[client].is_busy() { workers + 1 } else { 1 };
            (0..jobs).for_each(|_| floor.submit(client));
        }
        floor
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.now_ns)
    }

    fn submit(&mut self, client: usize) {
        let Client { tenant, connection, .. } = self.clients[client];
        let admission = Admission { tenant, client: 0, connection, bytes: 0, cancellation: Arc::default() };
        self.scheduler.admit(client, admission, self.instant()).unwrap();
    }

    fn hand_out(&mut self) {
        let now_ns = self.now_ns;
        for (_, client) in self.pausing.extract_if(.., |(until_ns, _)| *until_ns <= now_ns).collect::<Vec<_>>() {
            self.submit(client);
        }
        for worker in 0..self.workers.len() {
            if self.workers[worker].is_none() {
                let mut taken = self.scheduler.take(self.instant()).expect("something always waits");
                let Client { slice_ns, shares, .. } = self.clients[taken.item];
                if shares && taken.is_spread && self.clients[taken.item].is_busy() {
                    self.scheduler.share(&mut taken.hand, self.instant());
                }
                let until_ns = self.now_ns + self.rng.random_range(1_000..=slice_ns);
                let work = Working { client: taken.item, hand: taken.hand, began_ns: self.now_ns, until_ns };
                self.workers[worker] = Some(work);
            }
        }
    }

    /// Ends the next slice.
    fn step(&mut self) {
        self.hand_out();
        let next = |work: &Option<Working>| work.as_ref().expect("all work").until_ns;
        let worker = (0..self.workers.len()).min_by_key(|&worker| next(&self.workers[worker])).expect("workers");
        let work = self.workers[worker].take().expect("works");
        self.now_ns = work.until_ns;
        let cost = work.until_ns - work.began_ns;
        self.served_ns[work.client] += cost;
        let cost = Duration::from_nanos(cost);
        let pause_ns = self.clients[work.client].pause_ns;
        // Jobs end occasionally, and the next one arrives at once.
        let is_done = pause_ns.is_some() || !work.hand.has_shared && self.rng.random_range(0..10) == 0;
        let outcome = if is_done { SliceOutcome::Done } else { SliceOutcome::More };
        if let Some(ending) = self.scheduler.give_back(work.hand, outcome, cost, self.instant()) {
            self.scheduler.release(ending.receipt);
        }
        match pause_ns {
            Some(most) => self.pausing.push((self.now_ns + self.rng.random_range(0..most), work.client)),
            None if is_done => self.submit(work.client),
            None => {}
        }
    }

    /// Service so far, including running slices, of the clients that `is_counted` selects.
    fn service(&self, is_counted: impl Fn(&Client) -> bool) -> u64 {
        let finished: u64 =
            self.clients.iter().zip(&self.served_ns).filter(|(client, _)| is_counted(client)).map(|(_, ns)| ns).sum();
        let running_slices = self.workers.iter().flatten().filter(|work| is_counted(&self.clients[work.client]));
        finished + running_slices.map(|work| self.now_ns - work.began_ns).sum::<u64>()
    }

    /// The largest difference in service between two busy tenants, and between two busy connections of a tenant.
    fn unfairness(&self) -> (u64, u64) {
        let tenants = self.busy_tenants();
        let within = |tenant: u64| {
            let connections =
                self.clients.iter().filter(|client| client.tenant == tenant).map(|client| client.connection);
            spread(
                connections
                    .map(|connection| self.service(|other| (other.tenant, other.connection) == (tenant, connection))),
            )
        };
        (spread(tenants.clone().map(|tenant| self.tenant_service(tenant))), tenants.map(within).max().expect("tenants"))
    }

    /// By how much a tenant with pauses got more than the busy one that got least.
    fn won_by_pauses(&self) -> u64 {
        let least = self.busy_tenants().map(|tenant| self.tenant_service(tenant)).min().expect("tenants");
        let pausing = self.clients.iter().filter(|client| !client.is_busy());
        pausing.map(|client| self.tenant_service(client.tenant).saturating_sub(least)).max().unwrap_or(0)
    }

    fn busy_tenants(&self) -> std::ops::Range<u64> {
        0..self.clients.iter().filter(|client| client.is_busy()).map(|client| client.tenant + 1).max().expect("tenants")
    }

    fn tenant_service(&self, tenant: u64) -> u64 {
        self.service(|client| client.tenant == tenant)
    }
}

fn spread(services: impl Iterator<Item = u64> + Clone) -> u64 {
    services.clone().max().expect("some") - services.min().expect("some")
}

#[test]
fn busy_flows_get_equal_shares_and_pauses_gain_nothing() {
    play(SCHEDULES, |rng| {
        let mut floor = Floor::new(rng);
        // Two slices, and half a slice for each further worker: costs are random here, so running slices cost anything but the expectation.
        // The bound does not grow with time.
        let most = SLICE_MAX_NS * (floor.workers.len() as u64 + 3) / 2;
        for _ in 0..SLICES {
            floor.step();
            let (tenants, connections) = floor.unfairness();
            assert!(tenants <= most, "{tenants} ns between two tenants");
            assert!(connections <= most, "{connections} ns between two connections");
            let won = floor.won_by_pauses();
            assert!(won <= most, "{won} ns more for one that pauses");
        }
    });
}
