//! Evaluates the functions `match` and `search`: caches compiled patterns, and reads texts in pieces.

use std::collections::HashMap;

use super::steps::StepBudget;
use super::text::{NotUnicode, StringText, TextReader};
use super::value::{Operand, ValueSource};
use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::DocumentLimits;
use crate::selector::ast::Extent;
use crate::selector::code::FilterCode;
use crate::selector::pattern::{self, Pattern, SearchState, Searcher, TooLarge};

/// Steps charged for compiling any pattern, in addition to those for its length and size.
const PATTERN_STEPS: u64 = 1_000;
/// Steps per byte of a pattern, and per byte of its compiled form.
const STEPS_PER_BYTE: u64 = 4;
const STEPS_PER_COMPILED_BYTE: u64 = 1;

/// Maximum number of compiled patterns from the document.
const COMPUTED_MAX: usize = 64;

/// Bytes of text between two checks of the cost: at most as many new states.
const STRIDE: usize = 16;

/// Minimum steps charged for a stride in which the automaton computed new states; otherwise one for each state of the pattern.
const NEW_STATES_STEPS_MIN: u64 = 500;
const NEW_STATES_STEPS: u64 = STRIDE as u64 / 2;

/// The patterns of a selection, by number: those known in advance, followed by those from the document.
#[derive(Debug)]
pub(super) struct Patterns {
    searchers: Vec<Option<Searcher>>,
    fixed: usize,
    /// The indexes of those from the document; `None` if they are not patterns.
    computed: HashMap<(String, Extent), Option<usize>>,
    pattern_size_max: usize,
    pattern_length_max: usize,
}

/// The state of matching a text with a pattern.
#[derive(Debug)]
pub(super) struct Matching {
    pattern: usize,
    text: Operand,
    reader: Box<TextReader>,
    state: SearchState,
    has_matched: bool,
}

impl Patterns {
    pub(super) fn new(code: &FilterCode, limits: &DocumentLimits) -> Self {
        let fixed = code.patterns().len();
        Patterns {
            searchers: (0..fixed).map(|_| None).collect(),
            fixed,
            computed: HashMap::new(),
            pattern_size_max: limits.pattern_size_max,
            pattern_length_max: limits.selector_length_max,
        }
    }

    /// Forgets those from a document.
    pub(super) fn forget_computed(&mut self) {
        self.searchers.truncate(self.fixed);
        self.computed.clear();
    }

    /// Prepares a pattern of the selection; returns `None` if it is not valid.
    pub(super) fn fixed(
        &mut self,
        code: &FilterCode,
        number: u32,
        steps: &mut StepBudget,
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

    /// Prepares a pattern from the document; returns `None` if it is not valid.
    pub(super) fn computed(
        &mut self,
        source: ValueSource<'_>,
        operand: Operand,
        extent: Extent,
        steps: &mut StepBudget,
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
                Err(NotUnicode) => return Ok(None),
            }
        }
        let Ok(pattern) = String::from_utf8(pattern) else { return Ok(None) };
        let key = (pattern, extent);
        match self.computed.get(&key) {
            Some(known) => Ok(*known),
            None => self.compile(key, steps),
        }
    }

    fn compile(&mut self, key: (String, Extent), steps: &mut StepBudget) -> Result<Option<usize>, DocumentError> {
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

    /// Starts matching a text with a prepared pattern.
    pub(super) fn begin(&mut self, pattern: usize, text: Operand) -> Matching {
        let state = self.searcher(pattern).start();
        Matching { pattern, text, reader: Box::default(), state, has_matched: false }
    }

    /// Continues; returns the verdict, unless the run ends before.
    pub(super) fn advance(
        &mut self,
        matching: &mut Matching,
        source: ValueSource<'_>,
        steps: &mut StepBudget,
    ) -> Result<Option<bool>, DocumentError> {
        let searcher = self.searcher(matching.pattern);
        let text = source.text(matching.text).expect("looked at when it began");
        matching.advance(searcher, text, steps)
    }

    fn searcher(&mut self, pattern: usize) -> &mut Searcher {
        self.searchers[pattern].as_mut().expect("it was made ready")
    }
}

/// Charges parsing a pattern, before it is parsed.
fn take_parsing(steps: &mut StepBudget, length: usize) -> Result<(), DocumentError> {
    steps.take(PATTERN_STEPS + STEPS_PER_BYTE * length as u64)
}

/// Charges compiling a pattern.
fn take_compiling(steps: &mut StepBudget, pattern: Option<&Pattern>) -> Result<(), DocumentError> {
    steps.take(pattern.map_or(0, |pattern| STEPS_PER_COMPILED_BYTE * pattern.size() as u64))
}

impl Matching {
    fn advance(
        &mut self,
        searcher: &mut Searcher,
        text: StringText<'_>,
        steps: &mut StepBudget,
    ) -> Result<Option<bool>, DocumentError> {
        // The rest of an escaped text after a match must still be validated: it may not be Unicode.
        let is_decided_early = matches!(text, StringText::Plain(_));
        while !steps.is_over() {
            steps.take_decoded(self.reader.decoded())?;
            let piece = match self.reader.next(text, STRIDE) {
                Ok([]) => return Ok(Some(self.has_matched || searcher.matches_at_end(self.state))),
                Ok(piece) => piece,
                Err(NotUnicode) => return Ok(Some(false)),
            };
            steps.take(1)?;
            if self.has_matched || searcher.is_hopeless(self.state) {
                continue;
            }
            let before = searcher.states_made();
            self.has_matched = searcher.read(&mut self.state, piece);
            if searcher.states_made() != before {
                let states = searcher.states() as u64;
                steps.take(NEW_STATES_STEPS_MIN.max(states * NEW_STATES_STEPS))?;
            }
            if is_decided_early && (self.has_matched || searcher.is_hopeless(self.state)) {
                return Ok(Some(self.has_matched));
            }
        }
        Ok(None)
    }
}
