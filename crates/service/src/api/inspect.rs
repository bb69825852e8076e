//! The metadata of an envelope.

use leafseal_engine::{Inspector, LineFinder, Marking, NextLine};
use leafseal_protocol::{ErrorCode, ErrorObject, InspectOptions};
use serde_json::{Value, json};

use super::{CallInput, invalid, write};
use crate::rpc::convert::{error as error_object, inspect_options, text_kind, wire_curve};
use crate::work::{RequestStage, RequestStep, RequestWork};

/// Bytes of blank lines that a step skips: some ten microseconds.
const STEP_SIZE: usize = 16 << 10;

/// Returns the metadata of an envelope; of one on each line, in a line each, if the body is JSON Lines.
pub fn inspect(input: CallInput) -> RequestStage {
    RequestStage::working(Inspect {
        input,
        copied: 0,
        lines: LineFinder::default(),
        line: 0,
        inspector: None,
        envelope: None,
    })
}

struct Inspect {
    input: CallInput,
    /// The answer has what belongs to the body up to this byte.
    copied: usize,
    lines: LineFinder,
    /// The number of the line that is being inspected, counted from 1.
    line: u64,
    inspector: Option<Inspector>,
    /// The envelope that is being inspected.
    envelope: Option<String>,
}

impl Inspect {
    /// Goes on to the next envelope; blank lines before it are copied. Returns false at the end of the body.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool, ErrorObject> {
        let body = &self.input.body;
        if !self.input.is_lines {
            self.envelope = Some(envelope_of(body)?);
            return Ok(true);
        }
        let found = self.lines.next(body, &mut { STEP_SIZE });
        let (filled, end) = match &found {
            NextLine::Line { range, .. } => (range.start, body.len().min(range.end + 1)),
            NextLine::More => (self.lines.position(), self.lines.position()),
            NextLine::End => (body.len(), body.len()),
        };
        out.extend_from_slice(&body[self.copied..filled]);
        self.copied = end;
        if let NextLine::Line { range, number, .. } = &found {
            self.line = *number;
            self.envelope = Some(envelope_of(&body[range.clone()])?);
        }
        Ok(found != NextLine::End)
    }

    /// The error, with the number of its line.
    fn in_line(&self, error: ErrorObject) -> ErrorObject {
        match self.input.is_lines {
            true => ErrorObject { message: format!("line {}: {}", self.line, error.message), ..error },
            false => error,
        }
    }
}

impl RequestWork for Inspect {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let CallInput { engine, caller, app, options, .. } = &self.input;
        let Some(inspector) = &mut self.inspector else {
            let options = inspect_options(&InspectOptions::of(app, &options.given));
            let inspector = engine.inspector(caller, Some(app)).and_then(|inspector| inspector.with(&options));
            self.inspector = Some(inspector.map_err(error_object)?);
            return Ok(RequestStep::More);
        };
        let Some(envelope) = &self.envelope else {
            let goes_on = self.advance(out).map_err(|error| self.in_line(error))?;
            return Ok(if goes_on { RequestStep::More } else { RequestStep::Done });
        };
        let inspected = inspector.inspect(envelope.as_bytes()).map_err(error_object);
        let Some(inspected) = inspected.map_err(|error| self.in_line(error))? else { return Ok(RequestStep::More) };
        let reported = json!({
            "type": text_kind(inspected.value_type).as_str(),
            "role": inspected.role,
            "encryptedAt": inspected.encrypted_at,
            "origin": inspected.origin,
            "scheme": inspected.scheme.name(),
            "version": inspected.version,
            "curve": inspected.curve.map(|curve| wire_curve(curve).as_str()),
            "symmetricKeyId": inspected.key_id.map(|id| id.to_string()),
            "fromPublicKey": inspected.is_from_public_key,
            "keyVersion": inspected.key_version,
            "unopened": inspected.is_unopened,
            "debug": inspected.marking == Marking::Debug,
        });
        write(&reported, out);
        self.envelope = None;
        if !self.input.is_lines {
            return Ok(RequestStep::Done);
        }
        out.push(b'\n');
        Ok(RequestStep::More)
    }
}

/// The envelope of `{"token": "ev:…"}`, or of a plain string.
///
/// # Errors
/// If the body is neither; the message quotes nothing of it.
pub fn envelope_of(body: &[u8]) -> Result<String, ErrorObject> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        // The library's own words may quote what it read.
        let message = format!("the body is not JSON (line {}, column {})", error.line(), error.column());
        ErrorObject::new(ErrorCode::InvalidDocument, message)
    })?;
    match value {
        Value::String(text) => Ok(text),
        Value::Object(mut fields) => match (fields.remove("token"), fields.is_empty()) {
            (Some(Value::String(text)), true) => Ok(text),
            _ => Err(invalid("the body is an object with `token`, an envelope, alone")),
        },
        _ => Err(invalid("the body is an object with `token`, an envelope, or an envelope")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inspected_body_is_one_string() {
        let of = |body: &str| envelope_of(body.as_bytes()).ok();
        assert_eq!(of("\"ev:x\"").as_deref(), Some("ev:x"));
        assert_eq!(of("{\"token\": \"ev:x\"}").as_deref(), Some("ev:x"));
        for wrong in ["", "{}", "[\"ev:x\"]", "{\"token\": 1}", "{\"token\": \"ev:x\", \"other\": 1}", "1", "\"a"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let secret = envelope_of(b"{\"token\": secret}").expect_err("no JSON").message;
        assert!(!secret.contains("secret"), "{secret}");
    }
}
