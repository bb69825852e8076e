//! Files in the file form: whole in memory, one key agreement each.

use fieldseal_crypto::Curve;
use fieldseal_envelope::file::{EncryptedFile, seal_file};
use fieldseal_envelope::{Marking, OpenError, metadata_in_file};
use fieldseal_keystore::Operation;

use crate::engine::Engine;
use crate::error::Error;
use crate::opening::EphemeralId;
use crate::policy::Caller;

impl Engine {
    /// Appends the encrypted file of `content` to `out`.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn encrypt_file(
        &self,
        caller: &Caller,
        app: &str,
        curve: Option<Curve>,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (_, app) = self.authorised(caller, &[Operation::Encrypt], app)?;
        let recipient = self.recipient(app.newest(curve.unwrap_or(self.settings().curve)).1.public());
        seal_file(&self.ec(), &recipient, Marking::Live, content, &mut self.rng(), out);
        Ok(())
    }

    /// Appends the content of an encrypted file to `out`.
    ///
    /// # Errors
    /// As [`Engine::encrypt_file`], and: no encrypted file, damaged, decrypt failed; forbidden where the content is a value of a role
    /// that the caller may not see. On failure `out` is as before.
    pub fn decrypt_file(&self, caller: &Caller, app: &str, file: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let (rights, app) = self.authorised(caller, &[Operation::Decrypt], app)?;
        let file = EncryptedFile::parse(file)?;
        let ephemeral = EphemeralId { curve: file.curve, point: file.ephemeral };
        let opening = self.opening(&app, ephemeral)?;
        let mut opened = false;
        let start = out.len();
        let key = opening.search_by(&self.agreements(), |key| {
            file.open(key, out).map_err(|_| OpenError::DecryptFailed)?;
            opened = true;
            Ok(())
        })?;
        if !opened {
            out.truncate(start);
            file.open(key, out).map_err(|_| Error::decrypt_failed())?;
        }
        let role = metadata_in_file(&out[start..]).and_then(|metadata| metadata.role);
        let permitted = role.map_or(Ok(()), |role| rights.check_role(role));
        if permitted.is_err() {
            out.truncate(start);
        }
        permitted
    }
}
