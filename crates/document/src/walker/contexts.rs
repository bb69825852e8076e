//! The contexts of matches: a pass before the walk finds the objects that have the member which [`ContextSelector`] leads to, wherever in
//! them it is, and each match then gets that of the nearest object around it.

use super::*;
use crate::chunks::ChunkedValues;
use crate::fold::{CaseFold, FOLDED_GROWTH_MAX, folded, folded_char};
use crate::machine::FallibleSink;
use crate::selector::ContextSelector;
use crate::text::{may_unescape_to, unescape};

/// No byte, and no object.
const NONE: u32 = u32::MAX;
/// Objects between two matches above which the objects around the second are looked up by search, not one by one.
const JUMP: usize = 1024;

/// The context of a match: the byte range of the token in the document, which is a string or an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchContext {
    /// Offset of the token's first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
}

impl MatchContext {
    /// The text of the context: that of a string, or the digits of an integer.
    pub fn text<'a>(&self, document: &'a [u8], scratch: &'a mut String) -> &'a str {
        let token = &document[self.start..self.end];
        let text = if token.starts_with(b"\"") { unescape(token, scratch).ok() } else { str::from_utf8(token).ok() };
        text.expect("checked when it was found")
    }
}

impl DocumentWalk {
    /// Records the contexts of matches, of at most `size_max` bytes each, for [`DocumentWalk::take_contexts`]. A pass before the walk finds
    /// them. Their names are compared as those of the selection, and one that differs in case alone is refused with
    /// [`CaseFold::Refuse`]. A context that is itself selected is refused, so that a selection of everything has none. Call it before the
    /// first batch.
    pub fn with_contexts(mut self, selector: &ContextSelector, size_max: usize) -> Self {
        self.contexts = Some(ContextWalk::new(selector, size_max, &self.limits, self.selection.other_case()));
        // Whoever can write a document could otherwise put a value into an object with its own context where another value belongs.
        self.others = (self.purpose == Purpose::Decrypt).then(Vec::new);
        let notes_others = self.others.is_some();
        if let Some(matcher) = self.matcher() {
            matcher.notes_others = notes_others;
        }
        self
    }

    /// The matcher of a walk in one pass.
    fn matcher(&mut self) -> Option<&mut Matcher> {
        match &mut self.stage {
            WalkStage::Count { collector, .. } | WalkStage::Stream { collector, .. } => Some(match collector {
                Collector::Matcher(matcher) => matcher,
                Collector::Locator(locator) => &mut locator.matcher,
            }),
            _ => None,
        }
    }

    /// The contexts of the matches returned since the last call, for a walk that records them. Those of a failed batch of a text of lines
    /// have none.
    pub fn take_contexts(&mut self) -> Vec<MatchContext> {
        match (&mut self.contexts, &mut self.stage) {
            (Some(contexts), _) => contexts.take(),
            (None, WalkStage::Lines(lines)) => lines.take_contexts(),
            _ => Vec::new(),
        }
    }

    /// Runs one batch, or a piece of the pass before.
    pub(super) fn advance_with(
        &mut self,
        mut contexts: Box<ContextWalk>,
        document: &[u8],
        matches: &mut Vec<Match>,
        (matches_max, bytes_max): (usize, usize),
    ) -> Result<bool, DocumentError> {
        let result = contexts.read(document, bytes_max).and_then(|is_read| {
            if !is_read {
                return Ok(false);
            }
            let before = matches.len();
            let walked = self.advance_stage(document, matches, matches_max, bytes_max);
            let others = match self.matcher() {
                Some(matcher) => std::mem::take(&mut matcher.others),
                None => self.others.as_mut().map(std::mem::take).unwrap_or_default(),
            };
            contexts.resolve(document, (matches, before), &others).and(walked)
        });
        self.contexts = Some(contexts);
        result
    }
}

/// The contexts of a walk's matches.
#[derive(Debug)]
pub(super) struct ContextWalk {
    pass: Pass,
    is_complete: bool,
    reader: ContextReader,
    /// Maximum size of a context in bytes.
    size_max: usize,
    /// The first object that begins behind the last match.
    next: usize,
    /// The objects with a context around the last match, from the outermost one on.
    around: Vec<u32>,
    /// Those of the matches since they were last taken.
    found: Vec<MatchContext>,
    scratch: String,
}

impl ContextWalk {
    pub(super) fn new(
        selector: &ContextSelector,
        size_max: usize,
        limits: &DocumentLimits,
        other_case: CaseFold,
    ) -> Box<Self> {
        let names = selector.names();
        Box::new(Self {
            pass: Pass::checking(limits),
            is_complete: false,
            reader: ContextReader {
                folded: if other_case == CaseFold::Other {
                    Vec::new()
                } else {
                    names.iter().map(|it| folded(it)).collect()
                },
                names: Arc::clone(names),
                other_case,
                objects: ChunkedValues::default(),
                objects_max: limits.tree_nodes_max,
                open: Vec::new(),
                reached: 0,
                scratch: String::new(),
                fault: None,
            },
            size_max,
            next: 0,
            around: Vec::new(),
            found: Vec::new(),
            scratch: String::new(),
        })
    }

    /// Starts again with another document.
    pub(super) fn restart(&mut self) {
        self.pass.restart();
        self.reader.objects.clear();
        self.reader.open.clear();
        self.around.clear();
        (self.reader.reached, self.next, self.is_complete) = (0, 0, false);
    }

    /// Bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.reader.objects.memory()
    }

    /// Continues the pass before the walk for about `bytes_max` bytes; returns whether it is complete.
    pub(super) fn read(&mut self, document: &[u8], bytes_max: usize) -> Result<bool, DocumentError> {
        if !self.is_complete {
            self.is_complete = self.pass.run(document, bytes_max, &mut self.reader)? == Reach::Finished;
        }
        Ok(self.is_complete)
    }

    /// Finds the contexts of the matches from `first` on, which are behind all before, and refuses one that begins where one of `others`
    /// does. At a fault, `matches` ends before its place.
    pub(super) fn resolve(
        &mut self,
        document: &[u8],
        (matches, first): (&mut Vec<Match>, usize),
        others: &[u32],
    ) -> Result<(), DocumentError> {
        let mut others = others.iter().copied().peekable();
        for index in first..=matches.len() {
            let next = matches.get(index).map(|found| found.start as u32);
            let mut result = Ok(());
            while let Some(other) = others.next_if(|other| next.is_none_or(|next| *other < next)) {
                result = result.and_then(|()| self.refuse_context(other));
            }
            let found = result.and_then(|()| next.map(|next| self.context(document, next)).transpose());
            match found {
                Ok(context) => self.found.extend(context),
                Err(error) => {
                    matches.truncate(index);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Refuses the scalar that begins there if it is the context of an object around it.
    fn refuse_context(&mut self, position: u32) -> Result<(), DocumentError> {
        self.advance(position);
        let (objects, names) = (&self.reader.objects, self.reader.names.len());
        // It is a member below the object whose context it is, as many levels deep as there are names.
        match self.around.iter().rev().take(names).any(|&object| objects[object as usize].is_context(position)) {
            true => Err(DocumentError::new(DocumentErrorKind::ContextSelected, position as usize)),
            false => Ok(()),
        }
    }

    /// The contexts of the matches since the last call.
    pub(super) fn take(&mut self) -> Vec<MatchContext> {
        std::mem::take(&mut self.found)
    }

    /// The context of a match that begins there.
    fn context(&mut self, document: &[u8], position: u32) -> Result<MatchContext, DocumentError> {
        self.refuse_context(position)?;
        let objects = &self.reader.objects;
        let fault = |kind, at: u32| Err(DocumentError::new(kind, at as usize));
        let Some(&number) = self.around.last() else { return fault(DocumentErrorKind::ContextMissing, position) };
        let object = objects[number as usize];
        let context = MatchContext { start: object.value_start as usize, end: object.value_end as usize };
        match object.state {
            ContextState::Checked => {}
            ContextState::Found if is_context(document, context, self.size_max, &mut self.scratch) => {
                self.reader.objects[number as usize].state = ContextState::Checked;
            }
            ContextState::Duplicate => return fault(DocumentErrorKind::DuplicateContext, object.value_start),
            ContextState::OtherCase => return fault(DocumentErrorKind::AmbiguousName, object.value_start),
            ContextState::Found | ContextState::Nothing => {
                return fault(DocumentErrorKind::ContextValue(self.size_max), object.value_start);
            }
        }
        Ok(context)
    }

    /// Goes on to the objects around `position`, which is behind the last one.
    fn advance(&mut self, position: u32) {
        let objects = &self.reader.objects;
        let is_around = |object: &ContextObject| object.end > position && object.state != ContextState::Nothing;
        while self.around.pop_if(|&mut last| objects[last as usize].end <= position).is_some() {}
        let jumped = self.next.saturating_add(JUMP);
        if jumped < objects.len() && objects[jumped].start < position {
            let (mut low, mut high) = (jumped, objects.len());
            while low + 1 < high {
                let middle = low.midpoint(high);
                if objects[middle].start < position { low = middle } else { high = middle }
            }
            self.around.clear();
            let mut number = low as u32;
            while number != NONE {
                let object = &objects[number as usize];
                if is_around(object) {
                    self.around.push(number);
                }
                number = object.parent;
            }
            self.around.reverse();
            self.next = high;
        }
        while self.next < objects.len() && objects[self.next].start < position {
            if is_around(&objects[self.next]) {
                self.around.push(self.next as u32);
            }
            self.next += 1;
        }
    }
}

/// Whether the token is a context: a string of 1 to `size_max` bytes that is text, or an integer as every parser writes it.
fn is_context(document: &[u8], place: MatchContext, size_max: usize, scratch: &mut String) -> bool {
    let token = &document[place.start..place.end];
    match token.first() {
        Some(b'"') => {
            may_unescape_to(token, size_max)
                && unescape(token, scratch).is_ok_and(|text| (1..=size_max).contains(&text.len()))
        }
        Some(b'-' | b'0'..=b'9') => {
            let digits = token.strip_prefix(b"-").unwrap_or(token);
            token.len() <= size_max && token != b"-0" && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// An object, in the order in which they begin; 24 bytes. One that has no context is only kept if an object in it has one.
#[derive(Clone, Copy, Debug)]
struct ContextObject {
    start: u32,
    end: u32,
    /// The token of the context; of a duplicate one, the name that occurs again, or in another case.
    value_start: u32,
    value_end: u32,
    /// The number of the nearest object around it.
    parent: u32,
    state: ContextState,
}

impl ContextObject {
    /// Whether the value that begins there is its context.
    fn is_context(&self, position: u32) -> bool {
        matches!(self.state, ContextState::Found | ContextState::Checked) && self.value_start == position
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextState {
    Nothing,
    /// A value, of any kind.
    Found,
    /// A value that is a context.
    Checked,
    /// A name on the path to a value occurs twice in its object.
    Duplicate,
    /// A name differs from one on the path in case alone.
    OtherCase,
}

/// Finds the objects that have a context.
#[derive(Debug)]
struct ContextReader {
    names: Arc<[String]>,
    /// The same without their case, if that is compared.
    folded: Vec<String>,
    other_case: CaseFold,
    objects: ChunkedValues<ContextObject>,
    objects_max: usize,
    open: Vec<ContextContainer>,
    /// How many names lead to the member whose name was read last, from objects around it: one bit each.
    reached: u32,
    scratch: String,
    fault: Option<DocumentError>,
}

/// A container that is open.
#[derive(Debug)]
struct ContextContainer {
    /// Its object, or the nearest one around an array.
    object: u32,
    /// How many names lead to it, from objects around it: one bit each; the lowest for an object, none for an array.
    reached: u32,
    /// The bits of which the next name occurred in it.
    seen: u32,
    /// The range of the context, and where a name on the path to it occurs again.
    value: (u32, u32),
    duplicate: u32,
    /// Where a name differs from one on the path in case alone.
    other_case: u32,
}

impl ContextReader {
    /// Whether a name equals one on the path if case is ignored, where that matters.
    fn is_in_other_case(&mut self, token: &[u8], escaped: bool, index: usize) -> bool {
        let Some(folded) = self.folded.get(index) else { return false };
        let size_max = folded.len().saturating_mul(FOLDED_GROWTH_MAX);
        let name = match escaped {
            false if token.len() - 2 <= size_max => str::from_utf8(&token[1..token.len() - 1]).ok(),
            true if may_unescape_to(token, size_max) => unescape(token, &mut self.scratch).ok(),
            _ => None,
        };
        // Parsers in C end a name at a NUL.
        let name = name.and_then(|name| name.split('\0').next());
        name.is_some_and(|name| name.chars().map(folded_char).eq(folded.chars()))
    }

    /// A value begins; `end` is that of its token. Returns how many names lead to it.
    fn value(&mut self, start: usize, end: usize) -> u32 {
        let reached = std::mem::take(&mut self.reached);
        let depth = self.names.len();
        if reached >> depth & 1 == 1 {
            let base = self.open.len() - depth;
            // Sizes were checked against DOCUMENT_SIZE_CEILING before the walk, so offsets fit.
            self.open[base].value = (start as u32, end as u32);
        }
        reached & ((1 << depth) - 1)
    }
}

impl Sink for ContextReader {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        self.reached = 0;
        let innermost = self.open.len() - 1;
        let (token, mut bits) = (&document[start..end], self.open[innermost].reached);
        while bits != 0 {
            let before = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let is_written_so = is_name(token, escaped, &self.names[before], &mut self.scratch);
            let has_other_case = !is_written_so && self.is_in_other_case(token, escaped, before);
            if has_other_case && self.other_case == CaseFold::Refuse {
                let base = &mut self.open[innermost - before];
                base.other_case = base.other_case.min(start as u32);
            }
            if !(is_written_so || has_other_case && self.other_case == CaseFold::Same) {
                continue;
            }
            self.reached |= 2 << before;
            let container = &mut self.open[innermost];
            if container.seen >> before & 1 == 1 {
                let base = &mut self.open[innermost - before];
                base.duplicate = base.duplicate.min(start as u32);
            }
            self.open[innermost].seen |= 1 << before;
        }
    }

    fn scalar(&mut self, _document: &[u8], start: usize, end: usize, _scalar: GrammarScalar) {
        self.value(start, end);
    }

    fn open(&mut self, start: usize, container: Container) {
        let reached = self.value(start, start + 1);
        let mut object = self.open.last().map_or(NONE, |around| around.object);
        let reached = match container {
            Container::Array => 0,
            Container::Object => {
                let (state, start) = (ContextState::Nothing, start as u32);
                let entry = ContextObject { start, end: NONE, value_start: 0, value_end: 0, parent: object, state };
                if self.objects.len() >= self.objects_max {
                    let kind = DocumentErrorKind::TooManyContexts(self.objects_max);
                    self.fault.get_or_insert(DocumentError::new(kind, start as usize));
                }
                object = self.objects.len() as u32;
                self.objects.push(entry);
                reached | 1
            }
        };
        self.open.push(ContextContainer {
            object,
            reached,
            seen: 0,
            value: (NONE, NONE),
            duplicate: NONE,
            other_case: NONE,
        });
    }

    fn close(&mut self, end: usize) {
        let Some(container) = self.open.pop() else { return };
        let ContextContainer { object, value, duplicate, other_case, reached, .. } = container;
        if reached == 0 {
            return;
        }
        if value.0 == NONE && other_case == NONE && object as usize + 1 == self.objects.len() {
            self.objects.pop();
            return;
        }
        let entry = &mut self.objects[object as usize];
        entry.end = end as u32;
        (entry.value_start, entry.value_end) = value;
        if value.0 != NONE {
            entry.state = ContextState::Found;
            if duplicate != NONE {
                (entry.state, entry.value_start) = (ContextState::Duplicate, duplicate);
            }
        }
        if other_case < duplicate {
            (entry.state, entry.value_start) = (ContextState::OtherCase, other_case);
        }
    }

    fn is_full(&self) -> bool {
        self.fault.is_some()
    }
}

impl FallibleSink for ContextReader {
    fn fault(&self) -> Option<DocumentError> {
        self.fault
    }
}

/// Whether the text of a name's token is `name`.
fn is_name(token: &[u8], escaped: bool, name: &str, scratch: &mut String) -> bool {
    match escaped {
        false => &token[1..token.len() - 1] == name.as_bytes(),
        true => may_unescape_to(token, name.len()) && unescape(token, scratch).is_ok_and(|text| text == name),
    }
}
