//! What HTTP listeners accept: TLS 1.2 and 1.3, HTTP/2 or HTTP/1.1 by ALPN (RFC 7301).

use boring::error::ErrorStack;
use boring::ssl::{AlpnError, SslAcceptor, SslAcceptorBuilder, SslMethod, SslMode, SslVersion, select_next_proto};

use super::identity::TlsError;

/// HTTP/2 is preferred.
const ALPN: &[u8] = b"\x02h2\x08http/1.1";

/// A context with our policy and without a certificate, for whoever chooses one for each session; see
/// [`Acceptor::with_context`](super::Acceptor::with_context).
///
/// # Errors
/// When the library refuses.
pub fn server_context() -> Result<SslAcceptorBuilder, TlsError> {
    Ok(policy()?)
}

fn policy() -> Result<SslAcceptorBuilder, ErrorStack> {
    // The library's list of ciphers that Mozilla calls intermediate: forward secret, authenticated encryption.
    let mut context = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    context.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::RELEASE_BUFFERS);
    // Without ALPN a client speaks HTTP/1.1; one that names only other protocols is refused.
    context.set_alpn_select_callback(|_, offered| select_next_proto(ALPN, offered).ok_or(AlpnError::ALERT_FATAL));
    Ok(context)
}
