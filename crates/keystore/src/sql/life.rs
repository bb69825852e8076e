//! What is planned for apps: when their keys are rotated and deleted, and when they were last used.
//!
//! The database's lock of changes elects who acts when the time has come: the next process finds that nothing is due any more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::session::{StoreSession, VersionSelection};
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{SqlRow, SqlValue, Type, params};
use super::{EnabledState, SqlBackend, SqlKeystore, api_keys, apps, clients};
use crate::history::{ChangeKind, ChangeNote};
use crate::life::{AppLife, DeletionPlan, KeyLife, RotationRule, Upkeep, UseRecord};
use crate::model::NewKeys;
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::{AppName, StoreError};

/// A row of `app_life`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LifeRow {
    pub(super) life: AppLife,
    /// Whether the app was disabled before its deletion was planned.
    was_disabled: bool,
}

fn key(app: &AppName) -> EntryKey {
    EntryKey::new(EntryKind::Life, app.as_str(), 0)
}

pub(super) fn row(rows: &EntryRows) -> Result<LifeRow, StoreError> {
    let row = rows.head()?;
    let rotation = match row.optional_unix_s(3)? {
        None => RotationRule::Default,
        Some(0) => RotationRule::Never,
        Some(seconds) => RotationRule::After(Duration::from_secs(seconds)),
    };
    let life = AppLife { delete_at: row.optional_unix_s(1)?, rotation, used_at: row.optional_unix_s(4)? };
    Ok(LifeRow { life, was_disabled: row.flag(2)? })
}

fn find(session: &mut StoreSession<'_>, app: &AppName) -> Result<LifeRow, StoreError> {
    if session.schema < TREE_SCHEMA_VERSION {
        return Ok(LifeRow::default());
    }
    session.entry(&key(app))?.as_ref().map_or(Ok(LifeRow::default()), row)
}

fn put(session: &mut StoreSession<'_>, app: &AppName, row: LifeRow) -> Result<(), StoreError> {
    if session.schema < TREE_SCHEMA_VERSION {
        let (found, needed) = (session.schema, SCHEMA_VERSION);
        return Err(StoreError::OldSchema { found, needed });
    }
    let rotate_after = match row.life.rotation {
        RotationRule::Default => None,
        RotationRule::Never => Some(0),
        // Less than a second would mean never.
        RotationRule::After(time) => Some(time.as_secs().max(1)),
    };
    let columns = params![
        app.as_str(),
        SqlValue::optional(row.life.delete_at, Type::Integer),
        row.was_disabled,
        SqlValue::optional(rotate_after, Type::Integer),
        SqlValue::optional(row.life.used_at, Type::Integer),
    ];
    session.put(&key(app), false, &EntryRows(vec![vec![SqlRow(columns.to_vec())]]))
}

/// Refuses to use an app whose keys are about to be deleted.
pub(super) fn refuse_pending(session: &mut StoreSession<'_>, app: &AppName) -> Result<(), StoreError> {
    match find(session, app)?.life.delete_at {
        Some(at) => Err(StoreError::DeletionPending { app: app.clone(), at }),
        None => Ok(()),
    }
}

fn schedule(session: &mut StoreSession<'_>, app: &AppName, plan: DeletionPlan, now: u64) -> Result<u64, StoreError> {
    let known = apps::find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    refuse_pending(session, app)?;
    let row = find(session, app)?;
    if let Some(at) = row.life.used_at.filter(|at| now.saturating_sub(*at) < plan.unused_for.as_secs()) {
        return Err(StoreError::UsedRecently { app: app.clone(), at });
    }
    let delete_at = now.saturating_add(plan.delay.as_secs());
    // What is recorded from now on was opened although the app is disabled, or was not recorded yet.
    let life = AppLife { delete_at: Some(delete_at), used_at: None, ..row.life };
    put(session, app, LifeRow { life, was_disabled: known.disabled })?;
    apps::set_state(session, app, EnabledState::Disabled)?;
    Ok(delete_at)
}

fn cancel(session: &mut StoreSession<'_>, app: &AppName) -> Result<(), StoreError> {
    apps::find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    let row = find(session, app)?;
    if row.life.delete_at.is_none() {
        return Err(StoreError::NoDeletion(app.clone()));
    }
    put(session, app, LifeRow { life: AppLife { delete_at: None, ..row.life }, was_disabled: false })?;
    if row.was_disabled { Ok(()) } else { apps::set_state(session, app, EnabledState::Enabled) }
}

/// What became of a deletion.
pub(super) enum DueDeletion {
    /// It is not due, or there is none.
    NotDue,
    /// The app was in use after it was planned: it is due at this time, in Unix seconds.
    PutOff(u64),
    Done,
}

/// Deletes everything of an app, if its time has come. If a use was recorded since the deletion was planned, or put off last, it is put
/// off instead.
pub(super) fn delete_due(
    session: &mut StoreSession<'_>,
    app: &AppName,
    now: u64,
    put_off: Duration,
) -> Result<DueDeletion, StoreError> {
    let row = find(session, app)?;
    if row.life.delete_at.is_none_or(|at| at > now) {
        return Ok(DueDeletion::NotDue);
    }
    if row.life.used_at.is_some() {
        let at = now.saturating_add(put_off.as_secs().max(1));
        session.note(|note| note.detail("put off: in use"));
        put(session, app, LifeRow { life: AppLife { delete_at: Some(at), used_at: None, ..row.life }, ..row })?;
        return Ok(DueDeletion::PutOff(at));
    }
    // All of them, verified, before the first write: a row that names the app may have been taken away, to be put back for the next app
    // of that name.
    let (grants, keys) = (session.all(EntryKind::Client)?, session.all(EntryKind::ApiKey)?);
    clients::forget_app(session, app, grants)?;
    api_keys::remove_all(session, app, &keys)?;
    for version in session.version_numbers(app.as_str(), VersionSelection::All)? {
        session.remove(&apps::version_key(app, version))?;
    }
    session.remove(&key(app))?;
    session.remove(&apps::app_key(app))?;
    Ok(DueDeletion::Done)
}

/// The error of one app, which is none of the others.
fn of_one(error: StoreError) -> Result<StoreError, StoreError> {
    match error {
        StoreError::Edited(_) | StoreError::Inconsistent(_) => Ok(error),
        other => Err(other),
    }
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// Rotates an app if its time has come; the new version then.
    pub(super) fn rotate_due(
        &self,
        session: &mut StoreSession<'_>,
        app: &AppName,
        default: u64,
    ) -> Result<Option<u32>, StoreError> {
        let after = find(session, app)?.life.rotation.seconds(default);
        let Some(found) = apps::find(session, app)?.filter(|found| !found.disabled && after > 0) else {
            return Ok(None);
        };
        let summary = apps::summary(session, found)?;
        let newest = summary.versions.iter().map(|version| version.created_at).max().unwrap_or(0);
        if newest.saturating_add(after) > self.now() {
            return Ok(None);
        }
        let made = self.append_version(session, app, NewKeys::generated())?;
        Ok(Some(made.version))
    }
}

impl<B: SqlBackend> KeyLife for SqlKeystore<B> {
    fn lives(&self) -> Result<BTreeMap<AppName, AppLife>, StoreError> {
        self.read(|session| {
            if session.schema < TREE_SCHEMA_VERSION {
                return Ok(BTreeMap::new());
            }
            let entries = session.all(EntryKind::Life)?;
            entries.iter().map(|(key, rows)| Ok((apps::app_name(&key.name)?, row(rows)?.life))).collect()
        })
    }

    fn schedule_deletion(&self, app: &AppName, plan: DeletionPlan) -> Result<u64, StoreError> {
        self.change(ChangeNote::of(ChangeKind::ScheduleDeletion).app(app), |session| {
            schedule(session, app, plan, self.now())
        })
    }

    fn cancel_deletion(&self, app: &AppName) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::CancelDeletion).app(app), |session| cancel(session, app))
    }

    fn set_rotation(&self, app: &AppName, rule: RotationRule) -> Result<(), StoreError> {
        self.change(ChangeNote::of(ChangeKind::SetRotation).app(app), |session| {
            apps::find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
            let row = find(session, app)?;
            put(session, app, LifeRow { life: AppLife { rotation: rule, ..row.life }, ..row })
        })
    }

    fn record_use(&self, apps: &[AppName], interval: Duration) -> Result<UseRecord, StoreError> {
        let now = self.now();
        let is_old = |life: &AppLife| life.used_at.is_none_or(|at| now.saturating_sub(at) >= interval.as_secs());
        let (old, failed) = self.read(|session| {
            let (mut old, mut failed, has_table) = (Vec::new(), Vec::new(), session.schema >= TREE_SCHEMA_VERSION);
            for app in apps.iter().filter(|_| has_table) {
                match find(session, app) {
                    Ok(row) if is_old(&row.life) => old.push(app.clone()),
                    Ok(_) => {}
                    Err(error) => failed.push((app.clone(), of_one(error)?)),
                }
            }
            Ok((old, failed))
        })?;
        let mut record = UseRecord { count: 0, failed };
        if old.is_empty() {
            return Ok(record);
        }
        self.change(ChangeNote::of(ChangeKind::RecordUse), |session| {
            for app in &old {
                let found = find(session, app).and_then(|row| Ok((row, apps::find(session, app)?.is_some())));
                match found {
                    Ok((row, true)) if is_old(&row.life) => {
                        put(session, app, LifeRow { life: AppLife { used_at: Some(now), ..row.life }, ..row })?;
                        record.count += 1;
                    }
                    Ok(_) => {}
                    Err(error) => record.failed.push((app.clone(), of_one(error)?)),
                }
            }
            Ok(())
        })?;
        Ok(record)
    }

    fn upkeep(&self, rotate_after: Option<Duration>, put_off: Duration) -> Result<Upkeep, StoreError> {
        self.remove_ended_links()?;
        self.keep_up(rotate_after.map_or(0, |time| time.as_secs()), put_off)
    }
}
