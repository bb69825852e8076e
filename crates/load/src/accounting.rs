//! The operating system's accounting of a process, and the machine. Linux: from `/proc`.

use std::fmt;
use std::io;
use std::time::Duration;

/// A process by its id.
#[derive(Clone, Debug)]
pub struct ProcessAccount {
    id: u32,
}

/// CPU time by kind of thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Threads for sockets, TLS and frames (`leafseal-net`).
    pub network: Duration,
    /// Worker threads (`leafseal-work-N`).
    pub workers: Duration,
    /// All other threads.
    pub other: Duration,
}

impl Cpu {
    /// CPU time of all threads.
    pub fn total(&self) -> Duration {
        self.network + self.workers + self.other
    }

    /// Returns the time used since `earlier`, an earlier reading of the same process. The time of threads that have ended since is
    /// lost; network and worker threads live as long as the engine.
    pub fn since(&self, earlier: &Cpu) -> Cpu {
        Cpu {
            network: self.network.saturating_sub(earlier.network),
            workers: self.workers.saturating_sub(earlier.workers),
            other: self.other.saturating_sub(earlier.other),
        }
    }
}

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Resident memory, bytes.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl fmt::Display for ProcessAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.id)
    }
}

impl ProcessAccount {
    /// A process with this id; does not check that it exists.
    pub fn new(id: u32) -> Self {
        ProcessAccount { id }
    }

    /// Reads the CPU time of its threads, to the nanosecond. The last few milliseconds of a running thread may be missing: read while
    /// the process is idle for exact figures.
    ///
    /// # Errors
    /// Fails if the process has ended or the system does not provide per-thread CPU time.
    pub fn cpu(&self) -> io::Result<Cpu> {
        system::cpu(self.id)
    }

    /// Reads memory, threads and descriptors.
    ///
    /// # Errors
    /// Fails if the process has ended or access to it is denied.
    pub fn resources(&self) -> io::Result<Resources> {
        system::resources(self.id)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::time::Duration;

    use procfs::process::{Process, Task};
    use procfs::{Current as _, ProcError, ProcResult};

    use super::{Cpu, Resources};

    pub(super) fn cpu(id: u32) -> io::Result<Cpu> {
        let used = |task: ProcResult<Task>| -> ProcResult<(String, Duration)> {
            let task = task?;
            Ok((task.stat()?.comm, Duration::from_nanos(task.schedstat()?.sum_exec_runtime)))
        };
        let mut cpu = Cpu::default();
        let mut is_accounted = false;
        // A thread may end after it is listed.
        for (name, used) in open(id)?.tasks().map_err(io_error)?.map(used).filter_map(Result::ok) {
            is_accounted = true;
            match name.as_str() {
                "leafseal-net" => cpu.network += used,
                name if name.starts_with("leafseal-work") => cpu.workers += used,
                _ => cpu.other += used,
            }
        }
        if is_accounted {
            Ok(cpu)
        } else {
            Err(io::Error::other("the system does not report the CPU time of its threads"))
        }
    }

    pub(super) fn resources(id: u32) -> io::Result<Resources> {
        let process = open(id)?;
        let status = process.status().map_err(io_error)?;
        let descriptors = process.fd_count().map_err(io_error)?;
        Ok(Resources {
            memory: status.vmrss.unwrap_or(0) << 10,
            threads: status.threads,
            descriptors: descriptors as u64,
        })
    }

    pub(super) fn cpu_name() -> Option<String> {
        procfs::CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
    }

    fn open(id: u32) -> io::Result<Process> {
        let id = i32::try_from(id).map_err(|_| io::ErrorKind::NotFound)?;
        Process::new(id).map_err(io_error)
    }

    fn io_error(error: ProcError) -> io::Error {
        match error {
            ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
            ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
            ProcError::Io(error, _) => error,
            error => io::Error::other(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use super::{Cpu, Resources};

    pub(super) fn cpu(_id: u32) -> io::Result<Cpu> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn resources(_id: u32) -> io::Result<Resources> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn cpu_name() -> Option<String> {
        None
    }
}

/// The properties of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name; empty if unknown.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// The kernel's version without the distributor's suffix; empty if unknown.
    pub kernel: String,
}

impl Machine {
    /// Returns the properties of this machine.
    pub fn this() -> Self {
        Machine {
            cpu: system::cpu_name().unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: release(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()).to_owned(),
        }
    }
}

/// `6.1.0` of `6.1.0-13-amd64`.
fn release(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text[..end.unwrap_or(text.len())].trim_end_matches('.')
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_thread_s_time_shows_under_its_kind() {
        let this = ProcessAccount::new(std::process::id());
        let before = this.cpu().unwrap();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let worker = std::thread::Builder::new().name("leafseal-work-0".into()).spawn(move || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                std::hint::black_box(begun);
            }
            ready.send(()).unwrap();
            let _ = wait.recv();
        });
        is_ready.recv().unwrap();
        // CPU time is complete once the thread waits.
        std::thread::sleep(Duration::from_millis(20));
        let used = this.cpu().unwrap().since(&before);
        drop(done);
        worker.unwrap().join().unwrap();
        // Other processes may take the core, so the lower bound is small.
        assert!(used.workers > Duration::from_millis(1) && used.network.is_zero(), "{used:?}");
        assert!(used.total() >= used.workers);
    }

    #[test]
    fn a_kernel_s_release_is_its_number() {
        let texts = ["6.1.0-13-amd64\n", "6.18.44.fc\n", "5.15\n", ""];
        assert_eq!(texts.map(release), ["6.1.0", "6.18.44", "5.15", ""]);
    }

    #[test]
    fn resources_of_this_process() {
        let resources = ProcessAccount::new(std::process::id()).resources().unwrap();
        assert!(resources.memory > 1 << 20 && resources.threads >= 1 && resources.descriptors >= 3, "{resources:?}");
        assert!(ProcessAccount::new(u32::MAX).resources().is_err());
        assert!(Machine::this().cores >= 1);
    }
}
