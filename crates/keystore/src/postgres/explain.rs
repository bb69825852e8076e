//! Errors of PostgreSQL as ours. Only the message and the code of a database's error are shown: its details may repeat rows.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::StoreError;
use crate::error::Location;

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// The database refused; the connection is still good, unless it said that it ends.
    Database(Box<DbError>),
    /// The connection ended.
    Lost,
    /// No answer in time; the connection was given up.
    TimedOut,
    /// The answer is not what it must be.
    Unexpected(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for CallError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(of_database) = error.as_db_error() {
            return Self::Database(Box::new(of_database.clone()));
        }
        let is_io = error.source().is_some_and(|source| source.is::<std::io::Error>());
        if error.is_closed() || is_io { Self::Lost } else { Self::Unexpected(error) }
    }
}

impl CallError {
    /// Whether the connection is gone, so that another may serve the call.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Lost => true,
            Self::Database(error) => is_farewell(error),
            Self::TimedOut | Self::Unexpected(_) => false,
        }
    }

    /// As an error of a call after which nothing is changed.
    pub(super) fn of(self, server: Location) -> StoreError {
        let unreachable = |reason: &str| StoreError::Unreachable { server: server.clone(), reason: reason.to_owned() };
        match self {
            Self::Lost => unreachable("the connection ended"),
            Self::TimedOut => unreachable("it does not respond"),
            Self::Unexpected(error) => StoreError::Storage(error.into()),
            Self::Database(error) if is_farewell(&error) => unreachable(&message(&error)),
            Self::Database(error) => match error.code() {
                // A schema or table of ours that is not there.
                code if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(code) => {
                    StoreError::NoStore(server)
                }
                code if [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED, SqlState::T_R_DEADLOCK_DETECTED]
                    .contains(code) =>
                {
                    StoreError::Busy
                }
                code if *code == SqlState::DISK_FULL => StoreError::Full,
                code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                    unreachable("it has become a standby, or is set to read only")
                }
                _ => StoreError::Storage(message(&error).into()),
            },
        }
    }

    /// As an error of a commit.
    pub(super) fn of_commit(self, server: Location) -> StoreError {
        let reason = match self {
            Self::Lost => "the connection to PostgreSQL ended".to_owned(),
            Self::TimedOut => "PostgreSQL did not confirm it in time".to_owned(),
            Self::Unexpected(error) => format!("PostgreSQL's answer makes no sense ({error})"),
            Self::Database(error) if is_farewell(&error) => message(&error),
            // An error below FATAL means that the transaction was rolled back.
            Self::Database(error) => return Self::Database(error).of(server),
        };
        StoreError::Unconfirmed(reason)
    }
}

/// Whether the server ends the connection with this error.
fn is_farewell(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None)
        || error.code().code().starts_with("08")
        || error.code().code().starts_with("57P")
}

fn message(error: &DbError) -> String {
    format!("{} ({})", error.message(), error.code().code())
}

/// Why there is no connection, for a person.
pub(super) fn connecting(error: &tokio_postgres::Error) -> String {
    if let Some(of_database) = error.as_db_error() {
        return message(of_database);
    }
    let source = error.source().map(ToString::to_string);
    match source.as_deref() {
        Some("password missing") => "it asks for a password: set keystore.password_file".to_owned(),
        Some("server does not support TLS") => "it does not offer TLS, which keystore.sslmode requires".to_owned(),
        // The kind of the library's error adds nothing to its cause.
        Some(cause) => cause.to_owned(),
        None => error.to_string(),
    }
}
