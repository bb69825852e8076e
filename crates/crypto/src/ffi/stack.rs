//! The dead part of a thread's stack, where libraries leave copies of what they computed with.

use std::mem::MaybeUninit;

use boring_sys as bssl;

/// Bytes below the caller's frame that are overwritten: more than a private-key operation of the libraries uses.
const DEAD_SIZE: usize = 16 << 10;

/// Overwrites the stack below the caller's frame: what the functions that it has called left there.
#[inline(never)]
pub fn wipe_dead_stack() {
    let mut dead = MaybeUninit::<[u8; DEAD_SIZE]>::uninit();
    // SAFETY: the bytes are this function's own, and are only written.
    unsafe { bssl::OPENSSL_cleanse(dead.as_mut_ptr().cast(), DEAD_SIZE) }
}
