//! Messages in pieces: the state of a stream, shared by the JavaScript thread and the pool.

use std::sync::{Arc, Mutex, PoisonError};

use leafseal_crypto::aead::{Nonce, OpenStream, SealStream};
use leafseal_crypto::{CipherStream, DigestState, MacState};

use crate::fault::{OperationFault, OperationResult};
use crate::js::Bytes;
use crate::keys::ReadyKey;
use crate::operation::Operation;

/// A stream. One piece is processed at a time.
pub(crate) struct Stream(Mutex<Option<State>>);

enum State {
    Cipher(CipherStream),
    Seal(SealStream),
    Open(OpenStream),
    Digest(DigestState),
    Mac(MacState),
}

impl Stream {
    pub(crate) fn new(operation: &Operation, aad: &[u8]) -> Self {
        let nonce = Nonce(*operation.iv.first_chunk().expect("16 bytes"));
        let state = match (&operation.key, operation.encrypts) {
            (ReadyKey::Cipher(key), _) => State::Cipher(Arc::clone(key).start(&operation.iv)),
            (ReadyKey::Aead(key), true) => State::Seal(key.seal_stream(&nonce, aad)),
            (ReadyKey::Aead(key), false) => State::Open(key.open_stream(&nonce, aad)),
            (ReadyKey::Hash(digest), _) => State::Digest(digest.start()),
            (ReadyKey::Mac(key), _) => State::Mac(key.start()),
        };
        Self(Mutex::new(Some(state)))
    }

    /// Processes a piece; ciphers write it to the target, which has its length.
    ///
    /// # Safety
    /// Both ranges are valid, and nothing else uses them during the call.
    pub(crate) unsafe fn update(&self, source: Bytes, target: Bytes) -> OperationResult<usize> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state.as_mut().ok_or(OperationFault::Internal)?;
        // SAFETY: the caller's promise.
        let read = || unsafe { source.read() };
        match state {
            State::Digest(digest) => digest.update(read()),
            State::Mac(mac) => mac.update(read()),
            _ => {
                if target.size != source.size {
                    return Err(OperationFault::TargetRange);
                }
                // SAFETY: both ranges have that size; ranges that overlap are moved as a whole.
                let text = unsafe {
                    std::ptr::copy(source.start, target.start, source.size);
                    target.write()
                };
                match state {
                    State::Cipher(cipher) => cipher.apply_in_place(text),
                    State::Seal(seal) => seal.update_in_place(text),
                    State::Open(open) => open.update_in_place(text),
                    State::Digest(_) | State::Mac(_) => {}
                }
            }
        }
        Ok(source.size)
    }

    /// Ends the message: writes the digest or the tag, or checks the tag.
    pub(crate) fn finish(&self, out: &mut [u8]) -> OperationResult<usize> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match state.ok_or(OperationFault::Internal)? {
            State::Cipher(_) => Ok(0),
            State::Seal(seal) => {
                let tag = seal.finish();
                let size = out.len().min(tag.len());
                out[..size].copy_from_slice(&tag[..size]);
                Ok(size)
            }
            State::Open(open) => open.finish(out).map(|()| 0).map_err(|_| OperationFault::Corrupt),
            State::Digest(digest) => {
                digest.finish(out);
                Ok(out.len())
            }
            State::Mac(mac) => {
                mac.finish(out);
                Ok(out.len())
            }
        }
    }
}
