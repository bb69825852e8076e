//! The `crypto` crate for Node: conversion, and a pool of threads.
//!
//! JavaScript (`lib/`) checks arguments and keeps buffers alive; the native side finds their memory, runs the operation there, and reports
//! a number. Arguments travel in shared memory (`layout`), so that a call with short ones crosses the border with no argument at all.
//! `index.d.ts` documents the package for its users.
#![allow(unsafe_code)]

mod algorithms;
mod batch;
mod delivery;
mod fault;
mod instance;
mod job;
mod js;
mod keys;
mod layout;
mod operation;
mod parallel;
mod pool;
mod priority;
mod register;
mod streams;
mod waker;
