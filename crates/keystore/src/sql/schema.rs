//! How a store is recognised, and what both databases do to make one or to bring an older one to this schema. The tables themselves are
//! in each store's own words.
//!
//! Every later schema keeps the column `schema_version` of the table `store`, so that an older program can report the version that
//! it found.

use std::collections::BTreeMap;

use leafseal_crypto::CryptoRng;

use super::change_record::ChangeRecord;
use super::session::StoreSession;
use super::slots::{self, OpenRoot};
use super::table::EntryKind;
use super::tree::StoreTree;
use super::value::{Sql, SqlRow, SqlValue, params};

use crate::StoreError;
use crate::model::StoreFault;
use crate::root_key::{RootKeyId, StoreRoot};
use crate::schema_version::{OLDEST_USED, SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::slots::{Slot, SlotProvider, SlotSummary};
use crate::store::Environment;
use crate::store_id::StoreId;

/// The tables of a store in a database's own words.
pub struct TableDefinitions {
    /// Those of version 1.
    pub(crate) first: &'static str,
    /// The additions of version 2 to version 1.
    pub(crate) second: &'static str,
    /// The additions of version 3 to version 2.
    pub(crate) third: &'static str,
    /// What is no longer in the tables of version 2 then: the generation, which is beside the root of the tree. Every change and poll of an
    /// older program that still runs fails in the database, whatever it was waiting for.
    pub(crate) moved: &'static str,
}

impl TableDefinitions {
    /// Makes the tables of a schema.
    pub(crate) fn create(&self, sql: &mut dyn Sql, schema: u32) -> Result<(), StoreError> {
        let additions = [self.first, self.second, self.third];
        additions.iter().take(schema as usize).try_for_each(|tables| sql.batch(tables))?;
        if schema >= TREE_SCHEMA_VERSION { sql.batch(self.moved) } else { Ok(()) }
    }
}

/// How what describes a schema, by names, differs from what it must be.
pub(crate) fn differences(
    expected: &BTreeMap<String, SqlValue>,
    found: &BTreeMap<String, SqlValue>,
) -> Vec<StoreFault> {
    let missing = expected.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name} is missing"));
    let others = found.iter().filter_map(|(name, text)| match expected.get(name) {
        None => Some(format!("{name} was added")),
        Some(known) => (known != text).then(|| format!("{name} was changed")),
    });
    missing.chain(others).map(StoreFault::Schema).collect()
}

/// The generation of a store that was never changed.
const FIRST_GENERATION: i64 = 1;

/// What a store is made with.
pub(crate) struct NewStore {
    pub(crate) schema: u32,
    pub(crate) open: OpenRoot,
    pub(crate) slots: Vec<Slot>,
    pub(crate) generation: i64,
    /// The first row of its history, from schema 3 on.
    pub(crate) record: Option<ChangeRecord>,
}

impl NewStore {
    /// A store of a schema that the providers open: with a random root and a slot for each, or, before there were slots, with the root that
    /// one of them is.
    pub(crate) fn make(schema: u32, environment: &mut Environment) -> Result<Self, StoreError> {
        let Environment { providers, clock, rng, author } = environment;
        let store = StoreId::random(rng.as_mut());
        if schema < TREE_SCHEMA_VERSION {
            let root =
                providers.iter().find_map(|provider| provider.root_without_slots()).ok_or(StoreError::NoSlots)?;
            return Ok(Self {
                schema,
                open: OpenRoot::new(root.clone(), 0, store),
                slots: Vec::new(),
                generation: FIRST_GENERATION,
                record: None,
            });
        }
        let open = OpenRoot::new(StoreRoot::generate(rng.as_mut()), 1, store);
        let now = clock.now_unix_s();
        let record = ChangeRecord::first(author.clone(), now);
        Ok(Self { record: Some(record), ..Self::with_root(open, providers, now, rng.as_mut())? })
    }

    /// A store of the newest schema with this root.
    pub(crate) fn with_root(
        open: OpenRoot,
        providers: &[Box<dyn SlotProvider>],
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, StoreError> {
        let mut slots = Vec::with_capacity(providers.len());
        for provider in providers {
            let slot = Slot::make(provider.as_ref(), open.numbered(), now, rng);
            slots.push(slot.map_err(|error| StoreError::Provider { kind: provider.kind(), error })?);
        }
        Ok(Self { schema: SCHEMA_VERSION, open, slots, generation: FIRST_GENERATION, record: None })
    }
}

/// Makes the tables of a store, with what `fill` writes into them.
pub(crate) fn create(
    sql: &mut dyn Sql,
    tables: &TableDefinitions,
    new: &NewStore,
    fill: impl FnOnce(&mut StoreSession<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let NewStore { schema, open, slots, generation, record } = new;
    tables.create(sql, *schema)?;
    let row = params![*schema, open.tree.store.0, open.root.id().0, *generation];
    if *schema < TREE_SCHEMA_VERSION {
        let columns = "only_row, schema_version, store_id, root_key_id, generation";
        sql.execute(&format!("INSERT INTO store ({columns}) VALUES (1, ?1, ?2, ?3, ?4)"), row)?;
    } else {
        let columns = "only_row, schema_version, store_id, root_key_id";
        sql.execute(&format!("INSERT INTO store ({columns}) VALUES (1, ?1, ?2, ?3)"), &row[..3])?;
    }
    let tree = (*schema >= TREE_SCHEMA_VERSION).then(|| StoreTree::empty(&open.tree));
    let mut session =
        StoreSession { sql, open, schema: *schema, generation: *generation, tree, record: record.clone() };
    for slot in slots {
        session.put(&slots::entry_key(&slot.summary.id), false, &slots::rows(slot))?;
    }
    fill(&mut session)?;
    session.finish().map(drop)
}

/// Slots that are looked at when a store is opened: as many as [`StoreLimits::slot_count_max`](crate::StoreLimits) can permit.
pub(super) const SLOT_ROWS_MAX: u32 = 1_000;

/// How a store describes itself.
pub(crate) struct StoredFormat {
    pub(crate) id: StoreId,
    version: u32,
    pub(super) root: RootKeyId,
    slots: Vec<Slot>,
}

impl StoredFormat {
    /// Whether the store cannot be used before [`bring_to_oldest_used`].
    pub(crate) fn is_too_old(&self) -> bool {
        self.version < OLDEST_USED
    }

    pub(crate) fn schema(&self) -> u32 {
        self.version.max(OLDEST_USED)
    }

    /// What is public of its slots.
    pub(super) fn slot_summaries(&self) -> Vec<SlotSummary> {
        self.slots.iter().map(|slot| slot.summary.clone()).collect()
    }

    /// The root of the store, which one of the providers opens, or is.
    pub(crate) fn unlock(&self, providers: &[Box<dyn SlotProvider>]) -> Result<OpenRoot, StoreError> {
        match self.version >= TREE_SCHEMA_VERSION {
            true => slots::unlock((self.id, self.root), &self.slots, providers),
            false => unlock_without_slots((self.id, self.root), providers),
        }
    }
}

/// The root of a store with these rows of slots; without any, as before schema 3, one of the providers is the root.
pub(crate) fn unlock(
    of: (StoreId, RootKeyId),
    rows: &[SqlRow],
    providers: &[Box<dyn SlotProvider>],
) -> Result<OpenRoot, StoreError> {
    if rows.is_empty() {
        return unlock_without_slots(of, providers);
    }
    let slots: Vec<Slot> = rows.iter().filter_map(|row| slots::slot(row).ok()).collect();
    slots::unlock(of, &slots, providers)
}

fn unlock_without_slots(
    (store, named): (StoreId, RootKeyId),
    providers: &[Box<dyn SlotProvider>],
) -> Result<OpenRoot, StoreError> {
    let roots = || providers.iter().filter_map(|provider| provider.root_without_slots());
    match (roots().find(|root| root.id() == named), roots().next()) {
        (Some(root), _) => Ok(OpenRoot::new(root.clone(), 0, store)),
        (None, Some(other)) => Err(StoreError::WrongRootKey { store: named, given: other.id() }),
        (None, None) => Err(StoreError::NoSlots),
    }
}

/// Checks that this program fits the store.
pub(crate) fn identify(sql: &mut dyn Sql) -> Result<StoredFormat, StoreError> {
    let version = version(sql)?;
    if version > SCHEMA_VERSION {
        let (found, supported) = (version, SCHEMA_VERSION);
        return Err(StoreError::NewerSchema { found, supported });
    }
    if version == 0 {
        return Err(StoreError::Inconsistent("its schema version is 0"));
    }
    let row = sql.first("SELECT store_id, root_key_id FROM store LIMIT 1", &[])?.ok_or(NO_ROW)?;
    let (id, root) = (StoreId(row.array(0)?), RootKeyId(row.array(1)?));
    // A slot that does not read hides no other.
    let slots = match version >= TREE_SCHEMA_VERSION {
        true => EntryKind::Slot.tables()[0].read_each(sql, "", &[], SLOT_ROWS_MAX)?.into_iter().flatten(),
        false => Vec::new().into_iter().flatten(),
    };
    let slots = slots.filter_map(|row| slots::slot(&row).ok()).collect();
    Ok(StoredFormat { id, version, root, slots })
}

const NO_ROW: StoreError = StoreError::Inconsistent("the row that describes the store is missing");

/// The schema of a store.
pub(crate) fn version(sql: &mut dyn Sql) -> Result<u32, StoreError> {
    sql.first("SELECT schema_version FROM store LIMIT 1", &[])?.ok_or(NO_ROW)?.number(0)
}

/// The number of a store's last change, as the database has it.
pub(crate) fn generation(sql: &mut dyn Sql) -> Result<i64, StoreError> {
    let table = counted_in(version(sql)?);
    sql.first(&format!("SELECT generation FROM {table} LIMIT 1"), &[])?.ok_or(NO_ROW)?.integer(0)
}

/// The table with the generation. Programs of before schema 3 update and poll that of `store`: it is no longer there, so that theirs fail
/// in the database, also those that waited for its lock while the store was migrated.
pub(crate) fn counted_in(schema: u32) -> &'static str {
    if schema < TREE_SCHEMA_VERSION { "store" } else { "tree_root" }
}

/// Brings a store of version 1 to version 2, within a change. Programs that support only version 1 refuse the store from then on.
pub(crate) fn bring_to_oldest_used(sql: &mut dyn Sql, tables: &TableDefinitions) -> Result<(), StoreError> {
    // Another process may have been quicker.
    if version(sql)? == 1 {
        sql.batch(tables.second)?;
        sql.execute("UPDATE store SET schema_version = 2", &[])?;
    }
    Ok(())
}
