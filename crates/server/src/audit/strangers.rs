//! Strangers, who have shown no certificate and no key: their refusals are counted by address and recorded once in a while.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use leafseal_net::client_of;

/// How long strangers are counted before a record says how often they were refused.
const STRANGERS_INTERVAL: Duration = Duration::from_secs(60);
/// Addresses of strangers that are counted apart; all others together.
const STRANGERS_MAX: usize = 64;

/// Refusals of strangers since the last record of them.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    since: Option<Instant>,
    of_address: BTreeMap<IpAddr, u64>,
    of_others: u64,
}

impl Strangers {
    /// Counts a refusal.
    pub(super) fn count(&mut self, address: Option<IpAddr>, now: Instant) {
        self.since.get_or_insert(now);
        // One client of IPv6 has many addresses.
        let address = address.map(client_of);
        let has_room = self.of_address.len() < STRANGERS_MAX;
        match address {
            Some(address) if has_room || self.of_address.contains_key(&address) => {
                *self.of_address.entry(address).or_default() += 1;
            }
            _ => self.of_others += 1,
        }
    }

    /// What is to be recorded, once that is due: refusals by address, and those of all others.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(Option<IpAddr>, u64)> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) < STRANGERS_INTERVAL) {
            return Vec::new();
        }
        let Self { of_address, of_others, .. } = std::mem::take(self);
        let others = (of_others > 0).then_some((None, of_others));
        of_address.into_iter().map(|(address, refusals)| (Some(address), refusals)).chain(others).collect()
    }
}
