//! When the verified chain of a TLS peer expires: the earliest end of validity of the certificates that were used to verify it, its
//! authority included. The peer may have sent others, and there may be several paths; only the one that was verified counts.
//!
//! The library checks the chain in the full handshake alone. Connections that stay open and sessions that are resumed need the time as
//! well.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use boring::asn1::{Asn1Time, Asn1TimeRef};
use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{Ssl, SslContextBuilder, SslRef};
use boring::stack::StackRef;
use boring::x509::{X509, X509StoreContext, X509StoreContextRef};

const SECONDS_PER_DAY: i64 = 86_400;
/// The time of a chain that is not known yet.
const UNKNOWN: i64 = i64::MIN;

/// Converts a certificate's time to Unix seconds, which are negative before 1970.
///
/// # Errors
/// If the library cannot compare the time.
pub fn unix_seconds(time: &Asn1TimeRef) -> Result<i64, ErrorStack> {
    let difference = Asn1Time::from_unix(0)?.diff(time)?;
    Ok(i64::from(difference.days) * SECONDS_PER_DAY + i64::from(difference.secs))
}

/// The place of a connection for the time of its peer's chain: callbacks of the library have no other access to the connection.
fn index() -> Result<Index<Ssl, AtomicI64>, ErrorStack> {
    static INDEX: OnceLock<Index<Ssl, AtomicI64>> = OnceLock::new();
    match INDEX.get() {
        Some(index) => Ok(*index),
        None => Ssl::new_ex_index().map(|index| *INDEX.get_or_init(|| index)),
    }
}

/// Lets a new connection keep the time of its peer's chain, for [`chain_expiry`]. Call it before the handshake.
///
/// # Errors
/// If the library is out of memory.
pub fn keep_chain_expiry(ssl: &mut SslRef) -> Result<(), ErrorStack> {
    ssl.set_ex_data(index()?, AtomicI64::new(UNKNOWN));
    Ok(())
}

/// The last second, in Unix time, at which the peer's chain is valid, as it was verified in this connection or in the one whose session it
/// resumes; `None` before that, and where [`keep_chain_expiry`] was not called.
pub fn chain_expiry(ssl: &SslRef) -> Option<i64> {
    let last_second = ssl.ex_data(index().ok()?)?.load(Ordering::Relaxed);
    (last_second != UNKNOWN).then_some(last_second)
}

/// Records the time for a connection that keeps it.
pub(crate) fn record_chain_expiry(ssl: &SslRef, last_second: i64) {
    if let Some(kept) = index().ok().and_then(|index| ssl.ex_data(index)) {
        kept.store(last_second, Ordering::Relaxed);
    }
}

/// Records the time for the connection whose chain is being verified.
pub fn record_verified(verification: &X509StoreContextRef, last_second: i64) {
    if let Some(ssl) = X509StoreContext::ssl_idx().ok().and_then(|index| verification.ex_data(index)) {
        record_chain_expiry(ssl, last_second);
    }
}

/// Verifies a peer's chain as the library does, and returns the last second at which all certificates of the verified path are valid;
/// `None` if the chain is refused.
pub fn verify_chain(verification: &mut X509StoreContextRef) -> Option<i64> {
    if !verification.verify_cert().unwrap_or(false) {
        return None;
    }
    last_second(verification.chain()?)
}

/// Lets the connections of a context that keep it know the time of their peers' chains.
pub fn record_chain_expiries(context: &mut SslContextBuilder) {
    context.set_cert_verify_callback(|verification| match verify_chain(verification) {
        Some(last_second) => {
            record_verified(verification, last_second);
            true
        }
        None => false,
    });
}

fn last_second(chain: &StackRef<X509>) -> Option<i64> {
    let mut earliest = None;
    for certificate in chain {
        let end = unix_seconds(certificate.not_after()).ok()?;
        earliest = Some(earliest.map_or(end, |earliest: i64| earliest.min(end)));
    }
    earliest
}
