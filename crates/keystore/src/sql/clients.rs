//! Clients' grants as rows.

use std::collections::{BTreeMap, BTreeSet};

use leafseal_errors::Operation;

use super::EnabledState;
use super::accepted;
use super::apps::{self, app_name};
use super::bounds;
use super::roles;
use super::session::StoreSession;
use super::table::{EntryKey, EntryKind, EntryRows, REPLACED_COUNT_MAX};
use super::value::{SqlRow, SqlValue, Type, params};
use crate::error::LimitedEntries;
use crate::model::{Apps, ClientGrant, NewClient, ReplacedCertificate, Roles};
use crate::schema_version::{SCHEMA_VERSION, TREE_SCHEMA_VERSION};
use crate::store::StoreLimits;
use crate::{AppName, ClientName, StoreError};

/// The column of `client` with the newest certificate, and the rows of an entry with those that it replaced.
const CERTIFICATE: usize = 7;
const REPLACED: usize = 3;
/// The table of an entry with what is accepted.
const ACCEPT: usize = 4;

fn key(client: &ClientName) -> EntryKey {
    EntryKey::new(EntryKind::Client, client.as_str(), 0)
}

pub(super) fn find(session: &mut StoreSession<'_>, client: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
    session.entry(&key(client))?.as_ref().map(grant).transpose()
}

/// All clients by name.
pub(super) fn all(session: &mut StoreSession<'_>) -> Result<Vec<ClientGrant>, StoreError> {
    session.all(EntryKind::Client)?.values().map(grant).collect()
}

/// Reads entries as the database has them, and returns their number.
pub(super) fn read_stored(entries: &BTreeMap<EntryKey, EntryRows>) -> Result<usize, StoreError> {
    entries.values().try_for_each(|rows| grant(rows).map(drop))?;
    Ok(entries.len())
}

fn grant(rows: &EntryRows) -> Result<ClientGrant, StoreError> {
    let row = rows.head()?;
    let apps = rows.rows(1).iter().map(|row| app_name(row.text(1)?)).collect::<Result<BTreeSet<AppName>, _>>()?;
    let name = ClientName::parse(row.text(0)?);
    let operations = [(Operation::Encrypt, row.flag(3)?), (Operation::Decrypt, row.flag(4)?)];
    Ok(ClientGrant {
        name: name.map_err(|_| StoreError::Inconsistent("a client has a name that is none"))?,
        created_at: row.unix_s(1)?,
        disabled: row.flag(2)?,
        operations: operations.into_iter().filter_map(|(operation, may)| may.then_some(operation)).collect(),
        apps: if row.flag(5)? { Apps::All } else { Apps::Only(apps) },
        roles: if row.flag(6)? { Roles::Any } else { Roles::Only(roles::read(rows.rows(2))?) },
        accept: accepted::read(rows, ACCEPT)?,
        certificate_sha256: row.optional_array(CERTIFICATE)?,
        replaced_certificates: rows.rows(REPLACED).iter().map(replaced).collect::<Result<_, _>>()?,
    })
}

fn replaced(row: &SqlRow) -> Result<ReplacedCertificate, StoreError> {
    Ok(ReplacedCertificate { sha256: row.array(1)?, accepted_until: row.unix_s(2)? })
}

/// Inserts or replaces a grant; date and state of an existing client stay.
pub(super) fn put(
    session: &mut StoreSession<'_>,
    client: &NewClient,
    now: u64,
    limits: &StoreLimits,
) -> Result<ClientGrant, StoreError> {
    check_limits(session, client, limits)?;
    let before = find(session, &client.name)?;
    let (created_at, disabled) = before.map_or((now, false), |known| (known.created_at, known.disabled));
    let may = |operation| client.operations.contains(&operation);
    let head = params![
        client.name.as_str(),
        created_at,
        disabled,
        may(Operation::Encrypt),
        may(Operation::Decrypt),
        client.apps == Apps::All,
        client.roles == Roles::Any,
        SqlValue::optional(client.certificate_sha256, Type::Blob),
    ];
    let name = client.name.as_str();
    let mut rows =
        EntryRows(vec![vec![SqlRow(head.to_vec())], app_rows(session, client)?, roles::rows(name, &client.roles)]);
    // Only the certificate of this grant is accepted from now on.
    rows.0.resize(EntryKind::Client.tables_in(session.schema).len(), Vec::new());
    accepted::put(&mut rows, ACCEPT, (name, client.accept), session.schema)?;
    session.put(&key(&client.name), false, &rows)?;
    grant(&rows)
}

fn app_rows(session: &mut StoreSession<'_>, client: &NewClient) -> Result<Vec<SqlRow>, StoreError> {
    let Apps::Only(apps) = &client.apps else { return Ok(Vec::new()) };
    let mut rows = Vec::with_capacity(apps.len());
    for app in apps {
        apps::find(session, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
        rows.push(SqlRow(params![client.name.as_str(), app.as_str()].to_vec()));
    }
    Ok(rows)
}

fn check_limits(session: &mut StoreSession<'_>, client: &NewClient, limits: &StoreLimits) -> Result<(), StoreError> {
    let app_count = match &client.apps {
        Apps::All => 0,
        Apps::Only(apps) => apps.len(),
    };
    roles::check_entries(app_count.max(roles::count(&client.roles)), limits)?;
    // Of the others, so that replacing a grant in a full store goes through.
    let limit = limits.client_count_max;
    if bounds::other_client_count(session.sql, &client.name)? >= limit {
        let what = LimitedEntries::Clients;
        return Err(StoreError::TooMany { what, limit });
    }
    Ok(())
}

/// Accepts `certificate_sha256` in place of the newest certificate, which is accepted until a time, too, as are those before it.
pub(super) fn renew(
    session: &mut StoreSession<'_>,
    client: &ClientName,
    certificate_sha256: [u8; 32],
    old_until: u64,
    now: u64,
) -> Result<ClientGrant, StoreError> {
    if session.schema < TREE_SCHEMA_VERSION {
        return Err(StoreError::OldSchema { found: session.schema, needed: SCHEMA_VERSION });
    }
    let key = key(client);
    let mut rows = session.entry(&key)?.ok_or_else(|| StoreError::UnknownClient(client.clone()))?;
    let before = grant(&rows)?;
    if let Some(pinned) = before.certificate_sha256 {
        let newest = ReplacedCertificate { sha256: pinned, accepted_until: old_until };
        let mut kept: Vec<ReplacedCertificate> = before.replaced_certificates;
        kept.retain(|it| it.accepted_until >= now && ![pinned, certificate_sha256].contains(&it.sha256));
        if old_until >= now && pinned != certificate_sha256 {
            kept.push(newest);
        }
        // Whichever is in use: none is dropped for a newer one, which perhaps nobody has.
        if kept.len() > REPLACED_COUNT_MAX {
            return Err(StoreError::ReplacedCertificates(client.clone()));
        }
        kept.sort_by_key(|it| std::cmp::Reverse(it.accepted_until));
        let row = |it: &ReplacedCertificate| {
            SqlRow(params![client.as_str(), SqlValue::from(it.sha256.to_vec()), it.accepted_until].to_vec())
        };
        rows.0[REPLACED] = kept.iter().map(row).collect();
        rows.head_mut()?.0[CERTIFICATE] = SqlValue::from(certificate_sha256.to_vec());
        session.put(&key, false, &rows)?;
    }
    grant(&rows)
}

/// Takes an app that is deleted out of every grant. `clients`: all of them.
pub(super) fn forget_app(
    session: &mut StoreSession<'_>,
    app: &AppName,
    clients: BTreeMap<EntryKey, EntryRows>,
) -> Result<(), StoreError> {
    let is_of_app = |row: &SqlRow| row.text(1).is_ok_and(|name| name == app.as_str());
    for (key, mut rows) in clients.into_iter().filter(|(_, rows)| rows.rows(1).iter().any(is_of_app)) {
        rows.0[1].retain(|row| !is_of_app(row));
        session.put(&key, false, &rows)?;
    }
    Ok(())
}

/// Enables or disables a client.
pub(super) fn set_state(
    session: &mut StoreSession<'_>,
    client: &ClientName,
    standing: EnabledState,
) -> Result<(), StoreError> {
    let key = key(client);
    let mut rows = session.entry(&key)?.ok_or_else(|| StoreError::UnknownClient(client.clone()))?;
    rows.head_mut()?.0[2] = SqlValue::Flag(standing == EnabledState::Disabled);
    session.put(&key, false, &rows)
}
