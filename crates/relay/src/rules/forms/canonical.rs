//! Writes forms and queries as the relay has read them: names and headers of parts in one spelling, whatever the client's was. Where a rule
//! hides something, an upstream must not read another form than the rules do.

use std::sync::Arc;

use leafseal_document::Progress;
use leafseal_document::form::{
    Field, FieldNames, FieldReader, FormError, FormLimits, MediaType, Part, PartHead, PartReader, Syntax, Wanted,
};

use super::{FormFault, Output, Step, progress};
use crate::body::buffer::Buffer;

/// Bytes at the start of a value that show whether it is JSON.
const HEAD_SIZE: usize = 1 << 10;

/// What a form is checked for besides its names.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    /// Names that this message also has elsewhere, and that must not be those of hidden fields.
    pub(crate) elsewhere: Option<Arc<FieldNames>>,
    /// Whether rules hide values in JSON, so that a field that no rule selects must not hold any.
    pub(crate) json: bool,
}

impl Checks {
    fn name(&self, name: &[u8], is_selected: bool) -> Result<(), FormFault> {
        match &self.elsewhere {
            Some(elsewhere) if is_selected && elsewhere.means(name) => Err(FormFault::TwoSources),
            _ => Ok(()),
        }
    }

    fn value(&self, head: &[u8], is_selected: bool) -> Result<(), FormFault> {
        if self.json && !is_selected && begins_like_json(head) { Err(FormFault::HoldsJson) } else { Ok(()) }
    }
}

/// Whether a text may be a JSON object or array, by its first bytes. Other texts that begin with a bracket pass, such as `[urgent]`.
fn begins_like_json(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let is_space = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '\u{180e}' | '\u{200b}');
    let text = text.trim_start_matches(is_space);
    // Longer white space than any client writes may stand before anything.
    if text.is_empty() {
        return head.len() >= HEAD_SIZE;
    }
    let is_item = |c: char| c.is_ascii_digit() || matches!(c, '{' | '[' | '"' | '\'' | '-' | '/' | '#');
    match text.strip_prefix('[') {
        Some(items) => items.trim_start_matches(is_space).starts_with(is_item),
        None => text.starts_with('{'),
    }
}

/// A form or query in its canonical spelling.
#[derive(Debug)]
pub(crate) struct Canonical {
    pub(crate) bytes: Vec<u8>,
    /// Whether the client wrote other bytes.
    pub(crate) is_new: bool,
    /// The names of its selected fields that have values.
    pub(crate) selected: Vec<String>,
}

/// Reads an urlencoded form or a query and writes it again, in steps.
pub(crate) struct CanonicalFields {
    body: Buffer,
    reader: Option<FieldReader>,
    fields: Vec<Field>,
    checks: Checks,
    syntax: Syntax,
    out: Output,
    next: usize,
    is_in_value: bool,
    selected: Vec<String>,
}

impl CanonicalFields {
    /// `names`: the fields that rules hide, guarded.
    pub(crate) fn new(
        body: Buffer,
        names: Arc<FieldNames>,
        limits: FormLimits,
        checks: Checks,
        syntax: Syntax,
    ) -> Self {
        let (reader, out) = (Some(FieldReader::new(names, limits, Wanted::All)), Output::with_capacity(body.len()));
        let (fields, selected) = (Vec::new(), Vec::new());
        CanonicalFields { body, reader, fields, checks, syntax, out, next: 0, is_in_value: false, selected }
    }

    pub(crate) fn step(mut self) -> Step<Self, Canonical> {
        self.out.begin_step();
        let step = self.advance();
        self.out.compare(self.body.as_ref());
        progress(step, self, |this| {
            let is_new = this.out.differs(this.body.as_ref());
            Canonical { bytes: this.out.bytes, is_new, selected: this.selected }
        })
    }

    fn advance(&mut self) -> Result<Progress, FormFault> {
        if let Some(reader) = &mut self.reader {
            if reader.read(self.body.as_ref())? == Progress::Done {
                self.fields = self.reader.take().map(FieldReader::into_fields).unwrap_or_default();
            }
            return Ok(Progress::More);
        }
        while self.out.left > 0 {
            let Some(field) = self.fields.get(self.next).cloned() else { return Ok(Progress::Done) };
            if self.is_in_value {
                let value = &self.body.as_ref()[field.value.unwrap_or_default()];
                self.is_in_value = !self.out.piece(value, Syntax::copy_value);
            } else {
                self.begin(&field)?;
            }
            self.next += usize::from(!self.is_in_value);
        }
        Ok(Progress::More)
    }

    /// Writes a field up to its value.
    fn begin(&mut self, field: &Field) -> Result<(), FormFault> {
        let body = self.body.as_ref();
        let name = &body[field.name.clone()];
        if self.next > 0 {
            self.out.bytes.push(b'&');
        }
        self.syntax.encode_name(name, field.is_selected, &mut self.out.bytes);
        self.out.left = self.out.left.saturating_sub(name.len() + 1);
        if let Some(value) = &field.value {
            let decoded = decoded(name, name.len());
            self.checks.name(&decoded, field.is_selected)?;
            let value = &body[value.clone()];
            self.checks.value(&self::decoded(value, value.len().min(HEAD_SIZE)), field.is_selected)?;
            if field.is_selected {
                self.selected.push(String::from_utf8_lossy(&decoded).trim().to_owned());
            }
            self.out.bytes.push(b'=');
            self.is_in_value = true;
        }
        Ok(())
    }
}

fn decoded(encoded: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size);
    Syntax::decode(encoded, size, &mut out);
    out
}

/// Reads a multipart form and writes it again, in steps.
pub(crate) struct CanonicalParts {
    body: Buffer,
    boundary: String,
    reader: Option<PartReader>,
    parts: Vec<(Part, PartHead)>,
    checks: Checks,
    out: Output,
    next: usize,
    is_in_content: bool,
}

impl CanonicalParts {
    /// `names`: the fields that rules hide, guarded.
    ///
    /// # Errors
    /// If the boundary is not one.
    pub(crate) fn new(
        body: Buffer,
        boundary: String,
        names: Arc<FieldNames>,
        limits: FormLimits,
        checks: Checks,
    ) -> Result<Self, FormError> {
        let reader = Some(PartReader::new(&boundary, names, limits, Wanted::All)?);
        let (parts, out) = (Vec::new(), Output::with_capacity(body.len()));
        Ok(CanonicalParts { body, boundary, reader, parts, checks, out, next: 0, is_in_content: false })
    }

    pub(crate) fn step(mut self) -> Step<Self, Canonical> {
        self.out.begin_step();
        let step = self.advance();
        self.out.compare(self.body.as_ref());
        progress(step, self, |this| {
            let is_new = this.out.differs(this.body.as_ref());
            Canonical { bytes: this.out.bytes, is_new, selected: Vec::new() }
        })
    }

    fn advance(&mut self) -> Result<Progress, FormFault> {
        if let Some(reader) = &mut self.reader {
            if reader.read(self.body.as_ref())? == Progress::Done {
                self.parts = self.reader.take().map(PartReader::into_parts_with_heads).unwrap_or_default();
            }
            return Ok(Progress::More);
        }
        let body = self.body.as_ref();
        while self.out.left > 0 {
            let Some((part, head)) = self.parts.get(self.next) else {
                self.out.bytes.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
                return Ok(Progress::Done);
            };
            let content = &body[part.content.clone()];
            if !self.is_in_content {
                self.checks.check_part(part, head, content)?;
                let before = self.out.bytes.len();
                self.out.bytes.extend_from_slice(format!("--{}\r\n", self.boundary).as_bytes());
                head.write(&mut self.out.bytes);
                self.out.left = self.out.left.saturating_sub(self.out.bytes.len() - before);
                self.is_in_content = true;
            } else if self.out.copy(content) {
                self.out.bytes.extend_from_slice(b"\r\n");
                (self.is_in_content, self.next) = (false, self.next + 1);
            }
        }
        Ok(Progress::More)
    }
}

impl Checks {
    fn check_part(&self, part: &Part, head: &PartHead, content: &[u8]) -> Result<(), FormFault> {
        self.name(head.name.as_bytes(), head.is_selected)?;
        let is_json = |media: &String| MediaType::parse(media.as_bytes()).is_some_and(|media| media.is_json());
        if self.json && !head.is_selected && head.media_type.as_ref().is_some_and(is_json) {
            return Err(FormFault::HoldsJson);
        }
        // The type of a file says whether it is read as JSON.
        if part.is_file { Ok(()) } else { self.value(&content[..content.len().min(HEAD_SIZE)], head.is_selected) }
    }
}
