//! Slots that the Transit secrets engine of OpenBao or Vault keeps, bound to their place by associated data.

use std::path::Path;

use base64ct::{Base64, Encoding};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use leafseal_config::KeyExchange;
use leafseal_crypto::CryptoRng;
use leafseal_keystore::{ProviderError, SecretPath, SlotKind, SlotPlace, SlotProvider, read_private_file};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::https::{Endpoint, ServiceAnswer, call};
use crate::message::shortened;
use crate::origin::ServerOrigin;
use crate::transit_settings::TransitSettings;

/// Largest token file in bytes. Tokens of OpenBao have about 100 bytes, a JWT in one may have a few thousand.
const TOKEN_SIZE_MAX: usize = 8 << 10;

/// A key of a Transit secrets engine.
pub struct TransitProvider {
    settings: TransitSettings,
    origin: ServerOrigin,
}

/// What is asked of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransitOperation {
    Encrypt,
    Decrypt,
}

impl TransitOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
        }
    }

    /// The names of what goes in and of what comes out.
    fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Encrypt => ("plaintext", "ciphertext"),
            Self::Decrypt => ("ciphertext", "plaintext"),
        }
    }
}

impl TransitProvider {
    /// The provider of these settings, if they name a server, with paths below `folder`.
    pub fn new(settings: &TransitSettings, folder: &Path) -> Option<Self> {
        let origin = settings.origin()?;
        Some(Self { settings: settings.below(folder), origin })
    }

    fn unavailable(&self, reason: impl std::fmt::Display) -> ProviderError {
        ProviderError::Unavailable(format!("transit at {}: {reason}", self.origin.authority))
    }

    /// `input` is text that JSON does not escape.
    fn ask(
        &self,
        operation: TransitOperation,
        input: &str,
        place: &SlotPlace,
    ) -> Result<Zeroizing<String>, ProviderError> {
        let (given, wanted) = operation.fields();
        let data = Base64::encode_string(&place.associated_data());
        let parts = ["{\"", given, "\":\"", input, "\",\"associated_data\":\"", &data, "\"}"];
        let mut body = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
        parts.iter().for_each(|part| body.extend_from_slice(part.as_bytes()));
        let authorities = self.settings.authorities.as_deref();
        let authorities = authorities.ok_or_else(|| self.unavailable("transit.authorities is not set"))?;
        let endpoint = Endpoint {
            origin: &self.origin,
            authorities,
            key_exchange: KeyExchange::by(self.settings.tls_require),
            timeout: self.settings.timeout,
            answer_size_max: self.settings.answer_size_max,
        };
        let answer = call(&endpoint, self.request(operation, body)?).map_err(|error| self.unavailable(error))?;
        self.result(operation, wanted, &answer)
    }

    fn request(
        &self,
        operation: TransitOperation,
        body: Zeroizing<Vec<u8>>,
    ) -> Result<Request<Full<Bytes>>, ProviderError> {
        let TransitSettings { mount, key, .. } = &self.settings;
        Request::builder()
            .method(Method::POST)
            .uri(format!("/v1/{mount}/{}/{key}", operation.name()))
            .header(HOST, &self.origin.authority)
            .header(CONTENT_TYPE, "application/json")
            .header("X-Vault-Token", self.token()?)
            // Agents in front of a server may require it: a forged request of a browser cannot have it.
            .header("X-Vault-Request", "true")
            .body(Full::new(Bytes::from_owner(body)))
            .map_err(|error| self.unavailable(error))
    }

    fn token(&self) -> Result<HeaderValue, ProviderError> {
        let path = self.settings.token_file.as_deref();
        let path = path.ok_or_else(|| self.unavailable("transit.token_file is not set"))?;
        let content = read_private_file(SecretPath::TokenFile, path, TOKEN_SIZE_MAX);
        let content = content.map_err(|error| self.unavailable(error))?;
        let unreadable = || self.unavailable(format_args!("{}: its first line must be a token", path.display()));
        let line = content.as_deref().and_then(|content| content.split(|byte| *byte == b'\n').next());
        let token = line.map(<[u8]>::trim_ascii).filter(|token| !token.is_empty()).ok_or_else(unreadable)?;
        let mut token = HeaderValue::from_bytes(token).map_err(|_| unreadable())?;
        token.set_sensitive(true);
        Ok(token)
    }

    fn result(
        &self,
        operation: TransitOperation,
        wanted: &str,
        answer: &ServiceAnswer,
    ) -> Result<Zeroizing<String>, ProviderError> {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status != StatusCode::OK {
            return Err(self.refusal(operation, answer.status, &message(&body)));
        }
        match body.pointer_mut("/data").and_then(|data| data.get_mut(wanted)).map(Value::take) {
            Some(Value::String(text)) => Ok(Zeroizing::new(text)),
            _ => Err(self.unavailable("its answer is not that of a Transit secrets engine: check transit.mount")),
        }
    }

    /// Why the server refuses, and what to do.
    fn refusal(&self, operation: TransitOperation, status: StatusCode, message: &str) -> ProviderError {
        let TransitSettings { mount, key, .. } = &self.settings;
        let path = format!("{mount}/{}/{key}", operation.name());
        match (status.as_u16(), operation) {
            // Of the ciphertext or of its place: another slot may open.
            (400, TransitOperation::Decrypt) => {
                ProviderError::Denied(format!("transit at {}: {path}: {message}", self.origin.authority))
            }
            (400, TransitOperation::Encrypt) => self.unavailable(format_args!(
                "{path}: {message}: transit.key must name a key with associated data, such as aes256-gcm96"
            )),
            (403, _) => self.unavailable(format_args!(
                "{message}: the token in transit.token_file must be valid, with a policy that allows update on {path}"
            )),
            (404, _) => self.unavailable(format_args!("{path}: {message}: check transit.mount")),
            (300..=399, _) => self.unavailable(
                "it redirects, which is not followed because the token would go to another host: set transit.url to the active server",
            ),
            (429 | 472 | 473 | 501 | 503, _) => {
                self.unavailable(format_args!("it is sealed, on standby or not initialised ({status}) {message}"))
            }
            _ => self.unavailable(format_args!("{path}: {status} {message}")),
        }
    }
}

/// The server's words.
fn message(body: &Value) -> String {
    let errors = body.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = errors.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ");
    let text = shortened(&text);
    if text.is_empty() { "no reason given".to_owned() } else { text }
}

/// A ciphertext comes from the database: nothing of it may end the JSON text that holds it.
fn is_ciphertext(text: &str) -> bool {
    text.starts_with("vault:") && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":+/=-_".contains(&byte))
}

impl SlotProvider for TransitProvider {
    fn kind(&self) -> SlotKind {
        SlotKind::Transit
    }

    fn key_name(&self) -> String {
        self.settings.key.clone()
    }

    fn wrap(&self, place: &SlotPlace, secret: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        let text = Zeroizing::new(Base64::encode_string(secret));
        let ciphertext = self.ask(TransitOperation::Encrypt, &text, place)?;
        if !is_ciphertext(&ciphertext) {
            return Err(self.unavailable("its answer holds no ciphertext"));
        }
        Ok(ciphertext.as_bytes().to_vec())
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let ciphertext = std::str::from_utf8(wrapped).ok().filter(|text| is_ciphertext(text));
        let text = self.ask(TransitOperation::Decrypt, ciphertext.ok_or(ProviderError::Refused)?, place)?;
        Base64::decode_vec(&text).map(Zeroizing::new).map_err(|_| ProviderError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> TransitProvider {
        let settings = TransitSettings { url: "https://bao.internal".to_owned(), ..TransitSettings::default() };
        TransitProvider::new(&settings, Path::new("/dir")).expect("a server")
    }

    fn result(operation: TransitOperation, status: u16, body: &str) -> Result<String, String> {
        let status = StatusCode::from_u16(status).expect("a status");
        let answer = ServiceAnswer { status, body: Zeroizing::new(body.as_bytes().to_vec()) };
        let result = provider().result(operation, operation.fields().1, &answer);
        result.map(|text| text.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_what_was_asked_for_or_an_error_with_advice() {
        use TransitOperation::{Decrypt, Encrypt};
        assert_eq!(result(Encrypt, 200, r#"{"data":{"ciphertext":"vault:v1:AA=="}}"#), Ok("vault:v1:AA==".to_owned()));
        assert_eq!(result(Decrypt, 200, r#"{"data":{"plaintext":"AA=="}}"#), Ok("AA==".to_owned()));
        for (operation, status, body, part) in [
            (Decrypt, 200, r#"{"data":{"ciphertext":"vault:v1:AA=="}}"#, "check transit.mount"),
            (Decrypt, 200, "<html>", "check transit.mount"),
            (Decrypt, 400, r#"{"errors":["cipher: message authentication failed"]}"#, "message authentication failed"),
            (Encrypt, 400, r#"{"errors":["not AEAD"]}"#, "aes256-gcm96"),
            (Decrypt, 403, r#"{"errors":["permission denied"]}"#, "update on transit/decrypt/leafseal"),
            (Decrypt, 404, "{}", "check transit.mount"),
            (Decrypt, 307, "", "the active server"),
            (Decrypt, 503, r#"{"errors":["Vault is sealed"]}"#, "Vault is sealed"),
            (Decrypt, 500, r#"{"errors":["a\u001b[2Jb"]}"#, "a [2Jb"),
        ] {
            let error = result(operation, status, body).expect_err("refused");
            assert!(error.contains(part), "{status} {body}: {error}");
            assert!(error.starts_with("transit at bao.internal: "), "{error}");
        }
        let long = format!(r#"{{"errors":["{}"]}}"#, "x".repeat(10_000));
        assert!(result(Decrypt, 500, &long).expect_err("refused").len() < 400);
    }

    #[test]
    fn a_ciphertext_from_a_database_stays_within_its_field() {
        assert!(is_ciphertext("vault:v1:ou6DV09v+/=="));
        for text in ["", "v1:AA==", "vault:v1:\",\"x\":\"", "vault:v1:\\", "vault:v1:\n", "vault:v1:é"] {
            assert!(!is_ciphertext(text), "{text}");
        }
    }
}
