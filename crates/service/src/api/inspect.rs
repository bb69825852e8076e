//! The metadata of an envelope.

use leafseal_engine::{Inspector, Marking};
use leafseal_protocol::{ErrorCode, ErrorObject};
use serde_json::{Value, json};

use super::{CallInput, invalid, write};
use crate::interface::{Request, Step};
use crate::rpc::convert::{error as error_object, text_kind, wire_curve};

/// Returns the metadata of an envelope.
pub fn inspect(input: CallInput) -> Box<dyn Request> {
    Box::new(Inspect { input, work: None })
}

struct Inspect {
    input: CallInput,
    /// The envelope, and its inspector.
    work: Option<(String, Inspector)>,
}

impl Request for Inspect {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let CallInput { engine, caller, app, body, .. } = &self.input;
        let Some((text, inspector)) = &mut self.work else {
            let inspector = engine.inspector(caller, Some(app)).map_err(error_object)?;
            self.work = Some((envelope_of(body)?, inspector));
            return Ok(Step::More);
        };
        let Some(inspected) = inspector.inspect(text.as_bytes()).map_err(error_object)? else {
            return Ok(Step::More);
        };
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
        Ok(Step::Done)
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
