//! TLS to PostgreSQL over BoringSSL: TLS 1.2 or newer, only the authorities that are configured, and the name of the host.

use std::error::Error as StdError;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use boring::error::ErrorStack;
use boring::hash::{MessageDigest, hash};
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::ssl::{ConnectConfiguration, Error as SslError, SslConnector, SslMethod, SslVerifyMode, SslVersion};
use boring::x509::store::X509StoreBuilder;
use boring::x509::{X509, X509VerifyError};
use leafseal_config::{KeyExchange, KeyExchangeRule};
use leafseal_crypto::chain::{chain_expiry, keep_chain_expiry, record_chain_expiries};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_boring::{HandshakeError, SslStream};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::settings::{PostgresSettings, SslMode};
use crate::files;
use crate::secret_path::SecretPath;
use crate::store::system_clock;

/// Largest PEM file in bytes.
const PEM_SIZE_MAX: usize = 1 << 20;

/// Why there is no TLS, for a person.
type NoTlsReason = String;

/// A handshake with one host.
pub(super) struct Handshake {
    configuration: ConnectConfiguration,
    host: String,
    requires_hybrid: bool,
}

impl Handshake {
    /// Reads the certificates of the settings.
    pub(super) fn prepare(settings: &PostgresSettings, host: &str) -> Result<Self, NoTlsReason> {
        let connector = connector(settings)?;
        let mut configuration = connector.configure().map_err(refused)?;
        let is_full = settings.sslmode == SslMode::VerifyFull;
        configuration.set_verify_hostname(is_full);
        keep_chain_expiry(&mut configuration).map_err(refused)?;
        // RFC 6066: server names are DNS names; an address is none.
        configuration.set_use_server_name_indication(host.parse::<std::net::IpAddr>().is_err());
        let requires_hybrid = settings.tls_require == KeyExchangeRule::Hybrid;
        Ok(Self { configuration, host: host.to_owned(), requires_hybrid })
    }
}

fn refused(error: ErrorStack) -> NoTlsReason {
    let reasons: Vec<&str> = error.errors().iter().filter_map(|error| error.reason()).collect();
    format!("the TLS library refuses: {}", reasons.join(", "))
}

fn connector(settings: &PostgresSettings) -> Result<SslConnector, NoTlsReason> {
    let mut connector = SslConnector::builder(SslMethod::tls()).map_err(refused)?;
    connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(refused)?;
    let key_exchange = KeyExchange::by(settings.tls_require);
    let groups = key_exchange.list().map_err(|error| error.to_string())?;
    connector.set_curves_list(&groups).map_err(refused)?;
    if key_exchange.requires_hybrid() {
        connector.set_min_proto_version(Some(SslVersion::TLS1_3)).map_err(refused)?;
    }
    // A store of its own: the system's authorities must not be trusted for the keystore.
    let mut store = X509StoreBuilder::new().map_err(refused)?;
    if matches!(settings.sslmode, SslMode::VerifyFull | SslMode::VerifyCa) {
        let path = settings.authorities.as_deref();
        let path =
            path.ok_or_else(|| format!("keystore.sslmode {} needs keystore.authorities", settings.sslmode.as_str()))?;
        for authority in certificates(path)? {
            store.add_cert(authority).map_err(refused)?;
        }
        connector.set_verify(SslVerifyMode::PEER);
        record_chain_expiries(&mut connector);
    } else {
        connector.set_verify(SslVerifyMode::NONE);
    }
    connector.set_cert_store_builder(store);
    if let (Some(certificate), Some(key)) = (&settings.certificate, &settings.private_key) {
        let mut chain = certificates(certificate)?.into_iter();
        let own = chain.next().expect("at least one certificate was read");
        connector.set_certificate(&own).map_err(refused)?;
        for issuer in chain {
            connector.add_extra_chain_cert(issuer).map_err(refused)?;
        }
        let file = files::open_private(SecretPath::PrivateKeyFile, key).map_err(|error| error.to_string())?;
        let pem = files::read_secret(file, key, PEM_SIZE_MAX).map_err(|error| error.to_string())?;
        let pem = pem.ok_or_else(|| format!("{} is too large", key.display()))?;
        let parsed = PKey::private_key_from_pem(&pem);
        let parsed = parsed.map_err(|_| format!("{} is not readable as a private key in PEM", key.display()))?;
        if !own.public_key().is_ok_and(|public| public.public_eq(&parsed)) {
            return Err(format!("{} does not belong to {}", key.display(), certificate.display()));
        }
        connector.set_private_key(&parsed).map_err(refused)?;
    }
    Ok(connector.build())
}

/// Reads one or more certificates.
fn certificates(path: &Path) -> Result<Vec<X509>, NoTlsReason> {
    let size = fs::metadata(path).map(|metadata| metadata.len());
    if size.is_ok_and(|size| size > PEM_SIZE_MAX as u64) {
        return Err(format!("{} is too large", path.display()));
    }
    let pem = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match X509::stack_from_pem(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} is not readable as certificates in PEM", path.display())),
    }
}

impl TlsConnect<TcpStream> for Handshake {
    type Stream = Encrypted;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        Box::pin(async move {
            let connected = tokio_boring::connect(self.configuration, &self.host, stream).await;
            connected.map(Encrypted).map_err(|error| explain(&error, self.requires_hybrid).into())
        })
    }
}

/// Why a handshake failed.
fn explain(error: &HandshakeError<TcpStream>, requires_hybrid: bool) -> String {
    // Without a certificate to verify, the result is that of a wrong call.
    if let Some(Err(verdict)) = error.ssl().map(|ssl| ssl.verify_result())
        && verdict != X509VerifyError::INVALID_CALL
    {
        return format!("the server's certificate is refused: {}", verdict.error_string());
    }
    let source = StdError::source(error).and_then(|source| source.downcast_ref::<SslError>());
    let stack = source.and_then(SslError::ssl_error);
    let reasons: Vec<&str> =
        stack.map(|stack| stack.errors().iter().filter_map(|error| error.reason()).collect()).unwrap_or_default();
    let mut text = match reasons.as_slice() {
        [] => "the server closed the connection in the TLS handshake".to_owned(),
        reasons => format!("the TLS handshake failed: {}", reasons.join(", ")),
    };
    // TLS has no alert that says so.
    if requires_hybrid {
        text.push_str("; keystore.tls_require is hybrid, which a server without X25519MLKEM768 cannot meet");
    }
    text
}

fn unix_now() -> i64 {
    i64::try_from(system_clock()).unwrap_or(i64::MAX)
}

/// An encrypted connection.
pub(super) struct Encrypted(SslStream<TcpStream>);

impl TlsStream for Encrypted {
    /// RFC 5929, section 4: the hash of the server's certificate, by the hash function of its signature, and by SHA-256 for those that
    /// are broken. It ties the login to this connection, so that no party in between can use it.
    fn channel_binding(&self) -> ChannelBinding {
        let bound = || {
            let certificate = self.0.ssl().peer_certificate()?;
            let signature = certificate.signature_algorithm().object().nid().signature_algorithms()?;
            let digest = match signature.digest {
                Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
                other => MessageDigest::from_nid(other)?,
            };
            let der = certificate.to_der().ok()?;
            Some(hash(digest, &der).ok()?.to_vec())
        };
        bound().map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buf)
    }
}

impl AsyncWrite for Encrypted {
    /// The connection ends with the server's certificates: the next one is verified again.
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        if chain_expiry(self.0.ssl()).is_some_and(|last_second| unix_now() > last_second) {
            let message = "the certificate of the server, or of an authority above it, has expired";
            return Poll::Ready(Err(std::io::Error::other(message)));
        }
        Pin::new(&mut self.0).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
