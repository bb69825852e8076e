//! Extracts the keys of some apps to a store of their own, for a process on another machine that must not have the keys of other apps.
//!
//! An extract is a store with its own id and root key, so neither store opens with the other's root key. Later extracts of the same store
//! under the same root key have the same id. An extract contains no clients, no API keys and no token secret. Disabled versions keep their
//! number, but not their private keys, and trimmed ones their number alone.

use std::collections::BTreeSet;
use std::path::Path;

use leafseal_crypto::{CryptoRng, Curve, PublicKey};

use crate::copying::StoreAddress;
use crate::history::{ChangeKind, ChangeNote};
use crate::memory::{GENERATION_MASK, generation_at};
use crate::model::{AppKeyPair, AppKeys, AppSummary, CheckReport, KeyState, TrimmedVersion, VersionSummary};
use crate::postgres::PostgresKeystore;
use crate::root_key::StoreRoot;
use crate::sql::apps::{self, StoredPair, StoredVersion};
use crate::sql::change_record::ChangeRecord;
use crate::sql::schema::NewStore;
use crate::sql::session::StoreSession;
use crate::sql::slots::OpenRoot;
use crate::sql::{OpenMode, SqlBackend, SqlKeystore};
use crate::sqlite::SqliteKeystore;
use crate::store::{Environment, Keystore, StoreLimits};
use crate::store_id::StoreId;
use crate::wrapping::{self, KeyLocation};
use crate::{AppName, StoreError};
use leafseal_crypto::symmetric::SymmetricRoot;

/// The result of an extraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Versions without their private keys, because they are disabled.
    pub left_out_count: usize,
    /// The check of the extract, for which every private key was opened.
    pub report: CheckReport,
}

/// Creates a store at `to` with `apps` of the store at `from`, under the root key of `of_extract`. Atomic: on failure there is no store.
/// The extract does not follow later changes of the original.
///
/// `of_original` opens the original. `of_extract` is called each time the extract is opened, first after all checks have passed, so that it
/// may create the root key.
///
/// # Errors
/// [`Error::UnknownApp`], [`Error::DisabledApp`], [`Error::NotEmpty`] when there is something at `to`, [`Error::Busy`] when an app was
/// changed in the same moment; and those of opening.
pub fn extract_apps(
    from: &StoreAddress<'_>,
    of_original: Environment,
    to: &Path,
    apps: &BTreeSet<AppName>,
    of_extract: impl Fn() -> Result<Environment, StoreError>,
    limits: StoreLimits,
) -> Result<Extracted, StoreError> {
    let (original, generation, apps) = match from {
        StoreAddress::File(path) => read(&SqliteKeystore::open(path, OpenMode::Existing, of_original, limits)?, apps),
        StoreAddress::Database(settings) => {
            read(&PostgresKeystore::open(settings, OpenMode::Existing, of_original, limits)?, apps)
        }
    }?;
    SqliteKeystore::prepare_new(to, &limits)?;
    let Environment { providers, clock, mut rng, author } = of_extract()?;
    let key = providers.iter().find_map(|provider| provider.root_without_slots()).ok_or(StoreError::NoSlots)?;
    let id = original.of_extract(key.id());
    // The same for later extracts, so that engines which have an earlier one open may take it.
    let root = StoreRoot::from_bytes(key.derive(&[EXTRACT_ROOT, &id.0].concat()));
    // It may take the place of an earlier extract, for programs that refuse an older state.
    let generation = generation_at(clock.now_unix_s()) + (generation & GENERATION_MASK);
    let new = NewStore::with_root(OpenRoot::new(root, 1, id), &providers, clock.now_unix_s(), rng.as_mut())?;
    let record = Some(ChangeRecord::first(author, clock.now_unix_s()));
    let new = NewStore { generation, record, ..new };
    SqliteKeystore::create_with(to, &new, &limits, |session| {
        apps.iter().try_for_each(|app| app.write(session, id, rng.as_mut()))
    })?;
    let report = SqliteKeystore::open(to, OpenMode::Existing, of_extract()?, limits)?.check()?;
    Ok(Extracted { left_out_count: apps.iter().map(ExtractedApp::left_out_count).sum(), report })
}

/// The id of a store, its generation, and some of its apps.
fn read<B: SqlBackend>(
    store: &SqlKeystore<B>,
    apps: &BTreeSet<AppName>,
) -> Result<(StoreId, i64, Vec<ExtractedApp>), StoreError> {
    let note = ChangeNote::of(ChangeKind::Extract).list(apps);
    store.record_reading(if let Some(app) = apps.first().filter(|_| apps.len() == 1) {
        note.app(app)
    } else {
        note
    })?;
    let generation = store.generation()?.changes.cast_signed();
    let apps = apps.iter().map(|app| ExtractedApp::read(store, app)).collect::<Result<_, _>>()?;
    Ok((store.id, generation, apps))
}

/// What the root of an extract is derived with, from the root key of the extract.
const EXTRACT_ROOT: &[u8] = b"leafseal-extract-root-1 ";

/// An app to write.
struct ExtractedApp {
    /// All versions with their public keys.
    summary: AppSummary,
    /// The active ones with their private keys.
    keys: AppKeys,
}

impl ExtractedApp {
    fn read(from: &dyn Keystore, name: &AppName) -> Result<Self, StoreError> {
        let unknown = || StoreError::UnknownApp(name.clone());
        let mut summary = from.app_summary(name)?.ok_or_else(unknown)?;
        // Read after the summary, so it determines the active versions; a version added in between is not in the summary.
        let keys = from.load_app(name)?.ok_or_else(unknown)?;
        if keys.disabled {
            return Err(StoreError::DisabledApp(name.clone()));
        }
        for version in &mut summary.versions {
            let is_active = keys.versions.iter().any(|active| active.version == version.version);
            version.state = if is_active { KeyState::Active } else { KeyState::Disabled };
        }
        let app = Self { summary, keys };
        if app.left_out_count() == app.summary.versions.len() { Err(StoreError::Busy) } else { Ok(app) }
    }

    fn left_out_count(&self) -> usize {
        self.summary.versions.iter().filter(|version| version.state == KeyState::Disabled).count()
    }

    fn pair(&self, version: u32, curve: Curve) -> Option<&AppKeyPair> {
        self.keys.versions.iter().find(|active| active.version == version).map(|active| active.pair(curve))
    }

    fn symmetric(&self, version: u32) -> Option<&SymmetricRoot> {
        self.keys.versions.iter().find(|active| active.version == version)?.symmetric.as_ref()
    }

    fn write(&self, session: &mut StoreSession<'_>, store: StoreId, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        let (app, schema, root) = (&self.summary.name, session.schema, &session.open.root);
        apps::write_app(session, app, self.summary.created_at, self.summary.accept)?;
        for &TrimmedVersion { version, created_at } in &self.summary.trimmed {
            apps::write_version(session, app, &StoredVersion::without_keys(version, created_at))?;
        }
        // The oldest first, as they were made.
        for version in self.summary.versions.iter().rev() {
            let place = KeyLocation { store, schema, app, version: version.version };
            let mut wrap = |public: PublicKey| {
                let wrapped = match self.pair(version.version, public.curve()) {
                    Some(pair) => wrapping::wrap(root, &place, pair, rng),
                    None => wrapping::wrap_nothing(root, &place, &public, rng),
                };
                Ok(StoredPair { public, wrapped })
            };
            let pairs = [version.r1, version.k1].into_iter().map(&mut wrap).collect::<Result<_, StoreError>>()?;
            let &VersionSummary { version, created_at, state, symmetric, .. } = version;
            let symmetric = symmetric.map(|id| {
                let opened = self.symmetric(version);
                (id, wrapping::wrap_symmetric(root, &place, (id, opened), rng))
            });
            apps::write_version(session, app, &StoredVersion { version, created_at, state, pairs, symmetric })?;
        }
        Ok(())
    }
}
