//! The metadata of a document's envelopes, each of which may be bound to its own place in it.

use super::binder::ValuePlaces;
use super::*;
use crate::inspect::{EnvelopeMetadata, Inspector};

/// A document whose envelopes are inspected one after the other, for callers that may compute as long as that takes.
pub struct DocumentInspection {
    plan: DocumentPlan,
    stretch: DocumentStretch<()>,
    inspector: Inspector,
}

impl Engine {
    /// Starts inspecting a document of `size` bytes: the envelopes that `selection` selects, or all.
    ///
    /// # Errors
    /// Too large.
    pub fn inspect_document(
        &self,
        inspector: Inspector,
        selection: Option<&Selection>,
        size: usize,
    ) -> Result<DocumentInspection, Error> {
        let plan = DocumentPlan::new(self, selection, Purpose::Decrypt, size, (false, inspector.binding()))?;
        Ok(DocumentInspection { plan, stretch: DocumentStretch::default(), inspector })
    }
}

impl DocumentInspection {
    /// The next envelope of `document`, which must be the same in each call: its metadata, or why it has none. `None` at the end.
    ///
    /// # Errors
    /// The document is not JSON, or a selected string is not Unicode, with the byte. The place of an envelope cannot be determined.
    pub fn next(&mut self, document: &[u8]) -> Result<Option<Result<EnvelopeMetadata, Error>>, Error> {
        loop {
            let stretch = &mut self.stretch;
            let Some(found) = stretch.matches.get(stretch.done) else {
                if self.plan.is_over() {
                    return Ok(None);
                }
                self.plan.next(document, stretch)?;
                continue;
            };
            let text = text_of(document, found)?;
            let places = ValuePlaces {
                matches: &stretch.matches,
                paths: stretch.paths.as_ref(),
                done: stretch.done,
                bytes_max: usize::MAX,
            };
            let own = match &mut stretch.binder {
                Some(binder) => Some(binder.next(document, &places, 1)?),
                None => None,
            };
            let is_envelope = !matches!(Envelope::parse(&text), Err(Malformed::NotAnEnvelope));
            let inspected = is_envelope.then(|| self.inspector.inspect_bound_whole(&text, own));
            stretch.done += 1;
            if inspected.is_some() {
                return Ok(inspected);
            }
        }
    }
}
