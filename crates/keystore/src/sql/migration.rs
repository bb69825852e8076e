//! Brings a store to the newest schema: every private key and secret is sealed again for it, and every entry gets its leaf in the
//! authenticated tree.
//!
//! All of it is one change, so that programs see the store as it was or as it is, and a kill leaves it as it was.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use leafseal_crypto::{CryptoRng, Curve, PublicKey};

use super::session::StoreSession;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::tree::{StoreTree, TreeKeys};
use super::value::{SqlRow, SqlValue, params};
use super::{SqlBackend, SqlKeystore, apps};
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::error::KeyFault;
use crate::model::Migration;
use crate::root_key::{RootKey, RootKeyError};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::wrapping::{self, KeyLocation, secret_associated_data};
use crate::{AppName, StoreError};

/// Columns of `key_pair` and `secret`.
const CURVE: usize = 2;
const PUBLIC_KEY: usize = 3;
const WRAPPED_KEY: usize = 4;
const WRAPPED_SECRET: usize = 1;

/// Keys that are looked at to see whether a store has a tree.
const SAMPLE_SIZE: u32 = 64;

impl<B: SqlBackend> SqlKeystore<B> {
    /// Refuses a store that was migrated and says that it was not: it would be used without its tree. None of its keys would open, but
    /// an attacker who can write to it could have new ones made.
    pub(crate) fn refuse_downgraded(self) -> Result<Self, StoreError> {
        if self.schema.load(Ordering::Acquire) >= TREE_SCHEMA_VERSION {
            return Ok(self);
        }
        let select = "SELECT app, version, curve, public_key, wrapped_private_key FROM key_pair LIMIT ?1";
        let sample = self.read(|session| session.sql.rows(select, params![SAMPLE_SIZE]))?;
        let resealing = Resealing { keys: &self.keys, root_key: &*self.root_key, from: TREE_SCHEMA_VERSION };
        let mut is_migrated = |mut row: SqlRow| {
            let key = EntryKey::of_row(EntryKind::KeyVersion, &row);
            key.and_then(|key| resealing.key(&key, &mut row, self.rng().as_mut())).is_ok()
        };
        if sample.into_iter().any(&mut is_migrated) {
            return Err(StoreError::Edited(StoreEdit { part: EditedPart::Root, kind: EditKind::Changed }));
        }
        Ok(self)
    }

    /// What a migration would do; each key is opened.
    pub(super) fn plan_migration(&self) -> Result<Migration, StoreError> {
        self.read(|session| {
            let from = session.schema;
            let entries = if from < TREE_SCHEMA_VERSION { self.sealed_again(session)? } else { BTreeMap::new() };
            Ok(Migration { from, to: SCHEMA_VERSION, entry_count: entries.len() })
        })
    }

    pub(super) fn migrate_now(&self) -> Result<Migration, StoreError> {
        let plan = self.plan_migration()?;
        if plan.from == plan.to {
            return Ok(plan);
        }
        let entry_count = self.change(|session| {
            // Another process may have been quicker.
            if session.schema >= TREE_SCHEMA_VERSION { Ok(0) } else { self.write_migrated(session) }
        })?;
        self.schema.fetch_max(SCHEMA_VERSION, Ordering::AcqRel);
        Ok(Migration { entry_count, ..plan })
    }

    fn write_migrated(&self, session: &mut StoreSession<'_>) -> Result<usize, StoreError> {
        let entries = self.sealed_again(session)?;
        session.sql.batch(B::TABLES.third)?;
        for kind in [EntryKind::KeyVersion, EntryKind::Secret] {
            let table = kind.tables().last().expect("a table");
            session.sql.execute(&format!("DELETE FROM {}", table.name), &[])?;
            let rows = entries.iter().filter(|(key, _)| key.kind == kind).filter_map(|(_, rows)| rows.0.last());
            table.insert_all(session.sql, &rows.flatten().cloned().collect::<Vec<_>>())?;
        }
        let update = "UPDATE store SET schema_version = ?1";
        session.sql.execute(update, &[SqlValue::from(TREE_SCHEMA_VERSION)])?;
        let mut tree = StoreTree::empty(session.keys);
        for (key, rows) in &entries {
            let active = key.kind == EntryKind::KeyVersion && !rows.head()?.flag(3)?;
            tree.put(session.sql, key, active, rows)?;
        }
        session.tree = Some(tree);
        Ok(entries.len())
    }

    /// Every entry, with its keys and secrets sealed for the new schema.
    fn sealed_again(&self, session: &mut StoreSession<'_>) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        let mut entries = BTreeMap::new();
        for kind in EntryKind::ALL {
            entries.append(&mut session.stored(kind)?);
        }
        let resealing = Resealing { keys: &self.keys, root_key: &*self.root_key, from: session.schema };
        let mut rng = self.rng();
        for (key, rows) in &mut entries {
            // Tables that the older schema does not have.
            rows.0.resize(key.kind.tables().len(), Vec::new());
            match key.kind {
                EntryKind::KeyVersion => {
                    rows.0[1].iter_mut().try_for_each(|row| resealing.key(key, row, rng.as_mut()))?;
                }
                EntryKind::Secret => resealing.secret(key, rows.head_mut()?, rng.as_mut())?,
                EntryKind::App | EntryKind::Client | EntryKind::ApiKey => {}
            }
        }
        Ok(entries)
    }
}

struct Resealing<'k> {
    keys: &'k TreeKeys,
    root_key: &'k dyn RootKey,
    from: u32,
}

impl Resealing<'_> {
    fn key(&self, key: &EntryKey, row: &mut SqlRow, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        let app: AppName = apps::app_name(&key.name)?;
        let curve = Curve::ALL.into_iter().find(|curve| row.text(CURVE).is_ok_and(|name| name == curve.short_name()));
        let curve = curve.ok_or(StoreError::Inconsistent("a key is of a curve that is none"))?;
        let damaged = |fault| apps::damaged(&app, key.part, curve, fault);
        let public = PublicKey::from_sec1(curve, row.blob(PUBLIC_KEY)?).map_err(|_| damaged(KeyFault::PublicKey))?;
        let place = |schema| KeyLocation { store: self.keys.store, schema, app: &app, version: key.part };
        let places = (&place(self.from), &place(TREE_SCHEMA_VERSION));
        let wrapped = wrapping::rewrap(self.root_key, places, &public, row.blob(WRAPPED_KEY)?, rng);
        row.0[WRAPPED_KEY] = wrapped
            .map_err(|error| match error {
                RootKeyError::DecryptFailed => damaged(KeyFault::Unopenable),
                other => other.into(),
            })?
            .into();
        Ok(())
    }

    fn secret(&self, key: &EntryKey, row: &mut SqlRow, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        let aad = |schema| secret_associated_data(self.keys.store, schema, &key.name);
        let opened = self.root_key.open(&aad(self.from), row.blob(WRAPPED_SECRET)?).map_err(|error| match error {
            RootKeyError::DecryptFailed => {
                StoreError::Inconsistent("a secret of the store does not open under the root key")
            }
            other => other.into(),
        })?;
        row.0[WRAPPED_SECRET] = self.root_key.seal(&aad(TREE_SCHEMA_VERSION), &opened, rng)?.into();
        Ok(())
    }
}
