//! Integration tests of leafseal-envelope: one program, so that it is compiled and linked once.

mod commitment;
mod common;
mod corpus;
mod sdk_vectors;
mod seal_and_open;
mod symmetric;
