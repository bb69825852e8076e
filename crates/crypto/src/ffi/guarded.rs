//! Memory for secrets that live long: whole pages that core dumps leave out, that copies of the process find empty, and that are not
//! swapped where the system allows it. Used once the process has called [`guard_secrets`]; before that, and in processes that never do,
//! such secrets are on the heap, so that a program which forks keeps its keys in the copy.
//!
//! ```text
//! region (64 KiB, mapped once, never returned): slots of 32 bytes; a list of free slots is kept outside
//! ```

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::wiped::wipe;

/// Bytes of a slot.
pub(crate) const SLOT_SIZE: usize = 32;
/// Bytes of a region: a multiple of every page size in use.
const REGION_SIZE: usize = 64 << 10;

type SlotBytes = [u8; SLOT_SIZE];

/// The memory that the secrets of this process take, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuardedMemory {
    /// Of all regions.
    pub mapped: usize,
    /// Of those that are not swapped.
    pub locked: usize,
    /// Of BoringSSL's heap, which is not dumped, but may be swapped.
    pub library: usize,
}

impl GuardedMemory {
    /// The current figures.
    pub fn current() -> Self {
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        let library = super::library_heap::usable_size();
        #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
        let library = 0;
        Self { library, ..arena().figures }
    }
}

/// Guards secrets that are made from now on. `on_unlocked` is called once, when the system refuses to lock memory: the secrets are then
/// guarded in every other way. How much may be locked is the system's limit (`RLIMIT_MEMLOCK`).
pub fn guard_secrets(on_unlocked: fn(&std::io::Error)) {
    arena().on_unlocked = Some(on_unlocked);
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    super::library_heap::enable();
    IS_GUARDING.store(true, Ordering::Release);
}

static IS_GUARDING: AtomicBool = AtomicBool::new(false);
static ARENA: Mutex<Arena> = Mutex::new(Arena {
    free: Vec::new(),
    figures: GuardedMemory { mapped: 0, locked: 0, library: 0 },
    on_unlocked: None,
});

struct Arena {
    free: Vec<FreeSlot>,
    figures: GuardedMemory,
    on_unlocked: Option<fn(&std::io::Error)>,
}

/// A slot that nobody uses.
struct FreeSlot(NonNull<SlotBytes>);

// SAFETY: memory of the whole process, to which nothing else refers.
unsafe impl Send for FreeSlot {}

fn arena() -> MutexGuard<'static, Arena> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arena {
    /// An empty slot; why it could not be locked, for the one who is to learn it.
    fn take(&mut self) -> (NonNull<SlotBytes>, Option<Unlocked>) {
        let unlocked = if self.free.is_empty() { self.grow() } else { None };
        let FreeSlot(slot) = self.free.pop().expect("a region has slots");
        (slot, unlocked)
    }

    fn grow(&mut self) -> Option<Unlocked> {
        let (region, locked) = map_region();
        self.figures.mapped += REGION_SIZE;
        // SAFETY: the region has that many bytes, and is aligned to a page.
        let slot = |index: usize| FreeSlot(unsafe { region.cast::<SlotBytes>().add(index) });
        self.free.extend((0..REGION_SIZE / SLOT_SIZE).rev().map(slot));
        match locked {
            Ok(()) => {
                self.figures.locked += REGION_SIZE;
                None
            }
            Err(error) => self.on_unlocked.take().map(|report| Unlocked { report, error }),
        }
    }
}

/// A refusal to lock memory, reported outside of the arena's lock.
struct Unlocked {
    report: fn(&std::io::Error),
    error: std::io::Error,
}

/// Maps a region of zeros, and says whether it is locked.
#[cfg(unix)]
fn map_region() -> (NonNull<u8>, std::io::Result<()>) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address that the kernel chooses touches no other memory.
    let region = unsafe { libc::mmap(std::ptr::null_mut(), REGION_SIZE, protection, flags, -1, 0) };
    assert_ne!(region, libc::MAP_FAILED, "the system is out of memory");
    #[cfg(target_os = "linux")]
    for advice in [libc::MADV_DONTDUMP, libc::MADV_WIPEONFORK] {
        // SAFETY: the mapping above is private and anonymous, as the advice requires. A kernel that does not know it ignores it.
        unsafe { libc::madvise(region, REGION_SIZE, advice) };
    }
    // SAFETY: the mapping above.
    let locked = match unsafe { libc::mlock(region, REGION_SIZE) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    (NonNull::new(region.cast()).expect("a mapping is not at 0"), locked)
}

/// From the heap, where there are no such pages.
#[cfg(not(unix))]
fn map_region() -> (NonNull<u8>, std::io::Result<()>) {
    let region = Box::leak(vec![0_u8; REGION_SIZE].into_boxed_slice());
    (NonNull::from(region).cast(), Err(std::io::ErrorKind::Unsupported.into()))
}

/// Bytes of a secret. Wiped on drop.
pub(crate) struct GuardedSlot {
    place: NonNull<SlotBytes>,
    is_guarded: bool,
}

// SAFETY: owns its bytes as a `Box` does.
unsafe impl Send for GuardedSlot {}
// SAFETY: a shared slot is only read.
unsafe impl Sync for GuardedSlot {}

impl GuardedSlot {
    /// Zeros.
    pub(crate) fn zeroed() -> Self {
        if !IS_GUARDING.load(Ordering::Acquire) {
            return Self { place: NonNull::from(Box::leak(Box::new([0; SLOT_SIZE]))), is_guarded: false };
        }
        let (place, unlocked) = arena().take();
        if let Some(Unlocked { report, error }) = unlocked {
            report(&error);
        }
        Self { place, is_guarded: true }
    }

    pub(crate) fn bytes(&self) -> &SlotBytes {
        // SAFETY: the slot is this value's own until it is dropped, and is initialised.
        unsafe { self.place.as_ref() }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut SlotBytes {
        // SAFETY: as in `bytes`; the value is exclusively borrowed.
        unsafe { self.place.as_mut() }
    }
}

impl Drop for GuardedSlot {
    fn drop(&mut self) {
        wipe(self.bytes_mut());
        if self.is_guarded {
            arena().free.push(FreeSlot(self.place));
        } else {
            // SAFETY: `zeroed` leaked this box, and nothing refers to it any more.
            drop(unsafe { Box::from_raw(self.place.as_ptr()) });
        }
    }
}
