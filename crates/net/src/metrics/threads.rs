//! CPU time of the engine's threads by what they do, as the system accounts for it. Linux: from `/proc/self/task`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// The kind of work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Network,
    Workers,
    Other,
}

/// The words in metrics, in the order of [`Part`].
const WORDS: [&str; 3] = ["network", "workers", "other"];

impl Part {
    fn of(name: &str) -> Self {
        match name {
            "fieldseal-net" => Part::Network,
            name if name.starts_with("fieldseal-work") => Part::Workers,
            _ => Part::Other,
        }
    }
}

/// The CPU time of each thread at one reading, by its id.
type Look = HashMap<i32, (Part, Duration)>;

/// CPU time by part, which never goes back, though threads end.
#[derive(Debug, Default)]
pub struct ThreadTimes(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    threads: Look,
    /// Of threads that have ended since, by part.
    ended: [Duration; 3],
}

impl ThreadTimes {
    /// The time of each part; empty if the system does not report it.
    pub fn read(&self) -> Vec<(&'static str, Duration)> {
        match look() {
            Some(now) if !now.is_empty() => {
                let mut ledger = self.0.lock().expect("nothing panics while this is locked");
                ledger.note(now);
                WORDS.into_iter().zip(ledger.totals()).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Ledger {
    /// The time that a thread used between the last reading and its end is unknown and omitted.
    fn note(&mut self, now: Look) {
        for (id, (part, before)) in std::mem::replace(&mut self.threads, now) {
            // An id with less than it had is another thread's.
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

/// Reads all threads; `None` where the system does not account for their time.
#[cfg(target_os = "linux")]
fn look() -> Option<Look> {
    use procfs::ProcError;
    use procfs::process::{Process, Task};

    let used = |task: &Task| {
        let time = Duration::from_nanos(task.schedstat()?.sum_exec_runtime);
        Ok((task.tid, (Part::of(&task.stat()?.comm), time)))
    };
    let mut look = Look::new();
    for task in Process::myself().ok()?.tasks().ok()? {
        match task.and_then(|task| used(&task)) {
            Ok((id, used)) => {
                look.insert(id, used);
            }
            // It has ended since the list was made.
            Err(ProcError::NotFound(_)) => {}
            Err(_) => return None,
        }
    }
    Some(look)
}

#[cfg(not(target_os = "linux"))]
fn look() -> Option<Look> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_time_of_ended_threads_stays() {
        let mut ledger = Ledger::default();
        ledger.note(Look::from([(1, (Part::Network, MS(5))), (2, (Part::Workers, MS(7))), (3, (Part::Other, MS(1)))]));
        assert_eq!(ledger.totals(), [MS(5), MS(7), MS(1)]);
        // One ended, one came, one went on.
        ledger.note(Look::from([(2, (Part::Workers, MS(9))), (3, (Part::Other, MS(1))), (4, (Part::Network, MS(2)))]));
        assert_eq!(ledger.totals(), [MS(7), MS(9), MS(1)]);
        // Ids that other threads were given: one of the same part with less time, one of another part.
        ledger.note(Look::from([(2, (Part::Workers, MS(4))), (3, (Part::Workers, MS(1)))]));
        assert_eq!(ledger.totals(), [MS(7), MS(14), MS(1)]);
        ledger.note(Look::new());
        assert_eq!(ledger.totals(), [MS(7), MS(14), MS(1)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_time_of_a_thread_counts_as_its_part_s() {
        let times = ThreadTimes::default();
        let before = times.read();
        assert_eq!(before.iter().map(|(part, _)| *part).collect::<Vec<_>>(), WORDS);
        let (part, spent) = (1, MS(30));
        let worker = std::thread::Builder::new().name("fieldseal-work-7".to_owned());
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
        // Until it waits, and so is accounted for.
        std::thread::sleep(MS(20));
        let during = times.read();
        drop(done);
        worker.unwrap().join().unwrap();
        let after = times.read();
        // Less than it took where others have the core, but never nothing; and it stays when the thread is gone.
        assert!(during[part].1 >= before[part].1 + MS(1), "{before:?} {during:?}");
        assert!(after[part].1 >= during[part].1, "{during:?} {after:?}");
    }
}
