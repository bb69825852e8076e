//! Apps and key versions as rows.

use fieldseal_crypto::{CryptoRng, Curve, PrivateKey, PublicKey};
use rusqlite::{Connection, OptionalExtension};

use super::{SqliteKeystore, Standing};
use crate::error::{Counted, KeyFault};
use crate::model::{AppKeys, AppSummary, KeyPair, KeyState, KeyVersion, NewKeys, VersionSummary};
use crate::wrapping::{self, Place, UnwrapError};
use crate::{AppName, Error};

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
pub(super) enum Selection {
    All,
    Active,
    One(u32),
}

impl Selection {
    /// The one version that is wanted, if it is one.
    fn number(self) -> Option<u32> {
        match self {
            Selection::One(version) => Some(version),
            Selection::All | Selection::Active => None,
        }
    }
}

/// A row of `key_pair`.
pub(super) struct PairRow {
    public: Vec<u8>,
    wrapped: Vec<u8>,
}

impl VersionRow {
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

/// Unix seconds as SQLite's signed integers; a negative one is a tampered one.
pub(super) fn unix_s(stored: i64) -> Result<u64, Error> {
    u64::try_from(stored).map_err(|_| Error::Inconsistent("a date lies before 1970"))
}

pub(super) fn app_name(stored: &str) -> Result<AppName, Error> {
    AppName::parse(stored).map_err(|_| Error::Inconsistent("an app has a name that is none"))
}

type StoredApp = (String, i64, bool);

fn stored_app(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredApp> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn app_row((name, created_at, disabled): StoredApp) -> Result<AppRow, Error> {
    Ok(AppRow { name: app_name(&name)?, created_at: unix_s(created_at)?, disabled })
}

pub(super) fn find(connection: &Connection, app: &AppName) -> Result<Option<AppRow>, Error> {
    connection
        .query_row("SELECT name, created_at, disabled FROM app WHERE name = ?1", [app.as_str()], stored_app)
        .optional()?
        .map(app_row)
        .transpose()
}

/// All apps by name.
pub(super) fn all(connection: &Connection) -> Result<Vec<AppRow>, Error> {
    let mut statement = connection.prepare("SELECT name, created_at, disabled FROM app ORDER BY name")?;
    let rows: Vec<StoredApp> = statement.query_map([], stored_app)?.collect::<Result<_, _>>()?;
    rows.into_iter().map(app_row).collect()
}

/// The versions of an app, newest first. A missing key pair shows as `None` instead of hiding its version.
///
/// Those that are not wanted are left out by the query, so that one which does not even read harms no other.
pub(super) fn versions(connection: &Connection, app: &AppName, selection: Selection) -> Result<Vec<VersionRow>, Error> {
    let mut statement = connection.prepare(
        "SELECT v.version, v.created_at, v.disabled, r1.public_key, r1.wrapped_private_key, k1.public_key,
                k1.wrapped_private_key
         FROM key_version AS v
         LEFT JOIN key_pair AS r1 ON r1.app = v.app AND r1.version = v.version AND r1.curve = 'r1'
         LEFT JOIN key_pair AS k1 ON k1.app = v.app AND k1.version = v.version AND k1.curve = 'k1'
         WHERE v.app = ?1 AND (?2 OR v.disabled = 0) AND (?3 IS NULL OR v.version = ?3) ORDER BY v.version DESC",
    )?;
    let mut rows = statement.query((app.as_str(), selection != Selection::Active, selection.number()))?;
    let mut versions = Vec::new();
    while let Some(row) = rows.next()? {
        let pair = |index: usize| -> rusqlite::Result<Option<PairRow>> {
            let public: Option<Vec<u8>> = row.get(index)?;
            let wrapped: Option<Vec<u8>> = row.get(index + 1)?;
            Ok(public.zip(wrapped).map(|(public, wrapped)| PairRow { public, wrapped }))
        };
        versions.push(VersionRow {
            version: row.get(0)?,
            created_at: unix_s(row.get(1)?)?,
            state: state(row.get(2)?),
            r1: pair(3)?,
            k1: pair(5)?,
        });
    }
    Ok(versions)
}

/// One version of an app, in any state.
pub(super) fn version(connection: &Connection, app: &AppName, version: u32) -> Result<VersionRow, Error> {
    if let Some(row) = versions(connection, app, Selection::One(version))?.pop() {
        return Ok(row);
    }
    Err(missing_version(connection, app, version)?)
}

/// Why a version is not there.
fn missing_version(connection: &Connection, app: &AppName, version: u32) -> Result<Error, Error> {
    find(connection, app)?.ok_or_else(|| Error::UnknownApp(app.clone()))?;
    let app = app.clone();
    Ok(Error::UnknownVersion { app, version })
}

pub(super) fn summary(connection: &Connection, row: AppRow) -> Result<AppSummary, Error> {
    let versions = versions(connection, &row.name, Selection::All)?
        .iter()
        .map(|version| version_summary(&row.name, version))
        .collect::<Result<_, _>>()?;
    Ok(AppSummary { name: row.name, created_at: row.created_at, disabled: row.disabled, versions })
}

fn version_summary(app: &AppName, row: &VersionRow) -> Result<VersionSummary, Error> {
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

fn damaged(app: &AppName, version: u32, curve: Curve, fault: KeyFault) -> Error {
    let app = app.clone();
    Error::DamagedKey { app, version, curve, fault }
}

/// Enables or disables a whole app.
pub(super) fn set_state(connection: &Connection, app: &AppName, standing: Standing) -> Result<(), Error> {
    let changed = connection
        .execute("UPDATE app SET disabled = ?2 WHERE name = ?1", (app.as_str(), standing == Standing::Disabled))?;
    if changed == 1 { Ok(()) } else { Err(Error::UnknownApp(app.clone())) }
}

/// Enables or disables one version.
pub(super) fn set_version_state(
    connection: &Connection,
    app: &AppName,
    version: u32,
    state: KeyState,
) -> Result<(), Error> {
    let changed = connection.execute(
        "UPDATE key_version SET disabled = ?3 WHERE app = ?1 AND version = ?2",
        (app.as_str(), version, state == KeyState::Disabled),
    )?;
    if changed == 1 { Ok(()) } else { Err(missing_version(connection, app, version)?) }
}

/// Whether `version` is active and no other version of the app is.
pub(super) fn is_last_active(connection: &Connection, app: &AppName, version: u32) -> Result<bool, Error> {
    let mut statement =
        connection.prepare("SELECT version FROM key_version WHERE app = ?1 AND disabled = 0 LIMIT 2")?;
    let active: Vec<u32> = statement.query_map([app.as_str()], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(active == [version])
}

/// Which app and version hold a public key.
fn holder(connection: &Connection, public: &PublicKey) -> Result<Option<(AppName, u32)>, Error> {
    let found: Option<(String, u32)> = connection
        .query_row(
            "SELECT app, version FROM key_pair WHERE public_key = ?1",
            [public.uncompressed().as_slice()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    found.map(|(app, version)| Ok((app_name(&app)?, version))).transpose()
}

impl SqliteKeystore {
    fn place<'a>(&self, app: &'a AppName, version: u32) -> Place<'a> {
        let store = self.id;
        Place { store, app, version }
    }

    /// Inserts an app with its first version.
    pub(super) fn insert_app(
        &self,
        connection: &Connection,
        app: &AppName,
        keys: NewKeys,
        rng: &mut dyn CryptoRng,
    ) -> Result<AppSummary, Error> {
        if find(connection, app)?.is_some() {
            return Err(Error::AppExists(app.clone()));
        }
        let count: u32 = connection.query_row("SELECT count(*) FROM app", [], |row| row.get(0))?;
        let limit = self.limits.app_count_max;
        if count >= limit {
            let what = Counted::Apps;
            return Err(Error::TooMany { what, limit });
        }
        let now = self.now();
        connection.execute("INSERT INTO app (name, created_at, disabled) VALUES (?1, ?2, 0)", (app.as_str(), now))?;
        let first = self.insert_version(connection, self.place(app, 1), now, keys, rng)?;
        Ok(AppSummary { name: app.clone(), created_at: first.created_at, disabled: false, versions: vec![first] })
    }

    /// Inserts the version after the newest.
    pub(super) fn append_version(
        &self,
        connection: &Connection,
        app: &AppName,
        keys: NewKeys,
        rng: &mut dyn CryptoRng,
    ) -> Result<VersionSummary, Error> {
        find(connection, app)?.ok_or_else(|| Error::UnknownApp(app.clone()))?;
        // Versions are never deleted, so the newest number is their count too.
        let newest: u32 = connection.query_row(
            "SELECT coalesce(max(version), 0) FROM key_version WHERE app = ?1",
            [app.as_str()],
            |row| row.get(0),
        )?;
        let limit = self.limits.version_count_max;
        if newest >= limit {
            let what = Counted::Versions;
            return Err(Error::TooMany { what, limit });
        }
        self.insert_version(connection, self.place(app, newest + 1), self.now(), keys, rng)
    }

    fn insert_version(
        &self,
        connection: &Connection,
        place: Place<'_>,
        now: i64,
        keys: NewKeys,
        rng: &mut dyn CryptoRng,
    ) -> Result<VersionSummary, Error> {
        connection.execute(
            "INSERT INTO key_version (app, version, created_at, disabled) VALUES (?1, ?2, ?3, 0)",
            (place.app.as_str(), place.version, now),
        )?;
        let (r1, k1) = keys.into_parts();
        Ok(VersionSummary {
            version: place.version,
            created_at: unix_s(now)?,
            state: KeyState::Active,
            r1: self.insert_pair(connection, &place, Curve::P256, r1, rng)?,
            k1: self.insert_pair(connection, &place, Curve::Secp256k1, k1, rng)?,
        })
    }

    fn insert_pair(
        &self,
        connection: &Connection,
        place: &Place<'_>,
        curve: Curve,
        key: Option<PrivateKey>,
        rng: &mut dyn CryptoRng,
    ) -> Result<PublicKey, Error> {
        let private = key.unwrap_or_else(|| PrivateKey::generate(curve, rng));
        let pair = KeyPair::new(private, &self.context);
        if let Some((app, version)) = holder(connection, pair.public())? {
            return Err(Error::KeyInUse { curve, app, version });
        }
        let wrapped = wrapping::wrap(self.root_key.as_ref(), place, &pair, rng)?;
        connection.execute(
            "INSERT INTO key_pair (app, version, curve, public_key, wrapped_private_key) VALUES (?1, ?2, ?3, ?4, ?5)",
            (place.app.as_str(), place.version, curve.short_name(), pair.public().uncompressed().as_slice(), wrapped),
        )?;
        Ok(*pair.public())
    }

    /// Opens one stored pair.
    pub(super) fn open_pair(&self, app: &AppName, row: &VersionRow, curve: Curve) -> Result<KeyPair, UnwrapError> {
        let pair = row.pair(curve).ok_or(UnwrapError::Key(KeyFault::Missing))?;
        let public = pair.public(curve).map_err(UnwrapError::Key)?;
        let place = self.place(app, row.version);
        wrapping::unwrap(self.root_key.as_ref(), &self.context, &place, &public, &pair.wrapped)
    }

    /// Opens both pairs of a version.
    pub(super) fn open_version(&self, app: &AppName, row: &VersionRow) -> Result<KeyVersion, Error> {
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
    pub(super) fn open_app(&self, app: AppRow, versions: &[VersionRow]) -> Result<AppKeys, Error> {
        let versions = versions.iter().map(|row| self.open_version(&app.name, row)).collect::<Result<_, Error>>()?;
        Ok(AppKeys { name: app.name.clone(), disabled: app.disabled, versions })
    }
}
