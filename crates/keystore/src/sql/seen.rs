//! The newest state of a store that this program has seen. An older one, or another one of the same generation, is refused until an
//! operator has confirmed it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::session::StoreSession;
use super::value::params;
use super::{SqlBackend, SqlKeystore};
use super::{descent, schema};
use crate::StoreError;
use crate::edit::MemoryFault;
use crate::history::{ChangeKind, ChangeNote};
use crate::memory::{
    FileStamp, GENERATION_MAX, MemoryFile, MemoryStatus, Overwriting, PeerSighting, PlaceRecord, SightingLine,
    StoreSighting, generation_at, is_challenge,
};
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
    /// Why nothing is read: the file has a line that the store cannot have written.
    refusal: Mutex<Option<MemoryRefusal>>,
    file: OnceLock<SavedStates>,
}

#[derive(Debug)]
struct SavedStates {
    file: MemoryFile,
    look: Mutex<FileLook>,
    fails: AtomicBool,
}

/// What was last found in the file.
#[derive(Debug, Default)]
struct FileLook {
    /// Outer `None`: it was not looked at.
    stamp: Option<Option<FileStamp>>,
    /// Of the root then: its line is of a former one as soon as that is replaced.
    epoch: u32,
    /// The newest state in it.
    saved: Option<StoreSighting>,
    /// Its line, if that is of a former root from which the store comes.
    former: Option<SightingLine>,
}

#[derive(Debug, Clone)]
enum MemoryRefusal {
    /// The line is of a later root.
    Later(StoreSighting),
    Fault(PathBuf, MemoryFault),
}

impl MemoryRefusal {
    fn error(self, found: i64) -> StoreError {
        match self {
            Self::Later(newest) => rolled_back(found, newest),
            Self::Fault(path, fault) => StoreError::Memory { path, fault },
        }
    }
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
            && newest.is_none_or(|known| known.order() < found.order())
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
        let refusal = lock(&self.refusal).clone();
        self.is_rolled_back.store(older.is_some() || refusal.is_some(), Ordering::Relaxed);
        refusal.map_or(Ok(()), |refusal| Err(refusal.error(found.map_or(0, |found| found.generation))))?;
        older.map_or(Ok(()), |(newest, found)| Err(rolled_back(found.generation, newest)))
    }
}

fn rolled_back(found: i64, newest: StoreSighting) -> StoreError {
    StoreError::RolledBack { found: found.cast_unsigned(), newest: newest.generation.cast_unsigned() }
}

/// Refuses a store that is not at the generation that was confirmed.
pub(super) fn confirm(found: i64, named: u64) -> Result<(), StoreError> {
    let found = found.cast_unsigned();
    if found == named { Ok(()) } else { Err(StoreError::OtherGeneration { found, named }) }
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// Keeps what is seen of the store in a folder, and refuses the store if the file there has seen a newer state.
    pub(super) fn remember_in(&self, folder: &Path) -> Result<(), StoreError> {
        let file = self.memory_file(folder);
        file.check_folder()?;
        let (schema, generation) = self.backend.read(|sql| Ok((schema::version(sql)?, schema::generation(sql)?)))?;
        let place = file.read_place()?;
        place.map_or(Ok(()), |place| self.compare(PlaceRecord { schema: 0, ..place }, schema, false))?;
        if let Some(line) = file.read()? {
            match self.verify_line(&line)? {
                Ok(known) => {
                    self.seen.is_from_before.store(true, Ordering::Relaxed);
                    self.seen.note(Some(known).filter(|known| known.epoch == self.open_root().epoch));
                }
                Err(fault) => return Err(self.refusal(&file, &line, fault).error(generation)),
            }
        }
        place.map_or(Ok(()), |place| self.compare(place, schema, false))?;
        // Only one folder is ever configured.
        let _ = self.seen.file.set(SavedStates { file, look: Mutex::default(), fails: AtomicBool::new(false) });
        self.look_at_memory();
        self.read(|_| Ok(()))?;
        self.save_seen();
        Ok(())
    }

    /// The state of a line, which may have been written under a former root.
    fn verify_line(&self, line: &SightingLine) -> Result<Result<StoreSighting, MemoryFault>, StoreError> {
        self.backend.read(|sql| {
            let (open, state) = self.settle(sql, 0)?;
            descent::verify(&mut StoreSession::new(sql, &open, state), line)
        })
    }

    fn refusal(&self, file: &MemoryFile, line: &SightingLine, fault: MemoryFault) -> MemoryRefusal {
        match line.sighting.epoch > self.open_root().epoch && fault == MemoryFault::Root {
            true => MemoryRefusal::Later(line.sighting),
            false => MemoryRefusal::Fault(file.path().to_owned(), fault),
        }
    }

    /// Reads the file again if it was replaced: another program on this machine may have seen more. A line that is not the store's own has
    /// the store refused until the file is right again.
    pub(super) fn look_at_memory(&self) {
        let Some(SavedStates { file, look, .. }) = self.seen.file.get() else { return };
        let (mut look, stamp, epoch) = (lock(look), file.stamp(), self.open_root().epoch);
        if look.stamp == Some(stamp) && look.epoch == epoch {
            return;
        }
        look.former = None;
        let read = file.read().map(|line| line.map(|line| (self.verify_line(&line), line)));
        let refusal = match read {
            Ok(None) => None,
            Ok(Some((Ok(Ok(known)), line))) => {
                let is_former = known.epoch < self.open_root().epoch;
                look.former = Some(line).filter(|_| is_former);
                self.seen.note(Some(known).filter(|_| !is_former));
                None
            }
            Ok(Some((Ok(Err(fault)), line))) => Some(self.refusal(file, &line, fault)),
            Err(StoreError::Memory { path, fault }) => Some(MemoryRefusal::Fault(path, fault)),
            // The store, or the file, cannot be read now: it is looked at again.
            Ok(Some((Err(_), _))) | Err(_) => return,
        };
        *lock(&self.seen.refusal) = refusal;
        *look = FileLook { stamp: Some(stamp), epoch: self.open_root().epoch, saved: None, former: look.former.take() };
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

    /// Takes over what another engine has seen. A line of a former root shows that the store comes from there, and nothing newer.
    pub(super) fn learn_answer(&self, answer: &PeerSighting) -> Result<(), StoreError> {
        let refused = |fault| StoreError::Sighting { peer: answer.peer.clone(), fault };
        let line = SightingLine::parse(&answer.line).ok_or_else(|| refused(MemoryFault::Foreign))?;
        let known = self.verify_line(&line)?.map_err(refused)?;
        // Someone may have kept it from another question.
        if line.challenge.as_ref() != Some(&answer.challenge) {
            return Err(refused(MemoryFault::Foreign));
        }
        if known.epoch == self.open_root().epoch {
            self.seen.is_from_before.store(true, Ordering::Relaxed);
            self.seen.note(Some(known));
        }
        Ok(())
    }

    pub(super) fn seen_line(&self, challenge: &str) -> Option<String> {
        let (newest, open) = (self.seen.newest()?, self.open_root());
        let may_answer = newest.epoch == open.epoch && is_challenge(challenge);
        may_answer.then(|| open.sighting.line(&newest, Some(challenge)))
    }

    pub(super) fn memory_status(&self) -> MemoryStatus {
        let newest = self.seen.newest();
        let saved = self.seen.file.get().and_then(|file| lock(&file.look).saved);
        MemoryStatus {
            generation: newest.map(|newest| newest.generation.cast_unsigned()),
            is_from_before: self.seen.is_from_before.load(Ordering::Relaxed),
            is_saved: newest.is_some() && saved == newest,
            is_rolled_back: self.seen.is_rolled_back.load(Ordering::Relaxed),
        }
    }

    /// Writes the newest state to the file. A disk that is full takes nothing from the running program, which keeps it in memory; the
    /// next change tries again, and so does the next look at the generation.
    pub(super) fn save_seen(&self) {
        let (Some(file), Some(newest), open) = (self.seen.file.get(), self.seen.newest(), self.open_root()) else {
            return;
        };
        if lock(&file.look).epoch != open.epoch {
            self.look_at_memory();
        }
        let mut look = lock(&file.look);
        if look.saved == Some(newest) || newest.epoch != open.epoch {
            return;
        }
        let overwriting = Overwriting::Older(look.former.as_ref());
        match file.file.save((&open.sighting, &newest), overwriting, self.rng().as_mut()) {
            Ok(saved) => {
                // Another program may have seen more.
                self.seen.note(Some(saved));
                *look =
                    FileLook { stamp: Some(file.file.stamp()), epoch: open.epoch, saved: Some(saved), former: None };
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

    /// What a file has seen of the store, as far as that can be verified: nothing else may raise a number.
    fn known_by(&self, file: &MemoryFile) -> Result<Option<StoreSighting>, StoreError> {
        let line = match file.read() {
            // What cannot be read is what the operator confirms to do without.
            Err(StoreError::Memory { .. }) => None,
            other => other?,
        };
        Ok(line.map(|line| self.verify_line(&line)).transpose()?.and_then(Result::ok))
    }

    /// Confirms that the store, which is at `generation`, was put back on purpose: its number becomes newer than any that was seen.
    pub(super) fn accept_state(&self, generation: u64, folder: Option<&Path>) -> Result<u64, StoreError> {
        confirm(self.backend.read(schema::generation)?, generation)?;
        let file = folder.map(|folder| self.memory_file(folder));
        match file.as_ref().map(MemoryFile::read_place).transpose() {
            // A generation is that of one store: another is confirmed by its own name.
            Ok(Some(Some(place))) => self.compare(PlaceRecord { schema: 0, ..place }, 0, false)?,
            Ok(_) | Err(StoreError::Memory { .. }) => {}
            Err(other) => return Err(other),
        }
        let known = file.as_ref().map(|file| self.known_by(file)).transpose()?.flatten();
        // One from before the migration: its root is another one than that of those who have seen it migrated.
        let epoch = u32::try_from(self.now() / SECONDS_PER_EPOCH).unwrap_or(u32::MAX);
        let migration = self.migrate_under(epoch, Some(generation), &mut |_, _| ())?;
        let confirmed = generation.wrapping_add(u64::from(migration.from != migration.to));
        let ahead = generation_at(self.now());
        let above = known.map_or(0, |known| known.generation).max(self.seen.newest().map_or(0, |it| it.generation));
        let accepted = self.backend.change(|sql| {
            let (open, state) = self.settle(sql, 1)?;
            // Another copy may have been put back meanwhile, or a change have been made.
            confirm(state.generation.wrapping_sub(1), confirmed)?;
            let mut session = StoreSession::new(sql, &open, state);
            let next = session.generation.max(ahead).max(above.saturating_add(1));
            session.generation = next.min(GENERATION_MAX);
            session.sql.execute("UPDATE tree_root SET generation = ?1", params![session.generation])?;
            session.record = Some(self.record_of(ChangeNote::of(ChangeKind::AcceptGeneration)));
            session.finish()
        })?;
        self.seen.note(accepted);
        let accepted = accepted.ok_or(StoreError::Inconsistent("a migrated keystore has no tree"))?;
        if let Some(file) = file {
            file.save((&self.open_root().sighting, &accepted), Overwriting::Any, self.rng().as_mut())?;
        }
        Ok(accepted.generation.cast_unsigned())
    }
}
