//! The integrity check: the database by its own means, then every key and every count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leafseal_crypto::Curve;

use super::schema;
use super::session::{StoreSession, StoreState};
use super::slots::OpenRoot;
use super::stored::{EntrySelection, StoredEntries};
use super::table::{EntryKind, EntryRows};
use super::tree::{StoreTree, TreeKeys};
use super::value::{RANGE, Sql};
use super::{SqlBackend, SqlKeystore, api_keys, apps, clients};
use crate::StoreError;
use crate::edit::StoreEdit;
use crate::error::KeyFault;
use crate::model::{CheckReport, KeyState, StoreFault};
use crate::schema_version::TREE_SCHEMA_VERSION;

impl<B: SqlBackend> SqlKeystore<B> {
    /// `sql`: a transaction that reads.
    pub(super) fn check_all(&self, sql: &mut dyn Sql) -> Result<CheckReport, StoreError> {
        // Brings this process to the newest root; what was edited is found below.
        let open = self.settled_root(sql)?;
        let open = open.as_ref();
        let mut report = CheckReport {
            store: self.id,
            schema_version: schema::version(sql)?,
            generation: schema::generation(sql)?.cast_unsigned(),
            app_count: 0,
            version_count: 0,
            client_count: 0,
            api_key_count: 0,
            faults: self.backend.faults(sql)?,
        };
        // The reports of a damaged database about keys are meaningless; what it does not read at all is said already.
        if report.faults.iter().any(|fault| matches!(fault, StoreFault::Database(_))) {
            return match self.check_edits(sql, open, &mut report) {
                Ok(()) | Err(StoreError::Storage(_)) => Ok(report),
                Err(other) => Err(other),
            };
        }
        // What the database has, whether it was edited or not: each key is looked at, too.
        let mut stored = StoreSession::unverified(sql, open, report.schema_version);
        self.check_apps(&mut stored, &mut report)?;
        match clients::read_stored(&mut stored) {
            Ok(count) => report.client_count = count,
            Err(error) => report.faults.push(unreadable("the clients", error)?),
        }
        match api_keys::read_stored(&mut stored) {
            Ok(count) => report.api_key_count = count,
            Err(error) => report.faults.push(unreadable("the API keys", error)?),
        }
        // Said to be inconsistent where it does not open.
        if let Err(error) = api_keys::token_secret(&mut stored, self.id) {
            report.faults.push(unreadable("the store's secrets", error)?);
        }
        self.check_edits(sql, open, &mut report)?;
        Ok(report)
    }

    /// Compares every row with the authenticated tree.
    fn check_edits(&self, sql: &mut dyn Sql, open: &OpenRoot, report: &mut CheckReport) -> Result<(), StoreError> {
        let known = self.schema.load(Ordering::Acquire).max(report.schema_version);
        report.faults.extend(edits(sql, &open.tree, known)?.into_iter().map(StoreFault::Edited));
        Ok(())
    }

    /// Compares every row with the authenticated tree, and returns the generation.
    pub(crate) fn verify_rows(&self, sql: &mut dyn Sql) -> Result<(Arc<OpenRoot>, u64), StoreError> {
        let (open, state) = self.settle(sql, 0)?;
        refuse_edits(sql, &open.tree, state.schema)?;
        Ok((open, state.generation.cast_unsigned()))
    }

    fn check_apps(&self, session: &mut StoreSession<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
        let mut stored =
            StoredEntries::read(session.sql, EntryKind::KeyVersion, EntrySelection::All, u32::MAX, session.schema)?;
        let unreadable_apps: BTreeSet<String> = stored.unreadable.drain(..).map(|(_, app)| app).collect();
        let mut versions: BTreeMap<String, Vec<EntryRows>> = BTreeMap::new();
        for (key, rows) in stored.entries.into_iter().rev() {
            versions.entry(key.name).or_default().push(rows);
        }
        let rows = match apps::stored(session) {
            Ok(rows) => rows,
            Err(error) => {
                report.faults.push(unreadable("the apps", error)?);
                return Ok(());
            }
        };
        for app in rows {
            let of_app = versions.remove(app.name.as_str()).unwrap_or_default();
            let read = |rows: &EntryRows| apps::version_row(rows, session.schema);
            let read = match unreadable_apps.contains(app.name.as_str()) {
                true => Err(RANGE),
                false => of_app.iter().map(read).collect::<Result<Vec<_>, _>>(),
            };
            self.check_app(session.open, &app, read, report)?;
        }
        Ok(())
    }

    fn check_app(
        &self,
        open: &OpenRoot,
        row: &apps::AppRow,
        versions: Result<Vec<apps::VersionRow>, StoreError>,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        report.app_count += 1;
        let versions = match versions {
            Ok(versions) => versions,
            Err(error) => {
                report.faults.push(unreadable(&format!("the versions of app {}", row.name), error)?);
                return Ok(());
            }
        };
        report.version_count += versions.iter().filter(|version| !version.is_trimmed()).count();
        let counted = (1..).zip(versions.iter().rev()).all(|(number, version)| version.version == number);
        let active = versions.iter().any(|version| version.state == KeyState::Active);
        if !counted || !active {
            report.faults.push(StoreFault::Versions(row.name.clone()));
        }
        for version in versions.iter().filter(|version| !version.is_trimmed()) {
            match self.open_symmetric(open, &row.name, version) {
                Ok(_) => {}
                Err(KeyFault::LeftOut) if version.state == KeyState::Disabled => {}
                Err(fault) => {
                    let (app, version) = (row.name.clone(), version.version);
                    report.faults.push(StoreFault::SymmetricKey { app, version, fault });
                }
            }
            for curve in Curve::ALL {
                match self.open_pair(open, &row.name, version, curve) {
                    Ok(_) => {}
                    Err(KeyFault::LeftOut) if version.state == KeyState::Disabled => {}
                    Err(fault) => report.faults.push(StoreFault::Key {
                        app: row.name.clone(),
                        version: version.version,
                        curve,
                        fault,
                    }),
                }
            }
        }
        Ok(())
    }
}

/// How the rows differ from the authenticated tree; nothing in a store of a schema without one. `known`: the newest schema that the store
/// was seen to have.
fn edits(sql: &mut dyn Sql, keys: &TreeKeys, known: u32) -> Result<Vec<StoreEdit>, StoreError> {
    if known < TREE_SCHEMA_VERSION {
        return Ok(Vec::new());
    }
    let mut edits = Vec::new();
    let tree = match StoreState::verified(sql, keys, known, 0) {
        Ok(state) => state.tree_root.map(|root| StoreTree::of_root(keys, root)),
        Err(StoreError::Edited(edit)) => {
            edits.push(edit);
            Some(StoreTree::unverified(sql, keys)?)
        }
        Err(other) => return Err(other),
    };
    let Some(tree) = tree else { return Ok(edits) };
    let survey = tree.survey(sql)?;
    edits.extend(survey.edits);
    for kind in EntryKind::ALL {
        // What is unreadable has no row here, and differs from its leaf.
        let mut entries = StoredEntries::read(sql, kind, EntrySelection::All, u32::MAX, TREE_SCHEMA_VERSION)?.entries;
        edits.extend(tree.verify(kind, &mut entries, &survey.leaves));
    }
    Ok(edits)
}

fn refuse_edits(sql: &mut dyn Sql, keys: &TreeKeys, known: u32) -> Result<(), StoreError> {
    match edits(sql, keys, known)?.into_iter().next() {
        Some(edit) => Err(StoreError::Edited(edit)),
        None => Ok(()),
    }
}

/// Checks a store that was written just now: it is the one that is meant, and every row is authenticated.
pub(crate) fn verify_restored(sql: &mut dyn Sql, open: &OpenRoot) -> Result<(), StoreError> {
    let found = schema::identify(sql)?;
    if found.id != open.tree.store {
        return Err(StoreError::Inconsistent("the rows of a backup are of another store"));
    }
    refuse_edits(sql, &open.tree, found.schema())
}

/// A row that breaks a rule is a fault of the store; anything else hinders the check itself.
fn unreadable(place: &str, error: StoreError) -> Result<StoreFault, StoreError> {
    match error {
        StoreError::Inconsistent(what) => Ok(StoreFault::Unreadable(format!("{place} cannot be read: {what}"))),
        other => Err(other),
    }
}
