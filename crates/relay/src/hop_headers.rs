//! Hop-by-hop headers, forwarding headers, and headers of requests whose answers are read.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, Version};
use leafseal_errors::ErrorCode;
use leafseal_http::ConnectionPeer;

use crate::config::Forwarded;
use crate::refusal::Refusal;

/// Hop-by-hop fields (RFC 9110, section 7.6.1), and older ones of the same kind.
const HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Fields that `Connection` may not name: the message would mean something else without them.
const END_TO_END: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
];

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The equivalent field of RFC 7239.
const FORWARDED: &str = "forwarded";
/// The prefix of the `X-Forwarded-*` fields.
const X_FORWARDED: &[u8] = b"x-forwarded-";
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The value of `Via`.
const VIA: HeaderValue = HeaderValue::from_static("1.1 leafseal");

/// Removes the upgrade that a message requests or accepts from its hop-by-hop headers, and returns its protocol.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let names_it = |value: &HeaderValue| tokens(value).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let is_asked = headers.get_all(header::CONNECTION).iter().any(names_it);
    let protocol = headers.get(header::UPGRADE).filter(|_| is_asked)?;
    // HTTP/2 is negotiated in the TLS handshake or not at all.
    (!tokens(protocol).any(|token| token.eq_ignore_ascii_case("h2c"))).then(|| protocol.clone())
}

/// Whether the sender closes the connection after this message.
pub(crate) fn closes(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().flat_map(tokens).any(|token| token.eq_ignore_ascii_case("close"))
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim)
}

/// Removes hop-by-hop headers.
///
/// # Errors
/// If `Connection` names a field that belongs to the message.
pub(crate) fn strip_hop(headers: &mut HeaderMap) -> Result<(), Refusal> {
    if let Some(connection) = headers.get(header::CONNECTION) {
        // Usually it is one word that names no field.
        let is_plain =
            matches!(connection.as_bytes(), b"keep-alive" | b"close" | b"Keep-Alive" | b"Upgrade" | b"upgrade");
        if !is_plain || headers.get_all(header::CONNECTION).iter().nth(1).is_some() {
            strip_named(headers)?;
        }
    }
    for name in &HOP {
        headers.remove(name);
    }
    Ok(())
}

fn strip_named(headers: &mut HeaderMap) -> Result<(), Refusal> {
    let values: Vec<HeaderValue> = headers.get_all(header::CONNECTION).iter().cloned().collect();
    for token in values.iter().flat_map(tokens).filter(|token| !token.is_empty()) {
        let Ok(name) = HeaderName::from_bytes(token.as_bytes()) else {
            return Err(Refusal::new(ErrorCode::InvalidRequest, "the Connection field is malformed"));
        };
        if END_TO_END.contains(&name) {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the Connection field names a field that belongs to the message",
            ));
        }
        headers.remove(&name);
    }
    Ok(())
}

/// Whether a field is not one that frames the message, and gateways of the CGI kind take it for one.
fn is_taken_for_framing(name: &HeaderName) -> bool {
    const FRAMING: [HeaderName; 2] = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    let frames = |framing: &HeaderName| name != framing && folded(name).eq(framing.as_str().bytes());
    // Most names differ in length from these.
    matches!(name.as_str().len(), 14 | 17) && FRAMING.iter().any(frames)
}

/// Makes a client's header that of our request.
///
/// # Errors
/// As [`strip_hop`], or a field that some take for one that frames the message.
pub(crate) fn prepare_request(headers: &mut HeaderMap) -> Result<(), Refusal> {
    let trailers =
        headers.get(header::TE).is_some_and(|te| tokens(te).any(|token| token.eq_ignore_ascii_case("trailers")));
    strip_hop(headers)?;
    if headers.keys().any(is_taken_for_framing) {
        let detail =
            "the header has a field that software which takes _ for - reads as Content-Length or Transfer-Encoding";
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    // The relay itself decides when the body is sent.
    headers.remove(header::EXPECT);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    headers.append(header::VIA, VIA);
    Ok(())
}

/// Joins cookies: HTTP/2 may split them into several fields, HTTP/1.1 has one (RFC 9113, section 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        headers.insert(header::COOKIE, joined);
    }
}

/// The client of a request, and how it is reported upstream.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) how: Forwarded,
    pub(crate) peer: &'a ConnectionPeer,
    pub(crate) is_tls: bool,
}

impl Source<'_> {
    /// Writes the forwarded headers of the request. Call it after hop-by-hop headers are removed: `Connection` may name these fields.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        match self.how {
            Forwarded::Keep => return,
            Forwarded::Set => remove_where(headers, is_forwarded),
            // CGI, WSGI and PHP treat names with `_` or `.` as these.
            Forwarded::Append => {
                remove_where(headers, |name| is_forwarded(name) && !folded(name).eq(name.as_str().bytes()))
            }
        }
        let mut chain = Vec::new();
        if self.how == Forwarded::Append {
            // Several lines of a list are one list (RFC 9110, section 5.3).
            for line in headers.get_all(&X_FORWARDED_FOR) {
                chain.extend_from_slice(line.as_bytes());
                chain.extend_from_slice(b", ");
            }
        }
        chain.extend_from_slice(self.peer.address.ip().to_string().as_bytes());
        match HeaderValue::from_bytes(&chain) {
            Ok(chain) => headers.insert(X_FORWARDED_FOR, chain),
            Err(_) => headers.remove(X_FORWARDED_FOR),
        };
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(if self.is_tls { "https" } else { "http" }));
        match headers.get(header::HOST).cloned() {
            Some(host) => headers.insert(X_FORWARDED_HOST, host),
            None => headers.remove(X_FORWARDED_HOST),
        };
    }
}

/// Whether a field reports who forwarded a request, including spellings with `_` or other punctuation for `-`.
fn is_forwarded(name: &HeaderName) -> bool {
    let is_long = name.as_str().len() > X_FORWARDED.len();
    name.as_str() == FORWARDED || (is_long && folded(name).take(X_FORWARDED.len()).eq(X_FORWARDED.iter().copied()))
}

fn remove_where(headers: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    // Usually there is none of them.
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_meant(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Prepares a request whose response a rule reads: removes ranges, and codings that the relay does not support.
pub(crate) fn prepare_for_reading(headers: &mut HeaderMap) {
    for name in [header::RANGE, header::IF_RANGE] {
        headers.remove(name);
    }
    let values: Vec<HeaderValue> = headers.get_all(header::ACCEPT_ENCODING).iter().cloned().collect();
    if values.is_empty() {
        return;
    }
    let is_known = |token: &&str| {
        let name = token.split(';').next().unwrap_or_default().trim();
        ["gzip", "x-gzip", "br", "zstd", "identity"].iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    let known: Vec<&str> = values.iter().flat_map(tokens).filter(is_known).collect();
    let known = if known.is_empty() { "identity".to_owned() } else { known.join(", ") };
    if let Ok(known) = HeaderValue::try_from(known) {
        headers.insert(header::ACCEPT_ENCODING, known);
    }
}

/// Whether a response has no body, regardless of its header.
pub(crate) fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}

/// The HTTP version as logs write it.
pub(crate) fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_11 => "1.1",
        Version::HTTP_2 => "2",
        _ => "?",
    }
}

/// The bytes of a name with all punctuation as `-`.
pub(crate) fn folded(name: &HeaderName) -> impl Iterator<Item = u8> {
    name.as_str().bytes().map(|byte| if byte.is_ascii_alphanumeric() { byte } else { b'-' })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut request = headers(&[
            ("connection", "X-Own, keep-alive"),
            ("x-own", "1"),
            ("keep-alive", "300"),
            ("te", "trailers, deflate"),
            ("proxy-connection", "keep-alive"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("x-other", "2"),
        ]);
        assert_eq!(upgrade(&request), None);
        prepare_request(&mut request).unwrap();
        assert_eq!(request, headers(&[("x-other", "2"), ("te", "trailers"), ("via", "1.1 leafseal")]));
        for name in ["Host", "content-length", "authorization", "a b"] {
            let mut abused = headers(&[]);
            abused.insert(header::CONNECTION, HeaderValue::from_str(name).unwrap());
            assert!(strip_hop(&mut abused).is_err(), "{name}");
        }
        let websocket = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade(&websocket).unwrap(), "websocket");
    }

    #[test]
    fn fields_that_gateways_take_for_framing_are_refused() {
        for name in ["transfer_encoding", "content_length", "content.length", "transfer-encoding_", "x-content_length"]
        {
            let mut request = headers(&[("host", "a")]);
            request.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("1"));
            let is_harmless = matches!(name, "transfer-encoding_" | "x-content_length");
            assert_eq!(prepare_request(&mut request).is_ok(), is_harmless, "{name}");
        }
        assert!(prepare_request(&mut headers(&[("content-length", "1"), ("transfer-encoding", "chunked")])).is_ok());
    }

    #[test]
    fn a_client_cannot_remove_its_address_from_forwarded_headers() {
        let address = "192.0.2.7:9".parse().unwrap();
        let peer =
            ConnectionPeer { address, protocol: leafseal_http::Protocol::Http1, server_name: None, tls_group: None };
        let reported = |how| {
            let mut request = headers(&[
                ("connection", "close, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host"),
                ("host", "a.test"),
                ("x-forwarded-for", "1.1.1.1"),
                ("x-forwarded-proto", "https"),
            ]);
            prepare_request(&mut request).unwrap();
            Source { how, peer: &peer, is_tls: false }.write(&mut request);
            request
        };
        let expected = headers(&[
            ("host", "a.test"),
            ("via", "1.1 leafseal"),
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "a.test"),
        ]);
        assert_eq!(reported(Forwarded::Set), expected);
        assert_eq!(reported(Forwarded::Append), expected);
        assert!(!reported(Forwarded::Keep).contains_key(X_FORWARDED_FOR));
    }

    #[test]
    fn a_chain_in_several_lines_is_one_chain() {
        let address = "[2001:db8::1]:9".parse().unwrap();
        let peer =
            ConnectionPeer { address, protocol: leafseal_http::Protocol::Http2, server_name: None, tls_group: None };
        let chain = |how| {
            let mut request = HeaderMap::new();
            for line in ["1.1.1.1, 2.2.2.2", "3.3.3.3"] {
                request.append(X_FORWARDED_FOR, HeaderValue::from_static(line));
            }
            Source { how, peer: &peer, is_tls: true }.write(&mut request);
            let lines: Vec<String> =
                request.get_all(X_FORWARDED_FOR).iter().map(|line| line.to_str().unwrap().to_owned()).collect();
            lines
        };
        assert_eq!(chain(Forwarded::Append), ["1.1.1.1, 2.2.2.2, 3.3.3.3, 2001:db8::1"]);
        assert_eq!(chain(Forwarded::Set), ["2001:db8::1"]);
        assert_eq!(chain(Forwarded::Keep), ["1.1.1.1, 2.2.2.2", "3.3.3.3"]);
    }

    #[test]
    fn no_forwarded_header_of_a_client_remains_under_any_name() {
        let address = "192.0.2.7:9".parse().unwrap();
        let peer =
            ConnectionPeer { address, protocol: leafseal_http::Protocol::Http1, server_name: None, tls_group: None };
        let said = [
            ("forwarded", "for=1.1.1.1"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x_forwarded_for", "1.1.1.1"),
            ("x-forwarded_for", "1.1.1.1"),
            ("x-forwarded-port", "1"),
            ("x-forwarded-prefix", "/admin"),
            ("x_forwarded-server", "a"),
            ("x_forwarded_host", "a"),
            ("x.forwarded.for", "1.1.1.1"),
            ("x-forwardedness", "1"),
            ("x-forward", "1"),
        ];
        let reported = |how| {
            let mut request = headers(&said);
            Source { how, peer: &peer, is_tls: true }.write(&mut request);
            let mut names: Vec<String> = request.keys().map(|name| name.as_str().to_owned()).collect();
            names.sort();
            names
        };
        let kept = ["x-forward", "x-forwarded-for", "x-forwarded-proto", "x-forwardedness"];
        assert_eq!(reported(Forwarded::Set), kept);
        let [forward, chain, proto, ness] = kept;
        assert_eq!(
            reported(Forwarded::Append),
            ["forwarded", forward, chain, "x-forwarded-port", "x-forwarded-prefix", proto, ness]
        );
        assert_eq!(reported(Forwarded::Keep).len(), said.len(), "nothing is removed");
    }

    #[test]
    fn unsupported_codings_are_not_requested() {
        for (asked, expected) in [
            ("gzip, deflate, br, zstd", "gzip, br, zstd"),
            ("GZIP;q=0.5, dcb", "GZIP;q=0.5"),
            ("deflate, *", "identity"),
        ] {
            let mut request = headers(&[("accept-encoding", asked), ("range", "bytes=0-1")]);
            prepare_for_reading(&mut request);
            assert_eq!(request, headers(&[("accept-encoding", expected)]));
        }
    }
}
