//! The host of a request: it must be unambiguous, so that no upstream reads another one.

use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Uri};
use leafseal_errors::ErrorCode;

use crate::host::{Host, HostError};
use crate::refusal::Refusal;

/// Moves the host of the target to `Host` and leaves a path, regardless of the HTTP version. Returns the host and its port.
///
/// # Errors
/// If there is no host, several, an invalid one, or two that differ; for a scheme other than HTTP's; for `*` with a method other than
/// `OPTIONS`.
pub(crate) fn normalize(head: &mut Parts) -> Result<(Host, Option<u16>), Refusal> {
    let refused = |what: &str| Err(Refusal::new(ErrorCode::InvalidRequest, what));
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next().cloned(), hosts.next());
    if second.is_some() {
        return refused("the request names two hosts");
    }
    if !matches!(head.uri.scheme_str(), None | Some("http" | "https")) {
        return refused("the request's target is of another scheme than http and https");
    }
    let host = match (head.uri.authority(), host) {
        (None, None) => return refused("the request names no host"),
        (None, Some(host)) => host,
        (Some(authority), Some(host)) if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) => {
            return refused("the request names two hosts that differ");
        }
        (Some(authority), _) => match HeaderValue::from_str(authority.as_str()) {
            Ok(host) => host,
            Err(_) => return refused("the request's host is malformed"),
        },
    };
    let parsed = host.to_str().map_err(|_| HostError::Name).and_then(Host::parse_authority);
    let parsed = parsed.map_err(|error| {
        Refusal::new(ErrorCode::InvalidRequest, format!("the request's host is malformed: {error}"))
    })?;
    if head.uri.path() == "*" && head.method != Method::OPTIONS {
        return refused("only OPTIONS is for no path at all");
    }
    head.headers.insert(HOST, host);
    if head.uri.scheme().is_some() || head.uri.authority().is_some() {
        head.uri = head.uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn settled(method: &str, uri: &str, hosts: &[&str]) -> Result<(String, String), Refusal> {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        normalize(&mut head)?;
        assert_eq!(head.headers.get_all(HOST).iter().count(), 1);
        Ok((head.headers[HOST].to_str().unwrap().to_owned(), head.uri.to_string()))
    }

    #[test]
    fn the_host_is_named_once_and_the_target_is_a_path() {
        for (uri, hosts, host, path) in [
            ("/a?b", &["x.test"][..], "x.test", "/a?b"),
            ("https://x.test:8443/a", &[], "x.test:8443", "/a"),
            ("http://X.test", &["x.TEST"], "X.test", "/"),
            ("/", &["[::1]:80"], "[::1]:80", "/"),
        ] {
            assert_eq!(settled("GET", uri, hosts), Ok((host.to_owned(), path.to_owned())), "{uri} {hosts:?}");
        }
        assert!(settled("OPTIONS", "*", &["x"]).is_ok());
    }

    #[test]
    fn ambiguous_hosts_are_refused() {
        for (method, uri, hosts) in [
            ("GET", "/", &[][..]),
            ("GET", "/", &[""]),
            ("GET", "/", &["a", "a"]),
            ("GET", "/", &["a, b"]),
            ("GET", "/", &["u@a"]),
            ("GET", "/", &["a/b"]),
            ("GET", "/", &["a:b"]),
            ("GET", "/", &["a%2eb"]),
            ("GET", "/", &["*.a"]),
            ("GET", "/", &["a..b"]),
            ("GET", "/", &["127.1"]),
            ("GET", "/", &["a:65536"]),
            ("GET", "/", &["::1"]),
            ("GET", "/", &["[::1"]),
            ("GET", "/", &[":80"]),
            ("GET", "http://a/", &["b"]),
            ("GET", "http://u@a/", &[]),
            ("GET", "ftp://a/", &["a"]),
            ("POST", "*", &["a"]),
        ] {
            assert!(settled(method, uri, hosts).is_err(), "{method} {uri} {hosts:?}");
        }
    }
}
