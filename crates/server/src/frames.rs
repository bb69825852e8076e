//! Cuts the byte stream of a connection into frames.
//!
//! Nothing is scanned twice. A large frame leaves with the buffer that it arrived in, so that it is not copied and its
//! memory goes with it; small ones are copied out, and the buffer stays. The buffer grows with what has arrived, never by
//! what a peer claims.

use fieldseal_protocol::{FrameError, Limits, Scanner};

/// The room offered to one read: the largest TLS record (RFC 8446, section 5.1).
pub(crate) const READ_SIZE: usize = 16_384;
/// Frames from this size on are handed over with their buffer.
const COPY_SIZE_MAX: usize = READ_SIZE;

pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    /// Where the frame begins that is looked for.
    start: usize,
    scanner: Scanner,
}

impl FrameBuffer {
    pub(crate) fn new(limits: Limits) -> Self {
        FrameBuffer { bytes: Vec::new(), start: 0, scanner: Scanner::new(limits) }
    }

    /// The buffer to append what is read to; it has room for at least [`READ_SIZE`] bytes.
    pub(crate) fn spare(&mut self) -> &mut Vec<u8> {
        let size = self.bytes.len();
        if self.bytes.capacity() - size < READ_SIZE {
            // At most twice what has arrived; and no more than the frame needs, so that none is kept too large.
            let missing = self.scanner.frame_size_min().saturating_sub(size - self.start);
            self.bytes.reserve_exact(missing.clamp(READ_SIZE, size.max(READ_SIZE)));
        }
        &mut self.bytes
    }

    /// The next whole frame among the bytes read so far.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        match self.scanner.scan(&self.bytes[self.start..])? {
            Some(size) => Ok(Some(self.cut(size))),
            None => {
                self.compact();
                Ok(None)
            }
        }
    }

    /// Bytes that have arrived of a frame that is not whole.
    pub(crate) fn partial_size(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Gives the memory back when nothing is kept in it.
    pub(crate) fn release_if_empty(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    fn cut(&mut self, size: usize) -> Vec<u8> {
        if self.start == 0 && size >= COPY_SIZE_MAX {
            let rest = self.bytes.split_off(size);
            return std::mem::replace(&mut self.bytes, rest);
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
    use fieldseal_protocol::write;

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
