//! The `crypto` crate for Java: conversion only.
//!
//! Java (`../jca`) checks arguments, ranges and states; a native method finds the memory, computes, and returns a number. Native methods
//! never call Java. Each catches panics, which would otherwise end the process, and throws `java.lang.InternalError` instead.
//!
//! Memory of arrays is borrowed in critical sections of at most [`memory::PIECE_SIZE`] bytes, because the collector may have to wait for
//! their end; short ranges are copied. Objects that Java holds as a `long` are described in `objects`.
#![allow(unsafe_code)]
// The arguments of a native method are those of its declaration in Native.java.
#![allow(clippy::too_many_arguments)]

mod aead;
mod asymmetric;
mod buffer;
mod cipher;
mod hash;
mod jvm;
mod library;
mod memory;
mod objects;
