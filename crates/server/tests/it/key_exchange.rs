//! The key exchange: hybrid with every client that has it, classic with an older one, and hybrid or nothing where that is required.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use boring::ssl::{SslConnectorBuilder, SslVersion};
use leafseal_client::{Client, ErrorKind, Retry};
use leafseal_config::{KeyExchange, KeyExchangeRule, TlsGroup};

use leafseal_engine::Settings;
use leafseal_protocol::FrameLimits;
use leafseal_server::{Server, ServerSettings};
use leafseal_service::EngineService;
use leafseal_testkit::{EngineFixture, engine};

use crate::common::{PATIENCE, Pki, Raw, TestServer, raw_connector, wait_until};

/// An engine with both listeners.
struct EngineServer {
    pki: Pki,
    server: Server,
    _fixture: EngineFixture,
}

impl EngineServer {
    fn new(change: impl FnOnce(&mut ServerSettings)) -> Self {
        let (pki, fixture) = (Pki::new(), engine(Settings::default(), "shop", None));
        let mut settings = pki.server_settings();
        change(&mut settings);
        let service = EngineService::new(fixture.engine.clone(), FrameLimits::default(), 1 << 30);
        let server = Server::start(settings, Arc::new(service)).unwrap();
        EngineServer { pki, server, _fixture: fixture }
    }

    fn rpc(&self) -> SocketAddr {
        self.server.local_addr()
    }

    fn metrics(&self) -> String {
        let mut socket = TcpStream::connect(self.server.operator_addr().expect("an operator port")).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    }

    fn api(&self) -> SocketAddr {
        self.server.api_addr().expect("an API")
    }
}

const HYBRID: &str = "X25519MLKEM768";

fn required() -> KeyExchange {
    KeyExchange { require: KeyExchangeRule::Hybrid, ..KeyExchange::default() }
}

/// A client that offers these groups; an older one has no hybrid group.
fn connector(pki: &Pki, groups: Option<&str>) -> SslConnectorBuilder {
    let mut connector = raw_connector(pki, Some(pki.client("shop")));
    groups.into_iter().for_each(|groups| connector.set_curves_list(groups).unwrap());
    connector
}

/// The group that a client agrees on with a listener.
fn agreed(address: SocketAddr, connector: SslConnectorBuilder) -> Result<&'static str, String> {
    Raw::try_connect(address, connector).map(|raw| raw.stream.ssl().curve_name().unwrap_or("none"))
}

#[test]
fn every_listener_prefers_the_hybrid_group_and_accepts_older_clients() {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = EngineServer::new(|settings| settings.operator.address = Some(local));
    for address in [server.rpc(), server.api()] {
        for (groups, expected) in [
            (None, HYBRID),
            (Some("X25519:P-256"), "X25519"),
            (Some("P-256"), "P-256"),
            // One that has it and prefers another, for which alone it sends a key share, is asked again.
            (Some("P-256:X25519:X25519MLKEM768"), HYBRID),
        ] {
            assert_eq!(agreed(address, connector(&server.pki, groups)).as_deref(), Ok(expected), "{groups:?}");
        }
    }
    let mut tls_1_2 = connector(&server.pki, None);
    tls_1_2.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    assert_eq!(agreed(server.api(), tls_1_2).as_deref(), Ok("X25519"));
    let rows =
        [("rpc", HYBRID, 2), ("rpc", "X25519", 1), ("rpc", "P-256", 1), ("api", HYBRID, 2), ("api", "X25519", 2)];
    for (listener, group, count) in rows {
        let line = format!("leafseal_tls_key_exchanges_total{{listener=\"{listener}\",group=\"{group}\"}} {count}\n");
        wait_until("each handshake is counted", || server.metrics().contains(&line));
    }
}

#[test]
fn a_listener_that_requires_a_hybrid_group_refuses_the_rest() {
    let server = EngineServer::new(|settings| {
        settings.tls.key_exchange = required();
        settings.api.identity.as_mut().expect("an API").key_exchange = required();
    });
    for address in [server.rpc(), server.api()] {
        assert_eq!(agreed(address, connector(&server.pki, None)).as_deref(), Ok(HYBRID));
        for groups in ["X25519:P-256", "P-256"] {
            let error = agreed(address, connector(&server.pki, Some(groups))).expect_err("no hybrid group");
            assert!(error.contains("ALERT_HANDSHAKE_FAILURE"), "{error}");
        }
        let mut tls_1_2 = connector(&server.pki, None);
        tls_1_2.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
        let error = agreed(address, tls_1_2).expect_err("no hybrid group");
        assert!(error.contains("PROTOCOL_VERSION"), "{error}");
    }
}

#[tokio::test]
async fn a_client_names_the_setting_when_no_group_is_shared() {
    for (of_server, of_client) in [
        (required(), KeyExchange { groups: vec![TlsGroup::X25519], ..KeyExchange::default() }),
        (KeyExchange { groups: vec![TlsGroup::X25519, TlsGroup::P256], ..KeyExchange::default() }, required()),
    ] {
        let test_server = TestServer::with(|settings| settings.tls.key_exchange = of_server.clone());
        let mut settings = test_server.client_settings();
        settings.key_exchange = of_client;
        let error = Client::connect(settings).await.expect_err("no group is shared");
        assert_eq!((error.kind, error.retry), (ErrorKind::Tls, Retry::Never), "{error}");
        assert!(error.message.contains("`tls_groups` and `tls_require`"), "{error}");
        wait_until("it is counted", || test_server.server.counters().handshakes_failed == 1);
    }
}

#[tokio::test]
async fn a_client_without_a_group_is_not_created() {
    let test_server = TestServer::new();
    let mut settings = test_server.client_settings();
    settings.key_exchange = KeyExchange { groups: vec![TlsGroup::P256], require: KeyExchangeRule::Hybrid };
    let error = Client::connect(settings).await.expect_err("nothing to offer");
    assert!(error.message.contains("`tls_groups` must contain X25519MLKEM768"), "{error}");
}

#[test]
fn a_call_of_the_api_works_over_a_hybrid_connection() {
    let server = EngineServer::new(|settings| {
        settings.api.identity.as_mut().expect("an API").key_exchange = required();
    });
    let socket = TcpStream::connect(server.api()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = connector(&server.pki, None).build().connect("localhost", socket).unwrap();
    stream.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
