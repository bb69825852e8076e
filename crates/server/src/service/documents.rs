//! `encrypt_document` and `decrypt_document`: the document is read where it lies in the frame and written where it goes out. And
//! files, which take one step.

use fieldseal_engine::{Caller, DocumentDecryption, DocumentEncryption, Engine, Progress, Selection};
use fieldseal_protocol::answer::{OpenDocument, OpenFile};
use fieldseal_protocol::{
    DecryptDocumentParams, DecryptFileParams, EncryptDocumentParams, EncryptFileParams, ErrorObject, RawValues,
};

use super::convert;
use crate::Step;

/// A document that is being encrypted.
pub(super) struct EncryptDocument {
    work: DocumentEncryption,
    answer: Option<OpenDocument>,
}

impl EncryptDocument {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &EncryptDocumentParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let selection = selection(engine, params.select)?;
        let options = convert::encrypt_options(&params.options);
        let work = engine.encrypt_document(caller, &options, selection.as_ref(), params.document.len());
        Ok(Self { work: work.map_err(convert::error)?, answer: Some(OpenDocument::begin(id, out)) })
    }

    pub(super) fn step(&mut self, params: &EncryptDocumentParams<'_>, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let progress = self.work.step(params.document, out).map_err(convert::error)?;
        Ok(finish(progress, &mut self.answer, self.work.count(), out))
    }
}

/// A document that is being decrypted.
pub(super) struct DecryptDocument {
    work: DocumentDecryption,
    answer: Option<OpenDocument>,
}

impl DecryptDocument {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &DecryptDocumentParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let selection = selection(engine, params.select)?;
        let options = convert::decrypt_options(&params.options);
        let work = engine.decrypt_document(caller, &options, selection.as_ref(), params.document.len());
        Ok(Self { work: work.map_err(convert::error)?, answer: Some(OpenDocument::begin(id, out)) })
    }

    pub(super) fn step(&mut self, params: &DecryptDocumentParams<'_>, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let progress = self.work.step(params.document, out).map_err(convert::error)?;
        Ok(finish(progress, &mut self.answer, self.work.count(), out))
    }
}

fn finish(progress: Progress, answer: &mut Option<OpenDocument>, count: u64, out: &mut Vec<u8>) -> Step {
    if progress == Progress::More {
        return Step::More;
    }
    answer.take().expect("finished once").finish(count, out);
    Step::Done
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

pub(super) fn encrypt_file(
    engine: &Engine,
    caller: &Caller,
    id: u32,
    params: &EncryptFileParams<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorObject> {
    let answer = OpenFile::begin(id, out);
    let curve = params.options.curve.map(convert::curve);
    engine.encrypt_file(caller, params.options.app, curve, params.data, out).map_err(convert::error)?;
    answer.finish(out);
    Ok(())
}

pub(super) fn decrypt_file(
    engine: &Engine,
    caller: &Caller,
    id: u32,
    params: &DecryptFileParams<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorObject> {
    let answer = OpenFile::begin(id, out);
    engine.decrypt_file(caller, params.options.app, params.data, out).map_err(convert::error)?;
    answer.finish(out);
    Ok(())
}
