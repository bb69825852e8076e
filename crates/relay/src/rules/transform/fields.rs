//! Applies rules to the fields of forms and queries.

use std::sync::Arc;

use leafseal_document::form::{FieldNames, Syntax};

use super::{MessageRules, TEXT_SIZE, cost_of_texts, into_buffer, size_of_texts};
use crate::body::buffer::BodyBuffer;
use crate::body::offload::Cost;
use crate::policy::Rule;
use crate::refusal::Refusal;
use crate::rules::forms::{self, FormFault, ReadMultipart, ReadUrlencoded, WriteMultipart, WriteUrlencoded};

impl MessageRules<'_> {
    pub(super) async fn urlencoded(&mut self, rule: &Rule, body: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let (body, is_new) = self.fields(rule, &rule.selectors.form, rule.require_match, Syntax::Form, body).await?;
        self.has_new_body |= is_new;
        Ok(body)
    }

    /// Applies a rule to the fields of an urlencoded form or query, of which one must be there if `is_strict`; also returns whether it
    /// changed some.
    pub(super) async fn fields(
        &mut self,
        rule: &Rule,
        names: &Arc<FieldNames>,
        is_strict: bool,
        syntax: Syntax,
        body: BodyBuffer,
    ) -> Result<(BodyBuffer, bool), Refusal> {
        let (size, mut work) = (body.len(), body.share().another(self.memory_of_form(&body))?);
        let cost = forms::cost(size, false);
        let reading = ReadUrlencoded::new(body, Arc::clone(names), self.transforms.form.clone());
        let read = self.offload().run_in_slices(cost, reading, ReadUrlencoded::step).await;
        let form = read.map_err(|fault| self.of_form(&fault))?;
        if is_strict && form.texts.is_empty() {
            return Err(Refusal::unmatched(self.direction, None));
        }
        let texts = self.texts(rule, "form value", Arc::clone(&form.texts), &mut work).await?;
        let is_new = !Arc::ptr_eq(&texts, &form.texts);
        work.grow(form.written_size_max(&texts))?;
        let cost = Cost::of_copy(size).max(cost_of_texts(&texts));
        let writing = WriteUrlencoded::new(form, texts, syntax);
        let out = self.offload().run_in_slices(cost, writing, WriteUrlencoded::step).await;
        Ok((into_buffer(out.map_err(|fault| self.of_form(&fault))?, work)?, is_new))
    }

    pub(super) async fn multipart(
        &mut self,
        rule: &Rule,
        boundary: &str,
        body: BodyBuffer,
    ) -> Result<BodyBuffer, Refusal> {
        let (size, mut work) = (body.len(), body.share().another(self.memory_of_form(&body))?);
        let (names, limits, boundary) =
            (Arc::clone(&rule.selectors.form), self.transforms.form.clone(), boundary.to_owned());
        let cost = forms::cost(size, false);
        let with_role = rule.role.as_ref().map(|_| rule.action);
        let reading = ReadMultipart::new(body, boundary, names, limits, with_role);
        let reading = reading.map_err(|error| self.of_form(&error.into()))?;
        let read = self.offload().run_in_slices(cost, reading, ReadMultipart::step).await;
        let form = read.map_err(|fault| self.of_form(&fault))?;
        let texts = self.texts(rule, "form value", Arc::clone(&form.texts), &mut work).await?;
        let (body, ranges) = form.files();
        if rule.require_match && texts.is_empty() && ranges.is_empty() {
            return Err(Refusal::unmatched(self.direction, None));
        }
        let mut files = Vec::with_capacity(ranges.len());
        for range in ranges {
            files.push(self.file(rule, Arc::clone(&body), range, &mut work).await?);
        }
        drop(body);
        let written = size + size_of_texts(&texts) + files.iter().flatten().map(Vec::len).sum::<usize>();
        work.grow(written)?;
        // A part that is written again loses its Content-Length.
        self.has_new_body |= !texts.is_empty() || !files.is_empty();
        let cost = Cost::of_copy(written).max(cost_of_texts(&texts));
        let writing = WriteMultipart::new(form, texts, files);
        let out = self.offload().run_in_slices(cost, writing, WriteMultipart::step).await;
        into_buffer(out.map_err(|fault| self.of_form(&fault))?, work)
    }

    /// The memory to charge before the fields of a form are searched.
    pub(super) fn memory_of_form(&self, body: &BodyBuffer) -> usize {
        let fields_max = self.transforms.form.fields_max.min(body.len() / 2 + 1);
        forms::memory(body.len()).saturating_add(fields_max * TEXT_SIZE)
    }

    pub(super) fn of_form(&self, fault: &FormFault) -> Refusal {
        match fault {
            FormFault::FileWithRole | FormFault::HoldsJson => Refusal::mismatch(self.direction, &fault.to_string()),
            FormFault::TwoSources => Refusal::ambiguous_name(self.direction, fault),
            FormFault::Form(error) => Refusal::of_form(self.direction, *error),
            fault => Refusal::unreadable(self.direction, fault),
        }
    }
}
