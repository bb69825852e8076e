//! Encryption and decryption of a JSON document, which is spread over several workers where it is large.

use std::sync::Arc;

use leafseal_engine::{
    Decryptor, DocumentWork, Encryptor, Error, OnFailure, PayloadDigest, PayloadReading, Progress, Rewriter, Selection,
    SelectionBuilder,
};
use leafseal_protocol::{ErrorCode, ErrorObject};

use super::{CallInput, CallReport};
use crate::rpc::convert::error as error_object;
use crate::rpc::parts::next_part;
use crate::work::{Planned, RequestStage, RequestWork, Step, Written};

/// Encrypts the selected scalars of [`CallInput::body`] as JSON.
pub fn encrypt_document(input: CallInput) -> RequestStage {
    let begin = |input: &CallInput| input.engine.encryptor(&input.caller, &input.encrypt_options());
    RequestStage::working(Document::<Encryptor> {
        input: Arc::new(input),
        stage: Stage::Received,
        begin,
        payload: None,
    })
}

/// The same with every envelope in it decrypted that is selected. `payload` is what a token was made for, and nothing else is decrypted
/// for one.
pub fn decrypt_document(input: CallInput, payload: Option<PayloadDigest>) -> RequestStage {
    let begin = |input: &CallInput| input.engine.decryptor(&input.caller, &input.decrypt_options());
    RequestStage::working(Document::<Decryptor> { input: Arc::new(input), stage: Stage::Received, begin, payload })
}

struct Document<R: Rewriter> {
    input: Arc<CallInput>,
    stage: Stage<R>,
    begin: fn(&CallInput) -> Result<R, Error>,
    payload: Option<PayloadDigest>,
}

enum Stage<R: Rewriter> {
    Received,
    /// It is not known yet whether the token is for this document.
    Compared(Box<PayloadReading>, PayloadDigest),
    /// The caller's right is known, and its selectors are being compiled, one a step.
    Selecting(Option<Box<Selecting<R>>>),
    Working(Box<DocumentWork<R>>),
}

struct Selecting<R> {
    rewriter: R,
    selectors: SelectionBuilder,
    /// How many are compiled.
    done: usize,
}

impl<R: Rewriter> Document<R> {
    fn work(&self) -> Option<&DocumentWork<R>> {
        match &self.stage {
            Stage::Working(work) => Some(work),
            Stage::Received | Stage::Compared(..) | Stage::Selecting(_) => None,
        }
    }

    fn begin(&self) -> Result<Stage<R>, Error> {
        let rewriter = (self.begin)(&self.input)?;
        if self.input.options.select.is_empty() {
            return self.begin_work(rewriter, None);
        }
        let selectors = self.input.engine.selection_builder();
        Ok(Stage::Selecting(Some(Box::new(Selecting { rewriter, selectors, done: 0 }))))
    }

    fn begin_work(&self, rewriter: R, selection: Option<&Selection>) -> Result<Stage<R>, Error> {
        let CallInput { engine, body, options, .. } = &*self.input;
        let work = engine.rewrite_document(rewriter, selection, body.len())?;
        let work = work.strict(options.strict.unwrap_or(false));
        Ok(Stage::Working(Box::new(if self.input.is_lines { work.lines() } else { work })))
    }

    /// Compiles the next selector, or starts the work after the last.
    fn select(&self, mut selecting: Box<Selecting<R>>) -> Result<Stage<R>, Error> {
        let Some(selector) = self.input.options.select.get(selecting.done) else {
            let Selecting { rewriter, selectors, .. } = *selecting;
            return self.begin_work(rewriter, Some(&selectors.finish()));
        };
        selecting.selectors.add(selector)?;
        selecting.done += 1;
        Ok(Stage::Selecting(Some(selecting)))
    }

    /// Leaves the report about finished work for the answer.
    fn report(&self, count: u64) {
        let Some(work) = self.work() else { return };
        let on_failure = self.input.options.on_failure;
        let reports_failures = on_failure.is_some_and(|on_failure| on_failure != OnFailure::Fail);
        let _ = self.input.report.set(CallReport { count, report: work.report(), reports_failures });
    }
}

impl<R: Rewriter + Send + 'static> RequestWork for Document<R> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let input = Arc::clone(&self.input);
        let body = &input.body;
        let stage = match &mut self.stage {
            Stage::Selecting(selecting) => {
                let selecting = selecting.take().expect("it is put back unless the work begins");
                self.select(selecting).map_err(error_object)?
            }
            Stage::Received => match self.payload.take() {
                Some(payload) => {
                    let reading = self.input.engine.payload(body.len()).map_err(error_object)?;
                    Stage::Compared(Box::new(reading), payload)
                }
                None => self.begin().map_err(error_object)?,
            },
            Stage::Compared(reading, payload) => match reading.step(body).map_err(error_object)? {
                None => return Ok(Step::More),
                // It has been taken, so the next step begins the work, as often as it takes.
                Some(read) if read == *payload => Stage::Received,
                Some(_) => return Err(ErrorObject::new(ErrorCode::Forbidden, "the token is for another payload")),
            },
            Stage::Working(work) => {
                let progress = work.step(body, out).map_err(error_object)?;
                if progress == Progress::More {
                    return Ok(Step::Spread { answer_size_max: work.output_size_max() });
                }
                let count = work.count();
                self.report(count);
                return Ok(Step::Done);
            }
        };
        self.stage = stage;
        Ok(Step::More)
    }

    fn next_part(&mut self) -> Result<Planned, ErrorObject> {
        let Stage::Working(work) = &mut self.stage else { unreachable!("only work spreads") };
        next_part(&self.input, work)
    }

    fn finish(&mut self, _head: &mut Vec<u8>, written: Written, _tail: &mut Vec<u8>) {
        self.report(written.fields);
    }

    fn too_large(&self) -> ErrorObject {
        let work = self.work().expect("only work spreads");
        error_object(work.too_large())
    }

    fn fields(&self) -> u64 {
        self.work().map_or(0, DocumentWork::count)
    }

    fn memory(&self) -> usize {
        self.work().map_or(0, DocumentWork::memory)
    }
}
