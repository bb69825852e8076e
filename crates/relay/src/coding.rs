//! Content codings (RFC 9110, section 8.4): undone before a body is read, done again after it was rewritten.

use std::io::{self, Read, Write};

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use hyper::header::{CONTENT_ENCODING, HeaderMap};

/// Levels that suit traffic in flight.
const GZIP_LEVEL: u32 = 4;
const BROTLI_QUALITY: u32 = 4;
const ZSTD_LEVEL: i32 = 3;
/// Bytes handed to a coder at a time.
const PIECE_SIZE: usize = 16 << 10;
/// log2 of the largest window that is taken from a peer, as RFC 9659 has it: 8 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Brotli,
    Zstd,
}

/// Why a body could not be decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// It has more bytes than allowed.
    TooLarge,
    /// It is damaged, or goes on behind its end.
    Malformed,
}

impl Coding {
    /// The coding that a header names; nothing where it is one that we do not know, or more than one.
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

    /// The body without its coding.
    pub(crate) fn decode(self, coded: Vec<u8>, size_max: usize) -> Result<Vec<u8>, DecodeError> {
        let mut rest = coded.as_slice();
        let decoded = match self {
            Coding::Identity => return if coded.len() > size_max { Err(DecodeError::TooLarge) } else { Ok(coded) },
            Coding::Gzip => read_all(flate2::bufread::MultiGzDecoder::new(&mut rest), size_max),
            Coding::Brotli => read_brotli(&mut rest, size_max),
            Coding::Zstd => zstd::stream::read::Decoder::with_buffer(&mut rest)
                .and_then(|mut decoder| decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map(|()| decoder))
                .map_err(|_| DecodeError::Malformed)
                .and_then(|decoder| read_all(decoder, size_max)),
        }?;
        // What follows the end would be shown to whoever decodes more leniently.
        if rest.is_empty() { Ok(decoded) } else { Err(DecodeError::Malformed) }
    }

    /// The body with its coding.
    pub(crate) fn encode(self, plain: Vec<u8>) -> io::Result<Vec<u8>> {
        let room = Vec::with_capacity(plain.len() / 2);
        match self {
            Coding::Identity => Ok(plain),
            Coding::Gzip => {
                let mut coder = flate2::write::GzEncoder::new(room, flate2::Compression::new(GZIP_LEVEL));
                coder.write_all(&plain)?;
                coder.finish()
            }
            Coding::Brotli => {
                let mut coder = brotli::CompressorWriter::new(room, PIECE_SIZE, BROTLI_QUALITY, 22);
                coder.write_all(&plain)?;
                coder.flush()?;
                Ok(coder.into_inner())
            }
            Coding::Zstd => zstd::stream::encode_all(plain.as_slice(), ZSTD_LEVEL),
        }
    }
}

/// Undoes brotli by the stream's own steps: the reader of the library takes bytes behind the end without a word.
fn read_brotli(coded: &mut &[u8], size_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut state = BrotliState::new(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    let (mut left, mut at, mut written) = (coded.len(), 0, 0);
    let (mut out, mut piece) = (Vec::new(), vec![0; PIECE_SIZE]);
    loop {
        let (mut room, mut filled) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut at,
            coded,
            &mut room,
            &mut filled,
            &mut piece,
            &mut written,
            &mut state,
        );
        out.extend_from_slice(&piece[..filled]);
        if out.len() > size_max {
            return Err(DecodeError::TooLarge);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess => {
                *coded = &coded[at..];
                return Ok(out);
            }
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => return Err(DecodeError::Malformed),
        }
    }
}

fn read_all(mut decoder: impl Read, size_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    let limit = u64::try_from(size_max).unwrap_or(u64::MAX).saturating_add(1);
    decoder.by_ref().take(limit).read_to_end(&mut out).map_err(|_| DecodeError::Malformed)?;
    if out.len() > size_max { Err(DecodeError::TooLarge) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn what_is_coded_is_decoded_within_its_bound() {
        let plain: Vec<u8> = (0..100_000_u32).map(|number| (number / 7 % 251) as u8).collect();
        for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let coded = coding.encode(plain.clone()).unwrap();
            assert!(coding == Coding::Identity || coded.len() < plain.len() / 4, "{coding:?}");
            assert_eq!(coding.decode(coded.clone(), plain.len()).unwrap(), plain);
            assert!(matches!(coding.decode(coded.clone(), plain.len() - 1), Err(DecodeError::TooLarge)), "{coding:?}");
            if coding != Coding::Identity {
                let cut = coded[..coded.len() - 5].to_vec();
                assert!(matches!(coding.decode(cut, plain.len()), Err(DecodeError::Malformed)), "{coding:?} cut");
                let longer = [coded.as_slice(), b"more"].concat();
                assert!(matches!(coding.decode(longer, plain.len()), Err(DecodeError::Malformed)), "{coding:?} longer");
            }
        }
    }

    #[test]
    fn codings_by_name() {
        for (value, coding) in [
            ("gzip", Some(Coding::Gzip)),
            (" BR ", Some(Coding::Brotli)),
            ("zstd", Some(Coding::Zstd)),
            ("identity", Some(Coding::Identity)),
            ("deflate", None),
            ("gzip, br", None),
        ] {
            let headers: HeaderMap = [(CONTENT_ENCODING, HeaderValue::from_static(value))].into_iter().collect();
            assert_eq!(Coding::of(&headers), coding, "{value}");
        }
        assert_eq!(Coding::of(&HeaderMap::new()), Some(Coding::Identity));
    }
}
