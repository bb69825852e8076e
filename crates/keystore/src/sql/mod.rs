//! A store in tables: what the store on SQLite and the one on PostgreSQL have in common, which is everything but how statements
//! reach the database.
//!
//! Each change is one transaction that no other change overlaps, and has a generation of its own; each read sees one state.

mod accepted;
mod api_keys;
pub(crate) mod apps;
mod bounds;
mod canaries;
mod canary_row;
pub(crate) mod change_record;
pub(crate) mod check;
mod clients;
pub(crate) mod copy;
mod descent;
pub(crate) mod dump;
mod escrow;
mod history;
mod interface;
mod life;
pub(crate) mod migration;
mod pages;
mod reopening;
mod resealing;
mod roles;
mod rotation;
mod scan;
pub(crate) mod schema;
mod seen;
pub(crate) mod session;
pub(crate) mod slots;
mod stored;
pub(crate) mod table;
pub(crate) mod tree;
mod upkeep;
pub(crate) mod value;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use leafseal_crypto::{CryptoRng, EcContext};

use schema::TableDefinitions;
use seen::SeenStates;
use session::StoreSession;
use slots::{OpenRoot, RootLink};
use tree::StoreTree;
use upkeep::UpkeepPass;
use value::{Sql, SqlRow};

use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::history::{ChangeAuthor, ChangeNote};
use crate::log_frames::LogFrames;
use crate::memory::StoreSighting;
use crate::model::StoreFault;
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::slots::SlotProvider;
use crate::store::{Environment, Generation, StoreLimits, WallClock};
use crate::store_id::StoreId;

/// The action if there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Refuse with [`Error::NoStore`].
    Existing,
    /// Make an empty one under the root key that was given; for SQLite its folder too.
    CreateIfMissing,
    /// The same, of the schema before the authenticated tree, which older programs use, too.
    CreateOldIfMissing,
}

impl OpenMode {
    /// The schema of a store that is made.
    pub(crate) fn new_schema(self) -> Option<u32> {
        match self {
            Self::Existing => None,
            Self::CreateIfMissing => Some(SCHEMA_VERSION),
            Self::CreateOldIfMissing => Some(TREE_SCHEMA_VERSION - 1),
        }
    }
}

/// Whether an app or a client may be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnabledState {
    Enabled,
    Disabled,
}

/// How statements reach a database.
pub trait SqlBackend: Send + Sync {
    /// The store's type in `Debug` output.
    const NAME: &'static str;
    /// The tables in its words.
    const TABLES: TableDefinitions;
    /// What stands before a table's name outside of a transaction.
    const SCHEMA: &'static str;
    /// The column, or number, that stands for a change in a store without a tree ([`Generation::mark`]).
    const MARK: &'static str;

    /// Runs `read` on one state of the store; once more if the connection to the store ends meanwhile.
    fn read<T>(&self, read: impl Fn(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError>;

    /// Runs `apply` as one change that no other overlaps: all of it and a new generation, or nothing; nothing, too, if it writes nothing.
    fn change<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError>;

    /// The same for a change that alters tables.
    fn change_tables<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.change(apply)
    }

    /// The one row that `select` finds, whose first column is the store's id, and [`Generation::replacements`]; without a transaction.
    fn generation(&self, select: &str) -> Result<(u64, SqlRow), StoreError>;

    /// Where the store is configured to be, as it is named in the memory of this machine.
    fn place(&self) -> String;

    /// See [`Keystore::on_change`].
    fn on_change(&self, _: Box<dyn Fn() + Send + Sync>) {}

    /// See [`Keystore::is_shared`].
    fn is_shared(&self) -> bool {
        false
    }

    /// See [`Keystore::log_frames`].
    fn log_frames(&self, limits: &StoreLimits, origin: &str) -> Result<Option<Box<dyn LogFrames>>, StoreError>;

    /// The faults that the database itself finds, and references to rows that are missing.
    fn faults(&self, sql: &mut dyn Sql) -> Result<Vec<StoreFault>, StoreError>;
}

/// A [`Keystore`] in the tables of a database. Threads may share it.
pub struct SqlKeystore<B> {
    pub(crate) backend: B,
    /// What may be asked for the root again.
    providers: Vec<Box<dyn SlotProvider>>,
    clock: Box<dyn WallClock>,
    /// Who changes it.
    author: Arc<ChangeAuthor>,
    rng: Mutex<Box<dyn CryptoRng + Send>>,
    context: EcContext,
    limits: StoreLimits,
    pub(crate) id: StoreId,
    open: RwLock<Arc<OpenRoot>>,
    /// Whether the root was replaced by one that no provider opens by itself.
    is_sealed: AtomicBool,
    /// The newest schema that the store was seen to have.
    schema: AtomicU32,
    seen: SeenStates,
    upkeep: Mutex<UpkeepPass>,
}

impl<B: SqlBackend> std::fmt::Debug for SqlKeystore<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({}, …)", B::NAME, self.open_root().root.id())
    }
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// The store under a root, of a schema, whose tables `backend` reaches.
    pub(crate) fn new(backend: B, schema: u32, open: OpenRoot, environment: Environment, limits: StoreLimits) -> Self {
        let Environment { mut providers, clock, mut rng, author } = environment;
        // What persons typed in does not stay in memory.
        providers.retain(|provider| provider.is_automatic());
        let context = EcContext::new(rng.as_mut());
        let (id, open, schema) = (open.tree.store, RwLock::new(Arc::new(open)), AtomicU32::new(schema));
        let (rng, is_sealed, seen) = (Mutex::new(rng), AtomicBool::new(false), SeenStates::default());
        Self {
            backend,
            providers,
            clock,
            author: Arc::new(author),
            rng,
            context,
            limits,
            id,
            open,
            is_sealed,
            schema,
            seen,
            upkeep: Mutex::default(),
        }
    }

    /// Runs `read` on one state of the store.
    pub(crate) fn read<T>(
        &self,
        read: impl Fn(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read_open(read).map(|(_, found)| found)
    }

    /// The same; returns also the root of that state.
    fn read_open<T>(
        &self,
        read: impl Fn(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<(Arc<OpenRoot>, T), StoreError> {
        let read = || {
            // Before the read begins: others may see a newer state while it goes on.
            let newest = self.seen.newest();
            let (open, found, seen) = self.backend.read(|sql| {
                let (open, state) = self.settle(sql, 0)?;
                let seen = state.sighting(open.epoch, 0);
                self.seen.admit(newest, seen)?;
                let found = read(&mut StoreSession::new(sql, &open, state))?;
                Ok((open, found, seen))
            })?;
            self.seen.note(seen);
            Ok((open, found))
        };
        let mut outcome = read();
        if matches!(outcome, Err(StoreError::Storage(_))) && self.is_without_slots() {
            // Another process has migrated the store since the read began, and its generation is elsewhere.
            outcome = read();
        }
        match outcome {
            Err(StoreError::RootReplaced) => {
                self.reopen()?;
                read()
            }
            other => other,
        }
    }

    /// Runs `apply` as one change, which has a generation of its own if it writes anything, and a row in the history, which `note` says.
    pub(crate) fn change<T>(
        &self,
        note: ChangeNote,
        apply: impl FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // Applied once, in the change whose root is known.
        let mut apply = Some(apply);
        match self.change_once(&note, &mut apply) {
            // The root was replaced, or another process has migrated the store.
            Err(StoreError::RootReplaced) if apply.is_some() => {
                self.reopen()?;
                self.change_once(&note, &mut apply)
            }
            other => other,
        }
    }

    fn change_once<T, F>(&self, note: &ChangeNote, apply: &mut Option<F>) -> Result<T, StoreError>
    where
        F: FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    {
        let newest = self.seen.newest();
        let (outcome, made) = self.backend.change(|sql| self.change_in(sql, (newest, note), apply))?;
        self.seen.note(made);
        self.save_seen();
        Ok(outcome)
    }

    /// The same for one that alters the tables of a store without slots.
    pub(crate) fn change_tables<T>(
        &self,
        note: ChangeNote,
        apply: impl FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read(|_| Ok(()))?;
        let (newest, mut apply) = (self.seen.newest(), Some(apply));
        let (outcome, made) = self.backend.change_tables(|sql| self.change_in(sql, (newest, &note), &mut apply))?;
        self.seen.note(made);
        self.save_seen();
        Ok(outcome)
    }

    fn change_in<T, F>(
        &self,
        sql: &mut dyn Sql,
        (newest, note): (Option<StoreSighting>, &ChangeNote),
        apply: &mut Option<F>,
    ) -> Result<(T, Option<StoreSighting>), StoreError>
    where
        F: FnOnce(&mut StoreSession<'_>) -> Result<T, StoreError>,
    {
        let (open, state) = self.settle(sql, 1)?;
        self.seen.admit(newest, state.sighting(open.epoch, 1))?;
        if state.tree_root.is_some() {
            RootLink::remove(sql, self.now())?;
        }
        let mut session = StoreSession::new(sql, &open, state);
        session.record = Some(self.record_of(note.clone()));
        let apply = apply.take().ok_or(StoreError::RootReplaced)?;
        let outcome = apply(&mut session)?;
        Ok((outcome, session.finish()?))
    }

    /// The generation, verified under a root; whatever is stored, little is read.
    fn generation_under(&self, open: &OpenRoot) -> Result<Generation, StoreError> {
        self.look_at_memory();
        let has_tree = self.schema.load(Ordering::Acquire) >= TREE_SCHEMA_VERSION;
        const OF_STORE: &str = "CASE WHEN length(store_id) = 16 THEN store_id END";
        const OF_TREE: &str = "CASE WHEN length(digest) = 32 THEN digest END, CASE WHEN length(mac) = 32 THEN mac END";
        let (schema, mark, newest) = (B::SCHEMA, B::MARK, self.seen.newest());
        let (mark, join) = match has_tree {
            true => (OF_TREE, format!("LEFT JOIN {schema}tree_root AS r ON r.only_row = 1")),
            false => (mark, String::new()),
        };
        let (replacements, row) = self
            .backend
            .generation(&format!("SELECT {OF_STORE}, generation, {mark} FROM {schema}store {join} LIMIT 2"))?;
        let edit = StoreEdit { part: EditedPart::Root, kind: EditKind::Changed };
        let changes = row.integer(1).map_err(|error| if has_tree { StoreError::Edited(edit) } else { error })?;
        // A store's state has one MAC: what it authenticates shows in it, whatever else is written in the database.
        let mark = match has_tree {
            true => {
                let root = StoreTree::verified_root(&row, 2, &open.tree, changes)?;
                let found = Some(root.sighting(changes, open.epoch));
                self.seen.admit(newest, found)?;
                self.seen.note(found);
                self.save_seen();
                root.mark()
            }
            false => row.integer(2)?.cast_unsigned(),
        };
        Ok(Generation { replacements, changes: changes.cast_unsigned(), mark })
    }

    /// The generation, under a root that may have been replaced.
    fn generation_of_any_root(&self) -> Result<Generation, StoreError> {
        match self.generation_under(&self.open_root()) {
            Err(StoreError::Edited(_)) => {}
            // Another process may have migrated the store, which has its generation elsewhere then.
            Err(StoreError::Storage(_)) if self.is_without_slots() => {}
            other => return other,
        }
        match self.read(|_| Ok(())) {
            Err(StoreError::RootReplaced) => self.unlock_again()?,
            other => other?,
        }
        self.generation_under(&self.open_root())
    }

    /// All rows of the store, as of one moment.
    pub(crate) fn content(&self) -> Result<copy::StoreContent, StoreError> {
        self.backend.read(copy::StoreContent::read)
    }

    /// A panic in another call leaves a generator as good as any.
    pub(crate) fn rng(&self) -> MutexGuard<'_, Box<dyn CryptoRng + Send>> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_unix_s()
    }
}
