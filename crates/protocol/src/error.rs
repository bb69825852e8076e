//! Errors of a frame, a message or its content, and the error object of a response.
//!
//! Errors contain no value of the caller's data: fields, indexes, offsets and kinds describe the problem. Names that the peer chose
//! (a field, a method) are shown only if they look like names, because a confused client may send data there.

use std::fmt;
use std::time::Duration;

use leafseal_errors::{ErrorCode, Interface, Retry};
use thiserror::Error;

use crate::field::{Field, WireType};
use crate::values::ValueError;
use crate::wire::HeadError;
use crate::words::WordList;

/// The stream cannot be cut into frames any further; the connection has to end. Offsets count from the frame's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame is longer than the limit, by its own account or by what it must still hold.
    #[error("frame of at least {size_min} bytes exceeds the limit of {limit} (seen at byte {offset})")]
    TooLarge {
        /// Offset of the length or count.
        offset: usize,
        /// The least size that the frame would have, in bytes.
        size_min: u64,
        /// `Limits::frame_size_max`.
        limit: usize,
    },
    /// Containers are nested too deeply.
    #[error("frame nests deeper than {limit} levels (seen at byte {offset})")]
    TooDeep {
        /// Where the container begins that is one too deep.
        offset: usize,
        /// `Limits::depth_max`.
        limit: usize,
    },
    /// An array or map claims too many elements.
    #[error("container of {count} elements exceeds the limit of {limit} (seen at byte {offset})")]
    TooManyElements {
        /// Where the container begins.
        offset: usize,
        /// Elements or pairs that it claims.
        count: u32,
        /// `Limits::elements_max`.
        limit: u32,
    },
    /// The byte 0xc1, which MessagePack never uses.
    #[error("byte {offset} is 0xc1, which MessagePack does not use")]
    ReservedMarker {
        /// The offset.
        offset: usize,
    },
}

impl FrameError {
    /// The code under which the engine reports it, in the notification before it closes the connection.
    pub fn code(&self) -> ErrorCode {
        match self {
            FrameError::TooLarge { .. } | FrameError::TooManyElements { .. } => ErrorCode::TooLarge,
            FrameError::TooDeep { .. } | FrameError::ReservedMarker { .. } => ErrorCode::InvalidFrame,
        }
    }
}

/// A frame that is no MessagePack-RPC message.
///
/// With an id, the request can be answered with `invalid_request` and the connection continues; without one, the peer does not
/// follow the protocol and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{fault}")]
pub struct MessageError {
    /// Id of the request, where the message is one and its id could be read.
    pub id: Option<u32>,
    /// The fault.
    pub fault: MessageFault,
}

/// A fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageFault {
    /// The frame is not an array.
    #[error("a message must be an array, not {0}")]
    NotAnArray(WireType),
    /// The first element is none of 0, 1, 2.
    #[error("a message must begin with its type: 0 (request), 1 (response) or 2 (notification)")]
    UnknownType,
    /// Requests and responses have four elements, notifications three.
    #[error("a message of this type must have {expected} elements, not {found}")]
    WrongLength {
        /// Elements that the message type has.
        expected: u32,
        /// Elements that came.
        found: u32,
    },
    /// The id is not an integer from 0 to 2^32 − 1.
    #[error("a message id must be an integer from 0 to 4294967295")]
    InvalidId,
    /// The method is not a UTF-8 string.
    #[error("the method must be a UTF-8 string")]
    InvalidMethod,
    /// The parameters are not an array.
    #[error("the parameters must be an array, not {0}")]
    ParamsNotAnArray(WireType),
    /// The bytes end early or hold 0xc1. Cannot happen to a frame that the scanner passed.
    #[error("the message is not well-formed MessagePack")]
    Malformed,
}

/// A fault of parameters, a result or an error object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ContentError {
    /// The method takes exactly one map, in the array of parameters.
    #[error("params must be an array of exactly one map of fields by name")]
    ParamsNotOneMap,
    /// `cancel` takes exactly one id.
    #[error("params must be an array of exactly one message id, an integer from 0 to 4294967295")]
    ParamsNotOneId,
    /// A result or error object is a map.
    #[error("expected a map, found {0}")]
    NotAMap(WireType),
    /// The key of a map is not a string.
    #[error("field names must be strings, not {0}")]
    FieldNameNotString(WireType),
    /// The method has no such field.
    #[error("unknown field{0}")]
    UnknownField(ShownName),
    /// A field occurs twice in one map.
    #[error("duplicate field `{0}`")]
    DuplicateField(Field),
    /// A field that the method needs is not there.
    #[error("field `{0}` is missing")]
    MissingField(Field),
    /// A field holds what it may not.
    #[error("field `{field}`: {fault}")]
    Field {
        /// The field.
        field: Field,
        /// The fault.
        fault: FieldFault,
    },
    /// An element of a list is wrong.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The bytes end early or hold 0xc1. Cannot happen to a frame that the scanner passed.
    #[error("not well-formed MessagePack")]
    Malformed,
}

impl From<HeadError> for ContentError {
    fn from(_: HeadError) -> Self {
        ContentError::Malformed
    }
}

/// A fault of the content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldFault {
    /// Another kind of value is needed.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: WireType,
    },
    /// The word is none of those that the field accepts.
    #[error("expected {}", words.joined("`", ", ", " or "))]
    NoneOf {
        /// The words.
        words: &'static WordList,
    },
    /// A part is none of the words that the field accepts, or occurs twice.
    #[error("expected {}, each at most once, separated by commas", words.joined("`", ", ", " or "))]
    NotSomeOf {
        /// The words.
        words: &'static WordList,
    },
    /// The right kind, but not a value that the field takes.
    #[error("expected {expected}")]
    OutOfRange {
        /// The expected type.
        expected: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("the string is not UTF-8")]
    InvalidUtf8,
}

/// A name that the peer sent, kept for an error message only where it consists of 1 to 32 characters of `[a-z_]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownName(Option<Box<str>>);

impl ShownName {
    pub(crate) fn of(name: &[u8]) -> Self {
        let shown = (1..=32).contains(&name.len()) && name.iter().all(|b| b.is_ascii_lowercase() || *b == b'_');
        ShownName(shown.then(|| String::from_utf8_lossy(name).into()))
    }
}

impl fmt::Display for ShownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, " `{name}`"),
            None => f.write_str(" (its name is not shown, for it does not look like one)"),
        }
    }
}

/// The error of a response, as the engine builds it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message}")]
pub struct ErrorObject {
    /// The error code.
    pub code: ErrorCode,
    /// One sentence for a developer; no secrets, no plaintext. Not stable.
    pub message: String,
    /// Position in the request's list of the first value at fault.
    pub index: Option<u64>,
    /// Byte position in the document or selector.
    pub offset: Option<u64>,
    /// The delay in milliseconds before a retry, if known.
    pub retry_after_ms: Option<u64>,
}

impl ErrorObject {
    /// An error about the request as a whole.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ErrorObject { code, message: message.into(), index: None, offset: None, retry_after_ms: None }
    }

    /// The same error, about one element of a list.
    pub fn at_index(self, index: u64) -> Self {
        ErrorObject { index: Some(index), ..self }
    }

    /// The same error, about a byte of a document or selector.
    pub fn at_offset(self, offset: u64) -> Self {
        ErrorObject { offset: Some(offset), ..self }
    }

    /// The same error, with a pause after which to try again; in whole milliseconds, upwards.
    pub fn retry_after(self, pause: Duration) -> Self {
        let milliseconds = pause.as_nanos().div_ceil(1_000_000);
        ErrorObject { retry_after_ms: Some(u64::try_from(milliseconds).unwrap_or(u64::MAX)), ..self }
    }
}

impl From<ContentError> for ErrorObject {
    /// `invalid_params`, with the index where a list's element is at fault.
    fn from(error: ContentError) -> Self {
        let index = match &error {
            ContentError::Value(value) => Some(value.index),
            _ => None,
        };
        ErrorObject { index, ..ErrorObject::new(ErrorCode::InvalidParams, error.to_string()) }
    }
}

impl From<ValueError> for ErrorObject {
    fn from(error: ValueError) -> Self {
        ContentError::from(error).into()
    }
}

impl From<FrameError> for ErrorObject {
    fn from(error: FrameError) -> Self {
        ErrorObject::new(error.code(), error.to_string())
    }
}

impl From<MessageError> for ErrorObject {
    fn from(error: MessageError) -> Self {
        ErrorObject::new(ErrorCode::InvalidRequest, error.to_string())
    }
}

/// The error of a response, as a client reads it. Its engine may be newer: the code can be one that this crate lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteError<'a> {
    /// The code on the wire; [`ErrorCode::parse`] accepts those of this version.
    pub code: &'a str,
    /// One sentence for a developer.
    pub message: &'a str,
    /// Retry advice; an unknown word counts as [`Retry::Never`].
    pub retry: Retry,
    /// Position in the request's list of the first value at fault.
    pub index: Option<u64>,
    /// Byte position in the document or selector.
    pub offset: Option<u64>,
    /// The delay in milliseconds before a retry, if the engine gives one.
    pub retry_after_ms: Option<u64>,
}

impl RemoteError<'_> {
    /// The code, if this version supports it.
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(self.code).filter(|code| code.interfaces().contains(&Interface::Rpc))
    }
}
