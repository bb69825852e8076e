//! Brotli (RFC 7932). Windows of more than 16 MiB, a later extension, are not part of the HTTP coding `br`: a handful of bytes would
//! allocate a gigabyte.

use std::mem;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, Mutex, MutexGuard};

use brotli::{Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut};

use super::{BudgetShare, DecodeError, Decoder, End, Moved, head};
use crate::refusal::Refusal;

/// The start of a body with a larger window: seven bits that RFC 7932, section 9.1, reserves.
const LARGE_WINDOW: u8 = 0b001_0001;
/// Tables up to this size are covered by [`Brotli::MEMORY_MIN`]: the library cannot work without them.
const SMALL_SIZE_MAX: usize = 16 << 10;
/// Bytes that the decoder may allocate and free again without a limit; beyond this the allowance grows with each byte read and written,
/// because clearing memory takes time.
const TURNOVER_FREE: usize = 32 << 20;
const TURNOVER_FACTOR: usize = 64;

pub(super) struct Brotli {
    state: Box<BrotliState<Metered, Metered, Metered>>,
    meter: Arc<Meter>,
    is_begun: bool,
    /// Bytes written.
    written: usize,
    read: usize,
}

impl Brotli {
    /// Memory for any body: the decoder's state and small tables. The window and large tables are charged when they are allocated.
    pub(super) const MEMORY_MIN: usize = 128 << 10;

    pub(super) fn new(share: BudgetShare) -> Self {
        let meter = Arc::new(Meter(Mutex::new(Metering { share, turnover: 0, refusal: None })));
        let metered = || Metered(Arc::clone(&meter));
        let state = Box::new(BrotliState::new_strict(metered(), metered(), metered()));
        Brotli { state, meter, is_begun: false, written: 0, read: 0 }
    }

    fn check_memory(&self) -> Result<(), DecodeError> {
        let mut metering = self.meter.lock();
        if let Some(refusal) = metering.refusal.take() {
            return Err(refusal.into());
        }
        let turnover_max = TURNOVER_FREE.saturating_add((self.read + self.written).saturating_mul(TURNOVER_FACTOR));
        if metering.turnover > turnover_max { Err(DecodeError::Costly) } else { Ok(()) }
    }
}

impl Decoder for Brotli {
    fn step(&mut self, rest: &[u8], out: &mut [u8]) -> Result<Moved, DecodeError> {
        if !mem::replace(&mut self.is_begun, true) && rest.first().is_some_and(|byte| byte & 0x7f == LARGE_WINDOW) {
            return Err(DecodeError::Window);
        }
        let input = head(rest);
        let (mut left, mut read, mut budget, mut written) = (input.len(), 0, out.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut budget,
            &mut written,
            out,
            &mut self.written,
            &mut self.state,
        );
        self.read += read;
        self.check_memory()?;
        let end = match result {
            BrotliResult::NeedsMoreOutput | BrotliResult::NeedsMoreInput => End::NotYet,
            BrotliResult::ResultSuccess => End::Final,
            BrotliResult::ResultFailure => return Err(DecodeError::Malformed),
        };
        Ok(Moved { read, written, end })
    }
}

/// The memory that the decoder's allocators hold.
struct Meter(Mutex<Metering>);

struct Metering {
    share: BudgetShare,
    /// Bytes allocated in total, freed ones included.
    turnover: usize,
    /// Why an allocation was refused.
    refusal: Option<Refusal>,
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, Metering> {
        self.0.lock().expect("nothing panics while this is locked")
    }

    /// Whether `size` bytes may be allocated; small allocations always may.
    fn take(&self, size: usize) -> bool {
        let mut metering = self.lock();
        metering.turnover = metering.turnover.saturating_add(size);
        if size <= SMALL_SIZE_MAX {
            return true;
        }
        match metering.share.grow(size) {
            Ok(()) => true,
            Err(refusal) => {
                metering.refusal = Some(refusal);
                false
            }
        }
    }

    fn free(&self, size: usize) {
        if size > SMALL_SIZE_MAX {
            self.lock().share.shrink(size);
        }
    }
}

/// An allocator for the library that charges memory before it allocates. A refused allocation is empty, which the library treats as a
/// failure.
struct Metered(Arc<Meter>);

/// Memory allocated for the library.
#[derive(Default)]
struct Cells<T>(Vec<T>);

impl<T: Clone + Default> Allocator<T> for Metered {
    type AllocatedMemory = Cells<T>;

    fn alloc_cell(&mut self, count: usize) -> Cells<T> {
        let may_take = self.0.take(count.saturating_mul(size_of::<T>()));
        Cells(if may_take { vec![T::default(); count] } else { Vec::new() })
    }

    fn free_cell(&mut self, cells: Cells<T>) {
        self.0.free(cells.0.len() * size_of::<T>());
    }
}

impl<T> SliceWrapper<T> for Cells<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Cells<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> Index<usize> for Cells<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.0[at]
    }
}

impl<T> IndexMut<usize> for Cells<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.0[at]
    }
}
