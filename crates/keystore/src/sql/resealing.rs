//! Puts a store under another root: every private key and secret is sealed again, and every entry gets a leaf in a new tree. A migration
//! does so to the first root that slots hold, and a rotation to the next.

use std::collections::BTreeMap;

use leafseal_crypto::{CryptoRng, Curve, PublicKey};

use super::apps;
use super::session::StoreSession;
use super::slots::OpenRoot;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::tree::StoreTree;
use super::value::{SqlRow, params};
use crate::error::KeyFault;
use crate::root_key::StoreRoot;
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::store_id::StoreId;
use crate::wrapping::{self, KeyLocation, secret_associated_data};
use crate::{AppName, StoreError};
use leafseal_crypto::symmetric::{SymmetricKeyId, SymmetricRoot};

/// Columns of `key_pair`, `secret` and `symmetric_key`.
const CURVE: usize = 2;
const PUBLIC_KEY: usize = 3;
const WRAPPED_KEY: usize = 4;
const WRAPPED_SECRET: usize = 1;
const KEY_ID: usize = 2;
const WRAPPED_ROOT: usize = 3;

/// Kinds of which something is sealed under the root, and the first of their tables with it.
const SEALED: [(EntryKind, usize); 3] = [(EntryKind::KeyVersion, 1), (EntryKind::Secret, 0), (EntryKind::Slot, 0)];

/// How many entries were sealed again, of how many.
pub(super) type SealingProgress<'p> = &'p mut dyn FnMut(usize, usize);

/// Writes `entries` in the place of those of the session, with the record of this change and a new tree under `next`. Slots are sealed by
/// the caller.
pub(super) fn write(
    session: &mut StoreSession<'_>,
    next: &OpenRoot,
    mut entries: BTreeMap<EntryKey, EntryRows>,
) -> Result<(), StoreError> {
    if let Some(record) = session.record.take() {
        record.add_to(session.sql, session.generation, &mut entries)?;
    }
    for (kind, first) in SEALED {
        for (index, table) in kind.tables().iter().enumerate().skip(first) {
            session.sql.execute(&format!("DELETE FROM {}", table.name), &[])?;
            let rows = entries.iter().filter(|(key, _)| key.kind == kind).flat_map(|(_, rows)| rows.rows(index));
            table.insert_all(session.sql, &rows.cloned().collect::<Vec<_>>())?;
        }
    }
    for table in ["tree_leaf", "tree_node"] {
        session.sql.execute(&format!("DELETE FROM {table}"), &[])?;
    }
    let update = "UPDATE store SET schema_version = ?1, root_key_id = ?2";
    session.sql.execute(update, params![TREE_SCHEMA_VERSION, next.root.id().0])?;
    let mut tree = StoreTree::empty(&next.tree);
    for (key, rows) in &entries {
        let active = key.kind == EntryKind::KeyVersion && !rows.head()?.flag(3)?;
        tree.put(session.sql, key, active, rows)?;
    }
    // Nothing more is written under the former root.
    session.tree = None;
    tree.write(session.sql, session.generation, next.epoch).map(drop)
}

/// From one root, in a schema, to another.
pub(super) struct Resealing<'k> {
    pub(super) store: StoreId,
    pub(super) from: (&'k StoreRoot, u32),
    pub(super) to: &'k StoreRoot,
}

impl Resealing<'_> {
    /// Seals again what `entries` have under the root, without slots; returns how many entries had something.
    pub(super) fn all(
        &self,
        entries: &mut BTreeMap<EntryKey, EntryRows>,
        rng: &mut dyn CryptoRng,
        progress: SealingProgress<'_>,
    ) -> Result<usize, StoreError> {
        let is_sealed = |key: &EntryKey| matches!(key.kind, EntryKind::KeyVersion | EntryKind::Secret);
        let total = entries.keys().filter(|key| is_sealed(key)).count();
        for (index, (key, rows)) in entries.iter_mut().filter(|(key, _)| is_sealed(key)).enumerate() {
            if key.kind == EntryKind::Secret {
                self.secret(key, rows.head_mut()?, rng)?;
            } else {
                rows.0[1].iter_mut().try_for_each(|row| self.key(key, row, rng))?;
                rows.0.iter_mut().skip(2).flatten().try_for_each(|row| self.symmetric(key, row, rng))?;
            }
            progress(index + 1, total);
        }
        Ok(total)
    }

    pub(super) fn key(&self, key: &EntryKey, row: &mut SqlRow, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        let app: AppName = apps::app_name(&key.name)?;
        let curve = Curve::ALL.into_iter().find(|curve| row.text(CURVE).is_ok_and(|name| name == curve.short_name()));
        let curve = curve.ok_or(StoreError::Inconsistent("a key is of a curve that is none"))?;
        let damaged = |fault| apps::damaged(&app, key.part, curve, fault);
        let public = PublicKey::from_sec1(curve, row.blob(PUBLIC_KEY)?).map_err(|_| damaged(KeyFault::PublicKey))?;
        let place = |schema| KeyLocation { store: self.store, schema, app: &app, version: key.part };
        let (from, to) = ((self.from.0, &place(self.from.1)), (self.to, &place(TREE_SCHEMA_VERSION)));
        let wrapped = wrapping::rewrap(from, to, &public, row.blob(WRAPPED_KEY)?, rng);
        row.0[WRAPPED_KEY] = wrapped.map_err(|_| damaged(KeyFault::Unopenable))?.into();
        Ok(())
    }

    fn symmetric(&self, key: &EntryKey, row: &mut SqlRow, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        let (app, id) = (apps::app_name(&key.name)?, SymmetricKeyId(row.array(KEY_ID)?));
        let place = KeyLocation { store: self.store, schema: TREE_SCHEMA_VERSION, app: &app, version: key.part };
        let wrapped = wrapping::rewrap_symmetric((self.from.0, self.to), &place, id, row.blob(WRAPPED_ROOT)?, rng);
        let (version, fault) = (key.part, KeyFault::Unopenable);
        let wrapped = wrapped.map_err(|_| StoreError::DamagedSymmetricKey { app: app.clone(), version, fault })?;
        row.0[WRAPPED_ROOT] = wrapped.into();
        Ok(())
    }

    /// Gives the newest active version of every app a symmetric root, where it has none.
    pub(super) fn add_symmetric(
        &self,
        entries: &mut BTreeMap<EntryKey, EntryRows>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), StoreError> {
        let mut newest: BTreeMap<String, &mut EntryRows> = BTreeMap::new();
        for (key, rows) in entries.iter_mut().filter(|(key, _)| key.kind == EntryKind::KeyVersion) {
            if !rows.head()?.flag(3)? {
                newest.insert(key.name.clone(), rows);
            }
        }
        for (name, rows) in newest {
            let (app, version) = (apps::app_name(&name)?, rows.head()?.number(1)?);
            let place = KeyLocation { store: self.store, schema: TREE_SCHEMA_VERSION, app: &app, version };
            let symmetric = SymmetricRoot::generate(rng);
            let id = symmetric.key_id();
            let wrapped = wrapping::wrap_symmetric(self.to, &place, (id, Some(&symmetric)), rng);
            rows.0[2] = vec![apps::symmetric_row(&app, version, id, &wrapped)];
        }
        Ok(())
    }

    fn secret(&self, key: &EntryKey, row: &mut SqlRow, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        const DAMAGED: StoreError = StoreError::Inconsistent("a secret of the store does not open under the root");
        let aad = |schema| secret_associated_data(self.store, schema, &key.name);
        let (root, schema) = self.from;
        let opened = root.open(&aad(schema), row.blob(WRAPPED_SECRET)?).map_err(|_| DAMAGED)?;
        row.0[WRAPPED_SECRET] = self.to.seal(&aad(TREE_SCHEMA_VERSION), &opened, rng).into();
        Ok(())
    }
}
