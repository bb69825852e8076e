//! The key exchange of TLS: its groups, the lists that listeners and clients offer, and the settings that change them.
//!
//! It is here because every crate that speaks TLS imports this one. No TLS library: a list is the text that BoringSSL reads.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{Kind, ListItem};

/// A group for the key exchange of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsGroup {
    /// X25519 and ML-KEM-768 together: an attacker must break both (draft-ietf-tls-ecdhe-mlkem).
    X25519MlKem768,
    /// X25519 (RFC 7748).
    X25519,
    /// P-256, also called secp256r1.
    P256,
    /// P-384, also called secp384r1.
    P384,
}

impl TlsGroup {
    /// All groups, the preferred first.
    pub const ALL: [Self; 4] = [Self::X25519MlKem768, Self::X25519, Self::P256, Self::P384];

    /// The name in settings, logs and metrics, which is that of the TLS library.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::X25519 => "X25519",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
        }
    }

    /// The number in the protocol (IANA, TLS Supported Groups).
    pub const fn number(self) -> u16 {
        match self {
            Self::X25519MlKem768 => 0x11ec,
            Self::X25519 => 29,
            Self::P256 => 23,
            Self::P384 => 24,
        }
    }

    /// Whether traffic that is recorded today stays secret from a future quantum computer.
    pub const fn is_hybrid(self) -> bool {
        matches!(self, Self::X25519MlKem768)
    }
}

impl fmt::Display for TlsGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not the name of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a group for the key exchange of TLS")]
pub struct UnknownGroup;

impl FromStr for TlsGroup {
    type Err = UnknownGroup;

    fn from_str(text: &str) -> Result<Self, UnknownGroup> {
        Self::ALL.into_iter().find(|group| group.as_str() == text).ok_or(UnknownGroup)
    }
}

const GROUPS: ListItem = ListItem {
    about: "groups, the preferred first: \"X25519MLKEM768\", \"X25519\", \"P-256\", \"P-384\"",
    is_valid: |text| text.parse::<TlsGroup>().is_ok(),
};

/// Which key exchanges are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyExchangeRule {
    /// Each that both sides have.
    #[default]
    Any,
    /// Only hybrid ones.
    Hybrid,
}

crate::settings! {
    /// The key exchange of TLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KeyExchange {
        /// Groups for the key exchange of TLS, the preferred first. `X25519MLKEM768` is hybrid: traffic that is recorded today stays secret
        /// from a future quantum computer. The others are for peers that do not support it.
        pub groups: Vec<TlsGroup> = TlsGroup::ALL.to_vec(), is kind(Kind::List(GROUPS));
        /// `any`: each group of the list is accepted. `hybrid`: only hybrid ones; a handshake with another peer fails.
        pub require: KeyExchangeRule = KeyExchangeRule::Any,
            one of { "any" => KeyExchangeRule::Any, "hybrid" => KeyExchangeRule::Hybrid };
    }
}

/// Why the settings admit no key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyExchangeError {
    /// The list is empty.
    #[error("must contain at least one group")]
    NoGroup,
    /// No group of the list is hybrid, but only such are accepted.
    #[error("must contain X25519MLKEM768 where only hybrid key exchanges are accepted")]
    NoHybrid,
}

impl KeyExchange {
    /// The default of engines' RPC listeners and their clients, none of which needs P-384, whose handshakes cost several times as much.
    pub fn of_rpc() -> Self {
        let groups = TlsGroup::ALL.into_iter().filter(|group| *group != TlsGroup::P384).collect();
        Self { groups, ..Self::default() }
    }

    /// The default, by this rule.
    pub fn by(require: KeyExchangeRule) -> Self {
        Self { require, ..Self::default() }
    }

    /// Whether only hybrid key exchanges are accepted, which TLS 1.2 does not have.
    pub fn requires_hybrid(&self) -> bool {
        self.require == KeyExchangeRule::Hybrid
    }

    /// The accepted groups as the TLS library reads them: `X25519MLKEM768:X25519`.
    ///
    /// # Errors
    /// If there is none.
    pub fn list(&self) -> Result<String, KeyExchangeError> {
        if self.groups.is_empty() {
            return Err(KeyExchangeError::NoGroup);
        }
        let mut names: Vec<&str> = Vec::new();
        for group in self.groups.iter().filter(|group| group.is_hybrid() || !self.requires_hybrid()) {
            // The library refuses a list that names one twice.
            if !names.contains(&group.as_str()) {
                names.push(group.as_str());
            }
        }
        if names.is_empty() { Err(KeyExchangeError::NoHybrid) } else { Ok(names.join(":")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Section, SettingValue};

    fn of(groups: &[TlsGroup], require: KeyExchangeRule) -> KeyExchange {
        KeyExchange { groups: groups.to_vec(), require }
    }

    #[test]
    fn the_hybrid_group_is_preferred_everywhere() {
        assert_eq!(KeyExchange::default().list().as_deref(), Ok("X25519MLKEM768:X25519:P-256:P-384"));
        assert_eq!(KeyExchange::of_rpc().list().as_deref(), Ok("X25519MLKEM768:X25519:P-256"));
    }

    #[test]
    fn only_hybrid_groups_remain_where_they_are_required() {
        use KeyExchangeRule::{Any, Hybrid};
        let [hybrid, classic] = [TlsGroup::X25519MlKem768, TlsGroup::P256];
        assert_eq!(of(&[classic, hybrid], Hybrid).list().as_deref(), Ok("X25519MLKEM768"));
        assert_eq!(of(&[classic, hybrid, classic], Any).list().as_deref(), Ok("P-256:X25519MLKEM768"));
        assert_eq!(of(&[classic], Hybrid).list(), Err(KeyExchangeError::NoHybrid));
        assert_eq!(of(&[], Any).list(), Err(KeyExchangeError::NoGroup));
    }

    #[test]
    fn settings_name_groups_and_no_others() {
        let [groups, _] = &KeyExchange::settings()[..] else { panic!("two settings") };
        let mut settings = KeyExchange::default();
        groups.set(&mut settings, SettingValue::List(vec!["P-256".to_owned(), "X25519".to_owned()]));
        assert_eq!(settings.groups, [TlsGroup::P256, TlsGroup::X25519]);
        for text in ["x25519", "P-521", "", "X25519:P-256"] {
            assert_eq!(text.parse::<TlsGroup>(), Err(UnknownGroup), "{text}");
        }
    }
}
