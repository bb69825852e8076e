//! The only unsafe code of this crate: thin calls into BoringSSL and libsecp256k1. Each function checks lengths in its types,
//! passes pointers that outlive the call, and turns return codes into values; [`allocator`] wipes what is freed. Nothing here keeps a
//! secret beyond its call except [`aead::Context`] and [`gcm_stream::GcmStream`], which wipe themselves, [`guarded`], the memory of
//! secrets that live long, and `library_heap`, that of BoringSSL. Besides, calls into the C library by which [`process_mark`] detects forks
//! and [`fork_barrier`] delays them, and into the kernel for random numbers.
#![allow(unsafe_code)]

pub(crate) mod aead;
pub(crate) mod allocator;
pub(crate) mod digest;
pub(crate) mod ecdsa;
pub(crate) mod ed25519;
pub(crate) mod fork_barrier;
pub(crate) mod gcm_stream;
pub(crate) mod guarded;
pub(crate) mod hash;
pub(crate) mod hpke;
pub(crate) mod k256;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod library_heap;
mod number;
pub(crate) mod p256;
pub(crate) mod process_mark;
pub(crate) mod rsa;
pub(crate) mod stack;
pub(crate) mod stream_cipher;
pub(crate) mod system_random;
pub(crate) mod tickets;
pub(crate) mod wiped;

use std::ffi::CStr;

/// `BoringSSL` and the version that it reports.
pub(crate) fn boringssl_version() -> String {
    // SAFETY: the function returns a pointer to a static NUL-terminated string.
    let text = unsafe { CStr::from_ptr(boring_sys::OpenSSL_version(0)) };
    text.to_string_lossy().into_owned()
}

/// Empties this thread's error queue, which BoringSSL fills on a failed call, so that a TLS connection on the same thread does
/// not take the entry for one of its own.
fn clear_errors() {
    // SAFETY: touches only the calling thread's error queue.
    unsafe { boring_sys::ERR_clear_error() }
}
