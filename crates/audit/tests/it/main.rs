//! Logs in folders: what is acknowledged is there after any end, and what is changed is found.

#[cfg(target_os = "linux")]
mod cost;
mod edits;
mod ends;
mod following;
mod place;
mod pruning;
mod reading;
mod recording;
mod stored;
mod witnesses;
