//! The settings of slots of kind `transit`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{KeyExchangeRule, Kind, ms, secs, settings};

use crate::origin::ServerOrigin;

/// Longest path and name in bytes.
const TEXT_SIZE_MAX: usize = 512;
/// The port of OpenBao and Vault.
const PORT: u16 = 8200;

settings! {
    /// The OpenBao or Vault whose Transit secrets engine keeps the secrets of key slots. An engine uses it when it opens the keystore;
    /// what is open stays open without it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TransitSettings {
        /// The server: `https://HOST:PORT`. Redirections are not followed. Empty: no such slots are opened or made.
        pub url: String = String::new(), is kind(Kind::AnyText);
        /// The path at which the Transit secrets engine is mounted, after that of its namespace if it is in one.
        pub mount: String = "transit".to_owned(), is kind(Kind::AnyText);
        /// The name of the key, which must be one with associated data, such as `aes256-gcm96`.
        pub key: String = "leafseal".to_owned(), is kind(Kind::AnyText);
        /// The file whose first line is the token, which may decrypt with the key, and encrypt to make slots. Only its owner may have
        /// access to it. It is read for each call, so that an agent may renew it.
        pub token_file: Option<PathBuf> = None;
        /// The certificate authorities that are trusted to issue the server's certificate, in PEM. Read for each call. The authorities
        /// of the system are not trusted.
        pub authorities: Option<PathBuf> = None;
        /// `any`: each group for the key exchange of TLS that the server has. `hybrid`: only X25519MLKEM768, so that what is recorded today
        /// stays secret from a future quantum computer; a server without it is refused.
        pub tls_require: KeyExchangeRule = KeyExchangeRule::Any,
            one of { "any" => KeyExchangeRule::Any, "hybrid" => KeyExchangeRule::Hybrid };
        /// Maximum time of a call, from the name resolution to the last byte of the answer.
        pub timeout: Duration = secs(5), in ms(1)..;
        /// Maximum size of an answer.
        pub answer_size_max: usize = 64 << 10, bytes in 1024..=1 << 20;
    }
}

impl TransitSettings {
    /// The server, if the URL names one.
    pub fn origin(&self) -> Option<ServerOrigin> {
        ServerOrigin::parse(&self.url, PORT)
    }

    /// The same, with paths below `folder`.
    pub fn below(&self, folder: &Path) -> Self {
        let below = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        Self { token_file: below(&self.token_file), authorities: below(&self.authorities), ..self.clone() }
    }

    /// The contradictions between settings, as sentences about the keys of the configuration.
    pub fn problems(&self) -> Vec<String> {
        if self.url.is_empty() {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if !cfg!(feature = "transit") {
            problems.push("transit.url: this program was built without the cargo feature transit".to_owned());
        }
        if self.origin().is_none() {
            // Not repeated: it may hold a password.
            problems.push("transit.url must have the form https://HOST:PORT".to_owned());
        }
        if !is_path(&self.mount) {
            problems.push(
                "transit.mount must be the path of a mount, of letters, digits, _, - and ., such as transit".to_owned(),
            );
        }
        if !is_name(&self.key) {
            problems.push("transit.key must be the name of a key, of letters, digits, _, - and .".to_owned());
        }
        if self.token_file.is_none() {
            problems.push("transit.token_file must name the file with the token for transit.url".to_owned());
        }
        if self.authorities.is_none() {
            problems.push(
                "transit.authorities must name the certificates of the authorities that are trusted for transit.url"
                    .to_owned(),
            );
        }
        problems
    }
}

/// Text that is part of a URL's path as it is.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=TEXT_SIZE_MAX).contains(&text.len()) && text.bytes().all(is_plain) && !text.bytes().all(|byte| byte == b'.')
}

fn is_path(text: &str) -> bool {
    text.len() <= TEXT_SIZE_MAX && text.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(url: &str) -> TransitSettings {
        TransitSettings {
            url: url.to_owned(),
            token_file: Some("token".into()),
            authorities: Some("ca.pem".into()),
            ..TransitSettings::default()
        }
    }

    #[test]
    fn only_a_server_over_https_is_accepted() {
        for (url, host, port) in [
            ("https://bao.internal", "bao.internal", 8200),
            ("https://bao.internal:443/", "bao.internal", 443),
            ("https://[::1]:8200", "::1", 8200),
        ] {
            let origin = with(url).origin().expect(url);
            assert_eq!((origin.host.as_str(), origin.port), (host, port), "{url}");
        }
        for url in [
            "http://bao.internal:8200",
            "https://user:secret@bao.internal",
            "https://bao.internal/v1",
            "https://bao.internal?x=1",
            "https://bao.internal#x",
            "bao.internal:8200",
            "https://",
        ] {
            let problems = with(url).problems().concat();
            assert!(problems.contains("transit.url must have the form") && !problems.contains("secret"), "{problems}");
        }
    }

    #[test]
    fn names_cannot_lead_to_another_path() {
        for (mount, key, count) in [
            ("transit", "leafseal", 0),
            ("teams/payments/transit", "k-1_2.3", 0),
            ("../sys", "leafseal", 1),
            ("transit/", "leafseal", 1),
            ("transit", "a/../b", 1),
            ("transit", "..", 1),
            ("transit", "k?x", 1),
            ("", "", 2),
        ] {
            let settings =
                TransitSettings { mount: mount.to_owned(), key: key.to_owned(), ..with("https://bao.internal") };
            let names = settings.problems().into_iter().filter(|text| text.contains("must be the")).count();
            assert_eq!(names, count, "{mount} {key}");
        }
    }

    #[test]
    fn settings_without_a_server_are_complete_and_others_need_credentials_and_trust() {
        assert_eq!(TransitSettings::default().problems(), [""; 0]);
        let bare = TransitSettings { token_file: None, authorities: None, ..with("https://bao.internal") };
        let problems = bare.problems().concat();
        assert!(problems.contains("transit.token_file") && problems.contains("transit.authorities"), "{problems}");
        let below = with("https://bao.internal").below(Path::new("/dir"));
        assert_eq!((below.token_file, below.authorities), (Some("/dir/token".into()), Some("/dir/ca.pem".into())));
    }
}
