//! The functions `match` and `search` at work: patterns kept compiled, and texts read by them in pieces.

use std::collections::HashMap;

use super::steps::Steps;
use super::text::{NoText, Text, TextReader};
use super::value::{Operand, Source};
use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::Limits;
use crate::selector::ast::Extent;
use crate::selector::code::Code;
use crate::selector::pattern::{self, Pattern, Place, Searcher, TooLarge};

/// Steps charged for compiling any pattern, about its time in visited values; in addition to those for its length and size.
const PATTERN_STEPS: u64 = 1_000;
/// Steps for each byte of a pattern, and for each byte that it takes once it is compiled.
const STEPS_PER_BYTE: u64 = 4;
const STEPS_PER_COMPILED_BYTE: u64 = 1;

/// Patterns from the document that are kept compiled.
const COMPUTED_MAX: usize = 64;

/// Bytes of text between two checks of their cost: at most as many new states.
const STRIDE: usize = 16;

/// Steps that a stride counts as in which the pattern's automaton got new states: at least, and for each state of the pattern.
const NEW_STATES_STEPS_MIN: u64 = 500;
const NEW_STATES_STEPS: u64 = STRIDE as u64 / 2;

/// The patterns of a selection, by number: those known in advance, followed by those from the document.
#[derive(Debug)]
pub(super) struct Patterns {
    searchers: Vec<Option<Searcher>>,
    fixed: usize,
    /// Where those from the document are, if they are patterns.
    computed: HashMap<(String, Extent), Option<usize>>,
    pattern_size_max: usize,
    pattern_length_max: usize,
}

/// A text on its way through a pattern.
#[derive(Debug)]
pub(super) struct Matching {
    pattern: usize,
    text: Operand,
    reader: Box<TextReader>,
    place: Place,
    has_matched: bool,
}

impl Patterns {
    pub(super) fn new(code: &Code, limits: &Limits) -> Self {
        let fixed = code.patterns().len();
        Patterns {
            searchers: (0..fixed).map(|_| None).collect(),
            fixed,
            computed: HashMap::new(),
            pattern_size_max: limits.pattern_size_max,
            pattern_length_max: limits.selector_length_max,
        }
    }

    /// Has a pattern of the selection ready; nothing where it is none.
    pub(super) fn fixed(
        &mut self,
        code: &Code,
        number: u32,
        steps: &mut Steps,
    ) -> Result<Option<usize>, DocumentError> {
        let number = number as usize;
        if self.searchers[number].is_none() {
            let fixed = &code.patterns()[number];
            take_parsing(steps, fixed.length())?;
            let pattern = fixed.get(self.pattern_size_max).map_err(|TooLarge| self.too_large())?;
            take_compiling(steps, pattern.as_ref())?;
            self.searchers[number] = pattern.map(Searcher::new);
        }
        Ok(self.searchers[number].is_some().then_some(number))
    }

    /// Has a pattern from the document ready; nothing where it is none.
    pub(super) fn computed(
        &mut self,
        source: Source<'_>,
        operand: Operand,
        extent: Extent,
        steps: &mut Steps,
    ) -> Result<Option<usize>, DocumentError> {
        let Some(text) = source.text(operand) else { return Ok(None) };
        if text.size() > self.pattern_length_max {
            return Err(self.too_large());
        }
        steps.take_bytes(text.size())?;
        let mut pattern = Vec::with_capacity(text.size());
        let mut reader = TextReader::default();
        loop {
            match reader.next(text, usize::MAX) {
                Ok([]) => break,
                Ok(piece) => pattern.extend_from_slice(piece),
                Err(NoText) => return Ok(None),
            }
        }
        let Ok(pattern) = String::from_utf8(pattern) else { return Ok(None) };
        let key = (pattern, extent);
        match self.computed.get(&key) {
            Some(known) => Ok(*known),
            None => self.compile(key, steps),
        }
    }

    fn compile(&mut self, key: (String, Extent), steps: &mut Steps) -> Result<Option<usize>, DocumentError> {
        take_parsing(steps, key.0.len())?;
        if self.computed.len() >= COMPUTED_MAX {
            self.computed.clear();
            self.searchers.truncate(self.fixed);
        }
        let compiled: Option<Pattern> =
            pattern::compile(&key.0, key.1, self.pattern_size_max).map_err(|TooLarge| self.too_large())?;
        take_compiling(steps, compiled.as_ref())?;
        let number = compiled.map(|pattern| {
            self.searchers.push(Some(Searcher::new(pattern)));
            self.searchers.len() - 1
        });
        self.computed.insert(key, number);
        Ok(number)
    }

    fn too_large(&self) -> DocumentError {
        DocumentError::new(DocumentErrorKind::PatternTooLarge(self.pattern_size_max), 0)
    }

    /// Begins to match a text, by a pattern that is ready.
    pub(super) fn begin(&mut self, pattern: usize, text: Operand) -> Matching {
        let place = self.searcher(pattern).start();
        Matching { pattern, text, reader: Box::default(), place, has_matched: false }
    }

    /// Goes on; the verdict, unless the run is over before.
    pub(super) fn advance(
        &mut self,
        matching: &mut Matching,
        source: Source<'_>,
        steps: &mut Steps,
    ) -> Result<Option<bool>, DocumentError> {
        let searcher = self.searcher(matching.pattern);
        let text = source.text(matching.text).expect("looked at when it began");
        matching.advance(searcher, text, steps)
    }

    fn searcher(&mut self, pattern: usize) -> &mut Searcher {
        self.searchers[pattern].as_mut().expect("it was made ready")
    }
}

/// Takes what reading a pattern comes to, before it is read.
fn take_parsing(steps: &mut Steps, length: usize) -> Result<(), DocumentError> {
    steps.take(PATTERN_STEPS + STEPS_PER_BYTE * length as u64)
}

/// Takes what compiling a pattern came to.
fn take_compiling(steps: &mut Steps, pattern: Option<&Pattern>) -> Result<(), DocumentError> {
    steps.take(pattern.map_or(0, |pattern| STEPS_PER_COMPILED_BYTE * pattern.size() as u64))
}

impl Matching {
    fn advance(
        &mut self,
        searcher: &mut Searcher,
        text: Text<'_>,
        steps: &mut Steps,
    ) -> Result<Option<bool>, DocumentError> {
        // The rest of an escaped text after a match must still be validated: it may turn out not to be text.
        let is_decided_early = matches!(text, Text::Plain(_));
        while !steps.is_over() {
            steps.take_decoded(self.reader.decoded())?;
            let piece = match self.reader.next(text, STRIDE) {
                Ok([]) => return Ok(Some(self.has_matched || searcher.matches_at_end(self.place))),
                Ok(piece) => piece,
                Err(NoText) => return Ok(Some(false)),
            };
            steps.take(1)?;
            if self.has_matched || searcher.is_hopeless(self.place) {
                continue;
            }
            let before = searcher.states_made();
            self.has_matched = searcher.read(&mut self.place, piece);
            if searcher.states_made() != before {
                let states = searcher.states() as u64;
                steps.take(NEW_STATES_STEPS_MIN.max(states * NEW_STATES_STEPS))?;
            }
            if is_decided_early && (self.has_matched || searcher.is_hopeless(self.place)) {
                return Ok(Some(self.has_matched));
            }
        }
        Ok(None)
    }
}
