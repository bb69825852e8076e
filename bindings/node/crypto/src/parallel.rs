//! One long message on several threads: parts of a slice each, which any thread of the pool takes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use leafseal_crypto::aead::{Nonce, PartHash, Parts};

use crate::fault::{OperationFault, OperationResult};
use crate::js::Bytes;
use crate::keys::ReadyKey;
use crate::operation::{JsBytes, Memory, Operation, OperationText};

/// Bytes of a part: a slice, as elsewhere, but longer, as every part of GCM costs a few microseconds by itself.
pub(crate) const PART_SIZE: usize = 256 * 1024;
/// Default of the setting `parallelSizeMin`.
pub(crate) const PARALLEL_SIZE_MIN_DEFAULT: usize = 4 << 20;

/// A message being sealed or opened in parts.
pub(crate) struct Parallel {
    operation: Mutex<Operation>,
    key: ReadyKey,
    encrypts: bool,
    iv: [u8; 16],
    place: JsBytes,
    parts: Option<Parts>,
    count: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    is_cancelled: AtomicBool,
    hashes: Mutex<Vec<Option<PartHash>>>,
}

// SAFETY: parts do not overlap, each is processed by one thread, and the rest is behind locks or not changed.
unsafe impl Sync for Parallel {}

impl Parallel {
    /// Prepares a message, if its algorithm works in parts and its ranges allow it; gives everything back otherwise.
    pub(crate) fn new(operation: Operation, place: JsBytes) -> Result<Self, Box<(Operation, JsBytes)>> {
        let Memory { source, target, aad } = place.memory;
        let is_moved = source.start != target.start && source.overlaps(target);
        if is_moved || aad.overlaps(target) {
            return Err(Box::new((operation, place)));
        }
        let parts = match &operation.key {
            ReadyKey::Cipher(_) => None,
            ReadyKey::Aead(key) => {
                let parts = key.parts(&Nonce(*operation.iv.first_chunk().expect("16 bytes")));
                if parts.is_none() {
                    return Err(Box::new((operation, place)));
                }
                parts
            }
            _ => return Err(Box::new((operation, place))),
        };
        let count = source.size.div_ceil(PART_SIZE);
        Ok(Self {
            key: operation.key.clone(),
            encrypts: operation.encrypts,
            iv: operation.iv,
            operation: Mutex::new(operation),
            place,
            parts,
            count,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            is_cancelled: AtomicBool::new(false),
            hashes: Mutex::new(vec![None; count]),
        })
    }

    /// Parts of the message.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Processes a part that no other thread has taken. Returns whether there may be more, and the result with the part that ends last.
    ///
    /// # Safety
    /// The memory is valid, and only this job uses it.
    pub(crate) unsafe fn step(&self, is_cancelled: bool) -> (bool, Option<OperationResult<usize>>) {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.count {
            return (false, None);
        }
        if is_cancelled {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        if !self.is_cancelled.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise; every index is taken once.
            let part = || unsafe { self.part(index) };
            let hash = catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|_| {
                self.is_cancelled.store(true, Ordering::Relaxed);
                None
            });
            self.hashes.lock().unwrap_or_else(PoisonError::into_inner)[index] = hash;
        }
        let is_last = self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.count;
        // SAFETY: all parts have ended.
        (true, is_last.then(|| unsafe { self.finish() }))
    }

    /// # Safety
    /// As for [`Parallel::step`]; `index` is taken by the caller alone.
    unsafe fn part(&self, index: usize) -> Option<PartHash> {
        let start = index * PART_SIZE;
        let size = PART_SIZE.min(self.place.memory.source.size - start);
        let source = self.place.memory.source.part(start, size)?;
        let target = self.place.memory.target.part(start, size)?;
        // SAFETY: the caller's promise.
        let text = unsafe { Memory { source, target, aad: Bytes::EMPTY }.text() };
        let key = match &self.key {
            ReadyKey::Cipher(key) => {
                let block = (start / key.algorithm().block_size()) as u64;
                match text {
                    OperationText::Separate(source, target) => key.apply_at(&self.iv, block, source, target),
                    OperationText::InPlace(text) => key.apply_in_place_at(&self.iv, block, text),
                }
                return None;
            }
            ReadyKey::Aead(key) => key,
            _ => return None,
        };
        let (parts, block) = (self.parts.as_ref()?, (start / leafseal_crypto::aead::PART_BLOCK_SIZE) as u64);
        Some(match (self.encrypts, text) {
            (true, OperationText::Separate(source, target)) => key.seal_part(parts, block, source, target),
            (true, OperationText::InPlace(text)) => key.seal_part_in_place(parts, block, text),
            (false, OperationText::Separate(source, target)) => key.open_part(parts, block, source, target),
            (false, OperationText::InPlace(text)) => key.open_part_in_place(parts, block, text),
        })
    }

    /// # Safety
    /// As for [`Parallel::step`], after all parts have ended.
    unsafe fn finish(&self) -> OperationResult<usize> {
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.verify() };
        if outcome.is_err() && !self.encrypts && matches!(self.key, ReadyKey::Aead(_)) {
            // SAFETY: the caller's promise.
            unsafe { self.place.memory.target.write() }.fill(0);
        }
        outcome
    }

    /// # Safety
    /// As for [`Parallel::finish`].
    unsafe fn verify(&self) -> OperationResult<usize> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(OperationFault::Cancelled);
        }
        let size = self.place.memory.source.size;
        let (ReadyKey::Aead(key), Some(parts)) = (&self.key, &self.parts) else { return Ok(size) };
        let hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        let hashes: Vec<PartHash> = hashes.iter().copied().collect::<Option<_>>().ok_or(OperationFault::Internal)?;
        // SAFETY: the caller's promise; the range does not overlap the target.
        let aad = unsafe { self.place.memory.aad.read() };
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        if self.encrypts {
            operation.tag = key.seal_parts(parts, aad, &hashes);
        } else {
            let tag = &operation.tag[..operation.tag_size];
            key.open_parts(parts, aad, &hashes, tag).map_err(|_| OperationFault::Corrupt)?;
        }
        Ok(size)
    }

    /// The tag, once the message has ended.
    pub(crate) fn tag(&self) -> [u8; 16] {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).tag
    }
}
