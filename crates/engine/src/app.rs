//! An app with its keys, as requests use it. Private keys exist decrypted only here and in what is derived from them; they are wiped when
//! the last request that uses them ends.

use std::collections::HashMap;
use std::sync::Arc;

use leafseal_crypto::symmetric::{SymmetricKey, SymmetricKeyId};
use leafseal_crypto::{Curve, PublicKey};
use leafseal_keystore::{AcceptedSchemes, AppKeyPair, AppKeys, AppName, AppPublicKeys};

use crate::error::{Error, ErrorCode};
use crate::recent::RecentVersions;
use crate::symmetric::SymmetricKeys;

/// An app whose keys may be used.
pub(crate) struct App {
    pub(crate) name: AppName,
    pub(crate) keys: CachedAppKeys,
    pub(crate) recent: Arc<RecentVersions>,
}

/// The keys of an app.
pub(crate) enum CachedAppKeys {
    /// All of a store.
    Pairs {
        keys: Arc<AppKeys>,
        /// The version that encrypts to public keys.
        encrypting: u32,
        symmetric: Arc<SymmetricKeys>,
    },
    /// Those of one version, which encrypt.
    Public(AppPublicKeys),
}

impl App {
    /// The key pairs of a curve that may decrypt, with their versions, newest first; none if the public keys alone are known.
    pub(crate) fn versions(&self, curve: Curve) -> impl Iterator<Item = (u32, &AppKeyPair)> {
        let keys = match &self.keys {
            CachedAppKeys::Pairs { keys, .. } => Some(keys),
            CachedAppKeys::Public(_) => None,
        };
        let versions = keys.into_iter().flat_map(|keys| keys.active_versions());
        versions.map(move |version| (version.version, version.pair(curve)))
    }

    /// The key pair of a version on a curve, if it may decrypt.
    pub(crate) fn pair(&self, curve: Curve, version: u32) -> Option<&AppKeyPair> {
        match &self.keys {
            CachedAppKeys::Pairs { keys, .. } => keys.active_version(version).map(|version| version.pair(curve)),
            CachedAppKeys::Public(_) => None,
        }
    }

    /// The number of the newest version that may decrypt.
    pub(crate) fn newest_version(&self, curve: Curve) -> Option<u32> {
        self.versions(curve).next().map(|(version, _)| version)
    }

    /// The symmetric key with this id, and its version, if it may decrypt.
    pub(crate) fn symmetric(&self, id: SymmetricKeyId) -> Option<(u32, Arc<SymmetricKey>)> {
        match &self.keys {
            CachedAppKeys::Pairs { keys, symmetric, .. } => symmetric.get(keys, id),
            CachedAppKeys::Public(_) => None,
        }
    }

    /// The symmetric key that encrypts: that of the newest version, at once, as its envelopes name it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn newest_symmetric(&self) -> Result<(u32, Arc<SymmetricKey>), Error> {
        self.check_private()?;
        let newest = match &self.keys {
            CachedAppKeys::Pairs { keys, symmetric, .. } => symmetric.newest(keys),
            CachedAppKeys::Public(_) => None,
        };
        newest.ok_or_else(|| {
            let message = format!(
                "app {} has no symmetric key yet: `leafseal store migrate` makes one, if the keystore is of an older version, else \
                 `leafseal keys rotate`",
                self.name
            );
            Error::new(ErrorCode::InvalidParams, message)
        })
    }

    /// Whether new values are sealed with the symmetric key of this id.
    pub(crate) fn seals_with(&self, id: SymmetricKeyId) -> bool {
        self.newest_symmetric().is_ok_and(|(_, key)| key.id() == id)
    }

    /// The envelopes of the app that are decrypted.
    pub(crate) fn accepted(&self) -> AcceptedSchemes {
        match &self.keys {
            CachedAppKeys::Pairs { keys, .. } => keys.accept,
            CachedAppKeys::Public(_) => AcceptedSchemes::ALL,
        }
    }

    /// The versions that decrypted most recently.
    pub(crate) fn recent(&self) -> &RecentVersions {
        &self.recent
    }

    /// Checks that there are keys that decrypt.
    pub(crate) fn check_private(&self) -> Result<(), Error> {
        match &self.keys {
            CachedAppKeys::Pairs { .. } => Ok(()),
            CachedAppKeys::Public(_) => {
                let message = format!(
                    "of app {} this engine has the public keys alone: it can encrypt to them, but neither decrypt nor use \
                     symmetric keys",
                    self.name
                );
                Err(Error::new(ErrorCode::Forbidden, message))
            }
        }
    }

    /// The public key of the newest version on a curve.
    pub(crate) fn newest(&self, curve: Curve) -> &PublicKey {
        match &self.keys {
            CachedAppKeys::Pairs { .. } => {
                self.versions(curve).next().expect("checked when the app was loaded").1.public()
            }
            CachedAppKeys::Public(keys) => public_key(keys, curve),
        }
    }

    /// The version that encrypts, and its public key on a curve: the newest that every engine on the store knows.
    pub(crate) fn encrypting(&self, curve: Curve) -> (u32, &PublicKey) {
        match &self.keys {
            CachedAppKeys::Pairs { encrypting, .. } => {
                let found = self.versions(curve).find(|(version, _)| version == encrypting);
                let (version, pair) = found.expect("chosen among them");
                (version, pair.public())
            }
            CachedAppKeys::Public(keys) => (keys.version, public_key(keys, curve)),
        }
    }

    /// Whether the newest version is the one that encrypts.
    pub(crate) fn encrypts_with_newest(&self) -> bool {
        match &self.keys {
            CachedAppKeys::Pairs { keys, encrypting, .. } => {
                keys.newest_active().is_some_and(|newest| newest.version == *encrypting)
            }
            CachedAppKeys::Public(_) => true,
        }
    }
}

/// The apps of an engine that knows their public keys alone.
pub(crate) type PublicApps = HashMap<AppName, Arc<App>>;

/// The apps with these keys; of several for the same app the last.
pub(crate) fn public_apps(apps: impl IntoIterator<Item = (AppName, AppPublicKeys)>) -> PublicApps {
    apps.into_iter()
        .map(|(name, keys)| {
            (name.clone(), Arc::new(App { name, keys: CachedAppKeys::Public(keys), recent: Arc::default() }))
        })
        .collect()
}

fn public_key(keys: &AppPublicKeys, curve: Curve) -> &PublicKey {
    match curve {
        Curve::P256 => &keys.r1,
        Curve::Secp256k1 => &keys.k1,
    }
}
