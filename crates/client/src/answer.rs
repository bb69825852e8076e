//! Answers, as owned bytes and as owned values.

use std::fmt;
use std::sync::OnceLock;

use leafseal_protocol::{
    DocumentResult, FileResult, Frame, InspectResult, Inspection, Message, RawValue, Reported, RewrapResult, Scalar,
    ValuesResult,
};

use crate::error::ClientError;

/// A successful answer in its encoded form, for callers that read values in place.
pub struct Answer {
    frame: Frame,
    /// The frame in one buffer, joined on demand if it arrived in several.
    whole: OnceLock<Vec<u8>>,
}

/// Omits the content, which may be plaintext.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an answer of {} bytes", self.frame.size())
    }
}

impl Answer {
    /// Converts a response frame; returns the error of a failed one.
    pub(crate) fn of_response(frame: Frame) -> Result<Answer, ClientError> {
        if response(frame.head()).is_ok() {
            return Ok(Answer { frame, whole: OnceLock::new() });
        }
        let frame = frame.into_bytes();
        let remote = response(&frame).err().map(|error| error.error());
        Err(match remote {
            Some(Ok(remote)) => ClientError::of_engine(&remote),
            _ => ClientError::protocol("the engine answered with an error that cannot be read"),
        })
    }

    fn whole(&self) -> &[u8] {
        match self.frame.is_in_one_piece() {
            true => self.frame.head(),
            false => self.whole.get_or_init(|| self.frame.to_bytes()),
        }
    }

    /// The encoded result, for the `…Result::decode` functions of the protocol.
    pub fn result(&self) -> RawValue<'_> {
        result(self.whole())
    }

    /// The size of the message in bytes.
    pub fn size(&self) -> usize {
        self.frame.size()
    }

    /// Its memory in bytes.
    pub fn capacity(&self) -> usize {
        self.frame.capacity()
    }

    /// The values of an answer to `encrypt` or `decrypt`.
    ///
    /// # Errors
    /// If it is not such an answer.
    pub fn into_values(self) -> Result<Vec<Value>, ClientError> {
        self.into_reported_values().map(|values| values.values)
    }

    /// The same, with the engine's report.
    ///
    /// # Errors
    /// If it is not such an answer.
    pub fn into_reported_values(self) -> Result<NativeValues, ClientError> {
        let frame = self.frame.into_bytes();
        let ValuesResult { values, report } = ValuesResult::decode(result(&frame))?;
        let failures = report.failure_indexes()?;
        Ok(NativeValues { values: owned(values.iter())?, report: Report::of(&report)?, failures })
    }

    /// The document of an answer to `encrypt_document` or `decrypt_document`.
    ///
    /// # Errors
    /// If it is not such an answer.
    pub fn into_document(self) -> Result<Document, ClientError> {
        let frame = self.frame.into_bytes();
        let DocumentResult { document, count, report } = DocumentResult::decode(result(&frame))?;
        let failures = report.failure_paths()?.into_iter().map(str::to_owned).collect();
        let (report, range) = (Report::of(&report)?, range_in(&frame, document));
        Ok(Document { count, report, failures, json: cut(frame, range) })
    }

    /// The bytes of an answer to `encrypt_file` or `decrypt_file`.
    ///
    /// # Errors
    /// If it is not such an answer.
    pub fn into_file(self) -> Result<Vec<u8>, ClientError> {
        let frame = self.frame.into_bytes();
        let range = range_in(&frame, FileResult::decode(result(&frame))?.data);
        Ok(cut(frame, range))
    }

    pub(crate) fn rewrapped(&self) -> Result<Rewrapped, ClientError> {
        let RewrapResult { values, count, report } = RewrapResult::decode(self.result())?;
        let envelopes = values.strings().map(|envelope| envelope.map(|text| text.as_str().to_owned()));
        let envelopes = envelopes.collect::<Result<_, _>>().map_err(leafseal_protocol::ContentError::from)?;
        let failures = report.failure_indexes()?;
        Ok(Rewrapped { envelopes, count, report: Report::of(&report)?, failures })
    }

    pub(crate) fn inspections(&self) -> Result<Vec<Inspection>, ClientError> {
        let inspected = InspectResult::decode(self.result())?;
        inspected.iter().map(|one| one.map_err(ClientError::from)).collect()
    }
}

/// The result of an answer that was validated when it arrived.
fn result(frame: &[u8]) -> RawValue<'_> {
    match response(frame) {
        Ok(result) => result,
        Err(_) => unreachable!("checked when the answer was made"),
    }
}

fn response(frame: &[u8]) -> Result<RawValue<'_>, RawValue<'_>> {
    match Message::parse(frame) {
        Ok(Message::Response { result, .. }) => result,
        _ => unreachable!("only responses are delivered"),
    }
}

fn range_in(frame: &[u8], part: &[u8]) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - frame.as_ptr() as usize;
    start..start + part.len()
}

/// Reduces a frame to a range, reusing its memory.
fn cut(mut frame: Vec<u8>, range: std::ops::Range<usize>) -> Vec<u8> {
    frame.truncate(range.end);
    frame.drain(..range.start);
    frame
}

fn owned<'a, E: Into<leafseal_protocol::ContentError>>(
    values: impl Iterator<Item = Result<Scalar<'a>, E>>,
) -> Result<Vec<Value>, ClientError> {
    let values = values.map(|value| value.map(Value::from));
    values.collect::<Result<_, _>>().map_err(|error| ClientError::from(error.into()))
}

/// A native value. `Debug` shows only its kind and size, because it may be plaintext.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// `true` or `false`.
    Bool(bool),
    /// An integer that is not negative.
    UInt(u64),
    /// A negative integer.
    Int(i64),
    /// A finite float.
    Float(f64),
    /// Text.
    Str(String),
}

impl Value {
    /// Borrows the value, as requests require.
    pub fn as_scalar(&self) -> Scalar<'_> {
        match self {
            Value::Nil => Scalar::Nil,
            Value::Bool(value) => Scalar::Bool(*value),
            Value::UInt(value) => Scalar::UInt(*value),
            Value::Int(value) => Scalar::Int(*value),
            Value::Float(value) => Scalar::Float(*value),
            Value::Str(text) => Scalar::from(text.as_str()),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_scalar().fmt(f)
    }
}

impl From<Scalar<'_>> for Value {
    fn from(scalar: Scalar<'_>) -> Self {
        match scalar {
            Scalar::Nil => Value::Nil,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::UInt(value) => Value::UInt(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::Float(value) => Value::Float(value),
            Scalar::Str(text) => Value::Str(text.as_str().to_owned()),
        }
    }
}

/// A JSON text with some of its values encrypted or decrypted. `Debug` does not show it, because it may be plaintext.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// The text in UTF-8.
    pub json: Vec<u8>,
    /// The number of values encrypted or decrypted.
    pub count: u64,
    /// The engine's report.
    pub report: Report,
    /// The paths of the first envelopes that failed to decrypt.
    pub failures: Vec<String>,
}

/// The engine's report, in addition to a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of values that each selector matched, in the order of the selectors; empty without selectors.
    pub matched: Vec<u64>,
    /// The number of encrypted values that were envelopes already.
    pub resealed: u64,
    /// Number of envelopes that `skip_sealed` skipped.
    pub skipped: u64,
    /// Number of envelopes to a public key that `reseal` made symmetric ones of.
    pub rewrapped: u64,
    /// The number of values that were sealed, or opened, with a symmetric key; the others have envelopes to a public key.
    pub symmetric: u64,
    /// Number of envelopes that failed to decrypt, if the call has an action for them.
    pub failed: u64,
}

impl Report {
    fn of(report: &Reported<'_>) -> Result<Self, ClientError> {
        let Reported { resealed, skipped, rewrapped, symmetric, failed, .. } = *report;
        let (matched, failed) = (report.matched()?, failed.unwrap_or(0));
        Ok(Report { matched, resealed, skipped, rewrapped, symmetric, failed })
    }
}

/// Native values with the engine's report. `Debug` does not show the values.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeValues {
    /// In the order of the request.
    pub values: Vec<Value>,
    /// The engine's report.
    pub report: Report,
    /// The indexes of the first envelopes that failed to decrypt.
    pub failures: Vec<u64>,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a document of {} bytes, count {}", self.json.len(), self.count)
    }
}

/// Envelopes under the newest key version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrapped {
    /// In the order of the request.
    pub envelopes: Vec<String>,
    /// The number of rewrapped envelopes.
    pub count: u64,
    /// The engine's report.
    pub report: Report,
    /// The indexes of the first envelopes that failed to decrypt.
    pub failures: Vec<u64>,
}
