//! Encryption and decryption of a JSON document, which is spread over several workers where it is large.

use std::sync::Arc;

use leafseal_engine::{
    Caller, Decryptor, DocumentWork, Encryptor, Error, OnFailure, PayloadReading, Progress, Rewriter, Selection,
    SelectionBuilder,
};
use leafseal_protocol::ErrorObject;

use super::{CallInput, CallReport};
use crate::rpc::convert::error as error_object;
use crate::rpc::parts::next_part;
use crate::work::{PlannedRequest, RequestStage, RequestStep, RequestWork, WrittenOutput};

/// Encrypts the selected scalars of [`CallInput::body`] as JSON.
pub fn encrypt_document(input: CallInput) -> RequestStage {
    let begin = |input: &CallInput, caller: &Caller| input.engine.encryptor(caller, &input.encrypt_options());
    let caller = input.caller.clone();
    RequestStage::working(ApiDocument::<Encryptor> {
        input: Arc::new(input),
        stage: BodyStage::Received,
        begin,
        caller,
    })
}

/// The same with every envelope in it decrypted that is selected. Nothing but its payload is decrypted for a token.
pub fn decrypt_document(input: CallInput) -> RequestStage {
    let begin = |input: &CallInput, caller: &Caller| input.engine.decryptor(caller, &input.decrypt_options());
    let (stage, caller) = (BodyStage::of(&input.caller), input.caller.clone());
    RequestStage::working(ApiDocument::<Decryptor> { input: Arc::new(input), stage, begin, caller })
}

struct ApiDocument<R: Rewriter> {
    input: Arc<CallInput>,
    stage: BodyStage<R>,
    begin: fn(&CallInput, &Caller) -> Result<R, Error>,
    /// The caller of the input, or the same after its payload was compared.
    caller: Caller,
}

enum BodyStage<R: Rewriter> {
    /// It is not known yet whether the token is for this document.
    Unread,
    Read(Box<PayloadReading>),
    Received,
    /// The caller's right is known, and its selectors are being compiled, one a step.
    Selecting(Option<Box<Selecting<R>>>),
    Working(Box<DocumentWork<R>>),
}

impl<R: Rewriter> BodyStage<R> {
    fn of(caller: &Caller) -> Self {
        if matches!(caller, Caller::Token(_)) { BodyStage::Unread } else { BodyStage::Received }
    }
}

struct Selecting<R> {
    rewriter: R,
    selectors: SelectionBuilder,
    /// How many are compiled.
    done: usize,
}

impl<R: Rewriter> ApiDocument<R> {
    fn work(&self) -> Option<&DocumentWork<R>> {
        match &self.stage {
            BodyStage::Working(work) => Some(work),
            BodyStage::Unread | BodyStage::Read(_) | BodyStage::Received | BodyStage::Selecting(_) => None,
        }
    }

    fn begin(&self) -> Result<BodyStage<R>, Error> {
        let rewriter = (self.begin)(&self.input, &self.caller)?;
        if self.input.options.select.is_empty() {
            return self.begin_work(rewriter, None);
        }
        let selectors = self.input.engine.selection_builder().other_case(self.input.other_case());
        Ok(BodyStage::Selecting(Some(Box::new(Selecting { rewriter, selectors, done: 0 }))))
    }

    fn begin_work(&self, rewriter: R, selection: Option<&Selection>) -> Result<BodyStage<R>, Error> {
        let CallInput { engine, body, .. } = &*self.input;
        let work = engine.rewrite_document(rewriter, selection, body.len())?;
        let work = work.strict(self.input.is_strict());
        Ok(BodyStage::Working(Box::new(if self.input.is_lines { work.lines() } else { work })))
    }

    /// Compiles the next selector, or starts the work after the last.
    fn select(&self, mut selecting: Box<Selecting<R>>) -> Result<BodyStage<R>, Error> {
        let Some(selector) = self.input.options.select.get(selecting.done) else {
            let Selecting { rewriter, selectors, .. } = *selecting;
            return self.begin_work(rewriter, Some(&selectors.finish()));
        };
        selecting.selectors.add(selector)?;
        selecting.done += 1;
        Ok(BodyStage::Selecting(Some(selecting)))
    }

    /// Leaves the report about finished work for the answer.
    fn report(&self, count: u64) {
        let Some(work) = self.work() else { return };
        let reports_failures = self.input.decrypt_options().on_failure != OnFailure::Fail;
        let _ = self.input.report.set(CallReport { count, report: work.report(), reports_failures });
    }
}

impl<R: Rewriter + Send + 'static> RequestWork for ApiDocument<R> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let input = Arc::clone(&self.input);
        let body = &input.body;
        let stage = match &mut self.stage {
            BodyStage::Selecting(selecting) => {
                let selecting = selecting.take().expect("it is put back unless the work begins");
                self.select(selecting).map_err(error_object)?
            }
            BodyStage::Unread => {
                BodyStage::Read(Box::new(self.input.engine.payload(body.len()).map_err(error_object)?))
            }
            BodyStage::Read(reading) => match reading.step(body).map_err(error_object)? {
                None => return Ok(RequestStep::More),
                Some(read) => {
                    self.caller = self.input.engine.show_payload(&self.caller, &read).map_err(error_object)?;
                    BodyStage::Received
                }
            },
            BodyStage::Received => self.begin().map_err(error_object)?,
            BodyStage::Working(work) => {
                let progress = work.step(body, out).map_err(error_object)?;
                if progress == Progress::More {
                    return Ok(RequestStep::Spread { answer_size_max: work.output_size_max() });
                }
                let count = work.count();
                self.report(count);
                return Ok(RequestStep::Done);
            }
        };
        self.stage = stage;
        Ok(RequestStep::More)
    }

    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        let BodyStage::Working(work) = &mut self.stage else { unreachable!("only work spreads") };
        next_part(&self.input, work)
    }

    fn finish(&mut self, _head: &mut Vec<u8>, written: WrittenOutput, _tail: &mut Vec<u8>) {
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
