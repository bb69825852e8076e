//! Defines a client of a listener, and the exemptions from limits per client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use leafseal_config::ListItem;
use thiserror::Error;

/// Returns the client that an address belongs to: an IPv4 address, or a /64 network of IPv6, of which a client usually has all addresses.
pub fn client_of(address: IpAddr) -> IpAddr {
    const NETWORK: u128 = !0 << 64;
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address => address,
    }
}

/// An address, or a network in CIDR notation such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The text is neither an address nor a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("write an IP address or a network without host bits, such as 10.1.2.3, 10.0.0.0/8 or 2001:db8::/48")]
pub struct NetworkError;

impl Network {
    /// Whether the network contains an address. An IPv4 address mapped into IPv6 counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_same_family = address.is_ipv4() == self.address.is_ipv4();
        is_same_family && bits(address) & mask(self.prefix, width(address)) == bits(self.address)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A mask of the first `prefix` of `width` bits.
fn mask(prefix: u8, width: u8) -> u128 {
    let whole = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    whole & u128::MAX.checked_shl(u32::from(width - prefix)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
        let prefix = match prefix {
            // `parse` would accept a sign.
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse().map_err(|_| NetworkError)?
            }
            Some(_) => return Err(NetworkError),
            None => width(address),
        };
        if prefix > width(address) || bits(address) & !mask(prefix, width(address)) != 0 {
            return Err(NetworkError);
        }
        Ok(Network { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix == width(self.address) {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

/// A list of networks as the value of a setting.
pub const NETWORKS: ListItem = ListItem {
    about: "IP addresses and networks, such as [\"10.1.2.3\", \"10.2.0.0/16\"]",
    is_valid: |text| text.parse::<Network>().is_ok(),
};

/// The limit on the connections of one client, and the balancers exempt from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientBound {
    /// Maximum number of connections per client (see [`client_of`]); at least 1.
    pub connections_max: usize,
    /// Load balancers and proxies that connect from their own address for all clients behind them.
    pub trusted_balancers: Vec<Network>,
}

impl ClientBound {
    /// The client that a connection counts to; `None` for a trusted balancer.
    pub fn client(&self, address: IpAddr) -> Option<IpAddr> {
        client_of_unless(address, &self.trusted_balancers)
    }
}

/// The client that a connection counts to; `None` for one of these balancers.
pub fn client_of_unless(address: IpAddr, trusted_balancers: &[Network]) -> Option<IpAddr> {
    let is_balancer = trusted_balancers.iter().any(|network| network.contains(address));
    (!is_balancer).then(|| client_of(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        for (address, client) in [
            ("10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ] {
            assert_eq!(client_of(ip(address)), ip(client), "{address}");
        }
    }

    #[test]
    fn networks_are_read_and_contain_their_addresses() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("10.1.2.3", "::ffff:10.1.2.3", "10.1.2.4"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("2001:db8::/48", "2001:db8:0:1::1", "2001:db8:1::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("::1", "::1", "::2"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(ip(inside)) && !parsed.contains(ip(outside)), "{network}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{network}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/+8", "10.0.0.0/", "10.0.0/8", "::/129", "host", "a/b"]
        {
            assert_eq!(wrong.parse::<Network>(), Err(NetworkError), "{wrong}");
        }
    }

    #[test]
    fn a_trusted_balancer_counts_to_no_client() {
        let bound = ClientBound { connections_max: 1, trusted_balancers: vec!["10.0.0.0/8".parse().unwrap()] };
        assert_eq!((bound.client(ip("::ffff:10.9.9.9")), bound.client(ip("9.9.9.9"))), (None, Some(ip("9.9.9.9"))));
    }
}
