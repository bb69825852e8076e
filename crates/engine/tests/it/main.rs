//! Integration tests of leafseal-engine, in one program, so that it is compiled and linked once.

mod api_callers;
mod common;
mod corpus;
mod decisions;
mod engine;
mod lookups;
mod public_keys;
mod reports;
mod shared_store;
mod upkeep;
