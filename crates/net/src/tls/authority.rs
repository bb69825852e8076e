//! A private certificate authority: creates one, and issues server and client certificates.
//!
//! Keys are on P-256, signatures ECDSA with SHA-256, profiles as in RFC 5280: critical basic constraints and key usage, one extended usage,
//! so that a client's certificate is not valid for a server and vice versa. The clock is a parameter; serial numbers and keys come from
//! BoringSSL's random generator.

use std::fmt;
use std::net::IpAddr;

use boring::asn1::{Asn1Integer, Asn1Time};
use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rand::rand_bytes;
use boring::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName, SubjectKeyIdentifier,
};
use boring::x509::{X509, X509Builder, X509Extension, X509Name, X509NameBuilder};
use leafseal_crypto::chain::unix_seconds;
use zeroize::Zeroizing;

use super::certificate::{CertificateError, Issued, Validity};

/// Maximum length of a common name in bytes (RFC 5280, A.1, ub-common-name).
const COMMON_NAME_SIZE_MAX: usize = 64;

/// A certificate authority with its key, for signing.
pub struct CertificateAuthority {
    certificate: X509,
    key: PKey<Private>,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A name or address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerName {
    /// A host name: letters, digits, `-` and `.`; one leading `*.` for all hosts below it.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl ServerName {
    /// Parses an address, or otherwise takes the text as a host name.
    pub fn parse(name: &str) -> Self {
        match name.parse() {
            Ok(address) => ServerName::Ip(address),
            Err(_) => ServerName::Dns(name.to_owned()),
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerName::Dns(name) => f.write_str(name),
            ServerName::Ip(address) => address.fmt(f),
        }
    }
}

impl CertificateAuthority {
    /// Creates an authority that signs server and client certificates directly, without intermediates. `name` is for people, 1 to 64 bytes.
    ///
    /// # Errors
    /// If the name or validity is out of range.
    pub fn create(name: &str, validity: Validity) -> Result<CertificateAuthority, CertificateError> {
        if !(1..=COMMON_NAME_SIZE_MAX).contains(&name.len()) {
            return Err(CertificateError::Name("an authority's name has 1 to 64 bytes"));
        }
        let (begin, end) = validity.seconds()?;
        let key = new_key()?;
        let subject = common_name(name)?;
        let mut builder = new_builder(&subject, &subject, &key, begin, end)?;
        builder.append_extension(&*BasicConstraints::new().critical().ca().pathlen(0).build()?)?;
        builder.append_extension(&*KeyUsage::new().critical().key_cert_sign().crl_sign().build()?)?;
        let key_id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
        builder.append_extension(&key_id)?;
        builder.sign(&key, MessageDigest::sha256())?;
        Ok(CertificateAuthority { certificate: builder.build(), key })
    }

    /// Loads an authority.
    ///
    /// # Errors
    /// If certificate or key is unreadable, the key does not belong to the certificate, or the certificate may not sign.
    pub fn from_pem(certificate_pem: &[u8], private_key_pem: &[u8]) -> Result<CertificateAuthority, CertificateError> {
        let certificate =
            X509::from_pem(certificate_pem).map_err(|_| CertificateError::Unreadable("a certificate in PEM"))?;
        let key = PKey::private_key_from_pem(private_key_pem)
            .map_err(|_| CertificateError::Unreadable("a private key in PEM"))?;
        if !certificate.public_key()?.public_eq(&key) {
            return Err(CertificateError::NotAnAuthority("the key is not that of the certificate"));
        }
        if certificate.issued(&certificate).is_err() {
            return Err(CertificateError::NotAnAuthority("the certificate is not its own issuer"));
        }
        Ok(CertificateAuthority { certificate, key })
    }

    /// The certificate, for those who trust this authority.
    ///
    /// # Errors
    /// Only errors of the library.
    pub fn certificate_pem(&self) -> Result<Vec<u8>, CertificateError> {
        Ok(self.certificate.to_pem()?)
    }

    /// The private key, PKCS#8 in PEM. Anyone who has it can create any client's certificate.
    ///
    /// # Errors
    /// Only errors of the library.
    pub fn private_key_pem(&self) -> Result<Zeroizing<Vec<u8>>, CertificateError> {
        Ok(Zeroizing::new(self.key.private_key_to_pem_pkcs8()?))
    }

    /// Issues a certificate for a server that is reached under `names`.
    ///
    /// # Errors
    /// If there is no name, one is invalid, or the validity is out of range.
    pub fn issue_server(&self, names: &[ServerName], validity: Validity) -> Result<Issued, CertificateError> {
        let Some(first) = names.first() else {
            return Err(CertificateError::NoServerName);
        };
        let mut subject_names = SubjectAlternativeName::new();
        for name in names {
            match name {
                ServerName::Dns(host) if is_valid_host(host) => subject_names.dns(host),
                ServerName::Dns(_) => return Err(CertificateError::Name("not a host name")),
                ServerName::Ip(address) => subject_names.ip(&address.to_string()),
            };
        }
        // The common name is only for people; a host name that is too long for it is omitted.
        let shown = Some(first.to_string()).filter(|name| name.len() <= COMMON_NAME_SIZE_MAX);
        let subject = common_name(shown.as_deref().unwrap_or("leafseal server"))?;
        let usage = ExtendedKeyUsage::new().server_auth().build()?;
        self.issue(&subject, &subject_names, usage, validity)
    }

    /// Issues a certificate for a client: `name`, 1 to 64 bytes, for people, and `uri` for servers.
    ///
    /// # Errors
    /// If the name or validity is out of range, or the URI contains bytes other than ASCII letters, digits and `-._~:/@`.
    pub fn issue_client(&self, name: &str, uri: &str, validity: Validity) -> Result<Issued, CertificateError> {
        if !(1..=COMMON_NAME_SIZE_MAX).contains(&name.len()) {
            return Err(CertificateError::Name("a client's name must have 1 to 64 bytes"));
        }
        // The library parses lists of names from text, in which a comma would begin another.
        if !uri.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/@".contains(&byte)) {
            return Err(CertificateError::Name("a client's URI must match [A-Za-z0-9._~:/@-]*"));
        }
        let mut subject_names = SubjectAlternativeName::new();
        subject_names.uri(uri);
        let usage = ExtendedKeyUsage::new().client_auth().build()?;
        self.issue(&common_name(name)?, &subject_names, usage, validity)
    }

    /// Whether it signed the first certificate of `certificate_pem`.
    pub fn has_issued(&self, certificate_pem: &[u8]) -> bool {
        X509::from_pem(certificate_pem).is_ok_and(|certificate| certificate.verify(&self.key).unwrap_or(false))
    }

    fn issue(
        &self,
        subject: &X509Name,
        subject_names: &SubjectAlternativeName,
        usage: X509Extension,
        validity: Validity,
    ) -> Result<Issued, CertificateError> {
        let (begin, end) = validity.seconds()?;
        let end = end.min(unix_seconds(self.certificate.not_after())?);
        if end <= begin {
            return Err(CertificateError::Validity);
        }
        let key = new_key()?;
        let mut builder = new_builder(subject, self.certificate.subject_name(), &key, begin, end)?;
        builder.append_extension(&*BasicConstraints::new().critical().build()?)?;
        builder.append_extension(&*KeyUsage::new().critical().digital_signature().build()?)?;
        builder.append_extension(&usage)?;
        let context = builder.x509v3_context(Some(&self.certificate), None);
        let extensions = [
            SubjectKeyIdentifier::new().build(&context)?,
            AuthorityKeyIdentifier::new().keyid(true).build(&context)?,
            subject_names.build(&context)?,
        ];
        for extension in &extensions {
            builder.append_extension(extension)?;
        }
        builder.sign(&self.key, MessageDigest::sha256())?;
        Ok(Issued {
            certificate_pem: builder.build().to_pem()?,
            private_key_pem: Zeroizing::new(key.private_key_to_pem_pkcs8()?),
        })
    }
}

fn new_key() -> Result<PKey<Private>, ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    PKey::from_ec_key(EcKey::generate(&group)?)
}

fn common_name(name: &str) -> Result<X509Name, ErrorStack> {
    let mut builder = X509NameBuilder::new()?;
    builder.append_entry_by_nid(Nid::COMMONNAME, name)?;
    Ok(builder.build())
}

/// The common part of all certificates, not yet signed.
fn new_builder(
    subject: &X509Name,
    issuer: &boring::x509::X509NameRef,
    key: &PKey<Private>,
    begin: i64,
    end: i64,
) -> Result<X509Builder, ErrorStack> {
    /// X.509 encodes version 3 as 2.
    const VERSION_3: i32 = 2;
    let mut builder = X509::builder()?;
    builder.set_version(VERSION_3)?;
    let (serial, not_before, not_after) = (new_serial()?, Asn1Time::from_unix(begin)?, Asn1Time::from_unix(end)?);
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    builder.set_not_before(&not_before)?;
    builder.set_not_after(&not_after)?;
    Ok(builder)
}

/// 127 random bits, positive and not zero (RFC 5280, section 4.1.2.2).
fn new_serial() -> Result<Asn1Integer, ErrorStack> {
    let mut bytes = [0; 16];
    rand_bytes(&mut bytes)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Asn1Integer::from_bn(&*BigNum::from_slice(&bytes)?)
}

/// Whether it consists of labels of 1 to 63 letters, digits and hyphens (RFC 1123, section 2.1), at most 253 bytes in total.
fn is_valid_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= 253 && host.strip_prefix("*.").unwrap_or(host).split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::super::inspection::inspect;
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const NOW: u64 = 1_800_000_000;

    fn validity(days: u32) -> Validity {
        Validity { now: UNIX_EPOCH + Duration::from_secs(NOW), days }
    }

    const URI: &str = "leafseal://client/till-7";

    fn issue_client(authority: &CertificateAuthority, validity: Validity) -> Result<Issued, CertificateError> {
        authority.issue_client("till-7", URI, validity)
    }

    fn certificate(issued: &Issued) -> X509 {
        X509::from_pem(&issued.certificate_pem).unwrap()
    }

    #[test]
    fn clients_bear_their_name_and_servers_theirs() {
        let authority = CertificateAuthority::create("test authority", validity(10)).unwrap();
        let client = certificate(&issue_client(&authority, validity(5)).unwrap());
        let names = client.subject_alt_names().unwrap();
        assert_eq!(names.iter().filter_map(|name| name.uri()).collect::<Vec<_>>(), [URI]);
        assert!(client.verify(&authority.key).unwrap());

        let names = ["engine.example.com", "*.example.org", "::1", "127.0.0.1"].map(ServerName::parse);
        let server = certificate(&authority.issue_server(&names, validity(5)).unwrap());
        assert!(server.check_host("engine.example.com").unwrap());
        assert!(server.check_host("a.example.org").unwrap());
        assert!(!server.check_host("example.org").unwrap());
        assert!(server.check_ip_asc("127.0.0.1").unwrap());
        assert!(server.check_ip_asc("0:0:0:0:0:0:0:1").unwrap());
        assert!(!server.check_ip_asc("127.0.0.2").unwrap());
    }

    #[test]
    fn validity_follows_the_clock_given_and_ends_with_the_authority() {
        let authority = CertificateAuthority::create("a", validity(10)).unwrap();
        for (days, expected) in [(1, 1), (10, 10), (11, 10)] {
            let client = issue_client(&authority, validity(days)).unwrap();
            let inspection = inspect(&client.certificate_pem).unwrap().remove(0);
            assert_eq!(inspection.not_before, NOW - 300);
            assert_eq!(inspection.not_after, NOW + expected * 86_400);
        }
        let late = Validity { now: UNIX_EPOCH + Duration::from_secs(NOW + 11 * 86_400), days: 1 };
        assert_eq!(issue_client(&authority, late).unwrap_err(), CertificateError::Validity);
        assert_eq!(CertificateAuthority::create("a", validity(0)).unwrap_err(), CertificateError::Validity);
        let far = validity(u32::MAX);
        assert_eq!(CertificateAuthority::create("a", far).unwrap_err(), CertificateError::Validity);
    }

    #[test]
    fn an_authority_survives_its_files() {
        let authority = CertificateAuthority::create("a", validity(10)).unwrap();
        let (pem, key) = (authority.certificate_pem().unwrap(), authority.private_key_pem().unwrap());
        let again = CertificateAuthority::from_pem(&pem, &key).unwrap();
        let client = certificate(&issue_client(&again, validity(1)).unwrap());
        assert!(client.verify(&authority.key).unwrap());
        assert!(authority.has_issued(&client.to_pem().unwrap()) && !authority.has_issued(b""));
        let stranger = CertificateAuthority::create("a", validity(10)).unwrap();
        assert!(!stranger.has_issued(&client.to_pem().unwrap()));

        let other = CertificateAuthority::create("b", validity(10)).unwrap().private_key_pem().unwrap();
        let mismatch = CertificateAuthority::from_pem(&pem, &other).unwrap_err();
        assert!(matches!(mismatch, CertificateError::NotAnAuthority(_)));
        let leaf = issue_client(&authority, validity(1)).unwrap();
        let no_authority = CertificateAuthority::from_pem(&leaf.certificate_pem, &leaf.private_key_pem).unwrap_err();
        assert!(matches!(no_authority, CertificateError::NotAnAuthority(_)));
        assert_eq!(
            CertificateAuthority::from_pem(b"", &key).unwrap_err(),
            CertificateError::Unreadable("a certificate in PEM")
        );
        assert_eq!(
            CertificateAuthority::from_pem(&pem, b"-----BEGIN nonsense").unwrap_err(),
            CertificateError::Unreadable("a private key in PEM")
        );
    }

    #[test]
    fn names_that_could_mean_more_are_refused() {
        let authority = CertificateAuthority::create("a", validity(10)).unwrap();
        for (name, uri) in
            [("", "a:b"), (&*"a".repeat(65), "a:b"), ("a", "a:b,DNS:c"), ("a", "a:b c"), ("a", "a:\u{e4}")]
        {
            let error = authority.issue_client(name, uri, validity(1)).unwrap_err();
            assert!(matches!(error, CertificateError::Name(_)), "{name} {uri}");
        }
        for host in ["", "a,DNS:b", "a..b", "-a", "a-", "*.*.a", "a b", &"a".repeat(64)] {
            let error = authority.issue_server(&[ServerName::Dns(host.to_owned())], validity(1));
            assert_eq!(error.unwrap_err(), CertificateError::Name("not a host name"), "{host}");
        }
        assert_eq!(authority.issue_server(&[], validity(1)).unwrap_err(), CertificateError::NoServerName);
    }

    #[test]
    fn serial_numbers_are_positive_and_differ() {
        let serial = || new_serial().unwrap().to_bn().unwrap();
        let (first, second) = (serial(), serial());
        assert_ne!(first, second);
        assert!(!first.is_negative() && first.num_bits() == 127);
    }
}
