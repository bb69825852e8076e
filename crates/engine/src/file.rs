//! Files in the encrypted file form: complete in memory, one key agreement each, processed in steps.

use std::sync::Arc;

use leafseal_crypto::random::fresh_random;
use leafseal_crypto::{Curve, Recipient};
use leafseal_envelope::file::{EncryptedFile, FileCheck, FileSealing};
use leafseal_envelope::{Marking, Sealed, metadata_in_file};

use crate::document::Progress;
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::Error;
use crate::long::wipe;
use crate::long_search::LongSearch;
use crate::opening::EphemeralId;
use crate::permissions::{Caller, Operation};

/// A file that is being encrypted.
pub struct FileEncryption {
    permit: Permit,
    recipient: Arc<Recipient>,
    sealing: Option<FileSealing>,
    done: usize,
}

/// A file that is being decrypted.
pub struct FileDecryption {
    permit: Permit,
    stage: FileStage,
    /// The offset of the content in its buffer.
    start: usize,
}

enum FileStage {
    Check(FileCheck),
    /// The tag is being verified, with one key after the other.
    Search(LongSearch),
    /// The caller may not read it: the output is being wiped, up to this byte of the buffer so far.
    Wipe(Error, usize),
}

impl Engine {
    /// Starts encrypting a file.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn encrypt_file(&self, caller: &Caller, app: &str, curve: Option<Curve>) -> Result<FileEncryption, Error> {
        let permit = Permit::new(self, caller, &[Operation::Encrypt], app)?;
        let recipient = self.recipient(permit.app.encrypting(curve.unwrap_or(self.settings().curve)).1);
        Ok(FileEncryption { permit, recipient, sealing: None, done: 0 })
    }

    /// Starts decrypting a file.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn decrypt_file(&self, caller: &Caller, app: &str) -> Result<FileDecryption, Error> {
        let permit = Permit::new(self, caller, &[Operation::Decrypt], app)?;
        Ok(FileDecryption { permit, stage: FileStage::Check(FileCheck::default()), start: 0 })
    }
}

impl FileEncryption {
    /// Processes the next step of `content` and appends to `out`; both must be the same in each call.
    ///
    /// # Errors
    /// The permission to encrypt was revoked; the store does not respond.
    pub fn step(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        self.permit.renew()?;
        let Some(sealing) = &mut self.sealing else {
            let (ec, mut rng) = (self.permit.engine.ec(), fresh_random());
            let sealing = FileSealing::begin(&ec, &self.recipient, Marking::Live, content.len(), &mut rng, out);
            self.sealing = Some(sealing);
            return Ok(Progress::More);
        };
        let rest = &content[self.done..];
        let piece = &rest[..self.permit.step_bytes_max().min(rest.len())];
        sealing.update(piece, out);
        self.done += piece.len();
        if self.done < content.len() {
            return Ok(Progress::More);
        }
        self.sealing.take().expect("it was begun").finish(out);
        Ok(Progress::Done)
    }
}

impl FileDecryption {
    /// Processes the next step of `file` and appends its content to `out`; both must be the same in each call. The content is valid only
    /// when it is done.
    ///
    /// # Errors
    /// Not an encrypted file, damaged, decrypt failed; forbidden if the content is a value of a role that the caller may not read, or if
    /// the permission to decrypt was revoked; the store does not respond.
    pub fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let file = EncryptedFile::parse(bytes)?;
        let size = self.permit.step_bytes_max();
        let is_renewed = self.permit.renew()? == Renewal::Renewed;
        match &mut self.stage {
            FileStage::Check(check) => {
                if check.step(bytes, size)? {
                    self.start = out.len();
                    out.reserve_exact(file.content_size());
                    self.stage = FileStage::Search(self.search(&file)?);
                }
            }
            FileStage::Search(_) if is_renewed => self.stage = FileStage::Search(self.search(&file)?),
            FileStage::Search(search) => {
                let opened = search.step(&self.permit.engine, None, &Sealed::File(file), size, out);
                self.permit.engine.note_trials(search.take_trials());
                match opened.map_err(Error::from).and_then(|form| self.check_role(form.is_some(), out)) {
                    Ok(progress) => return Ok(progress),
                    Err(error) => self.stage = FileStage::Wipe(self.permit.knowledge.judge(error), self.start),
                }
            }
            FileStage::Wipe(error, wiped) if *wiped == out.len() => {
                out.truncate(self.start);
                return Err(error.clone());
            }
            FileStage::Wipe(_, wiped) => *wiped = wipe(out, *wiped, size),
        }
        Ok(Progress::More)
    }

    fn search(&self, file: &EncryptedFile<'_>) -> Result<LongSearch, Error> {
        let ephemeral = EphemeralId { curve: file.curve, point: file.ephemeral };
        Ok(LongSearch::new(self.permit.engine.opening(&self.permit.app, ephemeral)?, self.start))
    }

    /// Checks whether the caller may read the content of a decrypted file.
    fn check_role(&self, is_open: bool, out: &[u8]) -> Result<Progress, Error> {
        if !is_open {
            return Ok(Progress::More);
        }
        let metadata = metadata_in_file(&out[self.start..]);
        self.permit.check_role(None, metadata)?;
        Ok(Progress::Done)
    }
}
