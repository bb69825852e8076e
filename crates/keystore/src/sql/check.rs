//! The integrity check: the database by its own means, then every key and every count.

use leafseal_crypto::Curve;

use super::value::Sql;
use super::{SCHEMA_VERSION, SqlBackend, SqlKeystore, api_keys, apps, clients};
use crate::StoreError;
use crate::error::KeyFault;
use crate::model::{CheckReport, KeyState, StoreFault};
use crate::wrapping::UnwrapError;

impl<B: SqlBackend> SqlKeystore<B> {
    pub(super) fn check_all(&self, sql: &mut dyn Sql) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport {
            schema_version: SCHEMA_VERSION,
            app_count: 0,
            version_count: 0,
            client_count: 0,
            api_key_count: 0,
            faults: self.backend.faults(sql)?,
        };
        // The reports of a damaged database about keys are meaningless.
        if !report.faults.is_empty() {
            return Ok(report);
        }
        match apps::all(sql) {
            Ok(rows) => {
                for row in rows {
                    self.check_app(sql, &row, &mut report)?;
                }
            }
            Err(error) => report.faults.push(unreadable("the apps", error)?),
        }
        match clients::all(sql) {
            Ok(clients) => report.client_count = clients.len(),
            Err(error) => report.faults.push(unreadable("the clients", error)?),
        }
        match api_keys::all(sql) {
            Ok(keys) => report.api_key_count = keys.len(),
            Err(error) => report.faults.push(unreadable("the API keys", error)?),
        }
        // Said to be inconsistent where it does not open.
        if let Err(error) = api_keys::token_secret(sql, &*self.root_key, self.id) {
            report.faults.push(unreadable("the store's secrets", error)?);
        }
        Ok(report)
    }

    fn check_app(&self, sql: &mut dyn Sql, row: &apps::AppRow, report: &mut CheckReport) -> Result<(), StoreError> {
        report.app_count += 1;
        let versions = match apps::versions(sql, &row.name, apps::VersionSelection::All) {
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
            for curve in Curve::ALL {
                match self.open_pair(&row.name, version, curve) {
                    Ok(_) => {}
                    Err(UnwrapError::Key(KeyFault::LeftOut)) if version.state == KeyState::Disabled => {}
                    Err(UnwrapError::Key(fault)) => report.faults.push(StoreFault::Key {
                        app: row.name.clone(),
                        version: version.version,
                        curve,
                        fault,
                    }),
                    Err(UnwrapError::RootKey(error)) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

/// A row that breaks a rule is a fault of the store; anything else hinders the check itself.
fn unreadable(place: &str, error: StoreError) -> Result<StoreFault, StoreError> {
    match error {
        StoreError::Inconsistent(what) => Ok(StoreFault::Unreadable(format!("{place} cannot be read: {what}"))),
        other => Err(other),
    }
}
