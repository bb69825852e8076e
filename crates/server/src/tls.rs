//! TLS of the RPC listener: its context, and explanations of failed handshakes.

use std::io;

use boring::asn1::Asn1TimeRef;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::ssl::{Error as SslError, Ssl, SslContext};
use boring::x509::{X509NameRef, X509Ref, X509VerifyError};
use leafseal_net::tls::{
    MutualTls, NO_SHARED_GROUP, ServerIdentity, TlsError, keep_chain_expiry, mutual_context, reasons, unix_seconds,
};
use leafseal_net::utc;
use leafseal_protocol::ALPN_LIST;
use thiserror::Error;
use tokio_boring::HandshakeError;

use crate::settings::TlsSettings;

/// Builds the context that all connections share.
pub(crate) fn context(settings: &TlsSettings) -> Result<SslContext, TlsError> {
    let identity = ServerIdentity {
        certificate_chain_pem: settings.certificate_chain_pem.clone(),
        private_key_pem: settings.private_key_pem.clone(),
        private_key_settings: settings.private_key_settings,
        sessions: settings.sessions.clone(),
        key_exchange: settings.key_exchange.clone(),
    };
    mutual_context(MutualTls {
        identity: &identity,
        client_authorities_pem: &settings.client_authorities_pem,
        verified_chains: settings.verified_chains,
        alpn: ALPN_LIST,
    })
}

/// The state of one new connection.
pub(crate) fn session(context: &SslContext) -> io::Result<Ssl> {
    let mut ssl = Ssl::new(context).map_err(io::Error::other)?;
    keep_chain_expiry(&mut ssl).map_err(io::Error::other)?;
    Ok(ssl)
}

/// Why a handshake failed, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeFailure {
    /// The client has no certificate, or none of an authority that we named.
    #[error("the client sent no certificate")]
    NoCertificate,
    /// The client's certificate was refused.
    #[error("the client's certificate {certificate} {reason}")]
    Certificate {
        /// Its subject, its authority and its fingerprint, as far as they are known.
        certificate: String,
        /// Why, in words.
        reason: String,
    },
    /// The client speaks TLS 1.2 or older.
    #[error("the client does not speak TLS 1.3")]
    OldVersion,
    /// The client has no group that the listener accepts; it may be too old for a listener that requires hybrid ones.
    #[error("{NO_SHARED_GROUP}")]
    NoSharedGroup,
    /// The client names only other protocols.
    #[error("the client speaks another application protocol (ALPN)")]
    OtherProtocol,
    /// The client did not accept the server; its alert gives the reason.
    #[error("the client ended the handshake: {0}")]
    RefusedByClient(String),
    /// Not TLS.
    #[error("the client does not speak TLS")]
    NotTls,
    /// Too many handshakes at a time, and this one was the oldest.
    #[error("too many handshakes in progress: this one was replaced by a newer one")]
    Displaced,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    TimedOut,
    /// The connection broke.
    #[error("the client closed the connection in the handshake")]
    Disconnected,
    /// Something else, in the library's words.
    #[error("{0}")]
    Other(String),
}

impl HandshakeFailure {
    /// Whether the client's certificate is the reason.
    pub(crate) fn is_about_the_certificate(&self) -> bool {
        matches!(self, HandshakeFailure::NoCertificate | HandshakeFailure::Certificate { .. })
    }
}

/// Explains a failed handshake from the library's reasons and the verification of the certificate.
pub(crate) fn explain<S: std::fmt::Debug>(error: &HandshakeError<S>) -> HandshakeFailure {
    let source = std::error::Error::source(error);
    let stack = source.and_then(|source| source.downcast_ref::<SslError>()).and_then(SslError::ssl_error);
    let reasons = stack.map(reasons).unwrap_or_default();
    if reasons.is_empty() {
        return HandshakeFailure::Disconnected;
    }
    let verdict = error.ssl().map_or(Ok(()), |ssl| ssl.verify_result());
    let certificate = error.ssl().and_then(|ssl| ssl.peer_certificate());
    explain_reasons(&reasons, verdict, certificate.as_deref())
}

fn explain_reasons(
    reasons: &str,
    verdict: Result<(), X509VerifyError>,
    certificate: Option<&X509Ref>,
) -> HandshakeFailure {
    let first = reasons.split(", ").next().unwrap_or_default();
    match first {
        "CERTIFICATE_VERIFY_FAILED" => HandshakeFailure::Certificate {
            certificate: certificate.map_or_else(String::new, described),
            reason: reason(verdict, certificate),
        },
        "PEER_DID_NOT_RETURN_A_CERTIFICATE" => HandshakeFailure::NoCertificate,
        "UNSUPPORTED_PROTOCOL" => HandshakeFailure::OldVersion,
        "NO_SHARED_GROUP" => HandshakeFailure::NoSharedGroup,
        "NO_APPLICATION_PROTOCOL" => HandshakeFailure::OtherProtocol,
        "WRONG_VERSION_NUMBER"
        | "HTTP_REQUEST"
        | "HTTPS_PROXY_REQUEST"
        | "UNEXPECTED_RECORD"
        | "INVALID_OUTER_RECORD_TYPE" => HandshakeFailure::NotTls,
        _ if first.contains("_ALERT_") => HandshakeFailure::RefusedByClient(alert(first)),
        _ => HandshakeFailure::Other(reasons.to_owned()),
    }
}

/// Why a client's certificate was refused: completes a sentence whose subject is the certificate.
fn reason(verdict: Result<(), X509VerifyError>, certificate: Option<&X509Ref>) -> String {
    let time = |of: fn(&X509Ref) -> &Asn1TimeRef| {
        let seconds = certificate.and_then(|it| u64::try_from(unix_seconds(of(it)).ok()?).ok());
        seconds.map_or_else(String::new, utc)
    };
    match verdict {
        Ok(()) => "was refused without a reason".to_owned(),
        Err(X509VerifyError::CERT_HAS_EXPIRED) => format!("has expired, at {}", time(|it| it.not_after())),
        Err(X509VerifyError::CERT_NOT_YET_VALID) => format!("is not yet valid, until {}", time(|it| it.not_before())),
        Err(X509VerifyError::INVALID_PURPOSE) => "is not meant for clients".to_owned(),
        Err(
            X509VerifyError::UNABLE_TO_GET_ISSUER_CERT
            | X509VerifyError::UNABLE_TO_GET_ISSUER_CERT_LOCALLY
            | X509VerifyError::UNABLE_TO_VERIFY_LEAF_SIGNATURE
            | X509VerifyError::DEPTH_ZERO_SELF_SIGNED_CERT
            | X509VerifyError::SELF_SIGNED_CERT_IN_CHAIN
            | X509VerifyError::CERT_SIGNATURE_FAILURE,
        ) => "is of an unknown authority: it must be issued by one of server.client_authorities".to_owned(),
        Err(other) => format!("was refused: {}", other.error_string()),
    }
}

/// Maximum length in characters of names from an unverified certificate in the log.
const NAME_LENGTH_MAX: usize = 64;

/// Describes an unverified certificate. Its names may be forged, so they are quoted and truncated.
fn described(certificate: &X509Ref) -> String {
    let name = |name: &X509NameRef| {
        let found = name.entries_by_nid(Nid::COMMONNAME).next().and_then(|entry| entry.data().as_utf8().ok());
        let text: String = found.map_or_else(String::new, |text| text.chars().take(NAME_LENGTH_MAX).collect());
        format!("\"{}\"", text.escape_default())
    };
    let digest = certificate.digest(MessageDigest::sha256());
    let sha256 = digest.map(hex::encode).unwrap_or_default();
    let (subject, issuer) = (name(certificate.subject_name()), name(certificate.issuer_name()));
    format!("{subject}, issued by {issuer}, SHA-256 {sha256},")
}

/// The meaning of a client's alert (RFC 8446, section 6.2).
fn alert(name: &str) -> String {
    const ALERTS: [(&str, &str); 6] = [
        ("ALERT_UNKNOWN_CA", "it does not know the authority of the engine's certificate"),
        ("ALERT_CERTIFICATE_EXPIRED", "the engine's certificate has expired"),
        ("ALERT_CERTIFICATE_UNKNOWN", "it did not accept the engine's certificate"),
        ("ALERT_BAD_CERTIFICATE", "it did not accept the engine's certificate, which may be for another name"),
        ("ALERT_PROTOCOL_VERSION", "it does not speak TLS 1.3"),
        ("ALERT_HANDSHAKE_FAILURE", "it has no TLS parameters in common with the engine"),
    ];
    let words = ALERTS.iter().find(|(known, _)| name.contains(known));
    words.map_or_else(|| name.to_owned(), |(_, words)| format!("{words} ({name})"))
}
