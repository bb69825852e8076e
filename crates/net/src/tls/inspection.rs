//! Reads the properties of a certificate that operators need.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::x509::{GeneralNameRef, X509, X509Ref};
use leafseal_crypto::chain::unix_seconds;

use super::authority::ServerName;
use super::certificate::{CertificateError, SECONDS_PER_DAY};

/// The properties of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInspection {
    /// Its common name, or empty.
    pub common_name: String,
    /// The first second of its validity, in Unix time.
    pub not_before: u64,
    /// The last second of its validity, in Unix time.
    pub not_after: u64,
    /// SHA-256 of its DER form.
    pub sha256: [u8; 32],
    /// The hosts and addresses that it is issued for, if any.
    pub names: Vec<ServerName>,
}

impl CertificateInspection {
    /// Whole days from `now` until it expires; 0 on the last day and afterwards.
    pub fn days_left(&self, now: SystemTime) -> u64 {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.not_after.saturating_sub(now) / SECONDS_PER_DAY
    }

    /// Whether it is valid at `now`, by its dates.
    pub fn is_valid_at(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        (self.not_before..=self.not_after).contains(&now)
    }
}

/// Inspects each certificate in `pem`, in order; at least one.
///
/// # Errors
/// If there is none, or one cannot be read.
pub fn inspect(pem: &[u8]) -> Result<Vec<CertificateInspection>, CertificateError> {
    let unreadable = CertificateError::Unreadable("certificates in PEM");
    let certificates = X509::stack_from_pem(pem).map_err(|_| unreadable.clone())?;
    if certificates.is_empty() {
        return Err(unreadable);
    }
    certificates.iter().map(|certificate| inspect_one(certificate)).collect()
}

fn inspect_one(certificate: &X509Ref) -> Result<CertificateInspection, CertificateError> {
    let unreadable = CertificateError::Unreadable("certificates in PEM");
    let mut entries = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    let common_name =
        entries.next().and_then(|entry| entry.data().as_utf8().ok()).map_or_else(String::new, |name| name.to_string());
    let seconds = |time| u64::try_from(unix_seconds(time)?).map_err(|_| unreadable.clone());
    let digest = certificate.digest(MessageDigest::sha256())?;
    Ok(CertificateInspection {
        common_name,
        not_before: seconds(certificate.not_before())?,
        not_after: seconds(certificate.not_after())?,
        sha256: (*digest).try_into().map_err(|_| unreadable.clone())?,
        names: names(certificate),
    })
}

fn names(certificate: &X509Ref) -> Vec<ServerName> {
    let address = |bytes: &[u8]| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    };
    let name = |name: &GeneralNameRef| match (name.dnsname(), name.ipaddress()) {
        (Some(host), _) => Some(ServerName::Dns(host.to_owned())),
        (None, bytes) => bytes.and_then(address).map(ServerName::Ip),
    };
    certificate.subject_alt_names().map_or_else(Vec::new, |names| names.iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{CertificateAuthority, Validity};
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_certificate() {
        let now = UNIX_EPOCH + Duration::from_secs(1_900_000_000);
        let authority = CertificateAuthority::create("an authority", Validity { now, days: 3 }).unwrap();
        let pem = authority.certificate_pem().unwrap();
        let both = inspect(&[pem.clone(), pem].concat()).unwrap();
        assert_eq!((both.len(), &both[0]), (2, &both[1]));
        let one = &both[0];
        assert_eq!(one.common_name, "an authority");
        assert_eq!((one.days_left(now), one.is_valid_at(now)), (3, true));
        let last = UNIX_EPOCH + Duration::from_secs(one.not_after);
        assert_eq!((one.days_left(last), one.is_valid_at(last)), (0, true));
        assert!(!one.is_valid_at(last + Duration::from_secs(1)));
        assert!(!one.is_valid_at(now - Duration::from_secs(301)));
    }

    #[test]
    fn the_names_of_a_server_are_those_it_was_issued_for() {
        let validity = Validity { now: SystemTime::now(), days: 1 };
        let authority = CertificateAuthority::create("an authority", validity).unwrap();
        let names = ["engine.internal", "*.example.com", "10.0.0.7", "::1"].map(ServerName::parse);
        let issued = authority.issue_server(&names, validity).unwrap();
        assert_eq!(inspect(&issued.certificate_pem).unwrap()[0].names, names);
        assert_eq!(inspect(&authority.certificate_pem().unwrap()).unwrap()[0].names, []);
    }

    #[test]
    fn invalid_certificates_are_refused() {
        for pem in [&b""[..], b"text", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(inspect(pem), Err(CertificateError::Unreadable("certificates in PEM")));
        }
    }
}
