//! Hosts in one canonical form, so that every spelling of a host meets the same rules, and nothing else is ever named in a certificate.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// Maximum length of a name in bytes, without a dot at its end (RFC 1035, section 2.3.4: 255 bytes as DNS encodes it).
const NAME_SIZE_MAX: usize = 253;
/// Maximum length of a label in bytes (RFC 1035, section 2.3.4).
const LABEL_SIZE_MAX: usize = 63;

/// A host name or an address. Two that name the same host are equal: case, a dot at the end of a name, the spelling of an IPv6 address
/// and the IPv6 form of an IPv4 address do not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name in lower case, without a dot at its end.
    Name(Box<str>),
    /// An address; one that maps an IPv4 address is that address.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// Not a host name.
    #[error(
        "a host name must have labels of 1 to 63 letters of ASCII, digits, \"-\" and \"_\", without \"-\" at either end of one, and at \
         most 253 bytes; write other names in their ASCII form, \"xn--\""
    )]
    Name,
    /// It ends in a number, which many programs read as an IPv4 address in another notation.
    #[error("a host whose last label is a number must be an IPv4 address of four decimal numbers")]
    Number,
    /// Not an IPv6 address.
    #[error("an IPv6 address must be valid and have no zone")]
    Address,
    /// Not a port.
    #[error("a port must be a number from 1 to 65535")]
    Port,
}

impl Host {
    /// Reads a name or an address; one of IPv6 may have brackets.
    ///
    /// A name has the characters of host names (RFC 1123, section 2.1). `_` is permitted too: it is common in names of containers and
    /// internal services, clients accept it in certificates, and it has no other meaning anywhere.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Host, HostError> {
        if let Some(address) = text.strip_prefix('[') {
            let address = address.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
            return address.map(Host::from).ok_or(HostError::Address);
        }
        if text.contains(':') {
            return text.parse::<Ipv6Addr>().map(Host::from).map_err(|_| HostError::Address);
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Host::Address(address.into()));
        }
        if name.len() > NAME_SIZE_MAX || !name.split('.').all(is_label) {
            return Err(HostError::Name);
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(HostError::Number);
        }
        Ok(Host::Name(name.to_ascii_lowercase().into()))
    }

    /// Reads `HOST` or `HOST:PORT` as a request has it; an IPv6 address must have brackets. An empty port is none.
    ///
    /// # Errors
    /// If the host or the port is invalid.
    pub fn parse_authority(text: &str) -> Result<(Host, Option<u16>), HostError> {
        let (host, port) = match text.rfind(']') {
            Some(end) => text.split_at(end + 1),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return Err(HostError::Address),
            Some("") => None,
            // A parser of numbers takes a sign.
            Some(port) if !port.bytes().all(|byte| byte.is_ascii_digit()) => return Err(HostError::Port),
            Some(port) => Some(port.parse().ok().filter(|&port| port > 0).ok_or(HostError::Port)?),
        };
        Ok((Host::parse(host)?, port))
    }

    /// The name, or the address without brackets, as resolvers and TLS libraries take it.
    pub fn without_brackets(&self) -> Box<str> {
        match self {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string().into(),
        }
    }
}

impl From<Ipv6Addr> for Host {
    fn from(address: Ipv6Addr) -> Self {
        Host::Address(IpAddr::V6(address).to_canonical())
    }
}

impl fmt::Display for Host {
    /// As in URLs: an IPv6 address has brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Address(address) => address.fmt(f),
        }
    }
}

fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LABEL_SIZE_MAX).contains(&label.len())
        && label.bytes().all(is_part)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether `inet_aton` and URL parsers read the last label as a number: decimal, octal or hexadecimal.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    let is_hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    label.bytes().all(|byte| byte.is_ascii_digit()) || hexadecimal.is_some_and(is_hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_host_are_equal() {
        for (spellings, shown) in [
            (&["api.example.com", "API.Example.COM", "api.example.com."][..], "api.example.com"),
            (&["xn--bcher-kva.example", "XN--BCHER-KVA.example"], "xn--bcher-kva.example"),
            (&["my_service", "My_Service."], "my_service"),
            (&["192.0.2.1", "192.0.2.1.", "[::ffff:192.0.2.1]", "::FFFF:c000:201"], "192.0.2.1"),
            (
                &["[2001:db8::1]", "2001:DB8::1", "[2001:0db8:0:0:0:0:0:0001]", "[2001:db8:0:0::0.0.0.1]"],
                "[2001:db8::1]",
            ),
        ] {
            for spelling in spellings {
                let host = Host::parse(spelling).unwrap_or_else(|error| panic!("{spelling}: {error}"));
                assert_eq!(host.to_string(), shown, "{spelling}");
                assert_eq!(Host::parse(shown), Ok(host.clone()));
                assert_eq!(Host::parse(&host.without_brackets()), Ok(host));
            }
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let (long_label, long_name) = ("a".repeat(64), format!("{}a", "a.".repeat(127)));
        for text in ["", ".", "a..b", ".a", "a..", "*", "*.example.com", "a b", "a\"b", "$(id)", "`id`", "a,b", "a'b"]
            .into_iter()
            .chain([
                "-a",
                "a-.b",
                "a%2eb",
                "b\u{fc}cher.example",
                "a/b",
                "u@a",
                "a~b",
                "a\0b",
                "a;b",
                &long_label,
                &long_name,
            ])
        {
            assert_eq!(Host::parse(text), Err(HostError::Name), "{text}");
        }
        for text in [
            "127.1",
            "0x7f.1",
            "2130706433",
            "0x7f000001",
            "017700000001",
            "a.0x",
            "256.0.0.1",
            "1.2.3.4.5",
            "01.2.3.4",
        ] {
            assert_eq!(Host::parse(text), Err(HostError::Number), "{text}");
        }
        for text in
            ["[::1", "[]", "[fe80::1%25eth0]", "fe80::1%eth0", "[a]", "[192.0.2.1]", "a:80", "a,DNS:b", "[::1]x", "::g"]
        {
            assert_eq!(Host::parse(text), Err(HostError::Address), "{text}");
        }
        assert!(Host::parse(&"a".repeat(63)).is_ok() && Host::parse(&long_name[2..]).is_ok());
    }

    #[test]
    fn authorities() {
        for (text, host, port) in [
            ("a.test", "a.test", None),
            ("a.test:", "a.test", None),
            ("A.test.:0443", "a.test", Some(443)),
            ("[::1]:65535", "[::1]", Some(65535)),
            ("192.0.2.1:1", "192.0.2.1", Some(1)),
        ] {
            assert_eq!(Host::parse_authority(text), Ok((Host::parse(host).unwrap(), port)), "{text}");
        }
        for text in ["a:0", "a:65536", "a:+1", "a: 1", "a:1:2", "a:x", "[::1]:-1"] {
            assert_eq!(Host::parse_authority(text), Err(HostError::Port), "{text}");
        }
        for text in ["::1", ":80", "[::1]80", "u@a:1", "a]:1", ""] {
            assert!(Host::parse_authority(text).is_err(), "{text}");
        }
    }
}
