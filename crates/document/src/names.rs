//! Finds the names of selected members that are not written canonically: with escapes that JSON does not require.

use std::sync::Arc;

use crate::error::DocumentError;
use crate::limits::DocumentLimits;
use crate::machine::{Container, FallibleSink, GrammarScalar, Reach, Sink};
use crate::selector::Selection;
use crate::selector::automaton::Detail;
use crate::text::{escape_into, may_unescape_to, unescape};
use crate::tracker::Tracker;
use crate::walker::{Match, Pass, ScalarKind, WalkProgress};

/// A walk through a document, which is passed in each call, that finds names.
#[derive(Debug)]
pub struct NameWalk {
    pass: Pass,
    sink: Names,
}

impl NameWalk {
    /// Finds the names of members that the selection selects, or at which its selectors look on the way; any name with selectors that
    /// need to know more of a value than its path.
    pub fn new(selection: &Selection, limits: &DocumentLimits) -> NameWalk {
        let program = selection.program().filter(|program| !program.needs_lengths());
        let tracker = program.map(|program| Tracker::new(Arc::clone(program), Detail::Scalars, None));
        NameWalk { sink: Names { tracker, ..Names::new(limits) }, ..NameWalk::any(limits) }
    }

    /// Finds any name.
    pub fn any(limits: &DocumentLimits) -> NameWalk {
        NameWalk { pass: Pass::checking(limits), sink: Names::new(limits) }
    }

    /// Starts again with another document.
    pub fn restart(&mut self) {
        self.pass.restart();
        self.sink.is_over = false;
        if let Some(tracker) = &mut self.sink.tracker {
            tracker.leave_all();
        }
    }

    /// Continues through `document` for about `bytes_max` bytes. Appends the places of names to `found`, and each one's canonical token to
    /// `tokens`, where `places` has it. A document with a name that is refused has no further ones.
    ///
    /// # Errors
    /// The document is not well-formed.
    pub fn next_batch(
        &mut self,
        document: &[u8],
        bytes_max: usize,
        found: &mut CanonicalNames,
    ) -> Result<WalkProgress, DocumentError> {
        std::mem::swap(&mut self.sink.found, found);
        let reach = self.pass.run(document, bytes_max, &mut self.sink);
        std::mem::swap(&mut self.sink.found, found);
        let is_over = reach? == Reach::Finished || self.sink.is_over;
        Ok(if is_over { WalkProgress::Done } else { WalkProgress::More })
    }
}

/// Names that are not written canonically.
#[derive(Debug, Default)]
pub struct CanonicalNames {
    /// Their places in the document.
    pub matches: Vec<Match>,
    /// The canonical tokens, one behind another.
    pub tokens: Vec<u8>,
    /// The place of each in `tokens`.
    pub places: Vec<Match>,
}

#[derive(Debug)]
struct Names {
    /// `None` to find any name.
    tracker: Option<Tracker>,
    /// Longest text of a name.
    size_max: usize,
    found: CanonicalNames,
    text: String,
    is_over: bool,
}

impl Names {
    fn new(limits: &DocumentLimits) -> Self {
        let (size_max, found) = (limits.selector_length_max, CanonicalNames::default());
        Names { tracker: None, size_max, found, text: String::new(), is_over: false }
    }
}

impl FallibleSink for Names {}

impl Sink for Names {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        let token = &document[start..end];
        let is_wanted = match self.tracker.as_mut().map(|tracker| tracker.wanted_name(token, escaped)) {
            None => true,
            Some(Ok(is_wanted)) => is_wanted,
            Some(Err(_)) => {
                self.is_over = true;
                return;
            }
        };
        // No selector has a longer name.
        if !escaped || !is_wanted || !may_unescape_to(token, self.size_max) {
            return;
        }
        let Ok(text) = unescape(token, &mut self.text) else { return };
        let CanonicalNames { matches, tokens, places } = &mut self.found;
        let from = tokens.len();
        escape_into(text, tokens);
        if tokens[from..] == *token {
            tokens.truncate(from);
            return;
        }
        let kind = ScalarKind::String { escaped: true };
        matches.push(Match { start, end, kind });
        places.push(Match { start: from, end: tokens.len(), kind });
    }

    fn scalar(&mut self, _document: &[u8], _start: usize, _end: usize, _scalar: GrammarScalar) {
        if let Some(tracker) = &mut self.tracker {
            tracker.value();
        }
    }

    fn open(&mut self, _start: usize, container: Container) {
        if let Some(tracker) = &mut self.tracker {
            let set = tracker.value();
            tracker.open(set, container);
        }
    }

    fn close(&mut self, _end: usize) {
        if let Some(tracker) = &mut self.tracker {
            tracker.close();
        }
    }

    fn is_full(&self) -> bool {
        self.is_over
    }
}
