//! The clients that may open a sealed keystore, by their certificates: no grant can be verified before.

use std::fmt;
use std::str::FromStr;

use leafseal_config::ListItem;
use thiserror::Error;

/// SHA-256 of a certificate's DER form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateFingerprint(pub [u8; 32]);

/// The text is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("write the SHA-256 of a certificate as 64 hexadecimal digits")]
pub struct InvalidFingerprint;

/// A list of fingerprints as the value of a setting.
pub(super) const FINGERPRINTS: ListItem = ListItem {
    about: "SHA-256 fingerprints of certificates, each of 64 hexadecimal digits",
    is_valid: |text| text.parse::<CertificateFingerprint>().is_ok(),
};

impl FromStr for CertificateFingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidFingerprint)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}
