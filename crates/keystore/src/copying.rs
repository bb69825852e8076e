//! Copies a store from one database to another.

use std::path::Path;

use crate::error::Location;
use crate::history::{ChangeKind, ChangeNote};
use crate::postgres::{PostgresKeystore, PostgresSettings};
use crate::sql::schema::TableDefinitions;
use crate::sql::value::Sql;
use crate::sql::{OpenMode, SqlBackend, SqlKeystore};
use crate::sqlite::SqliteKeystore;
use crate::store::{Environment, Keystore, StoreLimits};
use crate::{CheckReport, StoreError};

/// Where a store is, or is to be.
#[derive(Debug, Clone, Copy)]
pub enum StoreAddress<'a> {
    /// A file of SQLite.
    File(&'a Path),
    /// A database of PostgreSQL.
    Database(&'a PostgresSettings),
}

impl StoreAddress<'_> {
    /// For messages.
    pub fn location(&self) -> Location {
        match self {
            Self::File(path) => (*path).into(),
            Self::Database(settings) => Location::Database(settings.url.to_string()),
        }
    }

    /// Makes the tables of a store, with what `fill` writes into them, where there is none.
    pub(crate) fn create(
        &self,
        limits: &StoreLimits,
        fill: impl FnOnce(&mut dyn Sql, &TableDefinitions) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self {
            Self::File(path) => SqliteKeystore::create_filled(path, limits, fill),
            Self::Database(settings) => PostgresKeystore::create_filled(settings, limits, fill),
        }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// As [`SqliteKeystore::open`] and [`PostgresKeystore::open`].
    pub fn open(
        &self,
        mode: OpenMode,
        environment: Environment,
        limits: StoreLimits,
    ) -> Result<Box<dyn Keystore>, StoreError> {
        Ok(match self {
            Self::File(path) => Box::new(SqliteKeystore::open(path, mode, environment, limits)?),
            Self::Database(settings) => Box::new(PostgresKeystore::open(settings, mode, environment, limits)?),
        })
    }
}

/// Counts of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Rows of all tables, each compared with the original.
    pub row_count: usize,
    /// The check of the copy, for which every private key was opened.
    pub report: CheckReport,
}

/// Copies the store at `from` to `to`, where none may be. Every row is compared and every key opened; the copy is there whole or not at
/// all. It is the same store, with the same id, under the same root key: from then on only one of the two should be changed.
///
/// `environment` is called once for each store that is opened.
///
/// # Errors
/// [`Error::NotEmpty`] when there is something at `to`; [`Error::ChangedMeanwhile`];
/// and those of opening.
pub fn copy_store(
    from: &StoreAddress<'_>,
    to: &StoreAddress<'_>,
    environment: impl Fn() -> Result<Environment, StoreError>,
    limits: StoreLimits,
) -> Result<Copied, StoreError> {
    let read = || match from {
        StoreAddress::File(path) => SqliteKeystore::open(path, OpenMode::Existing, environment()?, limits)?.content(),
        StoreAddress::Database(settings) => {
            PostgresKeystore::open(settings, OpenMode::Existing, environment()?, limits)?.content()
        }
    };
    match from {
        StoreAddress::File(path) => {
            record_copy(&SqliteKeystore::open(path, OpenMode::Existing, environment()?, limits)?, to)
        }
        StoreAddress::Database(settings) => {
            record_copy(&PostgresKeystore::open(settings, OpenMode::Existing, environment()?, limits)?, to)
        }
    }?;
    let content = read()?;
    to.create(&limits, |sql, definitions| content.write(sql, definitions))?;
    let report = to.open(OpenMode::Existing, environment()?, limits)?.check()?;
    if read()? != content {
        return Err(StoreError::ChangedMeanwhile(from.location()));
    }
    if matches!(to, StoreAddress::Database(_)) {
        // Engines need it, and may log in with a role that only reads.
        to.open(OpenMode::Existing, environment()?, limits)?.token_secret()?;
    }
    Ok(Copied { row_count: content.row_count(), report })
}

/// Before the copy, so that it has the row, too.
fn record_copy<B: SqlBackend>(store: &SqlKeystore<B>, to: &StoreAddress<'_>) -> Result<(), StoreError> {
    store.record_reading(ChangeNote::of(ChangeKind::Copy).detail(&to.location().to_string()))
}
