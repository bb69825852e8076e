//! The rows of a store's history: one entry for each change, named by its generation, and one with their number. Both are authenticated
//! as all others, so that no row can be changed, and none be removed without a gap.

use std::sync::Arc;

use super::change_record::{ChangeRecord, count_key, key, name, number_of};
use super::session::StoreSession;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::SqlRow;
use super::{SqlBackend, SqlKeystore, bounds};
use crate::history::{
    ChangeAuthor, ChangeKind, ChangeNote, ChangePage, EngineLog, HistoryEntry, StoreChange, StoreHistory,
};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::{AppName, StoreError};

fn log_key(engine: &str) -> EntryKey {
    EntryKey::new(EntryKind::AuditLog, engine, 0)
}

fn engine_log(session: &mut StoreSession<'_>, engine: &str) -> Result<Option<EngineLog>, StoreError> {
    if session.schema < TREE_SCHEMA_VERSION {
        return Ok(None);
    }
    let Some(rows) = session.entry(&log_key(engine))? else { return Ok(None) };
    let row = rows.head()?;
    Ok(Some(EngineLog { id: row.text(1)?.to_owned(), epoch: row.number(2)?, opened_at: row.unix_s(3)? }))
}

fn change(generation: u64, rows: &EntryRows) -> Result<StoreChange, StoreError> {
    let row = rows.head()?;
    let text = |index| row.optional_text(index).map(|text| text.map(str::to_owned));
    Ok(StoreChange {
        number: row.unix_s(1)?,
        generation,
        at: row.unix_s(2)?,
        kind: row.text(3)?.to_owned(),
        app: text(4)?,
        client: text(5)?,
        version: row.optional_number(6)?,
        detail: text(7)?,
        author: ChangeAuthor {
            command: row.text(8)?.to_owned(),
            engine: text(9)?,
            user: text(10)?,
            uid: row.optional_number(11)?,
            host: text(12)?,
        },
    })
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// What a change of this store will have written about itself.
    pub(super) fn record_of(&self, note: ChangeNote) -> ChangeRecord {
        let count_max = self.limits.change_count_max;
        ChangeRecord { note, author: Arc::clone(&self.author), at: self.now(), count_max }
    }

    /// Records that keys are read out.
    pub(crate) fn record_reading(&self, note: ChangeNote) -> Result<(), StoreError> {
        debug_assert!(note.kind.is_reading());
        self.change(note, |_| Ok(()))
    }
}

impl<B: SqlBackend> StoreHistory for SqlKeystore<B> {
    fn changes(&self, after: u64, limit: u32) -> Result<ChangePage, StoreError> {
        self.read(|session| {
            let (mut page, generation) = (ChangePage::default(), session.generation.cast_unsigned());
            page.up_to = generation;
            if session.tree.is_none() {
                return Ok(page);
            }
            page.newest_number = number_of(session.entry(&count_key())?.as_ref())?;
            // Which rows there are is not verified, each of them is; one that is gone leaves a gap in the numbers.
            let names = bounds::changes_after(session.sql, &name(after), limit)?;
            let is_cut = names.len() >= limit as usize;
            for name in names {
                let Some(generation) = name.parse().ok().filter(|it| *it <= generation) else { continue };
                match session.entry(&key(&name)) {
                    Ok(Some(rows)) => page.entries.push(HistoryEntry::Change(Box::new(change(generation, &rows)?))),
                    Ok(None) | Err(StoreError::Edited(_)) => page.entries.push(HistoryEntry::Edited(generation)),
                    Err(other) => return Err(other),
                }
                if is_cut {
                    page.up_to = generation;
                }
            }
            Ok(page)
        })
    }

    fn engine_log(&self, engine: &str) -> Result<Option<EngineLog>, StoreError> {
        self.read(|session| engine_log(session, engine))
    }

    fn begin_engine_log(&self, engine: &str, known: Option<&str>) -> Result<EngineLog, StoreError> {
        let mut random = [0; 8];
        self.rng().fill_bytes(&mut random);
        let (id, opened_at) = (hex::encode(random), self.now());
        self.change(ChangeNote::of(ChangeKind::BeginLog).detail(&format!("{engine} {id}")), |session| {
            if session.schema < TREE_SCHEMA_VERSION {
                return Err(StoreError::OldSchema { found: session.schema, needed: SCHEMA_VERSION });
            }
            if engine_log(session, engine)?.map(|log| log.id).as_deref() != known {
                return Err(StoreError::Busy);
            }
            let epoch = session.open.epoch;
            let row = SqlRow(vec![engine.into(), id.as_str().into(), epoch.into(), opened_at.into()]);
            session.put(&log_key(engine), false, &EntryRows(vec![vec![row]]))?;
            Ok(EngineLog { id: id.clone(), epoch, opened_at })
        })
    }

    fn record_canary(&self, app: &AppName) -> Result<(), StoreError> {
        self.record_reading(ChangeNote::of(ChangeKind::OpenCanary).app(app))
    }

    fn record_export(&self, app: &AppName, versions: &[u32]) -> Result<(), StoreError> {
        self.record_reading(ChangeNote::of(ChangeKind::Export).app(app).list(versions))
    }
}
