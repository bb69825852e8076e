//! Memory for long buffers. On Linux it asks for huge pages: the first access to 2 MiB then takes a third of the time that 512 pages of
//! 4 KiB take, which is as long as decrypting them.

use std::ops::{Deref, DerefMut};

#[cfg(target_os = "linux")]
use mapped::Mapped;

/// From this size on, huge pages are asked for: the size of one on x86-64, and on AArch64 with pages of 4 KiB.
pub(crate) const HUGE_SIZE: usize = 2 * 1024 * 1024;

/// Bytes, zeros at first.
pub(crate) enum Memory {
    Heap(Box<[u8]>),
    #[cfg(target_os = "linux")]
    Mapped(Mapped),
}

impl Memory {
    pub(crate) fn new(size: usize) -> Self {
        #[cfg(target_os = "linux")]
        if let Some(mapped) = Mapped::new(size) {
            return Self::Mapped(mapped);
        }
        Self::Heap(vec![0; size].into_boxed_slice())
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Self::Mapped(mapped) => mapped.bytes(),
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Self::Mapped(mapped) => mapped.bytes_mut(),
        }
    }
}

#[cfg(target_os = "linux")]
mod mapped {
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::HUGE_SIZE;

    /// A part of a mapping of its own that begins where a huge page may.
    pub(crate) struct Mapped {
        mapping: NonNull<u8>,
        mapping_size: usize,
        start: NonNull<u8>,
        size: usize,
    }

    // SAFETY: the mapping is this value's alone.
    unsafe impl Send for Mapped {}

    impl Mapped {
        /// None for small sizes, and when the system refuses.
        pub(super) fn new(size: usize) -> Option<Self> {
            if size < HUGE_SIZE {
                return None;
            }
            // What is not accessed takes addresses alone.
            let mapping_size = size.checked_add(HUGE_SIZE)?;
            // SAFETY: the system chooses the place, so that nothing is replaced.
            let mapping = unsafe {
                mmap_anonymous(null_mut(), mapping_size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE).ok()?
            };
            let mapping = NonNull::new(mapping.cast::<u8>())?;
            // SAFETY: the offset is below HUGE_SIZE, so that `size` bytes follow within the mapping.
            let start = unsafe { mapping.add(mapping.align_offset(HUGE_SIZE)) };
            // SAFETY: the range lies in the mapping, and the advice does not change its content. A system without huge pages refuses.
            let _ = unsafe { madvise(start.as_ptr().cast(), size, Advice::LinuxHugepage) };
            Some(Self { mapping, mapping_size, start, size })
        }

        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: the range is mapped, initialised with zeros, and this value's alone.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
        }

        pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above, and exclusively borrowed.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the mapping was made with this size, and no slice of it is alive.
            let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_size_is_zeros_and_writable() {
        for size in [1, 4096, HUGE_SIZE - 1, HUGE_SIZE, HUGE_SIZE + 1, 5 * HUGE_SIZE] {
            let mut memory = Memory::new(size);
            assert!(memory.len() == size && memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
    }
}
