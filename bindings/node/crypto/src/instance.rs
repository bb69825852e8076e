//! The state of one copy of the package's JavaScript on one thread: the shared memory, its expanded keys, its way to the pool and back.
//!
//! Test runners that isolate modules, bundlers and edits of `require.cache` load several copies of the JavaScript over one native module.
//! Each counts its operations for itself, so that nothing here is shared with another copy.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};

use napi_sys as sys;

use crate::algorithms::Algorithm;
use crate::batch::{Batch, Buffers, Numbers};
use crate::delivery::ThreadDelivery;
use crate::fault::{OperationFault, OperationResult};
use crate::job::{OperationJob, OperationTask};
use crate::js::{Bytes, Call, Reference, Result, make_handle};
use crate::keys::{KeyCache, ReadyKey};
use crate::layout::{self, HeaderSlot, Short};
use crate::operation::{JsBytes, Memory, Operation, Sliced};
use crate::parallel::{PARALLEL_SIZE_MIN_DEFAULT, Parallel};
use crate::pool::POOL;
use crate::streams::Stream;
use crate::waker::Waker;

/// The state of a copy of the JavaScript. Used on its thread only.
pub(crate) struct Instance {
    /// The shared memory, which an ArrayBuffer of JavaScript owns.
    shared: *mut u8,
    /// Keeps the shared memory and, while operations are in flight, the copy of the JavaScript.
    _kept: Reference,
    keys: RefCell<KeyCache>,
    waker: Waker,
    parallel_size_min: Cell<usize>,
    /// Jobs that can be cancelled, by id.
    cancellable: RefCell<HashMap<u64, Weak<OperationJob>>>,
}

impl Instance {
    /// Makes the state for a copy, with the memory that it shares, which lies in what `kept` refers to.
    pub(crate) fn new(env: sys::napi_env, shared: *mut u8, kept: Reference) -> Self {
        Self {
            shared,
            _kept: kept,
            keys: RefCell::new(KeyCache::new()),
            waker: Waker::new(env),
            parallel_size_min: Cell::new(PARALLEL_SIZE_MIN_DEFAULT),
            cancellable: RefCell::new(HashMap::new()),
        }
    }

    #[inline]
    fn slot(&self, slot: HeaderSlot) -> f64 {
        // SAFETY: the header lies in the shared memory, which is aligned for numbers.
        unsafe { self.shared.cast::<f64>().add(slot as usize).read() }
    }

    #[inline]
    fn size(&self, slot: HeaderSlot) -> usize {
        self.slot(slot) as usize
    }

    #[inline]
    fn set(&self, slot: HeaderSlot, number: f64) {
        // SAFETY: as in `slot`.
        unsafe { self.shared.cast::<f64>().add(slot as usize).write(number) };
    }

    /// A part of the shared memory.
    fn shared(&self, at: usize, size: usize) -> OperationResult<Bytes> {
        let all = Bytes { start: self.shared, size: layout::SIZE };
        all.part(at, size).ok_or(OperationFault::OtherRange)
    }

    /// The range of an argument: in its buffer, or in the shared memory.
    #[inline]
    fn range(
        &self,
        call: &Call,
        index: usize,
        offset: HeaderSlot,
        size: usize,
        at: usize,
        fault: OperationFault,
    ) -> Result<OperationResult<Bytes>> {
        if self.size(HeaderSlot::Direct) as u32 & layout::DIRECT[index] == 0 {
            return Ok(self.shared(at, size));
        }
        Ok(call.bytes(index)?.part(self.size(offset), size).ok_or(fault))
    }

    /// Reads the arguments of an operation. Buffers may have changed since JavaScript checked them, so that ranges are checked again.
    #[inline]
    fn find(&self, call: &Call) -> Result<OperationResult<(Algorithm, [Bytes; 5])>> {
        let Some(algorithm) = Algorithm::from_number(self.size(HeaderSlot::Algorithm)) else {
            return Ok(Err(OperationFault::Internal));
        };
        let source_size = self.size(HeaderSlot::SourceSize);
        let (target_size, iv_size) = algorithm.sizes(source_size);
        let other = OperationFault::OtherRange;
        let source =
            self.range(call, 0, HeaderSlot::SourceOffset, source_size, layout::SOURCE_AT, OperationFault::SourceRange)?;
        let target =
            self.range(call, 1, HeaderSlot::TargetOffset, target_size, layout::TARGET_AT, OperationFault::TargetRange)?;
        let key = self.range(call, 2, HeaderSlot::KeyOffset, self.size(HeaderSlot::KeySize), layout::KEY_AT, other)?;
        let iv = self.range(call, 3, HeaderSlot::IvOffset, iv_size, layout::IV_AT, other)?;
        let aad = self.range(call, 4, HeaderSlot::AadOffset, self.size(HeaderSlot::AadSize), layout::AAD_AT, other)?;
        Ok((|| Ok((algorithm, [source?, target?, key?, iv?, aad?])))())
    }

    #[inline]
    fn tag(&self, call: &Call) -> Result<OperationResult<Bytes>> {
        let size = self.size(HeaderSlot::TagSize);
        if size > layout::TAG_SIZE_MAX {
            return Ok(Err(OperationFault::Internal));
        }
        self.range(call, 5, HeaderSlot::TagOffset, size, layout::TAG_AT, OperationFault::OtherRange)
    }

    /// Whether the call encrypts.
    fn encrypts(&self) -> bool {
        self.slot(HeaderSlot::Encrypt) != 0.0
    }

    /// Builds the operation, except for its key. The IV and, to open, the tag are copied.
    #[inline]
    fn operation(encrypts: bool, key: ReadyKey, iv: Bytes, tag: Bytes) -> Operation {
        let mut operation = Operation { key, encrypts, iv: [0; 16], tag: [0; 16], tag_size: tag.size };
        // SAFETY: both ranges are valid during the call, and JavaScript does not run.
        unsafe {
            operation.iv[..iv.size].copy_from_slice(iv.read());
            if !encrypts {
                operation.tag[..tag.size].copy_from_slice(tag.read());
            }
        }
        operation
    }

    /// Overwrites the inputs in the shared memory: key and source.
    #[inline]
    fn wipe(&self) {
        let direct = self.size(HeaderSlot::Direct) as u32;
        let is_shared = |bit| direct & bit == 0;
        let source_size = if is_shared(layout::SOURCE) { self.size(HeaderSlot::SourceSize) } else { 0 };
        let key_size = if is_shared(layout::KEY) { self.size(HeaderSlot::KeySize) } else { 0 };
        self.wipe_sizes(key_size, source_size);
    }

    #[inline]
    fn wipe_sizes(&self, key_size: usize, source_size: usize) {
        // SAFETY: both parts lie in the shared memory, and JavaScript does not run.
        unsafe {
            self.shared.add(layout::KEY_AT).write_bytes(0, key_size.min(layout::KEY_SIZE_MAX));
            self.shared.add(layout::SOURCE_AT).write_bytes(0, source_size.min(layout::TEXT_SIZE_MAX));
        }
    }

    fn outcome(&self, outcome: OperationResult<usize>) {
        let (status, written) = outcome.map_or_else(|fault| (fault as u8, 0), |written| (0, written));
        self.set(HeaderSlot::Status, f64::from(status));
        self.set(HeaderSlot::Written, written as f64);
    }

    /// Runs an operation to its end.
    pub(crate) fn run(&self, call: &Call) -> Result<()> {
        let outcome = match (self.find(call)?, self.tag(call)?) {
            (Ok((algorithm, ranges)), Ok(tag)) => self.run_found(algorithm, self.encrypts(), ranges, tag),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        };
        self.wipe();
        self.outcome(outcome);
        Ok(())
    }

    /// Runs an operation all of whose arguments are in the shared memory.
    pub(crate) fn run_short(&self) {
        // SAFETY: the words lie in the header of the shared memory, which is aligned for numbers.
        let words = unsafe { self.shared.cast::<f64>().add(HeaderSlot::Short as usize).cast::<[u32; 2]>().read() };
        let short = Short::unpack(words);
        let outcome = self.run_unpacked(short);
        self.wipe_sizes(short.key_size, short.source_size);
        self.outcome(outcome);
    }

    #[inline]
    fn run_unpacked(&self, short: Short) -> OperationResult<usize> {
        // The parts lie in the shared memory: every size is within its room.
        let part = |at: usize, size| Bytes { start: self.shared.wrapping_add(at), size };
        let algorithm = Algorithm::from_number(short.algorithm).ok_or(OperationFault::Internal)?;
        let (target_size, iv_size) = algorithm.sizes(short.source_size);
        let ranges = [
            part(layout::SOURCE_AT, short.source_size),
            part(layout::TARGET_AT, target_size),
            part(layout::KEY_AT, short.key_size),
            part(layout::IV_AT, iv_size),
            part(layout::AAD_AT, short.aad_size),
        ];
        self.run_found(algorithm, short.encrypts, ranges, part(layout::TAG_AT, short.tag_size))
    }

    #[inline]
    fn run_found(
        &self,
        algorithm: Algorithm,
        encrypts: bool,
        ranges: [Bytes; 5],
        tag: Bytes,
    ) -> OperationResult<usize> {
        let [source, target, key_bytes, iv, aad] = ranges;
        let mut keys = self.keys.borrow_mut();
        let memory = Memory { source, target, aad };
        if let Algorithm::Hash(digest) = algorithm {
            let mut operation = Self::operation(encrypts, ReadyKey::Hash(digest), iv, tag);
            // SAFETY: all ranges were found in this call, and JavaScript does not run before it returns.
            return unsafe { operation.run(memory) };
        }
        // SAFETY: as above.
        let key = keys.get(algorithm, unsafe { key_bytes.read() })?;
        let mut operation = Self::operation(encrypts, ReadyKey::Hash(leafseal_crypto::DigestAlgorithm::Md5), iv, tag);
        // SAFETY: as above.
        let written = unsafe { operation.run_with(key, memory) };
        keys.release();
        if operation.encrypts && written.is_ok() {
            // SAFETY: as above; the other ranges are not used any more.
            unsafe { tag.write() }.copy_from_slice(&operation.tag[..tag.size]);
        }
        written
    }

    /// Sends an operation to the pool.
    pub(crate) fn submit(&self, call: &Call) -> Result<()> {
        let outcome = match (self.find(call)?, self.tag(call)?) {
            (Ok((algorithm, ranges)), Ok(tag)) => self.submit_found(call, algorithm, ranges, tag)?,
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        };
        self.wipe();
        self.outcome(outcome.map(|()| 0));
        Ok(())
    }

    fn submit_found(
        &self,
        call: &Call,
        algorithm: Algorithm,
        ranges: [Bytes; 5],
        tag: Bytes,
    ) -> Result<OperationResult<()>> {
        let [_, _, key_bytes, iv, _] = ranges;
        // SAFETY: the key was found in this call, and JavaScript does not run before it returns.
        let operation =
            unsafe { self.key(algorithm, key_bytes) }.map(|key| Self::operation(self.encrypts(), key, iv, tag));
        let operation = match operation {
            Ok(operation) => operation,
            Err(fault) => return Ok(Err(fault)),
        };
        let place = self.place(ranges);
        let threads = if place.memory.source.size < self.parallel_size_min.get() { 1 } else { POOL.threads() };
        // To open in parts takes a second pass of GHASH, which two threads do not make up for.
        let is_opened = matches!(algorithm, Algorithm::Aead(_)) && !operation.encrypts;
        let threads_min = if is_opened { 3 } else { 2 };
        let parallel =
            if threads >= threads_min { Parallel::new(operation, place) } else { Err(Box::new((operation, place))) };
        match parallel {
            Ok(parallel) => {
                let helpers = parallel.count().min(threads);
                self.send(call, helpers, |id, delivery| OperationJob::parallel(id, delivery, parallel))
            }
            Err(refused) => {
                let (operation, place) = *refused;
                let sliced = Box::new(Sliced::new(operation, place.memory));
                self.send(call, 1, |id, delivery| OperationJob::new(id, delivery, OperationTask::Sliced(sliced, place)))
            }
        }
    }

    /// The expanded form of a key, to keep.
    ///
    /// # Safety
    /// The bytes are valid during the call.
    unsafe fn key(&self, algorithm: Algorithm, bytes: Bytes) -> OperationResult<ReadyKey> {
        if let Algorithm::Hash(digest) = algorithm {
            return Ok(ReadyKey::Hash(digest));
        }
        let mut keys = self.keys.borrow_mut();
        // SAFETY: the caller's promise.
        let key = keys.get(algorithm, unsafe { bytes.read() }).cloned();
        keys.release();
        key
    }

    /// Sends a job to the pool, if that has room.
    fn send(
        &self,
        call: &Call,
        helpers: usize,
        make: impl FnOnce(f64, Arc<ThreadDelivery>) -> OperationJob,
    ) -> Result<OperationResult<()>> {
        if !POOL.enter() {
            return Ok(Err(OperationFault::Full));
        }
        let id = self.slot(HeaderSlot::Id);
        let job = Arc::new(make(id, Arc::clone(self.waker.delivery())));
        self.waker.hold(call.env)?;
        if self.slot(HeaderSlot::IsCancellable) != 0.0 {
            self.cancellable.borrow_mut().insert(id as u64, Arc::downgrade(&job));
        }
        POOL.push(job, helpers);
        Ok(Ok(()))
    }

    /// Creates a stream.
    pub(crate) fn open_stream(&self, call: &Call) -> Result<sys::napi_value> {
        let found = match (self.find(call)?, self.tag(call)?) {
            (Ok(found), Ok(tag)) => Ok((found, tag)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        };
        let stream = found.and_then(|((algorithm, [_, _, key_bytes, iv, aad]), tag)| {
            // SAFETY: all ranges were found in this call, and JavaScript does not run before it returns.
            unsafe {
                Ok(Stream::new(&Self::operation(self.encrypts(), self.key(algorithm, key_bytes)?, iv, tag), aad.read()))
            }
        });
        self.wipe();
        self.outcome(stream.as_ref().map(|_| 0).map_err(|fault| *fault));
        match stream {
            Ok(stream) => make_handle(call.env, Arc::new(stream)),
            Err(_) => Ok(ptr::null_mut()),
        }
    }

    /// Source and target of a piece: arguments 1 and 2.
    fn piece(&self, call: &Call) -> Result<OperationResult<Memory>> {
        let (source, target) = (call.bytes(1)?, call.bytes(2)?);
        let size = self.size(HeaderSlot::SourceSize);
        let is_hash = self.size(HeaderSlot::Direct) as u32 & layout::TARGET == 0;
        let target_size = if is_hash { 0 } else { size };
        let part = || {
            let source = source.part(self.size(HeaderSlot::SourceOffset), size).ok_or(OperationFault::SourceRange)?;
            let target =
                target.part(self.size(HeaderSlot::TargetOffset), target_size).ok_or(OperationFault::TargetRange)?;
            Ok(Memory { source, target, aad: Bytes::EMPTY })
        };
        Ok(part())
    }

    /// Processes a piece of a stream.
    pub(crate) fn update_stream(&self, call: &Call) -> Result<()> {
        // SAFETY: JavaScript passes only streams that `open_stream` has made.
        let stream = unsafe { call.handle::<Arc<Stream>>(0)? };
        // SAFETY: both ranges were found in this call, and JavaScript does not run before it returns.
        let outcome = self.piece(call)?.and_then(|memory| unsafe { stream.update(memory.source, memory.target) });
        self.outcome(outcome);
        Ok(())
    }

    /// Sends a piece of a stream to the pool.
    pub(crate) fn submit_stream(&self, call: &Call) -> Result<()> {
        // SAFETY: as in `update_stream`.
        let stream = unsafe { call.handle::<Arc<Stream>>(0)? };
        let outcome = match self.piece(call)? {
            Ok(memory) => {
                let task = OperationTask::Update(Arc::clone(stream), memory, 0);
                self.send(call, 1, |id, delivery| OperationJob::new(id, delivery, task))?
            }
            Err(fault) => Err(fault),
        };
        self.outcome(outcome.map(|()| 0));
        Ok(())
    }

    /// Ends a stream: digest or tag go to the shared target; to open, the tag comes from there.
    pub(crate) fn finish_stream(&self, call: &Call) -> Result<()> {
        // SAFETY: as in `update_stream`.
        let stream = unsafe { call.handle::<Arc<Stream>>(0)? };
        let size = self.size(HeaderSlot::Written).min(layout::TEXT_SIZE_MAX);
        // SAFETY: the part lies in the shared memory, and JavaScript does not run.
        let out = unsafe { Bytes { start: self.shared.wrapping_add(layout::TARGET_AT), size }.write() };
        self.outcome(stream.finish(out));
        Ok(())
    }

    /// Reads the arguments of a batch: six buffers and the numbers.
    fn batch(&self, call: &Call) -> Result<OperationResult<Batch>> {
        let Some(algorithm) = Algorithm::from_number(self.size(HeaderSlot::Algorithm)) else {
            return Ok(Err(OperationFault::Internal));
        };
        let buffers = Buffers {
            keys: call.bytes(0)?,
            ivs: call.bytes(1)?,
            source: call.bytes(2)?,
            target: call.bytes(3)?,
            aad: call.bytes(4)?,
            tags: call.bytes(5)?,
        };
        let numbers = call.bytes(6)?;
        let is_float = self.slot(HeaderSlot::Direct) != 0.0;
        let batch = Batch {
            algorithm,
            encrypts: self.slot(HeaderSlot::Encrypt) != 0.0,
            tag_size: self.size(HeaderSlot::TagSize).min(16),
            numbers: if is_float { Numbers::Float64(numbers) } else { Numbers::Uint32(numbers) },
            buffers,
            next: 0,
            failed: 0,
        };
        // SAFETY: the array was found in this call, and JavaScript does not run before it returns.
        let checked = unsafe { batch.check() };
        Ok(checked.map(|()| batch).map_err(|(place, fault)| {
            self.set(HeaderSlot::Id, place as f64);
            fault
        }))
    }

    /// Runs a batch.
    pub(crate) fn run_batch(&self, call: &Call) -> Result<()> {
        let outcome = self.batch(call)?.and_then(|mut batch| {
            let mut keys = self.keys.borrow_mut();
            loop {
                // SAFETY: array and buffers were found in this call, and JavaScript does not run before it returns.
                if let Some(outcome) = unsafe { batch.step(&mut keys) } {
                    return outcome;
                }
            }
        });
        self.outcome(outcome);
        Ok(())
    }

    /// Sends a batch to the pool.
    pub(crate) fn submit_batch(&self, call: &Call) -> Result<()> {
        let id = self.slot(HeaderSlot::Id);
        let outcome = match self.batch(call)? {
            Ok(batch) => {
                self.set(HeaderSlot::Id, id);
                let task = OperationTask::Batch(Box::new(batch), KeyCache::new());
                self.send(call, 1, |id, delivery| OperationJob::new(id, delivery, task))?
            }
            Err(fault) => Err(fault),
        };
        self.outcome(outcome.map(|()| 0));
        Ok(())
    }

    /// The memory of a job: what is in the shared memory is copied, buffers are used where they are.
    fn place(&self, ranges: [Bytes; 5]) -> JsBytes {
        let [source, target, _, _, aad] = ranges;
        let direct = self.size(HeaderSlot::Direct) as u32;
        // SAFETY: all ranges were found in this call, and JavaScript does not run before it returns.
        let copy = |bytes: Bytes| unsafe { bytes.read() }.to_vec().into_boxed_slice();
        let mut place = JsBytes { memory: Memory { source, target, aad }, owned: None, aad: None };
        if direct & layout::TARGET == 0 {
            let size = source.size.max(target.size);
            let mut owned = vec![0; size].into_boxed_slice();
            let is_source_direct = direct & layout::SOURCE != 0;
            if !is_source_direct {
                // SAFETY: as above.
                owned[..source.size].copy_from_slice(unsafe { source.read() });
            }
            let own = Bytes::of(&mut owned);
            place.memory.target = Bytes { start: own.start, size: target.size };
            if !is_source_direct {
                place.memory.source = Bytes { start: own.start, size: source.size };
            }
            place.owned = Some(owned);
        }
        if direct & layout::AAD == 0 && aad.size != 0 {
            let mut owned = copy(aad);
            place.memory.aad = Bytes::of(&mut owned);
            place.aad = Some(owned);
        }
        place
    }

    /// Cancels a job: it ends at its next slice, with [`Fault::Cancelled`].
    pub(crate) fn cancel(&self, id: f64) {
        let jobs = self.cancellable.borrow();
        if let Some(job) = jobs.get(&(id as u64)).and_then(Weak::upgrade) {
            job.cancel();
        }
    }

    /// Hands completed operations over: writes results to the shared memory and their number to the header.
    pub(crate) fn take(&self, call: &Call) -> Result<()> {
        // SAFETY: the results have their own part of the shared memory, and JavaScript does not run.
        let out = unsafe {
            Bytes { start: self.shared.wrapping_add(layout::RESULTS_AT), size: layout::RESULTS_SIZE }.write()
        };
        let count = self.waker.delivery().take(out);
        if self.waker.release(call.env, count)? {
            self.cancellable.borrow_mut().clear();
        }
        self.outcome(Ok(count));
        Ok(())
    }

    /// Forgets a job that can be cancelled no more.
    pub(crate) fn forget(&self, id: f64) {
        self.cancellable.borrow_mut().remove(&(id as u64));
    }

    /// Sets the function of JavaScript that is called when operations have ended.
    pub(crate) fn start(&self, call: &Call) -> Result<()> {
        self.waker.start(call)
    }

    /// Sets the size from which one message is spread over threads.
    pub(crate) fn set_parallel_size_min(&self, size: usize) {
        self.parallel_size_min.set(size.max(1));
    }

    /// Bounds the cache of keys.
    pub(crate) fn keep_keys(&self, kept: usize) {
        self.keys.borrow_mut().keep(kept);
    }
}
