//! The copy of a document, in which values are replaced.

use std::sync::Arc;

use leafseal_document::Match;
use leafseal_envelope::Binding;

use super::NULL;
use super::binder::{ValueBinder, ValuePlaces};
use crate::error::Error;
use crate::report::OnFailure;

/// A document being copied to the output.
pub struct DocumentCopy<'a> {
    pub(super) document: &'a [u8],
    pub(super) copied: usize,
    pub(super) count: u64,
    pub(super) out: &'a mut Vec<u8>,
    /// The indexes of offered values that failed to decrypt.
    pub(super) failed: Vec<usize>,
    /// Makes what the offered values are bound to, if each is to its own.
    pub(super) binder: Option<(&'a mut ValueBinder, ValuePlaces<'a>)>,
}

impl DocumentCopy<'_> {
    /// What the first `count` offered values are bound to, if each is to its own: or of fewer, if that is long.
    ///
    /// # Errors
    /// As [`ValueBinder::next`].
    pub(super) fn own(&mut self, count: usize) -> Result<Option<Vec<Arc<Binding>>>, Error> {
        let Some((binder, places)) = &mut self.binder else { return Ok(None) };
        Ok(Some(binder.next(self.document, places, count)?.to_vec()))
    }

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
