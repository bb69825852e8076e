//! gzip (RFC 1952): one or more members of header, deflate data and checksum.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{BudgetShare, DecodeError, Decoder, End, Moved, head};

/// Maximum number of members in a body: even an empty one takes the time of about 100 bytes.
const MEMBERS_MAX: usize = 4096;
/// Maximum size of a header.
const HEADER_SIZE_MAX: usize = 64 << 10;
const HEADER_SIZE_MIN: usize = 10;
const TRAILER_SIZE: usize = 8;

/// Flags of the header.
const HAS_CHECK: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

pub(super) struct Gzip {
    stage: GzipStage,
    inflate: Decompress,
    check: Crc,
    members: usize,
    _share: BudgetShare,
}

#[derive(Clone, Copy)]
enum GzipStage {
    Header,
    Body,
}

impl Gzip {
    /// Memory of the decoder: a window of 32 KiB and tables.
    pub(super) const MEMORY: usize = 64 << 10;

    pub(super) fn new(share: BudgetShare) -> Self {
        Gzip { stage: GzipStage::Header, inflate: Decompress::new(false), check: Crc::new(), members: 0, _share: share }
    }

    fn body(&mut self, rest: &[u8], out: &mut [u8]) -> Result<Moved, DecodeError> {
        let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(head(rest), out, FlushDecompress::None);
        let status = status.map_err(|_| DecodeError::Malformed)?;
        let (read, written) = (self.inflate.total_in() - read, self.inflate.total_out() - written);
        let (read, written) = (read as usize, written as usize);
        self.check.update(&out[..written]);
        if status == Status::StreamEnd {
            return self.trailer(&rest[read..]).map(|size| Moved { read: read + size, written, end: End::Possible });
        }
        Ok(Moved { read, written, end: End::NotYet })
    }

    /// Checks checksum and length in a member's trailer; returns the trailer's size.
    fn trailer(&mut self, rest: &[u8]) -> Result<usize, DecodeError> {
        let (check, size) = rest.split_first_chunk::<4>().ok_or(DecodeError::Malformed)?;
        let size = size.first_chunk::<4>().ok_or(DecodeError::Malformed)?;
        if u32::from_le_bytes(*check) != self.check.sum() || u32::from_le_bytes(*size) != self.check.amount() {
            return Err(DecodeError::Malformed);
        }
        self.stage = GzipStage::Header;
        self.inflate.reset(false);
        self.check.reset();
        Ok(TRAILER_SIZE)
    }
}

impl Decoder for Gzip {
    fn step(&mut self, rest: &[u8], out: &mut [u8]) -> Result<Moved, DecodeError> {
        match self.stage {
            GzipStage::Header => {
                self.members += 1;
                if self.members > MEMBERS_MAX {
                    return Err(DecodeError::Costly);
                }
                let read = header_size(rest).ok_or(DecodeError::Malformed)?;
                self.stage = GzipStage::Body;
                Ok(Moved { read, written: 0, end: End::NotYet })
            }
            GzipStage::Body => self.body(rest, out),
        }
    }
}

/// Size of the header at the start of `rest`.
fn header_size(rest: &[u8]) -> Option<usize> {
    let rest = &rest[..rest.len().min(HEADER_SIZE_MAX)];
    let (&[0x1f, 0x8b, 8, flags, ..], mut after) = rest.split_first_chunk::<HEADER_SIZE_MIN>()? else { return None };
    if flags & RESERVED != 0 {
        return None;
    }
    if flags & HAS_EXTRA != 0 {
        let (size, extra) = after.split_first_chunk::<2>()?;
        after = extra.get(usize::from(u16::from_le_bytes(*size))..)?;
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            after = &after[memchr::memchr(0, after)? + 1..];
        }
    }
    if flags & HAS_CHECK != 0 {
        let mut check = Crc::new();
        check.update(&rest[..rest.len() - after.len()]);
        let (reported, behind) = after.split_first_chunk::<2>()?;
        if u32::from(u16::from_le_bytes(*reported)) != check.sum() & 0xffff {
            return None;
        }
        after = behind;
    }
    Some(rest.len() - after.len())
}
