//! Opens connections to upstreams: name resolution, socket, TLS, protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use boring::error::ErrorStack;
use boring::ssl::{Error as SslError, SslConnector, SslMethod, SslMode, SslVerifyMode, SslVersion};
use boring::x509::{X509, X509VerifyError};
use hyper_util::rt::TokioIo;
use leafseal_net::prepare_socket;
use leafseal_net::tls::{
    TlsError, chain_expiry, keep_chain_expiry, negotiated_group, reasons, record_chain_expiries, set_key_exchange,
};
use thiserror::Error;
use tokio::io::{BufReader, BufWriter};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_boring::SslStream;
use tokio_util::either::Either;

use crate::config::UpstreamSettings;
use crate::key_exchanges::UPSTREAM_KEY_EXCHANGES;
use crate::policy::Origin;

/// BoringSSL reads a record in two parts and writes each record separately; buffers of this size combine them.
const BUFFER_SIZE: usize = 16 << 10;
/// Time without acknowledgements, as the system measures it, after which a connection counts as dead.
const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(60);
const ALPN: &[u8] = b"\x02h2\x08http/1.1";
const ALPN_1: &[u8] = b"\x08http/1.1";

pub(crate) type Io = TokioIo<Either<TcpStream, SslStream<BufWriter<BufReader<TcpStream>>>>>;

/// A new connection.
pub(crate) struct Connected {
    pub(crate) io: Io,
    pub(crate) protocol: HttpProtocol,
    pub(crate) tls: UpstreamTls,
}

/// What TLS with an upstream came to; nothing without TLS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UpstreamTls {
    /// When the first certificate of the upstream's verified chain expires. No request begins on the connection then.
    pub(crate) expires: Option<Instant>,
    /// The group of the key exchange.
    pub(crate) group: Option<&'static str>,
}

impl UpstreamTls {
    /// Whether the certificates are still valid.
    pub(super) fn is_valid(self) -> bool {
        self.expires.is_none_or(|expires| Instant::now() < expires)
    }
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpProtocol {
    Http1,
    Http2,
}

/// Why a connection could not be opened.
#[derive(Clone, Debug, Error)]
pub(crate) enum ConnectError {
    #[error("its name does not resolve: {0}")]
    Name(String),
    #[error("it cannot be reached: {0}")]
    Socket(String),
    #[error("its certificate was refused: {0}")]
    Certificate(String),
    #[error("TLS failed: {0}")]
    Tls(String),
    #[error("it did not answer in time")]
    TimedOut,
}

/// Why the settings are invalid.
#[derive(Debug, Error)]
pub enum ConnectorError {
    /// The file of authorities cannot be read.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// The file contains no certificates.
    #[error("{0}: no certificates in PEM")]
    NoCertificates(String),
    /// The TLS library refused.
    #[error("the TLS library failed: {0}")]
    Library(#[from] ErrorStack),
    /// The TLS library refused the groups of the key exchange.
    #[error(transparent)]
    Groups(#[from] TlsError),
}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: SslConnector,
    /// For protocols that are upgraded from HTTP/1.1.
    tls_1: SslConnector,
    settings: Arc<UpstreamSettings>,
}

impl Connector {
    pub(crate) fn new(settings: &UpstreamSettings, base: &Path) -> Result<Self, ConnectorError> {
        let authorities = match &settings.authorities {
            Some(path) => {
                let path = base.join(path);
                let shown = path.display().to_string();
                let pem = fs::read(&path).map_err(|error| ConnectorError::File(shown.clone(), error))?;
                let certificates = X509::stack_from_pem(&pem).unwrap_or_default();
                if certificates.is_empty() {
                    return Err(ConnectorError::NoCertificates(shown));
                }
                certificates
            }
            None => Vec::new(),
        };
        let alpn = if settings.http2 { ALPN } else { ALPN_1 };
        Ok(Connector {
            tls: connector(settings, &authorities, alpn)?,
            tls_1: connector(settings, &authorities, ALPN_1)?,
            settings: Arc::new(settings.clone()),
        })
    }

    pub(crate) fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// Opens a connection within the time limit.
    pub(crate) async fn connect(&self, origin: &Origin, may_be_2: bool) -> Result<Connected, ConnectError> {
        let limit = self.settings.connect_timeout;
        timeout(limit, self.dial(origin, may_be_2)).await.unwrap_or(Err(ConnectError::TimedOut))
    }

    /// The words for a failed handshake.
    fn explained(&self, reasons: String) -> String {
        let is_refusal =
            ["HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"].iter().any(|it| reasons.contains(it));
        if reasons.is_empty() {
            "it closed the connection".to_owned()
        } else if is_refusal && self.settings.key_exchange.requires_hybrid() {
            format!("it may not support the hybrid key exchange that upstream.tls_require demands ({reasons})")
        } else {
            reasons
        }
    }

    async fn dial(&self, origin: &Origin, may_be_2: bool) -> Result<Connected, ConnectError> {
        let socket = dial_socket(origin).await?;
        if !origin.is_tls {
            let io = TokioIo::new(Either::Left(socket));
            return Ok(Connected { io, protocol: HttpProtocol::Http1, tls: UpstreamTls::default() });
        }
        let connector = if may_be_2 { &self.tls } else { &self.tls_1 };
        let mut configuration = connector.configure().map_err(|error| ConnectError::Tls(reasons(&error)))?;
        keep_chain_expiry(&mut configuration).map_err(|error| ConnectError::Tls(reasons(&error)))?;
        let socket = BufWriter::with_capacity(BUFFER_SIZE, BufReader::with_capacity(BUFFER_SIZE, socket));
        let stream = tokio_boring::connect(configuration, &origin.host, socket).await.map_err(|error| {
            match error.ssl().map(|ssl| ssl.verify_result()) {
                // Without a certificate to verify, the result is that of a wrong call.
                Some(Err(verdict)) if verdict != X509VerifyError::INVALID_CALL => {
                    ConnectError::Certificate(verdict.error_string().to_owned())
                }
                _ => {
                    let source = std::error::Error::source(&error).and_then(|it| it.downcast_ref::<SslError>());
                    let reasons = source.and_then(SslError::ssl_error).map(reasons).unwrap_or_default();
                    ConnectError::Tls(self.explained(reasons))
                }
            }
        })?;
        UPSTREAM_KEY_EXCHANGES.count(stream.ssl());
        let group = negotiated_group(stream.ssl());
        tracing::debug!(upstream = %origin.host, tls_group = group, "connected to an upstream");
        let protocol = match stream.ssl().selected_alpn_protocol() {
            Some(b"h2") => HttpProtocol::Http2,
            _ => HttpProtocol::Http1,
        };
        let expires = chain_expiry(stream.ssl()).and_then(|last_second| expires(last_second, SystemTime::now()));
        let tls = UpstreamTls { expires, group: Some(group) };
        Ok(Connected { io: TokioIo::new(Either::Right(stream)), protocol, tls })
    }
}

/// The time after the last second of a chain's validity; `None` if it is further ahead than the clock can express.
fn expires(last_second: i64, now: SystemTime) -> Option<Instant> {
    let end = u64::try_from(last_second).map_or(Duration::ZERO, |last| Duration::from_secs(last.saturating_add(1)));
    let left = end.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    Instant::now().checked_add(left)
}

/// An I/O error in the system's words, without its number. `ErrorKind` has no text for most errors of a lookup.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn connector(settings: &UpstreamSettings, authorities: &[X509], alpn: &[u8]) -> Result<SslConnector, ConnectorError> {
    let mut builder = SslConnector::builder(SslMethod::tls())?;
    if !settings.system_authorities {
        // The builder contains the system's authorities; a new store is empty.
        builder.set_cert_store_builder(boring::x509::store::X509StoreBuilder::new()?);
    }
    for authority in authorities {
        builder.cert_store_mut().add_cert(authority.clone())?;
    }
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    set_key_exchange(&mut builder, &settings.key_exchange)?;
    builder.set_mode(SslMode::RELEASE_BUFFERS);
    builder.set_verify(SslVerifyMode::PEER);
    builder.set_alpn_protos(alpn)?;
    record_chain_expiries(&mut builder);
    Ok(builder.build())
}

async fn dial_socket(origin: &Origin) -> Result<TcpStream, ConnectError> {
    let addresses = lookup_host((&*origin.host, origin.port)).await;
    let addresses = addresses.map_err(|error| ConnectError::Name(plain(&error)))?;
    let mut failure = ConnectError::Name("it has no address".to_owned());
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(socket) => {
                // A broken socket is reported when it is used.
                let _ = prepare_socket(&socket, HALF_OPEN_TIMEOUT);
                return Ok(socket);
            }
            Err(error) => failure = ConnectError::Socket(plain(&error)),
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_does_not_resolve_is_reported_as_such() {
        // RFC 6761: names below `invalid` never resolve.
        let origin = Origin { is_tls: false, host: "upstream.invalid".into(), port: 80 };
        let error = dial_socket(&origin).await.expect_err("no such name").to_string();
        assert!(error.starts_with("its name does not resolve: ") && !error.contains("uncategorized"), "{error}");
        assert!(!error.contains("os error") && !error.contains("lookup address information"), "{error}");
    }

    #[test]
    fn system_errors_are_plain() {
        assert_eq!(plain(&io::Error::from_raw_os_error(111)), "connection refused");
        assert_eq!(plain(&io::Error::other("")), "");
    }
}
