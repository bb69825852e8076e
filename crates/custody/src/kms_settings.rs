//! The settings of slots of kind `aws-kms`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{KeyExchangeRule, Kind, ms, secs, settings};

use crate::origin::ServerOrigin;

/// The port of HTTPS.
const PORT: u16 = 443;

settings! {
    /// The key of AWS KMS that keeps the secrets of key slots. An engine uses it when it opens the keystore; what is open stays open
    /// without it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct KmsSettings {
        /// The key: its ARN, its id, or `alias/NAME`. It must be symmetric. Empty: no such slots are opened or made.
        pub key: String = String::new(), is kind(Kind::AnyText);
        /// The region, such as `eu-central-1`.
        pub region: String = String::new(), is kind(Kind::AnyText);
        /// Another server than that of the region, such as a VPC endpoint: `https://HOST:PORT`. Redirections are not followed.
        pub url: String = String::new(), is kind(Kind::AnyText);
        /// The file with the credentials, in the format of AWS's shared credentials file; the section `[default]` is used. Only its owner
        /// may have access to it. It is read for each call, so that an agent may renew it.
        pub credentials_file: Option<PathBuf> = None;
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

impl KmsSettings {
    /// The server: that of the region, or the one that is set.
    pub fn origin(&self) -> Option<ServerOrigin> {
        if !is_region(&self.region) {
            return None;
        }
        // The regions of China are a partition with a domain of its own.
        let suffix = if self.region.starts_with("cn-") { ".cn" } else { "" };
        match self.url.as_str() {
            "" => ServerOrigin::parse(&format!("https://kms.{}.amazonaws.com{suffix}", self.region), PORT),
            url => ServerOrigin::parse(url, PORT),
        }
    }

    /// The same, with paths below `folder`.
    pub fn below(&self, folder: &Path) -> Self {
        let below = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        Self { credentials_file: below(&self.credentials_file), authorities: below(&self.authorities), ..self.clone() }
    }

    /// The contradictions between settings, as sentences about the keys of the configuration.
    pub fn problems(&self) -> Vec<String> {
        if self.key.is_empty() {
            return Vec::new();
        }
        let mut problems = Vec::new();
        let mut add = |is_problem: bool, text: &str| {
            if is_problem {
                problems.push(text.to_owned());
            }
        };
        let is_built = cfg!(feature = "aws-kms");
        add(!is_built, "aws_kms.key: this program was built without the cargo feature aws-kms");
        add(!is_key(&self.key), "aws_kms.key must be an ARN, an id, or alias/NAME");
        let has_region = is_region(&self.region);
        add(!has_region, "aws_kms.region must name the region of aws_kms.key, such as eu-central-1");
        add(has_region && self.origin().is_none(), "aws_kms.url must have the form https://HOST:PORT");
        add(self.credentials_file.is_none(), "aws_kms.credentials_file must name the file with the credentials");
        let trust = "aws_kms.authorities must name the certificates of the authorities that are trusted for AWS KMS";
        add(self.authorities.is_none(), trust);
        problems
    }
}

fn is_region(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Text that JSON does not escape; AWS limits it to 2048 characters.
fn is_key(text: &str) -> bool {
    text.len() <= 2048 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, region: &str, url: &str) -> KmsSettings {
        KmsSettings {
            key: key.to_owned(),
            region: region.to_owned(),
            url: url.to_owned(),
            credentials_file: Some("credentials".into()),
            authorities: Some("ca.pem".into()),
            ..KmsSettings::default()
        }
    }

    #[test]
    fn the_server_is_that_of_the_region_or_the_one_that_is_set() {
        for (region, url, host, port) in [
            ("eu-central-1", "", "kms.eu-central-1.amazonaws.com", 443),
            ("cn-north-1", "", "kms.cn-north-1.amazonaws.com.cn", 443),
            ("eu-central-1", "https://kms.internal:8443", "kms.internal", 8443),
        ] {
            let origin = with("alias/x", region, url).origin().expect(host);
            assert_eq!((origin.host.as_str(), origin.port), (host, port));
        }
        assert!(with("alias/x", "eu.example.com/", "").origin().is_none());
    }

    #[test]
    fn every_part_that_is_missing_is_named() {
        assert_eq!(KmsSettings::default().problems(), [""; 0]);
        let mentions = |settings: KmsSettings, key: &str| {
            let problems = settings.problems().concat();
            assert!(problems.contains(key), "{key}: {problems}");
        };
        mentions(with("a\"b", "eu-central-1", ""), "aws_kms.key must");
        mentions(with("alias/x", "", ""), "aws_kms.region");
        mentions(with("alias/x", "eu-central-1", "http://x"), "aws_kms.url");
        let bare = KmsSettings { credentials_file: None, authorities: None, ..with("alias/x", "eu-central-1", "") };
        mentions(bare.clone(), "aws_kms.credentials_file");
        mentions(bare, "aws_kms.authorities");
        let below = with("alias/x", "eu-central-1", "").below(Path::new("/dir"));
        assert_eq!(below.credentials_file, Some("/dir/credentials".into()));
    }
}
