//! The work of calls, as requests like those over RPC: bodies are used in place, answers are written to the outgoing buffer. The
//! engine checks the caller's permission when the work begins, whatever the network side has checked.

use std::sync::Arc;
use std::time::Duration;

use boring::base64;
use fieldseal_engine::{
    Caller, DecryptOptions, Decryptor, DocumentWork, EncryptOptions, Encryptor, Engine, Error, FileDecryption,
    FileEncryption, Inspector, OnFailure, PayloadDigest, PayloadReading, Progress, Rewriter, Selection,
    SelectionBuilder, TOKEN_AGE_MAX, TokenRequestReading,
};
use fieldseal_protocol::{ErrorCode, ErrorObject};
use serde_json::{Value, json};

use super::query::Options;
use super::report::{Slot, WorkReport};
use fieldseal_service::{OwnsDocument, error_object, next_part, text_kind, wire_curve};
use fieldseal_service::{Planned, Request, Step, Written};

/// The caller and the parameters of a call.
pub(super) struct CallInput {
    pub(super) engine: Engine,
    pub(super) caller: Caller,
    pub(super) app: String,
    pub(super) options: Options,
    pub(super) body: Vec<u8>,
    /// Where the report goes.
    pub(super) report: Slot,
}

impl CallInput {
    fn encrypt_options(&self) -> EncryptOptions<'_> {
        let Options { role, curve, keying, skip_sealed, .. } = &self.options;
        let skip_sealed = skip_sealed.unwrap_or(false);
        EncryptOptions { app: &self.app, curve: *curve, keying: *keying, role: role.as_deref(), skip_sealed }
    }

    fn decrypt_options(&self) -> DecryptOptions<'_> {
        let on_failure = self.options.on_failure.unwrap_or_default();
        DecryptOptions { app: &self.app, role: self.options.role.as_deref(), on_failure }
    }
}

impl OwnsDocument for CallInput {
    fn document(&self) -> &[u8] {
        &self.body
    }
}

/// Encrypts the selected scalars of [`CallInput::body`] as JSON.
pub(super) fn encrypt_document(input: CallInput) -> Box<dyn Request> {
    let begin = |input: &CallInput| input.engine.encryptor(&input.caller, &input.encrypt_options());
    Box::new(Document::<Encryptor> { input: Arc::new(input), stage: Stage::Received, begin, payload: None })
}

/// The same with every envelope in it decrypted that is selected. `payload` is what a token was made for, and nothing else is decrypted
/// for one.
pub(super) fn decrypt_document(input: CallInput, payload: Option<PayloadDigest>) -> Box<dyn Request> {
    let begin = |input: &CallInput| input.engine.decryptor(&input.caller, &input.decrypt_options());
    Box::new(Document::<Decryptor> { input: Arc::new(input), stage: Stage::Received, begin, payload })
}

struct Document<R: Rewriter> {
    input: Arc<CallInput>,
    stage: Stage<R>,
    begin: fn(&CallInput) -> Result<R, Error>,
    payload: Option<PayloadDigest>,
}

enum Stage<R: Rewriter> {
    Received,
    /// It is not known yet whether the token is for this document.
    Compared(Box<PayloadReading>, PayloadDigest),
    /// The caller's right is known, and its selectors are being compiled, one a step.
    Selecting(Option<Box<Selecting<R>>>),
    Working(Box<DocumentWork<R>>),
}

struct Selecting<R> {
    rewriter: R,
    selectors: SelectionBuilder,
    /// How many are compiled.
    done: usize,
}

impl<R: Rewriter> Document<R> {
    fn work(&self) -> Option<&DocumentWork<R>> {
        match &self.stage {
            Stage::Working(work) => Some(work),
            Stage::Received | Stage::Compared(..) | Stage::Selecting(_) => None,
        }
    }

    fn begin(&self) -> Result<Stage<R>, Error> {
        let rewriter = (self.begin)(&self.input)?;
        if self.input.options.select.is_empty() {
            return self.begin_work(rewriter, None);
        }
        let selectors = self.input.engine.selection_builder();
        Ok(Stage::Selecting(Some(Box::new(Selecting { rewriter, selectors, done: 0 }))))
    }

    fn begin_work(&self, rewriter: R, selection: Option<&Selection>) -> Result<Stage<R>, Error> {
        let CallInput { engine, body, options, .. } = &*self.input;
        let work = engine.rewrite_document(rewriter, selection, body.len())?;
        Ok(Stage::Working(Box::new(work.strict(options.strict.unwrap_or(false)))))
    }

    /// Compiles the next selector, or starts the work after the last.
    fn select(&self, mut selecting: Box<Selecting<R>>) -> Result<Stage<R>, Error> {
        let Some(selector) = self.input.options.select.get(selecting.done) else {
            let Selecting { rewriter, selectors, .. } = *selecting;
            return self.begin_work(rewriter, Some(&selectors.finish()));
        };
        selecting.selectors.add(selector)?;
        selecting.done += 1;
        Ok(Stage::Selecting(Some(selecting)))
    }

    /// Leaves the report about finished work for the answer.
    fn tell(&self, count: u64) {
        let Some(work) = self.work() else { return };
        let on_failure = self.input.options.on_failure;
        let tells_failures = on_failure.is_some_and(|on_failure| on_failure != OnFailure::Fail);
        let _ = self.input.report.set(WorkReport { count, report: work.report(), tells_failures });
    }
}

impl<R: Rewriter + Send + 'static> Request for Document<R> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let input = Arc::clone(&self.input);
        let body = &input.body;
        let stage = match &mut self.stage {
            Stage::Selecting(selecting) => {
                let selecting = selecting.take().expect("it is put back unless the work begins");
                self.select(selecting).map_err(error_object)?
            }
            Stage::Received => match self.payload.take() {
                Some(payload) => {
                    let reading = self.input.engine.payload(body.len()).map_err(error_object)?;
                    Stage::Compared(Box::new(reading), payload)
                }
                None => self.begin().map_err(error_object)?,
            },
            Stage::Compared(reading, payload) => match reading.step(body).map_err(error_object)? {
                None => return Ok(Step::More),
                Some(read) if read == *payload => self.begin().map_err(error_object)?,
                Some(_) => return Err(ErrorObject::new(ErrorCode::Forbidden, "the token is for another payload")),
            },
            Stage::Working(work) => {
                let progress = work.step(body, out).map_err(error_object)?;
                if progress == Progress::More {
                    return Ok(Step::Spread { answer_size_max: work.output_size_max() });
                }
                let count = work.count();
                self.tell(count);
                return Ok(Step::Done);
            }
        };
        self.stage = stage;
        Ok(Step::More)
    }

    fn next_part(&mut self) -> Result<Planned, ErrorObject> {
        let Stage::Working(work) = &mut self.stage else { unreachable!("only work spreads") };
        next_part(&self.input, work)
    }

    fn finish(&mut self, _head: &mut Vec<u8>, written: Written, _tail: &mut Vec<u8>) {
        self.tell(written.fields);
    }

    fn too_large(&self) -> ErrorObject {
        let work = self.work().expect("only work spreads");
        error_object(work.too_large())
    }

    fn fields(&self) -> u64 {
        self.work().map_or(0, DocumentWork::count)
    }

    fn memory(&self) -> usize {
        self.work().map_or(0, DocumentWork::memory)
    }
}

/// The file form of [`CallInput::body`].
pub(super) fn encrypt_file(input: CallInput) -> Box<dyn Request> {
    Box::new(File { input, work: None, begin: begin_encryption })
}

/// The content of the file that [`CallInput::body`] is.
pub(super) fn decrypt_file(input: CallInput) -> Box<dyn Request> {
    Box::new(File { input, work: None, begin: begin_decryption })
}

fn begin_encryption(input: &CallInput) -> Result<FileWork, Error> {
    input.engine.encrypt_file(&input.caller, &input.app, input.options.curve).map(FileWork::Encrypt)
}

fn begin_decryption(input: &CallInput) -> Result<FileWork, Error> {
    input.engine.decrypt_file(&input.caller, &input.app).map(FileWork::Decrypt)
}

struct File {
    input: CallInput,
    work: Option<FileWork>,
    begin: fn(&CallInput) -> Result<FileWork, Error>,
}

enum FileWork {
    Encrypt(FileEncryption),
    Decrypt(FileDecryption),
}

impl Request for File {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let body = &self.input.body;
        let progress = match &mut self.work {
            None => {
                self.work = Some((self.begin)(&self.input).map_err(error_object)?);
                return Ok(Step::More);
            }
            Some(FileWork::Encrypt(work)) => work.step(body, out),
            Some(FileWork::Decrypt(work)) => work.step(body, out),
        };
        Ok(if progress.map_err(error_object)? == Progress::More { Step::More } else { Step::Done })
    }
}

/// Makes a client-side token.
pub(super) fn issue_token(input: CallInput) -> Box<dyn Request> {
    Box::new(Issue { input, reading: None })
}

struct Issue {
    input: CallInput,
    reading: Option<TokenRequestReading>,
}

/// The only thing that a token can be for.
const DECRYPT: &str = "api:decrypt";
/// An `expiry` up to here is a number of milliseconds from now; a larger one is a time.
const EXPIRY_FROM_NOW_MAX_MS: u64 = TOKEN_AGE_MAX.as_millis() as u64;
/// A shorter one is a mistake, such as the milliseconds part of a date.
const EXPIRY_MIN_MS: u64 = 1_000;

impl Request for Issue {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let CallInput { engine, caller, app, body, .. } = &self.input;
        let Some(reading) = &mut self.reading else {
            self.reading = Some(engine.token_request(body.len()).map_err(error_object)?);
            return Ok(Step::More);
        };
        let Some(request) = reading.step(body).map_err(error_object)? else { return Ok(Step::More) };
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
        Ok(Step::Done)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    FromNow(Duration),
    At(u64),
}

pub(super) fn expiry(text: &str) -> Result<Expiry, ErrorObject> {
    match text.parse::<u64>() {
        Ok(milliseconds) if milliseconds > EXPIRY_FROM_NOW_MAX_MS => Ok(Expiry::At(milliseconds)),
        Ok(milliseconds) if milliseconds >= EXPIRY_MIN_MS => Ok(Expiry::FromNow(Duration::from_millis(milliseconds))),
        _ => Err(invalid(
            "the field `expiry` is a Unix time in milliseconds, or from 1000 to 600000 milliseconds from now (some SDKs send of a date \
             only what it has beside its seconds: give them a number)",
        )),
    }
}

/// Returns the metadata of an envelope.
pub(super) fn inspect(input: CallInput) -> Box<dyn Request> {
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
            "debug": inspected.marking == fieldseal_engine::Marking::Debug,
        });
        write(&reported, out);
        Ok(Step::Done)
    }
}

/// The envelope of `{"token": "ev:…"}`, or of a plain string.
pub(super) fn envelope_of(body: &[u8]) -> Result<String, ErrorObject> {
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

/// An app's public keys, in the form in which SDKs read them.
pub(super) fn public_keys(input: CallInput, team: String) -> Box<dyn Request> {
    Box::new(Keys { input, team })
}

struct Keys {
    input: CallInput,
    team: String,
}

impl Request for Keys {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let CallInput { engine, caller, app, .. } = &self.input;
        let keys = engine.public_keys(caller, app).map_err(error_object)?;
        let [r1, k1] = [&keys.r1, &keys.k1].map(|key| base64::encode_block(&key.compressed()));
        let reported = json!({
            "teamUuid": self.team,
            "appUuid": app,
            "key": k1,
            "ecdhKey": k1,
            "ecdhP256Key": r1,
            "ecdhP256KeyUncompressed": base64::encode_block(keys.r1.uncompressed()),
            "keyVersion": keys.version,
            "isDebugMode": false,
        });
        write(&reported, out);
        Ok(Step::Done)
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a buffer takes everything");
}

fn invalid(message: &str) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, message)
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
