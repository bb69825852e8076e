//! Integration tests of fieldseal-server: one program, so that it is compiled and linked once.
//! What needs a process of its own stands beside this folder.

mod api;
mod bounds;
mod calls;
mod certificates;
mod common;
mod corpus;
mod faults;
mod hostile;
mod leaving;
mod metrics;
mod operator;
mod service;
mod spread;
mod storm;
mod turns;
