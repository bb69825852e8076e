//! BoringSSL's heap: private keys of TLS, session keys, and what parses and computes with them, and what the program allocates in
//! [`in_guarded_memory`](super::allocator::in_guarded_memory). Once the process has called
//! [`guard_secrets`](super::guarded::guard_secrets) it is memory that core dumps leave out and copies of the process find empty; before
//! that, in other processes, and for long blocks, it is the C library's, as without this module. Freed blocks are overwritten in both.
//!
//! ```text
//! reserved addresses (RESERVED_SIZE): regions of 64 KiB, each with blocks of one class, for one shard of the threads
//! ```
//!
//! BoringSSL calls these functions while it holds locks, and in destructors of threads: they call nothing but the C library, and wait for
//! no lock that is held for longer than a few instructions. A shard's blocks return to it, whatever thread frees them.

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Addresses that are reserved for regions. Memory is taken from the system as it is needed.
const RESERVED_SIZE: usize = 16 << 30;
/// Bytes of a region: a multiple of every page size in use.
const REGION_SIZE: usize = 64 << 10;
/// Bytes by which the usable part of the reserved addresses grows.
const GROWTH_SIZE: usize = 16 * REGION_SIZE;
/// Threads take turns in choosing one: more shards than network threads of a large machine.
const SHARD_COUNT: usize = 32;
/// Bytes of the blocks of each class. Every block starts at a multiple of 16.
const CLASS_SIZES: [usize; 22] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576,
    32768,
];
/// Bytes before a block of the C library's, which hold its size.
const PREFIX_SIZE: usize = 16;
/// Nothing that is allocated lies within [`RESERVED_SIZE`] of it.
const NOWHERE: usize = 1 << 63;

/// Where the reserved addresses start; [`NOWHERE`] while BoringSSL's heap is the C library's.
static BASE: AtomicUsize = AtomicUsize::new(NOWHERE);
/// Bytes of the reserved addresses that have become regions.
static TAKEN: Mutex<usize> = Mutex::new(0);
/// Bytes of the reserved addresses that are usable.
static USABLE: AtomicUsize = AtomicUsize::new(0);
/// Class and shard of each region.
static REGIONS: [AtomicU16; RESERVED_SIZE / REGION_SIZE] = [const { AtomicU16::new(0) }; RESERVED_SIZE / REGION_SIZE];
static SHARDS: [Mutex<Shard>; SHARD_COUNT] = [const { Mutex::new(Shard::EMPTY) }; SHARD_COUNT];

/// The blocks of some threads that nobody uses, of each class.
struct Shard([FreeBlocks; CLASS_SIZES.len()]);

/// Addresses; zero for none.
#[derive(Clone, Copy)]
struct FreeBlocks {
    /// The block that was freed last: zeros, except for the address of the one that was freed before it.
    newest: usize,
    /// The rest of a region, whose blocks were never used.
    fresh: usize,
    end: usize,
}

impl Shard {
    const EMPTY: Self = Self([FreeBlocks { newest: 0, fresh: 0, end: 0 }; CLASS_SIZES.len()]);
}

/// Makes it the heap of what BoringSSL allocates from now on. Without addresses for it, the heap stays the C library's.
pub(super) fn enable() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at an address that the kernel chooses touches no other memory.
    let base = unsafe { libc::mmap(null_mut(), RESERVED_SIZE, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return;
    }
    for advice in [libc::MADV_DONTDUMP, libc::MADV_WIPEONFORK] {
        // SAFETY: the mapping above is private and anonymous, as the advice requires. A kernel that does not know it ignores it.
        unsafe { libc::madvise(base, RESERVED_SIZE, advice) };
    }
    if BASE.compare_exchange(NOWHERE, base as usize, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: the mapping above, which nobody else knows of.
        unsafe { libc::munmap(base, RESERVED_SIZE) };
    }
}

/// Bytes that the heap has taken from the system.
pub(super) fn usable_size() -> usize {
    USABLE.load(Ordering::Relaxed)
}

/// Whether there is such a heap.
pub(super) fn is_enabled() -> bool {
    BASE.load(Ordering::Relaxed) != NOWHERE
}

/// A block for a value of this layout; `None` where another allocator is to give it.
pub(super) fn allocate(layout: Layout) -> Option<*mut u8> {
    // Regions start at pages: blocks of a multiple of 64 bytes at multiples of 64.
    let size = match layout.align() {
        ..=16 => layout.size(),
        17..=64 => layout.size().next_multiple_of(64),
        _ => return None,
    };
    take(size).map(<*mut c_void>::cast)
}

/// The usable bytes of a block of this heap, `None` for any other.
pub(super) fn usable_size_of(place: *mut u8) -> Option<usize> {
    place_of(place.cast()).map(|(class, _)| CLASS_SIZES[class])
}

/// Frees a block of [`allocate`], and overwrites it.
///
/// # Safety
/// [`usable_size_of`] has returned its size, and it is not used any more.
pub(super) unsafe fn free(place: *mut u8) {
    // SAFETY: BoringSSL's blocks are of this heap, too.
    unsafe { OPENSSL_memory_free(place.cast()) }
}

/// The class of blocks with at least `size` bytes.
fn class_of(size: usize) -> Option<usize> {
    (size <= CLASS_SIZES[CLASS_SIZES.len() - 1]).then(|| CLASS_SIZES.partition_point(|class_size| *class_size < size))
}

/// The shard of this thread.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Without a destructor, so that it may be used in those of other variables.
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(SHARD_COUNT) });
    SHARD.with(|shard| {
        if shard.get() == SHARD_COUNT {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARD_COUNT);
        }
        shard.get()
    })
}

/// A block of `size` bytes, `None` where the C library is to give it.
fn take(size: usize) -> Option<*mut c_void> {
    let base = BASE.load(Ordering::Acquire);
    if base == NOWHERE {
        return None;
    }
    let (class, shard) = (class_of(size)?, own_shard());
    let mut blocks = SHARDS[shard].lock().unwrap_or_else(PoisonError::into_inner);
    let blocks = &mut blocks.0[class];
    if blocks.newest != 0 {
        let block = blocks.newest as *mut usize;
        // SAFETY: a free block of this heap, whose first bytes are the address of another or zero.
        blocks.newest = unsafe { block.replace(0) };
        return Some(block.cast());
    }
    if blocks.fresh + CLASS_SIZES[class] > blocks.end {
        let region = take_region(base)?;
        REGIONS[(region - base) / REGION_SIZE].store((class << 8 | shard) as u16, Ordering::Release);
        (blocks.fresh, blocks.end) = (region, region + REGION_SIZE);
    }
    let block = blocks.fresh;
    blocks.fresh += CLASS_SIZES[class];
    Some(block as *mut c_void)
}

/// The address of a region that was never used, if there is one.
fn take_region(base: usize) -> Option<usize> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if *taken == USABLE.load(Ordering::Relaxed) {
        let end = *taken + GROWTH_SIZE;
        if end > RESERVED_SIZE {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: addresses of the reserved mapping, which nothing refers to yet.
        if unsafe { libc::mprotect((base + *taken) as *mut c_void, GROWTH_SIZE, protection) } != 0 {
            return None;
        }
        USABLE.store(end, Ordering::Relaxed);
    }
    let region = base + *taken;
    *taken += REGION_SIZE;
    Some(region)
}

/// Class and shard of a block, `None` for one of the C library's.
fn place_of(block: *mut c_void) -> Option<(usize, usize)> {
    let offset = (block as usize).wrapping_sub(BASE.load(Ordering::Acquire));
    let place = usize::from(REGIONS.get(offset / REGION_SIZE)?.load(Ordering::Acquire));
    Some((place >> 8, place & 0xff))
}

/// BoringSSL's `OPENSSL_malloc`.
#[unsafe(no_mangle)]
extern "C" fn OPENSSL_memory_alloc(size: usize) -> *mut c_void {
    take(size).unwrap_or_else(|| {
        let Some(whole) = size.checked_add(PREFIX_SIZE) else { return null_mut() };
        // SAFETY: there is room for the prefix, which is aligned for its number.
        unsafe {
            let block = libc::malloc(whole);
            if block.is_null() {
                return block;
            }
            block.cast::<usize>().write(size);
            block.add(PREFIX_SIZE)
        }
    })
}

/// BoringSSL's `OPENSSL_free`: overwrites the block.
///
/// # Safety
/// The block is one of [`OPENSSL_memory_alloc`], and not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn OPENSSL_memory_free(block: *mut c_void) {
    let Some((class, shard)) = place_of(block) else {
        // SAFETY: a block of the C library's, whose prefix holds its size; the caller has given it up.
        unsafe {
            let start = block.sub(PREFIX_SIZE);
            boring_sys::OPENSSL_cleanse(start, PREFIX_SIZE + start.cast::<usize>().read());
            return libc::free(start);
        }
    };
    // SAFETY: the block has the bytes of its class, and its owner has given it up.
    unsafe { boring_sys::OPENSSL_cleanse(block, CLASS_SIZES[class]) };
    let mut blocks = SHARDS[shard].lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: as above; no block is shorter than an address.
    unsafe { block.cast::<usize>().write(blocks.0[class].newest) };
    blocks.0[class].newest = block as usize;
}

/// The usable bytes of a block.
///
/// # Safety
/// The block is one of [`OPENSSL_memory_alloc`].
#[unsafe(no_mangle)]
unsafe extern "C" fn OPENSSL_memory_get_size(block: *mut c_void) -> usize {
    match place_of(block) {
        Some((class, _)) => CLASS_SIZES[class],
        // SAFETY: a block of the C library's, whose prefix holds its size.
        None => unsafe { block.sub(PREFIX_SIZE).cast::<usize>().read() },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    /// A block, whose bytes all have one value until it is freed.
    struct Block {
        place: *mut u8,
        size: usize,
        value: u8,
    }

    // SAFETY: memory of the whole process, to which nothing else refers.
    unsafe impl Send for Block {}

    impl Block {
        fn new(size: usize, value: u8) -> Self {
            let place = OPENSSL_memory_alloc(size).cast::<u8>();
            assert_eq!(place as usize % 16, 0);
            // SAFETY: the block has that many bytes.
            unsafe {
                assert!(OPENSSL_memory_get_size(place.cast()) >= size);
                place.write_bytes(value, size);
            }
            Self { place, size, value }
        }

        fn is_in_regions(&self) -> bool {
            place_of(self.place.cast()).is_some()
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: the block's own bytes, which are freed once and, in regions, stay readable.
            unsafe {
                let bytes = std::slice::from_raw_parts(self.place, self.size);
                assert!(bytes.iter().all(|byte| *byte == self.value), "another block's bytes");
                OPENSSL_memory_free(self.place.cast());
            }
        }
    }

    /// Sizes around those of every class, and longer ones.
    fn sizes() -> impl Iterator<Item = usize> {
        CLASS_SIZES.into_iter().flat_map(|size| [size - 1, size, size + 1]).chain([0, 1, 100_000])
    }

    #[test]
    fn values_of_lanes_are_aligned() {
        enable();
        for size in (1..=33_000).step_by(31) {
            for align in [1, 16, 32, 64] {
                let layout = Layout::from_size_align(size, align).expect("valid");
                let Some(place) = allocate(layout) else { continue };
                assert_eq!(place as usize % align, 0, "{size}");
                assert!(usable_size_of(place).expect("its own") >= size);
                // SAFETY: the block from above, which is not used any more.
                unsafe { free(place) };
            }
        }
        assert!(allocate(Layout::from_size_align(64, 128).expect("valid")).is_none());
        assert!(usable_size_of(std::ptr::from_mut(&mut 7_u8)).is_none());
    }

    #[test]
    fn blocks_are_apart_and_overwritten_when_they_are_freed() {
        let before = Block::new(40, 1);
        // Another test of the process may have been faster.
        let was_before = !is_enabled();
        enable();
        enable();
        assert!(!was_before || !before.is_in_regions(), "where it was");
        let blocks: Vec<Block> = (1..=250).flat_map(|value| sizes().map(move |size| Block::new(size, value))).collect();
        for block in &blocks {
            assert_eq!(block.is_in_regions(), block.size <= 32768, "{}", block.size);
        }
        let freed: BTreeSet<usize> = blocks.iter().map(|block| block.place as usize).collect();
        drop(blocks);
        // Threads of other tests may have taken some.
        let mut reused = 0;
        for size in sizes().filter(|size| *size <= 32768) {
            let place = OPENSSL_memory_alloc(size);
            // SAFETY: the block has as many bytes; those of regions are zeros at first, and were written to before they were freed.
            let bytes = unsafe { std::slice::from_raw_parts(place.cast::<u8>(), size) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size}");
            reused += usize::from(freed.contains(&(place as usize)));
            // SAFETY: the block from above, which is not used any more.
            unsafe { OPENSSL_memory_free(place) };
        }
        assert!(reused > CLASS_SIZES.len(), "{reused}");
    }

    /// A thread allocates what another frees: as blocks return to where they came from, few are ever made.
    #[test]
    fn blocks_that_another_thread_frees_are_used_again() {
        const ROUNDS: usize = 20_000;
        const WAITING_MAX: usize = 50;
        enable();
        let (sender, receiver) = sync_channel::<Block>(WAITING_MAX);
        let freeing = thread::spawn(move || receiver.into_iter().for_each(drop));
        let mut places = BTreeSet::new();
        for round in 0..ROUNDS {
            let block = Block::new(2000, round as u8);
            places.insert(block.place as usize);
            sender.send(block).expect("it listens");
        }
        drop(sender);
        freeing.join().expect("every block was whole");
        assert!(places.len() < ROUNDS / 10, "{}", places.len());
    }

    #[test]
    fn the_memory_is_not_dumped_and_empty_in_copies_of_the_process() {
        enable();
        let block = Block::new(100, 1);
        assert!(usable_size() > 0 && block.is_in_regions());
        let address = block.place as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let mut is_it = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text: &str| usize::from_str_radix(text, 16).ok();
            let bounds = range.and_then(|(low, high)| Some(number(low)?..number(high)?));
            is_it = bounds.map_or(is_it, |bounds| bounds.contains(&address));
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_it) {
                assert!(flags.contains(" dd ") && flags.contains(" wf "), "{flags}");
                return;
            }
        }
        panic!("no mapping at {address:x}");
    }
}
