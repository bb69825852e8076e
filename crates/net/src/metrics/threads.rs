//! CPU time of the process's threads by kind, as the system accounts for it. Linux only: reads `/proc/self/task`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// The kind of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadKind {
    Network,
    Workers,
    Other,
}

/// The label values, in the order of [`ThreadKind`].
const WORDS: [&str; 3] = ["network", "workers", "other"];

impl ThreadKind {
    fn of(name: &str) -> Self {
        match name {
            "leafseal-net" => ThreadKind::Network,
            name if name.starts_with("leafseal-work") => ThreadKind::Workers,
            _ => ThreadKind::Other,
        }
    }
}

/// The CPU time of each thread at one reading, by thread id.
type ThreadReading = HashMap<i32, (ThreadKind, Duration)>;

/// CPU time by kind. It never decreases, although threads end.
#[derive(Debug, Default)]
pub struct ThreadTimes(Mutex<ThreadTimeLedger>);

#[derive(Debug, Default)]
struct ThreadTimeLedger {
    threads: ThreadReading,
    /// CPU time of threads that have ended, by kind.
    ended: [Duration; 3],
}

impl ThreadTimes {
    /// The CPU time of each kind; empty if the system does not report it.
    pub fn read(&self) -> Vec<(&'static str, Duration)> {
        match read_threads() {
            Some(now) if !now.is_empty() => {
                let mut ledger = self.0.lock().expect("nothing panics while this is locked");
                ledger.note(now);
                WORDS.into_iter().zip(ledger.totals()).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl ThreadTimeLedger {
    /// The time that a thread used between the last reading and its end is unknown and omitted.
    fn note(&mut self, now: ThreadReading) {
        for (id, (part, before)) in std::mem::replace(&mut self.threads, now) {
            // Less time than before means that the id was reused by another thread.
            let is_same = self.threads.get(&id).is_some_and(|&(other, time)| other == part && time >= before);
            if !is_same {
                self.ended[part as usize] += before;
            }
        }
    }

    fn totals(&self) -> [Duration; 3] {
        let mut totals = self.ended;
        self.threads.values().for_each(|&(part, time)| totals[part as usize] += time);
        totals
    }
}

/// Reads the CPU time of all threads; `None` if the system does not account for it.
#[cfg(target_os = "linux")]
fn read_threads() -> Option<ThreadReading> {
    use procfs::ProcError;
    use procfs::process::{Process, Task};

    let used = |task: &Task| {
        let time = Duration::from_nanos(task.schedstat()?.sum_exec_runtime);
        Ok((task.tid, (ThreadKind::of(&task.stat()?.comm), time)))
    };
    let mut read_threads = ThreadReading::new();
    for task in Process::myself().ok()?.tasks().ok()? {
        match task.and_then(|task| used(&task)) {
            Ok((id, used)) => {
                read_threads.insert(id, used);
            }
            // The thread has ended since it was listed.
            Err(ProcError::NotFound(_)) => {}
            Err(_) => return None,
        }
    }
    Some(read_threads)
}

#[cfg(not(target_os = "linux"))]
fn read_threads() -> Option<ThreadReading> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_time_of_ended_threads_stays() {
        let mut ledger = ThreadTimeLedger::default();
        ledger.note(ThreadReading::from([
            (1, (ThreadKind::Network, MS(5))),
            (2, (ThreadKind::Workers, MS(7))),
            (3, (ThreadKind::Other, MS(1))),
        ]));
        assert_eq!(ledger.totals(), [MS(5), MS(7), MS(1)]);
        // One ended, one started, one continued.
        ledger.note(ThreadReading::from([
            (2, (ThreadKind::Workers, MS(9))),
            (3, (ThreadKind::Other, MS(1))),
            (4, (ThreadKind::Network, MS(2))),
        ]));
        assert_eq!(ledger.totals(), [MS(7), MS(9), MS(1)]);
        // Reused ids: one of the same kind with less time, one of another kind.
        ledger.note(ThreadReading::from([(2, (ThreadKind::Workers, MS(4))), (3, (ThreadKind::Workers, MS(1)))]));
        assert_eq!(ledger.totals(), [MS(7), MS(14), MS(1)]);
        ledger.note(ThreadReading::new());
        assert_eq!(ledger.totals(), [MS(7), MS(14), MS(1)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_time_of_a_thread_counts_as_its_part_s() {
        let times = ThreadTimes::default();
        let before = times.read();
        assert_eq!(before.iter().map(|(part, _)| *part).collect::<Vec<_>>(), WORDS);
        let (part, spent) = (1, MS(30));
        let worker = std::thread::Builder::new().name("leafseal-work-7".to_owned());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let worker = worker.spawn(move || {
            let begun = std::time::Instant::now();
            while begun.elapsed() < spent {
                std::hint::black_box(begun);
            }
            ready.send(()).unwrap();
            let _ = wait.recv();
        });
        is_ready.recv().unwrap();
        // A thread is accounted for when it waits.
        std::thread::sleep(MS(20));
        let during = times.read();
        drop(done);
        worker.unwrap().join().unwrap();
        let after = times.read();
        // Less than it took if other threads share the core, but never nothing; and it stays when the thread has ended.
        assert!(during[part].1 >= before[part].1 + MS(1), "{before:?} {during:?}");
        assert!(after[part].1 >= during[part].1, "{during:?} {after:?}");
    }
}
