//! The groups that handshakes agreed on: their names, for logs, and their counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use boring::ssl::SslRef;
use leafseal_config::TlsGroup;

/// The name of a key exchange without a group of ours, such as that of RSA with an upstream over TLS 1.2.
const OTHER: &str = "other";
const COUNT: usize = TlsGroup::ALL.len() + 1;

/// The group that a connection agreed on.
pub fn negotiated_group(ssl: &SslRef) -> &'static str {
    name(index(ssl.curve()))
}

fn index(number: Option<u16>) -> usize {
    TlsGroup::ALL.iter().position(|group| Some(group.number()) == number).unwrap_or(TlsGroup::ALL.len())
}

fn name(index: usize) -> &'static str {
    TlsGroup::ALL.get(index).map_or(OTHER, |group| group.as_str())
}

/// Counts successful handshakes by group.
#[derive(Debug, Default)]
pub struct GroupCounters([AtomicU64; COUNT]);

impl GroupCounters {
    /// Without handshakes.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; COUNT])
    }

    /// Counts a handshake, resumed or not.
    pub fn count(&self, ssl: &SslRef) {
        self.0[index(ssl.curve())].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn get(&self) -> GroupCounts {
        GroupCounts(self.0.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// Handshakes by group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts([u64; COUNT]);

impl GroupCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// Name and count of each group.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.0.into_iter().enumerate().map(|(index, count)| (name(index), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_library() {
        for (number, expected) in
            [(0x11ec, "X25519MLKEM768"), (29, "X25519"), (23, "P-256"), (24, "P-384"), (25, OTHER)]
        {
            assert_eq!(name(index(Some(number))), expected);
        }
        assert_eq!(name(index(None)), OTHER);
    }
}
