//! Integration tests of leafseal-server, in one program, so that it is compiled and linked once. Tests that need a process of their own
//! are beside this folder.

mod api;
mod blocked_store;
mod bounds;
mod calls;
mod certificates;
mod chains;
mod common;
mod corpus;
mod entry_points;
mod faults;
mod hostile;
mod inline;
mod key_exchange;
mod metrics;
mod operator;
mod sessions;
mod shutdown;
mod spread;
mod storm;
mod turns;
mod unavailable;
