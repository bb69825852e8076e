//! Client-side tokens, each for the decryption of one payload.

use std::time::Duration;

use leafseal_engine::{TOKEN_AGE_MAX, TokenRequest, TokenRequestReading};
use leafseal_protocol::ErrorObject;
use serde_json::json;

use super::{CallInput, invalid, write};
use crate::rpc::convert::error as error_object;
use crate::work::{RequestStage, RequestStep, RequestWork};

/// Makes a client-side token.
pub fn issue_token(input: CallInput) -> RequestStage {
    RequestStage::working(Issue { input, reading: None, request: None })
}

struct Issue {
    input: CallInput,
    reading: Option<TokenRequestReading>,
    /// The request, once it is read. Issuing the token is repeated while the store has to be read first.
    request: Option<TokenRequest>,
}

/// The only thing that a token can be for.
const DECRYPT: &str = "api:decrypt";
/// An `expiry` up to here is a number of milliseconds from now; a larger one is a time.
const EXPIRY_FROM_NOW_MAX_MS: u64 = TOKEN_AGE_MAX.as_millis() as u64;
/// A shorter one is a mistake, such as the milliseconds part of a date.
const EXPIRY_MIN_MS: u64 = 1_000;

impl RequestWork for Issue {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let CallInput { engine, caller, app, body, .. } = &self.input;
        let Some(request) = &self.request else {
            let Some(reading) = &mut self.reading else {
                self.reading = Some(engine.token_request(body.len()).map_err(error_object)?);
                return Ok(RequestStep::More);
            };
            self.request = reading.step(body).map_err(error_object)?;
            return Ok(RequestStep::More);
        };
        if request.action.as_deref() != Some(DECRYPT) {
            return Err(invalid("the field `action` is \"api:decrypt\""));
        }
        if request.strings == 0 {
            return Err(invalid("the field `payload` has no string in it: there is nothing to decrypt"));
        }
        let expires_ms = request.expiry.as_deref().map(expiry).transpose()?;
        let expires_ms = expires_ms.map(|expiry| match expiry {
            Expiry::FromNow(age) => engine.unix_time_in(age),
            Expiry::At(milliseconds) => milliseconds,
        });
        let token = engine.issue_token(caller, app, request.payload, expires_ms).map_err(error_object)?;
        let reported =
            json!({ "id": token.id, "token": token.text, "createdAt": token.created_ms, "expiry": token.expires_ms });
        write(&reported, out);
        Ok(RequestStep::Done)
    }
}

/// When a token expires.
#[derive(Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After this time.
    FromNow(Duration),
    /// At this time, in milliseconds since 1970.
    At(u64),
}

/// Reads the field `expiry` of a token request: milliseconds from now, or a time.
///
/// # Errors
/// If it is not a number, or less than a second.
pub fn expiry(text: &str) -> Result<Expiry, ErrorObject> {
    match text.parse::<u64>() {
        Ok(milliseconds) if milliseconds > EXPIRY_FROM_NOW_MAX_MS => Ok(Expiry::At(milliseconds)),
        Ok(milliseconds) if milliseconds >= EXPIRY_MIN_MS => Ok(Expiry::FromNow(Duration::from_millis(milliseconds))),
        _ => Err(invalid(
            "the field `expiry` is a Unix time in milliseconds, or from 1000 to 600000 milliseconds from now (some SDKs send of a date \
             only what it has beside its seconds: give them a number)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_time_or_a_length_of_time() {
        assert_eq!(expiry("1000"), Ok(Expiry::FromNow(Duration::from_secs(1))));
        assert_eq!(expiry("600000"), Ok(Expiry::FromNow(Duration::from_secs(600))));
        assert_eq!(expiry("600001"), Ok(Expiry::At(600_001)));
        for wrong in ["999", "0", "-1", "1.5", "1e3", "true", "", "18446744073709551616"] {
            assert!(expiry(wrong).is_err(), "{wrong}");
        }
    }
}
