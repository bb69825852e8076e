//! Working memory on the stack. It needs no initial value, and only the part that was used is wiped.

use std::mem::MaybeUninit;

use super::vector::Vector;
use crate::wipe::wipe;

/// Up to `SIZE` bytes of vectors.
#[repr(C, align(64))]
pub(super) struct VectorMemory<const SIZE: usize> {
    bytes: [MaybeUninit<u8>; SIZE],
    used: usize,
}

impl<const SIZE: usize> VectorMemory<SIZE> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { bytes: [const { MaybeUninit::uninit() }; SIZE], used: 0 }
    }

    /// The first `count` vectors, all of which must be written.
    #[inline(always)]
    pub(super) fn fill<V: Vector>(&mut self, count: usize) -> Filling<'_, V> {
        const { assert!(align_of::<V>() <= align_of::<Self>() && size_of::<V>() == V::SIZE) };
        let size = count * V::SIZE;
        assert!(size <= SIZE);
        // SAFETY: the vectors are within the array, which is aligned for them.
        let places = unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), count) };
        Filling { places, next: 0, used: &mut self.used }
    }

    /// The first `count` vectors as they were filled.
    #[inline(always)]
    pub(super) fn filled<V: Vector>(&mut self, count: usize) -> &mut [V] {
        assert!(count * V::SIZE <= self.used);
        // SAFETY: these bytes have been written, and any bits make a vector.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), count) }
    }
}

/// Vectors that are being written.
pub(super) struct Filling<'m, V> {
    places: &'m mut [MaybeUninit<V>],
    next: usize,
    used: &'m mut usize,
}

impl<'m, V: Vector> Filling<'m, V> {
    #[inline(always)]
    pub(super) fn push(&mut self, vector: V) {
        self.places[self.next].write(vector);
        self.next += 1;
    }

    /// All vectors, which have been pushed.
    #[inline(always)]
    pub(super) fn finish(self) -> &'m mut [V] {
        assert_eq!(self.next, self.places.len(), "each vector is written");
        *self.used = (*self.used).max(self.places.len() * V::SIZE);
        // SAFETY: `push` has written all of them, as asserted above.
        unsafe { self.places.assume_init_mut() }
    }
}

impl<const SIZE: usize> Drop for VectorMemory<SIZE> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the bytes up to `used` have been written.
        wipe(unsafe { self.bytes[..self.used].assume_init_mut() });
    }
}
