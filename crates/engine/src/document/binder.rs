//! What the values of a stretch are bound to, if each is to its own: made for those that come next, once.

use std::collections::VecDeque;
use std::sync::Arc;

use leafseal_document::{DocumentError, DocumentErrorKind, Match, MatchContext, MatchPaths, PathWriter};
use leafseal_envelope::{Binding, BindingPart, PATH_SIZE_MAX};

use crate::bindings::DocumentBinding;
use crate::error::{Error, ErrorCode};

/// Makes the bindings of a stretch's values.
pub(super) struct ValueBinder {
    binding: Arc<DocumentBinding>,
    /// The contexts of all its matches, if the request selects them.
    contexts: Vec<MatchContext>,
    paths: PathWriter,
    /// The bindings of the matches from this one on, as far as they are made.
    first: usize,
    made: VecDeque<Arc<Binding>>,
    /// The last that was made, and its match: neighbours with the same share it.
    last: Option<(usize, Arc<Binding>)>,
}

/// The values of a stretch.
pub(super) struct ValuePlaces<'s> {
    pub(super) matches: &'s [Match],
    /// The paths of the matches, and the index of the first.
    pub(super) paths: Option<&'s (Arc<MatchPaths>, usize)>,
    /// The next value.
    pub(super) done: usize,
    /// Bytes of bindings in a step, of more than one value.
    pub(super) bytes_max: usize,
}

impl ValueBinder {
    pub(super) fn new(binding: &Arc<DocumentBinding>, contexts: Vec<MatchContext>) -> Self {
        let paths = PathWriter::new(binding.path == Some(BindingPart::IndexedPath), PATH_SIZE_MAX);
        Self { binding: Arc::clone(binding), contexts, paths, first: 0, made: VecDeque::new(), last: None }
    }

    /// For the `count` values from `done` on.
    pub(super) fn part(&self, done: usize, count: usize) -> Self {
        let contexts = match self.binding.select {
            Some(_) => self.contexts[done..done + count].to_vec(),
            None => Vec::new(),
        };
        Self::new(&self.binding, contexts)
    }

    /// Those of the next values: `count`, or fewer if they are long, but at least one.
    ///
    /// # Errors
    /// A path is too long, or has a name that is not text.
    pub(super) fn next(
        &mut self,
        document: &[u8],
        places: &ValuePlaces<'_>,
        count: usize,
    ) -> Result<&[Arc<Binding>], Error> {
        self.made.drain(..(places.done - self.first).min(self.made.len()));
        self.first = places.done;
        let (mut taken, mut bytes) = (0, 0);
        while taken < count {
            if taken == self.made.len() {
                let binding = self.make(document, places, self.first + taken)?;
                self.made.push_back(binding);
            }
            bytes += self.made[taken].size();
            if taken > 0 && bytes > places.bytes_max {
                break;
            }
            taken += 1;
        }
        Ok(&self.made.make_contiguous()[..taken])
    }

    fn make(&mut self, document: &[u8], places: &ValuePlaces<'_>, index: usize) -> Result<Arc<Binding>, Error> {
        let mut binding = self.binding.binding.clone();
        if self.binding.select.is_some() {
            let context = &self.contexts[index];
            let has_same = |last: usize| self.binding.path.is_none() && self.contexts[last] == *context;
            if let Some((_, same)) = self.last.as_ref().filter(|(last, _)| has_same(*last)) {
                return Ok(Arc::clone(same));
            }
            let mut scratch = String::new();
            let context = context.text(document, &mut scratch);
            binding = binding.with_context(context).map_err(|error| invalid(&error))?;
        }
        if let Some(kind) = self.binding.path {
            let (paths, first) = places.paths.expect("paths are recorded where values are bound to them");
            let path = self.paths.path(paths, document, first + index).map_err(|error| match error.kind {
                DocumentErrorKind::PathTooLong(_) => DocumentError { offset: places.matches[index].start, ..error },
                _ => error,
            })?;
            binding = binding.with_path(kind, path).map_err(|error| invalid(&error))?;
        }
        let binding = match &self.last {
            Some((_, last)) if **last == binding => Arc::clone(last),
            _ => Arc::new(binding),
        };
        self.last = Some((index, Arc::clone(&binding)));
        Ok(binding)
    }
}

fn invalid(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorCode::InvalidParams, error.to_string())
}
