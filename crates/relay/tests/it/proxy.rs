//! `CONNECT` to the outbound relay without an engine: which hosts it takes, what it signs, and how it asks for a key.

use boring::base64;
use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::{Identity, PATIENCE, TestRelay};

const DESTINATION: &str = "[[outbound.destination]]\nhosts = [\"*.example.test\", \"[2001:db8::1]\", \"192.0.2.1\"]\n";

async fn open(relay: &TestRelay) -> TcpStream {
    TcpStream::connect(relay.address(false)).await.unwrap()
}

/// Sends `CONNECT` and returns the head and body of the answer.
async fn connect(stream: &mut TcpStream, target: &str, version: &str, fields: &str) -> (u16, String) {
    let request = format!("CONNECT {target} HTTP/{version}\r\nHost: {target}\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match timeout(PATIENCE, stream.read_u8()).await.expect("an answer in time") {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    let mut head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).expect("a status").parse().unwrap();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    timeout(PATIENCE, stream.read_exact(&mut body)).await.expect("a body in time").unwrap();
    head.push_str(&String::from_utf8(body).unwrap());
    (status, head)
}

/// The status of `CONNECT` over a connection of its own.
async fn status(relay: &TestRelay, target: &str, version: &str) -> (u16, String) {
    connect(&mut open(relay).await, target, version, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_key_is_asked_for_one_and_may_send_it_in_each_scheme() {
    let relay = TestRelay::outbound(&Identity::new(), DESTINATION);
    let mut stream = open(&relay).await;
    let (asked, answer) = connect(&mut stream, "a.example.test:443", "1.1", "").await;
    assert_eq!(asked, 407, "{answer}");
    assert!(answer.contains("proxy-authenticate: basic realm="), "{answer}");
    assert!(answer.contains("proxy-authenticate: bearer realm="), "{answer}");
    // On the same connection, as clients do that wait for it. No engine responds, so a key that was read gives 503.
    for credentials in [
        format!("Basic {}", base64::encode_block(b"acme:lsk_1")),
        format!("basic {}", base64::encode_block(b"lsk_1:")),
        "Bearer lsk_1".to_owned(),
        "lsk_1".to_owned(),
    ] {
        let fields = format!("Proxy-Authorization: {credentials}\r\n");
        let (read, answer) = connect(&mut stream, "a.example.test:443", "1.1", &fields).await;
        assert_eq!(read, 503, "{credentials}: {answer}");
    }
    let (refused, answer) =
        connect(&mut stream, "a.example.test:443", "1.1", "Proxy-Authorization: Digest x\r\n").await;
    assert!(refused == 407 && answer.contains("proxy-authenticate: basic"), "{answer}");
}

/// HTTP/1.0 has no status 407, and SDKs that send their key only inside the tunnel close a connection that does not open one.
#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_opens_without_a_key_where_the_client_cannot_be_asked_or_the_setting_says_so() {
    let identity = Identity::new();
    let with =
        |setting: &str| TestRelay::outbound(&identity, &format!("keyless_connect = \"{setting}\"\n{DESTINATION}"));
    let target = "a.example.test:443";
    for (setting, expected) in [("auto", [407, 200, 200]), ("challenge", [407, 407, 407]), ("tunnel", [200, 200, 200])]
    {
        let relay = with(setting);
        let found = [
            status(&relay, target, "1.1").await.0,
            status(&relay, target, "1.0").await.0,
            connect(&mut open(&relay).await, target, "1.1", "Connection: close\r\n").await.0,
        ];
        assert_eq!(found, expected, "{setting}");
    }
    let (status, answer) = status(&with("tunnel"), "unlisted.test:443", "1.1").await;
    assert!(status == 403 && !answer.contains("proxy-authenticate"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_hosts_and_ports_are_connected_to() {
    let relay = TestRelay::outbound(&Identity::new(), "[[outbound.destination]]\nhosts = [\"*\"]\n");
    for target in [
        "*.example.com:443",
        "a\"b.test:443",
        "$(id).test:443",
        "`id`.test:443",
        "a,DNS:b.test:443",
        "a'b.test:443",
        "a..test:443",
        "-a.test:443",
        "127.1:443",
        "0x7f.1:443",
        "2130706433:443",
        "[fe80::1%25eth0]:443",
        "[::1:443",
        "a.test:0",
        "a.test:65536",
        "a.test",
        &format!("{}.test:443", "a".repeat(64)),
        &format!("{}test:443", "a.".repeat(125)),
    ] {
        let (status, answer) = status(&relay, target, "1.0").await;
        assert_eq!(status, 400, "{target}: {answer}");
    }
    for target in ["a_b.test:443", "xn--bcher-kva.test:443", "A.test.:443", "192.0.2.1:8443", "[2001:db8::1]:443"] {
        assert_eq!(status(&relay, target, "1.0").await.0, 200, "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_is_found_by_every_spelling_of_its_address() {
    let relay = TestRelay::outbound(&Identity::new(), DESTINATION);
    for target in ["[2001:db8::1]:443", "[2001:DB8:0:0::1]:443", "[2001:0db8::0.0.0.1]:443", "[::ffff:192.0.2.1]:443"] {
        assert_eq!(status(&relay, target, "1.0").await.0, 200, "{target}");
    }
    assert_eq!(status(&relay, "[2001:db8::2]:443", "1.0").await.0, 403);
}

/// The certificate is for the host of `CONNECT`, whatever name the handshake asks for.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_for_the_host_of_the_tunnel() {
    let relay = TestRelay::outbound(&Identity::new(), DESTINATION);
    for asked in ["a.example.test", "b.example.test", "elsewhere.test"] {
        let mut stream = open(&relay).await;
        assert_eq!(connect(&mut stream, "A.example.test:443", "1.0", "").await.0, 200);
        let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
        connector.set_verify(SslVerifyMode::NONE);
        let configuration = connector.build().configure().unwrap();
        let handshake = tokio_boring::connect(configuration, asked, stream);
        let stream = timeout(PATIENCE, handshake).await.expect("a handshake in time").unwrap();
        let names = stream.ssl().peer_certificate().unwrap().subject_alt_names().unwrap();
        let names: Vec<_> = names.iter().map(|name| name.dnsname().map(str::to_owned)).collect();
        assert_eq!(names, [Some("a.example.test".to_owned())], "{asked}");
    }
}
