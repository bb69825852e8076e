//! Integration tests of leafseal-keystore: one program, so that it is compiled and linked once.

mod api_keys;
mod backup;
mod common;
mod copy;
mod crash;
mod descent;
mod edits;
mod escrow;
mod extract;
mod file;
mod history;
mod life;
mod log_frames;
mod pem;
mod pooler;
mod postgres;
mod postgres_rights;
mod rollback;
mod rows;
mod scale;
mod slots;
mod store;
mod tampering;
mod upgrade;
