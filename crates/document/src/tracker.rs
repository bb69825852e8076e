//! Keeps the automaton's set for each open container while the machine reads a document.

use std::sync::Arc;

use crate::chunks::Chunks;
use crate::machine::{Container, Scalar, Sink};
use crate::selector::automaton::{AmbiguousName, Automaton, Detail, Program, SetId};

/// The number of elements of each array of a document, in the order in which the arrays begin. Counted in a separate pass, only for
/// selectors that count from an array's end; four bytes per array.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    arrays: Chunks<u32>,
    /// Open arrays by number; `None` for an object.
    open: Vec<Option<u32>>,
}

impl Lengths {
    /// Their memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.arrays.memory()
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
    fn scalar(&mut self, _document: &[u8], _start: usize, _end: usize, _scalar: Scalar) {
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
struct Frame {
    set: SetId,
    container: Container,
    /// Elements so far.
    index: u32,
    /// The total number of elements, if lengths are known.
    length: u32,
}

/// The automaton's position in a document.
#[derive(Debug)]
pub(crate) struct Tracker {
    automaton: Automaton,
    frames: Vec<Frame>,
    /// The set of the member whose name was read last.
    member: SetId,
    /// The number of open containers inside one whose set settles everything below, and that set.
    settled_depth: usize,
    settled: SetId,
    lengths: Option<Lengths>,
    arrays_begun: usize,
}

impl Tracker {
    /// Starts at the beginning of a document. `lengths` is required if the program needs them.
    pub(crate) fn new(program: Arc<Program>, detail: Detail, lengths: Option<Lengths>) -> Self {
        debug_assert!(lengths.is_some() || !program.needs_lengths());
        Tracker {
            automaton: Automaton::new(program, detail),
            frames: Vec::new(),
            member: SetId::NOTHING,
            settled_depth: 0,
            settled: SetId::NOTHING,
            lengths,
            arrays_begun: 0,
        }
    }

    /// Memory of the arrays' lengths in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.lengths.as_ref().map_or(0, Lengths::memory)
    }

    /// Processes a member's name.
    ///
    /// # Errors
    /// The name is refused because of its case.
    #[inline(always)]
    pub(crate) fn name(&mut self, token: &[u8], escaped: bool) -> Result<(), AmbiguousName> {
        if self.settled_depth > 0 {
            return Ok(());
        }
        if let Some(frame) = self.frames.last() {
            self.member = self.automaton.member(frame.set, token, escaped)?;
        }
        Ok(())
    }

    /// The set of the value that begins; call it once per value.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> SetId {
        if self.settled_depth > 0 {
            return self.settled;
        }
        match self.frames.last_mut() {
            None => self.automaton.start(),
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
        self.frames.push(Frame { set, container, index: 0, length });
        if self.automaton.is_crowded() {
            self.automaton.forget(self.frames.iter_mut().map(|frame| &mut frame.set));
        }
    }

    /// Leaves the innermost container.
    #[inline]
    pub(crate) fn close(&mut self) {
        match self.settled_depth {
            0 => drop(self.frames.pop()),
            _ => self.settled_depth -= 1,
        }
    }
}
