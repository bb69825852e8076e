//! A match with the path of its value, for callers that need it.

use super::*;

/// A matcher that notes the places of its matches.
#[derive(Debug)]
pub(super) struct Locator {
    pub(super) matcher: Matcher,
    pub(super) trail: Trail,
}

impl Locator {
    pub(super) fn new(matcher: Matcher) -> Box<Self> {
        Box::new(Locator { matcher, trail: Trail::default() })
    }
}

impl FallibleSink for Locator {}

impl Sink for Locator {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        self.trail.name(start, end);
        self.matcher.name(document, start, end, escaped);
    }

    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: Scalar) {
        let before = self.matcher.matches.len();
        self.trail.scalar();
        self.matcher.scalar(document, start, end, scalar);
        if self.matcher.matches.len() > before {
            self.trail.matched();
        }
    }

    fn open(&mut self, start: usize, container: Container) {
        self.trail.open(container);
        self.matcher.open(start, container);
    }

    fn close(&mut self, end: usize) {
        self.trail.close();
        self.matcher.close(end);
    }

    fn is_full(&self) -> bool {
        self.matcher.is_full()
    }
}

/// The keys from a value up to the root.
pub(super) fn way_to(tape: &Tape, mut number: u32) -> Vec<Key> {
    let mut way = Vec::new();
    loop {
        let node = tape.node(number);
        number = node.parent;
        way.push(match node.place() {
            Place::Root => return way,
            Place::Element(index) => Key::Element(index),
            Place::Member { start, end, .. } => Key::Member { start, end },
        });
    }
}
