//! The integrity check: the database by SQLite's own means, then every key and every count.

use fieldseal_crypto::Curve;
use rusqlite::Connection;

use super::{SCHEMA_VERSION, SqliteKeystore, api_keys, apps, clients};
use crate::Error;
use crate::model::{CheckReport, Fault, KeyState};
use crate::wrapping::UnwrapError;

/// Maximum number of faults that SQLite lists.
const DATABASE_FAULT_COUNT_MAX: u32 = 100;

impl SqliteKeystore {
    pub(super) fn check_all(&self, connection: &Connection) -> Result<CheckReport, Error> {
        let mut report = CheckReport {
            schema_version: SCHEMA_VERSION,
            app_count: 0,
            version_count: 0,
            client_count: 0,
            api_key_count: 0,
            faults: database_faults(connection)?,
        };
        // What a damaged database reports about keys is meaningless.
        if !report.faults.is_empty() {
            return Ok(report);
        }
        match apps::all(connection) {
            Ok(rows) => {
                for row in rows {
                    self.check_app(connection, &row, &mut report)?;
                }
            }
            Err(error) => report.faults.push(unreadable("the apps", error)?),
        }
        match clients::all(connection) {
            Ok(clients) => report.client_count = clients.len(),
            Err(error) => report.faults.push(unreadable("the clients", error)?),
        }
        match api_keys::all(connection) {
            Ok(keys) => report.api_key_count = keys.len(),
            Err(error) => report.faults.push(unreadable("the API keys", error)?),
        }
        // Said to be inconsistent where it does not open.
        if let Err(error) = api_keys::token_secret(connection, &*self.root_key, self.id) {
            report.faults.push(unreadable("the store's secrets", error)?);
        }
        Ok(report)
    }

    fn check_app(&self, connection: &Connection, row: &apps::AppRow, report: &mut CheckReport) -> Result<(), Error> {
        report.app_count += 1;
        let versions = match apps::versions(connection, &row.name, apps::Selection::All) {
            Ok(versions) => versions,
            Err(error) => {
                report.faults.push(unreadable(&format!("the versions of app {}", row.name), error)?);
                return Ok(());
            }
        };
        report.version_count += versions.len();
        let counted = (1..).zip(versions.iter().rev()).all(|(number, version)| version.version == number);
        let active = versions.iter().any(|version| version.state == KeyState::Active);
        if !counted || !active {
            report.faults.push(Fault::Versions(row.name.clone()));
        }
        for version in &versions {
            for curve in Curve::ALL {
                match self.open_pair(&row.name, version, curve) {
                    Ok(_) => {}
                    Err(UnwrapError::Key(fault)) => {
                        report.faults.push(Fault::Key { app: row.name.clone(), version: version.version, curve, fault })
                    }
                    Err(UnwrapError::RootKey(error)) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

/// A row that breaks a rule is a fault of the store; anything else hinders the check itself.
fn unreadable(place: &str, error: Error) -> Result<Fault, Error> {
    match error {
        Error::Inconsistent(what) => Ok(Fault::Unreadable(format!("{place} cannot be read: {what}"))),
        other => Err(other),
    }
}

fn database_faults(connection: &Connection) -> Result<Vec<Fault>, Error> {
    let mut faults = Vec::new();
    connection.pragma(None, "integrity_check", DATABASE_FAULT_COUNT_MAX, |row| {
        let message: String = row.get(0)?;
        if message != "ok" {
            faults.push(Fault::Database(message));
        }
        Ok(())
    })?;
    connection.pragma_query(None, "foreign_key_check", |row| {
        let table: String = row.get(0)?;
        let parent: String = row.get(2)?;
        faults.push(Fault::Database(format!("a row of {table} refers to a row of {parent} that is missing")));
        Ok(())
    })?;
    Ok(faults)
}
