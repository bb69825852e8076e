//! The settings of all providers, and the providers that they name.

use leafseal_config::settings;
use leafseal_keystore::SlotProvider;

use crate::home::ProviderHome;
use crate::kms_settings::KmsSettings;
use crate::pkcs11_settings::Pkcs11Settings;
use crate::tpm2_settings::Tpm2Settings;
use crate::transit_settings::TransitSettings;

settings! {
    /// One table of the configuration for each service or device.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CustodySettings {
        /// Key slots that the TPM of the machine keeps.
        pub tpm2: Tpm2Settings = Tpm2Settings::default(), is section("tpm2.");
        /// Key slots that a hardware security module keeps.
        pub pkcs11: Pkcs11Settings = Pkcs11Settings::default(), is section("pkcs11.");
        /// Key slots that the Transit secrets engine of an OpenBao or Vault keeps.
        pub transit: TransitSettings = TransitSettings::default(), is section("transit.");
        /// Key slots that a key of AWS KMS keeps.
        pub aws_kms: KmsSettings = KmsSettings::default(), is section("aws_kms.");
    }
}

/// A service or device that keeps slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Custodian {
    /// The TPM of the machine.
    Tpm2,
    /// A hardware security module.
    Pkcs11,
    /// The Transit secrets engine of an OpenBao or Vault.
    Transit,
    /// A key of AWS KMS.
    AwsKms,
}

impl Custodian {
    /// In the order in which they are asked: what is nearest first, what calls another machine last.
    pub const ALL: [Self; 4] = [Self::Tpm2, Self::Pkcs11, Self::Transit, Self::AwsKms];

    /// The setting that names the service or device.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tpm2 => "tpm2.device",
            Self::Pkcs11 => "pkcs11.module",
            Self::Transit => "transit.url",
            Self::AwsKms => "aws_kms.key",
        }
    }

    /// The settings that it needs besides.
    pub fn other_keys(self) -> &'static [&'static str] {
        match self {
            Self::Tpm2 => &[],
            Self::Pkcs11 => &["pkcs11.token", "pkcs11.pin_file"],
            Self::Transit => &["transit.token_file", "transit.authorities"],
            Self::AwsKms => &["aws_kms.region", "aws_kms.credentials_file", "aws_kms.authorities"],
        }
    }
}

impl CustodySettings {
    /// The provider that the settings name. `None` if they name none, or this build has none, which
    /// [`CustodySettings::problems`] says.
    #[cfg_attr(not(any(feature = "device", feature = "https")), expect(unused_variables, reason = "no provider"))]
    pub fn provider(&self, custodian: Custodian, home: &ProviderHome) -> Option<Box<dyn SlotProvider>> {
        match custodian {
            #[cfg(feature = "tpm2")]
            Custodian::Tpm2 => boxed(crate::Tpm2Provider::new(&self.tpm2, home)),
            #[cfg(feature = "pkcs11")]
            Custodian::Pkcs11 => boxed(crate::Pkcs11Provider::new(&self.pkcs11, home)),
            #[cfg(feature = "transit")]
            Custodian::Transit => boxed(crate::TransitProvider::new(&self.transit, &home.folder)),
            #[cfg(feature = "aws-kms")]
            Custodian::AwsKms => boxed(crate::KmsProvider::new(&self.aws_kms, &home.folder)),
            #[allow(unreachable_patterns, reason = "a build may have all")]
            _ => None,
        }
    }

    /// All providers that the settings name, in the order in which they are asked.
    pub fn providers(&self, home: &ProviderHome) -> Vec<Box<dyn SlotProvider>> {
        Custodian::ALL.into_iter().filter_map(|custodian| self.provider(custodian, home)).collect()
    }

    /// The contradictions between settings, as sentences about the keys of the configuration.
    pub fn problems(&self) -> Vec<String> {
        [self.tpm2.problems(), self.pkcs11.problems(), self.transit.problems(), self.aws_kms.problems()].concat()
    }
}

#[cfg(any(feature = "device", feature = "https"))]
fn boxed(provider: Option<impl SlotProvider + 'static>) -> Option<Box<dyn SlotProvider>> {
    provider.map(|provider| Box::new(provider) as _)
}
