//! Decodes answers from the bytes of a connection as they arrive.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::ops::Range;

use leafseal_protocol::{
    CONNECTION_ERROR, DocumentResult, Field, FileResult, FrameBuffer, FrameError, FrameLimits, GOING_AWAY, GoingAway,
    Health, InfoResult, InspectResult, Inspection, Message, QueryInfo, READ_SIZE, RawValue, RecordValue, RemoteError,
    Reported, ResultShape, RewrapResult, Scalar, ValuesResult, WireRecord, connection_error,
};
use napi::bindgen_prelude::{Buffer, BufferSlice, Object, ObjectFinalize, Uint32Array};
use napi::{Env, ValueType};
use napi_derive::napi;

use crate::fault::{Code, Result, fault, invalid_params, of_content, of_frame, of_message, of_node};
use crate::js::{Js, Maker, string};
use crate::memory::buffer;
use crate::names::{camel_case, query};
use crate::values::give;

/// Splits the bytes of a connection into answers. One for each connection.
#[napi(js_name = "Decoder")]
pub struct WireDecoder {
    incoming: Incoming,
    /// The reason of the last `going_away`.
    going_away: Option<GoingAway>,
}

#[napi]
impl WireDecoder {
    /// `bounds` may have `frameSizeMax`, `elementsMax` and `depthMax`.
    #[napi(constructor, catch_unwind)]
    pub fn new(bounds: Js) -> Result<WireDecoder> {
        Ok(WireDecoder { incoming: Incoming::new(limits(bounds)?), going_away: None })
    }

    /// Adds received bytes, which are copied once, into the buffer of their frame. Returns the number of complete messages.
    #[napi(catch_unwind)]
    pub fn push(&mut self, bytes: &[u8]) -> Result<u32> {
        self.incoming.push(bytes).map_err(|error| of_frame(&error))?;
        Ok(u32::try_from(self.incoming.frames.len()).unwrap_or(u32::MAX))
    }

    /// Returns the next complete answer, or null.
    #[napi(catch_unwind)]
    pub fn next(&mut self, env: &Env) -> Result<Option<WireAnswer>> {
        while let Some(frame) = self.incoming.frames.pop_front() {
            self.going_away = going_away(&frame).or(self.going_away);
            if let Some(answer) = WireAnswer::of(frame)? {
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

fn limits(bounds: Js) -> Result<FrameLimits> {
    let defaults = FrameLimits::default();
    match bounds.kind()? {
        ValueType::Undefined | ValueType::Null => return Ok(defaults),
        ValueType::Object => {}
        _ => return Err(invalid_params("bounds: expected an object")),
    }
    let number = |name: &CStr, default: usize| -> Result<usize> {
        let Some(number) = bounds.property(name)? else { return Ok(default) };
        whole_number(number, &name.to_string_lossy(), 1.0, f64::from(u32::MAX)).map(|number| number as usize)
    };
    Ok(FrameLimits {
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
    fn new(limits: FrameLimits) -> Incoming {
        Incoming { buffer: FrameBuffer::new(limits), frames: VecDeque::new() }
    }

    /// Adds bytes in limited pieces, so that an exceeded limit is detected before further bytes are stored.
    fn push(&mut self, bytes: &[u8]) -> std::result::Result<(), FrameError> {
        for piece in bytes.chunks(READ_SIZE) {
            // One piece of memory for a large answer: copies of it cost as much as reading it.
            self.buffer.reserve_whole();
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
#[napi(custom_finalize, js_name = "Answer")]
pub struct WireAnswer {
    frame: Vec<u8>,
    id: Option<u32>,
    has_failed: bool,
}

impl ObjectFinalize for WireAnswer {
    fn finalize(self, env: Env) -> napi::Result<()> {
        env.adjust_external_memory(-self.memory()).map(drop)
    }
}

#[napi]
impl WireAnswer {
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

    /// The values of the answer to `encrypt` or `decrypt` as few strings, with the place of each value in them, if all values are ASCII
    /// strings; otherwise null.
    #[napi(catch_unwind)]
    pub fn slices(&self, env: &Env) -> Result<Option<SharedTexts>> {
        let values = self.list()?.values;
        let make = Maker::new(env);
        let mut shared = SharedTexts { texts: Vec::new(), counts: Vec::new(), ranges: Uint32Array::new(Vec::new()) };
        let mut ranges = Vec::with_capacity(values.count() as usize * 2);
        // The bytes of the text that is being collected, and how many values are in it.
        let (mut text, mut count) = (0..0, 0);
        for scalar in values.iter() {
            let Scalar::Str(value) = scalar.map_err(|error| of_content(&error.into()))? else { return Ok(None) };
            if !value.as_bytes().is_ascii() {
                return Ok(None);
            }
            let range = range_in(&self.frame, value.as_bytes());
            if count > 0 && range.end - text.start > TEXT_SIZE {
                shared.add(make.latin1(&self.frame[text.clone()])?, count);
                count = 0;
            }
            if count == 0 {
                text.start = range.start;
            }
            text.end = range.end;
            count += 1;
            let (Ok(start), Ok(end)) = (u32::try_from(range.start - text.start), u32::try_from(range.end - text.start))
            else {
                return Ok(None);
            };
            ranges.extend([start, end]);
        }
        // The bytes between the values, their heads, become characters that no range covers.
        shared.add(make.latin1(&self.frame[text])?, count);
        shared.ranges = Uint32Array::new(ranges);
        Ok(Some(shared))
    }

    /// The JSON text of an answer to `encrypt_document` or `decrypt_document`. Hands the message's memory over, so that the text is not
    /// copied; the answer is then released.
    #[napi(catch_unwind)]
    pub fn document<'env>(&mut self, env: &'env Env) -> Result<BufferSlice<'env>> {
        let document = DocumentResult::decode(self.result()?).map_err(|error| of_content(&error))?.document;
        let range = range_in(&self.frame, document);
        self.hand_over(env, range)
    }

    /// The bytes of an answer to `encrypt_file` or `decrypt_file`, as [`WireAnswer::document`].
    #[napi(catch_unwind)]
    pub fn data<'env>(&mut self, env: &'env Env) -> Result<BufferSlice<'env>> {
        let data = FileResult::decode(self.result()?).map_err(|error| of_content(&error))?.data;
        let range = range_in(&self.frame, data);
        self.hand_over(env, range)
    }

    /// The report of an answer to `encrypt`, `decrypt` or `rewrap`, or of one with a document.
    #[napi(catch_unwind)]
    pub fn report(&self) -> Result<ReportOfEngine> {
        let result = self.result()?;
        if let Ok(document) = DocumentResult::decode(result) {
            return ReportOfEngine::of(&document.report, Some(document.count));
        }
        if let Ok(rewrapped) = RewrapResult::decode(result) {
            return ReportOfEngine::of(&rewrapped.report, Some(rewrapped.count));
        }
        let list = ValuesResult::decode(result).map_err(|error| of_content(&error))?;
        ReportOfEngine::of(&list.report, None)
    }

    /// The elements of an answer to `inspect`.
    #[napi(catch_unwind)]
    pub fn inspections<'env>(&self, env: &'env Env) -> Result<Vec<Object<'env>>> {
        let inspected = InspectResult::decode(self.result()?).map_err(|error| of_content(&error))?;
        let object = |one: std::result::Result<Inspection, _>| {
            let one = one.map_err(|error| of_content(&error))?;
            object(env, one.values().into_iter())
        };
        inspected.iter().map(object).collect()
    }

    /// The content of an answer to a query: its fields by name.
    #[napi(catch_unwind)]
    pub fn result_of<'env>(&self, env: &'env Env, method: Js) -> Result<Object<'env>> {
        let result = self.result()?;
        let (ResultShape::Record(fields) | ResultShape::Field(fields)) = query(&string(method, "method")?)?.result
        else {
            let mut facts = Object::new(env).map_err(|error| of_node(&error))?;
            for (name, fact) in InfoResult::decode(result).map_err(|error| of_content(&error))?.facts {
                facts.set(&name, fact).map_err(|error| of_node(&error))?;
            }
            return Ok(facts);
        };
        let values = QueryInfo::values(fields, result).map_err(|error| of_content(&error))?;
        object(env, fields.fields.iter().map(|info| info.field).zip(values))
    }

    /// The status in the answer to `health`.
    #[napi(getter, catch_unwind)]
    pub fn status(&self) -> Result<String> {
        Health::decode(self.result()?).map(|health| health.status).map_err(|error| of_content(&error))
    }

    /// Frees the message now rather than at garbage collection.
    #[napi(catch_unwind)]
    pub fn release(&mut self, env: &Env) -> Result<()> {
        let before = self.memory();
        self.frame = Vec::new();
        env.adjust_external_memory(-before).map(drop).map_err(|error| of_node(&error))
    }
}

impl WireAnswer {
    /// Returns `None` for unknown notifications, which are skipped.
    fn of(frame: Vec<u8>) -> Result<Option<WireAnswer>> {
        let (id, has_failed) = match Message::parse(&frame).map_err(|error| of_message(&error))? {
            Message::Response { id, result } => (Some(id), result.is_err()),
            Message::Notification { method: CONNECTION_ERROR, .. } => (None, true),
            Message::Notification { .. } => return Ok(None),
            Message::Request { .. } => return Err(fault(Code::InvalidMessage, "an engine sends no requests")),
        };
        Ok(Some(WireAnswer { frame, id, has_failed }))
    }

    /// Gives the memory of the message to a Buffer of the bytes in `range`.
    fn hand_over<'env>(&mut self, env: &'env Env, range: Range<usize>) -> Result<BufferSlice<'env>> {
        let before = self.memory();
        let mut frame = std::mem::take(&mut self.frame);
        frame.truncate(range.end);
        frame.drain(..range.start);
        env.adjust_external_memory(-before).map_err(|error| of_node(&error))?;
        buffer(env, frame)
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

/// Values that share strings.
#[napi(object, object_from_js = false)]
pub struct SharedTexts {
    /// The strings.
    pub texts: Vec<Js>,
    /// How many values are in each string.
    pub counts: Vec<u32>,
    /// Start and end of each value in its string.
    pub ranges: Uint32Array,
}

impl SharedTexts {
    fn add(&mut self, text: Js, count: u32) {
        self.texts.push(text);
        self.counts.push(count);
    }
}

/// Bytes of a text that several values share. Node allocates longer strings outside of its pages, which costs more than the copy.
const TEXT_SIZE: usize = 32 * 1024;

/// The place of `part`, which borrows from `whole`.
fn range_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// The report of an engine. Numbers are counts, which a JavaScript number represents exactly.
#[napi(object)]
pub struct ReportOfEngine {
    /// How many values were encrypted, decrypted or rewrapped; not with lists of values.
    pub count: Option<f64>,
    /// How many values each selector matched.
    pub matched: Vec<f64>,
    /// How many values encrypted were envelopes already.
    pub resealed: f64,
    /// How many envelopes were left alone.
    pub skipped: f64,
    /// How many envelopes to a public key `reseal` made symmetric ones of.
    pub rewrapped: f64,
    /// How many of the values were sealed, or opened, with a symmetric key; the others have envelopes to a public key.
    pub symmetric: f64,
    /// How many envelopes did not open.
    pub failed: f64,
    /// Indexes of the first of those, in a list.
    pub failed_indexes: Vec<f64>,
    /// Paths of the first of those, in a document.
    pub failed_paths: Vec<String>,
}

impl ReportOfEngine {
    fn of(report: &Reported<'_>, count: Option<u64>) -> Result<ReportOfEngine> {
        let floats = |numbers: Vec<u64>| numbers.into_iter().map(|number| number as f64).collect();
        Ok(ReportOfEngine {
            count: count.map(|count| count as f64),
            matched: floats(report.matched().map_err(|error| of_content(&error))?),
            resealed: report.resealed as f64,
            skipped: report.skipped as f64,
            rewrapped: report.rewrapped as f64,
            symmetric: report.symmetric as f64,
            failed: report.failed.unwrap_or(0) as f64,
            // One field of the answer has either kind; the other reading fails.
            failed_indexes: floats(report.failure_indexes().unwrap_or_default()),
            failed_paths: report.failure_paths().unwrap_or_default().into_iter().map(str::to_owned).collect(),
        })
    }
}

/// An object with those fields that have a value.
fn object<'env, 'v>(
    env: &'env Env,
    values: impl Iterator<Item = (Field, Option<RecordValue<'v>>)>,
) -> Result<Object<'env>> {
    let mut object = Object::new(env).map_err(|error| of_node(&error))?;
    for (field, value) in values {
        let name = camel_case(field.as_str());
        let set = match value {
            None => continue,
            Some(RecordValue::Text(text)) => object.set(&name, text),
            Some(RecordValue::Flag(flag)) => object.set(&name, flag),
            // Counts, versions and times, which a JavaScript number represents exactly.
            Some(RecordValue::Number(number)) => object.set(&name, number as f64),
            Some(RecordValue::Bytes(bytes)) => object.set(&name, Buffer::from(bytes)),
            Some(RecordValue::Texts(texts)) => object.set(&name, texts),
        };
        set.map_err(|error| of_node(&error))?;
    }
    Ok(object)
}

/// Converts a JavaScript number that is an integer from `least` to `most`.
pub(crate) fn whole_number(value: Js, name: &str, least: f64, most: f64) -> Result<f64> {
    let number = if value.kind()? == ValueType::Number { Some(value.number()?) } else { None };
    let is_right = |number: &f64| number.fract() == 0.0 && (least..=most).contains(number);
    number.filter(is_right).ok_or_else(|| invalid_params(format!("{name}: expected an integer from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use leafseal_protocol::{answer, write};

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
            let mut incoming = Incoming::new(FrameLimits::default());
            stream.chunks(piece).for_each(|bytes| incoming.push(bytes).unwrap());
            let answers: Vec<_> =
                incoming.frames.drain(..).map(|frame| WireAnswer::of(frame).unwrap().unwrap()).collect();
            let seen = answers.iter().map(|answer| (answer.id, answer.count().unwrap()));
            assert_eq!(seen.collect::<Vec<_>>(), [(Some(1), 2), (Some(2), 1), (Some(3), 0)], "pieces of {piece}");
            assert_eq!(incoming.buffer.partial_size(), 0);
        }
    }

    #[test]
    fn a_limit_is_checked_before_further_bytes_are_stored() {
        let mut incoming = Incoming::new(FrameLimits { frame_size_max: 1000, ..FrameLimits::default() });
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
        assert!(WireAnswer::of(notification).unwrap().is_none());
        let mut request = Vec::new();
        leafseal_protocol::request::health(1, &mut request);
        assert_eq!(WireAnswer::of(request).err().map(|fault| fault.status), Some(Code::InvalidMessage));
    }
}
