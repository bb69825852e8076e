//! TLS of the client: policy, and explanations of errors.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use boring::asn1::Asn1Time;
use boring::error::ErrorStack;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::ssl::{
    ConnectConfiguration, Error as SslError, SslConnector, SslMethod, SslMode, SslSessionCacheMode, SslVerifyMode,
    SslVersion,
};
use boring::x509::store::X509StoreBuilder;
use boring::x509::{X509, X509NameRef, X509Ref, X509VerifyError};
use leafseal_config::KeyExchange;
use leafseal_protocol::{ALPN_LIST, Retry};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio_boring::{HandshakeError, SslStream};

use crate::error::{ClientError, ErrorKind, RequestProgress};
use crate::identity::{ClientTls, TlsPart, TlsProblem};

/// BoringSSL reads a record in two parts and writes each record separately; buffers of this size combine them.
const BUFFER_SIZE: usize = 64 << 10;

/// A buffered stream.
pub(crate) type BufferedStream<S> = BufWriter<BufReader<S>>;
/// A buffered TCP socket.
pub(crate) type BufferedSocket = BufferedStream<TcpStream>;
/// A TLS stream.
pub(crate) type ClientStream = SslStream<BufferedSocket>;

pub(crate) fn socket<S: AsyncRead + AsyncWrite>(stream: S) -> BufferedStream<S> {
    BufWriter::with_capacity(BUFFER_SIZE, BufReader::with_capacity(BUFFER_SIZE, stream))
}

impl ClientTls {
    /// Returns the unusable parts, with at most one problem each; empty if all can be used. For callers that know the source of each part
    /// and report it.
    pub fn problems(&self) -> Vec<TlsProblem> {
        parse(self).err().unwrap_or_default()
    }
}

/// The parsed content of [`ClientTls`].
pub(crate) struct ParsedClientTls {
    authorities: Vec<X509>,
    /// At least one.
    chain: Vec<X509>,
    key: PKey<Private>,
}

/// Parses all three parts.
///
/// # Errors
/// The problem of each unusable part; at least one.
pub(crate) fn parse(tls: &ClientTls) -> Result<ParsedClientTls, Vec<TlsProblem>> {
    let authorities = certificates(TlsPart::Authorities, "authorities", &tls.authorities_pem);
    let chain = certificates(TlsPart::CertificateChain, "certificate chain", &tls.certificate_chain_pem);
    let unusable = |message: &str| TlsProblem { part: TlsPart::PrivateKey, message: message.to_owned() };
    let key = PKey::private_key_from_pem(&tls.private_key_pem)
        .map_err(|_| unusable("the private key is not readable as PEM"))
        .and_then(|key| match chain.as_ref().ok().and_then(|chain| chain.first()) {
            Some(own) if !own.public_key().is_ok_and(|public| public.public_eq(&key)) => {
                Err(unusable("the private key does not belong to the certificate"))
            }
            _ => Ok(key),
        });
    match (authorities, chain, key) {
        (Ok(authorities), Ok(chain), Ok(key)) => Ok(ParsedClientTls { authorities, chain, key }),
        (authorities, chain, key) => Err([authorities.err(), chain.err(), key.err()].into_iter().flatten().collect()),
    }
}

/// Builds the context that all connections share.
pub(crate) fn connector(tls: &ClientTls, key_exchange: &KeyExchange) -> Result<SslConnector, ClientError> {
    let ParsedClientTls { authorities, chain, key } =
        parse(tls).map_err(|problems| ClientError::settings(problems[0].to_string()))?;
    let library = |error: ErrorStack| ClientError::settings(format!("the TLS library refused: {}", reasons(&error)));
    let mut connector = SslConnector::builder(SslMethod::tls()).map_err(library)?;
    connector.set_min_proto_version(Some(SslVersion::TLS1_3)).map_err(library)?;
    let groups = key_exchange.list().map_err(|error| ClientError::settings(format!("`tls_groups` {error}")))?;
    connector.set_curves_list(&groups).map_err(library)?;
    connector.set_session_cache_mode(SslSessionCacheMode::OFF);
    connector.set_mode(SslMode::RELEASE_BUFFERS);
    connector.set_verify(SslVerifyMode::PEER);
    connector.set_alpn_protos(ALPN_LIST).map_err(library)?;

    // A separate store: the system's authorities must not be trusted for the engine.
    let mut store = X509StoreBuilder::new().map_err(library)?;
    for authority in authorities {
        store.add_cert(authority).map_err(library)?;
    }
    connector.set_cert_store_builder(store);

    let mut chain = chain.into_iter();
    let own = chain.next().expect("at least one certificate was read");
    connector.set_certificate(&own).map_err(library)?;
    for issuer in chain {
        connector.add_extra_chain_cert(issuer).map_err(library)?;
    }
    connector.set_private_key(&key).map_err(library)?;
    Ok(connector.build())
}

/// How long the chain of an engine's certificate is valid, as it was verified for a connection: the certificates that the engine has sent
/// are not all of it, and may be others.
#[derive(Clone, Default)]
pub(crate) struct ChainValidity(Arc<Mutex<Option<Duration>>>);

impl ChainValidity {
    /// Watches the verification of a connection's chain. The library calls back for each certificate of the verified path, its authority
    /// included.
    pub(crate) fn watch(&self, configuration: &mut ConnectConfiguration) {
        let least = Arc::clone(&self.0);
        configuration.set_verify_callback(SslVerifyMode::PEER, move |is_valid, verification| {
            if is_valid && let Some(left) = verification.current_cert().map(left) {
                let mut least = least.lock().unwrap_or_else(PoisonError::into_inner);
                *least = Some(least.map_or(left, |least| least.min(left)));
            }
            is_valid
        });
    }

    /// The time from the verification to the first end of validity.
    pub(crate) fn get(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time until a certificate expires; zero if that cannot be read.
fn left(certificate: &X509Ref) -> Duration {
    let left = Asn1Time::days_from_now(0).and_then(|now| now.diff(certificate.not_after()));
    let seconds = left.map_or(0, |left| i64::from(left.days) * 86_400 + i64::from(left.secs) + 1);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Parses one or more certificates.
fn certificates(part: TlsPart, what: &str, pem: &[u8]) -> Result<Vec<X509>, TlsProblem> {
    match X509::stack_from_pem(pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(TlsProblem { part, message: format!("the {what}: not readable as certificates in PEM") }),
    }
}

/// Why a handshake failed.
pub(crate) fn explain_handshake(error: &HandshakeError<BufferedSocket>) -> ClientError {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<SslError>());
    let reasons = source.and_then(SslError::ssl_error).map(reasons).unwrap_or_default();
    if reasons.is_empty() {
        let message = "the engine closed the connection in the handshake";
        return ClientError::new(ErrorKind::Connect, Retry::Elsewhere, message);
    }
    let own_verdict = error.ssl().map_or(Ok(()), |ssl| ssl.verify_result());
    let message = match own_verdict {
        // Without a certificate to verify, the result is that of a wrong call.
        Err(verdict) if verdict != X509VerifyError::INVALID_CALL => {
            let certificate = error.ssl().and_then(|ssl| ssl.peer_certificate());
            let words = words_of(&verdict, certificate.as_deref());
            format!(
                "the engine's certificate {}was refused: {words}",
                certificate.as_deref().map_or_else(String::new, described)
            )
        }
        _ => match verdict(&reasons) {
            Some(words) => refused(words, &reasons),
            None => format!("the handshake failed: {reasons}"),
        },
    };
    ClientError::new(ErrorKind::Tls, Retry::Never, message)
}

/// Maximum length and number of names of a certificate in messages.
const NAME_LENGTH_MAX: usize = 64;
const NAMES_MAX: usize = 8;

/// Describes a certificate by its common name and its authority's. Neither is verified, so they are quoted and truncated.
fn described(certificate: &X509Ref) -> String {
    let name = |name: &X509NameRef| {
        let found = name.entries_by_nid(Nid::COMMONNAME).next().and_then(|entry| entry.data().as_utf8().ok());
        let text: String = found.map_or_else(String::new, |text| text.chars().take(NAME_LENGTH_MAX).collect());
        format!("\"{}\"", text.escape_default())
    };
    format!("{}, issued by {}, ", name(certificate.subject_name()), name(certificate.issuer_name()))
}

/// Describes the TLS library's verdict on the engine's certificate.
fn words_of(verdict: &X509VerifyError, certificate: Option<&X509Ref>) -> String {
    match *verdict {
        X509VerifyError::HOSTNAME_MISMATCH | X509VerifyError::IP_ADDRESS_MISMATCH => {
            let names = certificate.and_then(|it| it.subject_alt_names());
            let names = names.iter().flatten().filter_map(|name| match (name.dnsname(), name.ipaddress()) {
                (Some(host), _) => Some(host.chars().take(NAME_LENGTH_MAX).flat_map(char::escape_default).collect()),
                (None, Some(bytes)) => match bytes.len() {
                    4 => <[u8; 4]>::try_from(bytes).ok().map(|it| IpAddr::from(it).to_string()),
                    _ => <[u8; 16]>::try_from(bytes).ok().map(|it| IpAddr::from(it).to_string()),
                },
                _ => None,
            });
            let names: Vec<String> = names.take(NAMES_MAX).collect();
            format!("it is for {}, and not for the name by which the engine was called", names.join(", "))
        }
        X509VerifyError::CERT_HAS_EXPIRED => "it has expired".to_owned(),
        X509VerifyError::CERT_NOT_YET_VALID => "it is not yet valid".to_owned(),
        X509VerifyError::UNABLE_TO_GET_ISSUER_CERT
        | X509VerifyError::UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        | X509VerifyError::UNABLE_TO_VERIFY_LEAF_SIGNATURE
        | X509VerifyError::DEPTH_ZERO_SELF_SIGNED_CERT
        | X509VerifyError::SELF_SIGNED_CERT_IN_CHAIN
        | X509VerifyError::CERT_SIGNATURE_FAILURE => "it is of an authority that is not trusted here".to_owned(),
        ref other => other.error_string().to_owned(),
    }
}

/// Explains a failed read. In TLS 1.3 the engine verifies our certificate after our side of the handshake is complete, so its alert
/// arrives here. Alerts of other kinds concern the connection: a new one may succeed.
pub(crate) fn explain_read(error: io::Error) -> ClientError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<SslError>());
    let reasons = inner.and_then(SslError::ssl_error).map(reasons).unwrap_or_default();
    match verdict(&reasons) {
        Some(words) => ClientError::new(ErrorKind::Tls, Retry::Never, refused(words, &reasons)),
        None => ClientError::lost(RequestProgress::Maybe, format!("the connection broke: {error}")),
    }
}

/// Describes an alert of the peer about us (RFC 8446, section 6.2).
fn verdict(reasons: &str) -> Option<&'static str> {
    const ALERTS: [(&str, &str); 11] = [
        ("ALERT_CERTIFICATE_REQUIRED", "it asks for a client certificate"),
        ("ALERT_CERTIFICATE_EXPIRED", "our certificate has expired, or is not yet valid"),
        ("ALERT_CERTIFICATE_REVOKED", "our certificate is revoked"),
        ("ALERT_UNKNOWN_CA", "our certificate is of an authority that it does not know"),
        ("ALERT_BAD_CERTIFICATE", "our certificate is not acceptable"),
        ("ALERT_UNSUPPORTED_CERTIFICATE", "our certificate is not meant for clients"),
        ("ALERT_CERTIFICATE_UNKNOWN", "our certificate is not acceptable"),
        ("ALERT_ACCESS_DENIED", "our certificate gives no access"),
        ("ALERT_NO_APPLICATION_PROTOCOL", "it speaks another protocol (ALPN)"),
        ("ALERT_PROTOCOL_VERSION", "it does not speak TLS 1.3"),
        (
            "ALERT_HANDSHAKE_FAILURE",
            "it accepts none of our groups for the key exchange (`tls_groups` and `tls_require` of both sides)",
        ),
    ];
    ALERTS.iter().find(|(name, _)| reasons.contains(name)).map(|(_, words)| *words)
}

/// The phrase for the client's certificate in messages.
const OWN: &str = "our certificate ";

/// Adds the name of our certificate to the message, if the engine refused it.
pub(crate) fn name_own(error: ClientError, tls: &ClientTls) -> ClientError {
    if error.kind != ErrorKind::Tls || !error.message.contains(OWN) {
        return error;
    }
    let Ok(certificate) = X509::from_pem(&tls.certificate_chain_pem) else { return error };
    let message = error.message.replace(OWN, &format!("{OWN}{}", described(&certificate)));
    ClientError { message, ..error }
}

fn refused(words: &str, reasons: &str) -> String {
    format!("the engine refused the connection: {words} ({reasons})")
}

/// The library's reasons, which never contain data.
fn reasons(stack: &ErrorStack) -> String {
    let names: Vec<&str> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    names.join(", ")
}
