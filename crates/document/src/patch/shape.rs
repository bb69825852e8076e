//! Whether a document has the shape of a patch, or holds one: what a lenient reader would apply as one, also in another case or without its
//! array.

use crate::error::DocumentError;
use crate::fold::folded;
use crate::limits::DocumentLimits;
use crate::machine::{Container, FallibleSink, GrammarScalar, Reach, Sink};
use crate::text::unescape;
use crate::walker::Pass;

/// Longest name or word that is read, in escaped form: `operations`, each character as `\uXXXX`, a NUL, and some white space.
const WORD_SIZE_MAX: usize = 2 + 6 * 24;
/// Bytes that are searched in about the time in which one is walked.
const SEARCH_FACTOR: usize = 4;
/// How the name `op` ends, however it is written.
const NAMES: [&[u8]; 5] = [b"op\"", b"OP\"", b"Op\"", b"oP\"", b"\\u00"];
const NAME_SIZE: usize = 4;
/// The operations of RFC 6902.
const OPERATIONS: [&str; 6] = ["add", "copy", "move", "remove", "replace", "test"];

/// The shapes of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchShape {
    /// An operation with `op` and `path`, or a list with one (RFC 6902), and no patch inside of it.
    Json,
    /// `Operations` with an `op` (RFC 7644, section 3.5.2), anywhere in the document.
    Scim,
    /// An operation with `op` and `path` elsewhere in the document.
    Inner,
}

/// A walk that finds the shape of a document, which is passed in each call.
#[derive(Debug)]
pub struct ShapeWalk {
    /// How many bytes contain no name `op`; `None` once one was found.
    searched: Option<usize>,
    pass: Pass,
    sink: ShapeReader,
}

impl ShapeWalk {
    /// Starts a walk.
    pub fn new(limits: &DocumentLimits) -> ShapeWalk {
        ShapeWalk { searched: Some(0), pass: Pass::checking(limits), sink: ShapeReader::default() }
    }

    /// Whether no name `op` was found so far, so that the document itself has not been walked yet.
    pub fn is_searching(&self) -> bool {
        self.searched.is_some()
    }

    /// Continues for about `bytes_max` bytes; returns the result at the end: `None` for a document without such a shape.
    ///
    /// # Errors
    /// The document is not well-formed.
    pub fn advance(&mut self, document: &[u8], bytes_max: usize) -> Result<Option<Option<PatchShape>>, DocumentError> {
        if let Some(from) = self.searched {
            let to = document.len().min(from.saturating_add(bytes_max.saturating_mul(SEARCH_FACTOR)));
            let piece = &document[from..document.len().min(to + NAME_SIZE)];
            let is_found = NAMES.into_iter().any(|name| memchr::memmem::find(piece, name).is_some());
            self.searched = if is_found { None } else { Some(to) };
            return Ok((!is_found && to == document.len()).then_some(None));
        }
        let reach = self.pass.run(document, bytes_max, &mut self.sink)?;
        let is_over = self.sink.is_full() || reach == Reach::Finished;
        Ok(is_over.then_some(self.sink.found))
    }
}

/// The last member of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    #[default]
    Other,
    Op,
    Operations,
}

/// An open object or array.
#[derive(Debug)]
struct ShapeFrame {
    container: Container,
    /// Whether it is the root, or an element of a root that is a list.
    is_outer: bool,
    /// Whether it is the value of `Operations`, or an element of it.
    is_of_scim: bool,
    has_op: bool,
    has_path: bool,
    member: Member,
}

#[derive(Debug, Default)]
struct ShapeReader {
    frames: Vec<ShapeFrame>,
    found: Option<PatchShape>,
}

impl ShapeReader {
    /// Records what the innermost object is.
    fn conclude(&mut self) {
        let Some(frame) = self.frames.last().filter(|frame| frame.has_op) else { return };
        let shape = match frame {
            ShapeFrame { is_of_scim: true, .. } => PatchShape::Scim,
            ShapeFrame { has_path: false, .. } => return,
            ShapeFrame { is_outer: true, .. } => PatchShape::Json,
            _ => PatchShape::Inner,
        };
        if !self.is_full() {
            self.found = Some(shape);
        }
    }
}

impl FallibleSink for ShapeReader {}

impl Sink for ShapeReader {
    fn name(&mut self, document: &[u8], start: usize, end: usize, _escaped: bool) {
        let Some(frame) = self.frames.last_mut() else { return };
        let mut scratch = String::new();
        let name = word(&document[start..end], &mut scratch);
        frame.member = match name.as_deref() {
            Some("op") => Member::Op,
            Some("operations") => Member::Operations,
            _ => Member::Other,
        };
        // Some libraries write a path as a list of names.
        frame.has_path |= name.as_deref() == Some("path");
        self.conclude();
    }

    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: GrammarScalar) {
        let Some(frame) = self.frames.last_mut().filter(|frame| frame.member == Member::Op) else { return };
        frame.has_op |= match scalar {
            GrammarScalar::String { .. } => {
                let mut scratch = String::new();
                let word = word(&document[start..end], &mut scratch);
                word.is_some_and(|word| is_operation(word.trim()))
            }
            // Some mappers read the number of an operation.
            GrammarScalar::Number => true,
            GrammarScalar::Boolean | GrammarScalar::Null => false,
        };
        self.conclude();
    }

    fn open(&mut self, _start: usize, container: Container) {
        let (is_outer, is_of_scim) = match self.frames.last() {
            None => (true, false),
            Some(parent) => {
                let is_list = parent.container == Container::Array;
                let is_of_scim = parent.member == Member::Operations || is_list && parent.is_of_scim;
                (is_list && self.frames.len() == 1, is_of_scim)
            }
        };
        let (has_op, has_path, member) = (false, false, Member::Other);
        self.frames.push(ShapeFrame { container, is_outer, is_of_scim, has_op, has_path, member });
    }

    fn close(&mut self, _end: usize) {
        self.frames.pop();
    }

    fn is_full(&self) -> bool {
        matches!(self.found, Some(PatchShape::Scim | PatchShape::Inner))
    }
}

/// The folded text of a short string, up to a NUL, at which parsers in C end it.
fn word(token: &[u8], scratch: &mut String) -> Option<String> {
    if token.len() > WORD_SIZE_MAX {
        return None;
    }
    let text = unescape(token, scratch).ok()?;
    Some(folded(text.split('\0').next().unwrap_or_default()))
}

/// Whether a mapper reads this as an operation: its name, or its number as a text.
fn is_operation(word: &str) -> bool {
    OPERATIONS.contains(&word) || !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}
