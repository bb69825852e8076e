//! Rules applied to one message: header fields, JSON documents, forms.
//!
//! Whatever goes wrong is a refusal: a message of which a rule could not be applied is not passed on.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fieldseal_client::{
    Client, ClientError, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, ErrorCode, ErrorKind,
    Scalar, Value, Values,
};
use fieldseal_document::form::{FormError, FormLimits, MediaType, decode_field, encode_field, find_fields, find_parts};
use fieldseal_document::{Limits as DocumentLimits, Progress, Purpose, Walker, escape_into};
use fieldseal_http::BodyError;
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::apart::Apart;
use crate::coding::{Coding, DecodeError};
use crate::config::{Action, Actions, Limits, Mismatch, OnFailure, Rule};
use crate::held::{Room, Share, read_whole};
use crate::hygiene;
use crate::refusal::{Direction, Refusal};
use crate::trailers::is_taken_for;

/// What an envelope begins with.
const ENVELOPE_START: &str = "ev:";
/// What an encrypted file begins with.
const FILE_START: &[u8] = b"%EVENC";

/// Who does the work, and what it may take. One for each thread.
#[derive(Clone)]
pub(crate) struct Workshop {
    pub(crate) client: Client,
    pub(crate) room: Arc<Room>,
    pub(crate) apart: Apart,
    pub(crate) deadline_ms: u32,
    pub(crate) body_size_max: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) form: FormLimits,
    pub(crate) failure_paths_max: usize,
}

/// How the rules of one direction are applied to a message.
pub(crate) struct Job<'a> {
    pub(crate) workshop: &'a Workshop,
    pub(crate) direction: Direction,
    pub(crate) actions: &'a Actions,
    pub(crate) app: &'a str,
    /// For whom a body is held.
    pub(crate) client: IpAddr,
    /// How many values were changed, by action.
    pub(crate) changed: [u64; 3],
    pub(crate) unopened: Unopened,
}

/// Envelopes that did not open, and where the first of them stand.
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

/// What became of a body.
pub(crate) enum Outcome<B> {
    /// It passes as it comes.
    Untouched(B),
    /// It was read, and this stands in its place. Its room is free once it is dropped.
    Rewritten(Bytes),
}

/// What a body is to the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Urlencoded,
    Multipart(String),
    Other,
}

impl Workshop {
    pub(crate) fn new(client: Client, room: Arc<Room>, apart: Apart, timeout_ms: u128, limits: &Limits) -> Self {
        Workshop {
            client,
            room,
            apart,
            deadline_ms: u32::try_from(timeout_ms).unwrap_or(u32::MAX),
            body_size_max: limits.body_size_max,
            body_timeout: limits.held_body_timeout,
            form: FormLimits { fields_max: limits.form_fields_max, ..FormLimits::default() },
            failure_paths_max: limits.failure_paths_max,
        }
    }
}

impl Job<'_> {
    /// Applies all rules.
    ///
    /// # Errors
    /// The message is not to be passed on.
    pub(crate) async fn run<B>(&mut self, headers: &mut HeaderMap, body: B) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        self.headers(headers).await?;
        let actions = self.actions;
        if !actions.read_bodies() || body.is_end_stream() {
            return Ok(Outcome::Untouched(body));
        }
        let kind = match kind(actions, headers) {
            Some(kind) => kind,
            None if actions.mismatch == Mismatch::Pass => return Ok(Outcome::Untouched(body)),
            None => return self.whole_of_nothing(body, "its type").await,
        };
        let coding = match Coding::of(headers) {
            Some(coding) => coding,
            None if actions.mismatch == Mismatch::Pass => return Ok(Outcome::Untouched(body)),
            None => return Err(Refusal::mismatch(self.direction, "its content coding")),
        };
        let mut share = self.workshop.room.share(self.client);
        let (size_max, time_max) = (self.workshop.body_size_max, self.workshop.body_timeout);
        let coded = read_whole(body, self.direction, size_max, time_max, &mut share).await?;
        if coded.is_empty() {
            return Ok(Outcome::Rewritten(Bytes::new()));
        }
        let plain = self.decode(coding, coded, &mut share).await?;
        let rewritten = self.body(&kind, plain, &mut share).await?;
        let coded = self.workshop.apart.run(rewritten.len(), move || coding.encode(rewritten)).await;
        let coded = coded.map_err(|_| internal("a body could not be coded"))?;
        hygiene::forget_bytes(headers, coded.len());
        Ok(Outcome::Rewritten(Bytes::from_owner(Whole { bytes: coded, _share: share })))
    }

    /// Applies the rules to the header alone.
    ///
    /// # Errors
    /// The message is not to be passed on.
    pub(crate) async fn headers(&mut self, headers: &mut HeaderMap) -> Result<(), Refusal> {
        let actions = self.actions;
        if let Some(name) = twin(actions, headers) {
            let detail = format!("header {name} is one that is to be hidden to whoever takes _ for -");
            return Err(Refusal::ambiguous_header(self.direction, detail));
        }
        for rule in &actions.rules {
            for name in &rule.headers {
                self.header(rule, name, headers).await?;
            }
        }
        Ok(())
    }

    /// A body of a type that no rule reads passes only if it turns out to be empty.
    async fn whole_of_nothing<B>(&self, mut body: B, what: &str) -> Result<Outcome<B>, Refusal>
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

    async fn decode(&self, coding: Coding, coded: Vec<u8>, share: &mut Share) -> Result<Vec<u8>, Refusal> {
        let size_max = self.workshop.body_size_max;
        let before = coded.len();
        let decoded = self.workshop.apart.run(before, move || coding.decode(coded, size_max)).await;
        let plain = decoded.map_err(|error| match error {
            DecodeError::TooLarge => Refusal::too_large(self.direction, size_max),
            DecodeError::Malformed => Refusal::unreadable(self.direction, "its content coding is damaged"),
        })?;
        share.grow(plain.len().saturating_sub(before))?;
        Ok(plain)
    }

    async fn body(&mut self, kind: &Kind, plain: Vec<u8>, share: &mut Share) -> Result<Vec<u8>, Refusal> {
        let mut body = plain;
        let actions = self.actions;
        for rule in &actions.rules {
            let before = body.len();
            body = match kind {
                Kind::Json if rule.json.is_some() => self.json(rule, body).await?,
                Kind::Urlencoded if !rule.form.is_empty() => self.urlencoded(rule, body).await?,
                Kind::Multipart(boundary) if !rule.form.is_empty() => self.multipart(rule, boundary, body).await?,
                _ => body,
            };
            share.grow(body.len().saturating_sub(before))?;
        }
        Ok(body)
    }

    async fn json(&mut self, rule: &Rule, document: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let Some(fields) = &rule.json else { return Ok(document) };
        let selectors: Vec<&str> = fields.selectors.iter().map(String::as_str).collect();
        let client = &self.workshop.client;
        let answer = match rule.action {
            Action::Encrypt => client.encrypt_document(&self.encrypt_options(rule), Some(&selectors), &document).await,
            Action::Decrypt => client.decrypt_document(&self.decrypt_options(rule), Some(&selectors), &document).await,
            Action::Redact => {
                let (selection, replacement) = (fields.selection.clone(), rule.replacement.clone());
                let size = document.len();
                let redacted =
                    self.workshop.apart.run(size, move || redact_json(&document, &selection, &replacement)).await;
                let (document, count) = redacted.map_err(|error| Refusal::unreadable(self.direction, error))?;
                self.changed[rule.action as usize] += count;
                return Ok(document);
            }
        };
        let answer = answer.map_err(|error| Refusal::of_engine(self.direction, &error))?;
        self.changed[rule.action as usize] += answer.count;
        self.unopened.add(answer.report.failed, answer.failures.into_iter(), self.workshop.failure_paths_max);
        Ok(answer.json)
    }

    fn encrypt_options<'o>(&'o self, rule: &'o Rule) -> EncryptOptions<'o> {
        let deadline_ms = Some(self.workshop.deadline_ms);
        EncryptOptions { role: rule.role.as_deref(), deadline_ms, ..EncryptOptions::new(self.app) }
    }

    fn decrypt_options<'o>(&'o self, rule: &'o Rule) -> DecryptOptions<'o> {
        let deadline_ms = Some(self.workshop.deadline_ms);
        let on_failure = match rule.on_failure {
            // Not sent, so that engines which do not know it yet take the request.
            OnFailure::Fail => None,
            OnFailure::Leave => Some(fieldseal_client::OnFailure::Leave),
            OnFailure::Null => Some(fieldseal_client::OnFailure::Null),
        };
        DecryptOptions { role: rule.role.as_deref(), deadline_ms, on_failure, ..DecryptOptions::new(self.app) }
    }

    /// Texts through a rule; `place` is what they are parts of.
    async fn texts(&mut self, rule: &Rule, place: &str, texts: Vec<String>) -> Result<Vec<String>, Refusal> {
        if texts.is_empty() {
            return Ok(texts);
        }
        let values: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
        let client = &self.workshop.client;
        let answer = match rule.action {
            Action::Redact => {
                self.changed[rule.action as usize] += texts.len() as u64;
                return Ok(vec![rule.replacement.to_string(); texts.len()]);
            }
            Action::Encrypt => client.encrypt_reported(&self.encrypt_options(rule), &values).await,
            Action::Decrypt if !texts.iter().any(|text| text.starts_with(ENVELOPE_START)) => return Ok(texts),
            Action::Decrypt => client.decrypt_reported(&self.decrypt_options(rule), &values).await,
        };
        let answer = answer.map_err(|error| Refusal::of_engine(self.direction, &error))?;
        let Values { values: answer, report, failures } = answer;
        let places = failures.iter().map(|index| format!("{place} {index}"));
        self.unopened.add(report.failed, places, self.workshop.failure_paths_max);
        let emptied = if rule.on_failure == OnFailure::Null { report.failed } else { 0 };
        if answer.len() != texts.len() {
            return Err(internal("the engine answered with another number of values"));
        }
        let answer: Vec<String> = answer.iter().map(as_text).collect();
        let changed = answer.iter().zip(&texts).filter(|(after, before)| after != before).count() as u64;
        self.changed[rule.action as usize] += changed.saturating_sub(emptied);
        Ok(answer)
    }

    async fn header(&mut self, rule: &Rule, name: &HeaderName, headers: &mut HeaderMap) -> Result<(), Refusal> {
        let mut texts = Vec::new();
        for value in headers.get_all(name) {
            match std::str::from_utf8(value.as_bytes()) {
                Ok(text) => texts.push(text.to_owned()),
                Err(_) => return Err(Refusal::unreadable(self.direction, format_args!("header {name} is not UTF-8"))),
            }
        }
        if texts.is_empty() {
            return Ok(());
        }
        let texts = self.texts(rule, name.as_str(), texts).await?;
        headers.remove(name);
        for text in texts {
            let value = HeaderValue::from_bytes(text.as_bytes());
            let value = value.map_err(|_| {
                Refusal::unreadable(self.direction, format_args!("header {name} cannot hold its value"))
            })?;
            headers.append(name.clone(), value);
        }
        Ok(())
    }

    async fn urlencoded(&mut self, rule: &Rule, body: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let unreadable = |error: FormError| Refusal::unreadable(self.direction, error);
        let found = find_fields(&body, &rule.form, &self.workshop.form).map_err(unreadable)?;
        let texts = found.iter().map(|range| decode_field(&body[range.clone()]).map_err(unreadable));
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        let before = texts.clone();
        let texts = self.texts(rule, "form value", texts).await?;
        let mut out = Vec::with_capacity(body.len() * 2);
        let mut copied = 0;
        for ((range, text), before) in found.into_iter().zip(texts).zip(before) {
            if text != before {
                out.extend_from_slice(&body[copied..range.start]);
                encode_field(&text, &mut out);
                copied = range.end;
            }
        }
        out.extend_from_slice(&body[copied..]);
        Ok(out)
    }

    async fn multipart(&mut self, rule: &Rule, boundary: &str, body: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let unreadable = |error: FormError| Refusal::unreadable(self.direction, error);
        let parts = find_parts(&body, boundary, &rule.form, &self.workshop.form).map_err(unreadable)?;
        if rule.role.is_some()
            && parts.iter().any(|part| part.is_file && takes_a_role(rule, &body[part.content.clone()]))
        {
            // A role that is not written keeps nobody away, and one that is not there cannot be demanded.
            return Err(Refusal::mismatch(self.direction, "a file in a form has no role, and the rule names one"));
        }
        let mut texts = Vec::new();
        for part in parts.iter().filter(|part| !part.is_file) {
            let text = String::from_utf8(body[part.content.clone()].to_vec());
            texts.push(text.map_err(|_| Refusal::unreadable(self.direction, "a form's value is not UTF-8"))?);
        }
        let mut texts = self.texts(rule, "form value", texts).await?.into_iter();
        let dashes = format!("--{boundary}");
        let mut out = Vec::with_capacity(body.len() * 2);
        let mut copied = 0;
        for part in parts {
            if let Some(line) = part.length_line {
                out.extend_from_slice(&body[copied..line.start]);
                copied = line.end;
            }
            out.extend_from_slice(&body[copied..part.content.start]);
            let content = match part.is_file {
                true => self.file(rule, &body[part.content.clone()]).await?,
                false => texts.next().unwrap_or_default().into_bytes(),
            };
            // A value must not cut the form where what stood in its place did not.
            if memchr::memmem::find(&content, dashes.as_bytes()).is_some() {
                return Err(Refusal::unreadable(self.direction, "a value holds the form's boundary"));
            }
            out.extend_from_slice(&content);
            copied = part.content.end;
        }
        out.extend_from_slice(&body[copied..]);
        Ok(out)
    }

    async fn file(&mut self, rule: &Rule, content: &[u8]) -> Result<Vec<u8>, Refusal> {
        let client = &self.workshop.client;
        let deadline_ms = Some(self.workshop.deadline_ms);
        let answer = match rule.action {
            Action::Redact => Ok(rule.replacement.as_bytes().to_vec()),
            Action::Encrypt => {
                let options = EncryptFileOptions { deadline_ms, ..EncryptFileOptions::new(self.app) };
                client.encrypt_file(&options, content).await
            }
            Action::Decrypt if !content.starts_with(FILE_START) => return Ok(content.to_vec()),
            Action::Decrypt => {
                let options = DecryptFileOptions { deadline_ms, ..DecryptFileOptions::new(self.app) };
                match client.decrypt_file(&options, content).await {
                    Err(error) if rule.on_failure != OnFailure::Fail && does_not_open(&error) => {
                        let place = "a file in the form".to_owned();
                        self.unopened.add(1, std::iter::once(place), self.workshop.failure_paths_max);
                        let left = if rule.on_failure == OnFailure::Null { &[][..] } else { content };
                        return Ok(left.to_vec());
                    }
                    answer => answer,
                }
            }
        };
        self.changed[rule.action as usize] += 1;
        answer.map_err(|error| Refusal::of_engine(self.direction, &error))
    }
}

/// A body and the room that it takes.
struct Whole {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The kind of body, if a rule reads such: where something is to be hidden, one that hides. What another rule opens in a document
/// says nothing of what it holds in the clear.
fn kind(actions: &Actions, headers: &HeaderMap) -> Option<Kind> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else { return None };
    let media = MediaType::parse(first.as_bytes())?;
    let kind = if media.is_json() {
        Kind::Json
    } else if media.is_urlencoded() {
        Kind::Urlencoded
    } else if media.is_multipart() {
        Kind::Multipart(media.boundary.clone()?)
    } else {
        Kind::Other
    };
    // Other encodings of text would hide what the rules look for.
    let is_utf8 = media.is_utf8();
    let reads = |rule: &Rule| match kind {
        Kind::Json => rule.json.is_some(),
        Kind::Urlencoded | Kind::Multipart(_) => !rule.form.is_empty(),
        Kind::Other => false,
    };
    let rules = &actions.rules;
    let must_hide = actions.mismatch == Mismatch::Refuse && rules.iter().any(Rule::hides_in_bodies);
    let reads = |rule: &Rule| reads(rule) && (!must_hide || rule.hides_in_bodies());
    (is_utf8 && rules.iter().any(reads)).then_some(kind)
}

/// A header field that no rule names, and that many (CGI, WSGI) cannot tell from one that is to be hidden.
fn twin<'h>(actions: &Actions, headers: &'h HeaderMap) -> Option<&'h HeaderName> {
    let hidden = || actions.hidden_headers();
    hidden().next()?;
    let is_twin = |name: &&HeaderName| {
        hidden().all(|chosen| chosen != *name) && hidden().any(|chosen| is_taken_for(chosen, name))
    };
    headers.keys().find(is_twin)
}

/// Whether a file would be encrypted or opened under the rule's role.
fn takes_a_role(rule: &Rule, file: &[u8]) -> bool {
    match rule.action {
        Action::Encrypt => true,
        Action::Decrypt => file.starts_with(FILE_START),
        Action::Redact => false,
    }
}

/// Whether it is about the file alone.
fn does_not_open(error: &ClientError) -> bool {
    matches!(error.kind, ErrorKind::Engine(ErrorCode::DecryptFailed | ErrorCode::InvalidEnvelope))
}

fn internal(detail: &str) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
}

/// The text of a value as a form or header holds it.
fn as_text(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Str(text) => text.clone(),
    }
}

/// The document with the selected values replaced, and how many they were.
fn redact_json(
    document: &[u8],
    selection: &fieldseal_document::Selection,
    replacement: &str,
) -> Result<(Vec<u8>, u64), fieldseal_document::DocumentError> {
    const MATCHES_MAX: usize = 1024;
    let mut token = Vec::new();
    escape_into(replacement, &mut token);
    let mut walker = Walker::new(document, selection, Purpose::Encrypt, &DocumentLimits::default())?;
    let (mut out, mut copied, mut count) = (Vec::with_capacity(document.len()), 0, 0);
    let mut matches = Vec::new();
    loop {
        let progress = walker.next_batch(&mut matches, MATCHES_MAX, usize::MAX)?;
        for found in matches.drain(..) {
            out.extend_from_slice(&document[copied..found.start]);
            out.extend_from_slice(&token);
            copied = found.end;
            count += 1;
        }
        if progress == Progress::Done {
            out.extend_from_slice(&document[copied..]);
            return Ok((out, count));
        }
    }
}

#[cfg(test)]
mod tests {
    use fieldseal_document::Selection;

    use super::*;

    #[test]
    fn a_header_that_many_take_for_a_hidden_one_is_found() {
        let rule = |action: &str, header: &str| format!("{{ action = \"{action}\", headers = [\"{header}\"] }}");
        let found = |rules: String, name: &'static str| {
            let headers = [(HeaderName::from_static(name), HeaderValue::from_static("4242"))].into_iter().collect();
            twin(&actions(&rules, ""), &headers).is_some()
        };
        assert!(found(rule("encrypt", "X-Own-Card"), "x_own_card"));
        assert!(found(rule("redact", "X-Own-Card"), "x-own_card"));
        assert!(found(rule("encrypt", "X_Card"), "x-card"));
        assert!(!found(rule("encrypt", "X-Card"), "x-card"));
        assert!(!found(rule("decrypt", "X-Card"), "x_card"));
        assert!(!found(rule("encrypt", "X-Card") + ", " + &rule("encrypt", "X_Card"), "x_card"));
    }

    fn actions(rules: &str, mismatch: &str) -> Actions {
        let text = format!(
            "[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
             [[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n\
             [[inbound.route]]\npath = \"/\"\napp = \"a\"\nrequest = [{rules}]\n{mismatch}\n"
        );
        let mut configuration = crate::Configuration::parse(&text).unwrap();
        configuration.inbound.remove(0).routes.remove(0).request
    }

    fn kind_under(rules: &str, mismatch: &str, media_type: &'static str) -> Option<Kind> {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(media_type))].into_iter().collect();
        kind(&actions(rules, mismatch), &headers)
    }

    #[test]
    fn a_body_that_no_hiding_rule_reads_is_of_no_kind() {
        let (json, form) = ("application/json", "application/x-www-form-urlencoded");
        let hides_forms = "{ action = \"encrypt\", form = [\"card\"] }";
        let opens_json = "{ action = \"decrypt\", json = [\"$.a\"] }";
        let hides_json = "{ action = \"redact\", json = [\"$.a\"] }";
        let hides_headers = "{ action = \"encrypt\", headers = [\"X-Card\"] }";
        let pass = "request_mismatch = \"pass\"";
        for (rules, mismatch, media_type, expected) in [
            (format!("{hides_forms}, {opens_json}"), "", json, None),
            (format!("{hides_forms}, {opens_json}"), "", form, Some(Kind::Urlencoded)),
            (format!("{hides_forms}, {opens_json}"), pass, json, Some(Kind::Json)),
            (format!("{hides_forms}, {hides_json}"), "", json, Some(Kind::Json)),
            (format!("{hides_headers}, {opens_json}"), "", json, Some(Kind::Json)),
            (opens_json.to_owned(), "", json, Some(Kind::Json)),
            (opens_json.to_owned(), "", form, None),
            (hides_json.to_owned(), "", "application/json; charset=utf-16", None),
        ] {
            assert_eq!(kind_under(&rules, mismatch, media_type), expected, "{rules} {mismatch} {media_type}");
        }
    }

    #[test]
    fn redacted_documents_keep_all_other_bytes() {
        let selection = Selection::parse(&["$..card"], &DocumentLimits::default()).unwrap();
        let document = br#" {"card" : "4242","a":[1.50, {"card":{"x":1,"y":[true,null]}}]}"#;
        let (redacted, count) = redact_json(document, &selection, "a\"b").unwrap();
        let expected = r#" {"card" : "a\"b","a":[1.50, {"card":{"x":"a\"b","y":["a\"b",null]}}]}"#;
        assert_eq!((String::from_utf8(redacted).unwrap().as_str(), count), (expected, 3));
        assert!(redact_json(b"{\"card\":1", &selection, "x").is_err());
    }
}
