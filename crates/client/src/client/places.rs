//! The places that connections lead to: addresses of the settings and DNS records of their names. Places whose engine is shutting down or
//! unavailable are avoided for some seconds.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

/// How long an engine that announced a shutdown, or answered `unavailable`, is used only if no other engine can be reached.
const AVOIDED_FOR: Duration = Duration::from_secs(10);

/// The destination of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The index of its address in the settings.
    pub(crate) address: usize,
    /// The DNS record that was connected to; none in a simulation.
    pub(crate) record: Option<SocketAddr>,
}

/// The state of all places.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Avoided places, each with the time of the last refusal.
    avoided: BTreeMap<Place, Instant>,
    /// The number of DNS records of each address at the last connection to it.
    record_counts: BTreeMap<usize, usize>,
    /// The time of the last new connection to an avoided place, made because there is no other place.
    renewed_at: Option<Instant>,
    /// The end of the pause after no other engine could be reached.
    stuck_until: Option<Instant>,
}

impl Places {
    pub(super) fn avoid(&mut self, place: Place) {
        self.avoided.insert(place, Instant::now());
    }

    pub(super) fn forget_expired(&mut self) {
        let now = Instant::now();
        self.avoided.retain(|_, since| now.saturating_duration_since(*since) < AVOIDED_FOR);
        self.renewed_at = self.renewed_at.filter(|at| now.saturating_duration_since(*at) < AVOIDED_FOR);
        self.stuck_until = self.stuck_until.filter(|until| *until > now);
    }

    /// Whether a new connection to an avoided place may be opened: behind a balancer it may reach another engine. Rate-limited, because
    /// otherwise it only costs a handshake.
    pub(super) fn may_renew(&self) -> bool {
        self.renewed_at.is_none()
    }

    pub(super) fn note_renewal(&mut self) {
        self.renewed_at = Some(Instant::now());
    }

    pub(super) fn note_stuck(&mut self, until: Option<Instant>) {
        self.stuck_until = until;
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stuck_until.is_some()
    }

    /// Stops avoiding a place.
    pub(super) fn forgive(&mut self, place: Place) {
        self.avoided.remove(&place);
    }

    pub(super) fn note_records(&mut self, address: usize, count: usize) {
        self.record_counts.insert(address, count);
    }

    pub(super) fn is_avoided(&self, place: Place) -> bool {
        self.avoided.contains_key(&place)
    }

    /// Whether every known record of an address is avoided.
    pub(super) fn is_address_avoided(&self, address: usize) -> bool {
        let avoided = self.avoided.keys().filter(|place| place.address == address).count();
        avoided >= self.record_counts.get(&address).copied().unwrap_or(1)
    }
}

/// Connects to the first reachable record, starting at the fraction `start` (0 to 1) of the list; avoided records come last. Each record
/// gets an equal part of `limit`, so a record that does not respond leaves time for the others.
///
/// # Errors
/// The error of the last record.
pub(super) async fn connect_any(
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
pub(super) async fn records(address: &str) -> io::Result<Vec<SocketAddr>> {
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
        let mut places = Places::default();
        let place = |address, host| Place { address, record: Some(record(host)) };
        places.avoid(place(0, 1));
        assert!(places.is_address_avoided(0) && !places.is_address_avoided(1), "one record is assumed");
        places.note_records(0, 2);
        assert!(!places.is_address_avoided(0) && places.is_avoided(place(0, 1)) && !places.is_avoided(place(0, 2)));
        places.avoid(place(0, 2));
        places.avoid(place(0, 2));
        assert!(places.is_address_avoided(0));
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_avoided_for_a_while() {
        let mut places = Places::default();
        let place = Place { address: 0, record: None };
        places.avoid(place);
        tokio::time::advance(AVOIDED_FOR - Duration::from_secs(1)).await;
        places.forget_expired();
        assert!(places.is_avoided(place));
        tokio::time::advance(Duration::from_secs(1)).await;
        places.forget_expired();
        assert!(!places.is_avoided(place));
    }

    /// Two listeners on loopback addresses, and one address where nobody listens.
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
