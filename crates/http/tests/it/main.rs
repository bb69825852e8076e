//! Integration tests of leafseal-http, in one program, so that it is compiled and linked once.

mod common;
mod corpus;
mod listener;
mod private_keys;
