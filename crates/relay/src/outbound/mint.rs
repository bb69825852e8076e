//! Certificates for destinations, signed by the relay's own authority when a destination is first called, and kept.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::asn1::{Asn1Integer, Asn1Time};
use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rand::rand_bytes;
use boring::ssl::SslContext;
use boring::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName,
};
use boring::x509::{X509, X509NameBuilder};
use fieldseal_http::TlsError;
use thiserror::Error;
use zeroize::Zeroizing;

/// How long a certificate is valid, and from how long ago: clocks differ.
const VALID_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
const VALID_SINCE: Duration = Duration::from_secs(3600);
/// A certificate that has less time left is made anew.
const LEFT_MIN: Duration = Duration::from_secs(24 * 3600);
/// Longest common name in bytes (RFC 5280, A.1).
const COMMON_NAME_SIZE_MAX: usize = 64;

/// Why the authority cannot sign.
#[derive(Debug, Error)]
pub enum MintError {
    /// The certificate is unreadable.
    #[error("the authority's certificate is not readable as PEM")]
    Certificate,
    /// The key is unreadable.
    #[error("the authority's private key is not readable as PEM")]
    Key,
    /// They do not belong together.
    #[error("the authority's private key does not belong to its certificate")]
    Mismatch,
    /// The TLS library refused.
    #[error("the TLS library refused: {0}")]
    Library(#[from] ErrorStack),
    /// The TLS library refused the listener's policy.
    #[error(transparent)]
    Policy(#[from] TlsError),
}

/// The relay's own authority.
pub(crate) struct Mint {
    certificate: X509,
    authority_key: PKey<Private>,
    /// One key for all destinations: it lives as long as the process and never leaves it.
    key: PKey<Private>,
    kept: Mutex<HashMap<String, Kept>>,
    kept_max: usize,
}

struct Kept {
    context: SslContext,
    made: SystemTime,
    used: SystemTime,
}

impl Mint {
    pub(crate) fn new(certificate: &[u8], key: &Zeroizing<Vec<u8>>, kept_max: usize) -> Result<Self, MintError> {
        let certificate = X509::from_pem(certificate).map_err(|_| MintError::Certificate)?;
        let authority_key = PKey::private_key_from_pem(key).map_err(|_| MintError::Key)?;
        if !certificate.public_key()?.public_eq(&authority_key) {
            return Err(MintError::Mismatch);
        }
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
        let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
        Ok(Mint { certificate, authority_key, key, kept: Mutex::default(), kept_max })
    }

    /// What ends TLS for `host`, a name or an address, in lower case.
    pub(crate) fn context(&self, host: &str) -> Result<SslContext, MintError> {
        let now = SystemTime::now();
        let mut kept = self.kept.lock().expect("nothing panics while this is locked");
        if let Some(found) = kept.get_mut(host)
            && now.duration_since(found.made).is_ok_and(|age| age < VALID_FOR - LEFT_MIN)
        {
            found.used = now;
            return Ok(found.context.clone());
        }
        let context = self.make(host, now)?;
        if kept.len() >= self.kept_max
            && let Some(oldest) = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(host, _)| host.clone())
        {
            kept.remove(&oldest);
        }
        kept.insert(host.to_owned(), Kept { context: context.clone(), made: now, used: now });
        Ok(context)
    }

    fn make(&self, host: &str, now: SystemTime) -> Result<SslContext, MintError> {
        let certificate = self.sign(host, now)?;
        let mut context = fieldseal_http::server_context()?;
        context.set_certificate(&certificate)?;
        context.add_extra_chain_cert(self.certificate.clone())?;
        context.set_private_key(&self.key)?;
        Ok(context.build().into_context())
    }

    fn sign(&self, host: &str, now: SystemTime) -> Result<X509, ErrorStack> {
        /// X.509 version 3 is written as 2.
        const VERSION_3: i32 = 2;
        let seconds = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            Asn1Time::from_unix(i64::try_from(since).unwrap_or(i64::MAX))
        };
        let (not_before, not_after) = (seconds(now - VALID_SINCE)?, seconds(now + VALID_FOR)?);
        let mut subject = X509NameBuilder::new()?;
        let shown = if host.len() <= COMMON_NAME_SIZE_MAX { host } else { "fieldseal relay" };
        subject.append_entry_by_nid(Nid::COMMONNAME, shown)?;
        let mut names = SubjectAlternativeName::new();
        match host.parse::<IpAddr>() {
            Ok(_) => names.ip(host),
            Err(_) => names.dns(host),
        };
        let serial = serial()?;
        let mut builder = X509::builder()?;
        builder.set_version(VERSION_3)?;
        builder.set_serial_number(&serial)?;
        builder.set_subject_name(&subject.build())?;
        builder.set_issuer_name(self.certificate.subject_name())?;
        builder.set_pubkey(&self.key)?;
        builder.set_not_before(&not_before)?;
        builder.set_not_after(&not_after)?;
        builder.append_extension(&*BasicConstraints::new().critical().build()?)?;
        builder.append_extension(&*KeyUsage::new().critical().digital_signature().build()?)?;
        builder.append_extension(&*ExtendedKeyUsage::new().server_auth().build()?)?;
        let context = builder.x509v3_context(Some(&self.certificate), None);
        let extensions = [AuthorityKeyIdentifier::new().keyid(false).build(&context)?, names.build(&context)?];
        for extension in &extensions {
            builder.append_extension(extension)?;
        }
        builder.sign(&self.authority_key, MessageDigest::sha256())?;
        Ok(builder.build())
    }
}

/// 127 random bits, positive and not zero (RFC 5280, section 4.1.2.2).
fn serial() -> Result<Asn1Integer, ErrorStack> {
    let mut bytes = [0; 16];
    rand_bytes(&mut bytes)?;
    bytes[0] = bytes[0] & 0x7f | 1;
    BigNum::from_slice(&bytes)?.to_asn1_integer()
}
