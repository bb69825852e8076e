//! An allocator around another one that overwrites memory when it is freed, while wiping is on, and that takes what a thread allocates for
//! long secrets from BoringSSL's heap.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use super::library_heap;

/// Where there is no heap for secrets.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod library_heap {
    use std::alloc::Layout;

    pub(super) fn is_enabled() -> bool {
        false
    }

    pub(super) fn allocate(_: Layout) -> Option<*mut u8> {
        None
    }

    pub(super) fn usable_size_of(_: *mut u8) -> Option<usize> {
        None
    }

    /// # Safety
    /// Never called: there are no such blocks.
    pub(super) unsafe fn free(_: *mut u8) {}
}

/// Whether any thread has allocated memory for secrets: before that, no block has to be looked up.
static HAS_GUARDED: AtomicBool = AtomicBool::new(false);

thread_local!(static IS_GUARDING: Cell<bool> = const { Cell::new(false) });

/// Calls `compute`. Values of up to 32 KiB that this thread allocates meanwhile are in memory that core dumps leave out, that copies of the
/// process find empty, and that is overwritten when it is freed, however long they live: for secrets that are too long for a
/// [`GuardedSecret`](crate::GuardedSecret), such as RSA keys.
///
/// Only in a process that has called [`guard_secrets`](crate::guard_secrets) and whose allocator is a [`WipingAllocator`], on Linux;
/// elsewhere they are on the heap.
pub fn in_guarded_memory<T>(compute: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_GUARDING.set(self.0);
        }
    }
    if library_heap::is_enabled() {
        HAS_GUARDED.store(true, Ordering::Release);
    }
    let _before = Before(IS_GUARDING.replace(true));
    compute()
}

#[inline]
fn has_guarded() -> bool {
    HAS_GUARDED.load(Ordering::Acquire)
}

/// A block for a secret, if this thread allocates one.
#[cold]
fn guarded(layout: Layout) -> Option<*mut u8> {
    // A thread that ends has no such variable any more.
    let is_guarding = IS_GUARDING.try_with(Cell::get).unwrap_or(false);
    if is_guarding { library_heap::allocate(layout) } else { None }
}

/// Forwards every call to `A`. While wiping is on, memory is overwritten with zeros before it is freed: buffers, the copies that a
/// growing buffer leaves behind, and the end that a shrinking one releases.
///
/// Off at first; then a call costs two loads and two branches more. When on, freeing a byte costs as much as writing it, and a buffer that
/// grows is always copied. Memory that was freed before wiping was turned on stays as it is.
///
/// ```
/// use leafseal_crypto::WipingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: WipingAllocator<std::alloc::System> = WipingAllocator::new(std::alloc::System);
///
/// ALLOCATOR.set_wiping(true);
/// drop(String::from("overwritten before it is freed"));
/// ```
#[derive(Debug)]
pub struct WipingAllocator<A> {
    inner: A,
    is_wiping: AtomicBool,
}

impl<A> WipingAllocator<A> {
    /// Around `inner`, not wiping.
    pub const fn new(inner: A) -> Self {
        Self { inner, is_wiping: AtomicBool::new(false) }
    }

    /// Turns wiping on or off for memory that is freed from now on.
    pub fn set_wiping(&self, is_wiping: bool) {
        self.is_wiping.store(is_wiping, Ordering::Relaxed);
    }

    fn is_wiping(&self) -> bool {
        self.is_wiping.load(Ordering::Relaxed)
    }
}

/// Overwrites `size` bytes with zeros, in a way that no compiler leaves out.
///
/// # Safety
///
/// The bytes are the caller's to write to.
unsafe fn wipe(place: *mut u8, size: usize) {
    // SAFETY: by this function's own promise.
    unsafe { boring_sys::OPENSSL_cleanse(place.cast::<c_void>(), size) }
}

// SAFETY: every block comes from `inner`, or from BoringSSL's heap, and is returned to where it came from with the layout of its
// allocation.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WipingAllocator<A> {
    // SAFETY: the caller's guarantees are the requirements of `inner`.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if has_guarded()
            && let Some(place) = guarded(layout)
        {
            return place;
        }
        // SAFETY: the caller's guarantee is the requirement of `inner`.
        unsafe { self.inner.alloc(layout) }
    }

    // SAFETY: as for `alloc`.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if has_guarded()
            && let Some(place) = guarded(layout)
        {
            // SAFETY: the new block has that many bytes.
            unsafe { place.write_bytes(0, layout.size()) };
            return place;
        }
        // SAFETY: as in `alloc`.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    // SAFETY: as for `alloc`; the block is not used any more.
    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if has_guarded() && library_heap::usable_size_of(place).is_some() {
            // SAFETY: a block of that heap, which its owner has given up.
            return unsafe { library_heap::free(place) };
        }
        if self.is_wiping() {
            // SAFETY: the block has this size, and its owner has given it up.
            unsafe { wipe(place, layout.size()) }
        }
        // SAFETY: as in `alloc`.
        unsafe { self.inner.dealloc(place, layout) }
    }

    // SAFETY: as for `alloc`; the old block is not used any more once there is a new one.
    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let usable = if has_guarded() { library_heap::usable_size_of(place) } else { None };
        if usable.is_some_and(|usable| size <= usable) {
            return place;
        }
        if !self.is_wiping() && usable.is_none() {
            // SAFETY: as in `alloc`.
            return unsafe { self.inner.realloc(place, layout, size) };
        }
        // `inner` might move the block and free the old place as it is, or does not know it, so it is moved here. A secret stays one.
        // SAFETY: the caller promises that `size` is not 0 and, rounded up to the alignment, fits `isize`.
        let moved = unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            let stays = usable.and_then(|_| library_heap::allocate(wanted));
            stays.unwrap_or_else(|| self.alloc(wanted))
        };
        if !moved.is_null() {
            // SAFETY: both blocks have that many bytes, and are apart; the old one is freed as the caller requested.
            unsafe {
                std::ptr::copy_nonoverlapping(place, moved, layout.size().min(size));
                self.dealloc(place, layout);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;
    use std::sync::Mutex;

    /// The content of each block when it was freed.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Vec<u8>>>);

    // SAFETY: the system's allocator does the work; a block is read before it is freed.
    unsafe impl GlobalAlloc for Recorder {
        // SAFETY: the caller's guarantees are the requirements of the system's allocator.
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        // SAFETY: as for `alloc`; the block is not used any more.
        unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
            // SAFETY: the tests write to all bytes before they free them.
            let bytes = unsafe { std::slice::from_raw_parts(place, layout.size()) };
            self.0.lock().unwrap().push(bytes.to_vec());
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(place, layout) }
        }
    }

    const BEFORE: usize = 24;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("valid")
    }

    /// A block of [`BEFORE`] bytes of 7 is resized and freed; what was in the blocks as they were freed, and in the resized one before.
    fn resize(is_wiping: bool, size: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
        let allocator = WipingAllocator::new(Recorder::default());
        allocator.set_wiping(is_wiping);
        // SAFETY: each block is freed once, with its own layout, and written to before it is read.
        let resized = unsafe {
            let place = allocator.alloc(layout(BEFORE));
            place.write_bytes(7, BEFORE);
            let place = allocator.realloc(place, layout(BEFORE), size);
            let kept = std::slice::from_raw_parts(place, size.min(BEFORE)).to_vec();
            place.write_bytes(9, size);
            allocator.dealloc(place, layout(size));
            kept
        };
        (allocator.inner.0.into_inner().unwrap(), resized)
    }

    #[test]
    fn freed_grown_and_shrunk_memory_is_overwritten() {
        for size in [1, BEFORE - 1, BEFORE, BEFORE + 1, 100_000] {
            let (freed, kept) = resize(true, size);
            assert_eq!(freed, [vec![0; BEFORE], vec![0; size]], "{size}");
            assert_eq!(kept, vec![7; size.min(BEFORE)], "{size}");
        }
    }

    #[test]
    fn nothing_is_overwritten_while_wiping_is_off() {
        let (freed, kept) = resize(false, 100);
        assert_eq!(freed, [vec![7; BEFORE], vec![9; 100]]);
        assert_eq!(kept, vec![7; BEFORE]);
    }

    /// Where the values of lanes would be: in the heap that is not dumped, until they are freed, also by another thread.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[test]
    fn what_is_allocated_for_secrets_is_in_the_heap_that_is_not_dumped() {
        library_heap::enable();
        let allocator = WipingAllocator::new(Recorder::default());
        let is_guarded = |place: *mut u8| library_heap::usable_size_of(place).is_some();
        // SAFETY: each block is freed once, with its own layout, and written to before it is read.
        unsafe {
            let before = allocator.alloc(layout(BEFORE));
            let [first, zeroed, large] = in_guarded_memory(|| {
                [allocator.alloc(layout(BEFORE)), allocator.alloc_zeroed(layout(100)), allocator.alloc(layout(100_000))]
            });
            let after = allocator.alloc(layout(BEFORE));
            assert_eq!([before, first, zeroed, large, after].map(is_guarded), [false, true, true, false, false]);
            assert_eq!(std::slice::from_raw_parts(zeroed, 100), [0; 100]);
            [before, first, after].iter().for_each(|place| place.write_bytes(7, BEFORE));
            large.write_bytes(7, 100_000);
            let (mut place, mut size) = (first, BEFORE);
            for grown in [30, 1000, 20_000, 60_000] {
                place = allocator.realloc(place, layout(size), grown);
                assert_eq!(
                    (is_guarded(place), std::slice::from_raw_parts(place, BEFORE)),
                    (grown <= 32768, &[7; BEFORE][..])
                );
                size = grown;
            }
            place.write_bytes(7, size);
            let own = allocator.realloc(before, layout(BEFORE), 30);
            assert!(!is_guarded(own));
            own.write_bytes(7, 30);
            for (place, size) in [(own, 30), (zeroed, 100), (large, 100_000), (after, BEFORE), (place, size)] {
                allocator.dealloc(place, layout(size));
            }
        }
    }
}
