//! Content codings (RFC 9110, section 8.4): decoded before a body is read, encoded again after it was rewritten.
//!
//! A few bytes can expand to very many, and a decoder can allocate much memory for them. Decoding therefore proceeds in steps of bounded
//! work, never on a network thread; output is limited in total and relative to the input; memory, the decoder's own included, is charged
//! before it is allocated.

mod brotli;
pub(crate) mod fuzzing;
mod gzip;
#[cfg(test)]
mod tests;
mod zstd;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use hyper::header::{CONTENT_ENCODING, HeaderMap};

use self::brotli::Brotli;
use self::gzip::Gzip;
use self::zstd::Zstd;
use crate::body::buffer::{BodyBuffer, BudgetShare};
use crate::refusal::Refusal;

/// Compression levels that suit traffic in flight.
const GZIP_LEVEL: u32 = 4;
const BROTLI_QUALITY: u32 = 4;
const ZSTD_LEVEL: i32 = 3;
/// Maximum bytes that a decoder writes in one step.
const PIECE_SIZE: usize = 16 << 10;
/// Maximum bytes that a decoder reads in one step: bytes without output take time too.
const READ_SIZE: usize = 1 << 10;

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Brotli,
    Zstd,
}

/// Limits on the size of a decoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodeBounds {
    /// Maximum size in bytes.
    pub(crate) size_max: usize,
    /// Maximum ratio to the coded size.
    pub(crate) expansion_max: usize,
    /// Size in bytes up to which the ratio does not apply.
    pub(crate) expansion_free: usize,
}

impl DecodeBounds {
    fn of(&self, coded: usize) -> usize {
        self.size_max.min(self.expansion_free.max(coded.saturating_mul(self.expansion_max)))
    }
}

/// Why a body could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The decoded body exceeds the maximum size.
    TooLarge,
    /// The decoded body exceeds the maximum ratio.
    Expands,
    /// The body is damaged, or continues after its end.
    Malformed,
    /// The body needs a larger window than HTTP allows.
    Window,
    /// The body consists of parts that need far more work or memory than their size.
    Costly,
    /// The memory budget is exhausted.
    NoRoom(Refusal),
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> Self {
        DecodeError::NoRoom(refusal)
    }
}

impl Coding {
    /// The coding that the header names; `None` if it is unknown or not the only one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Coding> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let Some(value) = values.next() else { return Some(Coding::Identity) };
        if values.next().is_some() {
            return None;
        }
        match value.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Some(Coding::Identity),
            b"gzip" | b"x-gzip" => Some(Coding::Gzip),
            b"br" => Some(Coding::Brotli),
            b"zstd" => Some(Coding::Zstd),
            _ => None,
        }
    }

    /// The name in `Content-Encoding`; none for identity.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some("gzip"),
            Coding::Brotli => Some("br"),
            Coding::Zstd => Some("zstd"),
        }
    }
}

/// A body that is being encoded.
pub(crate) struct Encoding {
    plain: BodyBuffer,
    /// Bytes that have been encoded.
    at: usize,
    coder: Coder,
}

/// An encoder of one coding, which writes to memory.
enum Coder {
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Brotli(Box<::brotli::CompressorWriter<Vec<u8>>>),
    Zstd(::zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Coder {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Coder::Gzip(coder) => coder.write_all(piece),
            Coder::Brotli(coder) => coder.write_all(piece),
            Coder::Zstd(coder) => coder.write_all(piece),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Coder::Gzip(coder) => coder.finish(),
            Coder::Brotli(mut coder) => {
                coder.flush()?;
                Ok(coder.into_inner())
            }
            Coder::Zstd(coder) => coder.finish(),
        }
    }
}

impl Encoding {
    /// Creates an encoder. The output is at most as large as `plain`, plus some for the coder.
    ///
    /// # Errors
    /// If the library cannot create its encoder.
    ///
    /// # Panics
    /// If the coding is identity.
    pub(crate) fn new(coding: Coding, plain: BodyBuffer) -> io::Result<Self> {
        let room = Vec::with_capacity(plain.len() / 2);
        let coder = match coding {
            Coding::Identity => unreachable!("there is nothing to encode"),
            Coding::Gzip => Coder::Gzip(flate2::write::GzEncoder::new(room, flate2::Compression::new(GZIP_LEVEL))),
            Coding::Brotli => {
                Coder::Brotli(Box::new(::brotli::CompressorWriter::new(room, PIECE_SIZE, BROTLI_QUALITY, 22)))
            }
            Coding::Zstd => Coder::Zstd(::zstd::stream::write::Encoder::new(room, ZSTD_LEVEL)?),
        };
        Ok(Encoding { plain, at: 0, coder })
    }

    /// Encodes the next piece, of at most 16 KiB; breaks with the coded body.
    pub(crate) fn step(mut self) -> ControlFlow<io::Result<Vec<u8>>, Self> {
        let rest = &self.plain.as_ref()[self.at..];
        if rest.is_empty() {
            return ControlFlow::Break(self.coder.finish());
        }
        let size = rest.len().min(PIECE_SIZE);
        match self.coder.write(&rest[..size]) {
            Ok(()) => {
                self.at += size;
                ControlFlow::Continue(self)
            }
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }
}

/// A body that is being decoded.
pub(crate) struct Decoding {
    coded: Arc<BodyBuffer>,
    /// Bytes that have been read.
    at: usize,
    decoder: Box<dyn Decoder>,
    piece: Vec<u8>,
    plain: BodyBuffer,
    bounds: DecodeBounds,
}

/// A decoder of one coding.
trait Decoder: Send {
    /// Reads from the rest of a body and writes to `out`, with bounded work.
    ///
    /// # Errors
    /// If the body is malformed, or memory is exhausted.
    fn step(&mut self, rest: &[u8], out: &mut [u8]) -> Result<Moved, DecodeError>;
}

/// The progress of a decoder's step.
struct Moved {
    read: usize,
    written: usize,
    /// Whether the body may end here, and whether more may follow.
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// More input is required.
    NotYet,
    /// The body may end, or continue with another part.
    Possible,
    /// The body ends.
    Final,
}

impl Decoding {
    /// Creates a decoder.
    ///
    /// # Errors
    /// If there is no memory for the decoder.
    ///
    /// # Panics
    /// If the coding is identity.
    pub(crate) fn new(
        coding: Coding,
        coded: impl Into<Arc<BodyBuffer>>,
        bounds: DecodeBounds,
    ) -> Result<Self, Refusal> {
        let coded = coded.into();
        let share = |size| coded.share().another(size);
        let decoder: Box<dyn Decoder> = match coding {
            Coding::Identity => unreachable!("there is nothing to undo"),
            Coding::Gzip => Box::new(Gzip::new(share(Gzip::MEMORY)?)),
            Coding::Brotli => Box::new(Brotli::new(share(Brotli::MEMORY_MIN)?)),
            Coding::Zstd => Box::new(Zstd::new(share(Zstd::MEMORY_MIN)?)),
        };
        let plain = BodyBuffer::new(share(0)?);
        Ok(Decoding { at: 0, decoder, piece: vec![0; PIECE_SIZE], plain, bounds, coded })
    }

    /// Runs one step; breaks with the decoded body or an error.
    pub(crate) fn step(mut self) -> ControlFlow<Result<BodyBuffer, DecodeError>, Self> {
        match self.advance() {
            Ok(false) => ControlFlow::Continue(self),
            Ok(true) => ControlFlow::Break(Ok(self.plain)),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }

    /// Runs one step; returns true at the end.
    fn advance(&mut self) -> Result<bool, DecodeError> {
        let rest = &(*self.coded).as_ref()[self.at..];
        let Moved { read, written, end } = self.decoder.step(rest, &mut self.piece)?;
        self.at += read;
        let size = self.plain.len() + written;
        if size > self.bounds.size_max {
            return Err(DecodeError::TooLarge);
        }
        if size > self.bounds.of(self.coded.len()) {
            return Err(DecodeError::Expands);
        }
        self.plain.extend(&self.piece[..written])?;
        let is_all_read = self.at == self.coded.len();
        match end {
            End::Possible | End::Final if is_all_read => Ok(true),
            // A more lenient decoder would read what follows the end.
            End::Final => Err(DecodeError::Malformed),
            _ if read == 0 && written == 0 => Err(DecodeError::Malformed),
            _ => Ok(false),
        }
    }
}

/// The start of the rest of a body, limited to what one step reads.
fn head(rest: &[u8]) -> &[u8] {
    &rest[..rest.len().min(READ_SIZE)]
}
