//! The engine behind the network: reads the parameters of a request, drives the engine's steps, and writes the answer straight into
//! the outgoing buffer. Everything here runs on workers, one bounded step at a time.

mod call;
mod convert;
mod documents;
mod lists;
mod values;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fieldseal_engine::pool::Cancellation;
use fieldseal_engine::{Caller, Engine};
use fieldseal_protocol::{ErrorCode, ErrorObject, Limits, answer};

use crate::{PeerIdentity, Refused, Request, Service, Step};
use call::{Call, Parsed};
use documents::{DecryptDocument, EncryptDocument};
use lists::{Inspect, Rewrap};
use values::{DecryptValues, EncryptValues};

/// An [`Engine`] as a [`Service`].
pub struct EngineService {
    engine: Engine,
    limits: Limits,
    answer_size_max: usize,
}

impl EngineService {
    /// `limits` are those of the listener, which `info` tells; `answer_size_max` bounds the bytes of one answer: what would be larger
    /// is refused with `too_large`.
    pub fn new(engine: Engine, limits: Limits, answer_size_max: usize) -> Self {
        Self { engine, limits, answer_size_max }
    }
}

impl Service for EngineService {
    type Caller = Caller;

    fn authenticate(&self, peer: &PeerIdentity) -> Result<Arc<Caller>, Refused> {
        let caller = self.engine.client(&peer.name, peer.certificate_sha256);
        caller.map(Arc::new).map_err(|error| Refused { message: error.to_string() })
    }

    fn request(
        &self,
        caller: &Arc<Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
    ) -> Box<dyn Request> {
        Box::new(EngineRequest {
            engine: self.engine.clone(),
            caller: Arc::clone(caller),
            id,
            arrived,
            cancellation,
            limits: self.limits,
            answer_size_max: self.answer_size_max,
            stage: Stage::Arrived(frame),
        })
    }

    fn readiness(&self) -> Result<(), String> {
        self.engine.readiness().map_err(|error| error.message)
    }

    fn maintain(&self) {
        if let Err(error) = self.engine.maintain() {
            let cause = error.cause().unwrap_or_default();
            tracing::warn!(
                cause,
                "the key store does not answer: what is known of it stays in use for store_silence_max"
            );
        }
    }
}

struct EngineRequest {
    engine: Engine,
    caller: Arc<Caller>,
    id: u32,
    arrived: Instant,
    cancellation: Arc<Cancellation>,
    limits: Limits,
    answer_size_max: usize,
    stage: Stage,
}

enum Stage {
    /// Nothing has been read but the head.
    Arrived(Vec<u8>),
    /// The parameters are read; nothing was done yet.
    Read(Call),
    /// At work. Boxed, as a stage is moved at each step.
    Working(Call, Box<Work>),
    /// Answered.
    Answered,
}

/// How far each kind of request has come, apart from its frame.
enum Work {
    EncryptValues(EncryptValues),
    DecryptValues(DecryptValues),
    EncryptDocument(EncryptDocument),
    DecryptDocument(DecryptDocument),
    Rewrap(Rewrap),
    Inspect(Inspect),
}

impl Request for EngineRequest {
    fn step(&mut self, out: &mut Vec<u8>) -> Step {
        let stage = std::mem::replace(&mut self.stage, Stage::Answered);
        let result = match stage {
            Stage::Arrived(frame) => Ok(self.read(frame)),
            Stage::Read(call) => self.begin(call, out),
            Stage::Working(call, work) => self.work(call, work, out),
            Stage::Answered => panic!("a request that was answered has no next step"),
        };
        match result {
            Ok(Stage::Answered) if out.len() <= self.answer_size_max => Step::Done,
            Ok(stage) if out.len() <= self.answer_size_max => {
                self.stage = stage;
                Step::More
            }
            Ok(_) => self.fail(self.too_large(), out),
            Err(error) => self.fail(error, out),
        }
    }
}

impl EngineRequest {
    fn fail(&self, error: ErrorObject, out: &mut Vec<u8>) -> Step {
        *out = Vec::new();
        answer::error(self.id, &error, out);
        Step::Done
    }

    fn too_large(&self) -> ErrorObject {
        let limit = self.answer_size_max;
        ErrorObject::new(
            ErrorCode::TooLarge,
            format!("the answer passes the limit of {limit} bytes: send less at a time"),
        )
    }

    /// Reads the parameters, and sets the deadline that they name: the step after this one is not begun when it has passed.
    fn read(&self, frame: Vec<u8>) -> Stage {
        let call = Call::read(frame);
        if let Some(milliseconds) = call.parsed().deadline_ms() {
            self.cancellation.set_deadline(self.arrived + Duration::from_millis(u64::from(milliseconds)));
        }
        Stage::Read(call)
    }

    /// Checks what is asked for and does what takes one step.
    fn begin(&self, call: Call, out: &mut Vec<u8>) -> Result<Stage, ErrorObject> {
        let (engine, caller, id) = (&self.engine, &*self.caller, self.id);
        engine.admit(caller).map_err(convert::error)?;
        let work = match call.parsed() {
            Parsed::Encrypt(params) => Work::EncryptValues(EncryptValues::begin(engine, caller, id, params, out)?),
            Parsed::Decrypt(params) => Work::DecryptValues(DecryptValues::begin(engine, caller, id, params, out)?),
            Parsed::EncryptDocument(params) => {
                Work::EncryptDocument(EncryptDocument::begin(engine, caller, id, params, out)?)
            }
            Parsed::DecryptDocument(params) => {
                Work::DecryptDocument(DecryptDocument::begin(engine, caller, id, params, out)?)
            }
            Parsed::Rewrap(params) => Work::Rewrap(Rewrap::begin(engine, caller, id, params, out)?),
            Parsed::Inspect(params) => Work::Inspect(Inspect::begin(engine, caller, id, params, out)?),
            Parsed::EncryptFile(params) => {
                documents::encrypt_file(engine, caller, id, params, out)?;
                return Ok(Stage::Answered);
            }
            Parsed::DecryptFile(params) => {
                documents::decrypt_file(engine, caller, id, params, out)?;
                return Ok(Stage::Answered);
            }
            Parsed::PublicKeys(params) => {
                lists::public_keys(engine, caller, id, params, out)?;
                return Ok(Stage::Answered);
            }
            Parsed::Info => {
                lists::info(id, &self.limits, out);
                return Ok(Stage::Answered);
            }
            Parsed::Fault(fault) => return Err(fault.clone()),
        };
        Ok(Stage::Working(call, Box::new(work)))
    }

    fn work(&self, call: Call, mut work: Box<Work>, out: &mut Vec<u8>) -> Result<Stage, ErrorObject> {
        let step = match (call.parsed(), &mut *work) {
            (Parsed::Encrypt(params), Work::EncryptValues(work)) => work.step(params, out),
            (Parsed::Decrypt(params), Work::DecryptValues(work)) => work.step(params, out),
            (Parsed::EncryptDocument(params), Work::EncryptDocument(work)) => work.step(params, out),
            (Parsed::DecryptDocument(params), Work::DecryptDocument(work)) => work.step(params, out),
            (Parsed::Rewrap(params), Work::Rewrap(work)) => work.step(params, out),
            (Parsed::Inspect(params), Work::Inspect(work)) => work.step(params, out),
            _ => unreachable!("work begins from its own parameters"),
        };
        Ok(if step? == Step::Done { Stage::Answered } else { Stage::Working(call, work) })
    }
}
