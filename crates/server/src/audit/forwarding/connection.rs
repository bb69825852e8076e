//! Connections to sinks and witnesses: each step ends at a deadline, and no answer is read without a bound.

use std::path::Path;
use std::time::Duration;

use boring::ssl::{SslConnector, SslMethod, SslVerifyMode, SslVersion};
use boring::x509::X509;
use boring::x509::store::X509StoreBuilder;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use leafseal_config::KeyExchange;
use leafseal_engine::audit::SinkUrl;
use leafseal_net::tls::set_key_exchange;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest answer that is read.
const ANSWER_SIZE_MAX: usize = 64 << 10;

/// A connection of bytes.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> ByteStream for S {}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Connects, over TLS if there are authorities.
pub(super) async fn connect(address: &str, authorities: Option<&Path>) -> Result<Box<dyn ByteStream>, String> {
    let socket = TcpStream::connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
    let Some(authorities) = authorities else { return Ok(Box::new(socket)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut configuration = connector(authorities)?.configure().map_err(shown)?;
    // RFC 6066: server names are DNS names; an address is none.
    configuration.set_use_server_name_indication(host.parse::<std::net::IpAddr>().is_err());
    let stream = tokio_boring::connect(configuration, host, socket).await;
    Ok(Box::new(stream.map_err(|error| format!("TLS failed: {error}"))?))
}

fn connector(authorities: &Path) -> Result<SslConnector, String> {
    let pem = std::fs::read(authorities).map_err(|error| format!("{}: {error}", authorities.display()))?;
    let certificates = X509::stack_from_pem(&pem).map_err(shown)?;
    if certificates.is_empty() {
        return Err(format!("{}: no certificates in PEM", authorities.display()));
    }
    let mut store = X509StoreBuilder::new().map_err(shown)?;
    for authority in certificates {
        store.add_cert(authority).map_err(shown)?;
    }
    let mut connector = SslConnector::builder(SslMethod::tls()).map_err(shown)?;
    connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(shown)?;
    set_key_exchange(&mut connector, &KeyExchange::default()).map_err(shown)?;
    connector.set_verify(SslVerifyMode::PEER);
    connector.set_cert_store_builder(store);
    Ok(connector.build())
}

/// A request with a body.
pub(super) struct PostedMessage<'p> {
    pub(super) url: &'p SinkUrl,
    pub(super) authorities: Option<&'p Path>,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// Sends it on a connection of its own and returns status and body of the answer.
pub(super) async fn post(limit: Duration, request: PostedMessage<'_>) -> Result<(u16, Vec<u8>), String> {
    timeout(limit, exchange(request)).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

async fn exchange(post: PostedMessage<'_>) -> Result<(u16, Vec<u8>), String> {
    let PostedMessage { url, authorities, content_type, headers, body } = post;
    let stream = connect(&url.address, authorities).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(shown)?;
    let mut request = Request::builder().method(Method::POST).uri(&url.path);
    request = request.header(HOST, &url.address).header(CONTENT_TYPE, content_type);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(shown)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(shown)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_SIZE_MAX).collect().await.map_err(shown)?;
        Ok((status, body.to_bytes().to_vec()))
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        answer = &mut answer => answer,
        // The connection may end with the last byte of the answer, and before the answer was read.
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
