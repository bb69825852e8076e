//! Many operations of one algorithm in one call, described by an array of numbers over shared buffers.
//!
//! Short AES-GCM messages under one key run side by side in SIMD lanes, and messages of SHA-256 two at a time. The array may change while a
//! job uses it, so that every operation is read once and its ranges are checked before they are used.

use leafseal_crypto::aead::{Nonce, OpenItem, SealItem, TAG_SIZE};
use leafseal_crypto::{AeadKey, DecryptFailed, DigestAlgorithm, MacKey};
use zeroize::Zeroize;

use crate::algorithms::Algorithm;
use crate::fault::{OperationFault, OperationResult};
use crate::js::Bytes;
use crate::keys::{KeyCache, ReadyKey};
use crate::operation::{Memory, Operation, SLICE_SIZE};

/// Numbers that describe an operation: offsets of key and IV, offset and size of the source, offset of the target, offset and size of the
/// associated data (for HMAC and hashes: the size of the key first), offset of the tag, and the status, which is written.
pub(crate) const FIELDS: usize = 9;

/// Operations that a step considers, at most.
const STEP_MAX: usize = 1024;
/// Messages that go through the lanes together.
const GROUP_MAX: usize = 32;
/// Bytes of a digest of operations that run in pairs.
const PAIRED_SIZE: usize = 32;
/// Longest message that goes through the lanes.
const GROUPED_SIZE_MAX: usize = 512;

/// The array of numbers: its bytes, and their type.
#[derive(Clone, Copy)]
pub(crate) enum Numbers {
    Uint32(Bytes),
    Float64(Bytes),
}

impl Numbers {
    /// How many operations are described.
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Uint32(bytes) => bytes.size / 4 / FIELDS,
            Self::Float64(bytes) => bytes.size / 8 / FIELDS,
        }
    }

    /// # Safety
    /// The array is valid.
    unsafe fn get(self, place: usize) -> usize {
        // SAFETY: the caller's promise; callers pass places of operations that are described.
        unsafe {
            match self {
                Self::Uint32(bytes) => bytes.start.cast::<u32>().add(place).read_volatile() as usize,
                Self::Float64(bytes) => whole(bytes.start.cast::<f64>().add(place).read_volatile()),
            }
        }
    }

    /// # Safety
    /// As for [`Numbers::get`].
    unsafe fn set(self, place: usize, number: u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Uint32(bytes) => bytes.start.cast::<u32>().add(place).write(u32::from(number)),
                Self::Float64(bytes) => bytes.start.cast::<f64>().add(place).write(f64::from(number)),
            }
        }
    }
}

/// A whole number; any other lies outside of every buffer.
fn whole(number: f64) -> usize {
    let whole = number as usize;
    if whole as f64 == number { whole } else { usize::MAX }
}

/// The buffers of all operations.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) keys: Bytes,
    pub(crate) ivs: Bytes,
    pub(crate) source: Bytes,
    pub(crate) target: Bytes,
    pub(crate) aad: Bytes,
    pub(crate) tags: Bytes,
}

/// A batch in progress.
pub(crate) struct Batch {
    pub(crate) algorithm: Algorithm,
    pub(crate) encrypts: bool,
    pub(crate) tag_size: usize,
    pub(crate) numbers: Numbers,
    pub(crate) buffers: Buffers,
    pub(crate) next: usize,
    pub(crate) failed: usize,
}

/// One operation, with ranges that lie within their buffers.
struct BatchItem {
    place: usize,
    key: Bytes,
    iv: Bytes,
    memory: Memory,
    tag: Bytes,
}

impl Batch {
    /// Checks all ranges before anything runs; returns the first operation that is wrong, and which of its ranges.
    ///
    /// # Safety
    /// The array is valid.
    pub(crate) unsafe fn check(&self) -> Result<(), (usize, OperationFault)> {
        for place in 0..self.numbers.count() {
            // SAFETY: the caller's promise.
            unsafe { self.item(place) }.map_err(|fault| (place, fault))?;
        }
        Ok(())
    }

    /// # Safety
    /// The array is valid, and `place` below its count.
    unsafe fn item(&self, place: usize) -> OperationResult<BatchItem> {
        // SAFETY: the caller's promise.
        let field = |index| unsafe { self.numbers.get(place * FIELDS + index) };
        let (other, buffers) = (OperationFault::OtherRange, &self.buffers);
        let size = field(3);
        let source = buffers.source.part(field(2), size).ok_or(OperationFault::SourceRange)?;
        let target = |size| buffers.target.part(field(4), size).ok_or(OperationFault::TargetRange);
        let cipher = |key_size, iv_size, aad: Bytes, tag: Bytes| {
            let key = buffers.keys.part(field(0), key_size).ok_or(other)?;
            let iv = buffers.ivs.part(field(1), iv_size).ok_or(other)?;
            Ok(BatchItem { place, key, iv, memory: Memory { source, target: target(size)?, aad }, tag })
        };
        match self.algorithm {
            Algorithm::Cipher(algorithm) => cipher(algorithm.key_size(), 16, Bytes::EMPTY, Bytes::EMPTY),
            Algorithm::Aead(algorithm) => {
                let aad = buffers.aad.part(field(5), field(6)).ok_or(other)?;
                let tag = buffers.tags.part(field(7), self.tag_size).ok_or(other)?;
                cipher(algorithm.key_size(), 12, aad, tag)
            }
            Algorithm::Hash(algorithm) | Algorithm::Mac(algorithm) => {
                let key_size = if matches!(self.algorithm, Algorithm::Mac(_)) { field(6) } else { 0 };
                let key = buffers.keys.part(field(0), key_size).ok_or(other)?;
                let memory = Memory { source, target: target(algorithm.size())?, aad: Bytes::EMPTY };
                Ok(BatchItem { place, key, iv: Bytes::EMPTY, memory, tag: Bytes::EMPTY })
            }
        }
    }

    /// Works for about a slice. Returns the number of failed operations after the last.
    ///
    /// # Safety
    /// Array and buffers are valid, and nothing else uses them during the call.
    pub(crate) unsafe fn step(&mut self, keys: &mut KeyCache) -> Option<OperationResult<usize>> {
        let (count, mut size) = (self.numbers.count(), 0);
        let end = count.min(self.next + STEP_MAX);
        let mut group: Vec<BatchItem> = Vec::with_capacity(GROUP_MAX);
        let mut waiting: Option<BatchItem> = None;
        while self.next < end && size < SLICE_SIZE {
            // SAFETY: the caller's promise.
            let item = unsafe { self.item(self.next) };
            self.next += 1;
            let item = match item {
                Ok(item) => item,
                Err(fault) => {
                    self.end(self.next - 1, Err(fault));
                    continue;
                }
            };
            size += item.memory.source.size + item.memory.aad.size;
            // SAFETY: as above.
            unsafe {
                if self.is_paired() {
                    waiting = self.pair_with(waiting.take(), item, keys);
                    continue;
                }
                if !self.is_grouped(&item) {
                    self.end_alone(&item, keys);
                    continue;
                }
                let is_other_key = group.first().is_some_and(|first| first.key.start != item.key.start);
                if is_other_key || group.len() == GROUP_MAX {
                    self.group(&mut group, keys);
                }
            }
            group.push(item);
        }
        // SAFETY: as above.
        unsafe {
            self.group(&mut group, keys);
            if let Some(item) = waiting {
                self.end_alone(&item, keys);
            }
        }
        (self.next == count).then_some(Ok(self.failed))
    }

    fn end(&mut self, place: usize, outcome: OperationResult<usize>) {
        self.failed += usize::from(outcome.is_err());
        let status = outcome.map_or_else(|fault| fault as u8, |_| 0);
        // SAFETY: the array is valid (the promise of `step`'s caller), and the place that of an operation.
        unsafe { self.numbers.set(place * FIELDS + FIELDS - 1, status) };
    }

    /// Whether an operation may run beside others.
    fn is_grouped(&self, item: &BatchItem) -> bool {
        let Algorithm::Aead(aead) = self.algorithm else { return false };
        aead.name().ends_with("gcm") && self.tag_size == TAG_SIZE && item.memory.source.size <= GROUPED_SIZE_MAX
    }

    /// Whether two operations may run side by side.
    fn is_paired(&self) -> bool {
        matches!(self.algorithm, Algorithm::Hash(DigestAlgorithm::Sha256) | Algorithm::Mac(DigestAlgorithm::Sha256))
    }

    /// Runs an operation beside the one that waits, if there is one that it does not depend on. Returns the one that waits then.
    ///
    /// # Safety
    /// As for [`Batch::step`].
    unsafe fn pair_with(
        &mut self,
        first: Option<BatchItem>,
        second: BatchItem,
        keys: &mut KeyCache,
    ) -> Option<BatchItem> {
        let Some(first) = first else { return Some(second) };
        let written = first.memory.target;
        // SAFETY: the caller's promise.
        unsafe {
            if written.overlaps(second.memory.source) || written.overlaps(second.key) {
                self.end_alone(&first, keys);
                return Some(second);
            }
            let outcomes = self.pair([&first, &second], keys);
            self.end(first.place, outcomes);
            self.end(second.place, outcomes);
        }
        None
    }

    /// # Safety
    /// As for [`Batch::step`].
    unsafe fn pair(&self, items: [&BatchItem; 2], keys: &mut KeyCache) -> OperationResult<usize> {
        let [mut front, mut back] = [[0; PAIRED_SIZE]; 2];
        let digests: [&mut [u8]; 2] = [&mut front, &mut back];
        // SAFETY: the caller's promise; targets are written when the sources are not used any more.
        unsafe {
            let messages = items.map(|item| item.memory.source.read());
            match self.algorithm {
                Algorithm::Hash(digest) => digest.digest_pair(messages, digests),
                _ => {
                    let mut key = |item: &BatchItem| match keys.get(self.algorithm, item.key.read())? {
                        ReadyKey::Mac(key) => Ok(key.clone()),
                        _ => Err(OperationFault::Internal),
                    };
                    let (first, second) = (key(items[0])?, key(items[1])?);
                    keys.release();
                    MacKey::mac_pair([&first, &second], messages, digests);
                }
            }
            for (item, digest) in items.into_iter().zip([front, back]) {
                item.memory.target.write().copy_from_slice(&digest);
            }
        }
        Ok(0)
    }

    /// # Safety
    /// As for [`Batch::step`].
    unsafe fn end_alone(&mut self, item: &BatchItem, keys: &mut KeyCache) {
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.alone(item, keys) };
        self.end(item.place, outcome);
    }

    /// # Safety
    /// As for [`Batch::step`].
    unsafe fn alone(&self, item: &BatchItem, keys: &mut KeyCache) -> OperationResult<usize> {
        // SAFETY: the caller's promise.
        let key = keys.get(self.algorithm, unsafe { item.key.read() })?.clone();
        keys.release();
        let mut operation =
            Operation { key, encrypts: self.encrypts, iv: [0; 16], tag: [0; 16], tag_size: item.tag.size };
        // SAFETY: the caller's promise; ranges that overlap are dealt with by `run`, and the tag is written last.
        unsafe {
            operation.iv[..item.iv.size].copy_from_slice(item.iv.read());
            if !self.encrypts {
                operation.tag[..item.tag.size].copy_from_slice(item.tag.read());
            }
            let written = operation.run(item.memory)?;
            if self.encrypts {
                item.tag.write().copy_from_slice(&operation.tag[..item.tag.size]);
            }
            Ok(written)
        }
    }

    /// Runs messages under one key side by side.
    ///
    /// # Safety
    /// As for [`Batch::step`].
    unsafe fn group(&mut self, group: &mut Vec<BatchItem>, keys: &mut KeyCache) {
        let Some(first) = group.first() else { return };
        // SAFETY: the caller's promise.
        let key = keys.get(self.algorithm, unsafe { first.key.read() }).cloned();
        let outcomes = match key {
            // SAFETY: the caller's promise.
            Ok(ReadyKey::Aead(key)) if self.encrypts => unsafe { seal(&key, group) },
            // SAFETY: the caller's promise.
            Ok(ReadyKey::Aead(key)) => unsafe { open(&key, group) },
            _ => [Err(OperationFault::Internal); GROUP_MAX],
        };
        keys.release();
        for (item, outcome) in group.drain(..).zip(outcomes) {
            self.end(item.place, outcome);
        }
    }
}

/// Memory for the outputs of a group.
type GroupOutputs = [u8; GROUP_MAX * (GROUPED_SIZE_MAX + TAG_SIZE)];

fn nonce(item: &BatchItem) -> Nonce {
    // SAFETY: the range was checked, and is the caller's to read.
    Nonce(unsafe { item.iv.read() }.try_into().expect("12 bytes"))
}

/// # Safety
/// As for [`Batch::step`].
unsafe fn seal(key: &AeadKey, group: &[BatchItem]) -> [OperationResult<usize>; GROUP_MAX] {
    let mut outputs: GroupOutputs = [0; _];
    let size = group.iter().map(|item| item.memory.source.size + TAG_SIZE).sum();
    // SAFETY: the caller's promise; outputs go to memory of their own first.
    let items = group.iter().map(|item| unsafe {
        SealItem { nonce: nonce(item), aad: item.memory.aad.read(), plaintext: item.memory.source.read() }
    });
    let items: Vec<SealItem<'_>> = items.collect();
    key.seal_many(&items, &mut outputs[..size]);
    drop(items);
    let mut sealed = &outputs[..size];
    for item in group {
        let (text, rest) = sealed.split_at(item.memory.source.size);
        let (tag, rest) = rest.split_at(TAG_SIZE);
        sealed = rest;
        // SAFETY: the caller's promise; no other slice of these buffers is alive.
        unsafe {
            item.memory.target.write().copy_from_slice(text);
            item.tag.write().copy_from_slice(tag);
        }
    }
    [Ok(0); GROUP_MAX]
}

/// # Safety
/// As for [`Batch::step`].
unsafe fn open(key: &AeadKey, group: &[BatchItem]) -> [OperationResult<usize>; GROUP_MAX] {
    let (mut sealed, mut outputs): (GroupOutputs, GroupOutputs) = ([0; _], [0; _]);
    let (mut at, mut size) = (0, 0);
    for item in group {
        let text_size = item.memory.source.size;
        // SAFETY: the caller's promise.
        unsafe {
            sealed[at..at + text_size].copy_from_slice(item.memory.source.read());
            sealed[at + text_size..][..TAG_SIZE].copy_from_slice(item.tag.read());
        }
        (at, size) = (at + text_size + TAG_SIZE, size + text_size);
    }
    let mut rest = &sealed[..at];
    let items = group.iter().map(|item| {
        let (sealed, after) = rest.split_at(item.memory.source.size + TAG_SIZE);
        rest = after;
        // SAFETY: the caller's promise.
        OpenItem { nonce: nonce(item), aad: unsafe { item.memory.aad.read() }, sealed }
    });
    let items: Vec<OpenItem<'_>> = items.collect();
    let mut results = [Err(DecryptFailed); GROUP_MAX];
    key.open_many(&items, &mut outputs[..size], &mut results[..group.len()]);
    let mut opened = &outputs[..size];
    for item in group {
        let (text, rest) = opened.split_at(item.memory.source.size);
        opened = rest;
        // SAFETY: the caller's promise; no other slice of these buffers is alive.
        unsafe { item.memory.target.write().copy_from_slice(text) };
    }
    // Only what was written: to wipe all of it takes longer than to open short messages.
    outputs[..size].zeroize();
    results.map(|result| result.map(|()| 0).map_err(|_| OperationFault::Corrupt))
}
