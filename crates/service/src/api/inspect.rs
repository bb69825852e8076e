//! The metadata of an envelope.

use leafseal_engine::{Inspector, Marking};
use leafseal_protocol::{ErrorCode, ErrorObject};
use serde_json::{Value, json};

use super::{CallInput, invalid, write};
use crate::interface::{Request, Step};
use crate::rpc::convert::{error as error_object, text_kind, wire_curve};

/// Returns the metadata of an envelope; of one on each line, in a line each, if the body is JSON Lines.
pub fn inspect(input: CallInput) -> Box<dyn Request> {
    Box::new(Inspect { input, next: 0, line: 0, inspector: None, envelope: None })
}

struct Inspect {
    input: CallInput,
    /// Where the rest of the body begins.
    next: usize,
    /// The number of the line that is being inspected, counted from 1.
    line: usize,
    inspector: Option<Inspector>,
    /// The envelope that is being inspected.
    envelope: Option<String>,
}

impl Inspect {
    /// The envelope of the rest of the body or of its next line; `None` at the end, and at a blank line.
    fn next_envelope(&mut self, out: &mut Vec<u8>) -> Result<Option<String>, ErrorObject> {
        let rest = &self.input.body[self.next..];
        if !self.input.is_lines {
            self.next += rest.len();
            return envelope_of(rest).map(Some);
        }
        let size = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let (line, is_broken) = (&rest[..size], size < rest.len());
        self.line += 1;
        self.next += size + usize::from(is_broken);
        if line.trim_ascii().is_empty() {
            out.extend_from_slice(&rest[..size + usize::from(is_broken)]);
            return Ok(None);
        }
        envelope_of(line).map(Some)
    }

    /// The error, with the number of its line.
    fn in_line(&self, error: ErrorObject) -> ErrorObject {
        match self.input.is_lines {
            true => ErrorObject { message: format!("line {}: {}", self.line, error.message), ..error },
            false => error,
        }
    }
}

impl Request for Inspect {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let CallInput { engine, caller, app, body, is_lines, .. } = &self.input;
        let Some(inspector) = &mut self.inspector else {
            self.inspector = Some(engine.inspector(caller, Some(app)).map_err(error_object)?);
            return Ok(Step::More);
        };
        let Some(envelope) = &self.envelope else {
            if *is_lines && self.next >= body.len() {
                return Ok(Step::Done);
            }
            self.envelope = self.next_envelope(out).map_err(|error| self.in_line(error))?;
            return Ok(Step::More);
        };
        let inspected = inspector.inspect(envelope.as_bytes()).map_err(error_object);
        let Some(inspected) = inspected.map_err(|error| self.in_line(error))? else { return Ok(Step::More) };
        let reported = json!({
            "type": text_kind(inspected.value_type).as_str(),
            "role": inspected.role,
            "encryptedAt": inspected.encrypted_at,
            "origin": inspected.origin,
            "version": inspected.version.text(),
            "curve": wire_curve(inspected.version.curve()).as_str(),
            "keyVersion": inspected.key_version,
            "debug": inspected.marking == Marking::Debug,
        });
        write(&reported, out);
        self.envelope = None;
        if !self.input.is_lines {
            return Ok(Step::Done);
        }
        out.push(b'\n');
        Ok(Step::More)
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
