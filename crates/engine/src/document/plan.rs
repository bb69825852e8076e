//! Which stretches a document has: the walk finds the values in it.

use std::sync::Arc;

use leafseal_envelope::CONTEXT_SIZE_MAX;

use super::binder::ValueBinder;
use super::stretch::DocumentStretch;
use super::*;
use crate::bindings::DocumentBinding;

/// Finds the values: the walk, and how much of the document it has returned.
pub(super) struct DocumentPlan {
    pub(super) walk: DocumentWalk,
    walked: WalkProgress,
    planned: usize,
    values_max: usize,
    walked_bytes_max: usize,
    pub(super) has_selectors: bool,
    /// Whether the paths of matches are needed.
    records_paths: bool,
    /// How the matches are bound, if each is to its own.
    binding: Option<Arc<DocumentBinding>>,
}

impl DocumentPlan {
    pub(super) fn new(
        engine: &Engine,
        selection: Option<&Selection>,
        purpose: Purpose,
        size: usize,
        (records_paths, binding): (bool, Option<Arc<DocumentBinding>>),
    ) -> Result<Self, Error> {
        let settings = engine.settings();
        let has_selectors = selection.is_some();
        let everything;
        let selection = match selection {
            Some(selection) => selection,
            None => {
                everything = Selection::everything();
                &everything
            }
        };
        let mut walk = DocumentWalk::new(size, selection, purpose, &settings.document)?;
        let select = binding.as_ref().and_then(|binding| binding.select.as_ref());
        let records_paths = records_paths || binding.as_ref().is_some_and(|binding| binding.path.is_some());
        if records_paths {
            walk = walk.with_paths();
        }
        if let Some(select) = select {
            walk = walk.with_contexts(select, CONTEXT_SIZE_MAX);
        }
        Ok(Self {
            walk,
            walked: WalkProgress::More,
            planned: 0,
            values_max: settings.step_values_max,
            walked_bytes_max: cost::walked_bytes_max(settings.step_bytes_max),
            has_selectors,
            records_paths,
            binding,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.walked == WalkProgress::Done
    }

    /// Scans on to the next stretch. It is empty while no match has been found.
    pub(super) fn next<L>(&mut self, document: &[u8], stretch: &mut DocumentStretch<L>) -> Result<(), Error> {
        stretch.matches.clear();
        stretch.done = 0;
        stretch.copied = self.planned;
        stretch.end = self.planned;
        let walked = self.walk.next_batch(document, &mut stretch.matches, self.values_max, self.walked_bytes_max);
        if walked.is_err() && self.binding.is_some() {
            // Matches before a fault have no paths: the document's fault is reported before theirs.
            stretch.matches.clear();
        }
        self.planned = match (walked, stretch.matches.last()) {
            (Ok(WalkProgress::Done), _) => document.len(),
            // No match begins before this position, and none ends after it.
            (Ok(WalkProgress::More), _) => self.walk.position().max(self.planned),
            // The fault is returned again when everything before it is done, so that the first fault of all is reported.
            (Err(_), Some(last)) => last.end,
            (Err(error), None) => return Err(error.into()),
        };
        stretch.binder = self.binding.as_ref().map(|binding| ValueBinder::new(binding, self.walk.take_contexts()));
        stretch.paths = self.records_paths.then(|| (Arc::new(self.walk.take_paths()), 0));
        self.walked = walked.unwrap_or(WalkProgress::More);
        stretch.end = self.planned;
        Ok(())
    }
}
