//! Backups: a whole store in one file, under a key that is derived from the root key, whatever database it was in.
//!
//! The file begins with `leafseal-backup-1`, a line feed, the store's id (16 bytes), the id of its root (8), a random salt (32), and the
//! rows of the key slots after their size (4); the rest is a sealed stream ([`crate::sealed_stream`]) of all rows ([`crate::sql::dump`]).
//! Its key is derived from the root with the label `leafseal-backup-1 ` and the salt. To restore the store, one of the slots must open;
//! without that, a reader learns only the store's size and its slots.

use std::cell::Cell;
use std::io::{Read, Write};

use leafseal_crypto::{CryptoRng, Secret};

use crate::copying::StoreAddress;
use crate::error::BackupFault;
use crate::history::{ChangeKind, ChangeNote};
use crate::postgres::PostgresKeystore;
use crate::root_key::{ID_SIZE, RootKeyId, StoreRoot};
use crate::sealed_stream::{DAMAGED, OpeningReader, SealingWriter, read_up_to};
use crate::sql::slots::OpenRoot;
use crate::sql::{OpenMode, SqlBackend, SqlKeystore, check, dump, schema};
use crate::sqlite::SqliteKeystore;
use crate::store::{Environment, StoreLimits};
use crate::store_id::{STORE_ID_SIZE, StoreId};
use crate::{CheckReport, StoreError};

/// First bytes of a backup, up to the version of the format.
const MAGIC: &[u8] = b"leafseal-backup-";
/// The rest of the first line.
const VERSION: &[u8] = b"1\n";
/// What the key of a backup is derived for, before the salt.
const LABEL: &[u8] = b"leafseal-backup-1 ";
const SALT_SIZE: usize = 32;
/// Bytes before the slots.
const HEADER_SIZE: usize = MAGIC.len() + VERSION.len() + STORE_ID_SIZE + ID_SIZE + SALT_SIZE + 4;
/// Most bytes of slots: some 1,500.
const SLOTS_SIZE_MAX: usize = 4 << 20;

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
    let header = BackupHeader::read(input)?;
    let open = header.unlock(&environment()?)?;
    let reader = OpeningReader::new(&header.key(&open.root), &header.bytes(), input)?;
    let row_count = Cell::new(0);
    to.create(&limits, |sql, definitions| {
        row_count.set(dump::read(sql, definitions, reader)?);
        check::verify_restored(sql, &open)
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
        self.record_reading(ChangeNote::of(ChangeKind::BackUp))?;
        // A read may be made again when its connection is lost; a part of the backup has been written then.
        let out = Cell::new(Some(out));
        self.backend.read(|sql| {
            let out = out.take().ok_or(StoreError::Busy)?;
            let (open, generation) = self.verify_rows(sql)?;
            let header = BackupHeader::new(&open, dump::slots(sql)?, self.rng().as_mut());
            let mut writer = SealingWriter::new(&header.key(&open.root), &header.bytes(), out)?;
            let row_count = dump::write(sql, &mut writer)?;
            Ok(BackedUp { generation, row_count, size: writer.finish()? })
        })
    }
}

/// What is written before the sealed stream.
struct BackupHeader {
    store: StoreId,
    root: RootKeyId,
    salt: [u8; SALT_SIZE],
    /// Their rows.
    slots: Vec<u8>,
}

impl BackupHeader {
    fn new(open: &OpenRoot, slots: Vec<u8>, rng: &mut dyn CryptoRng) -> Self {
        let mut salt = [0; SALT_SIZE];
        rng.fill_bytes(&mut salt);
        Self { store: open.tree.store, root: open.root.id(), salt, slots }
    }

    fn read(input: &mut dyn Read) -> Result<Self, StoreError> {
        let bytes = read_up_to(input, HEADER_SIZE)?;
        let rest = bytes.strip_prefix(MAGIC).ok_or(StoreError::Backup(BackupFault::NotABackup))?;
        let rest = rest.strip_prefix(VERSION).ok_or(StoreError::Backup(BackupFault::NewerFormat))?;
        let (store, rest) = rest.split_first_chunk().ok_or(DAMAGED)?;
        let (root, rest) = rest.split_first_chunk().ok_or(DAMAGED)?;
        let (salt, rest) = rest.split_first_chunk().ok_or(DAMAGED)?;
        let size = u32::from_be_bytes(rest.try_into().map_err(|_| DAMAGED)?) as usize;
        let slots = if size <= SLOTS_SIZE_MAX { read_up_to(input, size)? } else { return Err(DAMAGED) };
        if slots.len() != size {
            return Err(DAMAGED);
        }
        Ok(Self { store: StoreId(*store), root: RootKeyId(*root), salt: *salt, slots })
    }

    /// The root of the store.
    fn unlock(&self, environment: &Environment) -> Result<OpenRoot, StoreError> {
        let slots = dump::read_slots(&self.slots)?;
        let open = schema::unlock((self.store, self.root), &slots, &environment.providers)?;
        if open.root.id() == self.root { Ok(open) } else { Err(DAMAGED) }
    }

    fn bytes(&self) -> Vec<u8> {
        let size = u32::try_from(self.slots.len()).unwrap_or(u32::MAX).to_be_bytes();
        [MAGIC, VERSION, &self.store.0, &self.root.0, &self.salt, &size, &self.slots].concat()
    }

    fn key(&self, root: &StoreRoot) -> Secret<32> {
        root.derive(&[LABEL, &self.salt].concat())
    }
}
