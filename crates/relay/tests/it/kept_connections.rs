//! Pooled connections that the upstream closes when they are reused.

use std::io;
use std::sync::{Arc, Mutex};

use crate::common::{Identity, Pieces, TestRelay, data};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Received requests: number of the connection, method and path.
type Seen = Arc<Mutex<Vec<(usize, String)>>>;

/// An upstream that answers the first request of each connection, reads the second and closes without an answer. It never answers `/never`.
async fn upstream() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let reported = Arc::clone(&seen);
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((socket, _)) = listener.accept().await else { return };
            tokio::spawn(serve(socket, number, Arc::clone(&reported)));
        }
    });
    (origin, seen)
}

async fn serve(mut socket: TcpStream, number: usize, seen: Seen) -> io::Result<()> {
    for is_second in [false, true] {
        let request = read_request(&mut socket).await?;
        seen.lock().unwrap().push((number, request.clone()));
        if is_second || request.ends_with("/never") {
            return Ok(());
        }
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
    }
    Ok(())
}

/// Reads a complete request; returns its method and path.
async fn read_request(socket: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let is_whole =
            if head.contains("chunked") { body.ends_with("0\r\n\r\n") } else { body.len().to_string() == length };
        if is_whole {
            return Ok(text.split(" HTTP/1.1").next().unwrap_or_default().to_owned());
        }
    }
}

async fn test_relay() -> (TestRelay, Seen) {
    let (origin, seen) = upstream().await;
    let redacting = "{ action = \"redact\", json = [\"$.card\"] }";
    let routes = format!("[[inbound.route]]\npath = \"/redacted\"\nrequest = [{redacting}]\n");
    (TestRelay::new(&origin, &Identity::new(), "", &routes), seen)
}

fn reported(seen: &Seen) -> Vec<(usize, String)> {
    std::mem::take(&mut *seen.lock().unwrap())
}

fn lines(expected: &[(usize, &str)]) -> Vec<(usize, String)> {
    expected.iter().map(|(number, line)| (*number, (*line).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatable_requests_are_retried_once_on_a_new_connection() {
    let (test_relay, seen) = test_relay().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        assert_eq!(client.send("GET", "/first", Pieces::of([])).await.status, StatusCode::OK);
        let first = reported(&seen)[0].0;
        for (method, path) in [("GET", "/a"), ("DELETE", "/b"), ("OPTIONS", "/c")] {
            assert_eq!(client.send(method, path, Pieces::of([])).await.body, "ok", "{method} {version:?}");
        }
        // Each closes the connection of the previous one, and leaves a new one.
        let expected = [
            (first, "GET /a"),
            (first + 1, "GET /a"),
            (first + 1, "DELETE /b"),
            (first + 2, "DELETE /b"),
            (first + 2, "OPTIONS /c"),
            (first + 3, "OPTIONS /c"),
        ];
        assert_eq!(reported(&seen), lines(&expected));
        // The last connection is closed, so that the next version starts with a new one.
        assert_eq!(client.send("POST", "/last", Pieces::of([])).await.status, StatusCode::BAD_GATEWAY);
        reported(&seen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_was_read_whole_is_sent_again() {
    let (test_relay, seen) = test_relay().await;
    let mut client = test_relay.client(Version::HTTP_11).await;
    assert_eq!(client.send("GET", "/first", Pieces::of([])).await.status, StatusCode::OK);
    let mut request = client.request("PUT", "/redacted", Pieces::of([data(b"{\"card\":4242}")]));
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    assert_eq!(client.begin(request).await.status(), StatusCode::OK);
    assert_eq!(reported(&seen), lines(&[(0, "GET /first"), (0, "PUT /redacted"), (1, "PUT /redacted")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn possibly_processed_requests_are_not_repeated() {
    let (test_relay, seen) = test_relay().await;
    let mut client = test_relay.client(Version::HTTP_11).await;
    let rounds: [(&str, &str, &'static [u8]); 3] =
        [("POST", "/without", b""), ("POST", "/with", b"abc"), ("PUT", "/streamed", b"abc")];
    for (number, (method, path, body)) in rounds.into_iter().enumerate() {
        assert_eq!(client.send("GET", "/first", Pieces::of([])).await.status, StatusCode::OK);
        let body = if body.is_empty() { Pieces::of([]) } else { Pieces::of([data(body)]) };
        let answer = client.send(method, path, body).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (StatusCode::BAD_GATEWAY, "application/problem+json")
        );
        assert!(String::from_utf8_lossy(&answer.body).contains("\"upstream_broke\""), "{answer:?}");
        assert_eq!(reported(&seen), lines(&[(number, "GET /first"), (number, &format!("{method} {path}"))]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_never_answers_is_tried_twice_and_no_more() {
    let (test_relay, seen) = test_relay().await;
    let mut client = test_relay.client(Version::HTTP_11).await;
    assert_eq!(client.send("GET", "/first", Pieces::of([])).await.status, StatusCode::OK);
    assert_eq!(client.send("GET", "/never", Pieces::of([])).await.status, StatusCode::BAD_GATEWAY);
    assert_eq!(reported(&seen), lines(&[(0, "GET /first"), (0, "GET /never"), (1, "GET /never")]));
    // There is no pooled connection: a failure on a new one is the upstream's answer.
    assert_eq!(client.send("GET", "/never", Pieces::of([])).await.status, StatusCode::BAD_GATEWAY);
    assert_eq!(reported(&seen), lines(&[(2, "GET /never")]));
}
