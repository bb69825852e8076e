//! Finds the end of a frame while its bytes arrive.
//!
//! The scanner reads each head once, passes over the contents of strings and binaries without touching them, and
//! remembers where it stopped: a message of 100 MB that comes in 6,000 pieces is still scanned once. Lengths and counts
//! are refused when they are seen, before the bytes they promise are read or kept, and nothing is allocated by them.
//! What it keeps is a count per open container.

use crate::error::FrameError;
use crate::limits::Limits;
use crate::wire::{Head, HeadError, read_head};

/// Resumable search for the end of one MessagePack value. One per direction of a connection.
#[derive(Clone, Debug)]
pub struct Scanner {
    limits: Limits,
    /// Where the next head begins, from the start of the frame; beyond the buffer while a payload is still arriving.
    position: usize,
    /// Values still to come in the innermost open container; the frame itself counts as a container of one.
    remaining: u64,
    /// The same for each container around it, outermost first.
    outer: Vec<u64>,
    /// Sum of `outer`: each such value takes at least a byte, which bounds the frame from below.
    outer_sum: u64,
    /// Bytes that the caller has shown so far; the buffer of one frame may only grow.
    shown: usize,
    failed: Option<FrameError>,
    #[cfg(test)]
    pub(crate) heads_read: u64,
}

impl Scanner {
    /// A scanner at the start of a frame.
    pub fn new(limits: Limits) -> Self {
        Scanner {
            limits,
            position: 0,
            remaining: 1,
            outer: Vec::new(),
            outer_sum: 0,
            shown: 0,
            failed: None,
            #[cfg(test)]
            heads_read: 0,
        }
    }

    /// Looks at `buffer`, which starts where the frame starts and holds all its bytes received so far: what the last
    /// call was given, and more behind it.
    ///
    /// Returns the frame's length in bytes once it is complete, and is then ready for the next frame (whose buffer
    /// starts behind this one). `None` asks for more bytes. After an error the stream has no next frame: every
    /// further call returns the same error.
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

    /// The least length that the frame can have, in bytes, by what has been seen of it. Never above the limit.
    pub fn frame_size_min(&self) -> usize {
        self.position + usize::try_from(self.remaining + self.outer_sum).expect("bounded by the frame size limit")
    }

    /// Bytes that need no second look: everything before the next head.
    pub fn position(&self) -> usize {
        self.position
    }

    fn restart(&mut self) -> usize {
        self.shown = 0;
        self.remaining = 1;
        std::mem::take(&mut self.position)
    }

    /// Reads heads until the frame or the buffer ends.
    fn advance(&mut self, buffer: &[u8]) -> Result<(), FrameError> {
        while self.remaining > 0 {
            let Some(rest) = buffer.get(self.position..) else {
                return Ok(());
            };
            let (head, head_size) = match read_head(rest) {
                Ok(read) => read,
                Err(HeadError::Truncated) => return Ok(()),
                Err(HeadError::Reserved) => return Err(FrameError::ReservedMarker { offset: self.position }),
            };
            #[cfg(test)]
            {
                self.heads_read += 1;
            }
            self.remaining -= 1;
            let inside = head.values_inside();
            let end = self.position as u64 + head_size as u64 + head.payload_size();
            self.check_size(end + self.remaining + self.outer_sum + inside)?;
            if let Head::Array(count) | Head::Map(count) = head {
                self.check_container(count)?;
            }
            self.position = usize::try_from(end).expect("within the frame size limit");
            self.open_and_close(inside);
        }
        Ok(())
    }

    /// Enters a container that holds values, leaves those that are complete.
    #[inline]
    fn open_and_close(&mut self, inside: u64) {
        if inside > 0 {
            self.outer.push(self.remaining);
            self.outer_sum += self.remaining;
            self.remaining = inside;
        }
        while self.remaining == 0 {
            let Some(outer) = self.outer.pop() else { return };
            self.outer_sum -= outer;
            self.remaining = outer;
        }
    }

    #[inline]
    fn check_size(&self, size_min: u64) -> Result<(), FrameError> {
        if size_min > self.limits.frame_size_max as u64 {
            let limit = self.limits.frame_size_max;
            return Err(FrameError::TooLarge {
                offset: self.position,
                size_min,
                limit,
            });
        }
        Ok(())
    }

    fn check_container(&self, count: u32) -> Result<(), FrameError> {
        let offset = self.position;
        if count > self.limits.elements_max {
            return Err(FrameError::TooManyElements {
                offset,
                count,
                limit: self.limits.elements_max,
            });
        }
        if self.outer.len() >= self.limits.depth_max {
            return Err(FrameError::TooDeep {
                offset,
                limit: self.limits.depth_max,
            });
        }
        Ok(())
    }
}
