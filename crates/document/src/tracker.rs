//! Keeps the automaton's set for each open container while the machine reads a document.

use std::sync::Arc;

use crate::chunks::ChunkedValues;
use crate::error::DocumentErrorKind;
use crate::machine::{Container, GrammarScalar, Sink};
use crate::selector::automaton::{Automaton, CompiledQueries, Detail, Member, SetId};

/// The number of elements of each array of a document, in the order in which the arrays begin. Counted in a separate pass, only for
/// selectors that count from an array's end; four bytes per array.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    arrays: ChunkedValues<u32>,
    /// Open arrays by number; `None` for an object.
    open: Vec<Option<u32>>,
}

impl Lengths {
    /// Their memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.arrays.memory()
    }

    /// Forgets them, for another document.
    pub(crate) fn clear(&mut self) {
        self.arrays.clear();
        self.open.clear();
    }

    fn count(&mut self) {
        if let Some(Some(array)) = self.open.last() {
            self.arrays[*array as usize] += 1;
        }
    }
}

impl Sink for Lengths {
    #[inline(always)]
    fn name(&mut self, _document: &[u8], _start: usize, _end: usize, _escaped: bool) {}

    #[inline(always)]
    fn scalar(&mut self, _document: &[u8], _start: usize, _end: usize, _scalar: GrammarScalar) {
        self.count();
    }

    fn open(&mut self, _start: usize, container: Container) {
        self.count();
        self.open.push(match container {
            Container::Object => None,
            Container::Array => {
                self.arrays.push(0);
                Some(self.arrays.len() as u32 - 1)
            }
        });
    }

    fn close(&mut self, _end: usize) {
        self.open.pop();
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// An open container, with the state for its children.
#[derive(Debug)]
struct TrackedContainer {
    set: SetId,
    container: Container,
    /// Elements so far.
    index: u32,
    /// The total number of elements, if lengths are known.
    length: u32,
    /// Where the names of this object begin in [`Tracker::seen`].
    seen: u32,
}

/// The automaton's position in a document.
#[derive(Debug)]
pub(crate) struct Tracker {
    automaton: Automaton,
    frames: Vec<TrackedContainer>,
    /// The set of the member whose name was read last.
    member: SetId,
    /// The set of the document's root.
    root: SetId,
    /// The number of open containers inside one whose set settles everything below, and that set.
    settled_depth: usize,
    settled: SetId,
    lengths: Option<Lengths>,
    arrays_begun: usize,
    /// The names that have occurred in each open object, of those that its set looks for: one bit each. Empty unless duplicates are
    /// refused.
    seen: Vec<u64>,
    refuses_duplicates: bool,
}

impl Tracker {
    /// Starts at the beginning of a document. If the program needs `lengths`, they are required before the first value.
    pub(crate) fn new(program: Arc<CompiledQueries>, detail: Detail, lengths: Option<Lengths>) -> Self {
        let refuses_duplicates = program.refuses_duplicates();
        let automaton = Automaton::new(program, detail);
        Tracker {
            root: automaton.start(),
            automaton,
            frames: Vec::new(),
            member: SetId::NOTHING,
            settled_depth: 0,
            settled: SetId::NOTHING,
            lengths,
            arrays_begun: 0,
            seen: Vec::new(),
            refuses_duplicates,
        }
    }

    /// Starts again with a document whose arrays have these lengths; returns those of the one before.
    pub(crate) fn begin_with(&mut self, lengths: Lengths) -> Option<Lengths> {
        self.arrays_begun = 0;
        self.lengths.replace(lengths)
    }

    /// Leaves all containers: the document is not read further.
    pub(crate) fn leave_all(&mut self) {
        self.frames.clear();
        self.seen.clear();
        self.settled_depth = 0;
    }

    /// Memory of the arrays' lengths in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.lengths.as_ref().map_or(0, Lengths::memory)
    }

    /// Processes a member's name.
    ///
    /// # Errors
    /// The name is refused because of its case, as a path, or because it occurs twice.
    #[inline(always)]
    pub(crate) fn name(&mut self, token: &[u8], escaped: bool) -> Result<(), DocumentErrorKind> {
        if self.settled_depth > 0 {
            return Ok(());
        }
        if let Some(frame) = self.frames.last() {
            let member = self.automaton.member(frame.set, token, escaped);
            let member = member.map_err(DocumentErrorKind::from)?;
            self.member = member.set;
            if self.refuses_duplicates && member.name != Member::UNNAMED {
                return self.see(member.name);
            }
        }
        Ok(())
    }

    /// Processes a member's name like [`Tracker::name`]; returns whether it is one that selectors look for, or its member is selected.
    ///
    /// # Errors
    /// As [`Tracker::name`].
    pub(crate) fn wanted_name(&mut self, token: &[u8], escaped: bool) -> Result<bool, DocumentErrorKind> {
        if self.settled_depth > 0 {
            return Ok(self.settled.is_selected());
        }
        let Some(frame) = self.frames.last() else { return Ok(false) };
        let member = self.automaton.member(frame.set, token, escaped);
        let member = member.map_err(DocumentErrorKind::from)?;
        self.member = member.set;
        let is_named = member.name != Member::UNNAMED;
        if self.refuses_duplicates && is_named {
            self.see(member.name)?;
        }
        Ok(is_named || member.set.is_selected())
    }

    /// Records a name of the innermost object.
    fn see(&mut self, name: u32) -> Result<(), DocumentErrorKind> {
        let start = self.frames.last().map_or(0, |frame| frame.seen);
        let (word, bit) = (start as usize + name as usize / 64, 1 << (name % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new.then_some(()).ok_or(DocumentErrorKind::DuplicateName)
    }

    /// The set of the value that a JSON Pointer (RFC 6901) leads to. `kept` is another set that stays in use. Some readers skip empty names
    /// and decode the escapes of URIs; a pointer with such a name is refused if it must be unambiguous.
    ///
    /// # Errors
    /// It is not a pointer, or a name in it is refused, also because of its case.
    pub(crate) fn at_pointer(
        &mut self,
        pointer: &str,
        kept: &mut SetId,
        is_unambiguous: bool,
    ) -> Result<SetId, DocumentErrorKind> {
        let mut set = self.automaton.start();
        if pointer.is_empty() {
            return Ok(set);
        }
        for token in pointer.strip_prefix('/').ok_or(DocumentErrorKind::PatchPath)?.split('/') {
            let is_escaped = |part: &str| part.starts_with(['0', '1']);
            let has_second_reading = || token.is_empty() || has_escape(token);
            if token.contains('\0')
                || is_unambiguous && has_second_reading()
                || !token.split('~').skip(1).all(is_escaped)
            {
                return Err(DocumentErrorKind::PatchPath);
            }
            if !set.is_settled() {
                let token = format!("\"{}\"", token.replace("~1", "/").replace("~0", "~"));
                let member = self.automaton.member(set, token.as_bytes(), false);
                set = member.map_err(DocumentErrorKind::from)?.set;
            }
            if self.automaton.is_crowded() {
                self.automaton.forget([&mut set, &mut *kept].into_iter());
            }
        }
        Ok(set)
    }

    /// The set of the root of the documents that selectors are for.
    pub(crate) fn start(&self) -> SetId {
        self.automaton.start()
    }

    /// Starts again at the beginning of a document, whose root has this set.
    pub(crate) fn begin_at(&mut self, root: SetId) {
        debug_assert!(self.frames.is_empty() && self.settled_depth == 0);
        self.root = root;
    }

    /// The set of the value that begins; call it once per value.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> SetId {
        if self.settled_depth > 0 {
            return self.settled;
        }
        match self.frames.last_mut() {
            None => self.root,
            Some(frame) if frame.container == Container::Object => self.member,
            Some(frame) => {
                let index = frame.index;
                frame.index += 1;
                self.automaton.element(frame.set, index, frame.length)
            }
        }
    }

    /// Counts a selected scalar with this set.
    #[inline(always)]
    pub(crate) fn count(&mut self, set: SetId) {
        self.automaton.count(set);
    }

    /// See [`Automaton::begin_covered`].
    pub(crate) fn begin_covered(&mut self) {
        self.automaton.begin_covered();
    }

    /// See [`Automaton::uncovered`].
    pub(crate) fn uncovered(&self) -> Option<usize> {
        self.automaton.uncovered()
    }

    /// The number of scalars counted for each query.
    pub(crate) fn matched(&self) -> Vec<u64> {
        self.automaton.matched()
    }

    /// Enters a container, which is the value that began; `set` is its set.
    #[inline]
    pub(crate) fn open(&mut self, set: SetId, container: Container) {
        let array = self.arrays_begun;
        self.arrays_begun += usize::from(container == Container::Array);
        if self.settled_depth > 0 || set.is_settled() {
            self.settled_depth += 1;
            self.settled = set;
            return;
        }
        let length = match (&self.lengths, container) {
            (Some(lengths), Container::Array) => lengths.arrays[array],
            _ => u32::MAX,
        };
        self.frames.push(TrackedContainer { set, container, index: 0, length, seen: self.seen.len() as u32 });
        if self.automaton.is_crowded() {
            self.automaton.forget(self.frames.iter_mut().map(|frame| &mut frame.set));
        }
    }

    /// Leaves the innermost container.
    #[inline]
    pub(crate) fn close(&mut self) {
        match self.settled_depth {
            0 => {
                if let Some(frame) = self.frames.pop() {
                    self.seen.truncate(frame.seen as usize);
                }
            }
            _ => self.settled_depth -= 1,
        }
    }
}

/// Whether a name has an escape of URIs, `%XX`.
fn has_escape(name: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    name.split('%').skip(1).any(is_hex)
}
