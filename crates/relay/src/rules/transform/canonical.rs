//! Forwards forms and names as the relay has read them, and takes each hidden field from one source: many upstreams read query, form and
//! cookies as one set of parameters, and do not agree on which comes first.

use std::sync::Arc;

use hyper::header::{COOKIE, HeaderMap};
use leafseal_document::form::{FieldNames, Syntax};

use super::body_type::BodyKind;
use super::other_readings::ReadingSearch;
use super::{MessageRules, into_buffer};
use crate::body::buffer::BodyBuffer;
use crate::json_text::MemberNames;
use crate::policy::Hidden;
use crate::policy::types::Embedded;
use crate::refusal::{Direction, Refusal};
use crate::rules::forms;
use crate::rules::forms::canonical::{Canonical, CanonicalFields, CanonicalParts, Checks};

const COOKIES: &str = "a cookie has the name of a field that a rule hides, and some upstreams read both as one";

impl MessageRules<'_> {
    /// Writes a form, and the names of selected members, in their canonical spelling, if rules hide something in messages of this
    /// direction.
    pub(super) async fn canonical(
        &mut self,
        kind: &BodyKind,
        headers: &HeaderMap,
        body: BodyBuffer,
    ) -> Result<BodyBuffer, Refusal> {
        let Some(hidden) = self.actions.hidden.clone() else { return Ok(body) };
        self.refuse_as_sent(kind, &body, &hidden)?;
        let (names, limits) = (Arc::clone(&hidden.form), self.transforms.form.clone());
        match kind {
            BodyKind::Urlencoded => {
                let checks = self.checks(headers, &hidden).await;
                let (body, canonical) = self.canonical_fields(names, checks, Syntax::Form, body).await?;
                self.has_new_body |= canonical.is_new;
                Ok(body)
            }
            BodyKind::Multipart(boundary) => {
                let checks = self.checks(headers, &hidden).await;
                let work = body.share().another(self.memory_of_form(&body))?;
                let cost = forms::cost(body.len(), true);
                let reading = CanonicalParts::new(body, boundary.clone(), names, limits, checks);
                let reading = reading.map_err(|error| self.of_form(&error.into()))?;
                let written = self.offload().run_in_slices(cost, reading, CanonicalParts::step).await;
                let written = written.map_err(|fault| self.of_form(&fault))?;
                self.has_new_body |= written.is_new;
                into_buffer(written.bytes, work)
            }
            BodyKind::Json | BodyKind::JsonLines | BodyKind::Patch => {
                let body = self.refuse_members(kind, body, &hidden).await?;
                self.canonical_names(kind, &hidden, body).await
            }
            BodyKind::Other => Ok(body),
        }
    }

    /// Writes an urlencoded form or query in its canonical spelling; also returns the rest of the result, without the bytes.
    pub(super) async fn canonical_fields(
        &self,
        names: Arc<FieldNames>,
        checks: Checks,
        syntax: Syntax,
        body: BodyBuffer,
    ) -> Result<(BodyBuffer, Canonical), Refusal> {
        let work = body.share().another(self.memory_of_form(&body))?;
        let cost = forms::cost(body.len(), true);
        let reading = CanonicalFields::new(body, names, self.transforms.form.clone(), checks, syntax);
        let written = self.offload().run_in_slices(cost, reading, CanonicalFields::step).await;
        let mut canonical = written.map_err(|fault| self.of_form(&fault))?;
        let bytes = std::mem::take(&mut canonical.bytes);
        Ok((into_buffer(bytes, work)?, canonical))
    }

    /// The checks of a form: its hidden fields must not come from the query too, and if all fields are hidden, not from cookies either.
    async fn checks(&self, headers: &HeaderMap, hidden: &Hidden) -> Checks {
        let mut names = self.hidden_in_query.clone();
        if hidden.form.is_everything() && self.direction == Direction::Request {
            names.extend(cookie_names(&cookies(headers)));
        }
        Checks { elsewhere: self.names(names, hidden).await, texts: self.names_in_texts() }
    }

    /// The names that members of JSON texts inside of other values must not have.
    pub(super) fn names_in_texts(&self) -> Option<Arc<MemberNames>> {
        let hidden = self.actions.hidden.as_ref().filter(|_| self.actions.embedded_json == Embedded::Refuse)?;
        Some(Arc::clone(&hidden.members)).filter(|names| !names.is_empty())
    }

    /// Selects fields that some parser reads by one of these names.
    async fn names(&self, names: Vec<String>, hidden: &Hidden) -> Option<Arc<FieldNames>> {
        let (case, size) = (hidden.case, names.iter().map(String::len).sum::<usize>() + 16 * names.len());
        if names.is_empty() {
            return None;
        }
        let read = move || Arc::new(FieldNames::new(names).guarded(case, &FieldNames::default()));
        Some(self.offload().run(forms::cost(size, true), read).await)
    }

    /// Refuses a request with a cookie that some upstreams read as a field which a rule hides.
    pub(super) async fn refuse_cookies(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(hidden) = self.actions.hidden.clone().filter(|_| self.direction == Direction::Request) else {
            return Ok(());
        };
        if !headers.contains_key(COOKIE) || hidden.cookies_are_hidden {
            return Ok(());
        }
        if let Some(names) = self.names_in_texts().filter(|_| self.may_set) {
            let (texts, mut share) = (texts_of_cookies(headers), self.transforms.budget.share(self.client));
            share.grow(texts.len())?;
            self.refuse_texts(Some(names), BodyBuffer::of(texts, share)).await?;
        }
        let all = hidden.query.is_everything() && !self.hidden_in_query.is_empty();
        let in_cookies = hidden.in_cookies.names(self.may_set);
        if in_cookies.is_empty() && !all {
            return Ok(());
        }
        let text = cookies(headers);
        let elsewhere = match all {
            true => self.names(self.hidden_in_query.clone(), &hidden).await,
            false => None,
        };
        for names in [Some(Arc::clone(in_cookies)), elsewhere].into_iter().flatten() {
            if self.holds(text.clone(), names).await {
                return Err(Refusal::ambiguous_name(self.direction, COOKIES));
            }
        }
        Ok(())
    }

    /// Whether any reader of forms finds one of these fields in a short text, such as a query.
    pub(super) async fn holds(&self, text: Vec<u8>, names: Arc<FieldNames>) -> bool {
        let cost = forms::cost(text.len(), true);
        let search = ReadingSearch::new(text, names, self.transforms.form.clone());
        self.offload().run_in_slices(cost, search, ReadingSearch::step).await.1
    }
}

/// The cookies of a request, written like a form whose fields are separated by `;`.
fn cookies(headers: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::new();
    for line in headers.get_all(COOKIE) {
        text.push(b';');
        // Some end a cookie at a comma (RFC 2965). An `&` is part of a value.
        text.extend(line.as_bytes().iter().map(|&byte| match byte {
            b',' => b';',
            b'&' => b'_',
            byte => byte,
        }));
    }
    text
}

/// The values of cookies as the fields of a query: unescaped once, without quotation marks before them, and without the marks of Express
/// for a signed value (`s:`) and for JSON (`j:`).
fn texts_of_cookies(headers: &HeaderMap) -> Vec<u8> {
    let mut texts = Vec::new();
    for piece in headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|&byte| byte == b';')) {
        let Some(equals) = memchr::memchr(b'=', piece) else { continue };
        let encoded = &piece[equals + 1..];
        let mut value = Vec::with_capacity(encoded.len());
        Syntax::decode(encoded, encoded.len(), &mut value);
        let mut text = &*value;
        while let Some(rest) = [&b"\""[..], b" ", b"s:", b"j:"].iter().find_map(|mark| text.strip_prefix(*mark)) {
            text = rest;
        }
        if !texts.is_empty() {
            texts.push(b'&');
        }
        texts.extend_from_slice(b"cookie=");
        Syntax::Form.encode(text, &mut texts);
    }
    texts
}

fn cookie_names(cookies: &[u8]) -> Vec<String> {
    let pieces = cookies.split(|&byte| byte == b';');
    let names = pieces.filter_map(|piece| memchr::memchr(b'=', piece).map(|equals| &piece[..equals]));
    names.map(|name| String::from_utf8_lossy(name).trim().to_owned()).filter(|name| !name.is_empty()).collect()
}
