//! Providers of key slots whose secrets another service keeps: the Transit secrets engine of OpenBao or Vault, and AWS KMS.
//!
//! Each is a cargo feature; its settings exist in every build, so that one configuration file is valid for all, and naming a provider that
//! the build lacks is a problem of the configuration. Where a service is and what authenticates it and us comes from the settings and
//! never from the database: an edited row must not make an engine send its token to another host. The reasons are in
//! `docs/decisions/0046-transit-slots.md`.
//!
//! A provider is called when a store is opened and when a slot is made, and blocks for at most its timeout.

#[cfg(feature = "aws-kms")]
mod aws_signature;
#[cfg(any(feature = "aws-kms", feature = "transit"))]
mod https;
#[cfg(feature = "aws-kms")]
mod kms;
mod kms_settings;
mod origin;
#[cfg(feature = "transit")]
mod transit;
mod transit_settings;

#[cfg(feature = "aws-kms")]
pub use kms::KmsProvider;
pub use kms_settings::KmsSettings;
pub use origin::ServerOrigin;
#[cfg(feature = "transit")]
pub use transit::TransitProvider;
pub use transit_settings::TransitSettings;

use std::path::Path;

use leafseal_keystore::{SlotKind, SlotProvider};

/// The kinds of slots that this build can make and open.
pub fn slot_kinds() -> Vec<SlotKind> {
    let is_built = |kind: &SlotKind| match kind {
        SlotKind::Transit => cfg!(feature = "transit"),
        SlotKind::AwsKms => cfg!(feature = "aws-kms"),
        SlotKind::File | SlotKind::Passphrase | SlotKind::Shamir => true,
    };
    SlotKind::ALL.iter().copied().filter(is_built).collect()
}

/// The provider that the settings name, with paths below `folder`.
#[cfg(feature = "transit")]
pub fn transit(settings: &TransitSettings, folder: &Path) -> Option<Box<dyn SlotProvider>> {
    let provider = TransitProvider::new(settings, folder)?;
    Some(Box::new(provider))
}

/// This build has none, and [`TransitSettings::problems`] refuses settings that name one.
#[cfg(not(feature = "transit"))]
pub fn transit(_: &TransitSettings, _: &Path) -> Option<Box<dyn SlotProvider>> {
    None
}

/// The provider that the settings name, with paths below `folder`.
#[cfg(feature = "aws-kms")]
pub fn aws_kms(settings: &KmsSettings, folder: &Path) -> Option<Box<dyn SlotProvider>> {
    let provider = KmsProvider::new(settings, folder)?;
    Some(Box::new(provider))
}

/// This build has none, and [`KmsSettings::problems`] refuses settings that name one.
#[cfg(not(feature = "aws-kms"))]
pub fn aws_kms(_: &KmsSettings, _: &Path) -> Option<Box<dyn SlotProvider>> {
    None
}
