//! Files in the file form: whole in memory, one key agreement each, in steps like everything else.

use std::sync::Arc;

use fieldseal_crypto::{Curve, Recipient};
use fieldseal_envelope::file::{EncryptedFile, FileCheck, FileSealing};
use fieldseal_envelope::{Marking, Sealed, metadata_in_file};

use crate::document::Progress;
use crate::engine::Engine;
use crate::error::Error;
use crate::long::wipe;
use crate::opening::{EphemeralId, LongSearch};
use crate::permissions::{Act, Caller};
use crate::permit::{Permit, Renewal};

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
    stage: Stage,
    /// Where the content begins in its buffer.
    start: usize,
}

enum Stage {
    Check(FileCheck),
    /// The tag is being checked, with one key after the other.
    Search(LongSearch),
    /// It is not for the caller to see: what was written is being wiped, up to this byte of the buffer it is.
    Wipe(Error, usize),
}

impl Engine {
    /// Begins to encrypt a file.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn encrypt_file(&self, caller: &Caller, app: &str, curve: Option<Curve>) -> Result<FileEncryption, Error> {
        let permit = Permit::new(self, caller, &[Act::Encrypt], app)?;
        let recipient = self.recipient(permit.app.newest(curve.unwrap_or(self.settings().curve)).1.public());
        Ok(FileEncryption { permit, recipient, sealing: None, done: 0 })
    }

    /// Begins to decrypt a file.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn decrypt_file(&self, caller: &Caller, app: &str) -> Result<FileDecryption, Error> {
        let permit = Permit::new(self, caller, &[Act::Decrypt], app)?;
        Ok(FileDecryption { permit, stage: Stage::Check(FileCheck::default()), start: 0 })
    }
}

impl FileEncryption {
    /// Goes on through `content`, always the same, and appends to `out`, always the same.
    ///
    /// # Errors
    /// The right to encrypt was taken away; the store does not answer.
    pub fn step(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        self.permit.renew()?;
        let Some(sealing) = &mut self.sealing else {
            let (ec, mut rng) = (self.permit.engine.ec(), self.permit.engine.rng());
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
    /// Goes on through `file`, always the same, and appends its content to `out`, always the same, which is good only once it is
    /// done.
    ///
    /// # Errors
    /// No encrypted file, damaged, decrypt failed; forbidden where the content is a value of a role that the caller may not see, or
    /// where the right to decrypt was taken away; the store does not answer.
    pub fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let file = EncryptedFile::parse(bytes)?;
        let size = self.permit.step_bytes_max();
        let is_renewed = self.permit.renew()? == Renewal::Renewed;
        match &mut self.stage {
            Stage::Check(check) => {
                if check.step(bytes, size)? {
                    self.start = out.len();
                    out.reserve_exact(file.content_size());
                    self.stage = Stage::Search(self.search(&file)?);
                }
            }
            Stage::Search(_) if is_renewed => self.stage = Stage::Search(self.search(&file)?),
            Stage::Search(search) => {
                let opened = search.step(&self.permit.engine.agreements(), &Sealed::File(file), size, out);
                match opened.map_err(Error::from).and_then(|form| self.check_role(form.is_some(), out)) {
                    Ok(progress) => return Ok(progress),
                    Err(error) => self.stage = Stage::Wipe(error, self.start),
                }
            }
            Stage::Wipe(error, wiped) if *wiped == out.len() => {
                out.truncate(self.start);
                return Err(error.clone());
            }
            Stage::Wipe(_, wiped) => *wiped = wipe(out, *wiped, size),
        }
        Ok(Progress::More)
    }

    fn search(&self, file: &EncryptedFile<'_>) -> Result<LongSearch, Error> {
        let ephemeral = EphemeralId { curve: file.curve, point: file.ephemeral };
        Ok(LongSearch::new(self.permit.engine.opening(&self.permit.app, ephemeral)?, self.start))
    }

    /// Once a file has opened, whether its content may be seen.
    fn check_role(&self, is_open: bool, out: &[u8]) -> Result<Progress, Error> {
        if !is_open {
            return Ok(Progress::More);
        }
        let role = metadata_in_file(&out[self.start..]).and_then(|metadata| metadata.role);
        role.map_or(Ok(()), |role| self.permit.rights.check_role(role))?;
        Ok(Progress::Done)
    }
}
