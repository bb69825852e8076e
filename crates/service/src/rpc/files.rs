//! `encrypt_file` and `decrypt_file`: on one worker, because a file is one message of the cipher.

use std::sync::Arc;

use leafseal_engine::{Caller, Engine, FileDecryption, FileEncryption, Progress};
use leafseal_protocol::answer::OpenFile;
use leafseal_protocol::{DecryptFileParams, EncryptFileParams, ErrorObject};

use super::call::OwnedCall;
use super::convert;
use crate::work::{RequestStep, RequestWork};

/// A file in progress.
pub(super) struct RpcFile {
    call: Arc<OwnedCall>,
    work: Rewriting,
    answer: Option<OpenFile>,
}

enum Rewriting {
    Encrypt(FileEncryption),
    Decrypt(FileDecryption),
}

impl RpcFile {
    pub(super) fn encrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &EncryptFileParams<'_>),
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::file_options(&params.options);
        let work = engine.encrypt_file(caller, params.options.app, &options).map_err(convert::error)?;
        Ok(Self { call: Arc::clone(call), work: Rewriting::Encrypt(work), answer: Some(OpenFile::begin(id, out)) })
    }

    pub(super) fn decrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &DecryptFileParams<'_>),
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let work = engine.decrypt_file(caller, params.options.app);
        let work = work
            .and_then(|work| work.with(params.options.context, convert::accept(params.options.accept)))
            .map_err(convert::error)?;
        Ok(Self { call: Arc::clone(call), work: Rewriting::Decrypt(work), answer: Some(OpenFile::begin(id, out)) })
    }
}

impl RequestWork for RpcFile {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let file = self.call.file();
        let progress = match &mut self.work {
            Rewriting::Encrypt(work) => work.step(file, out),
            Rewriting::Decrypt(work) => work.step(file, out),
        };
        if progress.map_err(convert::error)? == Progress::More {
            return Ok(RequestStep::More);
        }
        self.answer.take().expect("an answer ends once").finish(out);
        Ok(RequestStep::Done)
    }
}
