//! What the operating system says of this process, for the metrics of an operator port. All of it on Linux, from `/proc`; elsewhere
//! CPU time and the limit of descriptors.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The process at one moment; `None` is what the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// CPU time, user's and system's, of all threads there have been.
    pub cpu: Option<Duration>,
    /// Resident memory, in bytes.
    pub memory: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// The most descriptors that it may have open.
    pub descriptors_max: Option<u64>,
    /// When it began, in seconds since 1970, to a hundredth.
    pub began_unix_s: Option<f64>,
}

impl ProcessFigures {
    /// This process, now.
    pub fn read() -> Self {
        /// A clock that is set later moves what the system says of it, so that it is asked once.
        static BEGAN: OnceLock<Option<f64>> = OnceLock::new();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = u64::try_from(cpu.tv_sec).ok().zip(u32::try_from(cpu.tv_nsec).ok());
        ProcessFigures {
            cpu: cpu.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds)),
            memory: fs::read_to_string("/proc/self/status").ok().and_then(|status| memory(&status)),
            descriptors: descriptors(),
            descriptors_max: getrlimit(Resource::Nofile).current,
            began_unix_s: *BEGAN.get_or_init(|| {
                let (own, system) = (fs::read_to_string("/proc/self/stat"), fs::read_to_string("/proc/stat"));
                began(&own.ok()?, &system.ok()?, rustix::param::clock_ticks_per_second())
            }),
        }
    }

    /// Those that the system tells.
    pub fn samples(&self) -> impl Iterator<Item = ProcessSample> {
        let ProcessFigures { cpu, memory, descriptors, descriptors_max, began_unix_s } = *self;
        let cpu = cpu.map(|time| ProcessValue::Seconds(time.as_secs_f64()));
        [
            ("cpu", "User and system CPU time of the process", true, cpu),
            ("resident_memory", "Resident memory of the process", false, memory.map(ProcessValue::Bytes)),
            ("open_fds", "Open file descriptors of the process", false, descriptors.map(ProcessValue::Count)),
            ("max_fds", "Maximum number of open file descriptors", false, descriptors_max.map(ProcessValue::Count)),
            ("start_time", "Start time of the process, in Unix time", false, began_unix_s.map(ProcessValue::Seconds)),
        ]
        .into_iter()
        .filter_map(|(name, help, is_counter, value)| Some(ProcessSample { name, help, is_counter, value: value? }))
    }
}

/// One of the figures, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessSample {
    /// Its name in Prometheus' own libraries, without the prefix `process_` and the unit.
    pub name: &'static str,
    /// What it is, in a few words.
    pub help: &'static str,
    /// Whether it only rises.
    pub is_counter: bool,
    /// What it says, with its unit.
    pub value: ProcessValue,
}

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProcessValue {
    /// Seconds.
    Seconds(f64),
    /// Bytes.
    Bytes(u64),
    /// A number without a unit.
    Count(u64),
}

/// Resident bytes, of `/proc/PID/status`.
fn memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn descriptors() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    // Linux tells their number as the folder's size since 6.2; before, that is 0.
    match fs::metadata(FOLDER).ok()?.len() {
        // The folder itself is open meanwhile.
        0 => Some((fs::read_dir(FOLDER).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

/// Unix seconds, of `/proc/PID/stat` and `/proc/stat`.
fn began(own: &str, system: &str, ticks_per_second: u64) -> Option<f64> {
    // The program's name, in brackets, may hold anything. The time since the system began is the twentieth word behind it.
    let (_, words) = own.rsplit_once(')')?;
    let ticks: u64 = words.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let booted: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted as f64 + ticks as f64 / ticks_per_second.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    #[test]
    fn what_the_system_writes_is_read() {
        assert_eq!(memory("VmHWM:\t   9 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n"), Some(2 << 20));
        assert_eq!([memory("VmHWM:\t 9 kB\n"), memory("VmRSS:\t9\n"), memory("VmRSS:\tx kB\n")], [None; 3]);
        let own = "17 (a) R 9) S 1 17 17 0 -1 4194560 94 0 0 0 0 0 0 0 20 0 1 0 1250 2502656 221 18446744073709551615";
        let system = "cpu  1 2 3\nintr 5\nbtime 1700000000\nprocesses 9\n";
        assert_eq!(began(own, system, 100), Some(1_700_000_012.5));
        assert_eq!([began("17 (a) S 1", system, 100), began(own, "cpu 1\n", 100), began("", "", 100)], [None; 3]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_told() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let before = ProcessFigures::read();
        let memory = vec![1_u8; 32 << 20];
        let files: Vec<_> = (0..20).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        let (begun, used) = (Instant::now(), before.cpu.unwrap());
        while ProcessFigures::read().cpu.unwrap() < used + Duration::from_millis(20) {
            assert!(begun.elapsed() < PATIENCE, "the time of this thread does not count");
        }
        let after = ProcessFigures::read();
        // Other tests of the process open and close, and give memory back.
        assert!(after.descriptors.unwrap() >= 20 && after.descriptors_max > after.descriptors, "{after:?}");
        assert!(after.memory.unwrap() > 32 << 20, "{after:?}");
        drop((std::hint::black_box(memory), files));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - after.began_unix_s.unwrap();
        // The system's own beginning is told in whole seconds.
        assert!((-2.0..24.0 * 3600.0).contains(&age) && before.began_unix_s == after.began_unix_s, "{age} s");
    }
}
