//! Files in the encrypted file form: complete in memory, processed in steps; to a public key, one key agreement each.

use std::sync::Arc;

use leafseal_crypto::random::{fresh_random, system_random};
use leafseal_crypto::symmetric::SymmetricKey;
use leafseal_crypto::{Curve, Recipient};
use leafseal_envelope::file::{EncryptedFile, FileCheck, FileSealing};
use leafseal_envelope::{
    Binding, LongKey, LongOpening, Marking, OpenError, Scheme, Sealed, SymmetricOpening, metadata_in_file,
};

use crate::bindings::BindingWish;
use crate::counters::ValueCounts;
use crate::document::Progress;
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::Error;
use crate::keyring::{FoundKey, KeySearch, Keyring};
use crate::long::wipe;
use crate::long_search::LongSearch;
use crate::opening::EphemeralId;
use crate::permissions::{Caller, Operation};
use crate::schemes::{AcceptedSchemes, accepted};
use crate::sealing::SealingTarget;

/// A file that is being encrypted.
pub struct FileEncryption {
    permit: Permit,
    key: FileKey,
    sealing: Option<FileSealing>,
    done: usize,
}

/// What a file is encrypted with.
enum FileKey {
    PublicKey(Arc<Recipient>),
    Symmetric(Arc<SymmetricKey>, Binding),
}

/// The options of a file's encryption. `None` uses the engine's settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileOptions<'a> {
    /// The scheme; a curve without a scheme means public-key.
    pub scheme: Option<Scheme>,
    /// The curve of the scheme public-key.
    pub curve: Option<Curve>,
    /// What a symmetric file is bound to.
    pub context: Option<&'a str>,
}

/// A file that is being decrypted.
pub struct FileDecryption {
    permit: Permit,
    keyring: Box<Keyring>,
    stage: FileStage,
    /// The offset of the content in its buffer.
    start: usize,
}

enum FileStage {
    Check(FileCheck),
    /// The checksum is right; the key is being found.
    Found,
    /// The tag is being verified, with one key after the other.
    Search(LongSearch),
    /// The tag is being verified with the symmetric key that the file names.
    Symmetric(FoundKey, LongOpening),
    /// The caller may not read it: the output is being wiped, up to this byte of the buffer so far.
    Wipe(Error, usize),
}

impl Engine {
    /// Starts encrypting a file.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn encrypt_file(&self, caller: &Caller, app: &str, options: &FileOptions<'_>) -> Result<FileEncryption, Error> {
        let permit = Permit::new(self, caller, &[Operation::Encrypt], app)?;
        let wish = BindingWish { context: options.context, ..BindingWish::default() };
        let key = match SealingTarget::new(self, &permit.app, (options.scheme, options.curve), wish, false)? {
            SealingTarget::PublicKey { recipient, .. } => FileKey::PublicKey(self.recipient(&recipient)),
            SealingTarget::Symmetric { binding, .. } => FileKey::Symmetric(permit.app.newest_symmetric()?.1, binding),
        };
        Ok(FileEncryption { permit, key, sealing: None, done: 0 })
    }

    /// Starts decrypting a file.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn decrypt_file(&self, caller: &Caller, app: &str) -> Result<FileDecryption, Error> {
        let permit = Permit::new(self, caller, &[Operation::Decrypt], app)?;
        let binding = BindingWish::default().binding(self.settings())?;
        let keyring = Box::new(Keyring::new(&permit, binding, accepted(None, BindingWish::default())));
        Ok(FileDecryption { permit, keyring, stage: FileStage::Check(FileCheck::default()), start: 0 })
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
            self.sealing = Some(match &self.key {
                FileKey::PublicKey(recipient) => {
                    let (ec, mut rng) = (self.permit.engine.ec(), fresh_random());
                    FileSealing::begin(&ec, recipient, Marking::Live, content.len(), &mut rng, out)
                }
                FileKey::Symmetric(key, binding) => {
                    FileSealing::begin_symmetric(key, binding, content.len(), &mut system_random(), out)
                }
            });
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
        let scheme = match self.key {
            FileKey::PublicKey(_) => Scheme::PublicKey,
            FileKey::Symmetric(..) => Scheme::Symmetric,
        };
        self.permit.engine.count_sealed(ValueCounts::of(scheme, 1));
        Ok(Progress::Done)
    }
}

impl FileDecryption {
    /// What a symmetric file is bound to, and the schemes of files that are decrypted; see [`DecryptOptions`](crate::DecryptOptions).
    ///
    /// # Errors
    /// The context is empty or too long.
    pub fn with(mut self, context: Option<&str>, accept: Option<AcceptedSchemes>) -> Result<Self, Error> {
        let wish = BindingWish { context, ..BindingWish::default() };
        let binding = wish.binding(self.permit.engine.settings())?;
        *self.keyring = Keyring::new(&self.permit, binding, accepted(accept, wish));
        Ok(self)
    }

    /// Processes the next step of `file` and appends its content to `out`; both must be the same in each call. The content is valid only
    /// when it is done.
    ///
    /// # Errors
    /// Not an encrypted file, damaged, decrypt failed; forbidden if the content is a value of a role that the caller may not read, or if
    /// the permission to decrypt was revoked; the store does not respond.
    pub fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let file = EncryptedFile::parse(bytes)?;
        let size = self.permit.step_bytes_max();
        if self.permit.renew()? == Renewal::Renewed {
            self.keyring.renew(&self.permit);
            if matches!(self.stage, FileStage::Search(_) | FileStage::Symmetric(..)) {
                // What is in the output so far was not verified.
                self.stage = self.search(&file).unwrap_or_else(|error| FileStage::Wipe(error, self.start));
                return Ok(Progress::More);
            }
        }
        let opened = match &mut self.stage {
            FileStage::Check(check) => {
                if check.step(bytes, size)? {
                    self.start = out.len();
                    out.reserve_exact(file.content_size());
                    self.stage = FileStage::Found;
                }
                return Ok(Progress::More);
            }
            FileStage::Found => {
                self.stage = self.search(&file)?;
                return Ok(Progress::More);
            }
            FileStage::Search(search) => {
                let opened = search.step(&self.permit.engine, None, &Sealed::File(file), size, out);
                self.permit.engine.note_trials(search.take_trials());
                opened
            }
            FileStage::Symmetric(found, opening) => {
                let bindings = self.keyring.binding.of(None)?;
                let key = LongKey::Symmetric(SymmetricOpening::bound(&found.key, bindings));
                opening.step(key, &Sealed::File(file), size, out)
            }
            FileStage::Wipe(error, wiped) if *wiped == out.len() => {
                out.truncate(self.start);
                return Err(error.clone());
            }
            FileStage::Wipe(_, wiped) => {
                *wiped = wipe(out, *wiped, size);
                return Ok(Progress::More);
            }
        };
        match opened.map_err(Error::from).and_then(|form| self.check_role(&file, form.is_some(), out)) {
            Ok(progress) => Ok(progress),
            Err(error) => {
                self.stage = FileStage::Wipe(self.permit.knowledge.judge(error), self.start);
                Ok(Progress::More)
            }
        }
    }

    /// The stage in which the tag is verified, with the key that the file names or with one after the other; still the one before while
    /// the store is asked.
    fn search(&mut self, file: &EncryptedFile<'_>) -> Result<FileStage, Error> {
        if !self.keyring.accept.accepts_file(file.scheme()) {
            return Err(self.permit.knowledge.judge(OpenError::DecryptFailed.into()));
        }
        match file {
            EncryptedFile::PublicKey(file) => {
                let ephemeral = EphemeralId { curve: file.curve, point: file.ephemeral };
                let opening = self.permit.engine.opening(&self.permit.app, ephemeral)?;
                Ok(FileStage::Search(LongSearch::new(opening, self.start)))
            }
            EncryptedFile::Symmetric(file) => match self.keyring.symmetric.find(&self.permit, file.key_id)? {
                KeySearch::Found(found) => Ok(FileStage::Symmetric(found, LongOpening::new(self.start))),
                KeySearch::Missing => Err(self.permit.knowledge.judge(OpenError::DecryptFailed.into())),
                KeySearch::Waiting => Ok(FileStage::Found),
            },
        }
    }

    /// Checks whether the caller may read the content of a decrypted file.
    fn check_role(&self, file: &EncryptedFile<'_>, is_open: bool, out: &[u8]) -> Result<Progress, Error> {
        if !is_open {
            return Ok(Progress::More);
        }
        // No value shares the key of symmetric files.
        if file.scheme() == Scheme::PublicKey {
            self.permit.check_role(file.into(), None, metadata_in_file(&out[self.start..]))?;
        }
        self.permit.engine.count_opened(ValueCounts::of(file.scheme(), 1));
        Ok(Progress::Done)
    }
}
