//! Slots that a key of AWS KMS keeps, bound to their place by the encryption context.

use std::path::Path;

use base64ct::{Base64, Encoding};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode};
use leafseal_config::KeyExchange;
use leafseal_crypto::CryptoRng;
use leafseal_keystore::{
    ProviderError, SecretPath, SlotKind, SlotPlace, SlotProvider, read_private_file, system_clock,
};
use leafseal_net::utc;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::aws_signature::{AwsCredentials, Signed};
use crate::https::{Endpoint, ServiceAnswer, call};
use crate::kms_settings::KmsSettings;
use crate::message::shortened;
use crate::origin::ServerOrigin;

/// Largest file of credentials in bytes. A session token may have a few thousand.
const CREDENTIALS_SIZE_MAX: usize = 64 << 10;

/// A key of AWS KMS.
pub struct KmsProvider {
    settings: KmsSettings,
    origin: ServerOrigin,
}

/// What is asked of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KmsOperation {
    Encrypt,
    Decrypt,
}

impl KmsOperation {
    fn target(self) -> &'static str {
        match self {
            Self::Encrypt => "TrentService.Encrypt",
            Self::Decrypt => "TrentService.Decrypt",
        }
    }

    /// The names of what goes in and of what comes out.
    fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Encrypt => ("Plaintext", "CiphertextBlob"),
            Self::Decrypt => ("CiphertextBlob", "Plaintext"),
        }
    }
}

impl KmsProvider {
    /// The provider of these settings, if they name a key, with paths below `folder`.
    pub fn new(settings: &KmsSettings, folder: &Path) -> Option<Self> {
        let origin = settings.origin().filter(|_| !settings.key.is_empty())?;
        Some(Self { settings: settings.below(folder), origin })
    }

    fn unavailable(&self, reason: impl std::fmt::Display) -> ProviderError {
        ProviderError::Unavailable(format!("AWS KMS at {}: {reason}", self.origin.authority))
    }

    fn ask(
        &self,
        operation: KmsOperation,
        input: &[u8],
        place: &SlotPlace,
    ) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let body = self.body(operation, &Zeroizing::new(Base64::encode_string(input)), place);
        let authorities = self.settings.authorities.as_deref();
        let endpoint = Endpoint {
            origin: &self.origin,
            authorities: authorities.ok_or_else(|| self.unavailable("aws_kms.authorities is not set"))?,
            key_exchange: KeyExchange::by(self.settings.tls_require),
            timeout: self.settings.timeout,
            answer_size_max: self.settings.answer_size_max,
        };
        let time = utc(system_clock()).replace(['-', ':'], "");
        let request = self.request(operation, body, &time)?;
        let answer = call(&endpoint, request).map_err(|error| self.unavailable(error))?;
        self.result(operation, &answer)
    }

    /// The input is text that JSON does not escape, and so are the key, which was checked, and the ids.
    fn body(&self, operation: KmsOperation, input: &str, place: &SlotPlace) -> Zeroizing<Vec<u8>> {
        let (store, slot) = (place.store_id(), place.slot_id().to_string());
        let parts = [
            "{\"KeyId\":\"",
            &self.settings.key,
            "\",\"EncryptionContext\":{\"leafseal-store\":\"",
            &store,
            "\",\"leafseal-slot\":\"",
            &slot,
            "\"},\"",
            operation.fields().0,
            "\":\"",
            input,
            "\"}",
        ];
        let mut body = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
        parts.iter().for_each(|part| body.extend_from_slice(part.as_bytes()));
        body
    }

    fn request(
        &self,
        operation: KmsOperation,
        body: Zeroizing<Vec<u8>>,
        time: &str,
    ) -> Result<Request<Full<Bytes>>, ProviderError> {
        let credentials = self.credentials()?;
        let mut fields = vec![
            ("content-type", "application/x-amz-json-1.1"),
            ("host", self.origin.authority.as_str()),
            ("x-amz-date", time),
        ];
        fields.extend(credentials.session_token.as_deref().map(|token| ("x-amz-security-token", token.as_str())));
        fields.push(("x-amz-target", operation.target()));
        let region = &self.settings.region;
        let signed = Signed { method: "POST", region, service: "kms", time, fields: &fields, body: &body };
        let authorization = signed.authorization(&credentials);
        let mut request = Request::builder().method(Method::POST).uri("/");
        for (name, value) in fields.into_iter().chain([("authorization", authorization.as_str())]) {
            let mut value = HeaderValue::from_str(value).map_err(|_| self.unreadable())?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from_owner(body))).map_err(|error| self.unavailable(error))
    }

    fn credentials(&self) -> Result<AwsCredentials, ProviderError> {
        let path = self.settings.credentials_file.as_deref();
        let path = path.ok_or_else(|| self.unavailable("aws_kms.credentials_file is not set"))?;
        let content = read_private_file(SecretPath::TokenFile, path, CREDENTIALS_SIZE_MAX);
        let content = content.map_err(|error| self.unavailable(error))?;
        let text = content.as_deref().and_then(|content| std::str::from_utf8(content).ok());
        text.and_then(AwsCredentials::parse).ok_or_else(|| self.unreadable())
    }

    fn unreadable(&self) -> ProviderError {
        self.unavailable(
            "aws_kms.credentials_file must have a section [default] with aws_access_key_id and aws_secret_access_key",
        )
    }

    fn result(&self, operation: KmsOperation, answer: &ServiceAnswer) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status != StatusCode::OK {
            return Err(self.refusal(answer.status, &body));
        }
        let text = match body.get_mut(operation.fields().1).map(Value::take) {
            Some(Value::String(text)) => Zeroizing::new(text),
            _ => return Err(self.unavailable("its answer is not that of AWS KMS: check aws_kms.url")),
        };
        Base64::decode_vec(&text).map(Zeroizing::new).map_err(|_| self.unavailable("its answer is not Base64"))
    }

    /// Why the server refuses, and what to do.
    fn refusal(&self, status: StatusCode, body: &Value) -> ProviderError {
        let kind = body.get("__type").and_then(Value::as_str).and_then(|text| text.rsplit('#').next());
        let said = ["message", "Message"].iter().find_map(|name| body.get(name)).and_then(Value::as_str);
        let text = shortened(&[kind.unwrap_or_default(), said.unwrap_or_default()].join(" "));
        let advice = match kind.unwrap_or_default() {
            // Of the ciphertext or of its place: another slot may open.
            "InvalidCiphertextException" | "IncorrectKeyException" => {
                return ProviderError::Denied(format!("AWS KMS at {}: {text}", self.origin.authority));
            }
            "AccessDeniedException" => ": allow kms:Decrypt, and kms:Encrypt to make slots, with aws_kms.key",
            "NotFoundException" => ": check aws_kms.key and aws_kms.region",
            "DisabledException" | "KMSInvalidStateException" => ": enable the key",
            "InvalidKeyUsageException" => ": aws_kms.key must be a symmetric key for encryption",
            "ExpiredTokenException"
            | "IncompleteSignatureException"
            | "InvalidClientTokenId"
            | "InvalidSignatureException"
            | "SignatureDoesNotMatch"
            | "UnrecognizedClientException" => ": check aws_kms.credentials_file, and the clock of this machine",
            _ if status == StatusCode::FORBIDDEN => ": check aws_kms.credentials_file, and the clock of this machine",
            _ if status.is_redirection() => " it redirects, which is not followed: set aws_kms.url",
            _ => "",
        };
        self.unavailable(format_args!("{status} {text}{advice}"))
    }
}

impl SlotProvider for KmsProvider {
    fn kind(&self) -> SlotKind {
        SlotKind::AwsKms
    }

    fn key_name(&self) -> String {
        self.settings.key.clone()
    }

    fn wrap(&self, place: &SlotPlace, secret: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        Ok(self.ask(KmsOperation::Encrypt, secret, place)?.to_vec())
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        self.ask(KmsOperation::Decrypt, wrapped, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(operation: KmsOperation, status: u16, body: &str) -> Result<Vec<u8>, ProviderError> {
        let settings =
            KmsSettings { key: "alias/x".to_owned(), region: "eu-central-1".to_owned(), ..KmsSettings::default() };
        let provider = KmsProvider::new(&settings, Path::new("/dir")).expect("a key");
        let status = StatusCode::from_u16(status).expect("a status");
        let answer = ServiceAnswer { status, body: Zeroizing::new(body.as_bytes().to_vec()) };
        provider.result(operation, &answer).map(|opened| opened.to_vec())
    }

    #[test]
    fn an_answer_is_what_was_asked_for_or_an_error_with_advice() {
        use KmsOperation::{Decrypt, Encrypt};
        assert_eq!(result(Encrypt, 200, r#"{"CiphertextBlob":"AAEC"}"#), Ok(vec![0, 1, 2]));
        assert_eq!(result(Decrypt, 200, r#"{"Plaintext":"AAEC"}"#), Ok(vec![0, 1, 2]));
        let denied = result(Decrypt, 400, r#"{"__type":"InvalidCiphertextException"}"#);
        assert!(matches!(denied, Err(ProviderError::Denied(_))), "{denied:?}");
        for (status, body, part) in [
            (200, r#"{"CiphertextBlob":"AAEC"}"#, "check aws_kms.url"),
            (200, r#"{"Plaintext":"?"}"#, "not Base64"),
            (400, r#"{"__type":"com.amazonaws#AccessDeniedException","Message":"no"}"#, "no: allow kms:Decrypt"),
            (400, r#"{"__type":"NotFoundException","message":"x"}"#, "check aws_kms.key"),
            (403, r#"{"__type":"ExpiredTokenException"}"#, "check aws_kms.credentials_file"),
            (403, "<ErrorResponse/>", "check aws_kms.credentials_file"),
            (307, "", "it redirects"),
            (500, "", "500"),
        ] {
            let Err(ProviderError::Unavailable(error)) = result(Decrypt, status, body) else {
                panic!("{status} {body}");
            };
            assert!(error.contains(part), "{status} {body}: {error}");
            assert!(error.starts_with("AWS KMS at kms.eu-central-1.amazonaws.com: "), "{error}");
        }
    }
}
