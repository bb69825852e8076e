//! The keys of the authenticated tree, and what they authenticate.
//!
//! Every message begins with what it is about, and each part of variable length with its length, so that no two things share their bytes.

use leafseal_crypto::GuardedSecret;
use leafseal_crypto::hash::{SHA256_SIZE, hmac_sha256, hmac_sha256_verify};

use super::{BUCKETS, Children, Leaf};
use crate::root_key::{RootKeyId, StoreRoot};
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::sql::table::{EntryKey, EntryKind, EntryRows};
use crate::sql::value::{SqlRow, SqlValue};
use crate::store_id::StoreId;

/// A MAC: HMAC-SHA-256.
pub(crate) type TreeDigest = [u8; SHA256_SIZE];
/// The digest of what has no entries.
pub(crate) const ZERO: TreeDigest = [0; SHA256_SIZE];

/// In place of a level, before a bucket.
const BUCKET_LEVEL: u32 = 255;

/// Keys for one purpose each, of one store.
pub(crate) struct TreeKeys {
    pub(crate) store: StoreId,
    pub(crate) root_key: RootKeyId,
    places: GuardedSecret,
    leaves: GuardedSecret,
    nodes: GuardedSecret,
    root: GuardedSecret,
}

impl std::fmt::Debug for TreeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TreeKeys(…)")
    }
}

impl TreeKeys {
    pub(crate) fn new(root: &StoreRoot, store: StoreId) -> Self {
        let derive = |purpose: &str| {
            let label = [b"leafseal-tree-1 ", purpose.as_bytes(), b" ", &store.0].concat();
            GuardedSecret::from(root.derive(&label))
        };
        Self {
            store,
            root_key: root.id(),
            places: derive("places"),
            leaves: derive("leaves"),
            nodes: derive("nodes"),
            root: derive("root"),
        }
    }

    /// Where an entry's leaf lies. Keyed, so that nobody can choose names that fill one bucket.
    pub(crate) fn bucket(&self, key: &EntryKey) -> u32 {
        let group = match key.kind {
            EntryKind::App | EntryKind::KeyVersion | EntryKind::Life => EntryKind::App,
            kind => kind,
        };
        let mac = hmac_sha256(self.places.expose(), &[&[group as u8], key.name.as_bytes()].concat());
        u32::from_be_bytes(*mac.first_chunk().expect("32 bytes")) % BUCKETS
    }

    /// The MAC of an entry's rows, in whichever order they come.
    pub(crate) fn entry_mac(&self, key: &EntryKey, rows: &EntryRows) -> TreeDigest {
        let mut message = Vec::with_capacity(256);
        message.extend(self.store.0);
        put_key(&mut message, key);
        for rows in &rows.0 {
            let mut encoded: Vec<Vec<u8>> = rows.iter().map(encoded).collect();
            encoded.sort_unstable();
            put_size(&mut message, encoded.len());
            for row in encoded {
                put_bytes(&mut message, &row);
            }
        }
        hmac_sha256(self.leaves.expose(), &message)
    }

    /// `leaves` in the order of their keys.
    pub(super) fn bucket_digest(&self, number: u32, leaves: &[Leaf]) -> TreeDigest {
        if leaves.is_empty() {
            return ZERO;
        }
        let mut message = Vec::with_capacity(8 + 96 * leaves.len());
        message.extend(BUCKET_LEVEL.to_be_bytes());
        message.extend(number.to_be_bytes());
        for leaf in leaves {
            put_key(&mut message, &leaf.key);
            message.push(leaf.active.into());
            message.extend(leaf.mac);
        }
        hmac_sha256(self.nodes.expose(), &message)
    }

    pub(super) fn node_digest(&self, level: u32, position: u32, children: &Children) -> TreeDigest {
        if children.iter().all(|byte| *byte == 0) {
            return ZERO;
        }
        let message = [&level.to_be_bytes(), &position.to_be_bytes(), children.as_slice()].concat();
        hmac_sha256(self.nodes.expose(), &message)
    }

    /// The MAC of a store's state: its generation and all entries.
    pub(super) fn root_mac(&self, generation: i64, root: &TreeDigest) -> TreeDigest {
        hmac_sha256(self.root.expose(), &self.root_message(generation, root))
    }

    pub(super) fn is_root_mac(&self, generation: i64, root: &TreeDigest, mac: &TreeDigest) -> bool {
        hmac_sha256_verify(self.root.expose(), &self.root_message(generation, root), mac)
    }

    fn root_message(&self, generation: i64, root: &TreeDigest) -> Vec<u8> {
        let schema = TREE_SCHEMA_VERSION.to_be_bytes();
        [&self.store.0[..], &self.root_key.0, &schema, &generation.to_be_bytes(), root].concat()
    }
}

fn put_size(message: &mut Vec<u8>, size: usize) {
    message.extend(u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
}

fn put_bytes(message: &mut Vec<u8>, bytes: &[u8]) {
    put_size(message, bytes.len());
    message.extend(bytes);
}

fn put_key(message: &mut Vec<u8>, key: &EntryKey) {
    message.push(key.kind as u8);
    message.extend(key.part.to_be_bytes());
    put_bytes(message, key.name.as_bytes());
}

/// A row's values, each with its type.
fn encoded(row: &SqlRow) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    for value in &row.0 {
        match value {
            SqlValue::Null(_) => bytes.push(0),
            SqlValue::Integer(integer) => {
                bytes.push(1);
                bytes.extend(integer.to_be_bytes());
            }
            SqlValue::Text(text) => {
                bytes.push(2);
                put_bytes(&mut bytes, text.as_bytes());
            }
            SqlValue::Blob(blob) => {
                bytes.push(3);
                put_bytes(&mut bytes, blob);
            }
            SqlValue::Flag(flag) => bytes.extend([4, (*flag).into()]),
        }
    }
    bytes
}
