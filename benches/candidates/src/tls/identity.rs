//! The certificates of a measurement: one CA, one server and one client, made afresh.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SignatureAlgorithm,
};

/// The name that the server's certificate carries and the client asks for.
pub const SERVER_NAME: &str = "engine.test";

/// The protocol profiles. No library lets all of this be chosen freely, so there are two fixed profiles; session
/// tickets are off in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// TLS_AES_128_GCM_SHA256, key exchange and certificates on P-256.
    Aes128P256,
    /// TLS_AES_256_GCM_SHA384, key exchange and certificates on P-384.
    Aes256P384,
}

impl Profile {
    fn signature(self) -> &'static SignatureAlgorithm {
        match self {
            Self::Aes128P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Self::Aes256P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
        }
    }
}

/// A certificate and its key, both PEM and DER.
pub struct Party {
    /// Certificate, PEM.
    pub certificate_pem: String,
    /// Certificate, DER.
    pub certificate_der: Vec<u8>,
    /// Private key, PKCS#8 PEM.
    pub key_pem: String,
    /// Private key, PKCS#8 DER.
    pub key_der: Vec<u8>,
}

/// The parties.
pub struct Identities {
    /// See [`Profile`].
    pub profile: Profile,
    /// The CA's certificate, PEM.
    pub ca_pem: String,
    /// The CA's certificate, DER.
    pub ca_der: Vec<u8>,
    /// Names [`SERVER_NAME`].
    pub server: Party,
    /// Names a client.
    pub client: Party,
}

impl Identities {
    /// Makes keys and certificates.
    pub fn generate(profile: Profile) -> Self {
        let ca_key = KeyPair::generate_for(profile.signature()).expect("a supported algorithm");
        let mut parameters = CertificateParams::new(vec![]).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Subject and issuer must differ in the leaves, or verifiers take them for self-signed.
        parameters.distinguished_name.push(DnType::CommonName, "candidates CA");
        let ca = parameters.self_signed(&ca_key).expect("a complete certificate");
        let issuer = Issuer::new(parameters, &ca_key);
        let party = |name: &str, purpose| {
            let key = KeyPair::generate_for(profile.signature()).expect("a supported algorithm");
            let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a DNS name");
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.extended_key_usages = vec![purpose];
            let certificate = parameters.signed_by(&key, &issuer).expect("a complete certificate");
            Party {
                certificate_pem: certificate.pem(),
                certificate_der: certificate.der().to_vec(),
                key_pem: key.serialize_pem(),
                key_der: key.serialize_der(),
            }
        };
        Self {
            profile,
            ca_pem: ca.pem(),
            ca_der: ca.der().to_vec(),
            server: party(SERVER_NAME, ExtendedKeyUsagePurpose::ServerAuth),
            client: party("client.test", ExtendedKeyUsagePurpose::ClientAuth),
        }
    }
}
