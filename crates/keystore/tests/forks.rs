//! Forks of a process whose other threads use SQLite: the child opens a store of its own, and must not wait for a lock that a thread of
//! its parent held.
//! A program of its own with a single test, because a child has only the thread that made it.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};

use leafseal_testkit::ScratchStore;

const FORKS: usize = 200;

#[test]
fn a_fork_opens_a_store_while_others_are_at_it() {
    let store = ScratchStore::new(&["acme"]);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                drop(store.open());
            }
        });
        for fork in 0..FORKS {
            let mut status = 0;
            // SAFETY: a fork by the C library, whose allocator takes care of its own locks. The child opens the store and ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    // A child that waits for ever is ended by the kernel.
                    libc::alarm(120);
                    drop(store.open());
                    libc::_exit(7);
                }
                assert!(child > 0, "a child");
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            }
            assert!(libc::WIFEXITED(status), "fork {fork}: the child waits for a lock that no thread holds");
            assert_eq!(libc::WEXITSTATUS(status), 7);
        }
        ended.store(true, Ordering::Relaxed);
    });
}
