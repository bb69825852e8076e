//! Synchronization primitives: the standard library's, or loom's, which explores every interleaving.

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
