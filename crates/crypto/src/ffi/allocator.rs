//! An allocator around another one that overwrites memory when it is freed, while wiping is on.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Forwards every call to `A`. While wiping is on, memory is overwritten with zeros before it is freed: buffers, the copies that a
/// growing buffer leaves behind, and the end that a shrinking one releases.
///
/// Off at first; then a call costs one load and one branch more. When on, freeing a byte costs as much as writing it, and a buffer that
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

// SAFETY: every block comes from `inner` and is returned to it with the layout of its allocation.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WipingAllocator<A> {
    // SAFETY: the caller's guarantees are the requirements of `inner`.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantee is the requirement of `inner`.
        unsafe { self.inner.alloc(layout) }
    }

    // SAFETY: as for `alloc`.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    // SAFETY: as for `alloc`; the block is not used any more.
    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
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
        if !self.is_wiping() {
            // SAFETY: as in `alloc`.
            return unsafe { self.inner.realloc(place, layout, size) };
        }
        // `inner` might move the block and free the old place as it is, so it is moved here.
        // SAFETY: the caller promises that `size` is not 0 and, rounded up to the alignment, fits `isize`.
        let moved = unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            self.inner.alloc(wanted)
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
}
