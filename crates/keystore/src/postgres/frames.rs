//! Frames of audit logs in tables of their own, in a schema beside the store's: who may only read the store may write these. They are
//! sealed by who writes them, so that they are no part of the authenticated tree.
//!
//! They have a connection of their own, so that no look-up waits for them, and a commit does not notify other engines. A row for each log
//! names its writer: a frame is inserted under a shared lock on that row, which taking over the log changes. What a former writer has
//! under way is there before the next one reads, or is refused.

use super::{Postgres, random_mark};
use crate::log_frames::{HeldFrames, LogFrame, LogFrames};
use crate::sql::value::{RANGE, Sql, SqlRow, SqlValue};
use crate::store::StoreLimits;
use crate::{PostgresSettings, StoreError};

const SCHEMA: &str = "leafseal_audit";

/// Names sort by their bytes, as in the store's tables.
const TABLES: &str = r#"
    CREATE TABLE leafseal_audit.log (
        origin TEXT COLLATE "C" PRIMARY KEY,
        writer BIGINT NOT NULL,
        base BYTEA
    );
    CREATE TABLE leafseal_audit.frame (
        log TEXT COLLATE "C" NOT NULL,
        first BIGINT NOT NULL CHECK (first >= 0),
        after BIGINT NOT NULL CHECK (after > first),
        content BYTEA NOT NULL,
        PRIMARY KEY (log, first)
    );
    COMMENT ON SCHEMA leafseal_audit IS 'Leafseal audit logs 1';
"#;
/// Rows that one statement removes.
const REMOVED_MAX: u64 = 1_000;
/// Rows that are read at once.
const READ_MAX: i64 = 4_096;

/// The frames of one log.
pub(super) struct PostgresFrames {
    database: Postgres,
    origin: String,
    /// Differs from that of every other writer.
    writer: i64,
}

impl PostgresFrames {
    pub(super) fn open(settings: &PostgresSettings, limits: &StoreLimits, origin: &str) -> Result<Self, StoreError> {
        let database = Postgres::connect(settings, limits)?;
        Ok(Self { database, origin: origin.to_owned(), writer: random_mark() })
    }

    fn change<T>(&self, apply: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let database = &self.database;
        let _turn = database.turns.take();
        let mut transaction = database.begin(&format!("BEGIN; {}", database.limits_of_change()))?;
        let done = apply(&mut transaction)?;
        transaction.commit_after("")?;
        Ok(done)
    }

    fn look<T>(&self, read: impl FnOnce(&mut dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let database = &self.database;
        let _turn = database.turns.take();
        let mut transaction = database.begin(&format!("BEGIN READ ONLY; {}", database.limits_of_read()))?;
        let found = read(&mut transaction)?;
        transaction.finish("COMMIT");
        Ok(found)
    }

    fn read_rows(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        self.look(|of| of.rows(sql, params))
    }

    /// Checks, in a transaction, that nobody else has become the writer, and that nobody does before its end.
    fn hold(&self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        let held = "SELECT writer FROM leafseal_audit.log WHERE origin = ?1 AND writer = ?2 FOR SHARE";
        let is_held = sql.first(held, &[self.origin.as_str().into(), SqlValue::Integer(self.writer)])?.is_some();
        if is_held { Ok(()) } else { Err(StoreError::OtherWriter(self.origin.clone())) }
    }
}

/// Whether the tables are there.
fn is_made(sql: &mut dyn Sql) -> Result<bool, StoreError> {
    let query =
        "SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname = ?1 AND c.relname = 'frame'";
    Ok(sql.count(query, &[SCHEMA.into()])? > 0)
}

fn position(number: u64) -> Result<SqlValue, StoreError> {
    Ok(SqlValue::Integer(i64::try_from(number).map_err(|_| RANGE)?))
}

fn number(row: &SqlRow, index: usize) -> Result<u64, StoreError> {
    u64::try_from(row.integer(index)?).map_err(|_| RANGE)
}

impl LogFrames for PostgresFrames {
    fn is_known(&self) -> Result<bool, StoreError> {
        self.look(|sql| {
            let known = "SELECT count(*) FROM leafseal_audit.log WHERE origin = ?1";
            Ok(is_made(sql)? && sql.count(known, &[self.origin.as_str().into()])? > 0)
        })
    }

    fn take_over(&self) -> Result<HeldFrames, StoreError> {
        self.change(|sql| {
            if !is_made(sql)? {
                // One of several engines makes them.
                sql.batch(&format!("SELECT pg_advisory_xact_lock(hashtext('{SCHEMA}'))"))?;
                if !is_made(sql)? {
                    sql.batch(&format!("CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))?;
                    sql.batch(TABLES)?;
                }
            }
            let origin = SqlValue::from(self.origin.as_str());
            let taken = "INSERT INTO leafseal_audit.log (origin, writer) VALUES (?1, ?2)
                 ON CONFLICT (origin) DO UPDATE SET writer = excluded.writer RETURNING base";
            let row = sql.first(taken, &[origin.clone(), SqlValue::Integer(self.writer)])?.ok_or(RANGE)?;
            let base = row.optional_blob(0)?.map(<[u8]>::to_vec);
            let end = "SELECT coalesce(max(after), 0) FROM leafseal_audit.frame WHERE log = ?1";
            let end = number(&sql.first(end, &[origin])?.ok_or(RANGE)?, 0)?;
            Ok(HeldFrames { base, end })
        })
    }

    fn put(&self, frame: &LogFrame) -> Result<(), StoreError> {
        let (first, after) = (position(frame.start)?, position(frame.end)?);
        let params = [self.origin.as_str().into(), first, after, SqlValue::Blob(frame.content.clone())];
        self.change(|sql| {
            self.hold(sql)?;
            let put = "INSERT INTO leafseal_audit.frame (log, first, after, content) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (log, first) DO UPDATE SET after = excluded.after, content = excluded.content";
            sql.execute(put, &params).map(drop)
        })
    }

    fn read(&self, after: u64, bytes_max: u64) -> Result<Vec<LogFrame>, StoreError> {
        // Sizes first: what is read at once is bounded, whatever a frame has.
        let origin = SqlValue::from(self.origin.as_str());
        let sizes = format!(
            "SELECT first, length(content)::BIGINT FROM leafseal_audit.frame WHERE log = ?1 AND after > ?2
             AND first >= coalesce((SELECT max(first) FROM leafseal_audit.frame WHERE log = ?1 AND first <= ?2), 0)
             ORDER BY first LIMIT {READ_MAX}"
        );
        let rows = self.read_rows(&sizes, &[origin.clone(), position(after)?])?;
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        for row in &rows {
            bytes += number(row, 1)?;
            if !chosen.is_empty() && bytes > bytes_max {
                break;
            }
            chosen.push(number(row, 0)?);
        }
        let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else { return Ok(Vec::new()) };
        let select = "SELECT first, after, content FROM leafseal_audit.frame
             WHERE log = ?1 AND first BETWEEN ?2 AND ?3 ORDER BY first";
        let rows = self.read_rows(select, &[origin, position(*first)?, position(*last)?])?;
        let frame = |row: &SqlRow| {
            Ok(LogFrame { start: number(row, 0)?, end: number(row, 1)?, content: row.blob(2)?.to_vec() })
        };
        rows.iter().map(frame).collect()
    }

    fn remove_before(&self, minimum: u64, base: &[u8]) -> Result<(), StoreError> {
        let origin = SqlValue::from(self.origin.as_str());
        let based = "UPDATE leafseal_audit.log SET base = ?2 WHERE origin = ?1";
        let remove = format!(
            "DELETE FROM leafseal_audit.frame WHERE log = ?1 AND first IN (
                 SELECT first FROM leafseal_audit.frame WHERE log = ?1 AND after <= ?2 ORDER BY first LIMIT {REMOVED_MAX})"
        );
        self.change(|sql| {
            self.hold(sql)?;
            sql.execute(based, &[origin.clone(), SqlValue::Blob(base.to_vec())]).map(drop)
        })?;
        let minimum = position(minimum)?;
        loop {
            // Each in a change of its own, so that frames get their turn.
            let removed = self.change(|sql| {
                self.hold(sql)?;
                sql.execute(&remove, &[origin.clone(), minimum.clone()])
            })?;
            if removed < REMOVED_MAX {
                return Ok(());
            }
        }
    }
}
