//! Matches with the paths of their values, for callers that need them.

use super::*;
use crate::machine::FallibleSink;
use crate::tree::Tape;

/// A matcher that records the paths of its matches.
#[derive(Debug)]
pub(super) struct Locator {
    pub(super) matcher: Matcher,
    pub(super) path_tracker: PathTracker,
}

impl Locator {
    pub(super) fn new(matcher: Matcher) -> Box<Self> {
        Box::new(Locator { matcher, path_tracker: PathTracker::default() })
    }
}

impl FallibleSink for Locator {
    fn fault(&self) -> Option<DocumentError> {
        self.matcher.fault()
    }
}

impl Sink for Locator {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        self.path_tracker.name(start, end);
        self.matcher.name(document, start, end, escaped);
    }

    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: GrammarScalar) {
        let before = self.matcher.matches.len();
        self.path_tracker.scalar();
        self.matcher.scalar(document, start, end, scalar);
        if self.matcher.matches.len() > before {
            self.path_tracker.matched();
        }
    }

    fn open(&mut self, start: usize, container: Container) {
        self.path_tracker.open(container);
        self.matcher.open(start, container);
    }

    fn close(&mut self, end: usize) {
        self.path_tracker.close();
        self.matcher.close(end);
    }

    fn is_full(&self) -> bool {
        self.matcher.is_full()
    }
}

/// The keys from a value up to the root.
pub(super) fn path_keys(tape: &Tape, mut number: u32) -> Vec<PathKey> {
    let mut keys = Vec::new();
    loop {
        let node = tape.node(number);
        number = node.parent;
        keys.push(match node.child_key() {
            ChildKey::Root => return keys,
            ChildKey::Element(index) => PathKey::Element(index),
            ChildKey::Member { start, end, .. } => PathKey::Member { start, end },
        });
    }
}
