//! Applies rules to one message: query, header fields, JSON documents, forms.
//!
//! Every error is a refusal: a message to which a rule could not be applied is not forwarded.

mod body_type;
mod call_params;
mod canonical;
mod embedded;
mod fields;
mod files;
pub(crate) mod fuzzing;
mod headers;
mod members;
mod method;
mod names;
mod other_readings;
mod patch;
mod query;
mod redact;
mod splice;
mod unread;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::body::{Body, Bytes};
use hyper::header::HeaderMap;
use leafseal_client::{
    AcceptedScheme, Answer, Client, ClientError, DecryptFileOptions, DecryptOptions, EncryptFileOptions,
    EncryptOptions, ErrorKind, NativeValues, OtherCase, PathBinding, Prepared, Report, Reseal, Scalar, Scheme, Value,
    WordSet,
};
use leafseal_document::form::FormLimits;
use leafseal_errors::ErrorCode;
use leafseal_http::BodyError;

use crate::body::buffer::{AnswerShare, BodyBudget, BodyBuffer, BudgetShare, read_whole};
use crate::body::coding::{Coding, DecodeBounds, DecodeError, Decoding, Encoding};
use crate::body::offload::{Cost, Offload};
use crate::config::Limits;
use crate::metrics::ReportedValues;
use crate::policy::{
    Action, Actions, JsonFields, Mismatch, Rule, RuleBinding, RuleReseal, RuleScheme, RuleSealing, UnopenedAction,
};
use crate::refusal::{Direction, Refusal};
use crate::stream::watched::SearchTools;
use crate::validators;
use body_type::{BodyKind, accepted, is_misleading, is_unreadable, kind, may_be_form, may_be_json, write_canonical};
use call_params::CallParams;
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
    pub(crate) budget: Arc<BodyBudget>,
    pub(crate) offload: Offload,
    pub(crate) deadline_ms: u32,
    pub(crate) decode: DecodeBounds,
    pub(crate) body_timeout: Duration,
    pub(crate) form: FormLimits,
    pub(crate) failure_paths_max: usize,
    /// Bytes of a streamed body in which envelopes are searched, coded and decoded.
    pub(crate) search_size_max: usize,
}

/// The rules for one message, and the state of their application.
pub(crate) struct MessageRules<'a> {
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
    /// Whether the body has other bytes than the one that arrived.
    pub(crate) has_new_body: bool,
    pub(crate) unopened: Unopened,
    /// Names of parameters of the query that a rule hides.
    pub(crate) hidden_in_query: Vec<String>,
    /// Whether the request may set values that JSON sets: its method is not safe, a header field may ask for another, or it has a body.
    pub(crate) may_set: bool,
    /// Whether a query that asks for another method is refused.
    pub(crate) guards_method: bool,
    /// The same for a body.
    pub(crate) guards_method_in_body: bool,
    pub(crate) reported: ReportedValues,
    /// Whether a body that is read is searched for envelopes as it will be forwarded, and whether it holds one.
    pub(crate) searches: bool,
    pub(crate) is_sealed: bool,
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
    /// The body is forwarded as it arrives.
    Untouched(B),
    /// The body was read completely; it is replaced, or the same. Its memory is released on drop.
    Whole(Bytes),
}

impl TransformContext {
    pub(crate) fn new(
        client: Client,
        budget: Arc<BodyBudget>,
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
            search_size_max: limits.envelope_search_size_max,
        }
    }

    /// The parameters of the search for envelopes in a body of this client.
    pub(crate) fn search_tools(&self, client: IpAddr) -> SearchTools {
        let (share, offload) = (self.budget.share(client), self.offload.for_client(client));
        let bounds = DecodeBounds { size_max: self.search_size_max, ..self.decode };
        SearchTools { share, offload, bounds }
    }
}

impl<'a> MessageRules<'a> {
    /// The rules of a direction for a message of this client.
    pub(crate) fn new(
        transforms: &'a TransformContext,
        direction: Direction,
        actions: &'a Actions,
        app: &'a str,
        client: IpAddr,
    ) -> Self {
        MessageRules {
            transforms,
            direction,
            actions,
            app,
            key_id: None,
            client,
            changed: [0; 3],
            has_new_body: false,
            unopened: Unopened::default(),
            hidden_in_query: Vec::new(),
            may_set: true,
            guards_method: false,
            guards_method_in_body: false,
            reported: ReportedValues::default(),
            searches: false,
            is_sealed: false,
        }
    }
}

impl MessageRules<'_> {
    /// Where work on the message runs.
    fn offload(&self) -> Offload {
        self.transforms.offload.for_client(self.client)
    }

    /// Applies all rules to a request.
    ///
    /// # Errors
    /// If the request must not be forwarded.
    pub(crate) async fn run<B>(
        &mut self,
        uri: &mut Uri,
        headers: &mut HeaderMap,
        body: B,
    ) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        self.query(uri).await?;
        self.refuse_cookies(headers).await?;
        self.headers(headers).await?;
        self.run_on_body(headers, body).await
    }

    /// Applies the rules to the body, and adapts the header to it.
    ///
    /// # Errors
    /// If the body must not be forwarded.
    pub(crate) async fn run_on_body<B>(&mut self, headers: &mut HeaderMap, body: B) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let actions = self.actions;
        if body.is_end_stream() {
            return Ok(Outcome::Untouched(body));
        }
        let guards = actions.guard_forms() && may_be_form(headers) || actions.guard_json() && may_be_json(headers);
        if !(actions.read_bodies() || guards) {
            return self.unread(headers, body).await;
        }
        let coding = Coding::of(headers);
        let mismatch = match (kind(actions, headers, guards), coding) {
            (Some(kind), Some(coding)) => {
                let kind =
                    if kind == BodyKind::Json && body_type::is_patch(headers) { self.patch_kind() } else { kind };
                if actions.hide() {
                    write_canonical(headers, coding);
                }
                let coded = self.read(body).await?;
                return self.rewrite(headers, kind, coding, coded).await.map(Outcome::Whole);
            }
            (Some(_), None) => "its Content-Encoding must be identity, gzip, br or zstd".to_owned(),
            (None, _) => accepted(actions),
        };
        let hides = is_unreadable(actions, headers) || is_misleading(actions, headers);
        let only_decrypts = !guards && !actions.hide_in_bodies();
        match actions.mismatch {
            Mismatch::Pass if !guards && !hides => self.unread(headers, body).await,
            Mismatch::Refuse if only_decrypts => self.read_unsealed(headers, body, &mismatch).await.map(Outcome::Whole),
            _ => self.read_empty_body(body, &mismatch).await,
        }
    }

    async fn read<B>(&self, body: B) -> Result<BodyBuffer, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let share = self.transforms.budget.share(self.client);
        let (size_max, time_max) = (self.transforms.decode.size_max, self.transforms.body_timeout);
        read_whole(body, self.direction, size_max, time_max, share, &self.offload()).await
    }

    async fn rewrite(
        &mut self,
        headers: &mut HeaderMap,
        kind: BodyKind,
        coding: Coding,
        coded: BodyBuffer,
    ) -> Result<Bytes, Refusal> {
        if coded.is_empty() {
            return Ok(Bytes::new());
        }
        let (plain, coded) = self.decode(coding, coded).await?;
        let plain = self.refuse_method(&kind, plain).await?;
        let (kind, plain) = self.by_shape(kind, plain).await?;
        let canonical = self.canonical(&kind, headers, plain).await?;
        let rewritten = self.body(&kind, canonical).await?;
        let rewritten = self.refuse_other_readings(&kind, rewritten).await?;
        let rewritten = self.refuse_embedded(&kind, rewritten).await?;
        let rewritten = self.search(rewritten).await;
        // Where a rule hides something, an upstream receives the relay's own coding: a decoder might read the client's otherwise.
        self.has_new_body |= coded.is_some() && self.direction == Direction::Request && self.actions.hide_in_bodies();
        let bytes = match (self.has_new_body, coded) {
            // Encoded again it would have other bytes, and lose its digests.
            (false, Some(coded)) => coded,
            (_, coded) => {
                drop(coded);
                self.encode(coding, rewritten).await?
            }
        };
        match self.has_new_body {
            true => validators::update_for_new_body(headers, bytes.len(), self.actions.tags()),
            false => validators::update_for_same_body(headers, bytes.len()),
        }
        Ok(Bytes::from_owner(bytes))
    }

    /// Decodes a body; also returns the coded one, if there is a coding.
    async fn decode(&self, coding: Coding, coded: BodyBuffer) -> Result<(BodyBuffer, Option<BodyBuffer>), Refusal> {
        if coding == Coding::Identity {
            return Ok((coded, None));
        }
        let bounds = self.transforms.decode;
        let coded = Arc::new(coded);
        let decoding = Decoding::new(coding, Arc::clone(&coded), bounds)?;
        let decoded = self.offload().run_in_slices(Cost::UNKNOWN, decoding, Decoding::step).await;
        let unreadable = |detail: &str| Refusal::unreadable(self.direction, detail);
        let plain = decoded.map_err(|error| match error {
            DecodeError::TooLarge => Refusal::too_large(self.direction, bounds.size_max),
            DecodeError::Expands => Refusal::expands(self.direction, bounds.expansion_max),
            DecodeError::Malformed => unreadable("its content coding is damaged"),
            DecodeError::Window => unreadable("its content coding has a larger window than HTTP allows"),
            DecodeError::Costly => unreadable("its content coding has too many parts for its size"),
            DecodeError::NoRoom(refusal) => refusal,
        })?;
        Ok((plain, Arc::into_inner(coded)))
    }

    async fn encode(&self, coding: Coding, plain: BodyBuffer) -> Result<BodyBuffer, Refusal> {
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
        Ok(BodyBuffer::of(coded, share))
    }

    async fn body(&mut self, kind: &BodyKind, plain: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let mut body = plain;
        let actions = self.actions;
        for rule in &actions.rules {
            body = match kind {
                BodyKind::Json | BodyKind::JsonLines if rule.selectors.json.is_some() => {
                    self.json(rule, kind, body).await?
                }
                BodyKind::Patch if rule.selectors.json.is_some() => self.patch(rule, body).await?,
                BodyKind::Urlencoded if !rule.selectors.form.is_empty() => self.urlencoded(rule, body).await?,
                BodyKind::Multipart(boundary) if !rule.selectors.form.is_empty() => {
                    self.multipart(rule, boundary, body).await?
                }
                _ => body,
            };
        }
        Ok(body)
    }

    async fn json(&mut self, rule: &Rule, kind: &BodyKind, document: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let Some(fields) = &rule.selectors.json else { return Ok(document) };
        let is_lines = *kind == BodyKind::JsonLines;
        if rule.action == Action::Redact {
            return self.redact(rule, fields, is_lines, document).await;
        }
        self.document(rule, &fields.selectors, (rule.require_match, is_lines), document).await
    }

    /// Has the engine apply a rule to the values of a document, or of the document on each line, that the selectors select; each must
    /// select one, in each line that is not blank, if `is_strict`.
    async fn document(
        &mut self,
        rule: &Rule,
        selectors: &Arc<[String]>,
        (is_strict, is_lines): (bool, bool),
        document: BodyBuffer,
    ) -> Result<BodyBuffer, Refusal> {
        // The answer is at least about as large as the document; more is charged while it arrives.
        let share = document.share().another(document.len())?;
        let message = document.share().another(document.len() + MESSAGE_SIZE)?;
        let (params, selectors, encrypts) = (self.params(rule), Arc::clone(selectors), rule.action == Action::Encrypt);
        let params = CallParams { is_lines, ..params };
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
        let emptied = rule.on_failure == UnopenedAction::Null && answer.report.failed > 0;
        self.has_new_body |= answer.count > 0 || emptied;
        self.count_sealed(&answer.report);
        self.unopened.add(answer.report.failed, answer.failures.into_iter(), self.transforms.failure_paths_max);
        share.resize(answer.json.capacity())?;
        Ok(BodyBuffer::of(answer.json, share))
    }

    async fn redact(
        &mut self,
        rule: &Rule,
        fields: &JsonFields,
        is_lines: bool,
        document: BodyBuffer,
    ) -> Result<BodyBuffer, Refusal> {
        // The cost of filters cannot be derived from the size.
        let cost = if fields.selection.streams() { Cost::of_bytes(document.len(), 16) } else { Cost::UNKNOWN };
        let refused = |fault| match fault {
            RedactFault::Document(error) => Refusal::of_document(self.direction, error),
            RedactFault::Unmatched(line) => Refusal::unmatched(self.direction, line),
            RedactFault::NoRoom(refusal) => refusal,
        };
        let redaction = Redaction::new(document, &fields.selection, &rule.replacement, (rule.require_match, is_lines));
        let redaction = redaction.map_err(refused)?;
        let redacted = self.offload().run_in_slices(cost, redaction, Redaction::step).await;
        let (redacted, count) = redacted.map_err(refused)?;
        self.changed[rule.action as usize] += count;
        self.has_new_body |= count > 0;
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

    /// As [`MessageRules::call`], but returns the engine's error separately from the relay's own refusal.
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
        CallParams {
            app,
            role,
            sealing: rule.sealing.clone(),
            key_id,
            deadline_ms,
            on_failure,
            other_case,
            skip_sealed: rule.skip_sealed,
            is_lines: false,
        }
    }

    /// Applies a rule to texts; `place` names the part of the message for errors. The share grows by the memory of the results. Returns the
    /// same list if none changed.
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
        let (offload, before) = (self.offload(), Arc::clone(&texts));
        let message = share.another(size_of_texts(&texts) + texts.len() * TEXT_HEAD_SIZE + MESSAGE_SIZE)?;
        let (answer, arrived) = self.call(message, share.another(0)?, write).await?;
        // While the texts are parsed they are in memory beside the answer.
        share.grow(answer.size() + texts.len() * TEXT_SIZE)?;
        let cost = cost_of_texts(&texts).max(Cost::of_copy(answer.size()));
        let read = offload.run(cost, move || {
            let NativeValues { values, report, failures } = answer.into_reported_values()?;
            drop(arrived);
            let answer: Vec<String> = values.into_iter().map(into_text).collect();
            let changed = answer.iter().zip(&*texts).filter(|(after, before)| after != before).count() as u64;
            Ok((answer.len() == texts.len()).then_some((answer, changed, report, failures)))
        });
        let read = read.await.map_err(|error| Refusal::of_engine(self.direction, &error))?;
        let read = read.ok_or_else(|| internal("the engine answered with another number of values"))?;
        let (answer, changed, report, failures) = read;
        self.count_sealed(&report);
        let failed = report.failed;
        let places = failures.iter().map(|index| format!("{place} {index}"));
        self.unopened.add(failed, places, self.transforms.failure_paths_max);
        let emptied = if rule.on_failure == UnopenedAction::Null { failed } else { 0 };
        self.changed[rule.action as usize] += changed.saturating_sub(emptied);
        Ok(if changed == 0 { before } else { Arc::new(answer) })
    }

    fn count_sealed(&mut self, report: &Report) {
        self.reported.resealed += report.resealed;
        self.reported.skipped += report.skipped;
        self.reported.rewrapped += report.rewrapped;
        self.reported.symmetric += report.symmetric;
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
fn into_buffer(mut bytes: Vec<u8>, mut share: BudgetShare) -> Result<BodyBuffer, Refusal> {
    bytes.shrink_to_fit();
    share.resize(bytes.capacity())?;
    Ok(BodyBuffer::of(bytes, share))
}

fn internal(detail: &str) -> Refusal {
    Refusal::new(ErrorCode::Internal, detail)
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
