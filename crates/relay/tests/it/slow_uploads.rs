//! The response timeout begins when the request has been sent, and an upstream that stops reading is abandoned; for streamed and for
//! rewritten bodies.

use std::time::{Duration, Instant};

use crate::common::{Answer, Client, Identity, Pieces, TestRelay, data};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Long enough for a busy machine to move a piece of a large request.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(2_400);
/// So much more than the sockets' buffers hold that reading the rest of them takes a small part of the response timeout.
const LARGE: usize = 40 << 20;

/// How an upstream reads requests.
#[derive(Clone, Copy)]
enum Reads {
    ToTheEnd,
    /// A piece at intervals.
    Slowly,
    Nothing,
}

/// A relay in front of an upstream that reads requests in this way and then answers. Bodies below `/rewritten` are rewritten.
async fn test_relay(reads: Reads) -> TestRelay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut unread = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            match reads {
                Reads::ToTheEnd => drop(tokio::spawn(answer(socket))),
                Reads::Slowly => drop(tokio::spawn(answer_slowly(socket))),
                Reads::Nothing => unread.push(socket),
            }
        }
    });
    let upstream = format!("response_timeout = \"{}ms\"", RESPONSE_TIMEOUT.as_millis());
    let route = "[[inbound.route]]\npath = \"/rewritten\"\nrequest = [{ action = \"redact\", json = [\"$.secret\"] }]";
    TestRelay::new(&origin, &Identity::new(), &upstream, route)
}

/// Reads a large request for longer than the response timeout, but never stops reading.
async fn answer_slowly(mut socket: TcpStream) {
    let mut bytes = Vec::with_capacity(2 * LARGE);
    let mut piece = vec![0; LARGE / 20];
    while bytes.len() < LARGE {
        sleep(RESPONSE_TIMEOUT / 10).await;
        socket.read_exact(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece);
    }
    let is_chunked = bytes[..1000].windows(7).any(|it| it == b"chunked");
    while !bytes.ends_with(if is_chunked { b"0\r\n\r\n" } else { b"xxx\"}" }) {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
    }
    socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
}

/// A document of about `LARGE` bytes.
fn document() -> Pieces {
    let rest = "x".repeat(LARGE);
    Pieces::of([Frame::data(format!("{{\"secret\":1,\"rest\":\"{rest}\"}}").into())])
}

async fn answer(mut socket: TcpStream) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"0\r\n\r\n") {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
    }
    socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_take_longer_than_its_answer() {
    let test_relay = test_relay(Reads::ToTheEnd).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        let (teller, pieces) = Pieces::new();
        let request = client.request("POST", "/", pieces);
        tokio::spawn(async move {
            for _ in 0..2 {
                // The client's pauses do not count against the upstream.
                sleep(RESPONSE_TIMEOUT * 3 / 2).await;
                teller.send(data(b"piece")).unwrap();
            }
        });
        assert_eq!(Answer::whole(client.begin(request).await).await.body, "ok", "{version:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_takes_nothing_is_given_up() {
    let test_relay = test_relay(Reads::Nothing).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        let pieces = Pieces::of([Frame::data(Bytes::from(vec![0; LARGE]))]);
        let answer = client.send("POST", "/", pieces).await;
        assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{version:?}");
        let mut client = test_relay.client(version).await;
        let answer = Answer::whole(client.begin(rewritten(&client)).await).await;
        assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "rewritten, {version:?}");
    }
}

fn rewritten(client: &Client) -> Request<Pieces> {
    let mut request = client.request("POST", "/rewritten", document());
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_may_take_longer_for_a_large_request_than_for_its_answer() {
    let test_relay = test_relay(Reads::Slowly).await;
    for is_rewritten in [false, true] {
        let mut client = test_relay.client(Version::HTTP_11).await;
        let request = if is_rewritten { rewritten(&client) } else { client.request("POST", "/", document()) };
        let began = Instant::now();
        let answer = Answer::whole(client.begin(request).await).await;
        assert_eq!((answer.status, &*answer.body), (StatusCode::OK, &b"ok"[..]), "rewritten: {is_rewritten}");
        assert!(began.elapsed() > RESPONSE_TIMEOUT, "{:?}: the upstream was too quick to show it", began.elapsed());
    }
}
