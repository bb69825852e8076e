//! The symmetric keys of an app, by the id that envelopes have.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use leafseal_crypto::symmetric::{SymmetricKey, SymmetricKeyId};
use leafseal_keystore::AppKeys;

/// The symmetric keys of an app's versions that may decrypt. A look-up costs the same for one version and for hundreds.
pub(crate) struct SymmetricKeys {
    by_id: HashMap<SymmetricKeyId, DerivedKey>,
    newest: Option<SymmetricKeyId>,
}

/// The key of one version, derived when it is first used.
struct DerivedKey {
    version: u32,
    key: OnceLock<Arc<SymmetricKey>>,
}

impl SymmetricKeys {
    pub(crate) fn new(keys: &AppKeys) -> Self {
        let ids =
            keys.active_versions().filter_map(|version| Some((version.version, version.symmetric.as_ref()?.key_id())));
        let by_id = ids.map(|(version, id)| (id, DerivedKey { version, key: OnceLock::new() })).collect();
        // One that the newest version lacks is not replaced by that of an older one: after a rotation nothing is sealed with that.
        let newest = keys.newest_active().and_then(|newest| Some(newest.symmetric.as_ref()?.key_id()));
        Self { by_id, newest }
    }

    /// The key with this id, and its version.
    pub(crate) fn get(&self, keys: &AppKeys, id: SymmetricKeyId) -> Option<(u32, Arc<SymmetricKey>)> {
        let found = self.by_id.get(&id)?;
        let root = keys.active_version(found.version)?.symmetric.as_ref()?;
        Some((found.version, Arc::clone(found.key.get_or_init(|| Arc::new(SymmetricKey::new(root))))))
    }

    /// The key of the newest version.
    pub(crate) fn newest(&self, keys: &AppKeys) -> Option<(u32, Arc<SymmetricKey>)> {
        self.get(keys, self.newest?)
    }
}
