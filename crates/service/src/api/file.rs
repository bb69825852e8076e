//! Encryption and decryption of a file.

use leafseal_engine::{Error, FileDecryption, FileEncryption, FileOptions, Progress};
use leafseal_protocol::ErrorObject;

use super::CallInput;
use crate::rpc::convert::error as error_object;
use crate::work::{RequestStage, RequestStep, RequestWork};

/// The file form of [`CallInput::body`].
pub fn encrypt_file(input: CallInput) -> RequestStage {
    RequestStage::working(ApiFile { input, work: None, begin: begin_encryption })
}

/// The content of the file that [`CallInput::body`] is.
pub fn decrypt_file(input: CallInput) -> RequestStage {
    RequestStage::working(ApiFile { input, work: None, begin: begin_decryption })
}

fn begin_encryption(input: &CallInput) -> Result<FileWork, Error> {
    let options = input.encrypt_options();
    let options = FileOptions { scheme: options.scheme, curve: options.curve, context: options.context };
    input.engine.encrypt_file(&input.caller, &input.app, &options).map(FileWork::Encrypt)
}

fn begin_decryption(input: &CallInput) -> Result<FileWork, Error> {
    let work = input.engine.decrypt_file(&input.caller, &input.app)?;
    let options = input.decrypt_options();
    work.with(options.context, options.accept).map(FileWork::Decrypt)
}

struct ApiFile {
    input: CallInput,
    work: Option<FileWork>,
    begin: fn(&CallInput) -> Result<FileWork, Error>,
}

enum FileWork {
    Encrypt(FileEncryption),
    Decrypt(FileDecryption),
}

impl RequestWork for ApiFile {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let body = &self.input.body;
        let progress = match &mut self.work {
            None => {
                self.work = Some((self.begin)(&self.input).map_err(error_object)?);
                return Ok(RequestStep::More);
            }
            Some(FileWork::Encrypt(work)) => work.step(body, out),
            Some(FileWork::Decrypt(work)) => work.step(body, out),
        };
        Ok(if progress.map_err(error_object)? == Progress::More { RequestStep::More } else { RequestStep::Done })
    }
}
