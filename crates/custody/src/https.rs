//! One HTTPS request to a key service, within a deadline and with a bounded answer.
//!
//! The caller blocks. The request runs on a thread and a runtime of its own, because the caller may be inside a runtime, and because a
//! name resolution that hangs cannot be interrupted: it is left behind at the deadline.

use std::error::Error as StdError;
use std::fs;
use std::path::Path;
use std::time::Duration;

use boring::error::ErrorStack;
use boring::ssl::{Error as SslError, SslConnector, SslMethod, SslVerifyMode, SslVersion};
use boring::x509::store::X509StoreBuilder;
use boring::x509::{X509, X509VerifyError};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use leafseal_config::KeyExchange;
use leafseal_net::tls::{TlsError, reasons, set_key_exchange};
use thiserror::Error;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_boring::{HandshakeError, SslStream};
use zeroize::Zeroizing;

use crate::origin::ServerOrigin;

/// Largest file of authorities in bytes: those of a system are a quarter of it.
const PEM_SIZE_MAX: u64 = 1 << 20;
/// Largest head of an answer in bytes; the HTTP library takes no less.
const HEAD_SIZE_MAX: usize = 8 << 10;

/// The server of a request, and the limits.
pub(crate) struct Endpoint<'s> {
    pub(crate) origin: &'s ServerOrigin,
    pub(crate) authorities: &'s Path,
    pub(crate) key_exchange: KeyExchange,
    pub(crate) timeout: Duration,
    pub(crate) answer_size_max: usize,
}

/// The answer to a request.
pub(crate) struct ServiceAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    #[error("{0}")]
    Authorities(String),
    #[error("its name does not resolve: {0}")]
    Name(String),
    #[error("it cannot be reached: {0}")]
    Socket(String),
    #[error("its certificate was refused: {0}")]
    Certificate(String),
    #[error("TLS failed: {0}")]
    Tls(String),
    #[error("it did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("HTTP failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("its answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the thread for the call does not start: {0}")]
    Thread(std::io::Error),
}

impl From<ErrorStack> for ServiceError {
    fn from(error: ErrorStack) -> Self {
        Self::Tls(reasons(&error))
    }
}

impl From<TlsError> for ServiceError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error.to_string())
    }
}

/// Sends `request` and returns the answer, whatever its status.
pub(crate) fn call(endpoint: &Endpoint<'_>, request: Request<Full<Bytes>>) -> Result<ServiceAnswer, ServiceError> {
    std::thread::scope(|scope| {
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(ServiceError::Thread)?;
            let limit = endpoint.timeout;
            let answer = runtime.block_on(async { timeout(limit, exchange(endpoint, request)).await });
            // Without waiting for a name resolution.
            runtime.shutdown_background();
            answer.unwrap_or(Err(ServiceError::TimedOut(limit)))
        };
        let thread = std::thread::Builder::new().name("key-service".to_owned()).spawn_scoped(scope, work);
        thread.map_err(ServiceError::Thread)?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn exchange(endpoint: &Endpoint<'_>, request: Request<Full<Bytes>>) -> Result<ServiceAnswer, ServiceError> {
    let stream = connect(endpoint).await?;
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEAD_SIZE_MAX).handshake(TokioIo::new(stream)).await?;
    let request = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = read(response.into_body(), endpoint.answer_size_max).await?;
        Ok(ServiceAnswer { status, body })
    };
    tokio::pin!(request, connection);
    tokio::select! {
        answer = &mut request => answer,
        // The connection may end with the last byte of the answer, and before the answer was read.
        ended = &mut connection => match ended {
            Ok(()) => request.await,
            Err(error) => Err(error.into()),
        },
    }
}

/// Reads into a buffer that never grows: a growing vector would leave copies behind.
async fn read(mut body: hyper::body::Incoming, size_max: usize) -> Result<Zeroizing<Vec<u8>>, ServiceError> {
    let mut content = Zeroizing::new(Vec::with_capacity(size_max));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if data.len() > size_max - content.len() {
            return Err(ServiceError::TooLarge(size_max));
        }
        content.extend_from_slice(&data);
    }
    Ok(content)
}

async fn connect(endpoint: &Endpoint<'_>) -> Result<SslStream<TcpStream>, ServiceError> {
    let ServerOrigin { host, port, .. } = endpoint.origin;
    let mut configuration = connector(endpoint)?.configure()?;
    // RFC 6066: server names are DNS names; an address is none.
    configuration.set_use_server_name_indication(host.parse::<std::net::IpAddr>().is_err());
    let addresses = lookup_host((host.as_str(), *port)).await.map_err(|error| ServiceError::Name(error.to_string()))?;
    let mut failure = ServiceError::Name("it has no address".to_owned());
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(socket) => {
                let connected = tokio_boring::connect(configuration, host, socket).await;
                let requires_hybrid = endpoint.key_exchange.requires_hybrid();
                return connected.map_err(|error| handshake_error(&error, requires_hybrid));
            }
            Err(error) => failure = ServiceError::Socket(error.to_string()),
        }
    }
    Err(failure)
}

fn handshake_error(error: &HandshakeError<TcpStream>, requires_hybrid: bool) -> ServiceError {
    // Without a certificate to verify, the result is that of a wrong call.
    if let Some(Err(verdict)) = error.ssl().map(|ssl| ssl.verify_result())
        && verdict != X509VerifyError::INVALID_CALL
    {
        return ServiceError::Certificate(verdict.error_string().to_owned());
    }
    let source = error.source().and_then(|source| source.downcast_ref::<SslError>());
    let mut text = match source.and_then(SslError::ssl_error).map(reasons) {
        Some(reasons) => reasons,
        None => "it closed the connection in the handshake".to_owned(),
    };
    // TLS has no alert that says so.
    if requires_hybrid {
        text.push_str("; tls_require is hybrid, which a server without X25519MLKEM768 cannot meet");
    }
    ServiceError::Tls(text)
}

fn connector(endpoint: &Endpoint<'_>) -> Result<SslConnector, ServiceError> {
    let mut connector = SslConnector::builder(SslMethod::tls())?;
    connector.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    set_key_exchange(&mut connector, &endpoint.key_exchange)?;
    connector.set_verify(SslVerifyMode::PEER);
    // A store of its own: the system's authorities are not trusted with the keystore.
    let mut store = X509StoreBuilder::new()?;
    for authority in certificates(endpoint.authorities)? {
        store.add_cert(authority)?;
    }
    connector.set_cert_store_builder(store);
    Ok(connector.build())
}

fn certificates(path: &Path) -> Result<Vec<X509>, ServiceError> {
    let unreadable = |reason: &str| ServiceError::Authorities(format!("{}: {reason}", path.display()));
    let size = fs::metadata(path).map_err(|error| unreadable(&error.to_string()))?.len();
    if size > PEM_SIZE_MAX {
        return Err(unreadable("it is too large"));
    }
    let pem = fs::read(path).map_err(|error| unreadable(&error.to_string()))?;
    match X509::stack_from_pem(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unreadable("no certificates in PEM")),
    }
}
