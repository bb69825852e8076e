//! Zstandard (RFC 8878), with the window that HTTP allows (RFC 9659).

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::{BudgetShare, DecodeError, Decoder, End, Moved, head};

/// log2 of the largest window that a peer may use: 8 MiB.
const WINDOW_LOG_MAX: u32 = 23;
const WINDOW_SIZE_MAX: u64 = 1 << WINDOW_LOG_MAX;
const MAGIC: u32 = 0xfd2f_b528;
/// The magic number of skippable frames, except for its last four bits.
const SKIPPED: u32 = 0x184d_2a50;

pub(super) struct Zstd {
    context: DCtx<'static>,
    is_in_frame: bool,
    /// The largest window so far, in bytes.
    window: usize,
    share: BudgetShare,
}

impl Zstd {
    /// Memory of the decoder besides its window: its context, and two blocks of 128 KiB.
    pub(super) const MEMORY_MIN: usize = 512 << 10;

    pub(super) fn new(share: BudgetShare) -> Self {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).expect("a window log that the library knows");
        Zstd { context, is_in_frame: false, window: 0, share }
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> (usize, usize) {
        (self.context.sizeof(), self.share.size())
    }

    /// Charges the memory for the frame that begins here.
    fn begin_frame(&mut self, rest: &[u8]) -> Result<(), DecodeError> {
        let window = window_size(rest).ok_or(DecodeError::Malformed)?;
        if window > WINDOW_SIZE_MAX {
            return Err(DecodeError::Window);
        }
        let window = window as usize;
        if window > self.window {
            self.share.grow(window - self.window)?;
            self.window = window;
        }
        self.is_in_frame = true;
        Ok(())
    }
}

impl Decoder for Zstd {
    fn step(&mut self, rest: &[u8], out: &mut [u8]) -> Result<Moved, DecodeError> {
        if !self.is_in_frame {
            self.begin_frame(rest)?;
        }
        let mut input = InBuffer::around(head(rest));
        let mut output = OutBuffer::around(out);
        let left = self.context.decompress_stream(&mut output, &mut input).map_err(|_| DecodeError::Malformed)?;
        self.is_in_frame = left != 0;
        let end = if left == 0 { End::Possible } else { End::NotYet };
        Ok(Moved { read: input.pos(), written: output.pos(), end })
    }
}

/// The window of the frame that begins here, in bytes (RFC 8878, section 3.1.1.1); `None` if none begins.
fn window_size(rest: &[u8]) -> Option<u64> {
    let (magic, after) = rest.split_first_chunk::<4>()?;
    let magic = u32::from_le_bytes(*magic);
    if magic & !0xf == SKIPPED {
        return Some(0);
    }
    let (&descriptor, after) = after.split_first().filter(|_| magic == MAGIC)?;
    let is_single = descriptor & 0x20 != 0;
    if !is_single {
        let &window = after.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // Such a frame has a window as large as its content; its size follows the dictionary ID.
    let number_size = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let (size, added) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(descriptor >> 6)];
    let reported = after.get(number_size..)?.get(..size)?;
    let reported = reported.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    reported.checked_add(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_from_frames() {
        let frame = |bytes: &[u8]| window_size(&[&MAGIC.to_le_bytes(), bytes].concat());
        assert_eq!(frame(&[0, 0]), Some(1024));
        assert_eq!(frame(&[0, 13 << 3]), Some(8 << 20));
        assert_eq!(frame(&[0, 13 << 3 | 1]), Some(9 << 20));
        assert_eq!(frame(&[0, 0xff]), Some((1 << 41) + (7 << 38)));
        assert_eq!(frame(&[0x20, 7]), Some(7));
        assert_eq!(frame(&[0x60, 1, 2]), Some(256 + 0x201));
        assert_eq!(frame(&[0xa1, 9, 0, 0, 1, 0]), Some(1 << 16));
        assert_eq!(frame(&[0xe3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Some(u64::MAX));
        assert_eq!(frame(&[0xe0, 1]), None);
        assert_eq!(window_size(&[0x5f, 0x2a, 0x4d, 0x18]), Some(0));
        assert_eq!(window_size(b"abcdef"), None);
    }
}
