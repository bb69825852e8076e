//! The integrity check: the database by its own means, then every key and every count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leafseal_crypto::Curve;
use leafseal_crypto::symmetric::SymmetricKeyId;

use super::session::StoreSession;
use super::slots::OpenRoot;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{RANGE, Sql, attempt, is_of_content};
use super::{SqlBackend, SqlKeystore, api_keys, apps, bounds, clients, scan, schema, stored};
use crate::edit::StoreEdit;
use crate::error::KeyFault;
use crate::model::{CheckReport, KeyState, StoreFault};
use crate::scan::{ScanPlace, ScanStep, TreeWalk};
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::{AppName, StoreError};

/// Leaves that are in memory at once.
const LEAVES_AIMED: u32 = 2_000;
/// Versions that share a symmetric key which a check names.
const SHARED_MAX: u32 = 1_000;
/// Edits that a check names.
const EDITS_MAX: usize = 10_000;

impl<B: SqlBackend> SqlKeystore<B> {
    /// `sql`: a transaction that reads.
    pub(super) fn check_all(&self, sql: &mut dyn Sql) -> Result<CheckReport, StoreError> {
        // Brings this process to the newest root; what was edited is found below.
        let open = attempt(sql, |sql| self.settled_root(sql))?.unwrap_or_else(|_| self.open_root());
        let open = open.as_ref();
        let mut report = CheckReport {
            store: self.id,
            // What does not read is an edit, which is found below.
            schema_version: attempt(sql, schema::version)?.unwrap_or_else(|_| self.schema.load(Ordering::Acquire)),
            generation: attempt(sql, schema::generation)?.unwrap_or(0).cast_unsigned(),
            app_count: 0,
            version_count: 0,
            client_count: 0,
            api_key_count: 0,
            faults: Vec::new(),
        };
        match attempt(sql, |sql| self.backend.faults(sql))? {
            Ok(faults) => report.faults = faults,
            Err(error) => report.faults.push(unreadable("the database's own checks", error)?),
        }
        // The reports of a damaged database about keys are meaningless; what it does not read at all is said already.
        if report.faults.iter().any(|fault| matches!(fault, StoreFault::Database(_))) {
            return match self.check_edits(sql, open, &mut report) {
                Ok(()) | Err(StoreError::Storage(_)) => Ok(report),
                Err(other) => Err(other),
            };
        }
        // What the database has, whether it was edited or not: each key is looked at, too.
        let schema = report.schema_version;
        match attempt(sql, |sql| self.check_apps(sql, (open, schema), &mut report))? {
            Ok(()) => {}
            Err(error) => report.faults.push(unreadable("the apps", error)?),
        }
        match attempt(sql, |sql| shared_symmetric_keys(sql, schema))? {
            Ok(faults) => report.faults.extend(faults),
            Err(error) => report.faults.push(unreadable("the symmetric keys", error)?),
        }
        let readers: [(EntryKind, &str, StoredReader); 2] = [
            (EntryKind::Client, "the clients", clients::read_stored),
            (EntryKind::ApiKey, "the API keys", api_keys::read_stored),
        ];
        for (kind, place, read) in readers {
            let (mut count, mut refusal) = (0, None);
            let outcome = attempt(sql, |sql| {
                stored::each(sql, &[kind], schema, &mut |found| {
                    let outcome = match found {
                        Some([stored, ..]) if stored.unreadable.is_empty() => read(&stored.entries),
                        _ => Err(RANGE),
                    };
                    match outcome {
                        Ok(number) => count += number,
                        Err(error) => refusal = Some(refusal.take().unwrap_or(error)),
                    }
                    Ok(())
                })
            })?;
            if let Some(error) = outcome.err().or(refusal) {
                report.faults.push(unreadable(place, error)?);
            }
            *(if kind == EntryKind::Client { &mut report.client_count } else { &mut report.api_key_count }) = count;
        }
        // Said to be inconsistent where it does not open.
        let token_secret =
            attempt(sql, |sql| api_keys::token_secret(&mut StoreSession::unverified(sql, open, schema), self.id))?;
        if let Err(error) = token_secret {
            report.faults.push(unreadable("the store's secrets", error)?);
        }
        self.check_edits(sql, open, &mut report)?;
        Ok(report)
    }

    /// Compares every row with the authenticated tree.
    fn check_edits(&self, sql: &mut dyn Sql, open: &OpenRoot, report: &mut CheckReport) -> Result<(), StoreError> {
        let known = self.schema.load(Ordering::Acquire).max(report.schema_version);
        let edits = edits(sql, open, known)?;
        let is_cut = edits.len() >= EDITS_MAX;
        report.faults.extend(edits.into_iter().map(StoreFault::Edited));
        if is_cut {
            report
                .faults
                .push(StoreFault::Unreadable(format!("more than {EDITS_MAX} edits; the others are not named")));
        }
        Ok(())
    }

    /// Compares every row with the authenticated tree, and returns the generation.
    pub(crate) fn verify_rows(&self, sql: &mut dyn Sql) -> Result<(Arc<OpenRoot>, u64), StoreError> {
        let (open, state) = self.settle(sql, 0)?;
        refuse_edits(sql, &open, state.schema)?;
        Ok((open, state.generation.cast_unsigned()))
    }

    fn check_apps(
        &self,
        sql: &mut dyn Sql,
        (open, schema): (&OpenRoot, u32),
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        stored::each(sql, &[EntryKind::App, EntryKind::KeyVersion], schema, &mut |found| {
            let Some([apps, of_versions]) = found else {
                return refuse_once(report, unreadable("the apps", RANGE)?);
            };
            if !apps.unreadable.is_empty() {
                refuse_once(report, unreadable("the apps", RANGE)?)?;
            }
            let unreadable_apps: BTreeSet<String> = of_versions.unreadable.drain(..).map(|(_, app)| app).collect();
            let mut versions: BTreeMap<String, Vec<EntryRows>> = BTreeMap::new();
            for (key, rows) in std::mem::take(&mut of_versions.entries).into_iter().rev() {
                versions.entry(key.name).or_default().push(rows);
            }
            for (key, rows) in &apps.entries {
                let of_app = versions.remove(&key.name).unwrap_or_default();
                let app = match apps::app_row(rows) {
                    Ok(app) => app,
                    Err(error) => {
                        refuse_once(report, unreadable("the apps", error)?)?;
                        continue;
                    }
                };
                let read = |rows: &EntryRows| apps::version_row(rows, schema);
                let read = match unreadable_apps.contains(&key.name) {
                    true => Err(RANGE),
                    false => of_app.iter().map(read).collect::<Result<Vec<_>, _>>(),
                };
                self.check_app(open, &app, read, report)?;
            }
            Ok(())
        })
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

/// The symmetric keys that several versions have, of which some are named.
fn shared_symmetric_keys(sql: &mut dyn Sql, schema: u32) -> Result<Vec<StoreFault>, StoreError> {
    let mut shared: BTreeMap<SymmetricKeyId, Vec<(AppName, u32)>> = BTreeMap::new();
    if schema >= TREE_SCHEMA_VERSION {
        for (id, app, version) in bounds::shared_symmetric_keys(sql, SHARED_MAX)? {
            shared.entry(id).or_default().push((apps::app_name(&app)?, version));
        }
    }
    Ok(shared.into_iter().map(|(id, versions)| StoreFault::SharedSymmetricKey { id, versions }).collect())
}

/// How the rows differ from the authenticated tree, of which some are named; nothing in a store of a schema without one. `known`: the
/// newest schema that the store was seen to have. The same steps as those of a scan, so that little is in memory.
fn edits(sql: &mut dyn Sql, open: &OpenRoot, known: u32) -> Result<BTreeSet<StoreEdit>, StoreError> {
    let mut edits = BTreeSet::new();
    if known < TREE_SCHEMA_VERSION {
        return Ok(edits);
    }
    let mut place = ScanPlace::Tree(TreeWalk::new(LEAVES_AIMED));
    loop {
        let mut step = ScanStep::default();
        let next = scan::advance(sql, open, known, &place, &mut step)?;
        let room = EDITS_MAX.saturating_sub(edits.len());
        edits.extend(step.edits.into_iter().take(room));
        match next {
            Some(next) => place = next,
            None => return Ok(edits),
        }
    }
}

fn refuse_edits(sql: &mut dyn Sql, open: &OpenRoot, known: u32) -> Result<(), StoreError> {
    match edits(sql, open, known)?.into_iter().next() {
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
    refuse_edits(sql, open, found.schema())
}

/// Reads entries as what they must be, and returns their number.
type StoredReader = fn(&BTreeMap<EntryKey, EntryRows>) -> Result<usize, StoreError>;

/// Reports a fault, unless it is the last one already.
fn refuse_once(report: &mut CheckReport, fault: StoreFault) -> Result<(), StoreError> {
    if report.faults.last() != Some(&fault) {
        report.faults.push(fault);
    }
    Ok(())
}

/// A row that breaks a rule is a fault of the store; anything else hinders the check itself.
fn unreadable(place: &str, error: StoreError) -> Result<StoreFault, StoreError> {
    match error {
        StoreError::Inconsistent(what) => Ok(StoreFault::Unreadable(format!("{place} cannot be read: {what}"))),
        error if is_of_content(&error) => Ok(StoreFault::Unreadable(format!("{place} cannot be read: {error}"))),
        other => Err(other),
    }
}
