//! Detects that this process is a copy of another one, by a page that the kernel fills with zeros in each copy (`MADV_WIPEONFORK`, Linux
//! 4.14), whichever system call made it. Where that is not available, a handler of `fork` empties the page. Process numbers would not do:
//! they are used again, and each process namespace has a number 1.

use std::sync::atomic::{AtomicU64, Ordering};

use super::system_random::fill;

#[cfg(unix)]
use self::page::page;

/// A random number that stays the same during the life of a process and that no fork of it has.
///
/// A restored checkpoint and a cloned virtual machine have the same mark: numbers that must not repeat there have to come from
/// [`crate::random`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMark(u64);

impl ProcessMark {
    /// The mark of this process.
    ///
    /// # Panics
    /// If the system is out of memory, at the first call.
    pub fn current() -> Self {
        let page = page();
        match page.load(Ordering::Acquire) {
            0 => {
                let mut drawn = [0; size_of::<u64>()];
                fill(&mut drawn);
                let drawn = u64::from_ne_bytes(drawn).max(1);
                let before = page.compare_exchange(0, drawn, Ordering::AcqRel, Ordering::Acquire);
                Self(before.map_or_else(|theirs| theirs, |_| drawn))
            }
            mark => Self(mark),
        }
    }

    /// Whether this is still the process that the mark was taken in.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }
}

/// A process that cannot be forked needs no page.
#[cfg(not(unix))]
fn page() -> &'static AtomicU64 {
    static MARK: AtomicU64 = AtomicU64::new(0);
    &MARK
}

#[cfg(unix)]
mod page {
    use std::ptr::null_mut;
    use std::sync::atomic::AtomicPtr;

    use super::{AtomicU64, Ordering};

    /// The page, once there is one: its first bytes are the mark, zero before it is drawn. Without a lock, which a fork could copy while
    /// it is held.
    pub(super) static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
    /// The kernel rounds it up to a page.
    pub(super) const SIZE: usize = size_of::<AtomicU64>();

    pub(super) fn page() -> &'static AtomicU64 {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            let new = map();
            page = match PAGE.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => new,
                Err(theirs) => {
                    // SAFETY: `map` returned this mapping, and nothing else refers to it.
                    unsafe { libc::munmap(new.cast(), SIZE) };
                    theirs
                }
            };
        }
        // SAFETY: a pointer in `PAGE` comes from `map`, is aligned to a page, and is never unmapped; zeros are a valid atomic.
        unsafe { &*page }
    }

    /// Maps a page that is empty in copies of this process.
    fn map() -> *mut AtomicU64 {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches no other memory.
        let page = unsafe { libc::mmap(null_mut(), SIZE, protection, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED, "the system is out of memory");
        #[cfg(target_os = "linux")]
        // SAFETY: the mapping above is private and anonymous, as the advice requires. If the kernel does not know it, the handler remains.
        unsafe {
            libc::madvise(page, SIZE, libc::MADV_WIPEONFORK)
        };
        // SAFETY: the handler only stores to an atomic, which is allowed in the child of a process with threads.
        let registered = unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
        assert_eq!(registered, 0, "the system is out of memory");
        page.cast()
    }

    /// Runs in the child of each call of the C library's `fork`.
    extern "C" fn after_fork() {
        // SAFETY: as in `page`.
        if let Some(page) = unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
            page.store(0, Ordering::Release);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ptr::null_mut;

    use rand_core::Rng;

    use super::page::{PAGE, SIZE};
    use super::*;
    use crate::random::{fresh_random, system_random};

    /// How a test copies its process.
    #[derive(Debug, Clone, Copy)]
    enum By {
        /// The C library's `fork`, with its handlers.
        Fork,
        /// The system call, of which the C library learns nothing.
        Clone,
    }

    /// The result of `work` in a copy of this process, which must not allocate: other threads of the test program may hold the allocator's
    /// lock.
    fn in_a_copy(by: By, work: impl FnOnce() -> u64) -> u64 {
        let mut ends = [0; 2];
        let mut result = [0; 8];
        // SAFETY: plain system calls on descriptors and buffers of this function. The copy runs `work`, which does not allocate, and ends.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let child = match by {
                By::Fork => libc::c_long::from(libc::fork()),
                By::Clone => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0),
            };
            if child == 0 {
                let result = work().to_ne_bytes();
                libc::write(ends[1], result.as_ptr().cast(), result.len());
                libc::_exit(0);
            }
            assert!(child > 0, "{by:?}");
            assert_eq!(libc::read(ends[0], result.as_mut_ptr().cast(), result.len()), 8, "{by:?}");
            libc::waitpid(libc::pid_t::try_from(child).expect("a process number"), null_mut(), 0);
            ends.into_iter().for_each(|end| _ = libc::close(end));
        }
        u64::from_ne_bytes(result)
    }

    /// One test, because the last part changes the page of the whole program.
    #[test]
    fn copies_have_marks_of_their_own() {
        let mark = ProcessMark::current();
        assert!(mark.is_current() && mark.0 != 0);
        for by in [By::Fork, By::Clone] {
            let [first, second] = [(); 2].map(|()| in_a_copy(by, || ProcessMark::current().0));
            assert!(first != second && ![first, second].contains(&mark.0), "{by:?}");
            assert_eq!(in_a_copy(by, || u64::from(mark.is_current())), 0, "{by:?}");
            let stays = || u64::from(ProcessMark::current().is_current());
            assert_eq!(in_a_copy(by, stays), 1, "{by:?}");
        }
        assert!(mark.is_current());
        // A kernel without the advice: `fork` is still detected, by its handler.
        let page = PAGE.load(Ordering::Acquire);
        // SAFETY: the page is mapped; the advice keeps its content in copies.
        assert_eq!(unsafe { libc::madvise(page.cast(), SIZE, libc::MADV_KEEPONFORK) }, 0);
        assert_eq!(in_a_copy(By::Clone, || u64::from(mark.is_current())), 1, "the page is copied now");
        assert_eq!(in_a_copy(By::Fork, || u64::from(mark.is_current())), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::madvise(page.cast(), SIZE, libc::MADV_WIPEONFORK) }, 0);
    }

    #[test]
    fn copies_draw_other_numbers() {
        let draws: [fn() -> u64; 2] = [|| system_random().next_u64(), || fresh_random().next_u64()];
        for draw in draws {
            draw();
            let [first, second] = [(); 2].map(|()| in_a_copy(By::Clone, draw));
            let own = draw();
            assert!(first != second && first != own && second != own);
        }
    }
}
