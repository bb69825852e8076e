//! The copy of a document, in which values are replaced.

use leafseal_document::Match;

use super::NULL;
use crate::report::OnFailure;

/// A document being copied to the output.
pub struct DocumentCopy<'a> {
    pub(super) document: &'a [u8],
    pub(super) copied: usize,
    pub(super) count: u64,
    pub(super) out: &'a mut Vec<u8>,
    /// The indexes of offered values that failed to decrypt.
    pub(super) failed: Vec<usize>,
}

impl DocumentCopy<'_> {
    /// Copies up to `found`; the caller then writes the replacement.
    pub(super) fn replace(&mut self, found: &Match) -> &mut Vec<u8> {
        self.count += 1;
        self.remove(found)
    }

    /// Copies up to `found`; the caller then writes the replacement of its content.
    pub(super) fn remove(&mut self, found: &Match) -> &mut Vec<u8> {
        self.out.extend_from_slice(&self.document[self.copied..found.start]);
        self.copied = found.end;
        self.out
    }

    /// Records that the offered value at `index` failed to decrypt, and applies the request's action.
    pub(super) fn fail(&mut self, index: usize, found: &Match, on_failure: OnFailure) {
        self.failed.push(index);
        if on_failure == OnFailure::Null {
            self.remove(found).extend_from_slice(NULL);
        }
    }
}
