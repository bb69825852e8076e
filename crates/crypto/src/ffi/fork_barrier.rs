//! Sections in which libraries with global locks run, or something is made once for the whole process. `fork` copies a lock that another
//! thread holds, which no thread of the copy would ever release. A call of the C library's `fork` therefore waits until no thread is in a
//! section.
//!
//! ```text
//! enter:        wait while a fork waits; active += 1        leave: active -= 1
//! before fork:  forking += 1; wait until active = 0, or for WAIT_MAX
//! parent:       forking -= 1
//! child:        active = the sections of the forking thread; forking = 0
//! ```

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The longest time that a fork waits. A section may last longer: a file system does not respond, or another process has a file locked. The
/// fork then continues, and its child may find a lock held if it calls the same library.
const FORK_WAIT_MAX: Duration = Duration::from_secs(1);
/// The time between two looks at the other side.
const LOOK: Duration = Duration::from_micros(50);

/// Threads in sections.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
/// Threads that fork, or wait to.
static FORKING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Sections of this thread within each other; only the outermost one counts.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A section of this thread that no `fork` of another one cuts. It ends when it is dropped.
pub struct ForkBarrier {
    is_outermost: bool,
    _of_its_thread: PhantomData<*const ()>,
}

impl ForkBarrier {
    /// Begins a section. Sections may be nested. Wait for locks of your own before: a `fork` waits for the end of the section.
    #[must_use]
    pub fn enter() -> Self {
        register();
        // A thread whose locals are gone is ending, and counts each section.
        let depth = DEPTH.try_with(|depth| depth.replace(depth.get() + 1)).unwrap_or(0);
        if depth == 0 {
            begin();
        }
        Self { is_outermost: depth == 0, _of_its_thread: PhantomData }
    }
}

/// Waits for the other side. Not by a lock, which a fork could copy.
#[cfg(unix)]
fn wait() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    // SAFETY: reads `time`, and writes nothing.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

#[cfg(not(unix))]
fn wait() {}

/// Enters a section, at a time when no thread forks.
fn begin() {
    loop {
        ACTIVE.fetch_add(1, Ordering::SeqCst);
        if FORKING.load(Ordering::SeqCst) == 0 {
            return;
        }
        ACTIVE.fetch_sub(1, Ordering::SeqCst);
        wait();
    }
}

impl Drop for ForkBarrier {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
        if self.is_outermost {
            ACTIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The value of `cell`, made by `make` in a section if there is none: a fork does not copy a cell that is about to be filled, for which the
/// child would wait for ever.
#[inline]
pub(crate) fn init<T>(cell: &'static OnceLock<T>, make: impl FnOnce() -> T) -> &'static T {
    cell.get().unwrap_or_else(|| {
        let _section = ForkBarrier::enter();
        cell.get_or_init(make)
    })
}

#[cfg(not(unix))]
fn register() {}

/// Registers the handlers with the first section. No `Once`, which a fork could copy while it runs.
#[cfg(unix)]
fn register() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if IS_REGISTERED.load(Ordering::Relaxed) || IS_REGISTERED.swap(true, Ordering::SeqCst) {
        return;
    }
    // SAFETY: the handlers load and store atomics and sleep, which is allowed around a fork and in the child of a process with threads.
    let registered =
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
    assert_eq!(registered, 0, "the system is out of memory");
}

/// Whether the calling thread is in a section, for whose end it would wait itself.
#[cfg(unix)]
fn own_sections() -> usize {
    DEPTH.try_with(|depth| usize::from(depth.get() > 0)).unwrap_or(0)
}

/// Runs in the thread that calls `fork`.
#[cfg(unix)]
extern "C" fn before_fork() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let mut waited = Duration::ZERO;
    while ACTIVE.load(Ordering::SeqCst) > own_sections() && waited < FORK_WAIT_MAX {
        wait();
        waited += LOOK;
    }
}

#[cfg(unix)]
extern "C" fn after_fork_in_parent() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// The child has the forking thread alone.
#[cfg(unix)]
extern "C" fn after_fork_in_child() {
    ACTIVE.store(own_sections(), Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// As a library with a global lock, which does not know of forks.
    static BUSY: AtomicBool = AtomicBool::new(false);
    static MADE: OnceLock<u32> = OnceLock::new();

    fn call_library() {
        let _section = ForkBarrier::enter();
        let _within = ForkBarrier::enter();
        while BUSY.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        std::hint::black_box([0_u8; 64]);
        BUSY.store(false, Ordering::Release);
    }

    /// The exit status of a child, made by the C library or by the system call, that runs `work`.
    fn fork(by_call: bool, work: impl FnOnce()) -> i32 {
        let mut status = 0;
        // SAFETY: the child calls functions that do not allocate, and ends.
        unsafe {
            let child = match by_call {
                false => libc::fork(),
                true => {
                    libc::pid_t::try_from(libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)).expect("a number")
                }
            };
            if child == 0 {
                // A child that waits for ever is ended by the kernel.
                libc::alarm(60);
                work();
                libc::_exit(7);
            }
            assert!(child > 0, "a child");
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        assert!(libc::WIFEXITED(status), "the child waits for a lock that no thread holds");
        libc::WEXITSTATUS(status)
    }

    /// One test: its parts fork the whole program.
    #[test]
    fn a_fork_waits_for_the_sections_of_other_threads() {
        let (ended, calls) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        call_library();
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..300 {
                assert_eq!(fork(false, call_library), 7);
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(calls.into_inner() > 0);
        // Something is being made once in another thread.
        let begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                init(&MADE, || {
                    begun.store(true, Ordering::SeqCst);
                    (0..600).for_each(|_| wait());
                    5
                })
            });
            while !begun.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            assert_eq!(fork(false, || assert_eq!(*init(&MADE, || 6), 5)), 7);
        });
        // A section that does not end delays a fork, and does not stop it; its own thread's delays nothing.
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _section = ForkBarrier::enter();
                begun.store(false, Ordering::SeqCst);
                while !end.load(Ordering::SeqCst) {
                    wait();
                }
            });
            while begun.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            assert_eq!(fork(false, || assert_eq!(ACTIVE.load(Ordering::SeqCst), 0)), 7);
            // A copy of which the C library learns nothing: its forks are delayed, too.
            assert_eq!(fork(true, || assert_eq!(fork(false, || ()), 7)), 7);
            end.store(true, Ordering::SeqCst);
        });
        let _section = ForkBarrier::enter();
        assert_eq!(fork(false, || drop(ForkBarrier::enter())), 7);
        // Other tests of this program may be within a fork of their own.
        assert!(
            (0..200_000).any(|_| FORKING.load(Ordering::SeqCst) == 0 || {
                wait();
                false
            }),
            "a fork is still counted"
        );
    }
}
