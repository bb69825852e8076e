//! Apps and key versions as rows.

use std::collections::BTreeMap;

use leafseal_crypto::{Curve, PrivateKey, PublicKey};

use super::accepted;
use super::bounds;
use super::canary_row::{CANARIES, CanaryRow};
use super::session::{StoreSession, VersionSelection};
use super::slots::OpenRoot;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{SqlRow, SqlValue, params};
use super::{EnabledState, SqlBackend, SqlKeystore};
use crate::accepted::AcceptedSchemes;
use crate::error::{KeyFault, LimitedEntries};
use crate::model::{AppKeyPair, AppKeys, AppSummary, KeyState, KeyVersion, NewKeys, TrimmedVersion, VersionSummary};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::wrapping::{self, KeyLocation};
use crate::{AppName, StoreError};
use leafseal_crypto::symmetric::{SymmetricKeyId, SymmetricRoot};

/// A row of `app`.
pub(super) struct AppRow {
    pub(super) name: AppName,
    created_at: u64,
    pub(super) disabled: bool,
    pub(super) accept: AcceptedSchemes,
    pub(super) canaries: Vec<CanaryRow>,
}

/// The table of an app's entry with what is accepted.
const ACCEPT: usize = 1;

/// A row of `key_version` and what belongs to it.
pub(super) struct VersionRow {
    pub(super) version: u32,
    created_at: u64,
    pub(super) state: KeyState,
    /// Of the store when it was read.
    schema: u32,
    r1: Option<PairRow>,
    k1: Option<PairRow>,
    symmetric: Option<SymmetricRow>,
}

/// A row of `symmetric_key`.
pub(super) struct SymmetricRow {
    id: SymmetricKeyId,
    wrapped: Vec<u8>,
}

/// A row of `key_pair`.
pub(super) struct PairRow {
    public: Vec<u8>,
    wrapped: Vec<u8>,
}

impl VersionRow {
    /// Whether its keys were destroyed.
    pub(super) fn is_trimmed(&self) -> bool {
        self.state == KeyState::Disabled && self.r1.is_none() && self.k1.is_none()
    }

    pub(super) fn pair(&self, curve: Curve) -> Option<&PairRow> {
        match curve {
            Curve::P256 => self.r1.as_ref(),
            Curve::Secp256k1 => self.k1.as_ref(),
        }
    }
}

impl PairRow {
    fn public(&self, curve: Curve) -> Result<PublicKey, KeyFault> {
        PublicKey::from_sec1(curve, &self.public).map_err(|_| KeyFault::PublicKey)
    }
}

fn state(disabled: bool) -> KeyState {
    if disabled { KeyState::Disabled } else { KeyState::Active }
}

pub(super) fn app_name(stored: &str) -> Result<AppName, StoreError> {
    AppName::parse(stored).map_err(|_| StoreError::Inconsistent("an app has a name that is none"))
}

pub(super) fn app_key(app: &AppName) -> EntryKey {
    EntryKey::new(EntryKind::App, app.as_str(), 0)
}

pub(super) fn version_key(app: &AppName, version: u32) -> EntryKey {
    EntryKey::new(EntryKind::KeyVersion, app.as_str(), version)
}

pub(super) fn app_row(rows: &EntryRows) -> Result<AppRow, StoreError> {
    let row = rows.head()?;
    Ok(AppRow {
        name: app_name(row.text(0)?)?,
        created_at: row.unix_s(1)?,
        disabled: row.flag(2)?,
        accept: accepted::read(rows, ACCEPT)?,
        canaries: rows.rows(CANARIES).iter().map(CanaryRow::read).collect::<Result<_, _>>()?,
    })
}

pub(super) fn find(session: &mut StoreSession<'_>, app: &AppName) -> Result<Option<AppRow>, StoreError> {
    session.entry(&app_key(app))?.as_ref().map(app_row).transpose()
}

/// A missing key pair shows as nothing instead of hiding its version.
pub(super) fn version_row(rows: &EntryRows, schema: u32) -> Result<VersionRow, StoreError> {
    let pair = |curve: Curve| -> Result<Option<PairRow>, StoreError> {
        let is_of_curve = |row: &&SqlRow| row.text(2).is_ok_and(|name| name == curve.short_name());
        let Some(row) = rows.rows(1).iter().find(is_of_curve) else { return Ok(None) };
        Ok(Some(PairRow { public: row.blob(3)?.to_owned(), wrapped: row.blob(4)?.to_owned() }))
    };
    let symmetric = |row: &SqlRow| {
        Ok::<_, StoreError>(SymmetricRow { id: SymmetricKeyId(row.array(2)?), wrapped: row.blob(3)?.to_owned() })
    };
    let row = rows.head()?;
    Ok(VersionRow {
        version: row.number(1)?,
        created_at: row.unix_s(2)?,
        state: state(row.flag(3)?),
        schema,
        r1: pair(Curve::P256)?,
        k1: pair(Curve::Secp256k1)?,
        symmetric: rows.rows(2).first().map(symmetric).transpose()?,
    })
}

/// The versions of an app, newest first.
///
/// Those that are not wanted are not read, so that one which does not even read harms no other.
pub(super) fn versions(
    session: &mut StoreSession<'_>,
    app: &AppName,
    selection: VersionSelection,
) -> Result<Vec<VersionRow>, StoreError> {
    let versions = session.versions(app.as_str(), selection)?;
    let schema = session.schema;
    versions.iter().rev().map(|(_, rows)| version_row(rows, schema)).collect()
}

fn find_version(session: &mut StoreSession<'_>, app: &AppName, number: u32) -> Result<Option<VersionRow>, StoreError> {
    let schema = session.schema;
    session.entry(&version_key(app, number))?.map(|rows| version_row(&rows, schema)).transpose()
}

/// All apps by name with their versions.
pub(super) fn summaries(session: &mut StoreSession<'_>) -> Result<Vec<AppSummary>, StoreError> {
    let (apps, schema) = (session.all(EntryKind::App)?, session.schema);
    let mut versions: BTreeMap<String, Vec<VersionRow>> = BTreeMap::new();
    for (key, rows) in session.all(EntryKind::KeyVersion)?.into_iter().rev() {
        versions.entry(key.name).or_default().push(version_row(&rows, schema)?);
    }
    apps.values()
        .map(|rows| {
            let app = app_row(rows)?;
            let versions = versions.remove(app.name.as_str()).unwrap_or_default();
            summary_of(app, &versions)
        })
        .collect()
}

/// One version of an app, in any state.
pub(super) fn version(session: &mut StoreSession<'_>, app: &AppName, version: u32) -> Result<VersionRow, StoreError> {
    match find_version(session, app, version)? {
        Some(row) => Ok(row),
        None => Err(missing_version(session, app, version)?),
    }
}

/// Why a version is not there.
fn missing_version(session: &mut StoreSession<'_>, app: &AppName, version: u32) -> Result<StoreError, StoreError> {
    find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    let app = app.clone();
    Ok(StoreError::UnknownVersion { app, version })
}

pub(super) fn summary(session: &mut StoreSession<'_>, row: AppRow) -> Result<AppSummary, StoreError> {
    let versions = versions(session, &row.name, VersionSelection::All)?;
    summary_of(row, &versions)
}

fn summary_of(row: AppRow, versions: &[VersionRow]) -> Result<AppSummary, StoreError> {
    let (trimmed, versions): (Vec<&VersionRow>, Vec<_>) = versions.iter().partition(|version| version.is_trimmed());
    let versions = versions.into_iter().map(|version| version_summary(&row.name, version)).collect::<Result<_, _>>()?;
    let trimmed_version = |row: &VersionRow| TrimmedVersion { version: row.version, created_at: row.created_at };
    let trimmed = trimmed.into_iter().map(trimmed_version).collect();
    let AppRow { name, created_at, disabled, accept, .. } = row;
    Ok(AppSummary { name, created_at, disabled, accept, versions, trimmed })
}

fn version_summary(app: &AppName, row: &VersionRow) -> Result<VersionSummary, StoreError> {
    let public = |curve| {
        row.pair(curve)
            .ok_or(KeyFault::Missing)
            .and_then(|pair| pair.public(curve))
            .map_err(|fault| damaged(app, row.version, curve, fault))
    };
    Ok(VersionSummary {
        version: row.version,
        created_at: row.created_at,
        state: row.state,
        r1: public(Curve::P256)?,
        k1: public(Curve::Secp256k1)?,
        symmetric: row.symmetric.as_ref().map(|symmetric| symmetric.id),
    })
}

pub(super) fn damaged(app: &AppName, version: u32, curve: Curve, fault: KeyFault) -> StoreError {
    let app = app.clone();
    StoreError::DamagedKey { app, version, curve, fault }
}

/// Enables or disables a whole app.
pub(super) fn set_state(
    session: &mut StoreSession<'_>,
    app: &AppName,
    standing: EnabledState,
) -> Result<(), StoreError> {
    let key = app_key(app);
    let mut rows = session.entry(&key)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    rows.head_mut()?.0[2] = SqlValue::Flag(standing == EnabledState::Disabled);
    session.put(&key, false, &rows)
}

/// Sets which envelopes of an app are accepted.
pub(super) fn set_accepted(
    session: &mut StoreSession<'_>,
    app: &AppName,
    accept: AcceptedSchemes,
) -> Result<(), StoreError> {
    let key = app_key(app);
    let mut rows = session.entry(&key)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    accepted::put(&mut rows, ACCEPT, (app.as_str(), accept), session.schema)?;
    session.put(&key, false, &rows)
}

/// Enables or disables one version.
pub(super) fn set_version_state(
    session: &mut StoreSession<'_>,
    app: &AppName,
    version: u32,
    state: KeyState,
) -> Result<(), StoreError> {
    let key = version_key(app, version);
    let Some(mut rows) = session.entry(&key)? else {
        return Err(missing_version(session, app, version)?);
    };
    rows.head_mut()?.0[3] = SqlValue::Flag(state == KeyState::Disabled);
    session.put(&key, state == KeyState::Active, &rows)
}

/// Deletes the keys of a disabled version. Its row stays, so that its number is not given again.
pub(super) fn trim(session: &mut StoreSession<'_>, app: &AppName, number: u32) -> Result<(), StoreError> {
    let row = version(session, app, number)?;
    let (app_name, is_trimmed) = (app.clone(), row.is_trimmed());
    match row.state {
        KeyState::Active => Err(StoreError::ActiveVersion { app: app_name, version: number }),
        KeyState::Disabled if is_trimmed => Err(StoreError::TrimmedVersion { app: app_name, version: number }),
        KeyState::Disabled => write_version(session, app, &StoredVersion::without_keys(number, row.created_at)),
    }
}

/// A pair to write.
pub(crate) struct StoredPair {
    pub(crate) public: PublicKey,
    /// The private half, encrypted under the root key.
    pub(crate) wrapped: Vec<u8>,
}

/// A version to write.
pub(crate) struct StoredVersion {
    pub(crate) version: u32,
    /// Unix seconds.
    pub(crate) created_at: u64,
    pub(crate) state: KeyState,
    /// None of a trimmed version.
    pub(crate) pairs: Vec<StoredPair>,
    /// The id of the symmetric root, and the root, sealed.
    pub(crate) symmetric: Option<(SymmetricKeyId, Vec<u8>)>,
}

impl StoredVersion {
    /// What is left of a trimmed version.
    pub(crate) fn without_keys(version: u32, created_at: u64) -> Self {
        Self { version, created_at, state: KeyState::Disabled, pairs: Vec::new(), symmetric: None }
    }
}

/// Writes an app without versions; `created_at` in Unix seconds.
pub(crate) fn write_app(
    session: &mut StoreSession<'_>,
    app: &AppName,
    created_at: u64,
    accept: AcceptedSchemes,
) -> Result<(), StoreError> {
    let row = SqlRow(params![app.as_str(), created_at, false].to_vec());
    let mut rows = EntryRows(vec![vec![row]]);
    rows.0.resize(EntryKind::App.tables_in(session.schema).len(), Vec::new());
    accepted::put(&mut rows, ACCEPT, (app.as_str(), accept), session.schema)?;
    session.put(&app_key(app), false, &rows)
}

pub(crate) fn symmetric_row(app: &AppName, version: u32, id: SymmetricKeyId, wrapped: &[u8]) -> SqlRow {
    SqlRow(params![app.as_str(), version, id.0, wrapped].to_vec())
}

/// Writes a version with its pairs.
pub(crate) fn write_version(
    session: &mut StoreSession<'_>,
    app: &AppName,
    stored: &StoredVersion,
) -> Result<(), StoreError> {
    let StoredVersion { version, created_at, state, pairs, symmetric } = stored;
    let head = SqlRow(params![app.as_str(), *version, *created_at, *state == KeyState::Disabled].to_vec());
    let pair_row = |pair: &StoredPair| {
        let (curve, public) = (pair.public.curve().short_name(), pair.public.uncompressed());
        SqlRow(params![app.as_str(), *version, curve, public.as_slice(), pair.wrapped.as_slice()].to_vec())
    };
    let mut rows = vec![vec![head], pairs.iter().map(pair_row).collect()];
    if session.schema >= TREE_SCHEMA_VERSION {
        rows.push(symmetric.iter().map(|(id, wrapped)| symmetric_row(app, *version, *id, wrapped)).collect());
    }
    let rows = EntryRows(rows);
    session.put(&version_key(app, *version), *state == KeyState::Active, &rows)
}

impl<B: SqlBackend> SqlKeystore<B> {
    fn place<'a>(&self, app: &'a AppName, version: u32, schema: u32) -> KeyLocation<'a> {
        let store = self.id;
        KeyLocation { store, schema, app, version }
    }

    /// Inserts an app with its first version.
    pub(super) fn insert_app(
        &self,
        session: &mut StoreSession<'_>,
        app: &AppName,
        keys: NewKeys,
    ) -> Result<AppSummary, StoreError> {
        if find(session, app)?.is_some() {
            return Err(StoreError::AppExists(app.clone()));
        }
        let limit = self.limits.app_count_max;
        if bounds::app_count(session.sql)? >= limit {
            let what = LimitedEntries::Apps;
            return Err(StoreError::TooMany { what, limit });
        }
        let now = self.now();
        write_app(session, app, now, AcceptedSchemes::ALL)?;
        let first = self.insert_version(session, (app, 1), now, keys)?;
        Ok(AppSummary {
            name: app.clone(),
            created_at: first.created_at,
            disabled: false,
            accept: AcceptedSchemes::ALL,
            versions: vec![first],
            trimmed: vec![],
        })
    }

    /// Inserts the version after the newest.
    pub(super) fn append_version(
        &self,
        session: &mut StoreSession<'_>,
        app: &AppName,
        keys: NewKeys,
    ) -> Result<VersionSummary, StoreError> {
        find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
        let limit = self.limits.version_count_max;
        if bounds::version_count(session.sql, app)? >= limit {
            let what = LimitedEntries::Versions;
            return Err(StoreError::TooMany { what, limit });
        }
        // Trimmed versions are among them, so that no number is given twice.
        let newest = session.version_numbers(app.as_str(), VersionSelection::All)?.into_iter().max().unwrap_or(0);
        session.note(|note| note.version(newest + 1));
        self.insert_version(session, (app, newest + 1), self.now(), keys)
    }

    fn insert_version(
        &self,
        session: &mut StoreSession<'_>,
        (app, version): (&AppName, u32),
        now: u64,
        keys: NewKeys,
    ) -> Result<VersionSummary, StoreError> {
        let place = self.place(app, version, session.schema);
        let (r1, k1, symmetric) = keys.into_parts();
        let r1 = self.new_pair(session, &place, Curve::P256, r1)?;
        let k1 = self.new_pair(session, &place, Curve::Secp256k1, k1)?;
        let (of_r1, of_k1, state) = (r1.public, k1.public, KeyState::Active);
        let symmetric = self.new_symmetric(session, &place, symmetric)?;
        let id = symmetric.as_ref().map(|(id, _)| *id);
        let stored = StoredVersion { version, created_at: now, state, pairs: vec![r1, k1], symmetric };
        write_version(session, app, &stored)?;
        Ok(VersionSummary { version, created_at: now, state, r1: of_r1, k1: of_k1, symmetric: id })
    }

    fn new_pair(
        &self,
        session: &mut StoreSession<'_>,
        place: &KeyLocation<'_>,
        curve: Curve,
        key: Option<PrivateKey>,
    ) -> Result<StoredPair, StoreError> {
        let mut rng = self.rng();
        let private = key.unwrap_or_else(|| PrivateKey::generate(curve, rng.as_mut()));
        let pair = AppKeyPair::new(private, &self.context);
        if let Some((app, version)) = bounds::holder(session.sql, pair.public())? {
            return Err(StoreError::KeyInUse { curve, app: app_name(&app)?, version });
        }
        let wrapped = wrapping::wrap(&session.open.root, place, &pair, rng.as_mut());
        Ok(StoredPair { public: *pair.public(), wrapped })
    }

    /// The id of a version's symmetric root, and the root, sealed; none in an old schema.
    fn new_symmetric(
        &self,
        session: &mut StoreSession<'_>,
        place: &KeyLocation<'_>,
        imported: Option<SymmetricRoot>,
    ) -> Result<Option<(SymmetricKeyId, Vec<u8>)>, StoreError> {
        if session.schema < TREE_SCHEMA_VERSION {
            let (found, needed) = (session.schema, SCHEMA_VERSION);
            return if imported.is_none() { Ok(None) } else { Err(StoreError::OldSchema { found, needed }) };
        }
        let mut rng = self.rng();
        let root = imported.unwrap_or_else(|| SymmetricRoot::generate(rng.as_mut()));
        let id = root.key_id();
        if let Some((app, version)) = bounds::symmetric_holder(session.sql, id)? {
            return Err(StoreError::SymmetricKeyInUse { app: app_name(&app)?, version });
        }
        Ok(Some((id, wrapping::wrap_symmetric(&session.open.root, place, (id, Some(&root)), rng.as_mut()))))
    }

    /// Opens one stored pair.
    pub(super) fn open_pair(
        &self,
        open: &OpenRoot,
        app: &AppName,
        row: &VersionRow,
        curve: Curve,
    ) -> Result<AppKeyPair, KeyFault> {
        let pair = row.pair(curve).ok_or(KeyFault::Missing)?;
        let public = pair.public(curve)?;
        let place = self.place(app, row.version, row.schema);
        wrapping::unwrap(&open.root, &self.context, &place, &public, &pair.wrapped)
    }

    /// Opens the symmetric root of a version, if it has one.
    pub(super) fn open_symmetric(
        &self,
        open: &OpenRoot,
        app: &AppName,
        row: &VersionRow,
    ) -> Result<Option<SymmetricRoot>, KeyFault> {
        let place = self.place(app, row.version, row.schema);
        let unwrap = |stored: &SymmetricRow| wrapping::unwrap_symmetric(&open.root, &place, stored.id, &stored.wrapped);
        row.symmetric.as_ref().map(unwrap).transpose()
    }

    /// Opens the keys of a version.
    pub(super) fn open_version(
        &self,
        open: &OpenRoot,
        app: &AppName,
        row: &VersionRow,
    ) -> Result<KeyVersion, StoreError> {
        let pair =
            |curve| self.open_pair(open, app, row, curve).map_err(|fault| damaged(app, row.version, curve, fault));
        Ok(KeyVersion {
            version: row.version,
            created_at: row.created_at,
            state: row.state,
            r1: pair(Curve::P256)?,
            k1: pair(Curve::Secp256k1)?,
            symmetric: self.open_symmetric(open, app, row).map_err(|fault| {
                let (app, version) = (app.clone(), row.version);
                StoreError::DamagedSymmetricKey { app, version, fault }
            })?,
        })
    }

    /// Opens `versions` of an app.
    pub(super) fn open_app(
        &self,
        open: &OpenRoot,
        app: AppRow,
        versions: &[VersionRow],
    ) -> Result<AppKeys, StoreError> {
        let versions =
            versions.iter().map(|row| self.open_version(open, &app.name, row)).collect::<Result<_, StoreError>>()?;
        Ok(AppKeys { name: app.name, disabled: app.disabled, accept: app.accept, versions, canaries: None })
    }
}
