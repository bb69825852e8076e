//! A list that grows without moving its items: a growing vector copies everything at once, which for hundreds of megabytes takes longer
//! than a step may.

use std::ops::{Index, IndexMut};

/// Approximate size of a chunk in bytes.
const CHUNK_SIZE: usize = 64 << 10;

/// Values in chunks of the same length.
#[derive(Debug)]
pub(crate) struct ChunkedValues<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for ChunkedValues<T> {
    fn default() -> Self {
        ChunkedValues { chunks: Vec::new() }
    }
}

impl<T> ChunkedValues<T> {
    const LENGTH: usize = (CHUNK_SIZE / size_of::<T>()).next_power_of_two();

    pub(crate) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * Self::LENGTH + last.len())
    }

    /// Bytes allocated.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.len() * Self::LENGTH * size_of::<T>()
    }

    /// Removes all values, and keeps the memory of one chunk.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match self.chunks.last_mut().filter(|last| last.len() < Self::LENGTH) {
            Some(last) => last.push(value),
            None => self.begin_chunk(value),
        }
    }

    /// Removes the last value. The memory of one chunk is kept for the next.
    pub(crate) fn pop(&mut self) {
        if self.chunks.len() > 1 && self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
        }
        if let Some(last) = self.chunks.last_mut() {
            last.pop();
        }
    }

    #[cold]
    fn begin_chunk(&mut self, value: T) {
        let mut chunk = Vec::with_capacity(Self::LENGTH);
        chunk.push(value);
        self.chunks.push(chunk);
    }
}

impl<T> Index<usize> for ChunkedValues<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / Self::LENGTH][index % Self::LENGTH]
    }
}

impl<T> IndexMut<usize> for ChunkedValues<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / Self::LENGTH][index % Self::LENGTH]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_were_pushed() {
        let length = ChunkedValues::<[u32; 7]>::LENGTH;
        let mut chunks = ChunkedValues::default();
        for count in 0..=2 * length + 1 {
            assert_eq!(chunks.len(), count);
            chunks.push([count as u32; 7]);
        }
        chunks[length][0] = 5;
        for index in [0, 1, length - 1, length, length + 1, 2 * length, 2 * length + 1] {
            assert_eq!(chunks[index][1], index as u32);
        }
        assert_eq!(chunks[length][0], 5);
        assert_eq!(chunks.memory(), 3 * length * 28);
        let first = &raw const chunks[0];
        (0..3 * length).for_each(|_| chunks.push([0; 7]));
        assert_eq!(first, &raw const chunks[0], "growing moves nothing");
        while chunks.len() > length {
            chunks.pop();
        }
        assert_eq!((chunks.len(), chunks[length - 1][0]), (length, length as u32 - 1));
        assert!(chunks.memory() <= 2 * length * 28);
        chunks.push([9; 7]);
        chunks.pop();
        chunks.pop();
        chunks.push([8; 7]);
        assert_eq!((chunks.len(), chunks[length - 1][0]), (length, 8));
        chunks.clear();
        assert_eq!((chunks.len(), chunks.memory()), (0, length * 28));
        chunks.push([1; 7]);
        assert_eq!((chunks.len(), chunks[0][0]), (1, 1));
    }
}
