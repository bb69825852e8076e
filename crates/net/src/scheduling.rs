//! Scheduling classes for threads that compute beside threads that carry traffic.
//!
//! On Linux a woken thread may have to wait for its core until another thread has used up its time slice of some milliseconds, even if that
//! one has a lower priority (`nice`). Only threads of the class `SCHED_IDLE` (sched(7)) are preempted at once. They get almost nothing of a
//! core that threads of other classes keep busy, within their control group.

use std::io;

/// How the system schedules a computing thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulingClass {
    /// Like every other thread.
    #[default]
    Normal,
    /// Only when no thread of another class needs the core: `SCHED_IDLE`, which only Linux has.
    Idle,
}

impl SchedulingClass {
    /// Applies the class to the calling thread. It needs no privileges.
    ///
    /// # Errors
    /// If the system has no such class, or refuses it.
    pub fn enter(self) -> io::Result<()> {
        match self {
            SchedulingClass::Normal => Ok(()),
            SchedulingClass::Idle => enter_idle(),
        }
    }
}

#[cfg(target_os = "linux")]
fn enter_idle() -> io::Result<()> {
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
    };
    use thread_priority::{Error, ThreadPriority};

    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).map_err(|error| match error {
        Error::OS(code) => io::Error::from_raw_os_error(code),
        other => io::Error::other(format!("{other:?}")),
    })
}

#[cfg(not(target_os = "linux"))]
fn enter_idle() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux schedules threads as idle"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    /// The scheduling policy of the calling thread: field 41 of `/proc/thread-self/stat`.
    fn policy() -> u32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").expect("the system tells");
        let (_, fields) = stat.rsplit_once(") ").expect("the name of the thread ends so");
        fields.split(' ').nth(38).and_then(|field| field.parse().ok()).expect("a number")
    }

    #[test]
    fn an_idle_thread_is_idle_and_no_other() {
        const SCHED_OTHER: u32 = 0;
        const SCHED_IDLE: u32 = 5;
        let of_thread = |class: SchedulingClass| {
            let thread = std::thread::spawn(move || {
                class.enter().expect("the system has the class");
                policy()
            });
            thread.join().expect("it ends")
        };
        assert_eq!(of_thread(SchedulingClass::Idle), SCHED_IDLE);
        assert_eq!(of_thread(SchedulingClass::Normal), SCHED_OTHER);
        assert_eq!(policy(), SCHED_OTHER);
    }
}
