//! Issues certificates for destinations, signed by the relay's own authority on the first request, and caches them.

use std::sync::{Mutex, MutexGuard};
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
use leafseal_config::KeyExchange;
use leafseal_net::tls::{SessionSettings, TlsError, server_context};
use lru::LruCache;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::host::Host;

/// Validity of a certificate, and how far its start is backdated because clocks differ.
const VALID_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
const VALID_SINCE: Duration = Duration::from_secs(3600);
/// A certificate with less time left is replaced.
const LEFT_MIN: Duration = Duration::from_secs(24 * 3600);
/// The cache for callers without a key is smaller than the other by this factor.
const KEYLESS_SHARE: usize = 4;
/// Maximum length of a common name in bytes (RFC 5280, A.1).
const COMMON_NAME_SIZE_MAX: usize = 64;

/// Why the authority cannot sign.
#[derive(Debug, Error)]
pub enum LeafIssuerError {
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
    #[error("the TLS library failed: {0}")]
    Library(#[from] ErrorStack),
    /// The TLS library refused the listener's policy.
    #[error(transparent)]
    Policy(#[from] TlsError),
}

/// The relay's own authority.
pub(crate) struct LeafIssuer {
    certificate: X509,
    authority_key: PKey<Private>,
    /// One key for all destinations: it is created with the process and never leaves it.
    key: PKey<Private>,
    /// The accepted groups of the key exchange.
    key_exchange: KeyExchange,
    /// TLS contexts for callers with a key.
    with_key: ContextCache,
    /// TLS contexts for other callers: names that they request displace only these.
    without_key: ContextCache,
}

/// Cached contexts; the least recently used one is evicted.
struct ContextCache {
    entries: Mutex<LruCache<Host, CachedContext>>,
    entries_max: usize,
}

#[derive(Clone)]
struct CachedContext {
    context: SslContext,
    made: SystemTime,
}

impl ContextCache {
    fn new(entries_max: usize) -> Self {
        ContextCache { entries: Mutex::new(LruCache::unbounded()), entries_max }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Host, CachedContext>> {
        self.entries.lock().expect("nothing panics while this is locked")
    }

    fn find(&self, host: &Host, now: SystemTime) -> Option<CachedContext> {
        let mut entries = self.lock();
        let found = entries.get(host)?;
        now.duration_since(found.made).is_ok_and(|age| age < VALID_FOR - LEFT_MIN).then(|| found.clone())
    }

    fn put(&self, host: &Host, made: CachedContext) {
        let mut entries = self.lock();
        entries.put(host.clone(), made);
        if entries.len() > self.entries_max {
            entries.pop_lru();
        }
    }
}

impl LeafIssuer {
    pub(crate) fn new(
        certificate: &[u8],
        key: &Zeroizing<Vec<u8>>,
        key_exchange: &KeyExchange,
        entries_max: usize,
    ) -> Result<Self, LeafIssuerError> {
        let certificate = X509::from_pem(certificate).map_err(|_| LeafIssuerError::Certificate)?;
        let authority_key = PKey::private_key_from_pem(key).map_err(|_| LeafIssuerError::Key)?;
        if !certificate.public_key()?.public_eq(&authority_key) {
            return Err(LeafIssuerError::Mismatch);
        }
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
        let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
        let without_key = ContextCache::new((entries_max / KEYLESS_SHARE).max(1));
        let (with_key, key_exchange) = (ContextCache::new(entries_max), key_exchange.clone());
        Ok(LeafIssuer { certificate, authority_key, key, key_exchange, with_key, without_key })
    }

    /// Returns a TLS context for `host`, a name or an address in lower case. `is_known`: the caller has a valid key. No lock is held while
    /// signing; two concurrent callers for a new host both sign.
    pub(crate) fn context(&self, host: &Host, is_known: bool) -> Result<SslContext, LeafIssuerError> {
        let now = SystemTime::now();
        let cache = if is_known { &self.with_key } else { &self.without_key };
        if let Some(found) = self.with_key.find(host, now) {
            return Ok(found.context);
        }
        let found = match self.without_key.find(host, now) {
            Some(found) if !is_known => return Ok(found.context),
            Some(found) => found,
            None => CachedContext { context: self.make(host, now)?, made: now },
        };
        cache.put(host, found.clone());
        Ok(found.context)
    }

    fn make(&self, host: &Host, now: SystemTime) -> Result<SslContext, LeafIssuerError> {
        let certificate = self.sign(host, now)?;
        let mut context = server_context(&SessionSettings::default(), &self.key_exchange)?;
        context.set_certificate(&certificate)?;
        context.add_extra_chain_cert(self.certificate.clone())?;
        context.set_private_key(&self.key)?;
        Ok(context.build().into_context())
    }

    fn sign(&self, host: &Host, now: SystemTime) -> Result<X509, ErrorStack> {
        /// X.509 encodes version 3 as 2.
        const VERSION_3: i32 = 2;
        let seconds = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            Asn1Time::from_unix(i64::try_from(since).unwrap_or(i64::MAX))
        };
        let (not_before, not_after) = (seconds(now - VALID_SINCE)?, seconds(now + VALID_FOR)?);
        let text = host.without_brackets();
        let mut subject = X509NameBuilder::new()?;
        let common_name = if text.len() <= COMMON_NAME_SIZE_MAX { &text } else { "leafseal relay" };
        subject.append_entry_by_nid(Nid::COMMONNAME, common_name)?;
        let mut names = SubjectAlternativeName::new();
        // The library reads a list with commas here: a `Host` has none.
        match host {
            Host::Address(_) => names.ip(&text),
            Host::Name(_) => names.dns(&text),
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

#[cfg(test)]
mod tests {
    use boring::x509::GeneralNameRef;

    use super::*;

    fn new_leaf_issuer(entries_max: usize) -> LeafIssuer {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
        builder.append_extension(&BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        let certificate = builder.build().to_pem().unwrap();
        let key = Zeroizing::new(key.private_key_to_pem_pkcs8().unwrap());
        LeafIssuer::new(&certificate, &key, &KeyExchange::default(), entries_max).unwrap()
    }

    fn certificate_of(leaf_issuer: &LeafIssuer, host: &str, is_known: bool) -> Vec<u8> {
        leaf_issuer.context(&Host::parse(host).unwrap(), is_known).unwrap().certificate().unwrap().to_der().unwrap()
    }

    #[test]
    fn callers_without_a_key_displace_only_their_own_certificates() {
        let leaf_issuer = new_leaf_issuer(8);
        let known = certificate_of(&leaf_issuer, "known.test", true);
        let first = certificate_of(&leaf_issuer, "0.test", false);
        for number in 0..50 {
            certificate_of(&leaf_issuer, &format!("{number}.test"), false);
        }
        assert_eq!(certificate_of(&leaf_issuer, "known.test", true), known);
        assert_eq!(certificate_of(&leaf_issuer, "known.test", false), known, "the same host for any caller");
        assert_ne!(certificate_of(&leaf_issuer, "0.test", false), first, "it was evicted");
        assert_eq!((leaf_issuer.with_key.lock().len(), leaf_issuer.without_key.lock().len()), (1, 2));
    }

    #[test]
    fn used_certificates_stay_and_one_of_a_keyless_caller_is_reused() {
        let leaf_issuer = new_leaf_issuer(2);
        let begun = certificate_of(&leaf_issuer, "a.test", false);
        assert_eq!(certificate_of(&leaf_issuer, "a.test", true), begun);
        let second = certificate_of(&leaf_issuer, "b.test", true);
        assert_eq!(certificate_of(&leaf_issuer, "a.test", true), begun);
        certificate_of(&leaf_issuer, "c.test", true);
        assert_eq!(leaf_issuer.with_key.lock().len(), 2);
        assert_eq!(certificate_of(&leaf_issuer, "a.test", true), begun);
        assert_ne!(certificate_of(&leaf_issuer, "b.test", true), second);
    }

    #[test]
    fn a_certificate_is_renewed_before_it_expires() {
        let leaf_issuer = new_leaf_issuer(2);
        let first = certificate_of(&leaf_issuer, "a.test", true);
        let host = Host::parse("a.test").unwrap();
        let set_age =
            |age: Duration| leaf_issuer.with_key.lock().get_mut(&host).unwrap().made = SystemTime::now() - age;
        set_age(VALID_FOR - LEFT_MIN - Duration::from_secs(60));
        assert_eq!(certificate_of(&leaf_issuer, "a.test", true), first);
        set_age(VALID_FOR - LEFT_MIN);
        assert_ne!(certificate_of(&leaf_issuer, "a.test", true), first);
        assert_eq!(leaf_issuer.with_key.lock().len(), 1);
    }

    #[test]
    fn a_certificate_names_one_host() {
        let leaf_issuer = new_leaf_issuer(8);
        let names = |host: &str| {
            let host = Host::parse(host).unwrap();
            let context = leaf_issuer.context(&host, true).unwrap();
            let names = context.certificate().unwrap().subject_alt_names().unwrap();
            let shown = |name: &GeneralNameRef| (name.dnsname().map(str::to_owned), name.ipaddress().map(<[u8]>::len));
            names.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(names("A_b.example.test."), [(Some("a_b.example.test".to_owned()), None)]);
        assert_eq!(names(&format!("{}test", "a.".repeat(120))), [(Some(format!("{}test", "a.".repeat(120))), None)]);
        assert_eq!(names("192.0.2.1"), [(None, Some(4))]);
        assert_eq!(names("[2001:DB8::0:1]"), [(None, Some(16))]);
    }
}
