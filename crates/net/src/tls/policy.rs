//! The TLS policy of listeners.
//!
//! HTTP: TLS 1.2 and 1.3, HTTP/2 or HTTP/1.1 by ALPN (RFC 7301). RPC: only TLS 1.3 (RFC 8446), with a required client certificate.
//!
//! Groups of the key exchange are chosen in the listener's order. A client that supports the hybrid group but guessed another one for its
//! first message is asked once more for the hybrid one (RFC 8446, 4.1.4).
//!
//! Sessions are resumed by tickets. A ticket contains the client's certificates, so that a resumed session has the identity of the full
//! handshake, which the listener checks again: its validity, and what it may do. Sessions of other authorities, and those of a listener of
//! the other kind, which have no identity, are not resumed.

use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::ssl::{
    AlpnError, SslAcceptor, SslAcceptorBuilder, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions,
    SslVerifyMode, SslVersion, select_next_proto,
};
use boring::x509::store::X509StoreBuilder;
use leafseal_config::KeyExchange;

use super::error::TlsError;
use super::identity::{ServerIdentity, certificates, set_identity};
use super::sessions::SessionSettings;
use super::verified_chains::VerifiedChains;

/// HTTP/2 is preferred.
const ALPN: &[u8] = b"\x02h2\x08http/1.1";

/// Those that Mozilla calls intermediate, for TLS 1.2: forward secrecy, authenticated encryption. In brackets, so that the client's order
/// counts: it knows whether its CPU has AES. Those of TLS 1.3 are not configurable.
const CIPHERS: &str = "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-RSA-AES128-GCM-SHA256|ECDHE-ECDSA-AES256-GCM-SHA384|\
                       ECDHE-RSA-AES256-GCM-SHA384|ECDHE-ECDSA-CHACHA20-POLY1305|ECDHE-RSA-CHACHA20-POLY1305]";

/// The premise of resumed sessions besides the authorities of clients: the kind of listener.
const HTTP_SESSIONS: &[u8] = b"https";
const MUTUAL_SESSIONS: &[u8] = b"mutual ";

/// Creates a context with this policy and without a certificate, for callers that select one per session; see
/// [`Acceptor::with_context`](super::Acceptor::with_context).
///
/// # Errors
/// If the library refuses a setting.
pub fn server_context(sessions: &SessionSettings, key_exchange: &KeyExchange) -> Result<SslAcceptorBuilder, TlsError> {
    let mut context = policy()?;
    set_key_exchange(&mut context, key_exchange)?;
    context.set_options(SslOptions::CIPHER_SERVER_PREFERENCE);
    sessions.apply(&mut context, HTTP_SESSIONS)?;
    Ok(context)
}

fn policy() -> Result<SslAcceptorBuilder, ErrorStack> {
    let mut context = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls())?;
    context.set_cipher_list(CIPHERS)?;
    context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    context.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::RELEASE_BUFFERS);
    // A client without ALPN uses HTTP/1.1; one that offers only other protocols is refused.
    context.set_alpn_select_callback(|_, offered| select_next_proto(ALPN, offered).ok_or(AlpnError::ALERT_FATAL));
    Ok(context)
}

/// The settings of a listener that authenticates clients by certificates.
#[derive(Clone, Copy, Debug)]
pub struct MutualTls<'a> {
    /// The certificate that it presents.
    pub identity: &'a ServerIdentity,
    /// Authorities of clients' certificates, in PEM; at least one.
    pub client_authorities_pem: &'a [u8],
    /// Bounds of the clients' certificates that are remembered as verified.
    pub verified_chains: VerifiedChains,
    /// The only protocol, as encoded in ALPN: its length, then its name.
    pub alpn: &'static [u8],
}

/// Creates a context for clients with certificates; see the module's documentation.
///
/// # Errors
/// If a part cannot be parsed, or parts do not match.
pub fn mutual_context(settings: MutualTls<'_>) -> Result<SslContext, TlsError> {
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    set_mutual_policy(&mut context, settings.alpn)?;
    set_key_exchange(&mut context, &settings.identity.key_exchange)?;
    set_identity(&mut context, settings.identity)?;
    let authorities = set_authorities(&mut context, settings.client_authorities_pem)?;
    settings.verified_chains.apply(&mut context);
    settings.identity.sessions.apply(&mut context, &[MUTUAL_SESSIONS, &authorities].concat())?;
    Ok(context.build())
}

fn set_mutual_policy(context: &mut SslContextBuilder, alpn: &'static [u8]) -> Result<(), ErrorStack> {
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_options(SslOptions::CIPHER_SERVER_PREFERENCE);
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::RELEASE_BUFFERS);
    context.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    // A client without ALPN is assumed to use our protocol; one that offers only others is refused.
    context.set_alpn_select_callback(move |_, offered| select_next_proto(alpn, offered).ok_or(AlpnError::ALERT_FATAL));
    Ok(())
}

/// Offers or accepts these groups, of a listener or of a client. Where only hybrid ones are accepted, TLS 1.2, which has none, is refused.
///
/// # Errors
/// If the settings admit no group.
pub fn set_key_exchange(context: &mut SslContextBuilder, settings: &KeyExchange) -> Result<(), TlsError> {
    context.set_curves_list(&settings.list()?)?;
    if settings.requires_hybrid() {
        context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    }
    Ok(())
}

/// Returns the authorities' digests, in their order.
fn set_authorities(context: &mut SslContextBuilder, authorities_pem: &[u8]) -> Result<Vec<u8>, TlsError> {
    let mut store = X509StoreBuilder::new()?;
    let mut digests = Vec::new();
    for authority in certificates("client authorities", authorities_pem)? {
        context.add_client_ca(&authority)?;
        digests.extend_from_slice(&authority.digest(MessageDigest::sha256())?);
        store.add_cert(authority)?;
    }
    context.set_cert_store_builder(store);
    Ok(digests)
}
