//! Backups: a whole store in one file, under a key that is derived from the root key, whatever database it was in.
//!
//! The file begins with `leafseal-backup-1`, a line feed, the store's id (16 bytes), the id of the root key (8) and a random salt (32); the
//! rest is a sealed stream ([`crate::sealed_stream`]) of all rows ([`crate::sql::dump`]). Its key is derived from the root key with the
//! label `leafseal-backup-1 ` and the salt, so that whoever has the root key can restore the store, and nobody else learns more of it than
//! its size.

use std::cell::Cell;
use std::io::{Read, Write};

use leafseal_crypto::{CryptoRng, Secret};

use crate::copying::StoreAddress;
use crate::error::BackupFault;
use crate::postgres::PostgresKeystore;
use crate::root_key::{ID_SIZE, RootKey, RootKeyId};
use crate::sealed_stream::{DAMAGED, OpeningReader, SealingWriter, read_up_to};
use crate::sql::{OpenMode, SqlBackend, SqlKeystore, check, dump};
use crate::sqlite::SqliteKeystore;
use crate::store::{Environment, StoreLimits};
use crate::wrapping::{STORE_ID_SIZE, StoreId};
use crate::{CheckReport, StoreError};

/// First bytes of a backup, up to the version of the format.
const MAGIC: &[u8] = b"leafseal-backup-";
/// The rest of the first line.
const VERSION: &[u8] = b"1\n";
/// What the key of a backup is derived for, before the salt.
const LABEL: &[u8] = b"leafseal-backup-1 ";
const SALT_SIZE: usize = 32;
const HEADER_SIZE: usize = MAGIC.len() + VERSION.len() + STORE_ID_SIZE + ID_SIZE + SALT_SIZE;

/// A backup that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackedUp {
    /// The number of the store's last change.
    pub generation: u64,
    /// Rows of all tables.
    pub row_count: u64,
    /// Bytes of the backup.
    pub size: u64,
}

/// A backup that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The number of the store's last change before the backup.
    pub generation: u64,
    /// Rows of all tables.
    pub row_count: u64,
    /// The check of the restored store, for which every private key was opened.
    pub report: CheckReport,
}

/// Writes all of the store at `from` to `out`, as of one moment, while others use it. Every row is compared with the authenticated tree.
///
/// # Errors
/// [`StoreError::Edited`] when something else has changed the store, [`StoreError::BackupWrite`]; and those of opening.
pub fn back_up(
    from: &StoreAddress<'_>,
    environment: Environment,
    limits: StoreLimits,
    out: &mut dyn Write,
) -> Result<BackedUp, StoreError> {
    match from {
        StoreAddress::File(path) => SqliteKeystore::open(path, OpenMode::Existing, environment, limits)?.back_up(out),
        StoreAddress::Database(settings) => {
            PostgresKeystore::open(settings, OpenMode::Existing, environment, limits)?.back_up(out)
        }
    }
}

/// Makes the store of a backup at `to`, where none may be: the same store, with the same id, under the same root key. It is there whole and
/// verified, or not at all.
///
/// `environment` is called for each time that the store is needed.
///
/// # Errors
/// [`StoreError::Backup`], [`StoreError::BackupRead`], [`StoreError::WrongRootKey`], [`StoreError::Edited`],
/// [`StoreError::NotEmpty`] when there is something at `to`; and those of opening.
pub fn restore(
    input: &mut dyn Read,
    to: &StoreAddress<'_>,
    environment: impl Fn() -> Result<Environment, StoreError>,
    limits: StoreLimits,
) -> Result<Restored, StoreError> {
    let root_key = environment()?.root_key;
    let header = BackupHeader::read(input)?;
    let given = root_key.id();
    if header.root_key != given {
        let store = header.root_key;
        return Err(StoreError::WrongRootKey { store, given });
    }
    let reader = OpeningReader::new(&header.key(&*root_key), &header.bytes(), input)?;
    let row_count = Cell::new(0);
    to.create(&limits, |sql, definitions| {
        row_count.set(dump::read(sql, definitions, reader)?);
        check::verify_restored(sql, &*root_key, header.store)
    })?;
    let store = to.open(OpenMode::Existing, environment()?, limits)?;
    let report = store.check()?;
    if matches!(to, StoreAddress::Database(_)) {
        // Engines need it, and may log in with a role that only reads.
        store.token_secret()?;
    }
    Ok(Restored { generation: store.generation()?.changes, row_count: row_count.get(), report })
}

impl<B: SqlBackend> SqlKeystore<B> {
    fn back_up(&self, out: &mut dyn Write) -> Result<BackedUp, StoreError> {
        let header = BackupHeader::new(self.id, self.root_key.id(), self.rng().as_mut());
        let writer = SealingWriter::new(&header.key(&*self.root_key), &header.bytes(), out)?;
        // A read may be made again when its connection is lost; a part of the backup has been written then.
        let writer = Cell::new(Some(writer));
        self.backend.read(|sql| {
            let mut writer = writer.take().ok_or(StoreError::Busy)?;
            let generation = self.verify_rows(sql)?;
            let row_count = dump::write(sql, &mut writer)?;
            Ok(BackedUp { generation, row_count, size: writer.finish()? })
        })
    }
}

/// What is written before the sealed stream.
struct BackupHeader {
    store: StoreId,
    root_key: RootKeyId,
    salt: [u8; SALT_SIZE],
}

impl BackupHeader {
    fn new(store: StoreId, root_key: RootKeyId, rng: &mut dyn CryptoRng) -> Self {
        let mut salt = [0; SALT_SIZE];
        rng.fill_bytes(&mut salt);
        Self { store, root_key, salt }
    }

    fn read(input: &mut dyn Read) -> Result<Self, StoreError> {
        let bytes = read_up_to(input, HEADER_SIZE)?;
        let rest = bytes.strip_prefix(MAGIC).ok_or(StoreError::Backup(BackupFault::NotABackup))?;
        let rest = rest.strip_prefix(VERSION).ok_or(StoreError::Backup(BackupFault::NewerFormat))?;
        let (store, rest) = rest.split_first_chunk().ok_or(DAMAGED)?;
        let (root_key, rest) = rest.split_first_chunk().ok_or(DAMAGED)?;
        let salt = rest.try_into().map_err(|_| DAMAGED)?;
        Ok(Self { store: StoreId(*store), root_key: RootKeyId(*root_key), salt })
    }

    fn bytes(&self) -> Vec<u8> {
        [MAGIC, VERSION, &self.store.0, &self.root_key.0, &self.salt].concat()
    }

    fn key(&self, root_key: &dyn RootKey) -> Secret<32> {
        root_key.derive(&[LABEL, &self.salt].concat())
    }
}
