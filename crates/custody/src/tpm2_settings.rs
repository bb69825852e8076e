//! The settings of slots of kind `tpm2`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{Kind, ms, secs, settings};

/// PCRs of a bank.
const PCR_COUNT: u32 = 24;
/// Banks whose hash is not broken.
const BANKS: [&str; 3] = ["sha256", "sha384", "sha512"];

settings! {
    /// The Trusted Platform Module of the machine, which keeps the secrets of key slots and gives them to a machine only that was booted
    /// as it was when the slot was made. A program of its own, `leafseal-tpm2`, asks it when an engine opens the keystore; what is open
    /// stays open without it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Tpm2Settings {
        /// The device as the TSS names it: `device:/dev/tpmrm0` is the resource manager of Linux. Empty: no such slots are opened or made.
        pub device: String = String::new(), is kind(Kind::AnyText);
        /// The bank, and the PCRs whose values a new slot is bound to: 7 is the state of Secure Boot, 11 a unified kernel image. A slot
        /// that exists keeps its own.
        pub pcrs: String = "sha256:7".to_owned(), is kind(Kind::AnyText);
        /// The program that asks the device. Unset: `leafseal-tpm2`, beside this program.
        pub program: Option<PathBuf> = None;
        /// Maximum time of a call, from the start of its process to the answer.
        pub timeout: Duration = secs(30), in ms(1)..;
    }
}

impl Tpm2Settings {
    /// The same, with paths below `folder`.
    pub fn below(&self, folder: &Path) -> Self {
        Self { program: self.program.as_ref().map(|path| folder.join(path)), ..self.clone() }
    }

    /// The contradictions between settings, as sentences about the keys of the configuration.
    pub fn problems(&self) -> Vec<String> {
        if self.device.is_empty() {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if !cfg!(feature = "tpm2") {
            problems.push("tpm2.device: this program was built without the cargo feature tpm2".to_owned());
        }
        if self.device == "device:/dev/tpm0" {
            problems.push(
                "tpm2.device must be a resource manager, such as device:/dev/tpmrm0: the device itself runs out of places for \
                 objects"
                    .to_owned(),
            );
        }
        if self.device.contains(char::is_control) {
            problems.push("tpm2.device must name a device, such as device:/dev/tpmrm0".to_owned());
        }
        if parse_pcrs(&self.pcrs).is_none() {
            problems.push(format!(
                "tpm2.pcrs must be a bank of {} and numbers below {PCR_COUNT}, such as sha256:7,11",
                BANKS.join(", ")
            ));
        }
        problems
    }
}

/// The bank and the numbers of a list, `None` if it is none.
pub fn parse_pcrs(text: &str) -> Option<(&str, Vec<u32>)> {
    let (bank, list) = text.split_once(':')?;
    let number = |text: &str| text.parse().ok().filter(|number| *number < PCR_COUNT);
    let numbers: Vec<u32> = list.split(',').map(number).collect::<Option<_>>()?;
    let is_repeated = |number: &u32| numbers.iter().filter(|it| *it == number).count() > 1;
    (BANKS.contains(&bank) && !numbers.iter().any(is_repeated)).then_some((bank, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcrs_are_a_bank_and_numbers() {
        assert_eq!(parse_pcrs("sha256:7"), Some(("sha256", vec![7])));
        assert_eq!(parse_pcrs("sha384:0,2,23"), Some(("sha384", vec![0, 2, 23])));
        for text in
            ["", "7", "sha256", "sha256:", "sha256:24", "sha1:7", "sha256:7,", "sha256:7,7", "sha256:-1", "sha256: 7"]
        {
            assert_eq!(parse_pcrs(text), None, "{text}");
        }
    }

    #[test]
    fn a_device_is_a_resource_manager() {
        assert_eq!(Tpm2Settings::default().problems(), [""; 0]);
        let with = |device: &str| Tpm2Settings { device: device.to_owned(), ..Tpm2Settings::default() };
        assert_eq!(with("device:/dev/tpmrm0").problems(), [""; 0]);
        assert!(with("device:/dev/tpm0").problems().concat().contains("tpmrm0"));
        assert!(Tpm2Settings { pcrs: "7".into(), ..with("swtpm:") }.problems().concat().contains("tpm2.pcrs"));
    }
}
