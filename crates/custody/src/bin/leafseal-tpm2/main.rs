//! The program `leafseal-tpm2`: asks the machine's TPM 2.0 for the secrets of a key slot, once, for the program `leafseal`, which starts
//! it. It alone links the TSS, the library of the system for that.

mod sealed_object;
mod tpm;

use std::process::ExitCode;

use leafseal_custody::device::{DeviceOperation, DeviceRequest, answer_request};
use leafseal_keystore::ProviderError;
use zeroize::Zeroizing;

use crate::sealed_object::SealedObject;
use crate::tpm::Tpm;

fn main() -> ExitCode {
    answer_request(run)
}

fn run(request: &DeviceRequest) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
    let [device, pcrs] = &request.device[..] else {
        return Err(ProviderError::Unavailable("it was started by another version of leafseal".to_owned()));
    };
    let mut tpm = Tpm::open(device)?;
    match request.operation {
        DeviceOperation::Wrap => Ok(Zeroizing::new(tpm.seal(pcrs, &request.input)?.to_bytes())),
        DeviceOperation::Unwrap => tpm.unseal(&SealedObject::from_bytes(&request.input).ok_or(ProviderError::Refused)?),
    }
}
