//! Finds out in one pass that selectors select nothing in a short document, where a walk reads it more than once: those with filters, and
//! those that count elements from the end.

use super::{DocumentLimits, Pass, Reach, Selection};
use crate::machine::{Container, FallibleSink, GrammarScalar, Sink};
use crate::selector::automaton::Detail;
use crate::tracker::Tracker;

/// Bytes of the longest document that is tried: some microseconds.
const SIZE_MAX: usize = 4 << 10;

/// The queries of a selection without what needs to know more than the path to a value, which select no less.
#[derive(Debug)]
pub(super) struct Sieve {
    tracker: Tracker,
    found: bool,
}

/// Longest line that is looked at without a pass.
const TRIVIAL_SIZE_MAX: usize = 20;

/// Whether a line is a whole number, a word or an empty value, so that there is nothing below its root.
pub(super) fn is_trivial(line: &[u8]) -> bool {
    if line.len() > TRIVIAL_SIZE_MAX {
        return false;
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let b"{}" | b"[]" | b"\"\"" | b"true" | b"false" | b"null" = line {
        return true;
    }
    match line.strip_prefix(b"-").unwrap_or(line) {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

impl Sieve {
    /// `None` for a selection that is walked in one pass.
    pub(super) fn new(selection: &Selection) -> Option<Sieve> {
        let program = selection.sieve()?;
        Some(Sieve { tracker: Tracker::new(program.clone(), Detail::Scalars, None), found: false })
    }

    /// Whether the document is known to be well-formed, and nothing to be selected in it.
    pub(super) fn passes(&mut self, document: &[u8], limits: &DocumentLimits) -> bool {
        if document.len() > SIZE_MAX {
            return false;
        }
        self.found = false;
        let is_read = matches!(Pass::checking(limits).run(document, usize::MAX, self), Ok(Reach::Finished));
        if !is_read {
            self.tracker.leave_all();
        }
        is_read && !self.found
    }
}

impl FallibleSink for Sieve {}

impl Sink for Sieve {
    #[inline(always)]
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        // No name is refused, as none is alike where case counts.
        let _ = self.tracker.name(&document[start..end], escaped);
    }

    #[inline(always)]
    fn scalar(&mut self, _document: &[u8], _start: usize, _end: usize, _scalar: GrammarScalar) {
        self.found |= self.tracker.value().is_selected();
    }

    #[inline(always)]
    fn open(&mut self, _start: usize, container: Container) {
        let set = self.tracker.value();
        self.tracker.open(set, container);
    }

    #[inline(always)]
    fn close(&mut self, _end: usize) {
        self.tracker.close();
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.found
    }
}
