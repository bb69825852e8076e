//! Applies rules to the fields of forms and queries.

use std::ops::Range;
use std::sync::Arc;

use leafseal_client::{ClientError, ErrorCode, ErrorKind, Prepared};
use leafseal_document::form::{FieldNames, Syntax};

use super::{Job, MESSAGE_SIZE, TEXT_SIZE, cost_of_texts, into_buffer, size_of_texts};
use crate::body::buffer::{BudgetShare, Buffer};
use crate::body::offload::Cost;
use crate::config::{Action, OnFailure, Rule};
use crate::refusal::Refusal;
use crate::rules::forms::{
    self, FILE_START, FormFault, ReadMultipart, ReadUrlencoded, WriteMultipart, WriteUrlencoded,
};

impl Job<'_> {
    pub(super) async fn urlencoded(&mut self, rule: &Rule, body: Buffer) -> Result<Buffer, Refusal> {
        self.fields(rule, &rule.form, rule.require_match, Syntax::Form, body).await
    }

    /// Applies a rule to the fields of an urlencoded form or query, of which one must be there if `is_strict`.
    pub(super) async fn fields(
        &mut self,
        rule: &Rule,
        names: &Arc<FieldNames>,
        is_strict: bool,
        syntax: Syntax,
        body: Buffer,
    ) -> Result<Buffer, Refusal> {
        let (size, mut work) = (body.len(), body.share().another(self.memory_of_form(&body))?);
        let cost = forms::cost(size, false);
        let reading = ReadUrlencoded::new(body, Arc::clone(names), self.transforms.form.clone());
        let read = self.offload().run_in_slices(cost, reading, ReadUrlencoded::step).await;
        let form = read.map_err(|fault| self.of_form(&fault))?;
        if is_strict && form.texts.is_empty() {
            return Err(Refusal::unmatched(self.direction));
        }
        let texts = self.texts(rule, "form value", Arc::clone(&form.texts), &mut work).await?;
        work.grow(form.written_size_max(&texts))?;
        let cost = Cost::of_copy(size).max(cost_of_texts(&texts));
        let writing = WriteUrlencoded::new(form, texts, syntax);
        let out = self.offload().run_in_slices(cost, writing, WriteUrlencoded::step).await;
        into_buffer(out.map_err(|fault| self.of_form(&fault))?, work)
    }

    pub(super) async fn multipart(&mut self, rule: &Rule, boundary: &str, body: Buffer) -> Result<Buffer, Refusal> {
        let (size, mut work) = (body.len(), body.share().another(self.memory_of_form(&body))?);
        let (names, limits, boundary) = (Arc::clone(&rule.form), self.transforms.form.clone(), boundary.to_owned());
        let cost = forms::cost(size, false);
        let with_role = rule.role.as_ref().map(|_| rule.action);
        let reading = ReadMultipart::new(body, boundary, names, limits, with_role);
        let reading = reading.map_err(|error| self.of_form(&error.into()))?;
        let read = self.offload().run_in_slices(cost, reading, ReadMultipart::step).await;
        let form = read.map_err(|fault| self.of_form(&fault))?;
        let texts = self.texts(rule, "form value", Arc::clone(&form.texts), &mut work).await?;
        let (body, ranges) = form.files();
        if rule.require_match && texts.is_empty() && ranges.is_empty() {
            return Err(Refusal::unmatched(self.direction));
        }
        let mut files = Vec::with_capacity(ranges.len());
        for range in ranges {
            files.push(self.file(rule, Arc::clone(&body), range, &mut work).await?);
        }
        drop(body);
        let written = size + size_of_texts(&texts) + files.iter().flatten().map(Vec::len).sum::<usize>();
        work.grow(written)?;
        let cost = Cost::of_copy(written).max(cost_of_texts(&texts));
        let writing = WriteMultipart::new(form, texts, files);
        let out = self.offload().run_in_slices(cost, writing, WriteMultipart::step).await;
        into_buffer(out.map_err(|fault| self.of_form(&fault))?, work)
    }

    /// The memory to charge before the fields of a form are searched.
    pub(super) fn memory_of_form(&self, body: &Buffer) -> usize {
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

    /// Encrypts or decrypts a file of a form; returns `None` if it stays unchanged. Its memory is added to the share.
    async fn file(
        &mut self,
        rule: &Rule,
        body: Arc<Buffer>,
        at: Range<usize>,
        share: &mut BudgetShare,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let size = at.len();
        let encrypts = match rule.action {
            Action::Redact => {
                self.changed[rule.action as usize] += 1;
                return Ok(Some(rule.replacement.as_bytes().to_vec()));
            }
            Action::Decrypt if !body.as_ref().as_ref()[at.clone()].starts_with(FILE_START) => return Ok(None),
            action => action == Action::Encrypt,
        };
        let message = share.another(size + MESSAGE_SIZE)?;
        let params = self.params(rule);
        let write = move || match encrypts {
            true => Prepared::encrypt_file(&params.encrypt_file(), &body.as_ref().as_ref()[at]),
            false => Prepared::decrypt_file(&params.decrypt_file(), &body.as_ref().as_ref()[at]),
        };
        let (answer, arrived) = match self.try_call(message, share.another(0)?, write).await? {
            Err(error) if rule.on_failure != OnFailure::Fail && is_decrypt_failure(&error) => {
                let place = "a file in the form".to_owned();
                self.unopened.add(1, std::iter::once(place), self.transforms.failure_paths_max);
                return Ok((rule.on_failure == OnFailure::Null).then(Vec::new));
            }
            answer => answer.map_err(|error| Refusal::of_engine(self.direction, &error))?,
        };
        self.changed[rule.action as usize] += 1;
        share.grow(arrived.size())?;
        drop(arrived);
        let read = self.offload().run(Cost::of_copy(answer.size()), move || answer.into_file()).await;
        read.map(Some).map_err(|error| Refusal::of_engine(self.direction, &error))
    }
}

/// Whether the error means that the file cannot be decrypted, and nothing else.
fn is_decrypt_failure(error: &ClientError) -> bool {
    matches!(error.kind, ErrorKind::Engine(ErrorCode::DecryptFailed | ErrorCode::InvalidEnvelope))
}
