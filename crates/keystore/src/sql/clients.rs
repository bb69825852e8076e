//! Clients' grants as rows.

use std::collections::{BTreeMap, BTreeSet};

use leafseal_errors::Operation;

use super::EnabledState;
use super::apps::{self, app_name};
use super::roles;
use super::value::{Sql, SqlRow, SqlValue, Type, params};
use crate::error::LimitedEntries;
use crate::model::{Apps, ClientGrant, NewClient, Roles};
use crate::store::StoreLimits;
use crate::{AppName, ClientName, RoleName, StoreError};

const CLIENTS: &str = "
    SELECT name, created_at, disabled, may_encrypt, may_decrypt, all_apps, any_role, certificate_sha256 FROM client";

pub(super) fn find(sql: &mut dyn Sql, client: &ClientName) -> Result<Option<ClientGrant>, StoreError> {
    let name = client.as_str();
    let Some(row) = sql.first(&format!("{CLIENTS} WHERE name = ?1"), params![name])? else {
        return Ok(None);
    };
    let apps = sql.rows("SELECT app FROM client_app WHERE client = ?1", params![name])?;
    let apps = apps.iter().map(|row| app_name(row.text(0)?)).collect::<Result<_, _>>()?;
    grant(&row, apps, roles::OF_CLIENTS.of(sql, name)?).map(Some)
}

/// All clients by name, in three queries.
pub(super) fn all(sql: &mut dyn Sql) -> Result<Vec<ClientGrant>, StoreError> {
    let rows = sql.rows(&format!("{CLIENTS} ORDER BY name"), &[])?;
    let mut apps: BTreeMap<String, BTreeSet<AppName>> = BTreeMap::new();
    for row in sql.rows("SELECT client, app FROM client_app", &[])? {
        apps.entry(row.text(0)?.to_owned()).or_default().insert(app_name(row.text(1)?)?);
    }
    let mut roles = roles::OF_CLIENTS.all(sql)?;
    rows.iter()
        .map(|row| {
            let name = row.text(0)?;
            grant(row, apps.remove(name).unwrap_or_default(), roles.remove(name).unwrap_or_default())
        })
        .collect()
}

fn grant(row: &SqlRow, apps: BTreeSet<AppName>, roles: BTreeSet<RoleName>) -> Result<ClientGrant, StoreError> {
    let name = ClientName::parse(row.text(0)?);
    let operations = [(Operation::Encrypt, row.flag(3)?), (Operation::Decrypt, row.flag(4)?)];
    Ok(ClientGrant {
        name: name.map_err(|_| StoreError::Inconsistent("a client has a name that is none"))?,
        created_at: row.unix_s(1)?,
        disabled: row.flag(2)?,
        operations: operations.into_iter().filter_map(|(operation, may)| may.then_some(operation)).collect(),
        apps: if row.flag(5)? { Apps::All } else { Apps::Only(apps) },
        roles: if row.flag(6)? { Roles::Any } else { Roles::Only(roles) },
        certificate_sha256: row.optional_array(7)?,
    })
}

/// Inserts or replaces a grant; date and state of an existing client stay.
pub(super) fn put(
    sql: &mut dyn Sql,
    client: &NewClient,
    now: u64,
    limits: &StoreLimits,
) -> Result<ClientGrant, StoreError> {
    check_limits(sql, client, limits)?;
    let may = |operation| client.operations.contains(&operation);
    sql.execute(
        "INSERT INTO client (name, created_at, disabled, may_encrypt, may_decrypt, all_apps, any_role, certificate_sha256)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (name) DO UPDATE SET may_encrypt = excluded.may_encrypt, may_decrypt = excluded.may_decrypt,
             all_apps = excluded.all_apps, any_role = excluded.any_role, certificate_sha256 = excluded.certificate_sha256",
        params![
            client.name.as_str(),
            now,
            false,
            may(Operation::Encrypt),
            may(Operation::Decrypt),
            client.apps == Apps::All,
            client.roles == Roles::Any,
            SqlValue::optional(client.certificate_sha256, Type::Blob),
        ],
    )?;
    put_lists(sql, client)?;
    find(sql, &client.name)?.ok_or(StoreError::Inconsistent("a client that was just written is missing"))
}

fn put_lists(sql: &mut dyn Sql, client: &NewClient) -> Result<(), StoreError> {
    let name = client.name.as_str();
    sql.execute("DELETE FROM client_app WHERE client = ?1", params![name])?;
    sql.execute("DELETE FROM client_role WHERE client = ?1", params![name])?;
    if let Apps::Only(apps) = &client.apps {
        for app in apps {
            apps::find(sql, app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
            sql.execute("INSERT INTO client_app (client, app) VALUES (?1, ?2)", params![name, app.as_str()])?;
        }
    }
    roles::OF_CLIENTS.insert(sql, name, &client.roles)
}

fn check_limits(sql: &mut dyn Sql, client: &NewClient, limits: &StoreLimits) -> Result<(), StoreError> {
    let app_count = match &client.apps {
        Apps::All => 0,
        Apps::Only(apps) => apps.len(),
    };
    roles::check_entries(app_count.max(roles::count(&client.roles)), limits)?;
    // Of the others, so that replacing a grant in a full store goes through.
    let others = sql.count("SELECT count(*) FROM client WHERE name <> ?1", params![client.name.as_str()])?;
    let limit = limits.client_count_max;
    if others >= limit {
        let what = LimitedEntries::Clients;
        return Err(StoreError::TooMany { what, limit });
    }
    Ok(())
}

/// Enables or disables a client.
pub(super) fn set_state(sql: &mut dyn Sql, client: &ClientName, standing: EnabledState) -> Result<(), StoreError> {
    let disabled = standing == EnabledState::Disabled;
    let changed = sql.execute("UPDATE client SET disabled = ?2 WHERE name = ?1", params![client.as_str(), disabled])?;
    if changed == 1 { Ok(()) } else { Err(StoreError::UnknownClient(client.clone())) }
}
