//! Strangers, whose identity nothing proves: failed handshakes, wrong keys, calls without credentials. They are counted by source and
//! recorded once a minute, in a share of the log that is theirs, so that they can neither fill the log nor crowd out known callers.
//!
//! Sources are counted by *space saving* (Metwally, Agrawal, El Abbadi: "Efficient computation of frequent and top-k elements in data
//! streams", 2005): a new source takes the place of the least frequent one and inherits its count as its error. With `n` places, every
//! source with more than 1/n of all refusals has one, in whatever order they come; the counts of all places add up to all refusals.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use leafseal_engine::audit::RecordText;
use leafseal_net::{AccessRecord, client_of};

use super::text::text_of;

/// How long strangers are counted before records say how often they were refused.
const STRANGERS_INTERVAL: Duration = Duration::from_secs(60);
/// Sources that are counted apart.
const SOURCES_MAX: usize = 128;
/// What the log adds to the text of a record: its time, its length and its hash.
const ADDED_SIZE: usize = 160;
/// Size of the record of all sources that have none of their own.
const OTHERS_SIZE: usize = ADDED_SIZE + 128;
/// A site has so many networks of IPv6, which its owner may use as he likes.
const SITE_BITS: u8 = 48;

/// From where strangers come, and what they show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StrangerSource {
    /// An address of IPv4, or a site of IPv6.
    address: Option<IpAddr>,
    /// What they claim to be.
    caller: &'static str,
    /// The name in a certificate of a known authority: of a stranger that has no grant, or of a relay that brings others' keys. Other names
    /// are whatever strangers write.
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
            address: self.address,
            reason: self.reason.map(Into::into),
            ..AccessRecord::default()
        };
        let mut text = text_of("strangers", &record);
        text.number("requests", requests);
        text
    }
}

/// The site of an address of IPv6; an address of IPv4 is one itself.
fn site_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << (128 - u32::from(SITE_BITS)))).into(),
        address => address,
    }
}

/// How often a source was refused.
#[derive(Debug)]
struct SourceCount {
    /// With `inherited`.
    requests: u64,
    /// What the source has from the one whose place it took.
    inherited: u64,
    /// The network of the site, while there was only one.
    network: Option<IpAddr>,
}

/// Refusals of strangers since the last records of them.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    since: Option<Instant>,
    of_source: BTreeMap<StrangerSource, SourceCount>,
}

impl Strangers {
    /// Counts a refusal.
    pub(super) fn count(&mut self, mut source: StrangerSource, now: Instant) {
        self.since.get_or_insert(now);
        let network = source.address;
        source.address = network.map(site_of);
        if let Some(known) = self.of_source.get_mut(&source) {
            known.requests += 1;
            known.network = known.network.filter(|known| Some(*known) == network);
            return;
        }
        let mut inherited = 0;
        if self.of_source.len() >= SOURCES_MAX {
            let least = self.of_source.iter().min_by_key(|(_, count)| count.requests).map(|(source, _)| source.clone());
            let replaced = least.and_then(|least| self.of_source.remove(&least));
            inherited = replaced.map_or(0, |count| count.requests);
        }
        self.of_source.insert(source, SourceCount { requests: inherited + 1, inherited, network });
    }

    /// Refusals that are counted and not recorded.
    pub(super) fn waiting(&self) -> u64 {
        self.of_source.values().map(|count| count.requests).sum()
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
        let Self { of_source, .. } = std::mem::take(self);
        let mut by_count: Vec<_> = of_source.into_iter().collect();
        // A source has as many as are certain; the rest are of those that it has displaced.
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(count.requests - count.inherited));
        let (mut records, mut left, mut of_others) = (Vec::new(), bytes_max.saturating_sub(OTHERS_SIZE), 0);
        for (mut source, SourceCount { requests, inherited, network }) in by_count {
            let certain = requests - inherited;
            of_others += inherited;
            source.address = network.or(source.address);
            let text = source.text(certain).finish();
            match left.checked_sub(text.len() + ADDED_SIZE) {
                Some(rest) => {
                    left = rest;
                    records.push(text);
                }
                None => of_others += certain,
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

    fn record(records: &[Vec<u8>], address: &str) -> Option<u64> {
        let records = records.iter().map(|record| serde_json::from_slice::<serde_json::Value>(record).expect("JSON"));
        records.into_iter().find(|record| record["address"] == address).and_then(|record| record["requests"].as_u64())
    }

    /// Who comes first with many addresses does not hide who tries often; nor does who comes last.
    #[test]
    fn frequent_sources_are_seen_whatever_others_do() {
        let mut rng = StdRng::seed_from_u64(53);
        for round in 0..20 {
            let (mut strangers, now) = (Strangers::default(), Instant::now());
            let frequent = IpAddr::from([192, 0, 2, 1]);
            let (rare, often) = (20_000, 400);
            let mut order = vec![None; rare];
            match round % 3 {
                0 => order.extend(vec![Some(frequent); often]),
                1 => order.splice(0..0, vec![Some(frequent); often]).for_each(drop),
                _ => (0..often).for_each(|_| order.insert(rng.random_range(0..=order.len()), Some(frequent))),
            }
            for (number, address) in order.iter().enumerate() {
                let other = IpAddr::from((0x0a00_0000 + number as u32).to_be_bytes());
                strangers.count(StrangerSource::handshake(address.unwrap_or(other)), now);
            }
            assert_eq!(strangers.waiting(), order.len() as u64);
            let records = strangers.take(16 << 10);
            let seen = record(&records, "192.0.2.1").expect("seen");
            // All of them, less at most one place's share of all.
            assert!(seen <= often as u64 && seen + (order.len() / SOURCES_MAX) as u64 >= often as u64, "{seen}");
            assert_eq!(requests(&records), order.len() as u64);
        }
    }

    /// The networks of one site of IPv6 are one source; one network alone is named.
    #[test]
    fn a_site_of_ipv6_is_one_source() {
        let (mut strangers, now) = (Strangers::default(), Instant::now());
        let mut count = |address: &str| {
            strangers.count(StrangerSource::handshake(address.parse().expect("an address")), now);
        };
        (0..1000).for_each(|number| count(&format!("2001:db8:1:{number:x}::{number:x}")));
        (0..10).for_each(|number| count(&format!("2001:db8:2:7::{number:x}")));
        (0..10).for_each(|_| count("::ffff:192.0.2.1"));
        let records = strangers.take(16 << 10);
        assert_eq!(record(&records, "2001:db8:1::"), Some(1000));
        assert_eq!(record(&records, "2001:db8:2:7::"), Some(10));
        assert_eq!(record(&records, "192.0.2.1"), Some(10));
        assert_eq!((records.len(), requests(&records)), (3, 1020));
    }
}
