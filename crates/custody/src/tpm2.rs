//! Slots that a TPM keeps: the side of the engine, which starts the program `leafseal-tpm2` for each call.

use leafseal_crypto::CryptoRng;
use leafseal_keystore::{ProviderError, SlotKind, SlotPlace, SlotProvider};
use zeroize::Zeroizing;

use crate::device::{DeviceOperation, DeviceProcess, DeviceRequest};
use crate::home::ProviderHome;
use crate::tpm2_settings::Tpm2Settings;

/// The program that links the TSS, so that this one does not have to.
const PROGRAM: &str = "leafseal-tpm2";

/// The TPM of this machine.
pub struct Tpm2Provider {
    process: DeviceProcess,
    device: Vec<String>,
}

impl Tpm2Provider {
    /// The provider of these settings, if they name a device.
    pub fn new(settings: &Tpm2Settings, home: &ProviderHome) -> Option<Self> {
        let Tpm2Settings { device, pcrs, program, timeout } = settings.below(&home.folder);
        if device.is_empty() {
            return None;
        }
        let name = format!("TPM {device}");
        let program = program.unwrap_or_else(|| home.program.with_file_name(PROGRAM));
        let kept_variables = home.kept_variables.clone();
        let process = DeviceProcess { program, arguments: Vec::new(), kept_variables, name, timeout };
        Some(Self { process, device: vec![device, pcrs] })
    }

    fn ask(
        &self,
        operation: DeviceOperation,
        place: &SlotPlace,
        input: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let associated_data = place.associated_data();
        let (input, device) = (Zeroizing::new(input.to_vec()), self.device.clone());
        self.process.ask(DeviceRequest { operation, associated_data, input, device })
    }
}

impl SlotProvider for Tpm2Provider {
    fn kind(&self) -> SlotKind {
        SlotKind::Tpm2
    }

    /// Each machine has one TPM, which is recognised by trying.
    fn may_open(&self, _: &str) -> bool {
        true
    }

    fn key_name(&self) -> String {
        self.device[1].clone()
    }

    fn wrap(&self, place: &SlotPlace, secret: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        self.ask(DeviceOperation::Wrap, place, secret).map(|wrapped| wrapped.to_vec())
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        self.ask(DeviceOperation::Unwrap, place, wrapped)
    }
}
