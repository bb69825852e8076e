//! The key exchange of the relay's listeners, of connections inside its tunnels, and with upstreams.

use std::net::SocketAddr;
use std::sync::Arc;

use boring::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslVerifyMode, SslVersion};
use hyper::{StatusCode, Version};
use leafseal_config::{KeyExchange, KeyExchangeRule, TlsGroup};
use leafseal_http::{HttpSettings, Listener, ListenerEvent, ListenerObserver, ListenerOptions};
use leafseal_net::tls::Acceptor;
use leafseal_relay::Configuration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::{Identity, PATIENCE, Pieces, TestRelay};
use crate::upstreams::Echo;

const HYBRID: &str = "X25519MLKEM768";
const REQUIRED: &str = "tls_require = \"hybrid\"\n";

struct Silent;

impl ListenerObserver for Silent {
    fn observe(&self, _: &ListenerEvent<'_>) {}
}

/// A client that offers these groups; an older one has no hybrid group.
fn connector(groups: Option<&str>) -> SslConnectorBuilder {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    groups.into_iter().for_each(|groups| connector.set_curves_list(groups).unwrap());
    connector
}

async fn agreed_on(socket: TcpStream, connector: SslConnectorBuilder) -> Result<&'static str, String> {
    let configuration = connector.build().configure().unwrap();
    let shaken = timeout(PATIENCE, tokio_boring::connect(configuration, "localhost", socket)).await.expect("in time");
    shaken.map(|stream| stream.ssl().curve_name().unwrap_or("none")).map_err(|error| error.to_string())
}

/// The group that a client agrees on with a listener.
async fn agreed(address: SocketAddr, connector: SslConnectorBuilder) -> Result<&'static str, String> {
    agreed_on(TcpStream::connect(address).await.unwrap(), connector).await
}

/// The same inside a tunnel.
async fn agreed_inside(address: SocketAddr, connector: SslConnectorBuilder) -> Result<&'static str, String> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"CONNECT a.example.test:443 HTTP/1.1\r\nHost: a.example.test:443\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, socket.read_u8()).await.expect("an answer in time").expect("an answer"));
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    agreed_on(socket, connector).await
}

#[tokio::test(flavor = "multi_thread")]
async fn inbound_listeners_prefer_the_hybrid_group_and_accept_older_clients() {
    let relay = TestRelay::new("http://127.0.0.1:1", &Identity::new(), "", "");
    for (groups, expected) in [(None, HYBRID), (Some("X25519:P-256"), "X25519"), (Some("P-384"), "P-384")] {
        assert_eq!(agreed(relay.address(true), connector(groups)).await.as_deref(), Ok(expected), "{groups:?}");
    }
    for (group, count) in [(HYBRID, 1.0), ("X25519", 1.0), ("P-256", 0.0), ("P-384", 1.0)] {
        let sample = format!("leafseal_relay_tls_key_exchanges_total{{listener=\"inbound-1\",group=\"{group}\"}}");
        assert_eq!(relay.metric(&sample).await, count, "{group}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbound_listener_that_requires_a_hybrid_group_refuses_the_rest() {
    let relay = TestRelay::with_tls("http://127.0.0.1:1", &Identity::new(), REQUIRED);
    assert_eq!(agreed(relay.address(false), connector(None)).await.as_deref(), Ok(HYBRID));
    let error = agreed(relay.address(false), connector(Some("X25519:P-256"))).await.expect_err("an older client");
    assert!(error.contains("HANDSHAKE_FAILURE"), "{error}");
    let mut tls_1_2 = connector(None);
    tls_1_2.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    let error = agreed(relay.address(false), tls_1_2).await.expect_err("TLS 1.2");
    assert!(error.contains("PROTOCOL_VERSION"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_inside_tunnels_follow_their_listener() {
    const DESTINATION: &str = "keyless_connect = \"tunnel\"\n[[outbound.destination]]\nhosts = [\"*.example.test\"]\n";
    let identity = Identity::new();
    let relay = TestRelay::outbound(&identity, DESTINATION);
    assert_eq!(agreed_inside(relay.address(false), connector(None)).await.as_deref(), Ok(HYBRID));
    assert_eq!(agreed_inside(relay.address(false), connector(Some("P-256"))).await.as_deref(), Ok("P-256"));
    let relay = TestRelay::outbound(&identity, &format!("{REQUIRED}{DESTINATION}"));
    assert_eq!(agreed_inside(relay.address(false), connector(None)).await.as_deref(), Ok(HYBRID));
    let error = agreed_inside(relay.address(false), connector(Some("P-256"))).await.expect_err("an older client");
    assert!(error.contains("HANDSHAKE_FAILURE"), "{error}");
}

/// An upstream with these groups, and a relay in front of it with these settings; the status and body of an answer, which the access log
/// says the group of.
async fn answer(of_upstream: KeyExchange, settings: &str) -> (StatusCode, String) {
    let mut identity = Identity::new();
    identity.key_exchange = of_upstream.clone();
    let options = ListenerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        acceptor: Some(Acceptor::new(&identity.of_server()).unwrap()),
        settings: HttpSettings::default(),
        observer: Arc::new(Silent),
    };
    let upstream = Listener::start(options, Arc::new(Echo)).unwrap();
    let origin = format!("https://localhost:{}", upstream.local_addr().port());
    let relay = TestRelay::new(&origin, &identity, settings, "");
    let answer = relay.client(Version::HTTP_2).await.send("GET", "/logged", Pieces::of([])).await;
    let line = relay.log.about("/logged").await;
    assert_eq!(line["tls_group"], HYBRID);
    let agreed = answer.status.is_success().then(|| of_upstream.groups[0].as_str());
    assert_eq!(line.get("upstream_tls_group").and_then(|group| group.as_str()), agreed);
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_are_offered_the_hybrid_group_and_may_be_required_to_have_it() {
    let hybrid = KeyExchange { require: KeyExchangeRule::Hybrid, ..KeyExchange::default() };
    let classic = KeyExchange { groups: vec![TlsGroup::P256], ..KeyExchange::default() };
    assert_eq!(answer(hybrid.clone(), "").await.0, StatusCode::OK);
    assert_eq!(answer(classic.clone(), "").await.0, StatusCode::OK);
    assert_eq!(answer(hybrid.clone(), REQUIRED).await.0, StatusCode::OK);
    let (status, body) = answer(classic, REQUIRED).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(body.contains("upstream_unreachable"), "{body}");
    assert_eq!(answer(hybrid, "tls_groups = [\"X25519\"]").await.0, StatusCode::BAD_GATEWAY);
    let relay = TestRelay::new("http://127.0.0.1:1", &Identity::new(), "", "");
    let sample = |group: &str| format!("leafseal_relay_upstream_tls_key_exchanges_total{{group=\"{group}\"}}");
    assert!(relay.metric(&sample(HYBRID)).await >= 2.0 && relay.metric(&sample("P-256")).await >= 1.0);
}

#[test]
fn settings_without_a_key_exchange_are_refused() {
    let file = |upstream: &str, inbound: &str| {
        format!(
            "[relay]\n[engine]\naddresses = [\"localhost:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
             [upstream]\n{upstream}\n[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a:1\"\n{inbound}\n"
        )
    };
    let pair = "certificate = \"a\"\nprivate_key = \"a\"\n";
    for (upstream, inbound, expected) in [
        ("tls_groups = []", "", "upstream.tls_groups must contain at least one group"),
        ("tls_groups = [\"X25519\"]\ntls_require = \"hybrid\"", "", "upstream.tls_groups must contain X25519MLKEM768"),
        ("", &*format!("{pair}tls_groups = [\"P-256\"]\n{REQUIRED}"), "tls_groups must contain X25519MLKEM768"),
        ("", REQUIRED, "the listener has no certificate"),
        ("tls_groups = [\"P-521\"]", "", "must be a list of groups"),
    ] {
        let problems = Configuration::parse(&file(upstream, inbound)).expect_err(expected);
        assert!(problems.iter().any(|problem| problem.to_string().contains(expected)), "{problems:?}");
    }
}
