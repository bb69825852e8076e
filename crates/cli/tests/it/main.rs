//! Integration tests of leafseal-cli, in one program, so that it is compiled and linked once.

#[cfg(target_os = "linux")]
mod abandoned;
mod api_keys;
mod audit;
mod audit_sinks;
mod audit_stored;
mod bench;
mod canaries;
mod canary_envelopes;
#[cfg(target_os = "linux")]
mod cluster;
mod common;
mod demo;
mod engine;
mod extract;
mod guides;
mod history;
mod interruption;
mod key_life;
mod large;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod memory_rsa;
#[cfg(target_os = "linux")]
mod packaging;
mod paths;
mod pooler;
mod relay;
mod relay_places;
mod reload;
mod renewal;
#[cfg(target_os = "linux")]
mod replaced_files;
mod rollback;
mod schemes;
mod scripts;
mod shared_store;
mod shutdown;
mod slots;
mod unsealing;
