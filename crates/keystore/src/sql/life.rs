//! Rotation and deletion of keys whose time has come.
//!
//! Which apps are due is looked for in the rows as they are; each is then verified, and checked again, in the change that acts. The
//! database's lock of changes elects who acts: the next process finds that nothing is due any more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::session::{StoreSession, VersionSelection};
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{Sql, SqlRow, SqlValue, Type, params};
use super::{EnabledState, SqlBackend, SqlKeystore, api_keys, apps, clients};
use crate::life::{AppLife, DeletionPlan, KeyLife, RotationRule, Upkeep};
use crate::model::NewKeys;
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::{AppName, StoreError};

/// Apps that one call rotates, and deletes, at most.
const DUE_MAX: u32 = 100;

/// A row of `app_life`.
#[derive(Debug, Clone, Copy, Default)]
struct LifeRow {
    life: AppLife,
    /// Whether the app was disabled before its deletion was planned.
    was_disabled: bool,
}

fn key(app: &AppName) -> EntryKey {
    EntryKey::new(EntryKind::Life, app.as_str(), 0)
}

fn row(rows: &EntryRows) -> Result<LifeRow, StoreError> {
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
    let life = AppLife { delete_at: Some(delete_at), ..row.life };
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

/// Deletes everything of an app, if its time has come; whether it did.
fn delete_due(session: &mut StoreSession<'_>, app: &AppName, now: u64) -> Result<bool, StoreError> {
    if find(session, app)?.life.delete_at.is_none_or(|at| at > now) {
        return Ok(false);
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
    Ok(true)
}

/// The names that a statement finds.
fn names(sql: &mut dyn Sql, select: &str, params: &[SqlValue]) -> Result<Vec<AppName>, StoreError> {
    sql.rows(&format!("{select} LIMIT {DUE_MAX}"), params)?.iter().map(|row| apps::app_name(row.text(0)?)).collect()
}

fn to_delete(sql: &mut dyn Sql, now: u64) -> Result<Vec<AppName>, StoreError> {
    names(sql, "SELECT app FROM app_life WHERE delete_at <= ?1 ORDER BY delete_at", params![now])
}

fn to_rotate(sql: &mut dyn Sql, default: u64, now: u64) -> Result<Vec<AppName>, StoreError> {
    let select =
        "SELECT a.name FROM app AS a JOIN key_version AS v ON v.app = a.name LEFT JOIN app_life AS l ON l.app = a.name
        WHERE NOT a.disabled GROUP BY a.name, l.rotate_after
        HAVING COALESCE(l.rotate_after, ?1) > 0 AND max(v.created_at) + COALESCE(l.rotate_after, ?1) <= ?2
        ORDER BY a.name";
    names(sql, select, params![default, now])
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// Rotates an app if its time has come; the new version then.
    fn rotate_due(
        &self,
        session: &mut StoreSession<'_>,
        app: &AppName,
        default: u64,
    ) -> Result<Option<u32>, StoreError> {
        let after = match find(session, app)?.life.rotation {
            RotationRule::Default => default,
            RotationRule::Never => 0,
            RotationRule::After(time) => time.as_secs(),
        };
        let Some(found) = apps::find(session, app)?.filter(|found| !found.disabled && after > 0) else {
            return Ok(None);
        };
        let summary = apps::summary(session, found)?;
        let newest = summary.versions.iter().map(|version| version.created_at).max().unwrap_or(0);
        if newest.saturating_add(after) > self.now() {
            return Ok(None);
        }
        self.append_version(session, app, NewKeys::generated()).map(|made| Some(made.version))
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
        self.change(|session| schedule(session, app, plan, self.now()))
    }

    fn cancel_deletion(&self, app: &AppName) -> Result<(), StoreError> {
        self.change(|session| cancel(session, app))
    }

    fn set_rotation(&self, app: &AppName, rule: RotationRule) -> Result<(), StoreError> {
        self.change(|session| {
            apps::find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
            let row = find(session, app)?;
            put(session, app, LifeRow { life: AppLife { rotation: rule, ..row.life }, ..row })
        })
    }

    fn record_use(&self, apps: &[AppName], interval: Duration) -> Result<usize, StoreError> {
        let now = self.now();
        let is_old = |life: &AppLife| life.used_at.is_none_or(|at| now.saturating_sub(at) >= interval.as_secs());
        let old = self.read(|session| {
            let (mut old, has_table) = (Vec::new(), session.schema >= TREE_SCHEMA_VERSION);
            for app in apps.iter().filter(|_| has_table) {
                if is_old(&find(session, app)?.life) {
                    old.push(app.clone());
                }
            }
            Ok(old)
        })?;
        if old.is_empty() {
            return Ok(0);
        }
        self.change(|session| {
            let mut count = 0;
            for app in &old {
                let row = find(session, app)?;
                if is_old(&row.life) && apps::find(session, app)?.is_some() {
                    put(session, app, LifeRow { life: AppLife { used_at: Some(now), ..row.life }, ..row })?;
                    count += 1;
                }
            }
            Ok(count)
        })
    }

    fn upkeep(&self, rotate_after: Option<Duration>) -> Result<Upkeep, StoreError> {
        let (now, default) = (self.now(), rotate_after.map_or(0, |time| time.as_secs()));
        let (deletions, rotations) = self.read(|session| {
            if session.schema < TREE_SCHEMA_VERSION {
                return Ok((Vec::new(), Vec::new()));
            }
            Ok((to_delete(session.sql, now)?, to_rotate(session.sql, default, now)?))
        })?;
        let mut done = Upkeep::default();
        for app in deletions {
            match self.change(|session| delete_due(session, &app, now)) {
                Ok(is_gone) => done.deleted.extend(is_gone.then_some(app)),
                Err(error) => done.failed.push((app, error)),
            }
        }
        for app in rotations {
            match self.change(|session| self.rotate_due(session, &app, default)) {
                Ok(version) => done.rotated.extend(version.map(|version| (app, version))),
                Err(error) => done.failed.push((app, error)),
            }
        }
        Ok(done)
    }
}
