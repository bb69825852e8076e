//! Writes forms and queries as the relay has read them: names and headers of parts in one spelling, whatever the client's was. Where a rule
//! hides something, an upstream must not read another form than the rules do.

use std::sync::Arc;

use leafseal_document::WalkProgress;
use leafseal_document::form::{
    FieldNames, FieldReader, FormError, FormField, FormLimits, MediaType, MultipartPart, PartHead, PartReader, Syntax,
    WantedFields,
};

use super::{FormFault, Output, Step, progress};
use crate::body::buffer::BodyBuffer;
use crate::json_text::{MemberNames, TextSearch, Verdict};

/// Bytes of a value that are searched at a time for JSON.
const PIECE_SIZE: usize = 1 << 10;

/// The checks of a form besides its names.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    /// Names that this message also has elsewhere, and that must not be those of hidden fields.
    pub(crate) elsewhere: Option<Arc<FieldNames>>,
    /// Names that members of JSON in fields that no rule selects must not have, if rules hide values in JSON.
    pub(crate) texts: Option<Arc<MemberNames>>,
}

impl Checks {
    fn name(&self, name: &[u8], is_selected: bool) -> Result<(), FormFault> {
        match &self.elsewhere {
            Some(elsewhere) if is_selected && elsewhere.means(name) => Err(FormFault::TwoSources),
            _ => Ok(()),
        }
    }
}

/// A search for JSON in one value after another.
struct ValueSearch {
    texts: TextSearch,
    /// How much of the current value was searched.
    at: usize,
}

impl ValueSearch {
    fn new(checks: &Checks) -> Option<Self> {
        let texts = checks.texts.as_ref().map(|names| TextSearch::new(Arc::clone(names)));
        texts.map(|texts| ValueSearch { texts, at: 0 })
    }

    fn begin(&mut self) {
        self.texts.begin_bytes();
        self.at = 0;
    }

    /// Searches on; returns whether the value has been searched, and the steps that this took.
    fn step(&mut self, value: &[u8], is_encoded: bool) -> Result<(bool, usize), FormFault> {
        let (before, rest) = (self.texts.steps(), &value[self.at..]);
        let (size, mut decoded) = (rest.len().min(PIECE_SIZE), Vec::new());
        let (mut piece, taken) = match is_encoded {
            true => {
                let taken = Syntax::decode(rest, size, &mut decoded);
                (&*decoded, taken)
            }
            false => (&rest[..size], size),
        };
        self.at += taken;
        let mut is_over = self.at == value.len();
        while !piece.is_empty() {
            let (read, verdict) = self.texts.read(piece);
            piece = &piece[read..];
            match verdict {
                Verdict::More => {}
                Verdict::Held => return Err(FormFault::HoldsJson),
                Verdict::NotJson => (is_over, piece) = (true, &[]),
            }
        }
        Ok((is_over, taken + (self.texts.steps() - before) as usize))
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
    body: BodyBuffer,
    reader: Option<FieldReader>,
    fields: Vec<FormField>,
    checks: Checks,
    syntax: Syntax,
    out: Output,
    next: usize,
    is_in_value: bool,
    search: Option<ValueSearch>,
    is_searching: bool,
    selected: Vec<String>,
}

impl CanonicalFields {
    /// `names`: the fields that rules hide, guarded.
    pub(crate) fn new(
        body: BodyBuffer,
        names: Arc<FieldNames>,
        limits: FormLimits,
        checks: Checks,
        syntax: Syntax,
    ) -> Self {
        let (reader, out) =
            (Some(FieldReader::new(names, limits, WantedFields::All)), Output::with_capacity(body.len()));
        let (fields, selected, search) = (Vec::new(), Vec::new(), ValueSearch::new(&checks));
        CanonicalFields {
            body,
            reader,
            fields,
            checks,
            syntax,
            out,
            next: 0,
            is_in_value: false,
            search,
            is_searching: false,
            selected,
        }
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

    fn advance(&mut self) -> Result<WalkProgress, FormFault> {
        if let Some(reader) = &mut self.reader {
            if reader.read(self.body.as_ref())? == WalkProgress::Done {
                self.fields = self.reader.take().map(FieldReader::into_fields).unwrap_or_default();
            }
            return Ok(WalkProgress::More);
        }
        while self.out.left > 0 {
            let Some(field) = self.fields.get(self.next).cloned() else { return Ok(WalkProgress::Done) };
            let value = &self.body.as_ref()[field.value.clone().unwrap_or_default()];
            if self.is_searching
                && let Some(search) = &mut self.search
            {
                let (is_over, steps) = search.step(value, true)?;
                self.out.left = self.out.left.saturating_sub(steps);
                self.is_searching = !is_over;
                continue;
            }
            if self.is_in_value {
                self.is_in_value = !self.out.piece(value, Syntax::copy_value);
            } else {
                self.begin(&field)?;
            }
            self.next += usize::from(!self.is_in_value);
        }
        Ok(WalkProgress::More)
    }

    /// Writes a field up to its value.
    fn begin(&mut self, field: &FormField) -> Result<(), FormFault> {
        let body = self.body.as_ref();
        let name = &body[field.name.clone()];
        if self.next > 0 {
            self.out.bytes.push(b'&');
        }
        self.syntax.encode_name(name, field.is_selected, &mut self.out.bytes);
        self.out.left = self.out.left.saturating_sub(name.len() + 1);
        if field.value.is_some() {
            let decoded = decoded(name, name.len());
            self.checks.name(&decoded, field.is_selected)?;
            if let Some(search) = self.search.as_mut().filter(|_| !field.is_selected) {
                search.begin();
                self.is_searching = true;
            }
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
    body: BodyBuffer,
    boundary: String,
    reader: Option<PartReader>,
    parts: Vec<(MultipartPart, PartHead)>,
    checks: Checks,
    out: Output,
    next: usize,
    is_in_content: bool,
    search: Option<ValueSearch>,
    is_searching: bool,
}

impl CanonicalParts {
    /// `names`: the fields that rules hide, guarded.
    ///
    /// # Errors
    /// If the boundary is not one.
    pub(crate) fn new(
        body: BodyBuffer,
        boundary: String,
        names: Arc<FieldNames>,
        limits: FormLimits,
        checks: Checks,
    ) -> Result<Self, FormError> {
        let reader = Some(PartReader::new(&boundary, names, limits, WantedFields::All)?);
        let (parts, out, search) = (Vec::new(), Output::with_capacity(body.len()), ValueSearch::new(&checks));
        Ok(CanonicalParts {
            body,
            boundary,
            reader,
            parts,
            checks,
            out,
            next: 0,
            is_in_content: false,
            search,
            is_searching: false,
        })
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

    fn advance(&mut self) -> Result<WalkProgress, FormFault> {
        if let Some(reader) = &mut self.reader {
            if reader.read(self.body.as_ref())? == WalkProgress::Done {
                self.parts = self.reader.take().map(PartReader::into_parts_with_heads).unwrap_or_default();
            }
            return Ok(WalkProgress::More);
        }
        let body = self.body.as_ref();
        while self.out.left > 0 {
            let Some((part, head)) = self.parts.get(self.next) else {
                self.out.bytes.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
                return Ok(WalkProgress::Done);
            };
            let content = &body[part.content.clone()];
            if !self.is_in_content {
                self.checks.check_part(head)?;
                if let Some(search) = self.search.as_mut().filter(|_| !head.is_selected) {
                    search.begin();
                    self.is_searching = true;
                }
                let before = self.out.bytes.len();
                self.out.bytes.extend_from_slice(format!("--{}\r\n", self.boundary).as_bytes());
                head.write(&mut self.out.bytes);
                self.out.left = self.out.left.saturating_sub(self.out.bytes.len() - before);
                self.is_in_content = true;
            } else if self.is_searching
                && let Some(search) = &mut self.search
            {
                let (is_over, steps) = search.step(content, false)?;
                self.out.left = self.out.left.saturating_sub(steps);
                self.is_searching = !is_over;
            } else if self.out.copy(content) {
                self.out.bytes.extend_from_slice(b"\r\n");
                (self.is_in_content, self.next) = (false, self.next + 1);
            }
        }
        Ok(WalkProgress::More)
    }
}

impl Checks {
    fn check_part(&self, head: &PartHead) -> Result<(), FormFault> {
        self.name(head.name.as_bytes(), head.is_selected)?;
        let is_json = |media: &String| MediaType::parse(media.as_bytes()).is_some_and(|media| media.is_json());
        match self.texts.is_some() && !head.is_selected && head.media_type.as_ref().is_some_and(is_json) {
            // Frameworks bind such a part as a document of its own.
            true => Err(FormFault::HoldsJson),
            false => Ok(()),
        }
    }
}
