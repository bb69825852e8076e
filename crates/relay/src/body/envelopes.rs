//! Finds envelopes by how their text begins.
//!
//! The search covers UTF-8 and other supersets of ASCII, also where the colons are percent-encoded once or twice, as in forms and URLs
//! inside them, or escaped as in JSON, and encrypted files. It misses envelopes in UTF-16, in Base64 and in archives, and takes other text
//! that begins like an envelope for one.

use std::ops::ControlFlow;

use memchr::memmem;

use crate::body::buffer::BodyBuffer;

/// The first bytes of an encrypted file.
pub(crate) const FILE_START: &[u8] = b"%EVENC";
/// Bytes kept of earlier pieces: one less than the longest text by which an envelope is recognised, `ev\u003adebug\u003a`.
const TAIL_SIZE: usize = 18;
/// The spellings of a colon.
const COLONS: [&[u8]; 5] = [b":", b"%3A", b"%3a", b"%253A", b"%253a"];
/// The beginning of a colon as an escape sequence of JSON, before its last digit.
const ESCAPED_COLON: &[u8] = b"\\u003";
/// Length of a version in an envelope.
const VERSION_SIZE: usize = 4;

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FoundEnvelope {
    /// No envelope in the bytes so far.
    #[default]
    Nothing,
    /// An envelope.
    Envelope,
    /// No envelope in the bytes that were searched; there were more, or no memory to search them.
    BeyondLimit,
    /// The bytes have a content coding that the relay does not read, or one that is damaged.
    UnreadableCoding,
}

impl FoundEnvelope {
    /// Why a body could not be searched, or only in part.
    pub(crate) const UNSEARCHED: [FoundEnvelope; 2] = [FoundEnvelope::BeyondLimit, FoundEnvelope::UnreadableCoding];

    /// The word in logs and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FoundEnvelope::Nothing => "nothing",
            FoundEnvelope::Envelope => "envelope",
            FoundEnvelope::BeyondLimit => "beyond-limit",
            FoundEnvelope::UnreadableCoding => "unreadable-coding",
        }
    }
}

/// A search through a body that arrives in pieces, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct EnvelopeSearch {
    found: FoundEnvelope,
    /// Bytes that may still be searched.
    left: usize,
    /// The last bytes, in which an envelope may begin.
    tail: Vec<u8>,
}

impl EnvelopeSearch {
    /// Starts a search through at most `size_max` bytes.
    pub(crate) fn new(size_max: usize) -> Self {
        EnvelopeSearch { found: FoundEnvelope::Nothing, left: size_max, tail: Vec::new() }
    }

    /// Searches the next piece.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        if self.found != FoundEnvelope::Nothing || piece.is_empty() {
            return;
        }
        let searched = &piece[..piece.len().min(self.left)];
        self.left -= searched.len();
        // An envelope may begin in earlier pieces.
        self.tail.extend_from_slice(&searched[..searched.len().min(TAIL_SIZE)]);
        if holds_envelope(&self.tail) || holds_envelope(searched) {
            self.found = FoundEnvelope::Envelope;
        } else if searched.len() < piece.len() {
            self.found = FoundEnvelope::BeyondLimit;
        }
        if searched.len() >= TAIL_SIZE {
            self.tail.clear();
            self.tail.extend_from_slice(&searched[searched.len() - TAIL_SIZE..]);
        } else {
            self.tail.drain(..self.tail.len().saturating_sub(TAIL_SIZE));
        }
    }

    pub(crate) fn found(&self) -> FoundEnvelope {
        self.found
    }
}

/// A search through a whole body, in steps.
pub(crate) struct WholeSearch {
    body: BodyBuffer,
    at: usize,
    search: EnvelopeSearch,
}

impl WholeSearch {
    /// Bytes that a step searches.
    const STEP_SIZE: usize = 64 << 10;

    pub(crate) fn new(body: BodyBuffer) -> Self {
        WholeSearch { body, at: 0, search: EnvelopeSearch::new(usize::MAX) }
    }

    /// Breaks with the body, and whether it holds an envelope.
    pub(crate) fn step(mut self) -> ControlFlow<(BodyBuffer, bool), Self> {
        let bytes = self.body.as_ref();
        let end = bytes.len().min(self.at + Self::STEP_SIZE);
        self.search.read(&bytes[self.at..end]);
        self.at = end;
        let is_found = self.search.found() == FoundEnvelope::Envelope;
        if is_found || end == bytes.len() {
            ControlFlow::Break((self.body, is_found))
        } else {
            ControlFlow::Continue(self)
        }
    }
}

/// Whether the bytes contain text that begins like an envelope, or an encrypted file.
pub(crate) fn holds_envelope(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, b"ev").any(|at| begins_envelope(&bytes[at + 2..]))
        || memmem::find(bytes, FILE_START).is_some()
}

/// Whether this follows the `ev` of an envelope: a colon, and a version or `debug` with another.
fn begins_envelope(rest: &[u8]) -> bool {
    let Some(rest) = after_colon(rest) else { return false };
    if let Some(rest) = rest.strip_prefix(b"debug") {
        return after_colon(rest).is_some();
    }
    let is_version = |version: &[u8]| version.iter().all(u8::is_ascii_alphanumeric);
    rest.split_at_checked(VERSION_SIZE)
        .is_some_and(|(version, rest)| is_version(version) && after_colon(rest).is_some())
}

fn after_colon(text: &[u8]) -> Option<&[u8]> {
    let escaped = || match text.strip_prefix(ESCAPED_COLON)? {
        [b'a' | b'A', rest @ ..] => Some(rest),
        _ => None,
    };
    COLONS.into_iter().find_map(|colon| text.strip_prefix(colon)).or_else(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(pieces: &[&[u8]], size_max: usize) -> FoundEnvelope {
        let mut search = EnvelopeSearch::new(size_max);
        pieces.iter().for_each(|piece| search.read(piece));
        search.found()
    }

    #[test]
    fn envelopes_are_found_across_the_borders_of_pieces() {
        for text in [
            "a ev:Tk9D:x",
            "card=ev%3ATk9D%3Anumber",
            "ev%3adebug%3aTk9D",
            "ev:debug:RFVC:",
            "a ev:WEFF:x",
            "card=ev%3AWEFN%3Anumber",
            r#"{"card":"ev\u003adebug\u003aWEFN\u003a"}"#,
            "url=https%3A%2F%2Fa%2F%3Fcard%3Dev%253ATk9D%253a",
            r#"{"card":"ev\u003aTk9D\u003Anumber"}"#,
            r#"{"card":"ev\u003adebug\u003aTk9D"}"#,
            "\0%EVENC\x03",
            "evev:Tk9D:",
        ] {
            let bytes = text.as_bytes();
            assert!(holds_envelope(bytes), "{text}");
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..], b" and more"];
                    assert_eq!(search(&pieces, usize::MAX), FoundEnvelope::Envelope, "{text} at {first} and {second}");
                }
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(search(&single, usize::MAX), FoundEnvelope::Envelope, "{text}");
        }
    }

    #[test]
    fn other_text_is_no_envelope() {
        for text in [
            "",
            r"ev\u003bTk9D:",
            "ev%253BTk9D:",
            "prev: next",
            "ev:",
            "ev:Tk9",
            "ev:a car:",
            "EV:Tk9D:",
            "dev/Tk9D:",
            "ev%3Bdebug",
            "%EVEN",
        ] {
            assert_eq!(search(&[text.as_bytes()], usize::MAX), FoundEnvelope::Nothing, "{text}");
        }
    }

    #[test]
    fn no_more_bytes_are_searched_than_permitted() {
        let text = b"0123456789ev:Tk9D:";
        assert_eq!(search(&[text], text.len()), FoundEnvelope::Envelope);
        assert_eq!(search(&[text], text.len() - 1), FoundEnvelope::BeyondLimit);
        assert_eq!(search(&[&text[..5], &text[5..]], 5), FoundEnvelope::BeyondLimit);
        assert_eq!(search(&[b"01234"], 5), FoundEnvelope::Nothing);
    }
}
