//! Strangers, whose identity nothing proves: failed handshakes, wrong keys, calls without credentials. They are counted by source and
//! recorded once a minute, in a share of the log that is theirs, so that they can neither fill the log nor crowd out known callers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use leafseal_engine::audit::RecordText;
use leafseal_net::{AccessRecord, client_of};

use super::text::text_of;

/// How long strangers are counted before records say how often they were refused.
const STRANGERS_INTERVAL: Duration = Duration::from_secs(60);
/// Sources that are counted apart; all others together.
const SOURCES_MAX: usize = 64;
/// What the log adds to the text of a record: its time, its length and its hash.
const ADDED_SIZE: usize = 160;
/// Size of the record of all sources that have none of their own.
const OTHERS_SIZE: usize = ADDED_SIZE + 128;

/// From where strangers come, and what they show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StrangerSource {
    /// One client of IPv6 has many addresses.
    address: Option<IpAddr>,
    /// What they claim to be.
    caller: &'static str,
    /// The name in a certificate of a known authority that has no grant. Other names are whatever strangers write.
    client: Option<String>,
    reason: Option<&'static str>,
}

impl StrangerSource {
    /// A caller of this kind at an address; `client` is the name in its certificate.
    pub(super) fn caller(address: Option<IpAddr>, caller: &'static str, client: Option<&str>) -> Self {
        Self { address: address.map(client_of), caller, client: client.map(str::to_owned), reason: None }
    }

    /// A peer whose TLS handshake failed.
    pub(super) fn handshake(address: IpAddr) -> Self {
        Self { reason: Some("the TLS handshake failed"), ..Self::caller(Some(address), "anonymous", None) }
    }

    fn text(&self, requests: u64) -> RecordText {
        let record = AccessRecord {
            caller: Some(self.caller.into()),
            client: self.client.as_deref().map(Into::into),
            address: self.address.map(|address| address.to_string().into()),
            reason: self.reason.map(Into::into),
            ..AccessRecord::default()
        };
        text_of("strangers", &record).number("requests", requests)
    }
}

/// Refusals of strangers since the last records of them.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    since: Option<Instant>,
    of_source: BTreeMap<StrangerSource, u64>,
    of_others: u64,
}

impl Strangers {
    /// Counts a refusal.
    pub(super) fn count(&mut self, source: StrangerSource, now: Instant) {
        self.since.get_or_insert(now);
        let has_room = self.of_source.len() < SOURCES_MAX || self.of_source.contains_key(&source);
        let count = if has_room { self.of_source.entry(source).or_default() } else { &mut self.of_others };
        *count += 1;
    }

    /// The records that are due, which take at most `bytes_max` in the log: those of the most frequent sources, and one of all others.
    pub(super) fn take_due(&mut self, now: Instant, bytes_max: usize) -> Vec<Vec<u8>> {
        match self.since {
            Some(since) if now.saturating_duration_since(since) >= STRANGERS_INTERVAL => self.take(bytes_max),
            _ => Vec::new(),
        }
    }

    /// The same before they are due, at the end.
    pub(super) fn take(&mut self, bytes_max: usize) -> Vec<Vec<u8>> {
        let Self { of_source, mut of_others, .. } = std::mem::take(self);
        let mut by_count: Vec<_> = of_source.into_iter().collect();
        by_count.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
        let (mut records, mut left) = (Vec::new(), bytes_max.saturating_sub(OTHERS_SIZE));
        for (source, requests) in by_count {
            let text = source.text(requests).finish();
            match left.checked_sub(text.len() + ADDED_SIZE) {
                Some(rest) => {
                    left = rest;
                    records.push(text);
                }
                None => of_others += requests,
            }
        }
        if of_others > 0 {
            records.push(RecordText::new("strangers").number("requests", of_others).finish());
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    fn requests(records: &[Vec<u8>]) -> u64 {
        let count = |record: &Vec<u8>| {
            let record: serde_json::Value = serde_json::from_slice(record).expect("JSON");
            record["requests"].as_u64().expect("a number")
        };
        records.iter().map(count).sum()
    }

    /// Whatever strangers do for some minutes, the log grows by at most their share for each, and every refusal is counted.
    #[test]
    fn strangers_have_their_share_of_the_log_and_no_more() {
        let mut rng = StdRng::seed_from_u64(52);
        for bytes_max in [1 << 10, 4 << 10, 1 << 20] {
            let (mut strangers, start) = (Strangers::default(), Instant::now());
            let (mut now, mut counted, mut recorded, mut grown) = (start, 0, 0, 0);
            for _ in 0..20_000 {
                now += Duration::from_millis(rng.random_range(0..100));
                let address = IpAddr::from([10, 0, rng.random_range(0..3), rng.random_range(0..=255)]);
                let name = format!("{:x<64}", rng.random_range(0..50_u8));
                let source = match rng.random_range(0..4) {
                    0 => StrangerSource::handshake(address),
                    1 => StrangerSource::caller(Some(address), "api-key", None),
                    2 => StrangerSource::caller(Some(address), "client", Some(&name)),
                    _ => StrangerSource::caller(None, "anonymous", None),
                };
                strangers.count(source, now);
                counted += 1;
                if rng.random_bool(0.1) {
                    let records = strangers.take_due(now, bytes_max);
                    recorded += requests(&records);
                    grown += records.iter().map(|record| record.len() + ADDED_SIZE).sum::<usize>();
                }
                let minutes = usize::try_from((now - start).as_secs() / 60).expect("few");
                assert!(grown <= bytes_max * minutes, "{grown} bytes in {minutes} minutes");
            }
            let last = strangers.take(bytes_max);
            assert_eq!(recorded + requests(&last), counted);
            assert!(last.iter().map(|record| record.len() + ADDED_SIZE).sum::<usize>() <= bytes_max);
        }
    }
}
