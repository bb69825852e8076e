//! Errors of a frame, a message or its content, and the error object of a response.
//!
//! Errors contain no value of the caller's data: fields, indexes, offsets and kinds describe the problem. Names that the peer chose
//! (a field, a method) are shown only if they look like names, because a confused client may send data there.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::field::{Field, Kind};
use crate::values::ValueError;
use crate::wire::HeadError;

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
    NotAnArray(Kind),
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
    ParamsNotAnArray(Kind),
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
    NotAMap(Kind),
    /// The key of a map is not a string.
    #[error("field names must be strings, not {0}")]
    FieldNameNotString(Kind),
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
        found: Kind,
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

/// Whether the same request may succeed when it is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same request fails again, here and elsewhere.
    Never,
    /// The same engine may serve it after a pause.
    Later,
    /// Another engine, or a new connection, may serve it at once.
    Elsewhere,
}

impl Retry {
    /// Every case.
    pub const ALL: [Retry; 3] = [Retry::Never, Retry::Later, Retry::Elsewhere];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Retry::Never => "never",
            Retry::Later => "later",
            Retry::Elsewhere => "elsewhere",
        }
    }

    /// The reverse of [`Retry::as_str`].
    pub fn parse(word: &str) -> Option<Retry> {
        Retry::ALL.into_iter().find(|retry| retry.as_str() == word)
    }
}

macro_rules! error_codes {
    ($($variant:ident $name:literal $retry:ident $what:literal),+ $(,)?) => {
        /// The stable codes of errors. New ones may join in a later version; none changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $what] $variant),+
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),+];

            /// The code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name),+ }
            }

            /// The reverse of [`ErrorCode::as_str`].
            pub fn parse(code: &str) -> Option<ErrorCode> {
                match code { $($name => Some(ErrorCode::$variant),)+ _ => None }
            }

            /// The retry advice that goes with the code.
            pub const fn retry(self) -> Retry {
                match self { $(ErrorCode::$variant => Retry::$retry),+ }
            }
        }
    };
}

error_codes! {
    InvalidFrame "invalid_frame" Never "The bytes are not MessagePack or exceed a structural limit; the connection closes.",
    InvalidRequest "invalid_request" Never "The frame is not a message of MessagePack-RPC, or its id is in use.",
    UnknownMethod "unknown_method" Never "The engine has no such method.",
    InvalidParams "invalid_params" Never "A field is unknown, missing, duplicated, of the wrong type or out of range.",
    InvalidDocument "invalid_document" Never "The document is not JSON, or is nested too deeply.",
    InvalidSelector "invalid_selector" Never "A selector is not a valid JSONPath.",
    UnmatchedSelector "unmatched_selector" Never "With `strict`, a selector matched nothing in the document, or in a line of it.",
    AmbiguousName "ambiguous_name" Never "Parsers read a name or a compared value differently: see `other_case` and `unambiguous`.",
    InvalidEnvelope "invalid_envelope" Never "A string or file is not an envelope, or not of a known version.",
    DecryptFailed "decrypt_failed" Never "An envelope did not open: forged, damaged, of another app's key or of a disabled key version.",
    NumberOutOfRange "number_out_of_range" Never "A decrypted number is beyond what MessagePack can carry.",
    UnknownApp "unknown_app" Never "The engine has no such app.",
    AppDisabled "app_disabled" Never "The app is disabled.",
    Forbidden "forbidden" Never "The caller's certificate does not allow this app, operation or role.",
    Overloaded "overloaded" Later "No room is left: in the queue, for frames that arrive, or for answers.",
    DeadlineExceeded "deadline_exceeded" Later "The deadline passed before the work was done.",
    Cancelled "cancelled" Never "The caller cancelled the request.",
    TooLarge "too_large" Never "The frame, document, list or answer exceeds a size limit.",
    Unavailable "unavailable" Elsewhere "The engine is shutting down or lost its key store.",
    Internal "internal" Later "The engine is at fault; its log has the details.",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
        ErrorCode::parse(self.code)
    }
}
