//! Priorities of the pool's threads beside those of Node and libuv.
//!
//! With equal priorities a woken thread of libuv waits for its core until a thread of the pool has used up its time slice of some
//! milliseconds, whenever all cores compute. Only Linux has priorities of threads that need no privileges.

/// How the system schedules the threads of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// As all threads of the process.
    Normal,
    /// A smaller share of a core that others want too: `nice` 10.
    Low,
    /// Preempted at once, and almost nothing of a core that others keep busy: `SCHED_IDLE` of sched(7).
    Idle,
}

/// By how much `nice` of a low priority is higher: about a tenth of the weight.
#[cfg(target_os = "linux")]
const LOW_BY: i32 = 10;

/// The `nice` value of the calling thread; 0 where threads have none.
pub(crate) fn niceness() -> i32 {
    #[cfg(target_os = "linux")]
    let niceness = rustix::process::getpriority_process(None).unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    let niceness = 0;
    niceness
}

impl Priority {
    pub(crate) const ALL: [Self; 3] = [Self::Normal, Self::Low, Self::Idle];

    /// Applies the priority to the calling thread, for good; `niceness` is that of Node's threads. Where the system refuses it, the thread
    /// works all the same.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter(self, niceness: i32) {
        use thread_priority::ThreadPriority;
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
        };
        match self {
            Self::Normal => {}
            // On Linux this is the priority of the thread.
            Self::Low => _ = rustix::process::setpriority_process(None, niceness + LOW_BY),
            Self::Idle => {
                let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
                _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(self, _: i32) {}
}
