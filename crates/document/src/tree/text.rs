//! Reads texts of values in pieces: a string may be as long as a document, and may contain escapes.

use crate::text::unescape_piece;

/// Bytes decoded at a time.
pub(super) const PIECE_SIZE: usize = 4096;

/// The content of a string.
#[derive(Clone, Copy, Debug)]
pub(super) enum StringText<'v> {
    /// Plain text in UTF-8.
    Plain(&'v [u8]),
    /// Text with escape sequences.
    Escaped(&'v [u8]),
}

/// The string is not Unicode: it contains a lone surrogate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUnicode;

/// Reads a text, which is passed in each call.
#[derive(Debug, Default)]
pub(super) struct TextReader {
    /// Bytes read, in escaped form.
    at: usize,
    /// Decoded text, and how much of it was returned.
    decoded: String,
    taken: usize,
    /// Bytes decoded since the last query.
    work: usize,
}

impl<'v> StringText<'v> {
    /// The text of a string's token.
    pub(super) fn of_token(token: &'v [u8], is_escaped: bool) -> Self {
        let inner = &token[1..token.len() - 1];
        if is_escaped { StringText::Escaped(inner) } else { StringText::Plain(inner) }
    }

    /// Its size in bytes, in escaped form.
    pub(super) fn size(self) -> usize {
        match self {
            StringText::Plain(bytes) | StringText::Escaped(bytes) => bytes.len(),
        }
    }
}

impl TextReader {
    /// The next bytes, at least one and at most `size_max`; none at the end. Characters may be split.
    pub(super) fn next<'t>(&'t mut self, text: StringText<'t>, size_max: usize) -> Result<&'t [u8], NotUnicode> {
        match text {
            StringText::Plain(bytes) => {
                let piece = &bytes[self.at..bytes.len().min(self.at.saturating_add(size_max))];
                self.at += piece.len();
                Ok(piece)
            }
            StringText::Escaped(bytes) => {
                if self.taken == self.decoded.len() {
                    self.decode(bytes)?;
                }
                let piece = &self.decoded.as_bytes()[self.taken..];
                let piece = &piece[..piece.len().min(size_max)];
                self.taken += piece.len();
                Ok(piece)
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<(), NotUnicode> {
        self.decoded.clear();
        self.taken = 0;
        if self.at < bytes.len() {
            let size = unescape_piece(&bytes[self.at..], PIECE_SIZE, &mut self.decoded).map_err(|_| NotUnicode)?;
            self.at += size;
            self.work += size;
        }
        Ok(())
    }

    /// Bytes decoded since the last call.
    pub(super) fn decoded(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }
}

/// The number of characters that begin in these bytes of UTF-8.
pub(super) fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte & 0b1100_0000 != 0b1000_0000).count() as u64
}
