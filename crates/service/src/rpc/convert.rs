//! Conversions between the protocol's types and the engine's, written by hand so that neither depends on the other.

use std::borrow::Cow;
use std::time::Duration;

use leafseal_engine::{
    AcceptedSchemes, Caller, Curve, Engine, Error, FileOptions, Keying, OnFailure, RequestReport, Scheme,
};
use leafseal_protocol::answer::{self, Failures};
use leafseal_protocol::{self as wire, AcceptedScheme, ErrorCode, ErrorObject, TextKind, WordSet};

/// When a request that failed for the keystore may be sent again.
const STORE_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn scheme(scheme: wire::Scheme) -> Scheme {
    match scheme {
        wire::Scheme::PublicKey => Scheme::PublicKey,
        wire::Scheme::Symmetric => Scheme::Symmetric,
    }
}

/// Converts a scheme to the protocol's type.
pub(super) fn wire_scheme(scheme: Scheme) -> wire::Scheme {
    match scheme {
        Scheme::PublicKey => wire::Scheme::PublicKey,
        Scheme::Symmetric => wire::Scheme::Symmetric,
    }
}

pub(super) fn curve(curve: wire::Curve) -> Curve {
    match curve {
        wire::Curve::R1 => Curve::P256,
        wire::Curve::K1 => Curve::Secp256k1,
    }
}

/// Converts a curve to the protocol's type.
pub(crate) fn wire_curve(curve: Curve) -> wire::Curve {
    match curve {
        Curve::P256 => wire::Curve::R1,
        Curve::Secp256k1 => wire::Curve::K1,
    }
}

pub(super) fn keying(keying: wire::Keying) -> Keying {
    match keying {
        wire::Keying::Field => Keying::Field,
        wire::Keying::Request => Keying::Request,
        wire::Keying::Session => Keying::Session,
    }
}

pub(super) fn value_type(kind: TextKind) -> leafseal_engine::ValueType {
    match kind {
        TextKind::String => leafseal_engine::ValueType::String,
        TextKind::Number => leafseal_engine::ValueType::Number,
        TextKind::Boolean => leafseal_engine::ValueType::Boolean,
    }
}

/// Converts the type of a value to the protocol's type.
pub(crate) fn text_kind(value_type: leafseal_engine::ValueType) -> TextKind {
    match value_type {
        leafseal_engine::ValueType::String => TextKind::String,
        leafseal_engine::ValueType::Number => TextKind::Number,
        leafseal_engine::ValueType::Boolean => TextKind::Boolean,
    }
}

/// The identity of a request: the client, or the client acting for an API key.
pub(super) fn caller<'a>(
    engine: &Engine,
    client: &'a Caller,
    key_id: Option<&str>,
) -> Result<Cow<'a, Caller>, ErrorObject> {
    let Some(key_id) = key_id else { return Ok(Cow::Borrowed(client)) };
    let caller = engine.on_behalf(client, key_id).map_err(error)?;
    Ok(Cow::Owned(caller))
}

/// Converts options to the engine's type, without those of documents.
pub fn encrypt_options<'a>(options: &wire::EncryptOptions<'a>) -> leafseal_engine::EncryptOptions<'a> {
    leafseal_engine::EncryptOptions {
        app: options.app,
        scheme: options.scheme.map(scheme),
        curve: options.curve.map(curve),
        context: options.context,
        context_select: options.context_select,
        bind: options.bind.map(bind),
        has_contexts: false,
        keying: options.keying.map(keying),
        role: options.role,
        skip_sealed: options.skip_sealed,
        reseal: options.reseal == Some(wire::Reseal::Symmetric),
        accept: accept(options.accept),
    }
}

/// Converts the action for names that differ only in case.
pub fn other_case(word: Option<wire::OtherCase>) -> leafseal_engine::CaseFold {
    match word {
        Some(wire::OtherCase::Refuse) => leafseal_engine::CaseFold::Refuse,
        Some(wire::OtherCase::Same) => leafseal_engine::CaseFold::Same,
        Some(wire::OtherCase::Other) | None => leafseal_engine::CaseFold::Other,
    }
}

/// Converts what of its path a value is bound to.
fn bind(word: wire::PathBinding) -> leafseal_engine::PathBinding {
    match word {
        wire::PathBinding::Path => leafseal_engine::PathBinding::Path,
        wire::PathBinding::PathAndIndex => leafseal_engine::PathBinding::PathAndIndex,
    }
}

/// Converts the kinds of envelopes that are opened.
pub fn accept(words: Option<WordSet<'_, AcceptedScheme>>) -> Option<AcceptedSchemes> {
    words.map(|words| AcceptedSchemes {
        public_key: words.contains(AcceptedScheme::PublicKey),
        symmetric: words.contains(AcceptedScheme::Symmetric),
        from_public_key: words.contains(AcceptedScheme::FromPublicKey),
    })
}

/// Converts options to the engine's type, without those of documents.
pub fn decrypt_options<'a>(options: &wire::DecryptOptions<'a>) -> leafseal_engine::DecryptOptions<'a> {
    let on_failure = on_failure(options.on_failure);
    leafseal_engine::DecryptOptions {
        app: options.app,
        role: options.role,
        context: options.context,
        context_select: options.context_select,
        bind: options.bind.map(bind),
        has_contexts: false,
        accept: accept(options.accept),
        on_failure,
    }
}

/// Converts options to the engine's type.
pub fn rewrap_options<'a>(options: &wire::RewrapOptions<'a>) -> leafseal_engine::RewrapOptions<'a> {
    let on_failure = match options.on_failure {
        None | Some(wire::RewrapFailure::Fail) => OnFailure::Fail,
        Some(wire::RewrapFailure::Leave) => OnFailure::Leave,
    };
    leafseal_engine::RewrapOptions {
        app: options.app,
        scheme: options.scheme.map(scheme),
        curve: options.curve.map(curve),
        context: options.context,
        context_select: options.context_select,
        bind: options.bind.map(bind),
        has_contexts: false,
        accept: accept(options.accept),
        on_failure,
    }
}

/// Converts the options to the engine's type.
pub fn inspect_options<'a>(options: &wire::InspectOptions<'a>) -> leafseal_engine::InspectOptions<'a> {
    leafseal_engine::InspectOptions {
        context: options.context,
        context_select: options.context_select,
        bind: options.bind.map(bind),
        has_contexts: false,
        accept: accept(options.accept),
        leaves_unopened: options.on_failure == Some(wire::RewrapFailure::Leave),
    }
}

/// Converts the options of a file to the engine's type.
pub(super) fn file_options<'a>(options: &wire::EncryptFileOptions<'a>) -> FileOptions<'a> {
    FileOptions { scheme: options.scheme.map(scheme), curve: options.curve.map(curve), context: options.context }
}

/// Converts the action for envelopes that fail to decrypt.
pub(super) fn on_failure(on_failure: Option<wire::OnFailure>) -> OnFailure {
    match on_failure {
        None | Some(wire::OnFailure::Fail) => OnFailure::Fail,
        Some(wire::OnFailure::Leave) => OnFailure::Leave,
        Some(wire::OnFailure::Null) => OnFailure::Null,
    }
}

/// Converts a report for the answer to a document; `paths` are those of its failures. Failures are included if `tells_failures`:
/// the request set an action for them.
pub(super) fn document_report<'a>(
    report: &'a RequestReport,
    paths: &'a [&'a str],
    tells_failures: bool,
) -> answer::AnswerReport<'a> {
    let RequestReport { resealed, skipped, rewrapped, symmetric, failed, .. } = *report;
    let failed = tells_failures.then_some(failed);
    answer::AnswerReport {
        matched: &report.matched,
        resealed,
        skipped,
        rewrapped,
        symmetric,
        failed,
        failures: Failures::Paths(paths),
    }
}

/// Converts a report for the answer to a list.
pub(super) fn list_report<'a>(
    report: &RequestReport,
    indexes: &'a [u64],
    tells_failures: bool,
) -> answer::AnswerReport<'a> {
    let RequestReport { resealed, skipped, rewrapped, symmetric, failed, .. } = *report;
    let (failed, failures) = (tells_failures.then_some(failed), Failures::Indexes(indexes));
    answer::AnswerReport { matched: &[], resealed, skipped, rewrapped, symmetric, failed, failures }
}

/// Converts an engine error. Its index counts from the first value of the step, which is value `first` of the request.
pub(super) fn error_from(error: Error, first: u64) -> ErrorObject {
    if let Some(cause) = error.cause() {
        tracing::warn!(cause, "a request failed because of the keystore");
    }
    let index = error.index.map(|index| first + index);
    let object = ErrorObject { index, offset: error.offset, ..ErrorObject::new(error.code, error.message) };
    match error.code {
        ErrorCode::Unavailable | ErrorCode::Overloaded => object.retry_after(STORE_PAUSE),
        _ => object,
    }
}

/// Converts an engine error about the request as a whole.
pub fn error(error: Error) -> ErrorObject {
    error_from(error, 0)
}
