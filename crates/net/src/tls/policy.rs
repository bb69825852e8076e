//! The TLS policy of listeners.
//!
//! HTTP: TLS 1.2 and 1.3, HTTP/2 or HTTP/1.1 by ALPN (RFC 7301). RPC: only TLS 1.3 (RFC 8446), with a required client certificate and
//! without session tickets: a resumed session would outlive its certificate, and such clients keep their connections open.

use boring::error::ErrorStack;
use boring::ssl::{
    AlpnError, SslAcceptor, SslAcceptorBuilder, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions,
    SslSessionCacheMode, SslVerifyMode, SslVersion, select_next_proto,
};
use boring::x509::store::X509StoreBuilder;

use super::identity::{ServerIdentity, TlsError, certificates, set_identity};

/// HTTP/2 is preferred.
const ALPN: &[u8] = b"\x02h2\x08http/1.1";

/// Creates a context with this policy and without a certificate, for callers that select one per session; see
/// [`Acceptor::with_context`](super::Acceptor::with_context).
///
/// # Errors
/// If the library refuses a setting.
pub fn server_context() -> Result<SslAcceptorBuilder, TlsError> {
    Ok(policy()?)
}

fn policy() -> Result<SslAcceptorBuilder, ErrorStack> {
    // The library's list of ciphers that Mozilla calls intermediate: forward secrecy, authenticated encryption.
    let mut context = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls())?;
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
    /// What it presents.
    pub identity: &'a ServerIdentity,
    /// Authorities of clients' certificates, in PEM; at least one.
    pub client_authorities_pem: &'a [u8],
    /// Groups for the key agreement, as the library names them.
    pub groups: &'static str,
    /// The only protocol, as encoded in ALPN: its length, then its name.
    pub alpn: &'static [u8],
}

/// Creates a context for clients with certificates; see the module's documentation.
///
/// # Errors
/// If a part cannot be parsed, or parts do not match.
pub fn mutual_context(settings: MutualTls<'_>) -> Result<SslContext, TlsError> {
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    set_mutual_policy(&mut context, settings.groups, settings.alpn)?;
    set_identity(&mut context, settings.identity)?;
    set_authorities(&mut context, settings.client_authorities_pem)?;
    Ok(context.build())
}

fn set_mutual_policy(context: &mut SslContextBuilder, groups: &str, alpn: &'static [u8]) -> Result<(), ErrorStack> {
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_curves_list(groups)?;
    context.set_options(SslOptions::NO_TICKET);
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::RELEASE_BUFFERS);
    context.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    // A client without ALPN is assumed to use our protocol; one that offers only others is refused.
    context.set_alpn_select_callback(move |_, offered| select_next_proto(alpn, offered).ok_or(AlpnError::ALERT_FATAL));
    Ok(())
}

fn set_authorities(context: &mut SslContextBuilder, authorities_pem: &[u8]) -> Result<(), TlsError> {
    let mut store = X509StoreBuilder::new()?;
    for authority in certificates("client authorities", authorities_pem)? {
        context.add_client_ca(&authority)?;
        store.add_cert(authority)?;
    }
    context.set_cert_store_builder(store);
    Ok(())
}
