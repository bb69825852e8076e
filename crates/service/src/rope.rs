//! A message in several buffers. Large buffers are never copied; small ones are combined, so that a message of many small parts does not
//! need as many writes.

/// Buffers are combined up to this size: one TLS record.
pub const MERGE_SIZE_MAX: usize = 16_384;
/// Maximum number of buffers freed in one step: some tens of microseconds (`docs/decisions/0007-allocator.md`).
pub const FREED_BUFFERS_MAX: usize = 64;
/// Buffers above this size are not copied.
const SMALL_SIZE_MAX: usize = MERGE_SIZE_MAX / 4;

/// Bytes in order. The first buffer is separate, because most messages have no other.
#[derive(Default)]
pub struct Rope {
    first: Vec<u8>,
    others: Vec<Vec<u8>>,
    size: usize,
    capacity: usize,
}

impl From<Vec<u8>> for Rope {
    fn from(first: Vec<u8>) -> Self {
        Rope { size: first.len(), capacity: first.capacity(), others: Vec::new(), first }
    }
}

impl Rope {
    /// The size of the message.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The memory of the buffers in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Appends a buffer.
    pub fn push(&mut self, buffer: Vec<u8>) {
        self.size += buffer.len();
        let last = self.others.last_mut().unwrap_or(&mut self.first);
        let merged = last.len() + buffer.len();
        let fits = merged <= last.capacity() || merged <= MERGE_SIZE_MAX;
        if buffer.len() <= SMALL_SIZE_MAX && fits {
            let before = last.capacity();
            last.extend_from_slice(&buffer);
            self.capacity += last.capacity() - before;
        } else {
            self.capacity += buffer.capacity();
            self.others.push(buffer);
        }
    }

    /// The number of buffers after the first.
    pub fn count(&self) -> usize {
        self.others.len()
    }

    /// Removes the last buffer, but never the first.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let last = self.others.pop()?;
        self.size -= last.len();
        self.capacity -= last.capacity();
        Some(last)
    }

    /// The first buffer, whose size and capacity must not change.
    pub fn first_mut(&mut self) -> &mut Vec<u8> {
        &mut self.first
    }

    /// The buffers in order.
    pub fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.first).chain(&self.others).map(Vec::as_slice)
    }

    /// The buffers in order, by value.
    pub fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        std::iter::once(self.first).chain(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_and_only_small_buffers_are_copied() {
        let sizes = [100, 40_000, 10, 5_000, 4_097, 4_096, 3, 16_384, 1];
        let buffers: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![size as u8; size]).collect();
        let expected = buffers.concat();
        let kept: Vec<*const u8> = buffers.iter().map(|buffer| buffer.as_ptr()).collect();
        let mut rope = Rope::from(Vec::new());
        buffers.into_iter().for_each(|buffer| rope.push(buffer));
        let (size, capacity) = (rope.size(), rope.capacity());
        let buffers: Vec<Vec<u8>> = rope.into_buffers().collect();
        assert_eq!(buffers.iter().map(Vec::capacity).sum::<usize>(), capacity);
        assert!(buffers.concat() == expected && size == expected.len());
        assert_eq!(buffers.iter().map(Vec::len).collect::<Vec<_>>(), [100, 40_000, 10, 5_000, 8_196, 16_384, 1]);
        for (now, then) in [(1, 1), (3, 3), (5, 7)] {
            assert_eq!(buffers[now].as_ptr(), kept[then], "a large buffer goes out where it was written");
        }
    }

    #[test]
    fn many_small_parts_become_few_buffers() {
        let mut rope = Rope::default();
        (0..1_000).for_each(|_| rope.push(vec![7; 139]));
        assert_eq!(rope.size(), 139_000);
        let buffers: Vec<Vec<u8>> = rope.into_buffers().collect();
        assert!(buffers.len() <= 139_000_usize.div_ceil(MERGE_SIZE_MAX - 139), "{}", buffers.len());
    }
}
