//! Slots that a key in a hardware security module keeps: the side of the engine, which starts a process for each call.

use std::path::Path;

use leafseal_crypto::CryptoRng;
use leafseal_keystore::{ProviderError, SlotKind, SlotPlace, SlotProvider};
use zeroize::Zeroizing;

use crate::device::{DeviceOperation, DeviceProcess, DeviceRequest};
use crate::home::ProviderHome;
use crate::pkcs11_settings::Pkcs11Settings;

/// The argument with which this program is started to be the process of a module.
pub const PKCS11_HOST: &str = "pkcs11-host";

/// A key of a token.
pub struct Pkcs11Provider {
    process: DeviceProcess,
    kind: SlotKind,
    key_name: String,
    device: Vec<String>,
}

impl Pkcs11Provider {
    /// The provider of these settings, if they name a module.
    pub fn new(settings: &Pkcs11Settings, home: &ProviderHome) -> Option<Self> {
        let settings = settings.below(&home.folder);
        let Pkcs11Settings { module, token, key, pin_file, timeout, .. } = &settings;
        let path = |path: &Path| path.display().to_string();
        let process = DeviceProcess {
            program: home.program.clone(),
            arguments: vec![PKCS11_HOST.into()],
            kept_variables: home.kept_variables.clone(),
            name: format!("token {token}"),
            timeout: *timeout,
        };
        let device = vec![
            path(module.as_deref()?),
            token.clone(),
            key.clone(),
            pin_file.as_deref().map(path).unwrap_or_default(),
        ];
        Some(Self { process, kind: settings.slot_kind(), key_name: format!("{token}/{key}"), device })
    }

    fn ask(
        &self,
        operation: DeviceOperation,
        place: &SlotPlace,
        input: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let associated_data = place.associated_data();
        let mut device = self.device.clone();
        device.push(self.kind.name().to_owned());
        self.process.ask(DeviceRequest { operation, associated_data, input: Zeroizing::new(input.to_vec()), device })
    }
}

impl SlotProvider for Pkcs11Provider {
    fn kind(&self) -> SlotKind {
        self.kind
    }

    fn key_name(&self) -> String {
        self.key_name.clone()
    }

    fn wrap(&self, place: &SlotPlace, secret: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        self.ask(DeviceOperation::Wrap, place, secret).map(|wrapped| wrapped.to_vec())
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        self.ask(DeviceOperation::Unwrap, place, wrapped)
    }
}
