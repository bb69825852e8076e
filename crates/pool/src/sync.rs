//! What the threads' shell is built of: the standard library's, or loom's, which plays every interleaving of them.

#[cfg(not(all(test, loom)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicIsize, AtomicUsize, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle, current},
};

#[cfg(all(test, loom))]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicIsize, AtomicUsize, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle, current},
};
