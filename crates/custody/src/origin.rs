//! The host and port of a server.

use hyper::Uri;

/// Longest URL in bytes.
const URL_SIZE_MAX: usize = 512;

/// The host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOrigin {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// As in the header field `Host`.
    pub authority: String,
}

impl ServerOrigin {
    /// That of `https://HOST:PORT`, and of nothing else.
    pub fn parse(url: &str, default_port: u16) -> Option<Self> {
        let uri: Uri = url.parse().ok().filter(|_| url.len() <= URL_SIZE_MAX)?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        if uri.scheme_str() != Some("https") || uri.path() != "/" || uri.query().is_some() || url.contains('#') {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(default_port);
        Some(Self { host, port, authority: authority.as_str().to_owned() })
    }
}
