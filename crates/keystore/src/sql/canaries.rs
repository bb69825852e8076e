//! Canaries of apps, as rows of their entries, and the key of their digests, which is a secret of the store: it stays the same under every
//! root.

use std::sync::Arc;

use leafseal_crypto::Secret;

use super::api_keys::secret_key;
use super::apps;
use super::canary_row::{CANARIES, CanaryRow};
use super::session::StoreSession;
use super::table::{EntryKind, EntryRows};
use super::value::{SqlRow, params};
use super::{SqlBackend, SqlKeystore};
use crate::canary::{CANARY_COUNT_MAX, CANARY_KEY_SIZE, Canary, CanarySet, StoreCanaries, digest};
use crate::error::LimitedEntries;
use crate::history::{ChangeKind, ChangeNote};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::wrapping::secret_associated_data;
use crate::{AppName, StoreError};

/// The purpose of the secret.
const PURPOSE: &str = "canaries";

fn key(session: &mut StoreSession<'_>) -> Result<Option<Secret<CANARY_KEY_SIZE>>, StoreError> {
    const DAMAGED: StoreError = StoreError::Inconsistent("the key of canaries does not open under the root");
    let Some(rows) = session.entry(&secret_key(PURPOSE))? else { return Ok(None) };
    let aad = secret_associated_data(session.open.tree.store, session.schema, PURPOSE);
    let opened = session.open.root.open(&aad, rows.head()?.blob(1)?).map_err(|_| DAMAGED)?;
    Secret::from_slice(&opened).map(Some).ok_or(DAMAGED)
}

/// The canaries of an app with these rows; `None` if it has none.
pub(super) fn set(session: &mut StoreSession<'_>, rows: &[CanaryRow]) -> Result<Option<Arc<CanarySet>>, StoreError> {
    if rows.is_empty() {
        return Ok(None);
    }
    let key = key(session)?.ok_or(StoreError::Inconsistent("an app has canaries, and the store no key of them"))?;
    Ok(Some(Arc::new(CanarySet::new(key, rows.iter().map(|row| row.digest).collect()))))
}

/// The rows of an app.
fn entry(session: &mut StoreSession<'_>, app: &AppName) -> Result<EntryRows, StoreError> {
    session.entry(&apps::app_key(app))?.ok_or_else(|| StoreError::UnknownApp(app.clone()))
}

impl<B: SqlBackend> SqlKeystore<B> {
    fn canary_key(&self, session: &mut StoreSession<'_>) -> Result<Secret<CANARY_KEY_SIZE>, StoreError> {
        if let Some(key) = key(session)? {
            return Ok(key);
        }
        let mut rng = self.rng();
        let mut key = Secret::zeroed();
        rng.fill_bytes(key.expose_mut());
        let aad = secret_associated_data(session.open.tree.store, session.schema, PURPOSE);
        let sealed = session.open.root.seal(&aad, key.expose(), rng.as_mut());
        let row = SqlRow(params![PURPOSE, sealed].to_vec());
        session.put(&secret_key(PURPOSE), false, &EntryRows(vec![vec![row]]))?;
        Ok(key)
    }
}

impl<B: SqlBackend> StoreCanaries for SqlKeystore<B> {
    fn add_canary(&self, app: &AppName, identity: &[u8], scheme: &str) -> Result<Canary, StoreError> {
        self.change(ChangeNote::of(ChangeKind::AddCanary).app(app), |session| {
            if session.schema < TREE_SCHEMA_VERSION {
                return Err(StoreError::OldSchema { found: session.schema, needed: SCHEMA_VERSION });
            }
            let mut rows = entry(session, app)?;
            rows.0.resize(EntryKind::App.tables_in(session.schema).len(), Vec::new());
            let digest = digest(&self.canary_key(session)?, identity);
            let made = CanaryRow { digest, created_at: self.now(), scheme: scheme.to_owned() };
            for row in &rows.0[CANARIES] {
                let known = CanaryRow::read(row)?;
                if known.digest == digest {
                    return Ok(known.shown());
                }
            }
            if rows.0[CANARIES].len() >= CANARY_COUNT_MAX {
                let limit = CANARY_COUNT_MAX as u32;
                return Err(StoreError::TooMany { what: LimitedEntries::Canaries, limit });
            }
            rows.0[CANARIES].push(SqlRow(params![app.as_str(), digest, made.created_at, scheme].to_vec()));
            session.put(&apps::app_key(app), false, &rows)?;
            session.note(|note| note.detail(&Canary::id_of(&digest)));
            Ok(made.shown())
        })
    }

    fn canaries(&self, app: &AppName) -> Result<Vec<Canary>, StoreError> {
        self.read(|session| {
            let rows = entry(session, app)?;
            let mut canaries: Vec<Canary> = rows
                .rows(CANARIES)
                .iter()
                .map(|row| CanaryRow::read(row).map(|row| row.shown()))
                .collect::<Result<_, _>>()?;
            canaries.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
            Ok(canaries)
        })
    }

    fn remove_canary(&self, app: &AppName, id: &str) -> Result<bool, StoreError> {
        self.change(ChangeNote::of(ChangeKind::RemoveCanary).app(app).detail(id), |session| {
            let mut rows = entry(session, app)?;
            let Some(canaries) = rows.0.get_mut(CANARIES) else { return Ok(false) };
            let before = canaries.len();
            canaries.retain(|row| CanaryRow::read(row).is_ok_and(|row| Canary::id_of(&row.digest) != id));
            if canaries.len() == before {
                return Ok(false);
            }
            session.put(&apps::app_key(app), false, &rows)?;
            Ok(true)
        })
    }
}
