//! Copies a store from one database to another.

use std::path::Path;

use crate::error::Location;
use crate::postgres::{PostgresKeystore, PostgresSettings};
use crate::sql::OpenMode;
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
    let content = read()?;
    match to {
        StoreAddress::File(path) => SqliteKeystore::create_copy(path, &content, &limits)?,
        StoreAddress::Database(settings) => PostgresKeystore::create_copy(settings, &content, &limits)?,
    }
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
