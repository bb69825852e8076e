//! One operation on memory of JavaScript: whole, for calls that wait, or in slices, for jobs of the pool.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use leafseal_crypto::aead::{Nonce, OpenStream, SealStream};
use leafseal_crypto::{AeadKey, DigestState, MacState};

use crate::fault::{OperationFault, OperationResult};
use crate::js::Bytes;
use crate::keys::ReadyKey;

/// Longest digest in bytes.
const DIGEST_SIZE_MAX: usize = 64;

/// Bytes that a job processes before it yields: tens of microseconds for ciphers.
pub(crate) const SLICE_SIZE: usize = 128 * 1024;

/// The operation, without its memory.
pub(crate) struct Operation {
    pub(crate) key: ReadyKey,
    pub(crate) encrypts: bool,
    /// The IV, or a nonce followed by zeros.
    pub(crate) iv: [u8; 16],
    /// The tag: read when a message is opened, written when one is sealed.
    pub(crate) tag: [u8; 16],
    pub(crate) tag_size: usize,
}

/// Where the operation reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) source: Bytes,
    /// As long as the result.
    pub(crate) target: Bytes,
    pub(crate) aad: Bytes,
}

/// Bytes of JavaScript that a job reads and writes, or its own copies of them.
pub(crate) struct JsBytes {
    pub(crate) memory: Memory,
    /// Owned memory that `memory` points to: short texts, which are copied back when the job has ended.
    pub(crate) owned: Option<Box<[u8]>>,
    /// Owned associated data.
    pub(crate) aad: Option<Box<[u8]>>,
}

/// Source and target, after an overlap has been dealt with.
pub(crate) enum OperationText<'a> {
    Separate(&'a [u8], &'a mut [u8]),
    InPlace(&'a mut [u8]),
}

impl Bytes {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self { start: std::ptr::NonNull::dangling().as_ptr(), size: 0 };

    pub(crate) fn of(bytes: &mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), size: bytes.len() }
    }

    /// A part that lies within, or none.
    #[inline]
    pub(crate) fn part(self, offset: usize, size: usize) -> Option<Self> {
        (offset.checked_add(size)? <= self.size).then(|| Self { start: self.start.wrapping_add(offset), size })
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        let (start, other_start) = (self.start as usize, other.start as usize);
        start < other_start + other.size && other_start < start + self.size
    }

    /// # Safety
    /// The bytes are readable, and nothing writes to them while the slice lives.
    pub(crate) unsafe fn read<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's promise; the address is never null.
        unsafe { from_raw_parts(self.start, self.size) }
    }

    /// # Safety
    /// The bytes are writable, and nothing else uses them while the slice lives.
    pub(crate) unsafe fn write<'a>(self) -> &'a mut [u8] {
        // SAFETY: the caller's promise; the address is never null.
        unsafe { from_raw_parts_mut(self.start, self.size) }
    }
}

impl Memory {
    /// Source and target of a cipher. If they overlap in part, the source is moved first, so that the result is as if it had been
    /// copied before.
    ///
    /// # Safety
    /// Both ranges are the caller's to use, and of one length.
    pub(crate) unsafe fn text<'a>(self) -> OperationText<'a> {
        let Self { source, target, .. } = self;
        // SAFETY: the caller's promise; the slices do not overlap.
        unsafe {
            if source.start != target.start && !source.overlaps(target) {
                return OperationText::Separate(source.read(), target.write());
            }
            if source.start != target.start {
                std::ptr::copy(source.start, target.start, source.size);
            }
            OperationText::InPlace(target.write())
        }
    }

    /// Associated data, copied if it shares memory with the target.
    ///
    /// # Safety
    /// As for [`Memory::text`].
    unsafe fn with_aad<R>(self, run: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: the caller's promise; a range that shares memory with the target is copied before it is written to.
        let aad = unsafe { self.aad.read() };
        if !self.aad.overlaps(self.target) {
            return run(aad);
        }
        let copy = aad.to_vec();
        run(&copy)
    }
}

impl Operation {
    fn nonce(&self) -> Nonce {
        Nonce(*self.iv.first_chunk().expect("16 bytes"))
    }

    /// Runs the operation and returns the number of bytes written.
    ///
    /// # Safety
    /// The ranges of `memory` are valid, and nothing else uses them during the call.
    #[inline]
    pub(crate) unsafe fn run(&mut self, memory: Memory) -> OperationResult<usize> {
        let key = self.key.clone();
        // SAFETY: the caller's promise.
        unsafe { self.run_with(&key, memory) }
    }

    /// As [`Operation::run`], with a key that the caller holds.
    ///
    /// # Safety
    /// As for [`Operation::run`].
    #[inline]
    pub(crate) unsafe fn run_with(&mut self, key: &ReadyKey, memory: Memory) -> OperationResult<usize> {
        match key {
            ReadyKey::Cipher(key) => {
                // SAFETY: the caller's promise.
                match unsafe { memory.text() } {
                    OperationText::Separate(source, target) => key.apply(&self.iv, source, target),
                    OperationText::InPlace(text) => key.apply_in_place(&self.iv, text),
                }
                Ok(memory.source.size)
            }
            // SAFETY: the caller's promise.
            ReadyKey::Aead(key) => unsafe { memory.with_aad(|aad| self.aead(key, aad, memory)) },
            ReadyKey::Hash(digest) => {
                let mut out = [0; DIGEST_SIZE_MAX];
                let out = &mut out[..digest.size()];
                // SAFETY: the caller's promise.
                digest.digest(unsafe { memory.source.read() }, out);
                // SAFETY: the source is not used any more.
                finish_digest(out, unsafe { memory.target.write() })
            }
            ReadyKey::Mac(key) => {
                let mut out = [0; DIGEST_SIZE_MAX];
                let out = &mut out[..key.algorithm().size()];
                // SAFETY: the caller's promise.
                key.mac(unsafe { memory.source.read() }, out);
                // SAFETY: the source is not used any more.
                finish_digest(out, unsafe { memory.target.write() })
            }
        }
    }

    /// # Safety
    /// As for [`Operation::run`].
    unsafe fn aead(&mut self, key: &AeadKey, aad: &[u8], memory: Memory) -> OperationResult<usize> {
        let (nonce, tag_size) = (self.nonce(), self.tag_size);
        let tag = &mut self.tag[..tag_size];
        // SAFETY: the caller's promise.
        let text = unsafe { memory.text() };
        match (self.encrypts, text) {
            (true, OperationText::Separate(source, target)) => key.seal_detached(&nonce, aad, source, target, tag),
            (true, OperationText::InPlace(text)) => key.seal_in_place(&nonce, aad, text, tag),
            (false, OperationText::Separate(source, target)) => {
                key.open_detached(&nonce, aad, source, target, tag).map_err(|_| OperationFault::Corrupt)?;
            }
            (false, OperationText::InPlace(text)) => {
                key.open_in_place(&nonce, aad, text, tag).map_err(|_| OperationFault::Corrupt)?;
            }
        }
        Ok(memory.source.size)
    }
}

fn finish_digest(digest: &[u8], target: &mut [u8]) -> OperationResult<usize> {
    target.get_mut(..digest.len()).ok_or(OperationFault::TargetRange)?.copy_from_slice(digest);
    Ok(digest.len())
}

/// An operation in slices.
pub(crate) struct Sliced {
    operation: Operation,
    memory: Memory,
    done: usize,
    state: State,
}

enum State {
    Begun,
    Cipher,
    Seal(Box<SealStream>),
    Open(Box<OpenStream>),
    Digest(Box<DigestState>),
    Mac(Box<MacState>),
}

impl Sliced {
    pub(crate) fn new(operation: Operation, memory: Memory) -> Self {
        Self { operation, memory, done: 0, state: State::Begun }
    }

    /// The operation, whose tag is written when it has succeeded.
    pub(crate) fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Processes one slice. Returns the result with the last.
    ///
    /// # Safety
    /// The ranges of the memory are valid, and nothing else uses them during the call.
    pub(crate) unsafe fn step(&mut self) -> Option<OperationResult<usize>> {
        if matches!(self.state, State::Begun) {
            if self.memory.source.size <= SLICE_SIZE && self.memory.aad.size <= SLICE_SIZE {
                // SAFETY: the caller's promise.
                return Some(unsafe { self.operation.run(self.memory) });
            }
            // SAFETY: the caller's promise.
            unsafe { self.begin() };
        }
        let size = SLICE_SIZE.min(self.memory.source.size - self.done);
        // SAFETY: the caller's promise; the part lies within.
        unsafe { self.slice(size) };
        self.done += size;
        // SAFETY: the caller's promise.
        (self.done == self.memory.source.size).then(|| unsafe { self.finish() })
    }

    /// Ends the operation before it is complete. Unauthenticated plaintext is wiped.
    ///
    /// # Safety
    /// As for [`Sliced::step`].
    pub(crate) unsafe fn abandon(&mut self) {
        if let State::Open(_) = std::mem::replace(&mut self.state, State::Begun) {
            // SAFETY: the caller's promise.
            unsafe { self.memory.target.write() }.fill(0);
        }
    }

    /// # Safety
    /// As for [`Sliced::step`].
    unsafe fn begin(&mut self) {
        let (operation, memory) = (&self.operation, self.memory);
        let nonce = operation.nonce();
        // SAFETY: the caller's promise; associated data is read before the target is written to.
        let aad = unsafe { memory.aad.read() };
        self.state = match (&operation.key, operation.encrypts) {
            (ReadyKey::Cipher(_), _) => State::Cipher,
            (ReadyKey::Aead(key), true) => State::Seal(Box::new(key.seal_stream(&nonce, aad))),
            (ReadyKey::Aead(key), false) => State::Open(Box::new(key.open_stream(&nonce, aad))),
            (ReadyKey::Hash(digest), _) => State::Digest(Box::new(digest.start())),
            (ReadyKey::Mac(key), _) => State::Mac(Box::new(key.start())),
        };
        let is_cipher = matches!(operation.key, ReadyKey::Cipher(_) | ReadyKey::Aead(_));
        if is_cipher && memory.source.start != memory.target.start && memory.source.overlaps(memory.target) {
            // SAFETY: both ranges are valid and of one length.
            unsafe { std::ptr::copy(memory.source.start, memory.target.start, memory.source.size) };
            self.memory.source = memory.target;
        }
    }

    /// # Safety
    /// As for [`Sliced::step`].
    unsafe fn slice(&mut self, size: usize) {
        let source = self.memory.source.part(self.done, size).expect("within the source");
        if let State::Digest(_) | State::Mac(_) = self.state {
            // SAFETY: the caller's promise.
            let bytes = unsafe { source.read() };
            match &mut self.state {
                State::Digest(state) => state.update(bytes),
                State::Mac(state) => state.update(bytes),
                _ => {}
            }
            return;
        }
        let target = self.memory.target.part(self.done, size).expect("as long as the source");
        // SAFETY: the caller's promise.
        let text = unsafe { Memory { source, target, aad: Bytes::EMPTY }.text() };
        match (&mut self.state, text) {
            (State::Seal(stream), OperationText::Separate(source, target)) => stream.update(source, target),
            (State::Seal(stream), OperationText::InPlace(text)) => stream.update_in_place(text),
            (State::Open(stream), OperationText::Separate(source, target)) => stream.update(source, target),
            (State::Open(stream), OperationText::InPlace(text)) => stream.update_in_place(text),
            (_, text) => {
                let ReadyKey::Cipher(key) = &self.operation.key else { return };
                let block = (self.done / key.algorithm().block_size()) as u64;
                match text {
                    OperationText::Separate(source, target) => key.apply_at(&self.operation.iv, block, source, target),
                    OperationText::InPlace(text) => key.apply_in_place_at(&self.operation.iv, block, text),
                }
            }
        }
    }

    /// # Safety
    /// As for [`Sliced::step`].
    unsafe fn finish(&mut self) -> OperationResult<usize> {
        let mut digest = [0; DIGEST_SIZE_MAX];
        let tag = &mut self.operation.tag;
        match std::mem::replace(&mut self.state, State::Begun) {
            State::Begun | State::Cipher => Ok(self.done),
            State::Seal(stream) => {
                *tag = stream.finish();
                Ok(self.done)
            }
            State::Open(stream) => match stream.finish(&tag[..self.operation.tag_size]) {
                Ok(()) => Ok(self.done),
                Err(_) => {
                    // SAFETY: the caller's promise.
                    unsafe { self.memory.target.write() }.fill(0);
                    Err(OperationFault::Corrupt)
                }
            },
            State::Digest(state) => {
                let ReadyKey::Hash(algorithm) = self.operation.key else { return Err(OperationFault::Internal) };
                let digest = &mut digest[..algorithm.size()];
                state.finish(digest);
                // SAFETY: the source is not used any more.
                finish_digest(digest, unsafe { self.memory.target.write() })
            }
            State::Mac(state) => {
                let ReadyKey::Mac(key) = &self.operation.key else { return Err(OperationFault::Internal) };
                let digest = &mut digest[..key.algorithm().size()];
                state.finish(digest);
                // SAFETY: the source is not used any more.
                finish_digest(digest, unsafe { self.memory.target.write() })
            }
        }
    }
}
