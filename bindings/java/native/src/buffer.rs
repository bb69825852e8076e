//! Plaintext that is not authenticated yet. Nobody but this library sees it before its tag was checked.
//!
//! A buffer grows by adding segments, never by copying: a byte costs as much in a long message as in a short one. Fresh memory from the
//! system costs as much as decrypting to it, so that segments are kept for the next message: wiped, and no more than
//! [`KEPT_SIZE_MAX`] bytes in a process.

use std::sync::{Mutex, PoisonError};

use fieldseal_crypto::secret::wipe;

use crate::jvm::{Jvm, Thrown};
use crate::memory::Place;

/// Size of the first segment. Each further one is twice as long as the one before, up to the maximum.
const SEGMENT_SIZE_MIN: usize = 4 * 1024;
const SEGMENT_SIZE_MAX: usize = 1024 * 1024;
/// Bytes that are moved at once.
const MOVED_SIZE: usize = 64 * 1024;
/// Memory that is kept for later messages: what one of 128 MiB needs.
const KEPT_SIZE_MAX: usize = 128 * 1024 * 1024;

/// Segments of different lengths.
const LENGTHS: usize = (SEGMENT_SIZE_MAX / SEGMENT_SIZE_MIN).ilog2() as usize + 1;

/// Wiped segments, by the logarithm of their length.
struct Kept {
    segments: [Vec<Box<[u8]>>; LENGTHS],
    size: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { segments: [const { Vec::new() }; LENGTHS], size: 0 });

struct Segment {
    bytes: Box<[u8]>,
    used: usize,
}

/// See the module's description. Wiped on drop.
#[derive(Default)]
pub(crate) struct Buffer {
    segments: Vec<Segment>,
}

impl Buffer {
    /// The free part of the last segment: at least one byte. [`Buffer::add`] notes what was written.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.segments.last().is_none_or(|last| last.used == last.bytes.len()) {
            let size = self.segments.last().map_or(SEGMENT_SIZE_MIN, |last| SEGMENT_SIZE_MAX.min(2 * last.bytes.len()));
            self.segments.push(Segment { bytes: segment(size), used: 0 });
        }
        let last = self.segments.last_mut().expect("pushed above");
        &mut last.bytes[last.used..]
    }

    /// Notes that bytes were written to [`Buffer::room`].
    pub(crate) fn add(&mut self, size: usize) {
        let last = self.segments.last_mut().expect("there was room");
        last.used += size;
        assert!(last.used <= last.bytes.len());
    }

    /// Bytes of everything.
    pub(crate) fn size(&self) -> usize {
        self.segments.iter().map(|segment| segment.used).sum()
    }

    /// Moves everything to a place that has room for it. Each piece is wiped while it is in the processor's cache.
    pub(crate) fn move_to(mut self, jvm: Jvm, place: Place) -> Result<(), Thrown> {
        let mut written = 0;
        for segment in &mut self.segments {
            for piece in segment.bytes[..segment.used].chunks_mut(MOVED_SIZE) {
                place.after(written).write(jvm, piece)?;
                written += piece.len();
                wipe(piece);
            }
            segment.used = 0;
        }
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        for segment in &mut self.segments {
            wipe(&mut segment.bytes[..segment.used]);
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        for Segment { bytes, .. } in self.segments.drain(..) {
            if kept.size + bytes.len() > KEPT_SIZE_MAX {
                break;
            }
            kept.size += bytes.len();
            kept.segments[place(bytes.len())].push(bytes);
        }
    }
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
    fn segments_grow_to_a_limit_and_come_back_wiped() {
        let mut buffer = Buffer::default();
        let mut sizes = Vec::new();
        for _ in 0..12 {
            let room = buffer.room();
            let size = room.len();
            assert!(room.iter().all(|byte| *byte == 0));
            room.fill(7);
            buffer.add(size);
            sizes.push(size);
        }
        assert_eq!(sizes[..3], [4096, 8192, 16_384]);
        assert!(sizes[8..].iter().all(|size| *size == SEGMENT_SIZE_MAX));
        drop(buffer);
        let again = segment(SEGMENT_SIZE_MAX);
        assert!(again.iter().all(|byte| *byte == 0));
    }
}
