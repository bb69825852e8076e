//! The newest state of a store that this program has seen. An older one, or another one of the same generation, is refused until an
//! operator has confirmed it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::schema;
use super::session::StoreSession;
use super::value::params;
use super::{SqlBackend, SqlKeystore};
use crate::StoreError;
use crate::memory::{MemoryFile, MemoryStatus, Overwriting, PlaceRecord, SightingKey, StoreSighting, generation_at};
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::store_id::StoreId;

/// The root of a store that is migrated again gets a number from the clock, too: engines take it for a replacement of the one they have.
const SECONDS_PER_EPOCH: u64 = 60;

/// What a program has seen of its store.
#[derive(Debug, Default)]
pub(super) struct SeenStates {
    newest: Mutex<Option<StoreSighting>>,
    is_from_before: AtomicBool,
    is_rolled_back: AtomicBool,
    file: OnceLock<SavedStates>,
}

#[derive(Debug)]
struct SavedStates {
    file: MemoryFile,
    /// The newest that is in the file.
    saved: Mutex<Option<StoreSighting>>,
    fails: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SeenStates {
    /// The newest so far. A read that begins after this must not find an older one; one that began before may.
    pub(super) fn newest(&self) -> Option<StoreSighting> {
        *lock(&self.newest)
    }

    pub(super) fn note(&self, found: Option<StoreSighting>) {
        let mut newest = lock(&self.newest);
        if let Some(found) = found
            && newest.is_none_or(|known| known.generation < found.generation)
        {
            *newest = Some(found);
        }
    }

    /// Refuses what a store has now if `newest` was seen before.
    pub(super) fn admit(&self, newest: Option<StoreSighting>, found: Option<StoreSighting>) -> Result<(), StoreError> {
        let older = newest.zip(found).filter(|(newest, found)| {
            let is_same = found.generation == newest.generation;
            let is_older = found.generation < newest.generation || found.epoch < newest.epoch;
            is_older || is_same && found.digest != newest.digest
        });
        self.is_rolled_back.store(older.is_some(), Ordering::Relaxed);
        older.map_or(Ok(()), |(newest, found)| Err(rolled_back(found.generation, newest)))
    }
}

fn rolled_back(found: i64, newest: StoreSighting) -> StoreError {
    StoreError::RolledBack { found: found.cast_unsigned(), newest: newest.generation.cast_unsigned() }
}

impl<B: SqlBackend> SqlKeystore<B> {
    fn sighting_key(&self) -> SightingKey {
        let open = self.open_root();
        SightingKey::new(self.id, &open.root, open.epoch)
    }

    /// Keeps what is seen of the store in a folder, and refuses the store if the file there has seen a newer state.
    pub(super) fn remember_in(&self, folder: &Path) -> Result<(), StoreError> {
        let file = self.memory_file(folder);
        file.check_folder()?;
        let schema = self.backend.read(schema::version)?;
        let place = file.read_place()?;
        place.map_or(Ok(()), |place| self.compare(PlaceRecord { schema: 0, ..place }, schema, false))?;
        let known = file.read(&self.sighting_key())?;
        if let Some(known) = known {
            self.learn_state(known)?;
        }
        place.map_or(Ok(()), |place| self.compare(place, schema, false))?;
        let saved = SavedStates { file, saved: Mutex::new(None), fails: AtomicBool::new(false) };
        // Only one folder is ever configured.
        let _ = self.seen.file.set(saved);
        self.read(|_| Ok(()))?;
        self.save_seen();
        Ok(())
    }

    fn memory_file(&self, folder: &Path) -> MemoryFile {
        MemoryFile::new(folder, &self.backend.place(), self.id)
    }

    /// Refuses the store, which has a schema, unless it is what a place has held, or must hold.
    fn compare(&self, place: PlaceRecord, found: u32, is_set: bool) -> Result<(), StoreError> {
        if place.store != self.id {
            return Err(StoreError::UnexpectedStore { found: self.id, expected: place.store, is_set });
        }
        // Whatever is in its rows: an attacker may have emptied the tables by which an older store would be recognised.
        if found < place.schema {
            return Err(StoreError::Downgraded { found, newest: place.schema, is_set });
        }
        self.schema.fetch_max(place.schema, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn expect_id(&self, id: &StoreId) -> Result<(), StoreError> {
        let found = self.backend.read(schema::version)?;
        self.compare(PlaceRecord { store: *id, schema: TREE_SCHEMA_VERSION }, found, true)
    }

    /// Takes the store for the one that belongs in its place.
    pub(super) fn accept_id(&self, id: &StoreId, folder: &Path) -> Result<(), StoreError> {
        if *id != self.id {
            return Err(StoreError::OtherStoreNamed { found: self.id, named: *id });
        }
        let schema = self.backend.read(schema::version)?;
        self.memory_file(folder).save_place(PlaceRecord { store: self.id, schema }, self.rng().as_mut())
    }

    /// Takes over a state that was seen elsewhere, and was verified.
    fn learn_state(&self, known: StoreSighting) -> Result<(), StoreError> {
        let (schema, generation) = self.backend.read(|sql| Ok((schema::version(sql)?, schema::generation(sql)?)))?;
        // Otherwise a copy from before the migration could be put back, whose keys are as valid as they were.
        if schema < known.schema {
            return Err(rolled_back(generation, known));
        }
        self.schema.fetch_max(known.schema, Ordering::AcqRel);
        self.seen.is_from_before.store(true, Ordering::Relaxed);
        self.seen.note(Some(known));
        Ok(())
    }

    /// Takes over what another engine has seen.
    pub(super) fn learn_line(&self, line: &str) -> Result<(), StoreError> {
        let known = self.sighting_key().read(line).map_err(StoreError::Sighting)?;
        self.learn_state(known)
    }

    pub(super) fn seen_line(&self) -> Option<String> {
        self.seen.newest().map(|newest| self.sighting_key().line(&newest))
    }

    pub(super) fn memory_status(&self) -> MemoryStatus {
        let newest = self.seen.newest();
        let is_saved = self.seen.file.get().is_some_and(|file| newest.is_some() && *lock(&file.saved) == newest);
        MemoryStatus {
            generation: newest.map(|newest| newest.generation.cast_unsigned()),
            is_from_before: self.seen.is_from_before.load(Ordering::Relaxed),
            is_saved,
            is_rolled_back: self.seen.is_rolled_back.load(Ordering::Relaxed),
        }
    }

    /// Writes the newest state to the file. A disk that is full takes nothing from the running program, which keeps it in memory; the
    /// next change tries again, and so does the next look at the generation.
    pub(super) fn save_seen(&self) {
        let (Some(file), Some(newest)) = (self.seen.file.get(), self.seen.newest()) else { return };
        if *lock(&file.saved) == Some(newest) {
            return;
        }
        match file.file.save((&self.sighting_key(), &newest), Overwriting::Older, self.rng().as_mut()) {
            Ok(saved) => {
                // Another program may have seen more.
                self.seen.note(Some(saved));
                *lock(&file.saved) = Some(saved);
                if file.fails.swap(false, Ordering::Relaxed) {
                    tracing::info!("remembering the newest state of the keystore again");
                }
            }
            Err(error) => {
                if !file.fails.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "cannot save the newest state of the keystore: a later run would not notice an older one");
                }
            }
        }
    }

    /// Confirms that the store, which is at `generation`, was put back on purpose: its number becomes newer than any that was seen.
    pub(super) fn accept_state(&self, generation: u64, folder: Option<&Path>) -> Result<u64, StoreError> {
        let found = self.backend.read(|sql| schema::generation(sql))?;
        if found.cast_unsigned() != generation {
            return Err(StoreError::OtherGeneration { found: found.cast_unsigned(), named: generation });
        }
        let file = folder.map(|folder| self.memory_file(folder));
        match file.as_ref().map(MemoryFile::read_place).transpose() {
            // A generation is that of one store: another is confirmed by its own name.
            Ok(Some(Some(place))) => self.compare(PlaceRecord { schema: 0, ..place }, 0, false)?,
            Ok(_) | Err(StoreError::Memory { .. }) => {}
            Err(other) => return Err(other),
        }
        let known = match file.as_ref().map(|file| file.read(&self.sighting_key())).transpose() {
            Ok(known) => known.flatten(),
            // What cannot be read is what the operator confirms to do without.
            Err(StoreError::Memory { .. }) => None,
            Err(other) => return Err(other),
        };
        // One from before the migration: engines that have seen a newer schema take no older one.
        let epoch = u32::try_from(self.now() / SECONDS_PER_EPOCH).unwrap_or(u32::MAX);
        self.migrate_under(epoch, &mut |_, _| ())?;
        let ahead = generation_at(self.now());
        let above = known.map_or(0, |known| known.generation).max(self.seen.newest().map_or(0, |it| it.generation));
        let accepted = self.backend.change(|sql| {
            let (open, state) = self.settle(sql, 1)?;
            let mut session = StoreSession::new(sql, &open, state);
            session.generation = session.generation.max(ahead).max(above.saturating_add(1));
            let update = "UPDATE store SET generation = ?1";
            session.sql.execute(update, params![session.generation])?;
            session.finish()
        })?;
        self.seen.note(accepted);
        let accepted = accepted.ok_or(StoreError::Inconsistent("a migrated keystore has no tree"))?;
        if let Some(file) = file {
            file.save((&self.sighting_key(), &accepted), Overwriting::Any, self.rng().as_mut())?;
        }
        Ok(accepted.generation.cast_unsigned())
    }
}
