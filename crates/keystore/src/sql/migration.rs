//! Brings a store to the newest schema: it gets a random root, a key slot for each provider, and the authenticated tree.
//!
//! All of it is one change, so that programs see the store as it was or as it is, and a kill leaves it as it was.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::descent;
use super::resealing::{self, Resealing, SealingProgress};
use super::schema::NewStore;
use super::seen::confirm;
use super::session::StoreSession;
use super::slots::{self, OpenRoot};
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{SqlRow, params};
use super::{SqlBackend, SqlKeystore};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::history::{ChangeKind, ChangeNote};
use crate::model::Migration;
use crate::root_key::StoreRoot;
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};

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
        let open = self.open_root();
        let resealing = Resealing { store: self.id, from: (&open.root, TREE_SCHEMA_VERSION - 1), to: &open.root };
        let is_older = |mut row: SqlRow| {
            let key = EntryKey::of_row(EntryKind::KeyVersion, &row);
            key.and_then(|key| resealing.key(&key, &mut row, self.rng().as_mut())).is_ok()
        };
        if !sample.is_empty() && !sample.into_iter().any(is_older) {
            return Err(StoreError::Edited(StoreEdit { part: EditedPart::Root, kind: EditKind::Changed }));
        }
        Ok(self)
    }

    /// What a migration would do; each key is opened.
    pub(super) fn plan_migration(&self) -> Result<Migration, StoreError> {
        self.read(|session| {
            let from = session.schema;
            let has_tree = from >= TREE_SCHEMA_VERSION;
            let entries = if has_tree {
                BTreeMap::new()
            } else {
                self.sealed_again(session, &session.open.root.clone(), &mut |_, _| ())?
            };
            Ok(Migration { from, to: SCHEMA_VERSION, entry_count: entries.len() })
        })
    }

    pub(super) fn migrate_now(&self, progress: SealingProgress<'_>) -> Result<Migration, StoreError> {
        self.migrate_under(1, None, progress)
    }

    /// The same; `epoch` counts the roots. `confirmed`: the generation that the store must have.
    pub(super) fn migrate_under(
        &self,
        epoch: u32,
        confirmed: Option<u64>,
        progress: SealingProgress<'_>,
    ) -> Result<Migration, StoreError> {
        let plan = self.plan_migration()?;
        if plan.from == plan.to {
            return Ok(plan);
        }
        let root = StoreRoot::generate(self.rng().as_mut());
        let open = OpenRoot::new(root, epoch, self.id);
        // Before the transaction: a provider may take its time.
        let new = NewStore::with_root(open, &self.providers, self.now(), self.rng().as_mut())?;
        let entry_count = self.change_tables(ChangeNote::of(ChangeKind::Migrate), |session| {
            confirmed.map_or(Ok(()), |named| confirm(session.generation.wrapping_sub(1), named))?;
            // Another process may have been quicker.
            if session.schema >= TREE_SCHEMA_VERSION {
                return Ok(None);
            }
            self.write_migrated(session, &new, progress).map(Some)
        })?;
        if entry_count.is_some() {
            self.adopt(new.open.into());
        }
        self.schema.fetch_max(SCHEMA_VERSION, Ordering::AcqRel);
        Ok(Migration { entry_count: entry_count.unwrap_or(0), ..plan })
    }

    fn write_migrated(
        &self,
        session: &mut StoreSession<'_>,
        new: &NewStore,
        progress: SealingProgress<'_>,
    ) -> Result<usize, StoreError> {
        let mut entries = self.sealed_again(session, &new.open.root, progress)?;
        let count = entries.len();
        entries.extend(new.slots.iter().map(|slot| (slots::entry_key(&slot.summary.id), slots::rows(slot))));
        descent::record(&mut entries, (session.open, &new.open), self.rng().as_mut());
        session.sql.batch(B::TABLES.third)?;
        resealing::write(session, &new.open, entries)?;
        // Last: PostgreSQL lets nobody read the table from here on.
        session.sql.batch(B::TABLES.moved)?;
        Ok(count)
    }

    /// Every entry, with its keys and secrets sealed for the new schema under `root`.
    fn sealed_again(
        &self,
        session: &mut StoreSession<'_>,
        root: &StoreRoot,
        progress: SealingProgress<'_>,
    ) -> Result<BTreeMap<EntryKey, EntryRows>, StoreError> {
        let mut entries = session.all_entries()?;
        for (key, rows) in &mut entries {
            // Tables that the older schema does not have.
            rows.0.resize(key.kind.tables().len(), Vec::new());
        }
        let resealing = Resealing { store: self.id, from: (&session.open.root, session.schema), to: root };
        resealing.all(&mut entries, self.rng().as_mut(), progress)?;
        resealing.add_symmetric(&mut entries, self.rng().as_mut())?;
        Ok(entries)
    }
}
