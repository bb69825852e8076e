//! The operating system's figures for this process, for metrics. On Linux all of them, from `/proc`; elsewhere only CPU time and the
//! descriptor limit.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The figures at one moment; `None` if the system does not report one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// User and system CPU time of all threads, including ended ones.
    pub cpu: Option<Duration>,
    /// Resident memory, in bytes.
    pub memory: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// Maximum number of open descriptors.
    pub descriptors_max: Option<u64>,
    /// Start time in Unix seconds, to a hundredth.
    pub began_unix_s: Option<f64>,
}

impl ProcessFigures {
    /// Reads the figures.
    pub fn read() -> Self {
        /// Read once, because the system's value changes when its clock is set.
        static BEGAN: OnceLock<Option<f64>> = OnceLock::new();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = u64::try_from(cpu.tv_sec).ok().zip(u32::try_from(cpu.tv_nsec).ok());
        ProcessFigures {
            cpu: cpu.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds)),
            memory: system::memory(),
            descriptors: system::descriptors(),
            descriptors_max: getrlimit(Resource::Nofile).current,
            began_unix_s: *BEGAN.get_or_init(system::began),
        }
    }
}

/// Whether the process ignores a signal. `nohup`, and shells that run a command in the background, have it ignore SIGHUP or SIGINT, which a
/// command then leaves ignored. False where the system does not say.
pub fn ignores_signal(number: i32) -> bool {
    let bit = u32::try_from(number).ok().and_then(|number| number.checked_sub(1));
    bit.and_then(|bit| system::ignored_signals().checked_shr(bit)).is_some_and(|signals| signals & 1 == 1)
}

/// Figures of this process from `/proc`; `None` where a sandbox hides a file.
#[cfg(target_os = "linux")]
mod system {
    use procfs::process::Process;

    /// Resident memory, in bytes.
    pub(super) fn memory() -> Option<u64> {
        let kibibytes = Process::myself().ok()?.status().ok()?.vmrss?;
        kibibytes.checked_mul(1024)
    }

    /// The signals that are ignored, signal 1 in the lowest bit.
    pub(super) fn ignored_signals() -> u64 {
        Process::myself().and_then(|process| process.status()).map_or(0, |status| status.sigign)
    }

    /// Open descriptors, with the one that `/proc/self` is read through.
    pub(super) fn descriptors() -> Option<u64> {
        u64::try_from(Process::myself().ok()?.fd_count().ok()?).ok()
    }

    /// Start time, in Unix seconds.
    pub(super) fn began() -> Option<f64> {
        let ticks = Process::myself().ok()?.stat().ok()?.starttime;
        let booted = procfs::boot_time_secs().ok()?;
        Some(booted as f64 + ticks as f64 / procfs::ticks_per_second().max(1) as f64)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn ignored_signals() -> u64 {
        0
    }

    pub(super) fn memory() -> Option<u64> {
        None
    }

    pub(super) fn descriptors() -> Option<u64> {
        None
    }

    pub(super) fn began() -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_the_figures_of_this_process() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let before = ProcessFigures::read();
        let memory = vec![1_u8; 32 << 20];
        let files: Vec<_> = (0..20).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        let (begun, used) = (Instant::now(), before.cpu.unwrap());
        while ProcessFigures::read().cpu.unwrap() < used + Duration::from_millis(20) {
            assert!(begun.elapsed() < PATIENCE, "the time of this thread does not count");
        }
        let after = ProcessFigures::read();
        // Other tests of the process open and close descriptors, and free memory.
        assert!(after.descriptors.unwrap() >= 20 && after.descriptors_max > after.descriptors, "{after:?}");
        assert!(after.memory.unwrap() > 32 << 20, "{after:?}");
        drop((std::hint::black_box(memory), files));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - after.began_unix_s.unwrap();
        // The system's boot time is reported in whole seconds.
        assert!((-2.0..24.0 * 3600.0).contains(&age) && before.began_unix_s == after.began_unix_s, "{age} s");
    }
}
