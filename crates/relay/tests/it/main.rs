//! Integration tests of fieldseal-relay: one program, so that it is compiled and linked once.
//! What needs a process of its own stands beside this folder.

mod common;
mod corpus;
mod kept_connections;
mod names;
mod records;
mod slow_uploads;
mod upstreams;
