//! The settings of slots of kinds `pkcs11` and `pkcs11-rsa`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{Kind, ms, secs, settings};
use leafseal_keystore::SlotKind;

/// Longest label in bytes: that of a token has 32.
const LABEL_SIZE_MAX: usize = 128;

settings! {
    /// How a key of a token keeps secrets.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Pkcs11Mechanism {
        /// A secret key of kind AES, in GCM.
        AesGcm = "aes-gcm",
        /// A pair of RSA keys, with OAEP. Not safe against quantum computers.
        RsaOaep = "rsa-oaep",
    }
}

settings! {
    /// The hardware security module that keeps the secrets of key slots, as the library of its maker gives access to it (PKCS #11). A
    /// process of its own loads the library when an engine opens the keystore; what is open stays open without it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Pkcs11Settings {
        /// The library, such as `/usr/lib/softhsm/libsofthsm2.so`. Unset: no such slots are opened or made.
        pub module: Option<PathBuf> = None;
        /// The label of the token.
        pub token: String = String::new(), is kind(Kind::AnyText);
        /// The label of the key, which is sensitive and cannot be extracted. Its user may encrypt and decrypt with it.
        pub key: String = "leafseal".to_owned(), is kind(Kind::AnyText);
        /// The file whose first line is the user's PIN. Only its owner may have access to it. It is not used for the last try that a
        /// token permits.
        pub pin_file: Option<PathBuf> = None;
        /// How the key keeps secrets: `aes-gcm`; or `rsa-oaep`, for a module without it, which is not safe against quantum computers.
        pub mechanism: Pkcs11Mechanism = Pkcs11Mechanism::AesGcm;
        /// Maximum time of a call, from the start of its process to the answer.
        pub timeout: Duration = secs(10), in ms(1)..;
    }
}

impl Pkcs11Settings {
    /// The same, with paths below `folder`.
    pub fn below(&self, folder: &Path) -> Self {
        let below = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        Self { module: below(&self.module), pin_file: below(&self.pin_file), ..self.clone() }
    }

    /// The kind of slots that the key makes and opens.
    pub fn slot_kind(&self) -> SlotKind {
        match self.mechanism {
            Pkcs11Mechanism::AesGcm => SlotKind::Pkcs11,
            Pkcs11Mechanism::RsaOaep => SlotKind::Pkcs11Rsa,
        }
    }

    /// The contradictions between settings, as sentences about the keys of the configuration.
    pub fn problems(&self) -> Vec<String> {
        if self.module.is_none() {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if !cfg!(feature = "pkcs11") {
            problems.push("pkcs11.module: this program was built without the cargo feature pkcs11".to_owned());
        }
        for (name, label) in [("token", &self.token), ("key", &self.key)] {
            if !(1..=LABEL_SIZE_MAX).contains(&label.len()) || label.contains(char::is_control) {
                problems.push(format!("pkcs11.{name} must be the label of a {name}"));
            }
        }
        if self.pin_file.is_none() {
            problems.push("pkcs11.pin_file must name the file with the PIN of the token's user".to_owned());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_needs_a_token_a_key_and_a_pin() {
        assert_eq!(Pkcs11Settings::default().problems(), [""; 0]);
        let bare = Pkcs11Settings { module: Some("m.so".into()), key: "a\nb".into(), ..Pkcs11Settings::default() };
        let problems = bare.problems().concat();
        assert!(
            ["pkcs11.token", "pkcs11.key", "pkcs11.pin_file"].iter().all(|key| problems.contains(key)),
            "{problems}"
        );
        let whole = Pkcs11Settings { token: "t".into(), key: "k".into(), pin_file: Some("pin".into()), ..bare };
        assert_eq!(whole.problems(), [""; 0]);
        let below = whole.below(Path::new("/dir"));
        assert_eq!((below.module, below.pin_file), (Some("/dir/m.so".into()), Some("/dir/pin".into())));
    }
}
