//! `encrypt_document` and `decrypt_document`: the document is read where it lies in the frame and written where it goes out.

use std::sync::Arc;

use fieldseal_engine::{
    Caller, Decryptor, DocumentPart, DocumentWork, Encryptor, Engine, Planned as Stretch, Progress, Rewriter, Selection,
};
use fieldseal_protocol::answer::OpenDocument;
use fieldseal_protocol::{DecryptDocumentParams, EncryptDocumentParams, ErrorObject, RawValues};

use super::call::Call;
use super::convert;
use super::work::Work;
use crate::interface::{Part, PartStep, Planned, Step, Written};

/// A document in work, by an [`Encryptor`] or a [`Decryptor`].
pub(super) struct Document<R: Rewriter> {
    work: DocumentWork<R>,
    answer: Option<OpenDocument>,
    /// Where the document begins in the answer.
    start: usize,
}

/// A part of it.
struct PartOfDocument<R: Rewriter> {
    call: Arc<Call>,
    part: DocumentPart<R>,
}

impl Document<Encryptor> {
    pub(super) fn encrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &EncryptDocumentParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let selection = selection(engine, params.select)?;
        let options = convert::encrypt_options(&params.options);
        let work = engine.encrypt_document(caller, &options, selection.as_ref(), params.document.len());
        Ok(Self::begin(work.map_err(convert::error)?, id, out))
    }
}

impl Document<Decryptor> {
    pub(super) fn decrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &DecryptDocumentParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let selection = selection(engine, params.select)?;
        let options = convert::decrypt_options(&params.options);
        let work = engine.decrypt_document(caller, &options, selection.as_ref(), params.document.len());
        Ok(Self::begin(work.map_err(convert::error)?, id, out))
    }
}

impl<R: Rewriter> Document<R> {
    fn begin(work: DocumentWork<R>, id: u32, out: &mut Vec<u8>) -> Self {
        let answer = Some(OpenDocument::begin(id, out));
        Self { work, answer, start: out.len() }
    }
}

impl<R: Rewriter + Send + 'static> Document<R> {
    /// Documents have a limit; what stands before one in the answer does not count.
    fn answer_size_max(&self) -> usize {
        self.start.saturating_add(self.work.output_size_max())
    }

    fn open(&mut self) -> OpenDocument {
        self.answer.take().expect("an answer ends once")
    }
}

impl<R: Rewriter + Send + 'static> Work for Document<R> {
    fn step(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let progress = self.work.step(call.document(), out).map_err(convert::error)?;
        if progress == Progress::More {
            return Ok(Step::Spread { answer_size_max: self.answer_size_max() });
        }
        self.open().finish(self.work.count(), out);
        Ok(Step::Done)
    }

    fn next_part(&mut self, call: &Arc<Call>) -> Result<Planned, ErrorObject> {
        let part = match self.work.next_part(call.document()).map_err(convert::error)? {
            Stretch::Part(part) => part,
            Stretch::Walked => return Ok(Planned::Nothing),
            Stretch::All => return Ok(Planned::None),
        };
        let part = Box::new(PartOfDocument { call: Arc::clone(call), part });
        Ok(if self.work.is_planned() { Planned::Last(part) } else { Planned::Part(part) })
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: Written, tail: &mut Vec<u8>) {
        self.open().finish_at(written.size, written.fields, head, tail);
    }

    fn too_large(&self, answer_size_max: usize) -> Option<ErrorObject> {
        (self.answer_size_max() < answer_size_max).then(|| convert::error(self.work.too_large()))
    }

    fn fields(&self) -> u64 {
        self.work.count()
    }
}

impl<R: Rewriter + Send> Part for PartOfDocument<R> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        let progress = self.part.step(self.call.document(), out).map_err(convert::error)?;
        Ok(if progress == Progress::More { PartStep::More } else { PartStep::Done })
    }

    fn fields(&self) -> u64 {
        self.part.count()
    }
}

/// No list selects everything; an empty one was refused when the parameters were read.
fn selection(engine: &Engine, select: Option<RawValues<'_>>) -> Result<Option<Selection>, ErrorObject> {
    let Some(select) = select else { return Ok(None) };
    let selectors_max = engine.settings().document.selectors_max;
    // One more than allowed is enough to be refused: a long list is not collected.
    let selectors = select
        .strings()
        .take(selectors_max + 1)
        .map(|text| Ok(text?.as_str()))
        .collect::<Result<Vec<_>, ErrorObject>>()?;
    engine.selection(&selectors).map(Some).map_err(convert::error)
}
