//! Upstreams that serve HTTP/1.1 and HTTP/2 over TLS: requests, bodies streamed in both directions, trailers; and upstreams that stop
//! responding.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Answer, CHECKSUM, Client, Identity, PATIENCE, Pieces, TestRelay, data, trailers, until};
use http_body_util::BodyExt;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, TRAILER};
use hyper::{Request, Response, StatusCode, Version};
use leafseal_http::{
    ConnectionPeer, Handler, HttpSettings, Listener, ListenerEvent, ListenerObserver, ListenerOptions, RequestBody,
    ResponseBody, bytes,
};
use leafseal_net::tls::Acceptor;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// More than the sockets and buffers hold.
const LARGE: usize = 32 << 20;

/// Echoes the request's body as it arrives, including its trailers, and reports how it was requested.
pub(crate) struct Echo;

impl Handler for Echo {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, _: Arc<ConnectionPeer>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        if head.uri.path() == "/large" {
            return Response::new(bytes(vec![7; LARGE].into()));
        }
        if head.uri.path().starts_with("/read/") {
            let whole = body.collect().await;
            return Response::new(bytes(whole.map_or_else(|_| "broken".into(), |whole| whole.to_bytes())));
        }
        let host = match head.uri.authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).unwrap(),
            None => head.headers[HOST].clone(),
        };
        let mut response = Response::new(body.boxed_unsync());
        let headers = response.headers_mut();
        headers.insert("x-host", host);
        headers.insert("x-version", HeaderValue::from_str(&format!("{:?}", head.version)).unwrap());
        headers.insert("x-path", HeaderValue::from_str(&head.uri.to_string()).unwrap());
        for name in [CONTENT_TYPE, TRAILER] {
            if let Some(value) = head.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        response
    }
}

struct Silent;

impl ListenerObserver for Silent {
    fn observe(&self, _: &ListenerEvent<'_>) {}
}

/// A TLS upstream, and a relay in front of it that uses HTTP/2 with it, or not.
fn test_relay(is_http2: bool, routes: &str) -> (Listener<Echo>, TestRelay) {
    test_relay_with(&format!("http2 = {is_http2}"), routes)
}

/// The same, with these upstream settings.
fn test_relay_with(settings: &str, routes: &str) -> (Listener<Echo>, TestRelay) {
    let identity = Identity::new();
    let upstream = upstream(&identity);
    let origin = format!("https://localhost:{}", upstream.local_addr().port());
    let test_relay = TestRelay::new(&origin, &identity, settings, routes);
    (upstream, test_relay)
}

/// An HTTP/2 upstream, a connection to it that can be cut, a relay with these settings in front of it, and a client that has received a
/// first answer.
async fn test_relay_behind_line(settings: &str) -> (Listener<Echo>, Line, TestRelay, Client) {
    let identity = Identity::new();
    let upstream = upstream(&identity);
    let line = Line::before(upstream.local_addr()).await;
    let test_relay = TestRelay::new(&format!("https://localhost:{}", line.address.port()), &identity, settings, "");
    let mut client = test_relay.client(Version::HTTP_2).await;
    assert_eq!(client.send("GET", "/", Pieces::of([])).await.status, StatusCode::OK);
    (upstream, line, test_relay, client)
}

fn upstream(identity: &Identity) -> Listener<Echo> {
    let options = ListenerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        acceptor: Some(Acceptor::new(&identity.of_server()).unwrap()),
        settings: HttpSettings::default(),
        observer: Arc::new(Silent),
    };
    Listener::start(options, Arc::new(Echo)).unwrap()
}

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Over either protocol the relay would keep the connection for much longer.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_sent_on_a_kept_connection_whose_certificates_have_expired() {
    for is_http2 in [false, true] {
        let identity = Identity::valid_for(4);
        let upstream = upstream(&identity);
        let origin = format!("https://localhost:{}", upstream.local_addr().port());
        let test_relay = TestRelay::new(&origin, &identity, &format!("http2 = {is_http2}"), "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        assert_eq!(client.send("GET", "/", Pieces::of([])).await.status, StatusCode::OK);
        let refused = timeout(PATIENCE, async {
            loop {
                let answer = client.send("GET", "/", Pieces::of([])).await;
                if answer.status != StatusCode::OK {
                    break answer;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let answer = refused.await.expect("the connection is still in use");
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
        assert!(String::from_utf8_lossy(&answer.body).contains("upstream_certificate"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_share_one_connection_of_http2() {
    let (upstream, test_relay) = test_relay(true, "");
    for version in VERSIONS {
        let answer = test_relay.client(version).await.send("GET", "/a?b=c", Pieces::of([])).await;
        assert_eq!((answer.status, answer.header("x-version")), (StatusCode::OK, "HTTP/2.0"));
        assert_eq!((answer.header("x-host"), answer.body.len()), ("shop.example", 0));
        assert!(answer.header("x-path").ends_with("/a?b=c"), "{answer:?}");
    }
    let answer = test_relay.client(Version::HTTP_11).await.send("OPTIONS", "*", Pieces::of([])).await;
    assert_eq!((answer.header("x-host"), answer.status), ("shop.example", StatusCode::OK), "{answer:?}");
    assert!(answer.header("x-path").ends_with('*'), "{answer:?}");
    let Client::Http2(sender) = test_relay.client(Version::HTTP_2).await else { unreachable!() };
    let mut running = JoinSet::new();
    for _ in 0..50 {
        let mut client = Client::Http2(sender.clone());
        running.spawn(async move { client.send("POST", "/", Pieces::of([data(&[7; 30_000]), data(b"end")])).await });
    }
    while let Some(answer) = running.join_next().await {
        let Answer { status, body, .. } = answer.unwrap();
        assert_eq!((status, body.len()), (StatusCode::OK, 30_003));
    }
    assert_eq!(upstream.counters().connections_accepted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_stream_both_ways_at_the_same_time_and_trailers_pass() {
    for is_http2 in [false, true] {
        let (_upstream, test_relay) = test_relay(is_http2, "");
        for version in VERSIONS {
            let mut client = test_relay.client(version).await;
            let (teller, pieces) = Pieces::new();
            let request = client.request("POST", "/", pieces);
            teller.send(data(b"first")).unwrap();
            let mut answer = client.begin(request).await;
            let spoken = if is_http2 { "HTTP/2.0" } else { "HTTP/1.1" };
            assert_eq!((answer.status(), answer.headers()["x-version"].to_str().unwrap()), (StatusCode::OK, spoken));
            // The next piece is sent when the previous one has come back.
            for next in [&b"second"[..], b"third"] {
                let frame = timeout(PATIENCE, answer.body_mut().frame()).await.expect("a piece in time");
                assert!(frame.unwrap().unwrap().is_data(), "{version:?} to {spoken}");
                teller.send(data(next)).unwrap();
            }
            teller.send(trailers("42")).unwrap();
            drop(teller);
            let answer = Answer::whole(answer).await;
            assert!(answer.body.ends_with(b"third"), "{answer:?}");
            let trailers = answer.trailers.unwrap_or_else(|| panic!("no trailers, {version:?} to {spoken}"));
            assert_eq!((trailers.len(), &trailers[CHECKSUM]), (1, &HeaderValue::from_static("42")));
        }
    }
}

/// Digests of the original bytes are removed; a body that no rule reads keeps its trailers.
#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_body_has_a_length_and_no_trailers() {
    let rule = "{ action = \"redact\", json = [\"$.card\"] }";
    let route = |path: &str, way: &str| format!("[[inbound.route]]\npath = \"{path}\"\n{way} = [{rule}]\n");
    let routes = route("/request", "request") + &route("/response", "response");
    for is_http2 in [false, true] {
        let (_upstream, test_relay) = test_relay(is_http2, &routes);
        for version in VERSIONS {
            for path in ["/request", "/response", "/other"] {
                let mut client = test_relay.client(version).await;
                let pieces = Pieces::of([data(b"{\"card\":"), data(b"4242}"), trailers("42")]);
                let mut request = client.request("PUT", path, pieces);
                request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let answer = Answer::whole(client.begin(request).await).await;
                let is_read = path != "/other";
                let expected = if is_read { "{\"card\":\"[redacted]\"}" } else { "{\"card\":4242}" };
                assert_eq!(answer.body, expected, "{version:?}, {path}, upstream HTTP/2: {is_http2}");
                assert_eq!(answer.trailers.is_none(), is_read, "{version:?}, {path}, upstream HTTP/2: {is_http2}");
                if path == "/response" {
                    assert_eq!((answer.header("content-length"), answer.header("trailer")), ("21", ""));
                }
            }
        }
    }
}

/// The client sees the same error for streamed and buffered bodies, and for all combinations of protocols.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_a_body_too_slowly_receives_an_error() {
    let limits = "[limits]\nbody_timeout = \"300ms\"";
    let routes = "[[inbound.route]]\npath = \"/held/**\"\nrequest = [{ action = \"redact\", json = [\"$\"] }]";
    for is_http2 in [false, true] {
        let identity = Identity::new();
        let upstream = upstream(&identity);
        let origin = format!("https://localhost:{}", upstream.local_addr().port());
        let test_relay = TestRelay::new(&origin, &identity, &format!("http2 = {is_http2}\n{limits}"), routes);
        for (listener, version) in VERSIONS.into_iter().enumerate() {
            for (path, is_typed) in [("/read", true), ("/held", true), ("/held/untyped", false)] {
                let path = format!("{path}/{version:?}");
                let mut client = test_relay.client(version).await;
                let (teller, pieces) = Pieces::new();
                let mut request = client.request("POST", &path, pieces);
                // A body of a type that no rule reads is awaited too: it may turn out to be empty.
                if is_typed {
                    teller.send(data(b"{\"a\":")).unwrap();
                    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                }
                let answer = Answer::whole(client.begin(request).await).await;
                let what = format!("{path}, {version:?}, upstream HTTP/2: {is_http2}: {answer:?}");
                assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT, "{what}");
                let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect(&what);
                assert_eq!(problem["code"], "slow_body", "{what}");
                let line = test_relay.log.about(&path).await;
                assert_eq!(
                    (&line["outcome"], &line["bytes_in"]),
                    (&"slow_body".into(), &(if is_typed { 5 } else { 0 }).into()),
                    "{line}"
                );
                drop(teller);
            }
            let sample = format!("leafseal_relay_refusals_total{{listener=\"inbound-{listener}\",code=\"slow_body\"}}");
            assert_eq!(test_relay.metric(&sample).await, 3.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_headers_do_not_pass_in_trailers() {
    const NAMES: [&str; 4] = ["x-own-card", "x_own_card", "x-own_card", "x-checksum"];
    let route = |path: &str, way: &str, action: &str| {
        let rule = format!("{{ action = \"{action}\", headers = [\"X-Own-Card\"] }}");
        format!("[[inbound.route]]\npath = \"{path}\"\napp = \"a\"\n{way} = [{rule}]\n")
    };
    let routes = route("/sealed", "request", "encrypt")
        + &route("/redacted", "response", "redact")
        + &route("/opened", "request", "decrypt");
    for is_http2 in [false, true] {
        let (_upstream, test_relay) = test_relay(is_http2, &routes);
        for version in VERSIONS {
            for (path, names) in [("/sealed", &NAMES[3..]), ("/redacted", &NAMES[3..]), ("/opened", &NAMES[..])] {
                let mut client = test_relay.client(version).await;
                let fields = NAMES.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("4242")));
                let trailers = Frame::trailers(fields.into_iter().collect());
                let mut request = client.request("POST", path, Pieces::of([data(b"body"), trailers]));
                request.headers_mut().insert(TRAILER, HeaderValue::from_str(&NAMES.join(", ")).unwrap());
                let answer = Answer::whole(client.begin(request).await).await;
                let context = format!("{version:?}, {path}, upstream HTTP/2: {is_http2}");
                assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"body"[..]), "{context}");
                let came = answer.trailers.unwrap_or_else(|| panic!("no trailers, {context}"));
                let mut came: Vec<&str> = came.keys().map(HeaderName::as_str).collect();
                let mut expected = names.to_vec();
                came.sort_unstable();
                expected.sort_unstable();
                assert_eq!(came, expected, "{context}");
            }
        }
        // Three for each hiding message, at each listener.
        let metrics = test_relay.metrics().await;
        for listener in ["inbound-0", "inbound-1"] {
            let count = format!("{{listener=\"{listener}\",code=\"hidden_trailer\"}} 6\n");
            assert!(metrics.contains(&count), "{metrics}");
        }
    }
}

/// An empty trailer section is omitted, and earlier pieces are not held back.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_streams_also_where_its_trailers_are_looked_at() {
    let rule = "[{ action = \"redact\", headers = [\"X-Checksum\"] }]";
    let route = format!("[[inbound.route]]\npath = \"/\"\nrequest = {rule}\nresponse = {rule}\n");
    for is_http2 in [false, true] {
        let (_upstream, test_relay) = test_relay(is_http2, &route);
        for version in VERSIONS {
            let mut client = test_relay.client(version).await;
            let (teller, pieces) = Pieces::new();
            let request = client.request("POST", "/", pieces);
            teller.send(data(b"first")).unwrap();
            let mut answer = client.begin(request).await;
            let frame = timeout(PATIENCE, answer.body_mut().frame()).await.expect("a piece in time");
            assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), "first");
            teller.send(data(b"last")).unwrap();
            teller.send(trailers("42")).unwrap();
            drop(teller);
            let answer = Answer::whole(answer).await;
            assert_eq!((&answer.body[..], answer.trailers), (&b"last"[..], None), "{version:?}, {is_http2}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_nothing_delay_nobody_else_on_the_upstream_connection() {
    let (upstream, test_relay) = test_relay(true, "");
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut client = test_relay.client(Version::HTTP_11).await;
        let request = client.request("GET", "/large", Pieces::of([]));
        unread.push((client.begin(request).await, client));
    }
    for version in VERSIONS {
        let answer = test_relay.client(version).await.send("GET", "/large", Pieces::of([])).await;
        assert_eq!(answer.body.len(), LARGE);
    }
    assert_eq!(upstream.counters().connections_accepted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_fell_silent_is_not_used_again_and_an_idle_one_is_closed() {
    let settings = "response_timeout = \"300ms\"\nidle_timeout = \"1s\"";
    let (upstream, line, _stage, mut client) = test_relay_behind_line(settings).await;
    line.cut.send_replace(true);
    assert_eq!(client.send("GET", "/", Pieces::of([])).await.status, StatusCode::GATEWAY_TIMEOUT);
    line.cut.send_replace(false);
    assert_eq!(client.send("GET", "/", Pieces::of([])).await.status, StatusCode::OK);
    assert_eq!(upstream.counters().connections_accepted, 2);
    until("the idle one is closed too", || upstream.counters().connections_open == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_answers_no_ping_ends_what_waits_on_it() {
    let settings = "response_timeout = \"1h\"\nping_interval = \"200ms\"\nping_timeout = \"200ms\"";
    let (upstream, line, _stage, mut client) = test_relay_behind_line(settings).await;
    // Longer than both timeouts: a live connection stays open.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.send("GET", "/", Pieces::of([])).await.status, StatusCode::OK);
    assert_eq!(upstream.counters().connections_accepted, 1);
    line.cut.send_replace(true);
    let request = client.request("POST", "/", Pieces::of([data(b"x")]));
    assert_eq!(client.begin(request).await.status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_larger_header_than_is_allowed_is_refused() {
    for is_http2 in [false, true] {
        let (_upstream, test_relay) = test_relay_with(&format!("http2 = {is_http2}\nheader_size_max = \"8KiB\""), "");
        for (size, status) in [(1000, StatusCode::OK), (9000, StatusCode::BAD_GATEWAY)] {
            let mut client = test_relay.client(Version::HTTP_11).await;
            let mut request = client.request("POST", "/", Pieces::of([]));
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_str(&"x".repeat(size)).unwrap());
            assert_eq!(client.begin(request).await.status(), status, "{size} bytes, HTTP/2: {is_http2}");
        }
    }
}

/// The network between relay and upstream. Connections that are open when it is cut transfer nothing afterwards.
struct Line {
    address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Line {
    async fn before(upstream: SocketAddr) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(upstream).await?;
                    let cut = async { is_cut.wait_for(|is_cut| *is_cut).await.map(drop) };
                    let ended = tokio::select! {
                        ended = copy_bidirectional(&mut near, &mut far) => Some(ended.map(drop)),
                        _ = cut => None,
                    };
                    match ended {
                        Some(ended) => ended,
                        None => hold(near).await,
                    }
                });
            }
        });
        Line { address, cut }
    }
}

/// Reads and sends nothing until the peer closes.
async fn hold(mut socket: TcpStream) -> io::Result<()> {
    tokio::io::copy(&mut socket, &mut tokio::io::sink()).await.map(drop)
}
