//! The places that connections lead to: addresses of the settings and DNS records of their names. Places whose engine is shutting down or
//! unavailable are avoided for a while.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use crate::rules;

/// The destination of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DialTarget {
    /// The index of its address in the settings.
    pub(crate) address: usize,
    /// The DNS record that was connected to; none in a simulation.
    pub(crate) record: Option<SocketAddr>,
}

/// The state of all places.
#[derive(Debug, Default)]
pub(crate) struct DialTargets {
    avoided: BTreeMap<DialTarget, Avoidance>,
    /// The number of DNS records of each address at the last connection to it.
    record_counts: BTreeMap<usize, usize>,
    /// How often a place was refused.
    refusals: u64,
}

/// Why, and for how long, a place is used only if no other engine can be reached.
#[derive(Clone, Copy, Debug)]
struct Avoidance {
    until: Instant,
    /// The number of its last refusal.
    refusal: u64,
    /// A call that began after the refusal and succeeded ends it.
    until_success: bool,
}

impl DialTargets {
    /// Avoids a place. An avoidance that lasts until its time is over is not shortened.
    pub(crate) fn avoid(&mut self, place: DialTarget, until_success: bool, now: Instant) {
        self.forget_expired(now);
        self.refusals += 1;
        let lasts = self.avoided.get(&place).is_some_and(|avoided| !avoided.until_success);
        let until_success = until_success && !lasts;
        let avoided = Avoidance { until: now + rules::AVOIDED, refusal: self.refusals, until_success };
        self.avoided.insert(place, avoided);
    }

    /// Returns whether there were any.
    pub(crate) fn forget_expired(&mut self, now: Instant) -> bool {
        let count = self.avoided.len();
        if count > 0 {
            self.avoided.retain(|_, avoided| now < avoided.until);
        }
        self.avoided.len() < count
    }

    /// The number of refusals so far.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Whether the success of a call may end an avoidance.
    pub(crate) fn has_refusals(&self) -> bool {
        self.avoided.values().any(|avoided| avoided.until_success)
    }

    /// A call succeeded that began when this many refusals were known.
    pub(crate) fn forgive_refusals(&mut self, place: DialTarget, known: u64) {
        let is_over = |avoided: &Avoidance| avoided.until_success && avoided.refusal <= known;
        if self.avoided.get(&place).is_some_and(is_over) {
            self.avoided.remove(&place);
        }
    }

    /// Stops avoiding a place.
    pub(crate) fn forgive(&mut self, place: DialTarget) {
        self.avoided.remove(&place);
    }

    pub(crate) fn note_records(&mut self, address: usize, count: usize) {
        self.record_counts.insert(address, count);
    }

    pub(crate) fn is_avoided(&self, place: DialTarget) -> bool {
        self.avoided.contains_key(&place)
    }

    /// Whether every known record of an address is avoided.
    pub(crate) fn is_address_avoided(&self, address: usize) -> bool {
        let avoided = self.avoided.keys().filter(|place| place.address == address).count();
        avoided >= self.record_counts.get(&address).copied().unwrap_or(1)
    }
}

/// Connects to the first reachable record, starting at the fraction `start` (0 to 1) of the list; avoided records come last. Each record
/// gets an equal part of `limit`, so a record that does not respond leaves time for the others.
///
/// # Errors
/// The error of the last record.
pub(crate) async fn connect_any(
    records: &mut [SocketAddr],
    start: f64,
    is_avoided: impl Fn(SocketAddr) -> bool,
    limit: Duration,
) -> io::Result<TcpStream> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the number of records")]
    let start = (start * records.len() as f64) as usize;
    let count = records.len().max(1);
    records.rotate_left(start % count);
    records.sort_by_key(|record| is_avoided(*record));
    let limit = limit / u32::try_from(count).unwrap_or(u32::MAX);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for record in &*records {
        match timeout(limit, TcpStream::connect(record)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::Error::new(io::ErrorKind::TimedOut, format!("{record} does not respond")),
        }
    }
    Err(failure)
}

/// Returns the DNS records of an address without duplicates.
pub(crate) async fn records(address: &str) -> io::Result<Vec<SocketAddr>> {
    let mut records = Vec::new();
    for record in lookup_host(address).await? {
        if !records.contains(&record) {
            records.push(record);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(host: u8) -> SocketAddr {
        SocketAddr::from(([127, 88, 0, host], 9))
    }

    #[test]
    fn an_address_is_avoided_with_all_its_records() {
        let mut places = DialTargets::default();
        let place = |address, host| DialTarget { address, record: Some(record(host)) };
        places.avoid(place(0, 1), true, Instant::now());
        assert!(places.is_address_avoided(0) && !places.is_address_avoided(1), "one record is assumed");
        places.note_records(0, 2);
        assert!(!places.is_address_avoided(0) && places.is_avoided(place(0, 1)) && !places.is_avoided(place(0, 2)));
        places.avoid(place(0, 2), true, Instant::now());
        places.avoid(place(0, 2), true, Instant::now());
        assert!(places.is_address_avoided(0));
    }

    /// Two listeners on loopback addresses, and one address without a listener.
    #[tokio::test]
    async fn connections_go_to_records_that_respond_and_are_not_avoided() {
        let listen = async |host| tokio::net::TcpListener::bind((record(host).ip(), 0)).await.expect("bound");
        let listeners = [listen(1).await, listen(2).await];
        let [first, second] = [0, 1].map(|index| listeners[index].local_addr().expect("bound"));
        // No process listens on this loopback address.
        let closed = record(3);
        let reached = async |records: &[SocketAddr], start, avoided: Option<SocketAddr>| {
            let is_avoided = |record| Some(record) == avoided;
            let socket = connect_any(&mut records.to_vec(), start, is_avoided, Duration::from_secs(60)).await;
            socket.and_then(|socket| socket.peer_addr()).ok()
        };
        assert_eq!(reached(&[first, second], 0.0, None).await, Some(first));
        assert_eq!(reached(&[first, second], 0.5, None).await, Some(second));
        assert_eq!(reached(&[first, second], 1.0, None).await, Some(first));
        assert_eq!(reached(&[first, second], 0.0, Some(first)).await, Some(second));
        assert_eq!(reached(&[closed, second], 0.0, None).await, Some(second));
        assert_eq!(reached(&[closed, second], 0.0, Some(second)).await, Some(second));
        assert_eq!(reached(&[closed], 0.0, None).await, None);
        assert_eq!(reached(&[], 0.7, None).await, None);
    }
}
