//! Cuts the byte stream of a connection into frames; both ends of a connection use it.
//!
//! Nothing is scanned twice. A large frame leaves with the buffer that it arrived in, so that it is not copied and its
//! memory goes with it; small ones are copied out, and the buffer stays. The buffer grows with what has arrived, never by
//! what a peer claims: at most to twice as much, and as a frame of many values promises to become by its first ones, so that it is
//! copied about once.

use crate::error::FrameError;
use crate::limits::Limits;
use crate::scanner::Scanner;

/// The room offered to one read: the largest TLS record (RFC 8446, section 5.1).
pub const READ_SIZE: usize = 16_384;
/// Frames from this size on are handed over with their buffer.
const COPY_SIZE_MAX: usize = READ_SIZE;
/// A frame whose size is not known yet grows at least by this part of what has arrived, whatever its values promise: each byte is moved
/// four times at most.
const GROWTH_DIVISOR: usize = 4;

/// What has arrived of a stream and is not cut into frames yet.
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Where the frame begins that is looked for.
    start: usize,
    scanner: Scanner,
    frame_size_max: usize,
}

impl FrameBuffer {
    /// An empty one, which holds no memory.
    pub fn new(limits: Limits) -> Self {
        FrameBuffer {
            bytes: Vec::new(),
            start: 0,
            scanner: Scanner::new(limits),
            frame_size_max: limits.frame_size_max,
        }
    }

    /// The buffer to append what is read to; it has room for at least [`READ_SIZE`] bytes.
    pub fn spare(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < READ_SIZE {
            self.bytes.reserve_exact(self.growth());
        }
        &mut self.bytes
    }

    /// What [`FrameBuffer::capacity`] is after [`FrameBuffer::spare`], for who has to ask before it takes memory.
    pub fn capacity_with_spare(&self) -> usize {
        let capacity = self.bytes.capacity();
        if capacity - self.bytes.len() < READ_SIZE { self.bytes.len() + self.growth() } else { capacity }
    }

    /// By how many bytes to grow: at most to twice what has arrived, and past the end of the frame by one read, so that the
    /// last one does not move it once more.
    fn growth(&self) -> usize {
        let size = self.bytes.len();
        let size_min = self.scanner.frame_size_min();
        let missing = size_min.saturating_sub(size - self.start);
        // Of values yet to come only a byte each is known. Without any the frame ends where this one does.
        let is_size_known = self.scanner.position() == size_min;
        let expected = self.scanner.frame_size_expected().saturating_sub(size - self.start);
        let wanted =
            if is_size_known { missing } else { expected.max(size / GROWTH_DIVISOR) }.saturating_add(READ_SIZE);
        let room = (self.frame_size_max.saturating_add(READ_SIZE)).saturating_sub(size).max(READ_SIZE);
        wanted.clamp(READ_SIZE, size.max(READ_SIZE)).min(room)
    }

    /// The next whole frame among the bytes read so far.
    ///
    /// # Errors
    /// When the stream cannot be cut any further; it has to end.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        match self.scanner.scan(&self.bytes[self.start..])? {
            Some(size) => Ok(Some(self.cut(size))),
            None => {
                self.compact();
                Ok(None)
            }
        }
    }

    /// Bytes that have arrived of a frame that is not whole.
    pub fn partial_size(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes that the buffer takes, whatever is in them.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives the memory back when nothing is kept in it.
    pub fn release_if_empty(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    fn cut(&mut self, size: usize) -> Vec<u8> {
        if self.start == 0 && size >= COPY_SIZE_MAX {
            let rest = self.bytes.split_off(size);
            let mut frame = std::mem::replace(&mut self.bytes, rest);
            // The frame may wait long: it shall not hold more than a read beyond its own bytes.
            if frame.capacity() - size > READ_SIZE {
                frame.shrink_to_fit();
            }
            return frame;
        }
        let end = self.start + size;
        let frame = self.bytes[self.start..end].to_vec();
        self.start = end;
        frame
    }

    /// Moves a frame that is not whole to the front: once, for it then begins there.
    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write;

    fn binary(size: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        write::binary(&vec![7; size], &mut frame);
        frame
    }

    /// The frames of a stream that arrives in pieces of `piece` bytes.
    fn cut(stream: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut buffer = FrameBuffer::new(Limits::default());
        let mut frames = Vec::new();
        for bytes in stream.chunks(piece) {
            let capacity = buffer.capacity_with_spare();
            assert_eq!(buffer.spare().capacity(), capacity);
            buffer.spare().extend_from_slice(bytes);
            while let Some(frame) = buffer.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        assert_eq!(buffer.partial_size(), 0);
        frames
    }

    #[test]
    fn frames_of_all_sizes_come_out_however_they_arrive() {
        let sizes = [0, 1, 2, 300, READ_SIZE - 4, READ_SIZE - 3, READ_SIZE - 2, 5, 70_000, 100_000, 1];
        let frames: Vec<_> = sizes.into_iter().map(binary).collect();
        let stream = frames.concat();
        for piece in [1, 2, 3, 1000, READ_SIZE - 1, READ_SIZE, READ_SIZE + 1, stream.len()] {
            assert!(cut(&stream, piece) == frames, "pieces of {piece}");
        }
    }

    #[test]
    fn a_large_frame_takes_its_buffer_along() {
        let frame = binary(1 << 20);
        let mut buffer = FrameBuffer::new(Limits::default());
        for bytes in frame.chunks(READ_SIZE) {
            assert_eq!(buffer.next_frame(), Ok(None));
            buffer.spare().extend_from_slice(bytes);
        }
        let cut = buffer.next_frame().unwrap().unwrap();
        assert!(cut == frame);
        assert!(cut.capacity() < frame.len() + 2 * READ_SIZE, "{} bytes kept", cut.capacity());
        assert!(buffer.bytes.capacity() <= READ_SIZE);
        buffer.release_if_empty();
        assert_eq!(buffer.bytes.capacity(), 0);
    }

    /// How often the buffer moves while `frame` arrives in full reads, and the bytes moved; the frame comes out whole.
    fn moves(frame: &[u8], limits: Limits) -> (usize, usize) {
        let mut buffer = FrameBuffer::new(limits);
        let (mut count, mut bytes_moved) = (0, 0);
        for bytes in frame.chunks(READ_SIZE) {
            assert_eq!(buffer.next_frame(), Ok(None));
            let before = buffer.capacity();
            if buffer.spare().capacity() != before {
                count += 1;
                bytes_moved += buffer.bytes.len();
            }
            assert!(buffer.capacity() <= limits.frame_size_max + READ_SIZE);
            buffer.bytes.extend_from_slice(bytes);
        }
        let cut = buffer.next_frame().unwrap().expect("the whole frame");
        assert!(cut == frame && cut.capacity() <= frame.len() + READ_SIZE);
        (count, bytes_moved)
    }

    #[test]
    fn a_frame_of_many_values_is_moved_a_few_times() {
        for (count, size) in [(2_000, 10_000), (500, 40_000), (200_000, 100)] {
            let mut frame = Vec::new();
            write::array_header(count, &mut frame);
            (0..count).for_each(|_| write::string(&"x".repeat(size), &mut frame));
            let limits = Limits { frame_size_max: frame.len(), ..Limits::default() };
            let (moves, bytes_moved) = moves(&frame, limits);
            assert!(moves <= 12, "{moves} moves of {count} values");
            assert!(bytes_moved <= 2 * frame.len(), "{bytes_moved} bytes moved of {}", frame.len());
        }
    }

    #[test]
    fn a_frame_that_grows_beyond_what_it_promised_is_moved_a_few_times_too() {
        let mut frame = Vec::new();
        write::array_header(20_000, &mut frame);
        (0..20_000_usize).for_each(|at| write::string(&"x".repeat(at / 20), &mut frame));
        let (moves, bytes_moved) = moves(&frame, Limits { frame_size_max: frame.len(), ..Limits::default() });
        assert!(moves <= 40, "{moves} moves");
        assert!(bytes_moved <= 5 * frame.len(), "{bytes_moved} bytes moved of {}", frame.len());
    }

    #[test]
    fn a_frame_of_known_size_is_moved_even_less() {
        let frame = binary(20_000_000);
        let (moves, bytes_moved) = moves(&frame, Limits { frame_size_max: frame.len(), ..Limits::default() });
        assert!(moves <= 12 && bytes_moved <= 2 * frame.len(), "{moves} moves, {bytes_moved} bytes");
    }

    #[test]
    fn a_claim_reserves_nothing_beyond_what_has_arrived() {
        let mut buffer = FrameBuffer::new(Limits::default());
        let mut claim = Vec::new();
        write::binary_header(200 << 20, &mut claim);
        buffer.spare().extend_from_slice(&claim);
        assert_eq!(buffer.next_frame(), Ok(None));
        assert!(buffer.spare().capacity() <= 2 * READ_SIZE);
        buffer.spare().extend_from_slice(&[0; 40_000]);
        assert!(buffer.spare().capacity() <= 2 * 40_000 + 2 * READ_SIZE);
    }
}
