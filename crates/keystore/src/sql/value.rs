//! Statements, parameters and rows, as far as the stores need them: four types of column, no joins of types, no cursors.
//!
//! Both databases run the same statements. Parameters are `?1`, `?2` …; PostgreSQL's store writes them as `$1`. A statement contains no
//! other question mark and no literal that only one of the databases reads.

use crate::StoreError;

/// A time that never comes, as a column holds it.
pub(crate) const FOREVER: u64 = i64::MAX.cast_unsigned();

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// 64 bits, signed.
    Integer,
    /// UTF-8.
    Text,
    /// Bytes.
    Blob,
    /// True or false; SQLite has 1 and 0.
    Flag,
}

/// A parameter, or a column of a row. Its `Debug` output, which libraries may log, shows no bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum SqlValue {
    /// Nothing, of a type.
    Null(Type),
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
    Flag(bool),
}

impl std::fmt::Debug for SqlValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null(_) => f.write_str("NULL"),
            Self::Integer(integer) => integer.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Blob(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Flag(flag) => flag.fmt(f),
        }
    }
}

impl From<i64> for SqlValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

/// Unix seconds.
impl From<u64> for SqlValue {
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for SqlValue {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<bool> for SqlValue {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl From<&str> for SqlValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&[u8]> for SqlValue {
    fn from(value: &[u8]) -> Self {
        Self::Blob(value.to_owned())
    }
}

impl From<Vec<u8>> for SqlValue {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(value)
    }
}

impl<const SIZE: usize> From<[u8; SIZE]> for SqlValue {
    fn from(value: [u8; SIZE]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl SqlValue {
    /// A parameter that may be nothing.
    pub(crate) fn optional(value: Option<impl Into<Self>>, of: Type) -> Self {
        value.map_or(Self::Null(of), Into::into)
    }
}

/// A list of parameters of any types.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::value::SqlValue::from($value)),*] };
}
pub(crate) use params;

/// A row's content cannot have been written by this program.
pub(crate) const RANGE: StoreError = StoreError::Inconsistent("a value is of another type or range than its column");

/// The columns of a row, from 0. Each is read as the type that it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlRow(pub(crate) Vec<SqlValue>);

impl SqlRow {
    fn column(&self, index: usize) -> Result<&SqlValue, StoreError> {
        self.0.get(index).ok_or(RANGE)
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, StoreError> {
        match self.column(index)? {
            SqlValue::Integer(value) => Ok(*value),
            _ => Err(RANGE),
        }
    }

    /// A version or a count.
    pub(crate) fn number(&self, index: usize) -> Result<u32, StoreError> {
        self.integer(index)?.try_into().map_err(|_| RANGE)
    }

    /// Unix seconds as signed integers; a negative one is a tampered one.
    pub(crate) fn unix_s(&self, index: usize) -> Result<u64, StoreError> {
        unix_s(self.integer(index)?)
    }

    pub(crate) fn optional_unix_s(&self, index: usize) -> Result<Option<u64>, StoreError> {
        match self.column(index)? {
            SqlValue::Null(_) => Ok(None),
            _ => self.unix_s(index).map(Some),
        }
    }

    pub(crate) fn optional_number(&self, index: usize) -> Result<Option<u32>, StoreError> {
        match self.column(index)? {
            SqlValue::Null(_) => Ok(None),
            _ => self.number(index).map(Some),
        }
    }

    pub(crate) fn optional_text(&self, index: usize) -> Result<Option<&str>, StoreError> {
        match self.column(index)? {
            SqlValue::Null(_) => Ok(None),
            _ => self.text(index).map(Some),
        }
    }

    pub(crate) fn flag(&self, index: usize) -> Result<bool, StoreError> {
        match self.column(index)? {
            SqlValue::Flag(value) => Ok(*value),
            SqlValue::Integer(value) => Ok(*value != 0),
            _ => Err(RANGE),
        }
    }

    pub(crate) fn text(&self, index: usize) -> Result<&str, StoreError> {
        match self.column(index)? {
            SqlValue::Text(value) => Ok(value),
            _ => Err(RANGE),
        }
    }

    pub(crate) fn blob(&self, index: usize) -> Result<&[u8], StoreError> {
        match self.column(index)? {
            SqlValue::Blob(value) => Ok(value),
            _ => Err(RANGE),
        }
    }

    pub(crate) fn optional_blob(&self, index: usize) -> Result<Option<&[u8]>, StoreError> {
        match self.column(index)? {
            SqlValue::Null(_) => Ok(None),
            _ => self.blob(index).map(Some),
        }
    }

    /// Exactly `SIZE` bytes.
    pub(crate) fn array<const SIZE: usize>(&self, index: usize) -> Result<[u8; SIZE], StoreError> {
        self.blob(index)?.try_into().map_err(|_| RANGE)
    }

    pub(crate) fn optional_array<const SIZE: usize>(&self, index: usize) -> Result<Option<[u8; SIZE]>, StoreError> {
        self.optional_blob(index)?.map(|bytes| bytes.try_into().map_err(|_| RANGE)).transpose()
    }
}

pub(crate) fn unix_s(stored: i64) -> Result<u64, StoreError> {
    u64::try_from(stored).map_err(|_| StoreError::Inconsistent("a date lies before 1970"))
}

/// The longest text, or bytes, of a column that is read, in characters or bytes: above every bound of what the program writes. What is
/// longer is not fetched, and is an edit.
pub(crate) const VALUE_SIZE_MAX: u32 = 1 << 16;

/// Runs a part of a read that may fail by itself: what does not read there leaves the transaction as it was. The outer error is of the
/// transaction.
pub(crate) fn attempt<T>(
    sql: &mut dyn Sql,
    part: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>,
) -> Result<Result<T, StoreError>, StoreError> {
    sql.batch("SAVEPOINT part")?;
    match part(sql) {
        Ok(found) => sql.batch("RELEASE SAVEPOINT part").map(|()| Ok(found)),
        Err(error) if is_of_content(&error) => {
            sql.batch("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part")?;
            Ok(Err(error))
        }
        Err(other) => Err(other),
    }
}

/// Whether an error is of what a database contains; others are of how it is reached.
pub(crate) fn is_of_content(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Storage(_) | StoreError::Inconsistent(_) | StoreError::Edited(_) | StoreError::NoStore(_)
    )
}

/// A transaction of a database.
pub trait Sql {
    /// All rows of a statement.
    fn rows(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError>;

    /// Runs a statement and returns the number of changed rows.
    fn execute(&mut self, sql: &str, params: &[SqlValue]) -> Result<u64, StoreError>;

    /// Runs several statements without parameters.
    fn batch(&mut self, sql: &str) -> Result<(), StoreError>;

    /// Whether the transaction has run a statement that may change something, other than the one that counts the change.
    fn has_written(&self) -> bool;

    /// The condition that a column has something of a type, which is true or false for every value.
    fn is_of_type(&self, column: &str, of: Type) -> String;

    /// A column of texts or bytes, as it is where it is no longer than `VALUE_SIZE_MAX`; else something short that is never there.
    fn bounded(&self, column: &str) -> String;

    /// The first row, if there is one.
    fn first(&mut self, sql: &str, params: &[SqlValue]) -> Result<Option<SqlRow>, StoreError> {
        Ok(self.rows(sql, params)?.into_iter().next())
    }

    /// The number that a statement counts or computes.
    fn count(&mut self, sql: &str, params: &[SqlValue]) -> Result<u32, StoreError> {
        self.first(sql, params)?.ok_or(RANGE)?.number(0)
    }
}
