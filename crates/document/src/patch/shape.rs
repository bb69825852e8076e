//! Whether a document has the shape of a patch: what a lenient reader would apply as one, also in another case or without its array.

use crate::error::DocumentError;
use crate::fold::folded;
use crate::limits::Limits;
use crate::machine::{Container, Reach, Scalar, Sink};
use crate::text::unescape;
use crate::walker::{FallibleSink, Pass};

/// Longest name that is read, in escaped form: `operations`, each character as `\uXXXX`, and a NUL.
const NAME_SIZE_MAX: usize = 2 + 6 * 11;

/// The shapes of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchShape {
    /// An operation with `op` and `path`, or a list with one (RFC 6902).
    Json,
    /// `Operations` with an `op` (RFC 7644, section 3.5.2).
    Scim,
}

/// A walk that finds the shape of a document, which is passed in each call.
#[derive(Debug)]
pub struct ShapeWalk {
    pass: Pass,
    sink: Shape,
}

impl ShapeWalk {
    /// Starts a walk, unless the document cannot have such a shape: no name `op` occurs in it, however escaped.
    pub fn new(document: &[u8], limits: &Limits) -> Option<ShapeWalk> {
        let holds = |part: &[u8]| memchr::memmem::find(document, part).is_some();
        let may_be = [&b"op\""[..], b"OP\"", b"Op\"", b"oP\"", b"\\u00"].into_iter().any(holds);
        may_be.then(|| ShapeWalk { pass: Pass::checking(limits), sink: Shape::default() })
    }

    /// Continues for about `bytes_max` bytes; returns the result at the end: `None` for a document without such a shape.
    ///
    /// # Errors
    /// The document is not well-formed.
    pub fn advance(&mut self, document: &[u8], bytes_max: usize) -> Result<Option<Option<PatchShape>>, DocumentError> {
        let reach = self.pass.run(document, bytes_max, &mut self.sink)?;
        let is_over = self.sink.found.is_some() || reach == Reach::Finished;
        Ok(is_over.then_some(self.sink.found))
    }
}

#[derive(Debug, Default)]
struct Shape {
    depth: usize,
    /// Whether the root is an array, and whether the member of the root that was read last is `Operations`.
    is_list: bool,
    is_in_operations: bool,
    /// Which members the current operation has.
    has_op: bool,
    has_path: bool,
    found: Option<PatchShape>,
}

impl FallibleSink for Shape {}

impl Sink for Shape {
    fn name(&mut self, document: &[u8], start: usize, end: usize, _escaped: bool) {
        let is_root = self.depth == 1 && !self.is_list;
        let is_operation = is_root || (self.depth == 2 && self.is_list);
        let is_of_scim = !self.is_list && self.is_in_operations && (2..=3).contains(&self.depth);
        if !(is_operation || is_of_scim) {
            return;
        }
        let mut scratch = String::new();
        let token = &document[start..end];
        let name = if token.len() <= NAME_SIZE_MAX { unescape(token, &mut scratch).unwrap_or_default() } else { "" };
        let name = folded(name.split('\0').next().unwrap_or_default());
        if is_root {
            self.is_in_operations = name == "operations";
        }
        if is_of_scim && name == "op" {
            self.found = Some(PatchShape::Scim);
        }
        if is_operation {
            self.has_op |= name == "op";
            self.has_path |= name == "path";
            if self.has_op && self.has_path {
                self.found = Some(PatchShape::Json);
            }
        }
    }

    fn scalar(&mut self, _document: &[u8], _start: usize, _end: usize, _scalar: Scalar) {}

    fn open(&mut self, _start: usize, container: Container) {
        if self.depth == 0 {
            self.is_list = container == Container::Array;
        }
        if self.depth <= 1 && self.is_list {
            (self.has_op, self.has_path) = (false, false);
        }
        self.depth += 1;
    }

    fn close(&mut self, _end: usize) {
        self.depth -= 1;
    }

    fn is_full(&self) -> bool {
        self.found.is_some()
    }
}
