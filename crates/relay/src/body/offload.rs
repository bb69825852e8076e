//! Threads for work on bodies. They are separate from those that resolve names, so that an unresponsive name server delays no body, and
//! have a lower priority than those that carry traffic.
//!
//! The cost of work determines where it runs, not the size in which a body arrives: short work runs on the calling thread, longer work in
//! slices or on a separate thread, so that a small body does not wait for large ones. `turns.rs` has whose slice is next.

use std::any::Any;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leafseal_net::{SchedulingClass, client_of};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use crate::body::turns::{SLICE_COST, Turns};

/// Work up to this cost runs on the calling thread.
const INLINE_COST_MAX: Cost = Cost::of_nanoseconds(20_000);
/// Work up to this cost runs in the lane of short work, even if it cannot be divided into slices.
const SHORT_COST_MAX: Cost = Cost::of_nanoseconds(SLICE_COST);
/// Duration of a slice, after which other work of the lane runs.
const SLICE_TIME: Duration = Duration::from_nanos(SLICE_COST);
/// The `nice` value of these threads: a lower priority than that of threads that carry traffic.
const NICENESS: i32 = 5;

/// An estimate of the duration of work, made before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(u64);

impl Cost {
    pub(crate) const fn of_nanoseconds(nanoseconds: u64) -> Self {
        Cost(nanoseconds)
    }

    /// The cost of work on `size` bytes, `factor` times a quarter of a nanosecond each.
    pub(crate) const fn of_bytes(size: usize, factor: u64) -> Self {
        Cost((size as u64).saturating_mul(factor) / 4)
    }

    /// The cost of copying bytes into new memory.
    pub(crate) const fn of_copy(size: usize) -> Self {
        Cost::of_bytes(size, 2)
    }

    /// The cost of work without a useful estimate.
    pub(crate) const UNKNOWN: Cost = Cost(u64::MAX);
}

/// The threads, of two lanes. Dropping does not wait for them; work that waits is dropped.
pub(crate) struct OffloadThreads {
    short: Arc<OffloadLane>,
    long: Arc<OffloadLane>,
}

/// A handle to these threads, for the work of one client.
#[derive(Clone)]
pub(crate) struct Offload {
    short: Arc<OffloadLane>,
    long: Arc<OffloadLane>,
    client: IpAddr,
}

/// Waiting work, and the threads that take it in turn by client.
struct OffloadLane {
    queue: Mutex<Queue>,
    /// Signalled for each piece of work, and when the lane closes.
    arrived: Condvar,
    /// The least tag of the clients whose work has arrived and may have to run before the slices that run.
    least_arrived: AtomicU64,
}

struct Queue {
    turns: Turns<Box<dyn Task>>,
    is_closed: bool,
}

/// Work of any kind.
trait Task: Send {
    /// Runs one slice, which ends after the step in which `yields` becomes true. Returns what is left; nothing if it is done or no one
    /// waits for it any more.
    fn slice(self: Box<Self>, yields: &dyn Fn() -> bool) -> Option<Box<dyn Task>>;
}

/// Work in steps, and the party that waits for its result.
struct Stepping<S, T> {
    state: S,
    step: fn(S) -> ControlFlow<T, S>,
    done: oneshot::Sender<Result<T, Box<dyn Any + Send>>>,
}

impl<S: Send + 'static, T: Send + 'static> Task for Stepping<S, T> {
    fn slice(self: Box<Self>, yields: &dyn Fn() -> bool) -> Option<Box<dyn Task>> {
        let Stepping { mut state, step, done } = *self;
        let began = Instant::now();
        // If the waiting future is dropped, the rest is not needed.
        while !done.is_closed() {
            match catch_unwind(AssertUnwindSafe(|| step(state))) {
                Ok(ControlFlow::Continue(next)) => state = next,
                Ok(ControlFlow::Break(result)) => {
                    // It may have been dropped meanwhile.
                    let _ = done.send(Ok(result));
                    return None;
                }
                Err(panic) => {
                    let _ = done.send(Err(panic));
                    return None;
                }
            }
            if began.elapsed() >= SLICE_TIME || yields() {
                return Some(Box::new(Stepping { state, step, done }));
            }
        }
        None
    }
}

impl OffloadThreads {
    /// Starts `threads` threads for each lane, with this scheduling class.
    pub(crate) fn new(threads: usize, scheduling: SchedulingClass) -> io::Result<Self> {
        // If a thread cannot be started, the drop of this ends the others.
        let these = OffloadThreads { short: OffloadLane::new(), long: OffloadLane::new() };
        for (name, lane) in [("leafseal-short", &these.short), ("leafseal-long", &these.long)] {
            for _ in 0..threads {
                let lane = Arc::clone(lane);
                std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                    lower_priority(scheduling);
                    lane.work();
                })?;
            }
        }
        Ok(these)
    }

    pub(crate) fn way(&self) -> Offload {
        let client = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Offload { short: Arc::clone(&self.short), long: Arc::clone(&self.long), client }
    }
}

impl Drop for OffloadThreads {
    fn drop(&mut self) {
        for lane in [&self.short, &self.long] {
            let waiting = {
                let mut queue = lane.lock();
                queue.is_closed = true;
                std::mem::replace(&mut queue.turns, Turns::new())
            };
            drop(waiting);
            lane.arrived.notify_all();
        }
    }
}

impl OffloadLane {
    fn new() -> Arc<Self> {
        let queue = Mutex::new(Queue { turns: Turns::new(), is_closed: false });
        Arc::new(OffloadLane { queue, arrived: Condvar::new(), least_arrived: AtomicU64::new(u64::MAX) })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while this is locked")
    }

    /// Adds work of an estimated cost; if the lane is closed, it is dropped.
    fn push(&self, client: IpAddr, task: Box<dyn Task>, Cost(expected): Cost) {
        let mut queue = self.lock();
        if !queue.is_closed {
            let tag = queue.turns.push(client, task, expected);
            self.least_arrived.fetch_min(tag, Ordering::Relaxed);
            self.arrived.notify_one();
        }
    }

    /// Runs slices until the lane is closed.
    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if queue.is_closed {
                return;
            }
            let Some((turn, task)) = queue.turns.pop() else {
                queue = self.arrived.wait(queue).expect("nothing panics while this is locked");
                continue;
            };
            if !queue.turns.has_allowed() {
                self.least_arrived.store(u64::MAX, Ordering::Relaxed);
            }
            drop(queue);
            let began = cpu_time();
            let rest = task.slice(&|| turn.yields_to(self.least_arrived.load(Ordering::Relaxed)));
            let cost = cpu_time().saturating_sub(began);
            queue = self.lock();
            if !queue.is_closed {
                // This thread continues with what waits; no other needs to be woken.
                queue.turns.end_turn(turn, rest, cost);
            }
        }
    }
}

/// CPU time of the current thread in nanoseconds: work does not pay for the time in which other threads have the core.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Lowers the priority of the current thread. A thread that carries traffic then gets most of a core that both share; with
/// [`SchedulingClass::Idle`], all of it.
fn lower_priority(scheduling: SchedulingClass) {
    if let Err(error) = scheduling.enter() {
        tracing::warn!(%error, "relay.body_scheduling: cannot give a body thread the scheduling class idle");
    }
    // On Linux this is the priority of the thread; elsewhere it would be that of the process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "cannot lower the priority of a body thread");
    }
}

impl Offload {
    /// Returns a handle for the work of this client.
    pub(crate) fn for_client(&self, client: IpAddr) -> Offload {
        Offload { client: client_of(client), ..self.clone() }
    }

    /// Runs work that is one step: on the calling thread if it is short, otherwise on an offload thread. If this future is dropped before
    /// the work begins, it does not begin.
    pub(crate) async fn run<T: Send + 'static>(&self, cost: Cost, work: impl FnOnce() -> T + Send + 'static) -> T {
        if cost <= INLINE_COST_MAX {
            return work();
        }
        let lane = if cost <= SHORT_COST_MAX { &self.short } else { &self.long };
        on(lane, self.client, cost, work, |work| ControlFlow::Break(work())).await
    }

    /// Runs work in steps: on the calling thread if all of them are short together, otherwise one slice at a time on an offload thread.
    /// Other work runs between two slices; if this future is dropped, no further step begins.
    pub(crate) async fn run_in_slices<S: Send + 'static, T: Send + 'static>(
        &self,
        cost: Cost,
        mut state: S,
        step: fn(S) -> ControlFlow<T, S>,
    ) -> T {
        if cost > INLINE_COST_MAX {
            return on(&self.short, self.client, cost, state, step).await;
        }
        loop {
            match step(state) {
                ControlFlow::Break(done) => return done,
                ControlFlow::Continue(next) => state = next,
            }
        }
    }
}

async fn on<S: Send + 'static, T: Send + 'static>(
    lane: &OffloadLane,
    client: IpAddr,
    cost: Cost,
    state: S,
    step: fn(S) -> ControlFlow<T, S>,
) -> T {
    let (done, result) = oneshot::channel();
    lane.push(client, Box::new(Stepping { state, step, done }), cost);
    match result.await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        // The lane is closed: the process ends.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::runtime::{Builder, Runtime};
    use tokio::time::timeout;

    use super::*;

    fn thread_name() -> Option<String> {
        std::thread::current().name().map(str::to_owned)
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap()
    }

    #[test]
    fn work_continues_while_the_lookup_threads_are_busy() {
        let offload = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        let (release, released) = channel::<()>();
        runtime().block_on(async {
            // A name server that does not respond.
            let looking = tokio::task::spawn_blocking(move || released.recv());
            let work = offload.way();
            let done = timeout(Duration::from_secs(60), work.run(SHORT_COST_MAX, thread_name));
            assert_eq!(done.await.expect("no wait for a name").as_deref(), Some("leafseal-short"));
            release.send(()).unwrap();
            looking.await.unwrap().unwrap();
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_the_idle_class_are_idle() {
        /// From sched(7).
        const SCHED_IDLE: &str = "5";
        let offload = OffloadThreads::new(1, SchedulingClass::Idle).unwrap();
        runtime().block_on(async {
            for cost in [SHORT_COST_MAX, Cost::UNKNOWN] {
                let stat = offload.way().run(cost, || std::fs::read_to_string("/proc/thread-self/stat").unwrap()).await;
                let (_, fields) = stat.rsplit_once(") ").unwrap();
                assert_eq!(fields.split(' ').nth(38), Some(SCHED_IDLE), "{cost:?}");
            }
        });
    }

    #[test]
    fn the_cost_decides_where_work_runs() {
        let offload = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        runtime().block_on(async {
            let (way, here) = (offload.way(), thread_name());
            let inline = way.run(INLINE_COST_MAX, thread_name).await;
            assert_eq!(inline, here);
            for (cost, name) in [
                (Cost::of_nanoseconds(20_001), "leafseal-short"),
                (SHORT_COST_MAX, "leafseal-short"),
                (Cost::of_nanoseconds(SLICE_COST + 1), "leafseal-long"),
                (Cost::UNKNOWN, "leafseal-long"),
            ] {
                assert_eq!(way.run(cost, thread_name).await.as_deref(), Some(name), "{cost:?}");
            }
            let of_slices = way.run_in_slices(Cost::UNKNOWN, (), |()| ControlFlow::Break(thread_name())).await;
            assert_eq!(of_slices.as_deref(), Some("leafseal-short"), "even the shortest");
        });
    }

    #[test]
    fn short_work_does_not_wait_for_long_work() {
        let offload = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        let (release, released) = channel::<()>();
        runtime().block_on(async {
            let way = offload.way();
            let long = way.clone();
            let long = tokio::spawn(async move { long.run(Cost::UNKNOWN, move || released.recv()).await });
            let short = timeout(Duration::from_secs(60), way.run(SHORT_COST_MAX, || 7));
            assert_eq!(short.await, Ok(7));
            let count = |left: u32| if left == 0 { ControlFlow::Break(8) } else { ControlFlow::Continue(left - 1) };
            let sliced = timeout(Duration::from_secs(60), way.run_in_slices(Cost::UNKNOWN, 1000, count));
            assert_eq!(sliced.await, Ok(8));
            release.send(()).unwrap();
            long.await.unwrap().unwrap();
        });
    }

    /// The long job would occupy the thread forever.
    #[test]
    fn work_in_slices_takes_turns() {
        let offload = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        runtime().block_on(async {
            let way = offload.way();
            let endless = way.clone();
            let endless =
                tokio::spawn(
                    async move { endless.run_in_slices(Cost::UNKNOWN, (), ControlFlow::<(), ()>::Continue).await },
                );
            tokio::task::yield_now().await;
            let other = timeout(Duration::from_secs(60), way.run(SHORT_COST_MAX, || 7));
            assert_eq!(other.await, Ok(7));
            // Otherwise the thread would never end.
            endless.abort();
            assert!(endless.await.unwrap_err().is_cancelled());
        });
    }

    /// Endless work of many clients: every step of a quiet client's request is served, and none is after its future was dropped.
    #[test]
    fn a_quiet_client_is_served_beside_busy_ones_and_dropped_work_ends() {
        let offload = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        runtime().block_on(async {
            let mut busy = tokio::task::JoinSet::new();
            for number in 0..100 {
                let way = offload.way().for_client(IpAddr::from([192, 0, 2, number]));
                busy.spawn(async move {
                    way.run_in_slices(Cost::UNKNOWN, (), ControlFlow::<(), ()>::Continue).await;
                });
            }
            tokio::task::yield_now().await;
            let quiet = offload.way().for_client(IpAddr::from([198, 51, 100, 1]));
            for number in 0..5 {
                assert_eq!(quiet.run(SHORT_COST_MAX, move || number).await, number);
            }
            busy.shutdown().await;
            // The queue is empty once each has had a turn in which it noticed.
            let last = offload.way().for_client(IpAddr::from([192, 0, 2, 1]));
            while offload.short.lock().turns.has_waiting() {
                last.run(SHORT_COST_MAX, || ()).await;
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_thread_goes_on() {
        let offload = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        runtime().block_on(async {
            let way = offload.way();
            let failing = tokio::spawn(async move { way.run(SHORT_COST_MAX, || panic!("work failed")).await });
            assert!(failing.await.unwrap_err().is_panic());
            assert_eq!(offload.way().run(SHORT_COST_MAX, || 7).await, 7);
        });
    }
}
