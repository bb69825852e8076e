//! The ciphertext of a message that is opened in pieces.
//!
//! A buffer grows by adding segments, never by copying: a byte costs as much in a long message as in a short one. Fresh memory from the
//! system costs more than decrypting, so that segments are kept for the next message, no more than [`KEPT_SIZE_MAX`] bytes in a process.
//! Output that is too long for the processor's caches is written past them, which avoids reading the memory that is overwritten. Nothing
//! here is secret.

use std::sync::{Mutex, PoisonError};

use crate::jvm::{Jvm, Thrown};
use crate::memory::JavaBytes;

/// The first segment has room for this many pieces like the first one, so that a short message lies in one; each further segment is twice
/// as long as the one before, up to the maximum.
const FIRST_PIECES: usize = 4;
const SEGMENT_SIZE_MIN: usize = 4 * 1024;
const SEGMENT_SIZE_MAX: usize = 1024 * 1024;
/// Output after this many bytes is written past the caches.
const CACHED_SIZE: usize = 1024 * 1024;
/// Memory that is kept for later messages: what one of 128 MiB needs.
const KEPT_SIZE_MAX: usize = 128 * 1024 * 1024;

/// Segments of different lengths.
const LENGTHS: usize = (SEGMENT_SIZE_MAX / SEGMENT_SIZE_MIN).ilog2() as usize + 1;

/// Unused segments, by the logarithm of their length.
struct KeptSegments {
    segments: [Vec<Box<[u8]>>; LENGTHS],
    size: usize,
}

static KEPT: Mutex<KeptSegments> = Mutex::new(KeptSegments { segments: [const { Vec::new() }; LENGTHS], size: 0 });

struct BufferSegment {
    bytes: Box<[u8]>,
    used: usize,
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Buffer {
    segments: Vec<BufferSegment>,
    size: usize,
}

impl Buffer {
    /// Copies the range behind what is there.
    pub(crate) fn append(&mut self, jvm: Jvm, input: JavaBytes, size: usize) -> Result<(), Thrown> {
        let first = (FIRST_PIECES * size).next_power_of_two().clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX);
        input.read_pieces(jvm, size, |bytes| self.push(bytes, first))
    }

    /// Adds bytes; `first` is the size of the first segment.
    fn push(&mut self, mut bytes: &[u8], first: usize) {
        while !bytes.is_empty() {
            let is_cached = self.size < CACHED_SIZE;
            let room = self.room(first);
            let (piece, rest) = bytes.split_at(bytes.len().min(room.len()));
            if is_cached {
                room[..piece.len()].copy_from_slice(piece);
            } else {
                copy_past_caches(piece, &mut room[..piece.len()]);
            }
            self.add(piece.len());
            bytes = rest;
        }
    }

    /// The free part of the last segment: at least one byte. [`Buffer::add`] notes what was written.
    fn room(&mut self, first: usize) -> &mut [u8] {
        if self.segments.last().is_none_or(|last| last.used == last.bytes.len()) {
            let size = self.segments.last().map_or(first, |last| SEGMENT_SIZE_MAX.min(2 * last.bytes.len()));
            self.segments.push(BufferSegment { bytes: segment(size), used: 0 });
        }
        let last = self.segments.last_mut().expect("pushed above");
        &mut last.bytes[last.used..]
    }

    /// Notes that bytes were written to [`Buffer::room`].
    fn add(&mut self, size: usize) {
        let last = self.segments.last_mut().expect("there was room");
        last.used += size;
        assert!(last.used <= last.bytes.len());
        self.size += size;
    }

    /// Bytes of everything.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Everything, in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(|segment| &segment.bytes[..segment.used])
    }

    /// The last bytes of everything; of fewer, with zeros before them.
    pub(crate) fn tail<const SIZE: usize>(&self) -> [u8; SIZE] {
        let mut tail = [0; SIZE];
        let last = self.segments.iter().rev().flat_map(|segment| segment.bytes[..segment.used].iter().rev());
        tail.iter_mut().rev().zip(last).for_each(|(place, byte)| *place = *byte);
        tail
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        for BufferSegment { bytes, .. } in self.segments.drain(..) {
            if kept.size + bytes.len() > KEPT_SIZE_MAX {
                break;
            }
            kept.size += bytes.len();
            kept.segments[place(bytes.len())].push(bytes);
        }
    }
}

/// Copies bytes by non-temporal stores, where the processor has them.
fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let head = to.as_ptr().align_offset(size_of::<__m128i>()).min(to.len());
        let (from_head, from_rest) = from.split_at(head);
        let (to_head, to_rest) = to.split_at_mut(head);
        to_head.copy_from_slice(from_head);
        let (from_blocks, from_tail) = from_rest.as_chunks::<16>();
        let (to_blocks, to_tail) = to_rest.as_chunks_mut::<16>();
        for (from, to) in from_blocks.iter().zip(to_blocks) {
            // SAFETY: SSE2 is part of x86-64; both blocks have 16 bytes, and the written one is aligned to 16.
            unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast())) };
        }
        to_tail.copy_from_slice(from_tail);
        // SAFETY: SSE is part of x86-64. Another thread may read the buffer next.
        unsafe { _mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

fn place(size: usize) -> usize {
    (size / SEGMENT_SIZE_MIN).ilog2() as usize
}

fn segment(size: usize) -> Box<[u8]> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = kept.segments[place(size)].pop() {
        kept.size -= size;
        return bytes;
    }
    drop(kept);
    vec![0; size].into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_grow_to_a_limit_and_are_used_again() {
        let mut buffer = Buffer::default();
        let mut sizes = Vec::new();
        for _ in 0..12 {
            let size = buffer.room(SEGMENT_SIZE_MIN).len();
            buffer.add(size);
            sizes.push(size);
        }
        assert_eq!(sizes[..3], [4096, 8192, 16_384]);
        assert!(sizes[8..].iter().all(|size| *size == SEGMENT_SIZE_MAX));
        assert_eq!(buffer.size(), sizes.iter().sum());
        drop(buffer);
        assert!(!KEPT.lock().expect("no panic").segments[LENGTHS - 1].is_empty());
    }

    /// The end may lie in two segments, or be shorter than what is asked for.
    #[test]
    fn tails_cross_segments() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.tail::<2>(), [0, 0]);
        buffer.push(&[5], SEGMENT_SIZE_MIN);
        assert_eq!(buffer.tail::<3>(), [0, 0, 5]);
        buffer.push(&vec![6; SEGMENT_SIZE_MIN - 2], SEGMENT_SIZE_MIN);
        buffer.push(&[7, 8, 9], SEGMENT_SIZE_MIN);
        assert_eq!(buffer.tail::<4>(), [6, 7, 8, 9]);
        assert_eq!(buffer.segments().map(<[u8]>::len).collect::<Vec<_>>(), [SEGMENT_SIZE_MIN, 2]);
    }

    /// Pieces of all small lengths, until some are written past the caches from every alignment.
    #[test]
    fn bytes_stay_in_order() {
        let (mut buffer, mut expected) = (Buffer::default(), Vec::new());
        for round in 0..90_usize {
            for size in 0..160 {
                let piece: Vec<u8> = (0..size).map(|i| (i * 7 + size + round) as u8).collect();
                buffer.push(&piece, SEGMENT_SIZE_MIN);
                expected.extend(piece);
            }
        }
        assert!(expected.len() > CACHED_SIZE);
        assert!(buffer.segments().flatten().eq(&expected));
    }
}
