//! Common to issued certificates: their validity, and the errors of issuing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::error::ErrorStack;
use thiserror::Error;
use zeroize::Zeroizing;

use super::error::reasons;

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The current time. Certificates begin five minutes earlier, for clocks that lag.
    pub now: SystemTime,
    /// Days from now, at least 1. An authority's certificates end no later than its own.
    pub days: u32,
}

/// Default validity of an authority: ten years.
pub const AUTHORITY_DAYS: u32 = 3650;
/// Default validity of server and client certificates, which is short, because renewal is a command that timers run. Browsers and
/// Mozilla's guidelines refuse more than a year.
pub const LEAF_DAYS: u32 = 90;

/// How far the start of the validity is backdated.
const BACKDATE: Duration = Duration::from_secs(300);
pub(super) const SECONDS_PER_DAY: u64 = 86_400;

impl Validity {
    /// The default validity of an authority.
    pub fn of_authority(now: SystemTime) -> Self {
        Validity { now, days: AUTHORITY_DAYS }
    }

    /// The default validity of server and client certificates.
    pub fn of_leaf(now: SystemTime) -> Self {
        Validity { now, days: LEAF_DAYS }
    }

    /// First and last second, in Unix time.
    pub(super) fn seconds(&self) -> Result<(i64, i64), CertificateError> {
        if self.days == 0 {
            return Err(CertificateError::Validity);
        }
        let now = self.now.duration_since(UNIX_EPOCH);
        let now = now.map_err(|_| CertificateError::Validity)?;
        let begin = now.saturating_sub(BACKDATE).as_secs();
        let end = now.as_secs() + u64::from(self.days) * SECONDS_PER_DAY;
        // The year 9999 is the last that a certificate can express (RFC 5280, section 4.1.2.5).
        const END_MAX: u64 = 253_402_300_799;
        if end > END_MAX {
            return Err(CertificateError::Validity);
        }
        Ok((begin as i64, end as i64))
    }
}

/// A certificate and its key, in PEM.
pub struct Issued {
    /// The certificate without its authority's, which the peer has.
    pub certificate_pem: Vec<u8>,
    /// The private key, PKCS#8. Wiped on drop.
    pub private_key_pem: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

/// Why a certificate could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// A name that certificates of this kind do not bear.
    #[error("not a usable name: {0}")]
    Name(&'static str),
    /// A server certificate for no name at all.
    #[error("a server certificate must have at least one host name or address")]
    NoServerName,
    /// Zero days, a date before 1970 or beyond 9999, or an authority that is no longer valid.
    #[error("the validity must lie within the years 1970 to 9999 and the authority's validity")]
    Validity,
    /// Not PEM, or not of what was expected.
    #[error("not readable as {0}")]
    Unreadable(&'static str),
    /// The certificate may not sign others, or the key is not its own.
    #[error("not an authority: {0}")]
    NotAnAuthority(&'static str),
    /// The library refused what should have been right.
    #[error("the TLS library failed: {0}")]
    Library(String),
}

impl From<ErrorStack> for CertificateError {
    fn from(stack: ErrorStack) -> Self {
        CertificateError::Library(reasons(&stack))
    }
}
