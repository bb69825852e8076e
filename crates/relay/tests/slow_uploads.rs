//! Time for an answer begins at the request's end; an upstream that takes nothing of a request does not keep it for ever.

mod common;

use std::time::Duration;

use common::{Answer, Identity, Pieces, Stage, data};
use hyper::body::{Bytes, Frame};
use hyper::{StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A relay before an upstream that reads requests to their end and answers, or reads none.
async fn stage(reads: bool) -> Stage {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut unread = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            if reads {
                tokio::spawn(answer(socket));
            } else {
                unread.push(socket);
            }
        }
    });
    let upstream = format!("response_timeout = \"{}ms\"", RESPONSE_TIMEOUT.as_millis());
    Stage::new(&origin, &Identity::new(), &upstream, "")
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
    let stage = stage(true).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = stage.client(version).await;
        let (teller, pieces) = Pieces::new();
        let request = client.request("POST", "/", pieces);
        tokio::spawn(async move {
            for _ in 0..3 {
                // The client's own pauses are not the upstream's.
                sleep(RESPONSE_TIMEOUT * 3 / 2).await;
                teller.send(data(b"piece")).unwrap();
            }
        });
        assert_eq!(Answer::whole(client.begin(request).await).await.body, "ok", "{version:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_takes_nothing_is_given_up() {
    let stage = stage(false).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = stage.client(version).await;
        // More than sockets on the way hold.
        let pieces = (0..64).map(|_| Frame::data(Bytes::from(vec![0; 1 << 20])));
        let answer = client.send("POST", "/", Pieces::of(pieces)).await;
        assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{version:?}");
    }
}
