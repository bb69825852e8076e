//! Finds the end of a frame while its bytes arrive.
//!
//! The scanner reads each head once, skips the contents of strings and binaries, and resumes where it stopped: a message of 100 MB
//! that arrives in 6,000 pieces is still scanned once. Lengths and counts are checked when they are read, before the bytes they
//! announce are read or stored, and nothing is allocated by them. Its state is one count per open container.

use crate::error::FrameError;
use crate::limits::FrameLimits;
use crate::wire::{HeadError, ValueHead, read_head};

/// Resumable search for the end of one MessagePack value. One per direction of a connection.
#[derive(Clone, Debug)]
pub struct Scanner {
    limits: FrameLimits,
    /// Bytes of the frame that were dropped: the buffer begins after them.
    forgotten: usize,
    /// Where the next head begins, from the start of the buffer; beyond its end while a payload is still arriving.
    position: usize,
    /// Values still to come in the innermost open container; the frame itself counts as a container of one.
    remaining: u64,
    /// The same for each container around it, outermost first.
    outer: Vec<u64>,
    /// Sum of `outer`: each such value takes at least a byte, which bounds the frame from below.
    outer_sum: u64,
    /// Where in the frame the values of the innermost open container begin, and how many there are, unless one inside has ended since.
    innermost: Option<(usize, u64)>,
    /// Bytes that the caller has shown so far; the buffer of one frame may only grow.
    shown: usize,
    failed: Option<FrameError>,
    #[cfg(test)]
    pub(crate) heads_read: u64,
}

impl Scanner {
    /// A scanner at the start of a frame.
    pub fn new(limits: FrameLimits) -> Self {
        Scanner {
            limits,
            forgotten: 0,
            position: 0,
            remaining: 1,
            outer: Vec::new(),
            outer_sum: 0,
            innermost: None,
            shown: 0,
            failed: None,
            #[cfg(test)]
            heads_read: 0,
        }
    }

    /// Scans `buffer`, which starts at the frame's start and holds all its bytes received so far: those of the last call, followed
    /// by new ones.
    ///
    /// Returns the frame's length in bytes once it is complete, and is then ready for the next frame (whose buffer starts after
    /// this one). `None` requests more bytes. After an error the stream has no next frame: every further call returns the same
    /// error.
    ///
    /// # Errors
    /// A limit passed, or the marker 0xc1.
    ///
    /// # Panics
    /// When `buffer` is shorter than at the last call for this frame, which is a mistake of the caller.
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Option<usize>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        assert!(buffer.len() >= self.shown, "the buffer of one frame only grows");
        self.shown = buffer.len();
        match self.advance(buffer) {
            Ok(()) if self.remaining > 0 || self.position > buffer.len() => Ok(None),
            Ok(()) => Ok(Some(self.restart())),
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// Drops the first `size` bytes of the buffer, which are not needed again: the next buffer begins after them, and lengths count
    /// from there. A large frame therefore need not be contiguous in memory.
    ///
    /// # Panics
    /// If they were not scanned yet, or are needed again: those after [`Scanner::position`].
    pub fn forget(&mut self, size: usize) {
        assert!(size <= self.shown.min(self.position), "only what was passed can be forgotten");
        self.forgotten += size;
        self.position -= size;
        self.shown -= size;
    }

    /// The least length that the frame can have, in bytes, by what has been seen of it. Never above the limit.
    pub fn frame_size_min(&self) -> usize {
        self.position() + usize::try_from(self.remaining + self.outer_sum).expect("bounded by the frame size limit")
    }

    /// The length that the frame will have if the values still to come in the innermost container are as long as those before them.
    /// Never below [`Scanner::frame_size_min`], and a guess: the limit does not hold for it.
    pub fn frame_size_expected(&self) -> usize {
        let Some((start, count)) = self.innermost else { return self.frame_size_min() };
        let passed = count - self.remaining;
        let size = self.position().saturating_sub(start) as u64;
        let missing = u128::from(size) * u128::from(self.remaining) / u128::from(passed.max(1));
        let expected = self.position() as u128 + missing + u128::from(self.outer_sum);
        usize::try_from(expected).unwrap_or(usize::MAX).max(self.frame_size_min())
    }

    /// Bytes of the frame that need no second look: everything before the next head.
    pub fn position(&self) -> usize {
        self.forgotten + self.position
    }

    fn restart(&mut self) -> usize {
        self.shown = 0;
        self.forgotten = 0;
        self.innermost = None;
        self.remaining = 1;
        std::mem::take(&mut self.position)
    }

    /// Reads heads until the frame or the buffer ends.
    fn advance(&mut self, buffer: &[u8]) -> Result<(), FrameError> {
        while self.remaining > 0 {
            self.pass_short_values(buffer);
            let Some(rest) = buffer.get(self.position..) else {
                return Ok(());
            };
            let (head, head_size) = match read_head(rest) {
                Ok(read) => read,
                Err(HeadError::Truncated) => return Ok(()),
                Err(HeadError::Reserved) => return Err(FrameError::ReservedMarker { offset: self.position() }),
            };
            #[cfg(test)]
            {
                self.heads_read += 1;
            }
            self.remaining -= 1;
            let inside = head.values_inside();
            let end = self.position as u64 + head_size as u64 + head.payload_size();
            self.check_size(self.forgotten as u64 + end + self.remaining + self.outer_sum + inside)?;
            if let ValueHead::Array(count) | ValueHead::Map(count) = head {
                self.check_container(count)?;
            }
            self.position = usize::try_from(end).expect("within the frame size limit");
            self.open_and_close(inside);
        }
        Ok(())
    }

    /// A fast path for a run of strings of up to 255 bytes and of one-byte values, except the last value of their container; it
    /// stops before anything else. Lists of values are such runs, and this halves their cost.
    #[inline]
    fn pass_short_values(&mut self, buffer: &[u8]) {
        let taken = self.outer_sum.saturating_add(self.forgotten as u64);
        let size_max = (self.limits.frame_size_max as u64).saturating_sub(taken);
        let (mut position, mut remaining) = (self.position, self.remaining);
        while remaining > 1 {
            let size = match buffer.get(position..) {
                Some([marker @ 0xa0..=0xbf, ..]) => 1 + usize::from(marker & 0x1f),
                Some([0xd9, size, ..]) => 2 + usize::from(*size),
                Some([0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff, ..]) => 1,
                _ => break,
            };
            if (position + size) as u64 + remaining - 1 > size_max {
                break;
            }
            position += size;
            remaining -= 1;
        }
        #[cfg(test)]
        {
            self.heads_read += self.remaining - remaining;
        }
        (self.position, self.remaining) = (position, remaining);
    }

    /// Enters a container that holds values, leaves those that are complete.
    #[inline]
    fn open_and_close(&mut self, inside: u64) {
        if inside > 0 {
            self.outer.push(self.remaining);
            self.outer_sum += self.remaining;
            self.remaining = inside;
            self.innermost = Some((self.position(), inside));
        }
        while self.remaining == 0 {
            self.innermost = None;
            let Some(outer) = self.outer.pop() else { return };
            self.outer_sum -= outer;
            self.remaining = outer;
        }
    }

    #[inline]
    fn check_size(&self, size_min: u64) -> Result<(), FrameError> {
        if size_min > self.limits.frame_size_max as u64 {
            let limit = self.limits.frame_size_max;
            return Err(FrameError::TooLarge { offset: self.position(), size_min, limit });
        }
        Ok(())
    }

    fn check_container(&self, count: u32) -> Result<(), FrameError> {
        let offset = self.position();
        if count > self.limits.elements_max {
            return Err(FrameError::TooManyElements { offset, count, limit: self.limits.elements_max });
        }
        if self.outer.len() >= self.limits.depth_max {
            return Err(FrameError::TooDeep { offset, limit: self.limits.depth_max });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write;

    fn scan(limits: FrameLimits, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        Scanner::new(limits).scan(bytes)
    }

    fn small() -> FrameLimits {
        FrameLimits { frame_size_max: 1000, depth_max: 4, elements_max: 100 }
    }

    #[test]
    fn a_large_frame_in_pieces_is_scanned_once() {
        const VALUES: usize = 3_000_000;
        let mut frame = Vec::new();
        write::array_header(VALUES, &mut frame);
        for _ in 0..VALUES {
            write::string("a field of thirty-two characters", &mut frame);
        }
        assert!(frame.len() > 100_000_000);

        let mut scanner = Scanner::new(FrameLimits::default());
        let mut shown = 0;
        while shown + 16_384 < frame.len() {
            shown += 16_384;
            assert_eq!(scanner.scan(&frame[..shown]), Ok(None));
            assert!(scanner.position() + 64 > shown, "everything shown has been passed");
        }
        assert_eq!(scanner.scan(&frame), Ok(Some(frame.len())));
        assert_eq!(scanner.heads_read, VALUES as u64 + 1);
    }

    /// Scanned bytes may be dropped at any point without changing the result.
    #[test]
    fn scanned_bytes_may_be_dropped() {
        let mut frame = Vec::new();
        write::array_header(3, &mut frame);
        write::array_header(200, &mut frame);
        (0..200_u64).for_each(|value| write::unsigned(value * 300, &mut frame));
        write::binary(&[7; 3000], &mut frame);
        write::string("behind it", &mut frame);
        for piece in [1, 7, 100, 1000] {
            let (mut whole, mut forgetful) =
                (Scanner::new(FrameLimits::default()), Scanner::new(FrameLimits::default()));
            let (mut forgotten, mut shown) = (0, 0);
            loop {
                shown = (shown + piece).min(frame.len());
                let (size, rest) = (whole.scan(&frame[..shown]), forgetful.scan(&frame[forgotten..shown]));
                if shown == frame.len() {
                    assert_eq!((size, rest), (Ok(Some(frame.len())), Ok(Some(frame.len() - forgotten))));
                    break;
                }
                assert_eq!((size, rest), (Ok(None), Ok(None)));
                assert_eq!(whole.position(), forgetful.position());
                assert_eq!(whole.frame_size_min(), forgetful.frame_size_min());
                assert_eq!(whole.frame_size_expected(), forgetful.frame_size_expected());
                let passed = whole.position().min(shown);
                forgetful.forget(passed - forgotten);
                forgotten = passed;
            }
        }
        let mut scanner = Scanner::new(small());
        let mut long = Vec::new();
        write::array_header(90, &mut long);
        (0..90).for_each(|_| write::string("a string of twenty...", &mut long));
        let errors = [0, 500].map(|forgotten| {
            scanner = Scanner::new(small());
            assert_eq!(scanner.scan(&long[..510]), Ok(None));
            scanner.forget(forgotten.min(scanner.position()));
            scanner.scan(&long[forgotten..]).unwrap_err()
        });
        assert_eq!(errors[0], errors[1], "limits and places are those of the frame");
    }

    #[test]
    fn the_size_of_a_list_is_expected_from_its_first_values() {
        let mut frame = Vec::new();
        write::array_header(2, &mut frame);
        write::array_header(1000, &mut frame);
        (0..1000).for_each(|_| write::string("thirty-one characters and a head", &mut frame));
        let list_size = frame.len();
        write::string("behind it", &mut frame);
        let mut scanner = Scanner::new(FrameLimits::default());
        assert_eq!(scanner.frame_size_expected(), 1);
        for shown in [400, 5_000, list_size - 40] {
            assert_eq!(scanner.scan(&frame[..shown]), Ok(None));
            assert_eq!(scanner.frame_size_expected(), list_size + 1, "after {shown} bytes");
        }
        assert_eq!(scanner.scan(&frame[..list_size]), Ok(None));
        assert_eq!(scanner.frame_size_expected(), list_size + 1, "nothing is known of what is behind the list");
        assert_eq!(scanner.scan(&frame), Ok(Some(frame.len())));
        assert_eq!(scanner.frame_size_expected(), 1);
    }

    #[test]
    fn contents_are_not_looked_at() {
        let mut frame = Vec::new();
        write::binary_header(100_000_000, &mut frame);
        let mut scanner = Scanner::new(FrameLimits::default());
        assert_eq!(scanner.scan(&frame), Ok(None));
        assert_eq!(scanner.frame_size_min(), 100_000_005);
        frame.resize(100_000_004, 0xc1);
        assert_eq!(scanner.scan(&frame), Ok(None));
        frame.push(0xc1);
        assert_eq!(scanner.scan(&frame), Ok(Some(100_000_005)));
        assert_eq!(scanner.heads_read, 1);
    }

    #[test]
    fn frames_follow_one_another() {
        let stream = [0x93, 1, 0xa1, b'x', 0xc0, 0x90, 0x2a, 0x92];
        let mut scanner = Scanner::new(small());
        let mut lengths = Vec::new();
        let mut rest = &stream[..];
        while let Some(length) = scanner.scan(rest).expect("no limit passed") {
            lengths.push(length);
            rest = &rest[length..];
        }
        assert_eq!(lengths, [5, 1, 1]);
        assert_eq!(rest, [0x92]);
    }

    #[test]
    fn nothing_is_no_frame_yet() {
        assert_eq!(scan(small(), &[]), Ok(None));
    }

    #[test]
    fn size_is_bounded_at_the_byte() {
        let binary = |size: usize| {
            let mut frame = Vec::new();
            write::binary_header(size, &mut frame);
            frame
        };
        assert_eq!(scan(small(), &binary(997)), Ok(None));
        let error = FrameError::TooLarge { offset: 0, size_min: 1001, limit: 1000 };
        assert_eq!(scan(small(), &binary(998)), Err(error));
        assert_eq!(error.code(), crate::ErrorCode::TooLarge);
    }

    #[test]
    fn elements_owed_count_to_the_size() {
        // 50 elements owe 49 further bytes after the binary: 3 + 3 + 946 + 49 is one past the limit.
        let mut frame = vec![0xdc, 0, 50, 0xc5];
        frame.extend_from_slice(&946u16.to_be_bytes());
        assert_eq!(scan(small(), &frame), Err(FrameError::TooLarge { offset: 3, size_min: 1001, limit: 1000 }));
        frame[4..].copy_from_slice(&945u16.to_be_bytes());
        assert_eq!(scan(small(), &frame), Ok(None));
    }

    #[test]
    fn elements_owed_after_short_strings_count_towards_the_size() {
        // A hundred strings of 12 bytes: after the 82nd, 18 are still owed, and 3 + 82 × 12 + 18 is past the limit.
        let mut frame = vec![0xdc, 0, 100];
        frame.extend_from_slice(&[0xd9, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].repeat(82));
        let error = FrameError::TooLarge { offset: 3 + 81 * 12, size_min: 1005, limit: 1000 };
        assert_eq!(scan(small(), &frame), Err(error));
        frame[2] = 95;
        assert_eq!(scan(small(), &frame), Ok(None), "13 owed: exactly the limit");
    }

    #[test]
    fn elements_are_bounded() {
        let limits = FrameLimits { frame_size_max: 1 << 40, ..small() };
        assert_eq!(scan(limits, &[0xdc, 0, 100]), Ok(None));
        let too_many = |count| Err(FrameError::TooManyElements { offset: 0, count, limit: 100 });
        assert_eq!(scan(limits, &[0xdc, 0, 101]), too_many(101));
        assert_eq!(scan(limits, &[0xde, 0, 100]), Ok(None));
        assert_eq!(scan(limits, &[0xde, 0, 101]), too_many(101));
        assert_eq!(scan(limits, &[0xdf, 0xff, 0xff, 0xff, 0xff]), too_many(u32::MAX));
    }

    #[test]
    fn depth_is_bounded_and_a_bomb_costs_nothing() {
        assert_eq!(scan(small(), &[0x91, 0x91, 0x81, 0x90, 0xc0]), Ok(Some(5)));
        let bomb = vec![0x91; 500];
        assert_eq!(scan(small(), &bomb), Err(FrameError::TooDeep { offset: 4, limit: 4 }));
        let mut scanner = Scanner::new(small());
        let error = scanner.scan(&bomb);
        assert_eq!(scanner.scan(&bomb), error, "the error stays");
        // An empty container is one too.
        assert_eq!(scan(small(), &[0x91, 0x91, 0x91, 0x91, 0x80]), Err(FrameError::TooDeep { offset: 4, limit: 4 }));
        // Adjacent containers are not nested.
        let mut wide = vec![0x9f];
        wide.extend_from_slice(&[0x91, 0x91, 0x90].repeat(15));
        assert_eq!(scan(small(), &wide), Ok(Some(46)));
    }

    #[test]
    fn the_reserved_marker_ends_the_stream() {
        let mut scanner = Scanner::new(small());
        let error = FrameError::ReservedMarker { offset: 2 };
        assert_eq!(scanner.scan(&[0x92, 0xc0]), Ok(None));
        assert_eq!(scanner.scan(&[0x92, 0xc0, 0xc1]), Err(error));
        assert_eq!(scanner.scan(&[0x92, 0xc0, 0xc1]), Err(error), "the error stays");
        assert_eq!(error.code(), crate::ErrorCode::InvalidFrame);
    }

    #[test]
    fn claimed_counts_allocate_nothing() {
        let mut scanner =
            Scanner::new(FrameLimits { elements_max: u32::MAX, frame_size_max: usize::MAX, depth_max: 32 });
        let claims = [0xdd, 0xff, 0xff, 0xff, 0xff].repeat(32);
        assert_eq!(scanner.scan(&claims), Ok(None));
        assert!(scanner.outer.capacity() <= 64);
    }

    #[test]
    #[should_panic(expected = "only grows")]
    fn a_shrunken_buffer_is_a_mistake() {
        let mut scanner = Scanner::new(small());
        let _ = scanner.scan(&[0x92, 0xc0]);
        let _ = scanner.scan(&[0x92]);
    }
}
