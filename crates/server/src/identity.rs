//! The name in a client's certificate: issues certificates with it, and reads it.
//!
//! The chain has been verified before; this module only determines the name. A certificate with several names, or with one that could be
//! misread, is refused.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::x509::X509Ref;
use leafseal_engine::admin::ClientName;
use leafseal_net::tls::{CertificateAuthority, CertificateError, Issued, Validity};
use leafseal_service::PeerIdentity;
use thiserror::Error;

/// The prefix of a client's URI.
const CLIENT_URI_PREFIX: &str = "leafseal://client/";

/// Why a certificate gives no name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// Neither a URI of ours nor a common name.
    #[error("the certificate has neither a URI {CLIENT_URI_PREFIX}NAME nor a common name")]
    NoName,
    /// More than one of a kind.
    #[error("the certificate names more than one client")]
    SeveralNames,
    /// It is not what [`ClientName`] takes, so that nothing could be granted to it.
    #[error("the client name in the certificate must match [A-Za-z0-9][A-Za-z0-9._-]{{0,63}}")]
    InvalidName,
    /// The library could not digest it.
    #[error("the certificate could not be read")]
    Unreadable,
}

/// Issues a certificate for the client `name`, which must be valid for [`ClientName`].
///
/// # Errors
/// If the name is invalid or the validity is out of range.
pub fn issue_client(
    authority: &CertificateAuthority,
    name: &str,
    validity: Validity,
) -> Result<Issued, CertificateError> {
    if ClientName::parse(name).is_err() {
        return Err(CertificateError::Name("a client's name must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}"));
    }
    authority.issue_client(name, &format!("{CLIENT_URI_PREFIX}{name}"), validity)
}

/// The time from `now` to the end of the last second at which a chain is valid; zero if it has expired.
pub(crate) fn valid_for(last_second: i64, now: SystemTime) -> Duration {
    let end = u64::try_from(last_second).map_or(Duration::ZERO, |last| Duration::from_secs(last.saturating_add(1)));
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    end.saturating_sub(now)
}

/// The identity in a verified certificate.
pub(crate) fn peer_identity(certificate: &X509Ref) -> Result<PeerIdentity, IdentityError> {
    let name = match uri_name(certificate)? {
        Some(name) => name,
        None => common_name(certificate)?,
    };
    if ClientName::parse(&name).is_err() {
        return Err(IdentityError::InvalidName);
    }
    let digest = certificate.digest(MessageDigest::sha256()).map_err(|_| IdentityError::Unreadable)?;
    let certificate_sha256 = (*digest).try_into().map_err(|_| IdentityError::Unreadable)?;
    Ok(PeerIdentity { name, certificate_sha256 })
}

fn uri_name(certificate: &X509Ref) -> Result<Option<String>, IdentityError> {
    let Some(names) = certificate.subject_alt_names() else {
        return Ok(None);
    };
    let mut ours = names.iter().filter_map(|name| name.uri()?.strip_prefix(CLIENT_URI_PREFIX).map(str::to_owned));
    match (ours.next(), ours.next()) {
        (Some(_), Some(_)) => Err(IdentityError::SeveralNames),
        (name, _) => Ok(name),
    }
}

fn common_name(certificate: &X509Ref) -> Result<String, IdentityError> {
    let mut entries = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    match (entries.next(), entries.next()) {
        (None, _) => Err(IdentityError::NoName),
        (Some(_), Some(_)) => Err(IdentityError::SeveralNames),
        (Some(entry), None) => match entry.data().as_utf8() {
            Ok(name) => Ok(name.to_string()),
            Err(_) => Err(IdentityError::InvalidName),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use boring::asn1::Asn1Time;
    use boring::ec::{EcGroup, EcKey};
    use boring::pkey::PKey;
    use boring::x509::extension::SubjectAlternativeName;
    use boring::x509::{X509, X509NameBuilder};

    fn certificate(common_names: &[&str], uris: &[&str]) -> X509 {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        for common_name in common_names {
            name.append_entry_by_nid(Nid::COMMONNAME, common_name).unwrap();
        }
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_subject_name(&name.build()).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::from_unix(1).unwrap()).unwrap();
        if !uris.is_empty() {
            let mut names = SubjectAlternativeName::new();
            for uri in uris {
                names.uri(uri);
            }
            let extension = names.build(&builder.x509v3_context(None, None)).unwrap();
            builder.append_extension(&extension).unwrap();
        }
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        builder.build()
    }

    #[test]
    fn the_uri_overrides_the_common_name() {
        type Row<'a> = (&'a [&'a str], &'a [&'a str], Result<&'a str, IdentityError>);
        let rows: &[Row<'_>] = &[
            (&["shop"], &[], Ok("shop")),
            (&["shop"], &["leafseal://client/till-7"], Ok("till-7")),
            (&["shop"], &["https://example.com/"], Ok("shop")),
            (&[], &["spiffe://a/b", "leafseal://client/a.b_C"], Ok("a.b_C")),
            (&[], &[], Err(IdentityError::NoName)),
            (&["a", "b"], &[], Err(IdentityError::SeveralNames)),
            (&["a"], &["leafseal://client/a", "leafseal://client/b"], Err(IdentityError::SeveralNames)),
            (&["shop"], &["leafseal://client/"], Err(IdentityError::InvalidName)),
            (&["shop"], &["leafseal://client/a/b"], Err(IdentityError::InvalidName)),
            (&[".shop"], &[], Err(IdentityError::InvalidName)),
            (&[], &["leafseal://client/-shop"], Err(IdentityError::InvalidName)),
            (&["sh op"], &[], Err(IdentityError::InvalidName)),
            (&["sh\u{f6}p"], &[], Err(IdentityError::InvalidName)),
        ];
        for (common_names, uris, expected) in rows {
            let found = peer_identity(&certificate(common_names, uris)).map(|identity| identity.name);
            assert_eq!(found, expected.clone().map(str::to_owned), "{common_names:?} {uris:?}");
        }
    }

    #[test]
    fn names_are_bounded_at_the_byte() {
        let uri = |size| format!("{CLIENT_URI_PREFIX}{}", "a".repeat(size));
        assert!(peer_identity(&certificate(&[], &[&uri(64)])).is_ok());
        assert_eq!(peer_identity(&certificate(&[], &[&uri(65)])), Err(IdentityError::InvalidName));
    }

    #[test]
    fn validity_ends_after_the_last_second() {
        let left = |millis| valid_for(1, UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!([left(0), left(1999), left(2000), left(9000)].map(|left| left.as_millis()), [2000, 1, 0, 0]);
        assert_eq!(valid_for(-1, UNIX_EPOCH), Duration::ZERO);
    }

    #[test]
    fn the_digest_is_that_of_the_der_form() {
        let certificate = certificate(&["shop"], &[]);
        let expected = boring::sha::sha256(&certificate.to_der().unwrap());
        assert_eq!(peer_identity(&certificate).unwrap().certificate_sha256, expected);
    }

    #[test]
    fn a_certificate_is_issued_for_a_name_that_is_read_again_and_for_no_other() {
        let validity = Validity { now: SystemTime::now(), days: 1 };
        let authority = CertificateAuthority::create("a", validity).unwrap();
        let issued = issue_client(&authority, "till-7", validity).unwrap();
        let certificate = X509::from_pem(&issued.certificate_pem).unwrap();
        assert_eq!(peer_identity(&certificate).unwrap().name, "till-7");
        for name in ["", "a,DNS:b", "a b", "a/b", "\u{e4}", &"a".repeat(65)] {
            let error = issue_client(&authority, name, validity).unwrap_err();
            assert!(matches!(error, CertificateError::Name(_)), "{name}");
        }
    }
}
