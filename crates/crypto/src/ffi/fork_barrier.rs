//! Sections in which libraries with global locks run. `fork` copies a lock that another thread holds, and nobody in the copy would ever
//! release it: so a call of the C library's `fork` waits until no thread is in such a section.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Shared by sections, exclusive while the process is being copied.
static LOCK: RwLock<()> = RwLock::new(());

thread_local! {
    /// Sections of this thread within each other; only the outermost one takes the lock, which waits for a waiting `fork`.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Held from before a `fork` of this thread until after it, by parent and child.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A section of this thread that no `fork` of another one cuts. It ends when it is dropped.
pub struct ForkBarrier {
    _shared: Option<RwLockReadGuard<'static, ()>>,
    _of_its_thread: PhantomData<*const ()>,
}

impl ForkBarrier {
    /// Begins a section. Sections may be nested. Keep it short: a `fork` waits for its end.
    #[must_use]
    pub fn enter() -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(register);
        let is_outermost = DEPTH.replace(DEPTH.get() + 1) == 0;
        let shared = is_outermost.then(|| LOCK.read().unwrap_or_else(PoisonError::into_inner));
        Self { _shared: shared, _of_its_thread: PhantomData }
    }
}

impl Drop for ForkBarrier {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(not(unix))]
fn register() {}

#[cfg(unix)]
fn register() {
    // SAFETY: the handlers take and release a lock of this process. After the fork the child's only thread is the one that took it.
    let registered = unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    assert_eq!(registered, 0, "the system is out of memory");
}

/// Runs in the thread that calls `fork`.
#[cfg(unix)]
extern "C" fn before_fork() {
    // A thread that forks within a section would wait for itself. The thread's locals are gone if it is ending.
    if DEPTH.try_with(Cell::get) == Ok(0) {
        let held = LOCK.write().unwrap_or_else(PoisonError::into_inner);
        let _ = HELD.try_with(|place| place.replace(Some(held)));
    }
}

/// Runs in the same thread of the parent, and in the child.
#[cfg(unix)]
extern "C" fn after_fork() {
    let _ = HELD.try_with(|place| place.take());
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// As a library with a global lock, which does not know of forks.
    static BUSY: AtomicBool = AtomicBool::new(false);

    fn call_library() {
        let _section = ForkBarrier::enter();
        let _within = ForkBarrier::enter();
        while BUSY.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        std::hint::black_box([0_u8; 64]);
        BUSY.store(false, Ordering::Release);
    }

    /// The exit status of a child that calls the library.
    fn fork() -> i32 {
        let mut status = 0;
        // SAFETY: the child calls functions that do not allocate, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                // A child that waits for ever is ended by the kernel.
                libc::alarm(60);
                call_library();
                libc::_exit(7);
            }
            assert!(child > 0, "a child");
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        assert!(libc::WIFEXITED(status), "the child waits for a lock that nobody holds");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_fork_waits_for_the_sections_of_other_threads() {
        let (ended, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
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
                assert_eq!(fork(), 7);
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(calls.into_inner() > 0);
        // Within a section of its own thread it does not wait for itself.
        let _section = ForkBarrier::enter();
        // SAFETY: the child only ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            libc::waitpid(child, null_mut(), 0);
        }
    }
}
