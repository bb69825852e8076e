//! Providers of key slots whose secrets something else keeps: the Transit secrets engine of OpenBao or Vault, AWS KMS, a hardware security
//! module behind PKCS #11, and a TPM 2.0.
//!
//! Each is a cargo feature; its settings exist in every build, so that one configuration file is valid for all, and naming a provider that
//! the build lacks is a problem of the configuration. Where a service or device is and what authenticates it and us comes from the settings
//! and never from the database: an edited row must not make an engine send its token to another host. The reasons are in
//! `docs/decisions/0046-transit-slots.md` and `0047-device-slots.md`.
//!
//! A provider is called when a store is opened and when a slot is made, and blocks for at most its timeout.

#[cfg(feature = "aws-kms")]
mod aws_signature;
#[cfg(feature = "device")]
pub mod device;
mod home;
#[cfg(feature = "https")]
mod https;
#[cfg(feature = "aws-kms")]
mod kms;
mod kms_settings;
#[cfg(any(feature = "device", feature = "https"))]
mod message;
mod origin;
#[cfg(feature = "pkcs11")]
mod pkcs11;
#[cfg(feature = "pkcs11")]
mod pkcs11_host;
mod pkcs11_settings;
mod settings;
#[cfg(feature = "tpm2")]
mod tpm2;
mod tpm2_settings;
#[cfg(feature = "transit")]
mod transit;
mod transit_settings;

pub use home::ProviderHome;
#[cfg(feature = "aws-kms")]
pub use kms::KmsProvider;
pub use kms_settings::KmsSettings;
pub use origin::ServerOrigin;
#[cfg(feature = "pkcs11")]
pub use pkcs11::{PKCS11_HOST, Pkcs11Provider};
#[cfg(feature = "pkcs11")]
pub use pkcs11_host::pkcs11_host;
pub use pkcs11_settings::{Pkcs11Mechanism, Pkcs11Settings};
pub use settings::{Custodian, CustodySettings};
#[cfg(feature = "tpm2")]
pub use tpm2::Tpm2Provider;
pub use tpm2_settings::{Tpm2Settings, parse_pcrs};
#[cfg(feature = "transit")]
pub use transit::TransitProvider;
pub use transit_settings::TransitSettings;

use leafseal_keystore::SlotKind;

/// The kinds of slots that this build can make and open.
pub fn slot_kinds() -> Vec<SlotKind> {
    let is_built = |kind: &SlotKind| match kind {
        SlotKind::Transit => cfg!(feature = "transit"),
        SlotKind::AwsKms => cfg!(feature = "aws-kms"),
        SlotKind::Pkcs11 | SlotKind::Pkcs11Rsa => cfg!(feature = "pkcs11"),
        SlotKind::Tpm2 => cfg!(feature = "tpm2"),
        SlotKind::File | SlotKind::Passphrase | SlotKind::Shamir => true,
    };
    SlotKind::ALL.iter().copied().filter(is_built).collect()
}
