//! Cuts the byte stream of a connection into frames; both ends of a connection use it.
//!
//! Nothing is scanned twice. A large frame arrives in pieces of bounded size and leaves with them, so that the thread that reads it
//! never moves much at a time: a caller that needs it in one buffer puts it together. Small frames are copied out, and the buffer stays.
//! The buffer grows with what has arrived, never by what a peer claims: at most to twice as much, and as a frame of many values promises
//! to become by its first ones. Only a caller with memory to spare reserves a large frame's expected size at once
//! ([`FrameBuffer::reserve_whole`]): the frame then arrives in one buffer and is never copied.

use crate::error::FrameError;
use crate::limits::FrameLimits;
use crate::scanner::Scanner;

/// The room offered to one read: the largest TLS record (RFC 8446, section 5.1).
pub const READ_SIZE: usize = 16_384;
/// Bytes of a piece of a frame, at most: what is left of a read that ends a piece may be beyond.
pub const FRAME_PIECE_SIZE: usize = 256 << 10;
/// Largest expected size for which a frame's memory is reserved at once.
const WHOLE_SIZE_MAX: usize = 16 << 20;
/// The part of a frame's expected size by which its buffer may be too large: lists of values of different lengths become a little
/// longer than their beginnings promise, and what is left over is not worth another allocation.
const WHOLE_EXCESS_DIVISOR: usize = 16;
/// Frames of at least this size are returned with their buffer.
const COPY_SIZE_MAX: usize = READ_SIZE;
/// A frame whose size is not known yet grows at least by this part of what has arrived, whatever its values promise: each byte is moved
/// four times at most.
const GROWTH_DIVISOR: usize = 4;

/// Received bytes of a stream that are not divided into frames yet.
pub struct FrameBuffer {
    /// The beginning of a large frame. None is empty; a value's head is never cut.
    pieces: Vec<Vec<u8>>,
    /// Bytes in them, and bytes that they take.
    pieces_size: usize,
    pieces_capacity: usize,
    /// Whether the frame that arrives is not wanted. `pieces_size` then counts what was dropped.
    is_discarding: bool,
    bytes: Vec<u8>,
    /// The size up to which `bytes` is not cut: that of a piece, or what was reserved for the whole frame.
    piece_size_max: usize,
    /// Offset in `bytes` at which the current frame begins or continues.
    start: usize,
    scanner: Scanner,
    frame_size_max: usize,
}

/// A whole frame, in one piece or in several.
#[derive(Debug, Default)]
pub struct Frame {
    pieces: Vec<Vec<u8>>,
}

impl Frame {
    /// The bytes of the first piece: the whole of a frame that is not large.
    pub fn head(&self) -> &[u8] {
        self.pieces.first().map_or(&[], Vec::as_slice)
    }

    /// Bytes of the frame.
    pub fn size(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Bytes of memory that it takes.
    pub fn capacity(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }

    /// A copy of the frame in one buffer.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// Whether it is in one buffer: [`Frame::head`] is then all of it.
    pub fn is_in_one_piece(&self) -> bool {
        self.pieces.len() <= 1
    }

    /// The pieces, in order.
    pub fn into_pieces(self) -> Vec<Vec<u8>> {
        self.pieces
    }

    /// The frame in one buffer: without a copy where it is in one piece.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if self.pieces.len() <= 1 {
            return self.pieces.pop().unwrap_or_default();
        }
        let mut bytes = Vec::with_capacity(self.size());
        self.pieces.into_iter().for_each(|piece| bytes.extend_from_slice(&piece));
        bytes
    }
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Frame { pieces: vec![bytes] }
    }
}

impl FrameBuffer {
    /// An empty one, which holds no memory.
    pub fn new(limits: FrameLimits) -> Self {
        FrameBuffer {
            pieces: Vec::new(),
            pieces_size: 0,
            pieces_capacity: 0,
            is_discarding: false,
            bytes: Vec::new(),
            piece_size_max: FRAME_PIECE_SIZE,
            start: 0,
            scanner: Scanner::new(limits),
            frame_size_max: limits.frame_size_max,
        }
    }

    /// The value of [`FrameBuffer::capacity`] after [`FrameBuffer::reserve_whole`]; none unless the frame is about to grow beyond a
    /// piece, which is when the call saves copies.
    pub fn capacity_for_whole(&self) -> Option<usize> {
        let size = self.bytes.len();
        let is_first_of_large = self.pieces.is_empty() && self.piece_size_max == FRAME_PIECE_SIZE;
        let is_full = self.bytes.capacity() - size < READ_SIZE && size >= FRAME_PIECE_SIZE / 4;
        if !is_first_of_large || !is_full || self.start > 0 || self.is_discarding {
            return None;
        }
        let expected = self.scanner.frame_size_expected();
        let margin = if self.scanner.position() >= expected { 0 } else { expected / (2 * WHOLE_EXCESS_DIVISOR) };
        let size_max = self.frame_size_max.min(WHOLE_SIZE_MAX);
        let is_large = (FRAME_PIECE_SIZE - READ_SIZE..=size_max).contains(&expected);
        is_large.then(|| (expected + margin).min(self.frame_size_max) + READ_SIZE)
    }

    /// Reserves as much as [`FrameBuffer::capacity_for_whole`] names. A peer can claim much with few bytes: for callers that charge
    /// the memory first and have enough of it.
    pub fn reserve_whole(&mut self) {
        let Some(capacity) = self.capacity_for_whole() else { return };
        self.bytes.reserve_exact(capacity - self.bytes.len());
        self.piece_size_max = self.bytes.capacity();
    }

    /// The buffer to append what is read to; it has room for at least [`READ_SIZE`] bytes.
    pub fn spare(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < READ_SIZE {
            self.bytes.reserve_exact(self.growth());
        }
        &mut self.bytes
    }

    /// The value of [`FrameBuffer::capacity`] after [`FrameBuffer::spare`], for callers that must reserve memory first.
    pub fn capacity_with_spare(&self) -> usize {
        let capacity = self.bytes.capacity();
        let grown = if capacity - self.bytes.len() < READ_SIZE { self.bytes.len() + self.growth() } else { capacity };
        self.pieces_capacity + grown
    }

    /// By how many bytes to grow: at most to twice what has arrived, and past the end of the frame by one read, so that the
    /// last one does not move it once more.
    fn growth(&self) -> usize {
        let size = self.bytes.len();
        let arrived = self.partial_size();
        let size_min = self.scanner.frame_size_min();
        let missing = size_min.saturating_sub(arrived);
        // Of values yet to come only a byte each is known. Without any the frame ends where this one does.
        let is_size_known = self.scanner.position() == size_min;
        let expected = self.scanner.frame_size_expected().saturating_sub(arrived);
        let wanted =
            if is_size_known { missing } else { expected.max(arrived / GROWTH_DIVISOR) }.saturating_add(READ_SIZE);
        let room = (self.frame_size_max.saturating_add(READ_SIZE)).saturating_sub(self.pieces_size + size);
        let of_piece = self.piece_size_max.saturating_sub(size);
        wanted.min(arrived.max(size)).min(room).min(of_piece).max(READ_SIZE)
    }

    /// The next whole frame among the bytes read so far. One that was discarded is empty, which no other frame is.
    ///
    /// # Errors
    /// When the stream cannot be cut any further; it has to end.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.scanner.scan(&self.bytes[self.start..])? {
            Some(size) => Ok(Some(self.cut(size))),
            None => {
                self.compact();
                self.begin_piece();
                Ok(None)
            }
        }
    }

    /// Bytes that have arrived of a frame that is not whole.
    pub fn partial_size(&self) -> usize {
        self.pieces_size + self.bytes.len() - self.start
    }

    /// The first bytes of the frame that is not whole: all of them, or a piece.
    pub fn partial_head(&self) -> &[u8] {
        self.pieces.first().map_or(&self.bytes[self.start..], Vec::as_slice)
    }

    /// Drops the frame that is not whole, and what is still to come of it as it arrives. It ends as an empty one.
    pub fn discard_partial(&mut self) {
        self.is_discarding = true;
        self.piece_size_max = FRAME_PIECE_SIZE;
        self.pieces = Vec::new();
        self.pieces_capacity = 0;
        self.compact();
        self.drop_passed();
    }

    /// Bytes that the buffer takes, whatever is in them.
    pub fn capacity(&self) -> usize {
        self.pieces_capacity + self.bytes.capacity()
    }

    /// Gives the memory back when nothing is kept in it.
    pub fn release_if_empty(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    fn cut(&mut self, size: usize) -> Frame {
        let end = self.start + size;
        if self.is_discarding {
            self.bytes.drain(..end);
            (self.start, self.pieces_size, self.is_discarding) = (0, 0, false);
            return Frame::default();
        }
        if self.start == 0 && (size >= COPY_SIZE_MAX || !self.pieces.is_empty()) {
            let rest = self.bytes.split_off(size);
            let mut last = std::mem::replace(&mut self.bytes, rest);
            // The frame may wait long, so it must not hold much more than its own bytes.
            let excess_max = if self.piece_size_max > FRAME_PIECE_SIZE { size / WHOLE_EXCESS_DIVISOR } else { 0 };
            self.piece_size_max = FRAME_PIECE_SIZE;
            if last.capacity() - size > excess_max.max(READ_SIZE) {
                last.shrink_to_fit();
            }
            let mut pieces = std::mem::take(&mut self.pieces);
            (self.pieces_size, self.pieces_capacity) = (0, 0);
            if !last.is_empty() {
                pieces.push(last);
            }
            return Frame { pieces };
        }
        let frame = self.bytes[self.start..end].to_vec();
        self.start = end;
        Frame::from(frame)
    }

    /// Moves a frame that is not whole to the front: once, for it then begins there.
    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Begins another piece where this one is large enough. All of it has been scanned, except a few bytes of a head.
    fn begin_piece(&mut self) {
        if self.is_discarding {
            return self.drop_passed();
        }
        if self.bytes.len() + READ_SIZE <= self.piece_size_max {
            return;
        }
        let passed = self.passed();
        let rest = self.bytes.split_off(passed);
        let mut piece = std::mem::replace(&mut self.bytes, rest);
        self.piece_size_max = FRAME_PIECE_SIZE;
        piece.shrink_to_fit();
        self.scanner.forget(passed);
        self.pieces_size += piece.len();
        self.pieces_capacity += piece.capacity();
        self.pieces.push(piece);
    }

    /// Bytes of the buffer that need no second look.
    fn passed(&self) -> usize {
        (self.scanner.position() - self.pieces_size).min(self.bytes.len())
    }

    fn drop_passed(&mut self) {
        let passed = self.passed();
        self.bytes.drain(..passed);
        self.scanner.forget(passed);
        self.pieces_size += passed;
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
        let mut buffer = FrameBuffer::new(FrameLimits::default());
        let mut frames = Vec::new();
        for bytes in stream.chunks(piece) {
            let capacity = buffer.capacity_with_spare();
            buffer.spare();
            assert_eq!(buffer.capacity(), capacity);
            buffer.spare().extend_from_slice(bytes);
            while let Some(frame) = buffer.next_frame().unwrap() {
                frames.push(frame.into_bytes());
            }
        }
        assert_eq!(buffer.partial_size(), 0);
        frames
    }

    #[test]
    fn frames_of_all_sizes_are_complete_however_they_arrive() {
        let sizes = [0, 1, 2, 300, READ_SIZE - 4, READ_SIZE - 3, READ_SIZE - 2, 5, 70_000, 100_000, 1];
        let frames: Vec<_> = sizes.into_iter().map(binary).collect();
        let stream = frames.concat();
        for piece in [1, 2, 3, 1000, READ_SIZE - 1, READ_SIZE, READ_SIZE + 1, stream.len()] {
            assert!(cut(&stream, piece) == frames, "pieces of {piece}");
        }
    }

    /// The most bytes that move at a time while `frame` arrives in full reads, and those that move in all; the frame comes out whole.
    fn moves(frame: &[u8], limits: FrameLimits) -> (usize, usize) {
        let mut buffer = FrameBuffer::new(limits);
        let (mut most, mut in_all) = (0, 0);
        for bytes in frame.chunks(READ_SIZE) {
            assert!(buffer.next_frame().unwrap().is_none());
            let (size, before) = (buffer.bytes.len(), buffer.bytes.capacity());
            if buffer.spare().capacity() != before {
                most = most.max(size);
                in_all += size;
            }
            assert!(buffer.capacity() <= limits.frame_size_max + READ_SIZE);
            buffer.bytes.extend_from_slice(bytes);
        }
        let cut = buffer.next_frame().unwrap().expect("the whole frame");
        assert_eq!(cut.size(), frame.len());
        assert!(cut.capacity() <= frame.len() + READ_SIZE);
        assert!(buffer.capacity() <= READ_SIZE);
        buffer.release_if_empty();
        assert_eq!(buffer.capacity(), 0);
        let pieces = cut.into_pieces();
        assert!(pieces.iter().all(|piece| piece.len() <= FRAME_PIECE_SIZE + READ_SIZE));
        assert!(pieces.concat() == frame);
        (most, in_all)
    }

    /// However large a frame is, its reader moves no more than a piece at a time.
    #[test]
    fn no_frame_has_many_bytes_moved_at_a_time() {
        let known = binary(20_000_000);
        let mut lists = vec![known];
        for (count, size) in [(2_000, 10_000), (500, 40_000), (200_000, 100), (3_000_000, 0)] {
            let mut frame = Vec::new();
            write::array_header(count, &mut frame);
            (0..count).for_each(|_| write::string(&"x".repeat(size), &mut frame));
            lists.push(frame);
        }
        let mut growing = Vec::new();
        write::array_header(20_000, &mut growing);
        (0..20_000_usize).for_each(|at| write::string(&"x".repeat(at / 20), &mut growing));
        lists.push(growing);
        for frame in lists {
            let (most, in_all) = moves(&frame, FrameLimits { frame_size_max: frame.len(), ..FrameLimits::default() });
            assert!(most <= FRAME_PIECE_SIZE, "{most} bytes moved at a time");
            assert!(in_all <= 3 * FRAME_PIECE_SIZE + frame.len() / 4, "{in_all} bytes moved of {}", frame.len());
        }
    }

    /// Large frames after small ones and small frames after large ones, for any division of the stream.
    #[test]
    fn large_frames_stand_between_small_ones() {
        let frames: Vec<_> = [3, 700_000, 5, FRAME_PIECE_SIZE, 2, 600_001].into_iter().map(binary).collect();
        for piece in [999, READ_SIZE, 300_000] {
            assert!(cut(&frames.concat(), piece) == frames, "pieces of {piece}");
        }
    }

    /// Discarded at any point, a frame uses no more than a piece of memory from then on, and the frames after it are complete.
    #[test]
    fn a_discarded_frame_is_dropped_as_it_arrives() {
        let mut values = Vec::new();
        write::array_header(3000, &mut values);
        (0..3000).for_each(|_| write::string(&"x".repeat(1000), &mut values));
        for large in [binary(40_000), binary(3_000_000), values] {
            let stream = [binary(3), large.clone(), binary(5), large.clone(), binary(70_000)].concat();
            for (piece, after) in
                [(1000, 20_000), (READ_SIZE, 20_000), (1000, 39_000), (999, 600_000), (READ_SIZE, 2_900_000)]
            {
                let mut buffer = FrameBuffer::new(FrameLimits::default());
                let (mut frames, mut discarded) = (Vec::new(), 0);
                for bytes in stream.chunks(piece) {
                    buffer.spare().extend_from_slice(bytes);
                    while let Some(frame) = buffer.next_frame().unwrap() {
                        frames.push(frame.into_bytes());
                    }
                    // The second of both large frames is kept.
                    if frames.len() == 1 && buffer.partial_size() >= after && discarded == 0 {
                        assert_eq!(buffer.partial_head()[..3], large[..3]);
                        buffer.discard_partial();
                        discarded += 1;
                    }
                    assert!(discarded == 0 || frames.len() > 1 || buffer.capacity() <= FRAME_PIECE_SIZE + READ_SIZE);
                }
                let first = if discarded > 0 { Vec::new() } else { large.clone() };
                assert_eq!(discarded == 0, after > large.len());
                assert!(frames == [binary(3), first, binary(5), large.clone(), binary(70_000)]);
            }
        }
    }

    /// The pieces of `frame`, for whose whole a caller reserves memory as it arrives.
    fn reserved(frame: &[u8]) -> Vec<Vec<u8>> {
        let mut buffer = FrameBuffer::new(FrameLimits::default());
        let mut moved = 0;
        for bytes in frame.chunks(READ_SIZE) {
            assert!(buffer.next_frame().unwrap().is_none());
            if let Some(capacity) = buffer.capacity_for_whole() {
                moved += buffer.bytes.len();
                buffer.reserve_whole();
                assert_eq!(buffer.capacity(), capacity);
                assert_eq!(buffer.capacity_for_whole(), None);
                assert_eq!(buffer.capacity_with_spare(), capacity);
            }
            buffer.spare().extend_from_slice(bytes);
        }
        assert!(moved <= FRAME_PIECE_SIZE, "{moved} bytes moved");
        let cut = buffer.next_frame().unwrap().expect("the whole frame");
        assert!(cut.capacity() <= frame.len() + READ_SIZE.max(frame.len() / WHOLE_EXCESS_DIVISOR));
        assert_eq!(buffer.capacity_for_whole(), None);
        let pieces = cut.into_pieces();
        assert!(pieces.concat() == frame);
        pieces
    }

    fn list_of(count: usize, size: impl Fn(usize) -> usize) -> Vec<u8> {
        let mut frame = Vec::new();
        write::array_header(count, &mut frame);
        (0..count).for_each(|at| write::string(&"x".repeat(size(at)), &mut frame));
        frame
    }

    #[test]
    fn a_frame_whose_memory_is_reserved_is_in_one_piece() {
        let sizes = [READ_SIZE, 100_000, FRAME_PIECE_SIZE - 5, FRAME_PIECE_SIZE, 300_000, WHOLE_SIZE_MAX - 5];
        for frame in sizes.map(binary) {
            assert_eq!(reserved(&frame).len(), 1, "{} bytes", frame.len());
        }
        for frame in [list_of(2_000, |_| 140), list_of(60_000, |_| 140), list_of(60_000, |at| 100 + at * 7919 % 80)] {
            assert_eq!(reserved(&frame).len(), 1, "{} bytes", frame.len());
        }
    }

    #[test]
    fn a_frame_that_outgrows_its_reservation_or_is_too_large_for_one_is_in_pieces() {
        for frame in [binary(WHOLE_SIZE_MAX), list_of(20_000, |at| at / 20), list_of(300_000, |_| 100)] {
            assert!(reserved(&frame).len() > 1, "{} bytes", frame.len());
        }
        // Values that become shorter leave memory over, which is given back.
        assert_eq!(reserved(&list_of(10_000, |at| (10_000 - at) / 10)).len(), 1);
    }

    #[test]
    fn a_claim_reserves_nothing_beyond_what_has_arrived() {
        let mut buffer = FrameBuffer::new(FrameLimits::default());
        let mut claim = Vec::new();
        write::binary_header(200 << 20, &mut claim);
        buffer.spare().extend_from_slice(&claim);
        assert!(buffer.next_frame().unwrap().is_none());
        assert!(buffer.spare().capacity() <= 2 * READ_SIZE);
        buffer.spare().extend_from_slice(&[0; 40_000]);
        assert!(buffer.spare().capacity() <= 2 * 40_000 + 2 * READ_SIZE);
    }
}
