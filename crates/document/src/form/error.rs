//! Errors of a form. No error carries a byte of it.

use std::fmt;

use thiserror::Error;

/// Why a form was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormErrorKind {
    /// More fields than `fields_max`, the number given.
    TooManyFields(usize),
    /// A selected value that is not UTF-8 once its encoding is undone.
    InvalidUtf8,
    /// The body does not begin with its boundary.
    NoBoundary,
    /// The boundary occurs where it does not separate parts: within a line, or followed by other text.
    StrayBoundary,
    /// The body ends before its last boundary.
    UnexpectedEnd,
    /// Bytes after the last boundary.
    TrailingData,
    /// A part's header that is longer than `part_header_size_max`, the number given, or has no end.
    HeaderTooLong(usize),
    /// A part's header with a line that is none: no colon, a folded line, a bare line end, a control character.
    InvalidHeader,
    /// A part without exactly one `Content-Disposition: form-data` with exactly one name.
    InvalidDisposition,
    /// A selected part in another encoding or charset, or a part that itself consists of parts.
    EncodedPart,
    /// A field `_charset_` that names another charset than UTF-8.
    ForeignCharset,
    /// A `;` after which some parsers find a selected field, while others read it as part of a value.
    Semicolon,
    /// A name that some readers take for a selected one and others do not, or that has no single reading.
    AmbiguousName,
    /// A name that is longer than `name_size_max`, the number given.
    NameTooLong(usize),
}

/// A form that was refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", message(*.kind, *.offset))]
pub struct FormError {
    /// The kind of fault.
    pub kind: FormErrorKind,
    /// Bytes from the body's start to the fault, or to the line or part that holds it.
    pub offset: usize,
}

impl FormError {
    pub(crate) fn new(kind: FormErrorKind, offset: usize) -> Self {
        FormError { kind, offset }
    }
}

/// The message of an error. Most kinds name their place in the middle of it.
fn message(kind: FormErrorKind, offset: usize) -> impl fmt::Display {
    fmt::from_fn(move |f| match kind {
        FormErrorKind::TooManyFields(max) => write!(f, "the form has more than {max} fields"),
        FormErrorKind::InvalidUtf8 => write!(f, "the form's value at byte {offset} is not UTF-8"),
        FormErrorKind::NoBoundary => write!(f, "the form does not begin with its boundary"),
        FormErrorKind::StrayBoundary => {
            write!(f, "the form's boundary stands where it cuts nothing, at byte {offset}")
        }
        FormErrorKind::UnexpectedEnd => write!(f, "the form ends before its last boundary"),
        FormErrorKind::TrailingData => write!(f, "the form continues behind its last boundary, at byte {offset}"),
        FormErrorKind::HeaderTooLong(max) => {
            write!(f, "the header of the part at byte {offset} has no end within {max} bytes")
        }
        FormErrorKind::InvalidHeader => write!(f, "a header line of the part at byte {offset} is malformed"),
        FormErrorKind::InvalidDisposition => {
            write!(f, "the part at byte {offset} does not say once that it is form-data of one name")
        }
        FormErrorKind::EncodedPart => {
            write!(f, "the part at byte {offset} is selected and encoded, or made of parts itself")
        }
        FormErrorKind::ForeignCharset => write!(f, "the form is not in UTF-8, by its field at byte {offset}"),
        FormErrorKind::Semicolon => {
            write!(f, "the form has a `;` in its field at byte {offset} that could begin a selected one")
        }
        FormErrorKind::AmbiguousName => {
            write!(
                f,
                "the field at byte {offset} has a name that some readers take for a selected one: write it exactly so"
            )
        }
        FormErrorKind::NameTooLong(max) => {
            write!(f, "the field at byte {offset} has a name of more than {max} bytes (form_name_size_max)")
        }
    })
}
