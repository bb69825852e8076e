//! Decodes answers from the bytes of a connection as they arrive.

use std::collections::VecDeque;
use std::ffi::CStr;

use fieldseal_protocol::{
    CONNECTION_ERROR, FrameBuffer, FrameError, GOING_AWAY, GoingAway, Health, Limits, Message, READ_SIZE, RawValue,
    RemoteError, ValuesResult, connection_error,
};
use napi::bindgen_prelude::ObjectFinalize;
use napi::{Env, ValueType};
use napi_derive::napi;

use crate::fault::{Code, Result, fault, invalid_argument, of_content, of_frame, of_message, of_node};
use crate::js::{Js, Maker};
use crate::values::give;

/// Splits the bytes of a connection into answers. One for each connection.
#[napi]
pub struct Decoder {
    incoming: Incoming,
    /// The reason of the last `going_away`.
    going_away: Option<GoingAway>,
}

#[napi]
impl Decoder {
    /// `bounds` may have `frameSizeMax`, `elementsMax` and `depthMax`.
    #[napi(constructor, catch_unwind)]
    pub fn new(bounds: Js) -> Result<Decoder> {
        Ok(Decoder { incoming: Incoming::new(limits(bounds)?), going_away: None })
    }

    /// Adds received bytes, which are copied once, into the buffer of their frame. Returns the number of complete messages.
    #[napi(catch_unwind)]
    pub fn push(&mut self, bytes: &[u8]) -> Result<u32> {
        self.incoming.push(bytes).map_err(|error| of_frame(&error))?;
        Ok(u32::try_from(self.incoming.frames.len()).unwrap_or(u32::MAX))
    }

    /// Returns the next complete answer, or null.
    #[napi(catch_unwind)]
    pub fn next(&mut self, env: &Env) -> Result<Option<Answer>> {
        while let Some(frame) = self.incoming.frames.pop_front() {
            self.going_away = going_away(&frame).or(self.going_away);
            if let Some(answer) = Answer::of(frame)? {
                env.adjust_external_memory(answer.memory()).map_err(|error| of_node(&error))?;
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// `shutdown`, `age` or `closed` once a notification `going_away` was read; null before.
    #[napi(getter, catch_unwind)]
    pub fn going_away(&self) -> Option<&'static str> {
        self.going_away.map(GoingAway::as_str)
    }

    /// Received bytes of an incomplete answer.
    #[napi(getter, catch_unwind)]
    pub fn partial_size(&self) -> f64 {
        self.incoming.buffer.partial_size() as f64
    }
}

/// Returns the reason if the frame is `going_away`.
fn going_away(frame: &[u8]) -> Option<GoingAway> {
    match Message::parse(frame) {
        Ok(Message::Notification { method: GOING_AWAY, params }) => Some(GoingAway::decode(params)),
        _ => None,
    }
}

fn limits(bounds: Js) -> Result<Limits> {
    let defaults = Limits::default();
    match bounds.kind()? {
        ValueType::Undefined | ValueType::Null => return Ok(defaults),
        ValueType::Object => {}
        _ => return Err(invalid_argument("bounds: expected an object")),
    }
    let number = |name: &CStr, default: usize| -> Result<usize> {
        let Some(number) = bounds.property(name)? else { return Ok(default) };
        whole_number(number, &name.to_string_lossy(), 1.0, f64::from(u32::MAX)).map(|number| number as usize)
    };
    Ok(Limits {
        frame_size_max: number(c"frameSizeMax", defaults.frame_size_max)?,
        depth_max: number(c"depthMax", defaults.depth_max)?,
        elements_max: number(c"elementsMax", defaults.elements_max as usize)? as u32,
    })
}

/// Complete frames, and the incomplete one.
struct Incoming {
    buffer: FrameBuffer,
    frames: VecDeque<Vec<u8>>,
}

impl Incoming {
    fn new(limits: Limits) -> Incoming {
        Incoming { buffer: FrameBuffer::new(limits), frames: VecDeque::new() }
    }

    /// Adds bytes in limited pieces, so that an exceeded limit is detected before further bytes are stored.
    fn push(&mut self, bytes: &[u8]) -> std::result::Result<(), FrameError> {
        for piece in bytes.chunks(READ_SIZE) {
            self.buffer.spare().extend_from_slice(piece);
            while let Some(frame) = self.buffer.next_frame()? {
                self.frames.push_back(frame.into_bytes());
            }
        }
        self.buffer.release_if_empty();
        Ok(())
    }
}

/// An error object of the engine.
#[napi(object)]
pub struct ErrorOfEngine {
    /// Stable; `docs/protocol.md` has the table.
    pub code: String,
    /// One sentence for a developer.
    pub message: String,
    /// `never`, `later` or `elsewhere`.
    pub retry: String,
    /// The minimum delay before a retry, in milliseconds.
    pub retry_after_ms: Option<f64>,
    /// Index of the first invalid value of the request.
    pub index: Option<f64>,
    /// Byte offset in the document or selector.
    pub offset: Option<f64>,
}

impl From<RemoteError<'_>> for ErrorOfEngine {
    fn from(error: RemoteError<'_>) -> Self {
        ErrorOfEngine {
            code: error.code.to_owned(),
            message: error.message.to_owned(),
            retry: error.retry.as_str().to_owned(),
            retry_after_ms: error.retry_after_ms.map(|number| number as f64),
            index: error.index.map(|number| number as f64),
            offset: error.offset.map(|number| number as f64),
        }
    }
}

/// An answer, or the error that ends a connection. It keeps the frame and decodes it on access.
#[napi(custom_finalize)]
pub struct Answer {
    frame: Vec<u8>,
    id: Option<u32>,
    has_failed: bool,
}

impl ObjectFinalize for Answer {
    fn finalize(self, env: Env) -> napi::Result<()> {
        env.adjust_external_memory(-self.memory()).map(drop)
    }
}

#[napi]
impl Answer {
    /// The request that it answers; null for a `connection_error`.
    #[napi(getter, catch_unwind)]
    pub fn id(&self) -> Option<u32> {
        self.id
    }

    /// Bytes of the whole message.
    #[napi(getter, catch_unwind)]
    pub fn size(&self) -> f64 {
        self.frame.len() as f64
    }

    /// The error object; null if the request succeeded.
    #[napi(getter, catch_unwind)]
    pub fn error(&self) -> Result<Option<ErrorOfEngine>> {
        if !self.has_failed {
            return Ok(None);
        }
        let read = match self.message()? {
            Message::Response { result: Err(error), .. } => error.error(),
            Message::Notification { params, .. } => connection_error(params),
            _ => return Ok(None),
        };
        read.map(|error| Some(error.into())).map_err(|error| of_content(&error))
    }

    /// The number of values in the answer to `encrypt` or `decrypt`.
    #[napi(getter, catch_unwind)]
    pub fn count(&self) -> Result<u32> {
        self.list().map(|list| list.values.count())
    }

    /// The values of the answer to `encrypt` or `decrypt`.
    #[napi(catch_unwind)]
    pub fn values(&self, env: &Env) -> Result<Js> {
        give(Maker::new(env), self.list()?.values)
    }

    /// Frees the message now rather than at garbage collection.
    #[napi(catch_unwind)]
    pub fn release(&mut self, env: &Env) -> Result<()> {
        let before = self.memory();
        self.frame = Vec::new();
        env.adjust_external_memory(-before).map(drop).map_err(|error| of_node(&error))
    }

    /// The status in the answer to `health`.
    #[napi(getter, catch_unwind)]
    pub fn status(&self) -> Result<String> {
        let health = Health::decode(self.result()?).map_err(|error| of_content(&error))?;
        Ok(health.status.to_owned())
    }
}

impl Answer {
    /// Returns `None` for unknown notifications, which are skipped.
    fn of(frame: Vec<u8>) -> Result<Option<Answer>> {
        let (id, has_failed) = match Message::parse(&frame).map_err(|error| of_message(&error))? {
            Message::Response { id, result } => (Some(id), result.is_err()),
            Message::Notification { method: CONNECTION_ERROR, .. } => (None, true),
            Message::Notification { .. } => return Ok(None),
            Message::Request { .. } => return Err(fault(Code::InvalidMessage, "an engine sends no requests")),
        };
        Ok(Some(Answer { frame, id, has_failed }))
    }

    fn memory(&self) -> i64 {
        i64::try_from(self.frame.capacity()).unwrap_or(i64::MAX)
    }

    fn message(&self) -> Result<Message<'_>> {
        if self.frame.is_empty() {
            return Err(fault(Code::InvalidAnswer, "the answer was released"));
        }
        Message::parse(&self.frame).map_err(|error| of_message(&error))
    }

    fn result(&self) -> Result<RawValue<'_>> {
        match self.message()? {
            Message::Response { result: Ok(result), .. } => Ok(result),
            _ => Err(fault(Code::InvalidAnswer, "the answer is an error: look at `error` first")),
        }
    }

    /// The list of an answer to `encrypt` or `decrypt`.
    pub(crate) fn list(&self) -> Result<ValuesResult<'_>> {
        ValuesResult::decode(self.result()?).map_err(|error| of_content(&error))
    }
}

/// Converts a JavaScript number that is an integer from `least` to `most`.
pub(crate) fn whole_number(value: Js, name: &str, least: f64, most: f64) -> Result<f64> {
    let number = if value.kind()? == ValueType::Number { Some(value.number()?) } else { None };
    let is_right = |number: &f64| number.fract() == 0.0 && (least..=most).contains(number);
    number
        .filter(is_right)
        .ok_or_else(|| invalid_argument(format!("{name}: expected an integer from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use fieldseal_protocol::{answer, write};

    use super::*;

    fn values_answer(id: u32, values: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        answer::begin_values(id, values.len() as u32, &mut out);
        values.iter().for_each(|value| write::string(value, &mut out));
        out
    }

    #[test]
    fn answers_are_complete_however_they_arrive() {
        let long = "x".repeat(100_000);
        let stream = [values_answer(1, &["a", "b"]), values_answer(2, &[&long]), values_answer(3, &[])].concat();
        for piece in [1, 7, READ_SIZE, stream.len()] {
            let mut incoming = Incoming::new(Limits::default());
            stream.chunks(piece).for_each(|bytes| incoming.push(bytes).unwrap());
            let answers: Vec<_> = incoming.frames.drain(..).map(|frame| Answer::of(frame).unwrap().unwrap()).collect();
            let seen = answers.iter().map(|answer| (answer.id, answer.count().unwrap()));
            assert_eq!(seen.collect::<Vec<_>>(), [(Some(1), 2), (Some(2), 1), (Some(3), 0)], "pieces of {piece}");
            assert_eq!(incoming.buffer.partial_size(), 0);
        }
    }

    #[test]
    fn a_limit_is_checked_before_further_bytes_are_stored() {
        let mut incoming = Incoming::new(Limits { frame_size_max: 1000, ..Limits::default() });
        let claim = values_answer(1, &[&"x".repeat(2000)]);
        let error = incoming.push(&claim).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { limit: 1000, .. }), "{error}");
        assert_eq!(incoming.push(&[0xc0]).unwrap_err(), error, "the stream stays broken");
    }

    #[test]
    fn other_notifications_are_passed_over_and_requests_refused() {
        let mut notification = Vec::new();
        write::array_header(3, &mut notification);
        write::unsigned(2, &mut notification);
        write::string("news", &mut notification);
        write::array_header(0, &mut notification);
        assert!(Answer::of(notification).unwrap().is_none());
        let mut request = Vec::new();
        fieldseal_protocol::request::health(1, &mut request);
        assert_eq!(Answer::of(request).err().map(|fault| fault.status), Some(Code::InvalidMessage));
    }
}
