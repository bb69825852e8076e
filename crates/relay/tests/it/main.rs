//! Integration tests of leafseal-relay, in one program, so that it is compiled and linked once. Tests that need a process of their own are
//! beside this folder.

mod answers;
mod common;
mod corpus;
mod entry_point;
mod kept_connections;
mod key_exchange;
mod names;
mod overrides;
mod proxy;
mod records;
mod slow_uploads;
mod sources;
mod spellings;
mod steps;
mod upstreams;
