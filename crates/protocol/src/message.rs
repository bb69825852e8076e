//! Splits a frame into the parts of a MessagePack-RPC message, without a copy.
//!
//! Specification: <https://github.com/msgpack-rpc/msgpack-rpc/blob/master/spec.md>.

use crate::content::{ERROR_FIELDS, Entries, Unknown, remote_error};
use crate::error::{ContentError, FrameError, MessageError, MessageFault, RemoteError};
use crate::limits::FrameLimits;
pub use crate::raw_params::RawParams;
use crate::scanner::Scanner;
use crate::wire::{HeadError, ValueHead, WireReader};

/// One message. All parts borrow from the frame.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// `[0, id, method, params]`: to be answered exactly once.
    Request {
        /// Chosen by the client; unique among its requests in flight on the connection.
        id: u32,
        /// Name of the method; [`crate::Method::require`] reads it.
        method: &'a str,
        /// Its parameters.
        params: RawParams<'a>,
    },
    /// `[1, id, error, result]`.
    Response {
        /// Id of the request that it answers.
        id: u32,
        /// The result, or the error object where the request failed.
        result: Result<RawValue<'a>, RawValue<'a>>,
    },
    /// `[2, method, params]`: never answered.
    Notification {
        /// Name of the notification.
        method: &'a str,
        /// Its parameters.
        params: RawParams<'a>,
    },
}

impl<'a> Message<'a> {
    /// Reads the message in `frame`, which is one whole frame as [`Scanner::scan`] measured it. Constant time in the
    /// size of the parameters or the result. Other bytes give an error or a message of unspecified content.
    ///
    /// # Errors
    /// If the frame is not a message; [`MessageError::id`] returns whether it can still be answered.
    pub fn parse(frame: &'a [u8]) -> Result<Message<'a>, MessageError> {
        let mut reader = WireReader::new(frame);
        let head = reader.head().map_err(malformed)?;
        let ValueHead::Array(count) = head else {
            return Err(without_id(MessageFault::NotAnArray(head.kind())));
        };
        if count == 0 {
            return Err(without_id(MessageFault::UnknownType));
        }
        match reader.head().map_err(malformed)? {
            ValueHead::Unsigned(0) => parse_request(reader, count),
            ValueHead::Unsigned(1) => parse_response(reader, count),
            ValueHead::Unsigned(2) => parse_notification(reader, count).map_err(without_id),
            _ => Err(without_id(MessageFault::UnknownType)),
        }
    }

    /// As [`Message::parse`], for bytes that no scanner has seen: they must be exactly one frame within `limits`.
    ///
    /// # Errors
    /// [`UnscannedError::Frame`] when a limit is passed, [`UnscannedError::Message`] for anything else, bytes left over
    /// or missing included.
    pub fn parse_unscanned(bytes: &'a [u8], limits: FrameLimits) -> Result<Message<'a>, UnscannedError> {
        match Scanner::new(limits).scan(bytes)? {
            Some(length) if length == bytes.len() => Ok(Message::parse(bytes)?),
            _ => Err(without_id(MessageFault::Malformed).into()),
        }
    }
}

/// Why bytes that were not scanned before are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnscannedError {
    /// They are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// They are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
}

fn parse_request(mut reader: WireReader<'_>, count: u32) -> Result<Message<'_>, MessageError> {
    // The id first, so that whatever else is wrong can be answered.
    let id = parse_id(&mut reader, count)?;
    let with_id = |fault| MessageError { id: Some(id), fault };
    check_length(count, 4).map_err(with_id)?;
    let method = parse_method(&mut reader).map_err(with_id)?;
    let params = RawParams::read(reader).map_err(with_id)?;
    Ok(Message::Request { id, method, params })
}

fn parse_response(mut reader: WireReader<'_>, count: u32) -> Result<Message<'_>, MessageError> {
    let id = parse_id(&mut reader, count)?;
    check_length(count, 4).map_err(without_id)?;
    let error = reader;
    let result = match reader.head().map_err(malformed)? {
        ValueHead::Nil => Ok(RawValue { reader }),
        _ => Err(RawValue { reader: error }),
    };
    Ok(Message::Response { id, result })
}

fn parse_notification(mut reader: WireReader<'_>, count: u32) -> Result<Message<'_>, MessageFault> {
    check_length(count, 3)?;
    let method = parse_method(&mut reader)?;
    let params = RawParams::read(reader)?;
    Ok(Message::Notification { method, params })
}

fn check_length(found: u32, expected: u32) -> Result<(), MessageFault> {
    if found == expected { Ok(()) } else { Err(MessageFault::WrongLength { expected, found }) }
}

fn parse_id(reader: &mut WireReader<'_>, count: u32) -> Result<u32, MessageError> {
    if count < 2 {
        return Err(without_id(MessageFault::WrongLength { expected: 4, found: count }));
    }
    let id = match reader.head().map_err(malformed)? {
        ValueHead::Unsigned(id) => u32::try_from(id).ok(),
        _ => None,
    };
    id.ok_or(without_id(MessageFault::InvalidId))
}

fn parse_method<'a>(reader: &mut WireReader<'a>) -> Result<&'a str, MessageFault> {
    let ValueHead::String(size) = reader.head()? else {
        return Err(MessageFault::InvalidMethod);
    };
    std::str::from_utf8(reader.take(size)?).map_err(|_| MessageFault::InvalidMethod)
}

impl From<HeadError> for MessageFault {
    fn from(_: HeadError) -> Self {
        MessageFault::Malformed
    }
}

fn malformed(error: HeadError) -> MessageError {
    without_id(error.into())
}

fn without_id(fault: MessageFault) -> MessageError {
    MessageError { id: None, fault }
}

/// A result or an error object, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct RawValue<'a> {
    reader: WireReader<'a>,
}

impl<'a> RawValue<'a> {
    /// Reads the value as an error object.
    ///
    /// # Errors
    /// When it is none: another implementation may answer with any value.
    pub fn error(&self) -> Result<RemoteError<'a>, ContentError> {
        remote_error(Entries::of_map(self.reader, ERROR_FIELDS, Unknown::Skip)?)
    }

    pub(crate) fn reader(&self) -> WireReader<'a> {
        self.reader
    }
}
