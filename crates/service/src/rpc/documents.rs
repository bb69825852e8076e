//! `encrypt_document` and `decrypt_document`: the document is read in place in the frame and written to the outgoing buffer.

use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::{
    Caller, Decryptor, DocumentWork, Encryptor, Engine, Progress, RequestReport, Rewriter, SelectionBuilder,
    document_work,
};
use leafseal_protocol::answer::OpenDocument;
use leafseal_protocol::{DecryptDocumentParams, EncryptDocumentParams, ErrorObject, RawValues, ValuesPosition};

use super::FailureObserver;
use super::call::OwnedCall;
use super::convert;
use super::failures::FailureLog;
use super::parts::{self, OwnsDocument};
use crate::work::{PlannedRequest, RequestStep, RequestWork, WrittenOutput};

/// A document that an [`Encryptor`] or a [`Decryptor`] processes.
pub(super) struct RpcDocument<R: Rewriter> {
    call: Arc<OwnedCall>,
    stage: DocumentStage<R>,
    answer: Option<OpenDocument>,
    /// The offset of the document in the answer.
    start: usize,
    ending: Ending,
}

/// How a document is read, and the data needed at its end.
struct Ending {
    is_strict: bool,
    /// Whether it is a document on each line.
    is_lines: bool,
    failures: FailureLog,
}

impl Ending {
    fn apply<R: Rewriter>(&self, work: DocumentWork<R>) -> DocumentWork<R> {
        if self.is_lines { work.lines() } else { work }
    }
}

/// The progress of a document.
enum DocumentStage<R: Rewriter> {
    /// Its selectors are being compiled, one per step. There is a rewriter, so the caller may use the app.
    Selecting(Option<Box<Selecting<R>>>),
    Working(Box<DocumentWork<R>>),
}

struct Selecting<R> {
    engine: Engine,
    rewriter: R,
    selectors: SelectionBuilder,
    /// The position of the next selector.
    position: ValuesPosition,
}

impl RpcDocument<Encryptor> {
    pub(super) fn encrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &EncryptDocumentParams<'_>),
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::encrypt_options(&params.options);
        let rewriter = engine.encryptor(caller, &options).map_err(convert::error)?;
        let (is_strict, is_lines) = (params.options.strict, params.options.lines);
        let ending = Ending { is_strict, is_lines, failures: FailureLog::default() };
        let selectors = engine.selection_builder().other_case(convert::other_case(params.options.other_case));
        let select = params.select.map(|_| selectors.unambiguous(params.options.unambiguous));
        Self::begin(engine, rewriter, id, (call, select), ending, out)
    }
}

impl RpcDocument<Decryptor> {
    pub(super) fn decrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &DecryptDocumentParams<'_>),
        log: &Arc<dyn FailureObserver>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::decrypt_options(&params.options);
        let rewriter = engine.decryptor(caller, &options).map_err(convert::error)?;
        let failures = FailureLog::of(options.on_failure, log, caller);
        let (is_strict, is_lines) = (params.options.strict, params.options.lines);
        let ending = Ending { is_strict, is_lines, failures };
        let selectors = engine.selection_builder().other_case(convert::other_case(params.options.other_case));
        let select = params.select.map(|_| selectors);
        Self::begin(engine, rewriter, id, (call, select), ending, out)
    }
}

impl<R: Rewriter> RpcDocument<R> {
    /// Without a list of selectors, everything is selected; an empty list was refused when the parameters were read.
    fn begin(
        engine: &Engine,
        rewriter: R,
        id: u32,
        (call, select): (&Arc<OwnedCall>, Option<SelectionBuilder>),
        ending: Ending,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let stage = match select {
            None => {
                let work = engine.rewrite_document(rewriter, None, call.document().len());
                DocumentStage::Working(Box::new(ending.apply(work.map_err(convert::error)?)))
            }
            Some(selectors) => {
                let engine = engine.clone();
                let position = ValuesPosition::default();
                DocumentStage::Selecting(Some(Box::new(Selecting { engine, rewriter, selectors, position })))
            }
        };
        let answer = Some(OpenDocument::begin(id, out));
        Ok(Self { call: Arc::clone(call), stage, answer, start: out.len(), ending })
    }
}

impl<R: Rewriter> Selecting<R> {
    /// Compiles the next selector; returns false if there is none.
    fn next(&mut self, select: Option<RawValues<'_>>) -> Result<bool, ErrorObject> {
        let Some(select) = select else { return Ok(false) };
        let mut selectors = select.strings_from(self.position);
        let Some(selector) = selectors.next() else { return Ok(false) };
        let added = self.selectors.add(selector?.as_str());
        added.map_err(|error| convert::error(error.into()))?;
        self.position = selectors.position();
        Ok(true)
    }

    fn finish(self, size: usize, ending: &Ending) -> Result<DocumentWork<R>, ErrorObject> {
        let selection = self.selectors.finish();
        let work = self.engine.rewrite_document(self.rewriter, Some(&selection), size).map_err(convert::error)?;
        Ok(ending.apply(work.strict(ending.is_strict)))
    }
}

impl<R: Rewriter + Send + 'static> RpcDocument<R> {
    /// The document's work, once its selectors are compiled.
    fn work(&self) -> Option<&DocumentWork<R>> {
        match &self.stage {
            DocumentStage::Selecting(_) => None,
            DocumentStage::Working(work) => Some(work),
        }
    }

    /// Limits the document; the bytes before it in the answer are not counted.
    fn answer_size_max(&self) -> usize {
        self.work().map_or(usize::MAX, |work| self.start.saturating_add(work.output_size_max()))
    }

    fn open(&mut self) -> OpenDocument {
        self.answer.take().expect("an answer ends once")
    }

    /// Returns the report of finished work, and logs it if envelopes failed to decrypt.
    fn report(&self) -> RequestReport {
        let report = self.work().map(DocumentWork::report).unwrap_or_default();
        self.ending.failures.ended(&self.call, &report);
        report
    }
}

impl<R: Rewriter + Send + 'static> RequestWork for RpcDocument<R> {
    fn counted_work(&self) -> Option<Duration> {
        self.work().filter(|work| !work.binds_each())?;
        Some(document_work(self.call.document(), self.call.parsed().context_size()))
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let call = &self.call;
        let work = match &mut self.stage {
            DocumentStage::Working(work) => work,
            DocumentStage::Selecting(selecting) => {
                let next = selecting.as_mut().expect("it is finished once").next(call.select())?;
                if !next && let Some(selecting) = selecting.take() {
                    let work = selecting.finish(call.document().len(), &self.ending)?;
                    self.stage = DocumentStage::Working(Box::new(work));
                }
                return Ok(RequestStep::More);
            }
        };
        let progress = work.step(call.document(), out).map_err(convert::error)?;
        let count = work.count();
        if progress == Progress::More {
            return Ok(RequestStep::Spread { answer_size_max: self.answer_size_max() });
        }
        let (report, tells_failures) = (self.report(), self.ending.failures.is_wanted());
        let paths = paths(&report);
        self.open().finish_with(count, &convert::document_report(&report, &paths, tells_failures), out);
        Ok(RequestStep::Done)
    }

    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        let DocumentStage::Working(work) = &mut self.stage else { unreachable!("only work spreads") };
        parts::next_part(&self.call, work)
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: WrittenOutput, tail: &mut Vec<u8>) {
        let (report, tells_failures) = (self.report(), self.ending.failures.is_wanted());
        let paths = paths(&report);
        let report = convert::document_report(&report, &paths, tells_failures);
        self.open().finish_at_with(written.size, written.fields, &report, head, tail);
    }

    fn too_large(&self) -> ErrorObject {
        let work = self.work().expect("only work spreads");
        convert::error(work.too_large())
    }

    fn fields(&self) -> u64 {
        self.work().map_or(0, DocumentWork::count)
    }

    fn memory(&self) -> usize {
        self.work().map_or(0, DocumentWork::memory)
    }
}

fn paths(report: &RequestReport) -> Vec<&str> {
    report.failures.iter().map(|failure| failure.path.as_str()).collect()
}
