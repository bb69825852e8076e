//! Applies rules to one message: query, header fields, JSON documents, forms.
//!
//! Every error is a refusal: a message to which a rule could not be applied is not forwarded.

mod body_type;
mod canonical;
mod embedded;
mod fields;
pub(crate) mod fuzzing;
mod headers;
mod other_readings;
mod patch;
mod query;
mod redact;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use hyper::header::HeaderMap;
use leafseal_client::{
    Answer, Client, ClientError, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, ErrorKind,
    OtherCase, Prepared, Scalar, Value, Values,
};
use leafseal_document::form::FormLimits;
use leafseal_http::BodyError;

use crate::body::buffer::{AnswerShare, Budget, BudgetShare, Buffer, read_whole};
use crate::body::coding::{Coding, DecodeBounds, DecodeError, Decoding, Encoding};
use crate::body::offload::{Cost, Offload};
use crate::config::{Action, Actions, JsonFields, Limits, Mismatch, OnFailure, Rule};
use crate::hop_headers;
use crate::refusal::{Direction, Refusal};
use body_type::{Kind, accepted, is_misleading, kind, may_be_form, write_canonical};
use redact::{RedactFault, Redaction};

/// The first characters of an envelope.
const ENVELOPE_START: &str = "ev:";
/// Memory of a request to the engine besides its document or file.
const MESSAGE_SIZE: usize = 4 << 10;
/// Maximum bytes that a string adds to its text in a request.
const TEXT_HEAD_SIZE: usize = 5;
/// Memory of a string besides its bytes while it is read from an answer: a value, a string, and the allocator's rounding.
const TEXT_SIZE: usize = size_of::<Value>() + size_of::<String>() + 32;

/// The engine client and the limits for rules. One per thread.
#[derive(Clone)]
pub(crate) struct TransformContext {
    pub(crate) client: Client,
    pub(crate) budget: Arc<Budget>,
    pub(crate) offload: Offload,
    pub(crate) deadline_ms: u32,
    pub(crate) decode: DecodeBounds,
    pub(crate) body_timeout: Duration,
    pub(crate) form: FormLimits,
    pub(crate) failure_paths_max: usize,
}

/// The rules for one message, and the state of their application.
pub(crate) struct Job<'a> {
    pub(crate) transforms: &'a TransformContext,
    pub(crate) direction: Direction,
    pub(crate) actions: &'a Actions,
    pub(crate) app: &'a str,
    /// The API key whose permissions limit decryption, in addition to those of the relay.
    pub(crate) key_id: Option<&'a str>,
    /// The client that the body's memory is charged to.
    pub(crate) client: IpAddr,
    /// Changed values, by action.
    pub(crate) changed: [u64; 3],
    pub(crate) unopened: Unopened,
    /// Names of parameters of the query that a rule hides.
    pub(crate) hidden_in_query: Vec<String>,
}

/// Envelopes that failed to decrypt, and the paths of the first of them.
#[derive(Debug, Default)]
pub(crate) struct Unopened {
    pub(crate) count: u64,
    pub(crate) places: Vec<String>,
}

impl Unopened {
    fn add(&mut self, count: u64, places: impl Iterator<Item = String>, places_max: usize) {
        self.count += count;
        self.places.extend(places.take(places_max.saturating_sub(self.places.len())));
    }
}

/// The result of processing a body.
pub(crate) enum Outcome<B> {
    /// The body is forwarded unchanged.
    Untouched(B),
    /// The body is replaced. Its memory is released on drop.
    Rewritten(Bytes),
}

impl TransformContext {
    pub(crate) fn new(
        client: Client,
        budget: Arc<Budget>,
        offload: Offload,
        timeout_ms: u128,
        limits: &Limits,
    ) -> Self {
        TransformContext {
            client,
            budget,
            offload,
            deadline_ms: u32::try_from(timeout_ms).unwrap_or(u32::MAX),
            decode: DecodeBounds {
                size_max: limits.body_size_max,
                expansion_max: limits.expansion_max,
                expansion_free: limits.expansion_free_size,
            },
            body_timeout: limits.buffered_body_timeout,
            form: FormLimits {
                fields_max: limits.form_fields_max,
                name_size_max: limits.form_name_size_max,
                ..FormLimits::default()
            },
            failure_paths_max: limits.failure_paths_max,
        }
    }
}

impl Job<'_> {
    /// Where work on the message runs.
    fn offload(&self) -> Offload {
        self.transforms.offload.for_client(self.client)
    }

    /// Applies all rules.
    ///
    /// # Errors
    /// If the message must not be forwarded.
    pub(crate) async fn run<B>(&mut self, headers: &mut HeaderMap, body: B) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        self.refuse_cookies(headers).await?;
        self.headers(headers).await?;
        let actions = self.actions;
        let guards = actions.guard_forms() && may_be_form(headers);
        if body.is_end_stream() || !(actions.read_bodies() || guards) {
            return Ok(Outcome::Untouched(body));
        }
        let passes = actions.mismatch == Mismatch::Pass && !guards;
        let passes = passes && !is_misleading(actions, headers);
        let kind = match kind(actions, headers) {
            Some(kind) => kind,
            None if passes => return Ok(Outcome::Untouched(body)),
            None => return self.read_empty_body(body, &accepted(actions)).await,
        };
        let coding = match Coding::of(headers) {
            Some(coding) => coding,
            None if passes => return Ok(Outcome::Untouched(body)),
            None => {
                return Err(Refusal::mismatch(
                    self.direction,
                    "its Content-Encoding must be identity, gzip, br or zstd",
                ));
            }
        };
        let kind = if kind == Kind::Json && body_type::is_patch(headers) { self.patch_kind() } else { kind };
        if actions.hide() {
            write_canonical(headers, coding);
        }
        let share = self.transforms.budget.share(self.client);
        let (size_max, time_max) = (self.transforms.decode.size_max, self.transforms.body_timeout);
        let coded = read_whole(body, self.direction, size_max, time_max, share, &self.offload()).await?;
        if coded.is_empty() {
            return Ok(Outcome::Rewritten(Bytes::new()));
        }
        let plain = self.decode(coding, coded).await?;
        let (kind, plain) = self.by_shape(kind, plain).await?;
        let canonical = self.canonical(&kind, headers, plain).await?;
        let rewritten = self.body(&kind, canonical).await?;
        let rewritten = self.refuse_other_readings(&kind, rewritten).await?;
        let rewritten = self.refuse_embedded(&kind, rewritten).await?;
        let coded = self.encode(coding, rewritten).await?;
        hop_headers::update_for_new_body(headers, coded.len());
        Ok(Outcome::Rewritten(Bytes::from_owner(coded)))
    }

    /// A body of a type that no rule reads is forwarded only if it turns out to be empty.
    async fn read_empty_body<B>(&self, mut body: B, what: &str) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        use http_body_util::BodyExt;
        match body.frame().await {
            None => Ok(Outcome::Rewritten(Bytes::new())),
            Some(Ok(_)) => Err(Refusal::mismatch(self.direction, what)),
            Some(Err(error)) => Err(Refusal::of_body(self.direction, &error)),
        }
    }

    async fn decode(&self, coding: Coding, coded: Buffer) -> Result<Buffer, Refusal> {
        if coding == Coding::Identity {
            return Ok(coded);
        }
        let bounds = self.transforms.decode;
        let decoding = Decoding::new(coding, coded, bounds)?;
        let decoded = self.offload().run_in_slices(Cost::UNKNOWN, decoding, Decoding::step).await;
        let unreadable = |detail: &str| Refusal::unreadable(self.direction, detail);
        decoded.map_err(|error| match error {
            DecodeError::TooLarge => Refusal::too_large(self.direction, bounds.size_max),
            DecodeError::Expands => Refusal::expands(self.direction, bounds.expansion_max),
            DecodeError::Malformed => unreadable("its content coding is damaged"),
            DecodeError::Window => unreadable("its content coding has a larger window than HTTP allows"),
            DecodeError::Costly => unreadable("its content coding has too many parts for its size"),
            DecodeError::NoRoom(refusal) => refusal,
        })
    }

    async fn encode(&self, coding: Coding, plain: Buffer) -> Result<Buffer, Refusal> {
        if coding == Coding::Identity {
            return Ok(plain);
        }
        let mut share = plain.share().another(plain.len())?;
        // Encoders allocate and initialize tables even for a small body.
        let cost = Cost::of_bytes(plain.len(), 40).max(Cost::of_nanoseconds(100_000));
        let failed = |_| internal("a body could not be coded");
        let encoding = Encoding::new(coding, plain).map_err(failed)?;
        let coded = self.offload().run_in_slices(cost, encoding, Encoding::step).await.map_err(failed)?;
        share.resize(coded.capacity())?;
        Ok(Buffer::of(coded, share))
    }

    async fn body(&mut self, kind: &Kind, plain: Buffer) -> Result<Buffer, Refusal> {
        let mut body = plain;
        let actions = self.actions;
        for rule in &actions.rules {
            body = match kind {
                Kind::Json if rule.json.is_some() => self.json(rule, body).await?,
                Kind::Patch if rule.json.is_some() => self.patch(rule, body).await?,
                Kind::Urlencoded if !rule.form.is_empty() => self.urlencoded(rule, body).await?,
                Kind::Multipart(boundary) if !rule.form.is_empty() => self.multipart(rule, boundary, body).await?,
                _ => body,
            };
        }
        Ok(body)
    }

    async fn json(&mut self, rule: &Rule, document: Buffer) -> Result<Buffer, Refusal> {
        let Some(fields) = &rule.json else { return Ok(document) };
        if rule.action == Action::Redact {
            return self.redact(rule, fields, document).await;
        }
        self.document(rule, &fields.selectors, rule.require_match, document).await
    }

    /// Has the engine apply a rule to the values of a document that the selectors select; each must select one if `is_strict`.
    async fn document(
        &mut self,
        rule: &Rule,
        selectors: &Arc<[String]>,
        is_strict: bool,
        document: Buffer,
    ) -> Result<Buffer, Refusal> {
        // The answer is at least about as large as the document; more is charged while it arrives.
        let share = document.share().another(document.len())?;
        let message = document.share().another(document.len() + MESSAGE_SIZE)?;
        let (params, selectors, encrypts) = (self.params(rule), Arc::clone(selectors), rule.action == Action::Encrypt);
        let write = move || {
            let select: Vec<&str> = selectors.iter().map(String::as_str).collect();
            let encrypt = EncryptOptions { strict: is_strict, unambiguous: true, ..params.encrypt() };
            let decrypt = DecryptOptions { strict: is_strict, ..params.decrypt() };
            match encrypts {
                true => Prepared::encrypt_document(&encrypt, Some(&select), document.as_ref()),
                false => Prepared::decrypt_document(&decrypt, Some(&select), document.as_ref()),
            }
        };
        let (answer, mut share) = self.call(message, share, write).await?;
        // A fragmented body is freed piece by piece while it is joined.
        let read = self.offload().run(Cost::of_copy(answer.size()), move || answer.into_document()).await;
        let answer = read.map_err(|error| Refusal::of_engine(self.direction, &error))?;
        self.changed[rule.action as usize] += answer.count;
        self.unopened.add(answer.report.failed, answer.failures.into_iter(), self.transforms.failure_paths_max);
        share.resize(answer.json.capacity())?;
        Ok(Buffer::of(answer.json, share))
    }

    async fn redact(&mut self, rule: &Rule, fields: &JsonFields, document: Buffer) -> Result<Buffer, Refusal> {
        // The cost of filters cannot be derived from the size.
        let cost = if fields.selection.streams() { Cost::of_bytes(document.len(), 16) } else { Cost::UNKNOWN };
        let refused = |fault| match fault {
            RedactFault::Document(error) => Refusal::of_document(self.direction, error),
            RedactFault::Unmatched => Refusal::unmatched(self.direction),
            RedactFault::NoRoom(refusal) => refusal,
        };
        let redaction = Redaction::new(document, &fields.selection, &rule.replacement, rule.require_match);
        let redaction = redaction.map_err(refused)?;
        let redacted = self.offload().run_in_slices(cost, redaction, Redaction::step).await;
        let (redacted, count) = redacted.map_err(refused)?;
        self.changed[rule.action as usize] += count;
        Ok(redacted)
    }

    /// Sends the request that `write` writes to the engine and returns its answer. `message` covers the request's memory until then;
    /// `answer` grows with the answer and is returned with it.
    async fn call(
        &self,
        message: BudgetShare,
        answer: BudgetShare,
        write: impl FnOnce() -> Prepared + Send + 'static,
    ) -> Result<(Answer, BudgetShare), Refusal> {
        let answer = self.try_call(message, answer, write).await?;
        answer.map_err(|error| Refusal::of_engine(self.direction, &error))
    }

    /// As [`Job::call`], but returns the engine's error separately from the relay's own refusal.
    async fn try_call(
        &self,
        message: BudgetShare,
        answer: BudgetShare,
        write: impl FnOnce() -> Prepared + Send + 'static,
    ) -> Result<Result<(Answer, BudgetShare), ClientError>, Refusal> {
        let prepared = self.offload().run(Cost::of_copy(message.size()), write).await;
        let memory = AnswerShare::new(answer);
        let answer = self.transforms.client.send_within(prepared, Arc::<AnswerShare>::clone(&memory)).await;
        drop(message);
        match answer {
            Ok(answer) => {
                let mut share = memory.take()?;
                share.resize(answer.capacity())?;
                Ok(Ok((answer, share)))
            }
            Err(error) if error.kind == ErrorKind::AnswerMemory => {
                Err(memory.take().err().unwrap_or_else(|| internal("an answer was dropped")))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn params(&self, rule: &Rule) -> CallParams {
        let deadline_ms = self.transforms.deadline_ms;
        let (on_failure, other_case) = (rule.on_failure, rule.names_on_the_wire());
        let (app, role, key_id) = (self.app.into(), rule.role.clone(), self.key_id.map(Into::into));
        CallParams { app, role, key_id, deadline_ms, on_failure, other_case }
    }

    /// Applies a rule to texts; `place` names the part of the message for errors. The share grows by the memory of the results.
    async fn texts(
        &mut self,
        rule: &Rule,
        place: &str,
        texts: Arc<Vec<String>>,
        share: &mut BudgetShare,
    ) -> Result<Arc<Vec<String>>, Refusal> {
        if texts.is_empty() {
            return Ok(texts);
        }
        if rule.action == Action::Redact {
            share.grow(texts.len() * (TEXT_SIZE + rule.replacement.len()))?;
            self.changed[rule.action as usize] += texts.len() as u64;
            return Ok(Arc::new(vec![rule.replacement.to_string(); texts.len()]));
        }
        if rule.action == Action::Decrypt && !texts.iter().any(|text| text.starts_with(ENVELOPE_START)) {
            return Ok(texts);
        }
        let (params, values, encrypts) = (self.params(rule), Arc::clone(&texts), rule.action == Action::Encrypt);
        let write = move || {
            let values = values.iter().map(|text| Scalar::from(text.as_str()));
            match encrypts {
                true => Prepared::encrypt(&params.encrypt(), values),
                false => Prepared::decrypt(&params.decrypt(), values),
            }
        };
        let offload = self.offload();
        let message = share.another(size_of_texts(&texts) + texts.len() * TEXT_HEAD_SIZE + MESSAGE_SIZE)?;
        let (answer, arrived) = self.call(message, share.another(0)?, write).await?;
        // While the texts are parsed they are in memory beside the answer.
        share.grow(answer.size() + texts.len() * TEXT_SIZE)?;
        let cost = cost_of_texts(&texts).max(Cost::of_copy(answer.size()));
        let read = offload.run(cost, move || {
            let Values { values, report, failures } = answer.into_reported_values()?;
            drop(arrived);
            let answer: Vec<String> = values.into_iter().map(into_text).collect();
            let changed = answer.iter().zip(&*texts).filter(|(after, before)| after != before).count() as u64;
            Ok((answer.len() == texts.len()).then_some((answer, changed, report.failed, failures)))
        });
        let read = read.await.map_err(|error| Refusal::of_engine(self.direction, &error))?;
        let read = read.ok_or_else(|| internal("the engine answered with another number of values"))?;
        let (answer, changed, failed, failures) = read;
        let places = failures.iter().map(|index| format!("{place} {index}"));
        self.unopened.add(failed, places, self.transforms.failure_paths_max);
        let emptied = if rule.on_failure == OnFailure::Null { failed } else { 0 };
        self.changed[rule.action as usize] += changed.saturating_sub(emptied);
        Ok(Arc::new(answer))
    }
}

/// The common parameters of engine requests.
struct CallParams {
    app: Box<str>,
    role: Option<Box<str>>,
    key_id: Option<Box<str>>,
    deadline_ms: u32,
    on_failure: OnFailure,
    other_case: Option<OtherCase>,
}

impl CallParams {
    fn encrypt(&self) -> EncryptOptions<'_> {
        let deadline_ms = Some(self.deadline_ms);
        let other_case = self.other_case;
        EncryptOptions { role: self.role.as_deref(), deadline_ms, other_case, ..EncryptOptions::new(&self.app) }
    }

    fn decrypt(&self) -> DecryptOptions<'_> {
        let deadline_ms = Some(self.deadline_ms);
        let on_failure = match self.on_failure {
            // Omitted, so that older engines accept the request.
            OnFailure::Fail => None,
            OnFailure::Leave => Some(leafseal_client::OnFailure::Leave),
            OnFailure::Null => Some(leafseal_client::OnFailure::Null),
        };
        let (role, key_id, other_case) = (self.role.as_deref(), self.key_id.as_deref(), self.other_case);
        DecryptOptions { role, deadline_ms, on_failure, other_case, key_id, ..DecryptOptions::new(&self.app) }
    }

    fn encrypt_file(&self) -> EncryptFileOptions<'_> {
        EncryptFileOptions { deadline_ms: Some(self.deadline_ms), ..EncryptFileOptions::new(&self.app) }
    }

    fn decrypt_file(&self) -> DecryptFileOptions<'_> {
        let (deadline_ms, key_id) = (Some(self.deadline_ms), self.key_id.as_deref());
        DecryptFileOptions { deadline_ms, key_id, ..DecryptFileOptions::new(&self.app) }
    }
}

/// The cost of copying texts into separate allocations.
fn cost_of_texts(texts: &[String]) -> Cost {
    Cost::of_nanoseconds(texts.len() as u64 * 100).max(Cost::of_copy(size_of_texts(texts)))
}

fn size_of_texts(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

/// Wraps bytes in a buffer and reduces the share to their size.
fn into_buffer(mut bytes: Vec<u8>, mut share: BudgetShare) -> Result<Buffer, Refusal> {
    bytes.shrink_to_fit();
    share.resize(bytes.capacity())?;
    Ok(Buffer::of(bytes, share))
}

fn internal(detail: &str) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
}

/// The text of a value in a form or header.
fn into_text(value: Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Str(text) => text,
    }
}

#[cfg(test)]
mod tests;
