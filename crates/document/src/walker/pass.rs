//! One pass of the grammar's machine over a document, with the validation of UTF-8 a piece at a time right behind it.

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DEPTH_CEILING, DocumentLimits};
use crate::machine::{FallibleSink, GrammarMachine, Reach};
use crate::tracker::Lengths;

/// Bytes walked before they are checked as UTF-8, while they are still in the first-level cache.
const PIECE_SIZE: usize = 16 << 10;

/// One pass over a document, followed by the UTF-8 validation.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(super) machine: GrammarMachine,
    /// Bytes known to be UTF-8.
    pub(super) checked: usize,
}

impl Pass {
    /// A pass at the start of a document.
    pub(crate) fn checking(limits: &DocumentLimits) -> Self {
        Pass::checked(limits, 0)
    }

    /// A pass over a document of which the first `checked` bytes are known to be UTF-8.
    pub(crate) fn checked(limits: &DocumentLimits, checked: usize) -> Self {
        Pass { machine: GrammarMachine::new(limits.depth_max.min(DEPTH_CEILING)), checked }
    }

    /// Starts again with another document, within the same limits.
    pub(crate) fn restart(&mut self) {
        self.machine.restart();
        self.checked = 0;
    }

    /// Reads about `bytes_max` further bytes. Returns the fault with the lowest position in the document.
    pub(crate) fn run(
        &mut self,
        document: &[u8],
        bytes_max: usize,
        sink: &mut impl FallibleSink,
    ) -> Result<Reach, DocumentError> {
        let stop = self.machine.position().saturating_add(bytes_max);
        loop {
            let piece_end = stop.min(self.machine.position() + PIECE_SIZE);
            let result = self.machine.run(document, piece_end, sink);
            let read = match &result {
                Ok(_) => character_start(document, self.machine.position()),
                Err(error) => error.offset,
            };
            self.check_utf8(document, read)?;
            if let Some(error) = sink.fault() {
                return Err(error);
            }
            let reach = result?;
            if reach == Reach::Finished || sink.is_full() || self.machine.position() >= stop {
                return Ok(reach);
            }
        }
    }

    /// Validates the bytes up to `end`, which is between characters or at a fault.
    fn check_utf8(&mut self, document: &[u8], end: usize) -> Result<(), DocumentError> {
        let Some(piece) = document.get(self.checked..end) else {
            return Ok(());
        };
        if simdutf8::basic::from_utf8(piece).is_ok() {
            self.checked = end;
            return Ok(());
        }
        let valid = simdutf8::compat::from_utf8(piece).map_or_else(|error| error.valid_up_to(), str::len);
        self.checked += valid;
        Err(DocumentError::new(DocumentErrorKind::InvalidUtf8, self.checked))
    }
}

/// The last position up to `position` that is not within a UTF-8 character.
fn character_start(document: &[u8], position: usize) -> usize {
    let is_within = |at: &usize| document.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    // More continuation bytes than a character can have are a fault, which is found with the next piece.
    (position.saturating_sub(3)..=position).rev().find(|at| !is_within(at)).unwrap_or(position)
}

impl FallibleSink for Lengths {}
