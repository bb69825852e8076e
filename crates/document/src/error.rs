//! Errors of a document, a string token or a selector.
//!
//! Each error is a small kind and a byte offset. None carries a byte of the document: what we walk is plaintext that is
//! about to be encrypted. A selector is no secret, but an error about it points into it all the same instead of quoting it.

use std::fmt;

use thiserror::Error;

use crate::encoding::OtherEncoding;

/// The token that the grammar requires where a document has something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any JSON value.
    Value,
    /// A member name or `}`: right after `{`.
    NameOrEnd,
    /// A member name: after a comma in an object.
    Name,
    /// The colon between name and value.
    Colon,
    /// A value or `]`: right after `[`.
    ValueOrEnd,
    /// `,` or `}`.
    CommaOrObjectEnd,
    /// `,` or `]`.
    CommaOrArrayEnd,
    /// Nothing but white space: the document's one value is over.
    EndOfDocument,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Value => "a value",
            Expected::NameOrEnd => "a member name or '}'",
            Expected::Name => "a member name",
            Expected::Colon => "':'",
            Expected::ValueOrEnd => "a value or ']'",
            Expected::CommaOrObjectEnd => "',' or '}'",
            Expected::CommaOrArrayEnd => "',' or ']'",
            Expected::EndOfDocument => "the end of the document",
        })
    }
}

/// Why a document was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentErrorKind {
    /// Nothing at all, or nothing but white space.
    Empty,
    /// A UTF-8 byte order mark elsewhere than at the start, where it is ignored (RFC 8259, section 8.1).
    ByteOrderMark,
    /// It is encoded in UTF-16 or UTF-32.
    OtherEncoding(OtherEncoding),
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// It ends in the middle of its value.
    UnexpectedEnd,
    /// Something else than the grammar allows there.
    Unexpected(Expected),
    /// A raw character below U+0020 in a string.
    ControlCharacter,
    /// A backslash followed by none of `"\/bfnrt` or `u` and four hexadecimal digits.
    InvalidEscape,
    /// Half of a UTF-16 surrogate pair in a string whose text is needed: RFC 8259 permits it, but it is no Unicode text.
    LoneSurrogate,
    /// A number outside the grammar: a digit is missing.
    InvalidNumber,
    /// A word that is not `true`, `false` or `null`.
    InvalidLiteral,
    /// Deeper than `depth_max` allows; the number is that limit.
    TooDeep(usize),
    /// Longer than `document_size_max` allows; the number is that limit, the offset is the document's size.
    TooLarge(usize),
    /// More values than `tree_nodes_max` allows, for a selection with a filter; the number is that limit.
    TooManyNodes(usize),
    /// A filter visited more values than `filter_steps_max`; the number is that limit.
    FilterTooCostly(u64),
    /// A filter compares a string or number that is longer than `filter_comparison_max`, the number given.
    ComparisonTooLong(usize),
    /// A filter compares an object that has more members than `filter_members_max`, the number given.
    TooManyMembers(usize),
    /// A pattern of `match` or `search` needs more memory than `pattern_size_max`, the number given.
    PatternTooLarge(usize),
    /// A member whose name equals one of a selector only where case does not count, under [`crate::OtherCase::Refuse`].
    AmbiguousName,
    /// A member whose name has characters of paths and cannot be followed as one, under [`crate::Selection::guard`].
    PathName,
    /// A name that occurs twice in its object where a selector looks at it, under [`crate::SelectionBuilder::unambiguous`].
    DuplicateName,
    /// No object around a match has a context.
    ContextMissing,
    /// A name on the path to the context of a match occurs twice in its object.
    DuplicateContext,
    /// The context of a match is neither a string nor an integer, is empty, or is longer than the number of bytes given.
    ContextValue(usize),
    /// A context is itself a match.
    ContextSelected,
    /// More objects than `tree_nodes_max`, among them those that have a context; the number is that limit.
    TooManyContexts(usize),
    /// The path of a match is longer than the number of bytes given.
    PathTooLong(usize),
    /// Not a JSON Patch (RFC 6902): not a list of operations with exactly its members.
    NotAPatch,
    /// A `path` or `from` that is not a JSON Pointer (RFC 6901).
    PatchPath,
    /// A `move` or `copy` to where selectors look for something else than at its source.
    PatchMove,
    /// A value that an operation puts where selectors look for others, under [`crate::PatchWalk::strict`].
    PatchUnmatched,
    /// The selector of this number, counted from 0, selected nothing, under [`crate::Walk::strict`]. The offset is the start of the
    /// document, or of the line that is one.
    Unmatched(usize),
    /// A value that a filter compares, and that parsers read differently, under [`crate::SelectionBuilder::unambiguous`].
    AmbiguousOperand,
    /// A carriage return within a line of JSON Lines, where some readers end it, under [`crate::SelectionBuilder::unambiguous`].
    CarriageReturn,
}

/// A document that was refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", document_message(*.kind, *.offset))]
pub struct DocumentError {
    /// The kind of fault.
    pub kind: DocumentErrorKind,
    /// Bytes from the document's start to the fault.
    pub offset: usize,
}

impl DocumentError {
    pub(crate) fn new(kind: DocumentErrorKind, offset: usize) -> Self {
        DocumentError { kind, offset }
    }

    /// The same in a document of which this one is a part, from `start` on.
    pub(crate) fn moved(self, start: usize) -> Self {
        DocumentError { offset: self.offset + start, ..self }
    }

    pub(crate) fn unexpected(expected: Expected, offset: usize) -> Self {
        DocumentError::new(DocumentErrorKind::Unexpected(expected), offset)
    }
}

const MARK_ADVICE: &str = "remove it, because only the start of a document may have one";
const ENCODING_ADVICE: &str = "convert it to UTF-8, in which JSON must be (RFC 8259, section 8.1)";
const OPERATION_ADVICE: &str = "send op, path, from and value alone";
const MOVE_ADVICE: &str = "which selectors select: send the value with add";
const SURROGATE_ADVICE: &str = "which is no text: write the pair in full, or do not select the value";

/// The message of a fault of a match's context, or of its path.
fn context_fault(kind: DocumentErrorKind, offset: usize) -> impl fmt::Display {
    fmt::from_fn(move |f| match kind {
        DocumentErrorKind::ContextMissing => write!(
            f,
            "no object around the value at byte {offset} has the member of context_select: add it, or do not select the value"
        ),
        DocumentErrorKind::DuplicateContext => {
            write!(
                f,
                "the name at byte {offset}, on the path of context_select, occurs twice in its object: send it once"
            )
        }
        DocumentErrorKind::ContextValue(max) => write!(
            f,
            "the value at byte {offset}, to which context_select leads, is no context: it must be a string of 1 to {max} bytes, \
             or an integer of as many digits without fraction and exponent"
        ),
        DocumentErrorKind::ContextSelected => write!(
            f,
            "the value at byte {offset} is selected, as all are without selectors, but is the context of the values around it: \
             select the others alone, or choose another context_select"
        ),
        DocumentErrorKind::TooManyContexts(max) => {
            write!(
                f,
                "more than {max} objects at byte {offset}, the limit with context_select: raise document.tree_nodes_max"
            )
        }
        DocumentErrorKind::PathTooLong(max) => {
            write!(
                f,
                "the path to the value at byte {offset} has more than {max} bytes, the limit with bind: shorten its names"
            )
        }
        _ => Ok(()),
    })
}

/// A fault of a member's name.
fn name_fault(kind: DocumentErrorKind) -> &'static str {
    match kind {
        DocumentErrorKind::AmbiguousName => "differs from a selected one in case alone",
        DocumentErrorKind::PathName => {
            "has characters of paths and is too long, or the selectors too many, to look for what it leads to: shorten it"
        }
        _ => "occurs twice in its object, where a selector looks at it: send it once",
    }
}

/// The message of an error. Most kinds name their place in the middle of it.
fn document_message(kind: DocumentErrorKind, offset: usize) -> impl fmt::Display {
    fmt::from_fn(move |f| match kind {
        DocumentErrorKind::Empty => write!(f, "the document is empty"),
        DocumentErrorKind::ByteOrderMark => {
            write!(f, "a byte order mark at byte {offset}: {MARK_ADVICE}")
        }
        DocumentErrorKind::OtherEncoding(encoding) => {
            write!(f, "the document is encoded in {encoding}: {ENCODING_ADVICE}")
        }
        DocumentErrorKind::InvalidUtf8 => write!(f, "invalid UTF-8 at byte {offset}"),
        DocumentErrorKind::UnexpectedEnd => write!(f, "the document ends too early, at byte {offset}"),
        DocumentErrorKind::Unexpected(expected) => write!(f, "expected {expected} at byte {offset}"),
        DocumentErrorKind::ControlCharacter => {
            write!(f, "unescaped control character in a string at byte {offset}")
        }
        DocumentErrorKind::InvalidEscape => write!(f, "invalid escape sequence at byte {offset}"),
        DocumentErrorKind::LoneSurrogate => {
            write!(f, "the escape sequence at byte {offset} is half of a UTF-16 surrogate pair, {SURROGATE_ADVICE}")
        }
        DocumentErrorKind::InvalidNumber => write!(f, "invalid number: expected a digit at byte {offset}"),
        DocumentErrorKind::InvalidLiteral => write!(f, "expected true, false or null at byte {offset}"),
        DocumentErrorKind::TooDeep(max) => write!(f, "nested deeper than {max} levels at byte {offset}"),
        DocumentErrorKind::TooLarge(max) => write!(f, "the document has {offset} bytes, the limit is {max}"),
        DocumentErrorKind::TooManyNodes(max) => {
            write!(f, "more than {max} values, the limit for selectors with filters, at byte {offset}")
        }
        DocumentErrorKind::FilterTooCostly(max) => {
            write!(f, "the selectors' filters would look at more than {max} values")
        }
        DocumentErrorKind::ComparisonTooLong(max) => {
            write!(f, "a filter compares more than {max} bytes of a value, at byte {offset}")
        }
        DocumentErrorKind::TooManyMembers(max) => {
            write!(f, "a filter compares an object with more than {max} members, at byte {offset}")
        }
        DocumentErrorKind::AmbiguousName | DocumentErrorKind::PathName | DocumentErrorKind::DuplicateName => {
            write!(f, "the member name at byte {offset} {}", name_fault(kind))
        }
        DocumentErrorKind::NotAPatch => {
            write!(f, "not an operation of a JSON Patch (RFC 6902) at byte {offset}: {OPERATION_ADVICE}")
        }
        DocumentErrorKind::PatchPath => write!(f, "not a JSON Pointer (RFC 6901) at byte {offset}"),
        DocumentErrorKind::PatchMove => {
            write!(f, "the operation moves a value to the path at byte {offset}, {MOVE_ADVICE}")
        }
        DocumentErrorKind::PatchUnmatched => {
            write!(f, "the value at byte {offset} has another shape than the selectors expect at its path")
        }
        DocumentErrorKind::Unmatched(selector) => write!(f, "selector {selector} matched no value"),
        DocumentErrorKind::AmbiguousOperand => {
            write!(
                f,
                "a filter compares the value at byte {offset}, which parsers read differently: send numbers that a double holds \
                 exactly, and no U+0000"
            )
        }
        DocumentErrorKind::CarriageReturn => {
            write!(
                f,
                "a carriage return within a line, at byte {offset}, where some readers end it: write lines without one"
            )
        }
        DocumentErrorKind::PatternTooLarge(max) => {
            write!(f, "a pattern of match or search takes more than {max} bytes: write a simpler one")
        }
        _ => write!(f, "{}", context_fault(kind, offset)),
    })
}

/// Why a string token has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TextErrorKind {
    /// It does not begin and end with a quotation mark, or holds a bare one.
    #[error("not a JSON string")]
    NotAString,
    /// Bytes that are not UTF-8.
    #[error("invalid UTF-8 in a string")]
    InvalidUtf8,
    /// A backslash followed by none of `"\/bfnrt` or `u` and four hexadecimal digits.
    #[error("invalid escape sequence in a string")]
    InvalidEscape,
    /// `\uD800` to `\uDFFF` without its other half: RFC 8259 permits it in a document, but it is not Unicode text.
    #[error("lone surrogate in a string, which is not valid Unicode")]
    LoneSurrogate,
}

/// A string token that could not be turned into text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{kind} at byte {offset} of the token")]
pub struct TextError {
    /// The kind of fault.
    pub kind: TextErrorKind,
    /// Bytes from the token's opening quotation mark to the fault.
    pub offset: usize,
}

impl TextError {
    /// The same fault in a document in which the token begins at byte `start`.
    pub fn at(self, start: usize) -> DocumentError {
        let kind = match self.kind {
            TextErrorKind::NotAString => DocumentErrorKind::Unexpected(Expected::Value),
            TextErrorKind::InvalidUtf8 => DocumentErrorKind::InvalidUtf8,
            TextErrorKind::InvalidEscape => DocumentErrorKind::InvalidEscape,
            TextErrorKind::LoneSurrogate => DocumentErrorKind::LoneSurrogate,
        };
        DocumentError::new(kind, start + self.offset)
    }
}

/// Why a selector was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectorErrorKind {
    /// The grammar of RFC 9535 requires something else there; the text says what.
    #[error("expected {0}")]
    Expected(&'static str),
    /// An index, slice bound or step outside −(2^53 − 1) to 2^53 − 1 (RFC 9535, section 2.1).
    #[error("integer outside -(2^53-1) to 2^53-1")]
    IntegerRange,
    /// A function other than `length`, `count`, `match`, `search` and `value`.
    #[error("unknown function: the functions are length, count, match, search and value")]
    UnknownFunction,
    /// A function with the wrong number of arguments; the number is the right one.
    #[error("the function takes {0} argument(s)")]
    ArgumentCount(usize),
    /// Grammatical, but ill-typed (RFC 9535, section 2.4.3); the text gives the required type.
    #[error("{0}")]
    Type(&'static str),
    /// The selector is longer than `selector_length_max`, the number given.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// More selectors than `selectors_max`, the number given.
    #[error("more than {0} selectors")]
    TooMany(usize),
    /// More segments, and selectors in them, than `segments_max`, the number given.
    #[error("more than {0} segments in all selectors together")]
    TooManySegments(usize),
    /// More calls of `match` and `search` than `patterns_max`, the number given.
    #[error("more than {0} calls of match and search in all selectors together")]
    TooManyPatterns(usize),
    /// Nested deeper than `filter_depth_max`, the number given.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
}

/// A selector that was refused: which one, where in it, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("selector {selector}, byte {position}: {kind}")]
pub struct SelectorError {
    /// Which of the selectors given, counted from 0.
    pub selector: usize,
    /// Bytes from that selector's start to the fault.
    pub position: usize,
    /// The kind of fault.
    pub kind: SelectorErrorKind,
}
