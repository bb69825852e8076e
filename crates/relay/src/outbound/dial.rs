//! Connects to destinations that are not listed, at permitted addresses only.
//!
//! Names are resolved here, and the connection uses the checked address, so that a name cannot resolve to another address after the check.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use leafseal_errors::ErrorCode;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::Unlisted;
use crate::policy::Origin;
use crate::refusal::Refusal;
use crate::upstream::plain;

/// Maximum number of concurrent lookups on one thread: configured destinations need lookup threads too.
const LOOKUPS_MAX: usize = 8;

/// Opens the sockets of one thread.
pub(super) struct Dialer {
    lookups: Arc<Semaphore>,
}

impl Dialer {
    pub(super) fn new() -> Self {
        Dialer { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }

    /// Connects within a time limit.
    ///
    /// # Errors
    /// If the destination does not answer, or is internal and internal destinations are refused.
    pub(super) async fn dial(
        &self,
        origin: &Origin,
        time_max: Duration,
        internal: Unlisted,
    ) -> Result<TcpStream, Refusal> {
        timeout(time_max, self.try_all(origin, internal)).await.unwrap_or_else(|_| {
            let detail = "no connection to the destination: it did not answer in time";
            Err(Refusal::new(ErrorCode::UpstreamTimeout, detail))
        })
    }

    async fn try_all(&self, origin: &Origin, internal: Unlisted) -> Result<TcpStream, Refusal> {
        let addresses = self.addresses(origin).await.map_err(|error| unresolved(&error))?;
        let mut failure = None;
        for address in addresses {
            if internal == Unlisted::Refuse && is_internal(address.ip()) {
                failure = failure.or_else(|| {
                    let detail = "this destination is internal, and unlisted destinations are not to be";
                    Some(Refusal::new(ErrorCode::InternalDestination, detail))
                });
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    // A broken socket is reported when it is used.
                    let _ = socket.set_nodelay(true);
                    return Ok(socket);
                }
                Err(error) => failure = Some(unreachable_because(&error)),
            }
        }
        Err(failure.unwrap_or_else(|| refused("its name has no address")))
    }

    async fn addresses(&self, origin: &Origin) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = origin.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, origin.port)]);
        }
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let (host, port) = (origin.host.clone(), origin.port);
        let looking = tokio::task::spawn_blocking(move || {
            // The system's lookup continues when the caller has gone, and keeps its slot until it ends.
            let _permit = permit;
            (&*host, port).to_socket_addrs().map(Iterator::collect)
        });
        looking.await.map_err(io::Error::other)?
    }
}

fn unreachable_because(error: &io::Error) -> Refusal {
    refused(&format!("it cannot be reached: {}", plain(error)))
}

fn unresolved(error: &io::Error) -> Refusal {
    refused(&format!("its name does not resolve: {}", plain(error)))
}

fn refused(reason: &str) -> Refusal {
    let detail = format!("no connection to the destination: {reason}");
    Refusal::new(ErrorCode::UpstreamUnreachable, detail)
}

/// Whether an address is internal: of this machine or its networks, or not assigned on the Internet (special-purpose registries, RFC 6890).
fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_internal_4(address),
        IpAddr::V6(address) => is_internal_6(address),
    }
}

fn is_internal_4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    match first {
        // This network, private, loopback, multicast and reserved.
        0 | 10 | 127 | 224.. => true,
        100 => second & 0xc0 == 64,
        169 => second == 254,
        172 => second & 0xf0 == 16,
        192 => (second, third) == (0, 0) || (second, third) == (0, 2) || second == 168,
        198 => second & 0xfe == 18 || (second, third) == (51, 100),
        203 => (second, third) == (0, 113),
        _ => false,
    }
}

fn is_internal_6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| is_internal_4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // Unspecified, loopback, and IPv4 addresses in an old form.
        [0, 0, 0, 0, 0, 0, _, _] => true,
        // Translated: outside the well-known prefix, another network decides which IPv4 address it is.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo and other IETF assignments, documentation.
        [0x2001, ..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, ..0x1000, ..] => true,
        // The Internet uses 2000::/3: the rest is local, multicast or unassigned.
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_of_the_internet_are_internal() {
        for internal in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "3fff::1",
            "100::1",
        ] {
            assert!(is_internal(internal.parse().unwrap()), "{internal}");
        }
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.0.0.1",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860::8888",
        ] {
            assert!(!is_internal(public.parse().unwrap()), "{public}");
        }
    }

    /// Regardless of how loopback is written, and whether anything listens there.
    #[test]
    fn internal_destinations_are_called_only_where_that_is_allowed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let patience = Duration::from_secs(60);
        let dial = |host: &str, internal| {
            let origin = Origin { is_tls: true, host: host.into(), port };
            runtime.block_on(async { Dialer::new().dial(&origin, patience, internal).await })
        };
        for host in ["127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0", "127.1"] {
            let refusal = dial(host, Unlisted::Refuse).expect_err(host);
            assert_eq!((refusal.status.as_u16(), refusal.code), (403, ErrorCode::InternalDestination), "{host}");
        }
        assert!(dial("localhost", Unlisted::Tunnel).is_ok());
        let nowhere = dial("256.0.0.1", Unlisted::Tunnel).expect_err("no such address");
        assert_eq!((nowhere.status.as_u16(), nowhere.code), (502, ErrorCode::UpstreamUnreachable));
    }
}
