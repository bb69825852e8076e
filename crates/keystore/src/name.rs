//! Names that are safe in a path, a log line, a metric label and a certificate: parsed once, then carried as types.

use std::fmt;
use std::str::FromStr;

use leafseal_crypto::CryptoRng;
use thiserror::Error;

/// Text that is no name of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not {kind} name: it must match {pattern}")]
pub struct InvalidName {
    /// The kind of the name.
    kind: &'static str,
    /// The pattern of such names.
    pattern: &'static str,
}

/// Which letters a kind of name has.
#[derive(PartialEq, Eq)]
enum Letters {
    Lower,
    LowerAndUpper,
}

/// The bytes allowed in a kind of name.
struct NameRule {
    kind: &'static str,
    pattern: &'static str,
    length_max: usize,
    letters: Letters,
    /// Allowed at the start, in addition to letters and digits.
    first: &'static [u8],
    /// Allowed after the start, in addition to letters and digits.
    rest: &'static [u8],
}

impl NameRule {
    fn check(&self, text: &str) -> Result<String, InvalidName> {
        let upper = self.letters == Letters::LowerAndUpper;
        let fits = |byte: u8, more: &[u8]| {
            byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || (upper && byte.is_ascii_uppercase())
                || more.contains(&byte)
        };
        let valid = (1..=self.length_max).contains(&text.len())
            && text.bytes().enumerate().all(|(i, byte)| fits(byte, if i == 0 { self.first } else { self.rest }));
        if valid { Ok(text.to_owned()) } else { Err(InvalidName { kind: self.kind, pattern: self.pattern }) }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Parses the name.
            ///
            /// # Errors
            /// [`InvalidName`], which states the pattern of such names.
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                const RULE: NameRule = $rule;
                RULE.check(text).map(Self)
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::parse(text)
            }
        }
    };
}

name!(
    /// The name of an app: `[a-z0-9][a-z0-9_-]{0,62}`. The `app_…` ids of SDKs fit.
    AppName,
    NameRule {
        kind: "an app",
        pattern: "[a-z0-9][a-z0-9_-]{0,62}",
        length_max: 63,
        letters: Letters::Lower,
        first: b"",
        rest: b"_-",
    }
);

name!(
    /// The name of a client, which its certificate carries: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`. This is the one rule for clients:
    /// what has another name may show a certificate, but cannot be granted anything.
    ///
    /// As long as a common name may be (64 bytes: RFC 5280, A.1, ub-common-name), so host names fit that a certificate can
    /// carry. Case counts: `Till` and `till` are two clients. It begins with a letter or a digit, so that it is never `..`, a
    /// hidden file or an option; it holds no `/`, so that it stays within a folder and within one segment of a URI.
    ClientName,
    NameRule {
        kind: "a client",
        pattern: "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        length_max: 64,
        letters: Letters::LowerAndUpper,
        first: b"",
        rest: b"._-",
    }
);

name!(
    /// A data role as envelopes carry it: `[a-z0-9-]{1,20}`.
    RoleName,
    NameRule {
        kind: "a role",
        pattern: "[a-z0-9-]{1,20}",
        length_max: 20,
        letters: Letters::Lower,
        first: b"-",
        rest: b"-",
    }
);

/// By which an API key is found: 16 digits of `[0-9a-f]`. No secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyId(String);

/// Random bytes in an [`ApiKeyId`].
const API_KEY_ID_SIZE: usize = 8;

impl ApiKeyId {
    /// Parses the id.
    ///
    /// # Errors
    /// [`InvalidName`], which states the pattern of ids.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 2 * API_KEY_ID_SIZE && text.bytes().all(is_digit) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidName { kind: "an API key's", pattern: "[0-9a-f]{16}" })
    }

    /// A new one.
    pub(crate) fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; API_KEY_ID_SIZE];
        rng.fill_bytes(&mut bytes);
        Self(hex::encode(bytes))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit() {
        let longest = "a".repeat(63);
        for text in ["a", "0", "app_8022cc5a3073", "my-app", "a_", "a-", longest.as_str()] {
            assert_eq!(AppName::parse(text).expect(text).as_str(), text);
            assert_eq!(text.parse::<ClientName>().expect(text).to_string(), text);
        }
        let longest = "a".repeat(64);
        for text in ["billing.internal", "Till-7", "A", "9._-", longest.as_str()] {
            assert_eq!(ClientName::parse(text).expect(text).as_str(), text);
        }
        assert_ne!(ClientName::parse("Till"), ClientName::parse("till"), "case counts");
        for text in ["a", "-", "pci-dss", "abcdefghijklmnopqrst"] {
            assert!(RoleName::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn names_that_do_not_fit() {
        let long = "a".repeat(64);
        for text in ["", "A", "_a", "-a", ".a", "a b", "a/b", "ä", "a\0", "a\n", "a.b", "..", long.as_str()] {
            assert!(AppName::parse(text).is_err(), "{text:?}");
        }
        let longer = "a".repeat(65);
        for text in
            ["", ".", "..", ".a", "-a", "_a", "/", "a/b", "a/", "a@b", "a b", "a\n", "a\0", "ä", longer.as_str()]
        {
            assert!(ClientName::parse(text).is_err(), "{text:?}");
        }
        for text in ["", "A", "a_b", "abcdefghijklmnopqrstu"] {
            assert!(RoleName::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_of_api_keys_are_sixteen_small_hexadecimal_digits() {
        assert_eq!(ApiKeyId::parse("00ff00aa9b8c7d6e").expect("an id").to_string(), "00ff00aa9b8c7d6e");
        let refused =
            ["", "00ff00aa9b8c7d6", "00ff00aa9b8c7d6e0", "00FF00AA9B8C7D6E", "g0ff00aa9b8c7d6e", "00ff00aa9b8c7d6\n"];
        for text in refused {
            assert!(ApiKeyId::parse(text).is_err(), "{text:?}");
        }
    }

    /// Every byte in both places, against the pattern spelt out as the letters themselves.
    #[test]
    fn client_names_match_their_pattern() {
        const FIRST: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        for character in (0..=u8::MAX).map(char::from) {
            let (first, later) = (character.to_string(), format!("a{character}"));
            assert_eq!(ClientName::parse(&first).is_ok(), FIRST.contains(character), "{first:?}");
            let allowed = FIRST.contains(character) || "._-".contains(character);
            assert_eq!(ClientName::parse(&later).is_ok(), allowed, "{later:?}");
        }
    }

    #[test]
    fn the_refusal_shows_the_pattern_and_not_the_text() {
        let refusal = AppName::parse("Secret!").expect_err("upper case").to_string();
        assert_eq!(refusal, "not an app name: it must match [a-z0-9][a-z0-9_-]{0,62}");
    }
}
