//! Threads for work on bodies. They are separate from those that resolve names, so that an unresponsive name server delays no body, and
//! have a lower priority than those that carry traffic.
//!
//! The cost of work determines where it runs, not the size in which a body arrives: short work runs on the calling thread, longer work in
//! slices or on a separate thread, so that a small body does not wait for large ones.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use leafseal_net::SchedulingClass;
use tokio::runtime::{Builder, Handle, Runtime};

/// Work up to this cost runs on the calling thread.
const INLINE_COST_MAX: Cost = Cost::of_nanoseconds(20_000);
/// Work up to this cost runs in the lane of short work.
const SHORT_COST_MAX: Cost = Cost::of_nanoseconds(2_000_000);
/// Duration of a slice, after which other work of the lane runs.
const SLICE_TIME: Duration = Duration::from_micros(500);
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

/// The threads. They are started on demand; dropping does not wait for them.
pub(crate) struct OffloadThreads {
    short: Option<Runtime>,
    long: Option<Runtime>,
}

/// A handle to these threads.
#[derive(Clone)]
pub(crate) struct Offload {
    short: Handle,
    long: Handle,
}

impl OffloadThreads {
    /// Creates at most `threads_max` threads of each lane, with this scheduling class.
    pub(crate) fn new(threads_max: usize, scheduling: SchedulingClass) -> io::Result<Self> {
        let lane = |name: &str| {
            let mut builder = Builder::new_current_thread();
            builder
                .max_blocking_threads(threads_max)
                .thread_name(name)
                .on_thread_start(move || lower_priority(scheduling))
                .build()
        };
        Ok(OffloadThreads { short: Some(lane("leafseal-short")?), long: Some(lane("leafseal-long")?) })
    }

    pub(crate) fn way(&self) -> Offload {
        let handle = |lane: &Option<Runtime>| lane.as_ref().expect("only taken when dropped").handle().clone();
        Offload { short: handle(&self.short), long: handle(&self.long) }
    }
}

impl Drop for OffloadThreads {
    fn drop(&mut self) {
        for lane in [self.short.take(), self.long.take()].into_iter().flatten() {
            lane.shutdown_background();
        }
    }
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
    /// Runs work: on the calling thread if it is short, otherwise on an offload thread.
    pub(crate) async fn run<T: Send + 'static>(&self, cost: Cost, work: impl FnOnce() -> T + Send + 'static) -> T {
        if cost <= INLINE_COST_MAX {
            return work();
        }
        on(if cost <= SHORT_COST_MAX { &self.short } else { &self.long }, work).await
    }

    /// Runs work in steps, one slice at a time, never on the calling thread. Other work runs between two slices; if this future is dropped,
    /// no further slice begins.
    pub(crate) async fn run_in_slices<S: Send + 'static, T: Send + 'static>(
        &self,
        mut state: S,
        step: fn(S) -> ControlFlow<T, S>,
    ) -> T {
        loop {
            match on(&self.short, move || slice(state, step)).await {
                ControlFlow::Break(done) => return done,
                ControlFlow::Continue(next) => state = next,
            }
        }
    }
}

fn slice<S, T>(mut state: S, step: fn(S) -> ControlFlow<T, S>) -> ControlFlow<T, S> {
    let began = Instant::now();
    loop {
        state = step(state)?;
        if began.elapsed() >= SLICE_TIME {
            return ControlFlow::Continue(state);
        }
    }
}

async fn on<T: Send + 'static>(lane: &Handle, work: impl FnOnce() -> T + Send + 'static) -> T {
    match lane.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

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
            let done = timeout(Duration::from_secs(60), work.run(Cost::of_nanoseconds(1_000_000), thread_name));
            assert_eq!(done.await.expect("nobody waits for a name").as_deref(), Some("leafseal-short"));
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
                (Cost::of_nanoseconds(2_000_001), "leafseal-long"),
                (Cost::UNKNOWN, "leafseal-long"),
            ] {
                assert_eq!(way.run(cost, thread_name).await.as_deref(), Some(name), "{cost:?}");
            }
            let of_slices = way.run_in_slices((), |()| ControlFlow::Break(thread_name())).await;
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
            let sliced = timeout(Duration::from_secs(60), way.run_in_slices(1000, count));
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
            let endless = tokio::spawn(async move { endless.run_in_slices((), ControlFlow::<(), ()>::Continue).await });
            tokio::task::yield_now().await;
            let other = timeout(Duration::from_secs(60), way.run(SHORT_COST_MAX, || 7));
            assert_eq!(other.await, Ok(7));
            // Otherwise the thread would never end.
            endless.abort();
            assert!(endless.await.unwrap_err().is_cancelled());
        });
    }
}
