//! The access log and the metrics report actual traffic, not claimed sizes.

use crate::common::{Identity, PATIENCE, Pieces, TestRelay, data, trailers};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const RECEIVED: &str = "leafseal_relay_body_bytes_total{listener=\"inbound-0\",direction=\"received\"}";
const ROUTES: &str = "[[inbound.route]]\npath = \"/held\"\nrequest = [{ action = \"redact\", json = [\"$.a\"] }]\n\
    [[inbound.route]]\npath = \"/sealed\"\napp = \"shop\"\nrequest = [{ action = \"encrypt\", json = [\"$.a\"] }]";

/// A relay in front of an upstream that reads a chunked request to its end, and answers in chunks with a trailer.
async fn test_relay() -> TestRelay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    TestRelay::new(&origin, &Identity::new(), "", ROUTES)
}

async fn answer(mut socket: TcpStream) {
    let mut bytes = Vec::new();
    // Trailers end with an empty line, as the last chunk does.
    while !bytes.windows(5).any(|it| it == b"\r\n0\r\n") || !bytes.ends_with(b"\r\n\r\n") {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
    }
    let head = "HTTP/1.1 200 OK\r\ntrailer: x-checksum\r\ntransfer-encoding: chunked\r\n\r\n";
    socket.write_all(format!("{head}2\r\nok\r\n0\r\nx-checksum: 42\r\n\r\n").as_bytes()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_without_a_length_are_counted_and_an_answer_with_trailers_is_whole() {
    let test_relay = test_relay().await;
    for (version, path) in [(Version::HTTP_11, "/1"), (Version::HTTP_2, "/2")] {
        let mut client = test_relay.client(version).await;
        let pieces = [Frame::data(Bytes::from(vec![7; 100_000])), data(b"and more"), trailers("43")];
        let answer = client.send("POST", path, Pieces::of(pieces)).await;
        assert_eq!((&*answer.body, answer.trailers.map(|it| it.len())), (&b"ok"[..], Some(1)), "{version:?}");
        let line = test_relay.log.about(path).await;
        assert_eq!((&line["bytes_in"], &line["bytes_out"]), (&100_008.into(), &2.into()), "{line}");
        assert_eq!(line["whole"], true, "{line}");
    }
    assert_eq!(test_relay.metric(RECEIVED).await, 100_008.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_is_only_claimed_counts_nothing() {
    let test_relay = test_relay().await;
    let mut socket = TcpStream::connect(test_relay.address(false)).await.unwrap();
    let head = "POST /held HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 900000000000000000\r\n\r\n";
    socket.write_all(format!("{head}{{\"a\":").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, socket.read_buf(&mut answer)).await.expect("an answer in time").unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    let line = test_relay.log.about("/held").await;
    assert!(line["bytes_in"].as_u64().unwrap() <= 5, "{line}");
    assert!(test_relay.metric(RECEIVED).await <= 5.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_an_engine_that_is_not_there_are_counted_and_the_relay_is_not_ready() {
    let test_relay = test_relay().await;
    let mut client = test_relay.client(Version::HTTP_11).await;
    let mut request = client.request("POST", "/sealed", Pieces::of([data(b"{\"a\":1}")]));
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    assert_eq!(client.begin(request).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let calls =
        |outcome| format!("leafseal_relay_engine_calls_total{{method=\"encrypt_document\",outcome=\"{outcome}\"}}");
    assert_eq!(test_relay.metric(&calls("connect_failed")).await, 1.0);
    assert_eq!(test_relay.metric(&calls("ok")).await, 0.0);
    assert_eq!(test_relay.metric("leafseal_relay_engine_call_seconds_count{method=\"encrypt_document\"}").await, 1.0);
    assert_eq!(test_relay.metric("leafseal_relay_ready").await, 0.0);
    let version = concat!("leafseal_relay_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    assert_eq!(test_relay.metric(version).await, 1.0);
}
