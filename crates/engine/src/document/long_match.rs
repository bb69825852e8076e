//! A value that is longer than a step.

use super::*;
use crate::bindings::OwnBindings;

/// A long value of a document.
#[derive(Default)]
pub(super) struct LongMatch<L> {
    /// The unescaped part of a string with escape sequences.
    text: String,
    /// Bytes of the token that have been unescaped.
    unescaped: usize,
    work: L,
}

impl<L> LongMatch<L> {
    pub(super) fn step<R>(
        &mut self,
        rewriter: &mut R,
        document: &[u8],
        (found, own): (&Match, OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error>
    where
        R: Rewriter<Long = L>,
    {
        let mut text = plain_text(document, found);
        if found.kind == (ScalarKind::String { escaped: true }) {
            if self.unescaped < text.len() {
                return match self.unescape(text, found, rewriter.bytes_max()) {
                    Err(_) if rewriter.on_failure() != OnFailure::Fail => Ok(LongStep::Failed),
                    unescaped => unescaped.map(|()| LongStep::More),
                };
            }
            text = self.text.as_bytes();
        }
        let value = SealedInput { value_type: value_type(found.kind), text };
        rewriter.rewrite_long(&mut self.work, (&value, own), out).map_err(|error| placed(error, &[*found]))
    }

    fn unescape(&mut self, escaped: &[u8], found: &Match, size: usize) -> Result<(), Error> {
        if self.unescaped == 0 {
            self.text.reserve_exact(escaped.len());
        }
        let taken = unescape_piece(&escaped[self.unescaped..], size, &mut self.text)
            .map_err(|error| error.at(found.start + 1 + self.unescaped))?;
        self.unescaped += taken;
        Ok(())
    }
}
