//! Apps and key versions as rows.

use std::collections::BTreeMap;

use leafseal_crypto::{Curve, PrivateKey, PublicKey};

use super::value::{Sql, SqlRow, SqlValue, Type, params};
use super::{EnabledState, SqlBackend, SqlKeystore};
use crate::error::{KeyFault, LimitedEntries};
use crate::model::{AppKeyPair, AppKeys, AppSummary, KeyState, KeyVersion, NewKeys, TrimmedVersion, VersionSummary};
use crate::wrapping::{self, KeyLocation, UnwrapError};
use crate::{AppName, StoreError};

/// A row of `app`.
pub(super) struct AppRow {
    pub(super) name: AppName,
    created_at: u64,
    disabled: bool,
}

/// A row of `key_version` and what belongs to it.
pub(super) struct VersionRow {
    pub(super) version: u32,
    created_at: u64,
    pub(super) state: KeyState,
    r1: Option<PairRow>,
    k1: Option<PairRow>,
}

/// Which versions of an app to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionSelection {
    All,
    Active,
    One(u32),
}

impl VersionSelection {
    /// The one version that is wanted, if it is one.
    fn number(self) -> Option<u32> {
        match self {
            VersionSelection::One(version) => Some(version),
            VersionSelection::All | VersionSelection::Active => None,
        }
    }
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

const APPS: &str = "SELECT name, created_at, disabled FROM app";

fn app_row(row: &SqlRow) -> Result<AppRow, StoreError> {
    Ok(AppRow { name: app_name(row.text(0)?)?, created_at: row.unix_s(1)?, disabled: row.flag(2)? })
}

pub(super) fn find(sql: &mut dyn Sql, app: &AppName) -> Result<Option<AppRow>, StoreError> {
    sql.first(&format!("{APPS} WHERE name = ?1"), params![app.as_str()])?.as_ref().map(app_row).transpose()
}

/// All apps by name.
pub(super) fn all(sql: &mut dyn Sql) -> Result<Vec<AppRow>, StoreError> {
    sql.rows(&format!("{APPS} ORDER BY name"), &[])?.iter().map(app_row).collect()
}

/// A missing key pair shows as nothing instead of hiding its version.
const VERSIONS: &str = "
    SELECT v.app, v.version, v.created_at, v.disabled, r1.public_key, r1.wrapped_private_key, k1.public_key,
           k1.wrapped_private_key
    FROM key_version AS v
    LEFT JOIN key_pair AS r1 ON r1.app = v.app AND r1.version = v.version AND r1.curve = 'r1'
    LEFT JOIN key_pair AS k1 ON k1.app = v.app AND k1.version = v.version AND k1.curve = 'k1'";

fn version_row(row: &SqlRow) -> Result<VersionRow, StoreError> {
    let pair = |index| -> Result<Option<PairRow>, StoreError> {
        let (public, wrapped) = (row.optional_blob(index)?, row.optional_blob(index + 1)?);
        let owned =
            |(public, wrapped): (&[u8], &[u8])| PairRow { public: public.to_owned(), wrapped: wrapped.to_owned() };
        Ok(public.zip(wrapped).map(owned))
    };
    Ok(VersionRow {
        version: row.number(1)?,
        created_at: row.unix_s(2)?,
        state: state(row.flag(3)?),
        r1: pair(4)?,
        k1: pair(6)?,
    })
}

/// The versions of an app, newest first.
///
/// Those that are not wanted are left out by the query, so that one which does not even read harms no other.
pub(super) fn versions(
    sql: &mut dyn Sql,
    app: &AppName,
    selection: VersionSelection,
) -> Result<Vec<VersionRow>, StoreError> {
    let select = format!(
        "{VERSIONS} WHERE v.app = ?1 AND (?2 OR NOT v.disabled) AND (?3 IS NULL OR v.version = ?3)
         ORDER BY v.version DESC"
    );
    let one = SqlValue::optional(selection.number(), Type::Integer);
    sql.rows(&select, params![app.as_str(), selection != VersionSelection::Active, one])?
        .iter()
        .map(version_row)
        .collect()
}

/// All apps by name with their versions, in two queries.
pub(super) fn summaries(sql: &mut dyn Sql) -> Result<Vec<AppSummary>, StoreError> {
    let apps = all(sql)?;
    let mut versions: BTreeMap<String, Vec<VersionRow>> = BTreeMap::new();
    for row in sql.rows(&format!("{VERSIONS} ORDER BY v.app, v.version DESC"), &[])? {
        versions.entry(row.text(0)?.to_owned()).or_default().push(version_row(&row)?);
    }
    apps.into_iter()
        .map(|app| {
            let versions = versions.remove(app.name.as_str()).unwrap_or_default();
            summary_of(app, &versions)
        })
        .collect()
}

/// One version of an app, in any state.
pub(super) fn version(sql: &mut dyn Sql, app: &AppName, version: u32) -> Result<VersionRow, StoreError> {
    if let Some(row) = versions(sql, app, VersionSelection::One(version))?.pop() {
        return Ok(row);
    }
    Err(missing_version(sql, app, version)?)
}

/// Why a version is not there.
fn missing_version(sql: &mut dyn Sql, app: &AppName, version: u32) -> Result<StoreError, StoreError> {
    find(sql, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    let app = app.clone();
    Ok(StoreError::UnknownVersion { app, version })
}

pub(super) fn summary(sql: &mut dyn Sql, row: AppRow) -> Result<AppSummary, StoreError> {
    let versions = versions(sql, &row.name, VersionSelection::All)?;
    summary_of(row, &versions)
}

fn summary_of(row: AppRow, versions: &[VersionRow]) -> Result<AppSummary, StoreError> {
    let (trimmed, versions): (Vec<&VersionRow>, Vec<_>) = versions.iter().partition(|version| version.is_trimmed());
    let versions = versions.into_iter().map(|version| version_summary(&row.name, version)).collect::<Result<_, _>>()?;
    let trimmed_version = |row: &VersionRow| TrimmedVersion { version: row.version, created_at: row.created_at };
    let trimmed = trimmed.into_iter().map(trimmed_version).collect();
    Ok(AppSummary { name: row.name, created_at: row.created_at, disabled: row.disabled, versions, trimmed })
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
    })
}

fn damaged(app: &AppName, version: u32, curve: Curve, fault: KeyFault) -> StoreError {
    let app = app.clone();
    StoreError::DamagedKey { app, version, curve, fault }
}

/// Enables or disables a whole app.
pub(super) fn set_state(sql: &mut dyn Sql, app: &AppName, standing: EnabledState) -> Result<(), StoreError> {
    let disabled = standing == EnabledState::Disabled;
    let changed = sql.execute("UPDATE app SET disabled = ?2 WHERE name = ?1", params![app.as_str(), disabled])?;
    if changed == 1 { Ok(()) } else { Err(StoreError::UnknownApp(app.clone())) }
}

/// Enables or disables one version.
pub(super) fn set_version_state(
    sql: &mut dyn Sql,
    app: &AppName,
    version: u32,
    state: KeyState,
) -> Result<(), StoreError> {
    let changed = sql.execute(
        "UPDATE key_version SET disabled = ?3 WHERE app = ?1 AND version = ?2",
        params![app.as_str(), version, state == KeyState::Disabled],
    )?;
    if changed == 1 { Ok(()) } else { Err(missing_version(sql, app, version)?) }
}

/// Deletes the keys of a disabled version. Its row stays, so that its number is not given again.
pub(super) fn trim(sql: &mut dyn Sql, app: &AppName, number: u32) -> Result<(), StoreError> {
    let row = version(sql, app, number)?;
    let (app_name, is_trimmed) = (app.clone(), row.is_trimmed());
    match row.state {
        KeyState::Active => Err(StoreError::ActiveVersion { app: app_name, version: number }),
        KeyState::Disabled if is_trimmed => Err(StoreError::TrimmedVersion { app: app_name, version: number }),
        KeyState::Disabled => {
            let delete = "DELETE FROM key_pair WHERE app = ?1 AND version = ?2";
            sql.execute(delete, params![app.as_str(), number]).map(drop)
        }
    }
}

/// Whether `version` is active and no other version of the app is.
pub(super) fn is_last_active(sql: &mut dyn Sql, app: &AppName, version: u32) -> Result<bool, StoreError> {
    let select = "SELECT version FROM key_version WHERE app = ?1 AND NOT disabled LIMIT 2";
    let active: Vec<u32> =
        sql.rows(select, params![app.as_str()])?.iter().map(|row| row.number(0)).collect::<Result<_, _>>()?;
    Ok(active == [version])
}

/// Which app and version hold a public key.
fn holder(sql: &mut dyn Sql, public: &PublicKey) -> Result<Option<(AppName, u32)>, StoreError> {
    let select = "SELECT app, version FROM key_pair WHERE public_key = ?1";
    let found = sql.first(select, params![public.uncompressed().as_slice()])?;
    found.map(|row| Ok((app_name(row.text(0)?)?, row.number(1)?))).transpose()
}

/// A pair to write.
pub(crate) struct StoredPair<'a> {
    pub(crate) public: &'a PublicKey,
    /// The private half, encrypted under the root key.
    pub(crate) wrapped: Vec<u8>,
}

/// Inserts an app without versions; `created_at` in Unix seconds.
pub(crate) fn write_app(sql: &mut dyn Sql, app: &AppName, created_at: u64) -> Result<(), StoreError> {
    let insert = "INSERT INTO app (name, created_at, disabled) VALUES (?1, ?2, ?3)";
    sql.execute(insert, params![app.as_str(), created_at, false]).map(drop)
}

/// Inserts a version without its pairs.
pub(crate) fn write_version(
    sql: &mut dyn Sql,
    place: &KeyLocation<'_>,
    created_at: u64,
    state: KeyState,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO key_version (app, version, created_at, disabled) VALUES (?1, ?2, ?3, ?4)";
    let disabled = state == KeyState::Disabled;
    sql.execute(insert, params![place.app.as_str(), place.version, created_at, disabled]).map(drop)
}

/// Inserts one pair of a version.
pub(crate) fn write_pair(sql: &mut dyn Sql, place: &KeyLocation<'_>, pair: &StoredPair<'_>) -> Result<(), StoreError> {
    let curve = pair.public.curve().short_name();
    let public = pair.public.uncompressed();
    sql.execute(
        "INSERT INTO key_pair (app, version, curve, public_key, wrapped_private_key) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![place.app.as_str(), place.version, curve, public.as_slice(), pair.wrapped.as_slice()],
    )
    .map(drop)
}

impl<B: SqlBackend> SqlKeystore<B> {
    fn place<'a>(&self, app: &'a AppName, version: u32) -> KeyLocation<'a> {
        let store = self.id;
        KeyLocation { store, app, version }
    }

    /// Inserts an app with its first version.
    pub(super) fn insert_app(&self, sql: &mut dyn Sql, app: &AppName, keys: NewKeys) -> Result<AppSummary, StoreError> {
        if find(sql, app)?.is_some() {
            return Err(StoreError::AppExists(app.clone()));
        }
        let limit = self.limits.app_count_max;
        if sql.count("SELECT count(*) FROM app", &[])? >= limit {
            let what = LimitedEntries::Apps;
            return Err(StoreError::TooMany { what, limit });
        }
        let now = self.now();
        write_app(sql, app, now)?;
        let first = self.insert_version(sql, self.place(app, 1), now, keys)?;
        Ok(AppSummary {
            name: app.clone(),
            created_at: first.created_at,
            disabled: false,
            versions: vec![first],
            trimmed: vec![],
        })
    }

    /// Inserts the version after the newest.
    pub(super) fn append_version(
        &self,
        sql: &mut dyn Sql,
        app: &AppName,
        keys: NewKeys,
    ) -> Result<VersionSummary, StoreError> {
        find(sql, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
        let select = "SELECT count(DISTINCT version) FROM key_pair WHERE app = ?1";
        let limit = self.limits.version_count_max;
        if sql.count(select, params![app.as_str()])? >= limit {
            let what = LimitedEntries::Versions;
            return Err(StoreError::TooMany { what, limit });
        }
        // The rows of trimmed versions stay, so that no number is given twice.
        let select = "SELECT coalesce(max(version), 0) FROM key_version WHERE app = ?1";
        let newest = sql.count(select, params![app.as_str()])?;
        self.insert_version(sql, self.place(app, newest + 1), self.now(), keys)
    }

    fn insert_version(
        &self,
        sql: &mut dyn Sql,
        place: KeyLocation<'_>,
        now: u64,
        keys: NewKeys,
    ) -> Result<VersionSummary, StoreError> {
        write_version(sql, &place, now, KeyState::Active)?;
        let (r1, k1) = keys.into_parts();
        Ok(VersionSummary {
            version: place.version,
            created_at: now,
            state: KeyState::Active,
            r1: self.insert_pair(sql, &place, Curve::P256, r1)?,
            k1: self.insert_pair(sql, &place, Curve::Secp256k1, k1)?,
        })
    }

    fn insert_pair(
        &self,
        sql: &mut dyn Sql,
        place: &KeyLocation<'_>,
        curve: Curve,
        key: Option<PrivateKey>,
    ) -> Result<PublicKey, StoreError> {
        let mut rng = self.rng();
        let private = key.unwrap_or_else(|| PrivateKey::generate(curve, rng.as_mut()));
        let pair = AppKeyPair::new(private, &self.context);
        if let Some((app, version)) = holder(sql, pair.public())? {
            return Err(StoreError::KeyInUse { curve, app, version });
        }
        let wrapped = wrapping::wrap(self.root_key.as_ref(), place, &pair, rng.as_mut())?;
        write_pair(sql, place, &StoredPair { public: pair.public(), wrapped })?;
        Ok(*pair.public())
    }

    /// Opens one stored pair.
    pub(super) fn open_pair(&self, app: &AppName, row: &VersionRow, curve: Curve) -> Result<AppKeyPair, UnwrapError> {
        let pair = row.pair(curve).ok_or(UnwrapError::Key(KeyFault::Missing))?;
        let public = pair.public(curve).map_err(UnwrapError::Key)?;
        let place = self.place(app, row.version);
        wrapping::unwrap(self.root_key.as_ref(), &self.context, &place, &public, &pair.wrapped)
    }

    /// Opens both pairs of a version.
    pub(super) fn open_version(&self, app: &AppName, row: &VersionRow) -> Result<KeyVersion, StoreError> {
        let open = |curve| {
            self.open_pair(app, row, curve).map_err(|error| match error {
                UnwrapError::Key(fault) => damaged(app, row.version, curve, fault),
                UnwrapError::RootKey(error) => error.into(),
            })
        };
        Ok(KeyVersion {
            version: row.version,
            created_at: row.created_at,
            state: row.state,
            r1: open(Curve::P256)?,
            k1: open(Curve::Secp256k1)?,
        })
    }

    /// Opens `versions` of an app.
    pub(super) fn open_app(&self, app: AppRow, versions: &[VersionRow]) -> Result<AppKeys, StoreError> {
        let versions =
            versions.iter().map(|row| self.open_version(&app.name, row)).collect::<Result<_, StoreError>>()?;
        Ok(AppKeys { name: app.name.clone(), disabled: app.disabled, versions })
    }
}
