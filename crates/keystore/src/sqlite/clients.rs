//! Clients' grants as rows.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension};

use super::Standing;
use super::apps::{self, app_name, unix_s};
use super::roles;
use crate::error::Counted;
use crate::model::{Apps, ClientGrant, NewClient, Operation, Roles};
use crate::store::Limits;
use crate::{AppName, ClientName, Error};

/// A row of `client`.
struct ClientRow {
    name: String,
    created_at: i64,
    disabled: bool,
    may_encrypt: bool,
    may_decrypt: bool,
    all_apps: bool,
    any_role: bool,
    certificate_sha256: Option<[u8; 32]>,
}

const COLUMNS: &str =
    "SELECT name, created_at, disabled, may_encrypt, may_decrypt, all_apps, any_role, certificate_sha256 FROM client";

fn client_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<ClientRow> {
    Ok(ClientRow {
        name: row.get(0)?,
        created_at: row.get(1)?,
        disabled: row.get(2)?,
        may_encrypt: row.get(3)?,
        may_decrypt: row.get(4)?,
        all_apps: row.get(5)?,
        any_role: row.get(6)?,
        certificate_sha256: row.get(7)?,
    })
}

pub(super) fn find(connection: &Connection, client: &ClientName) -> Result<Option<ClientGrant>, Error> {
    connection
        .query_row(&format!("{COLUMNS} WHERE name = ?1"), [client.as_str()], client_row)
        .optional()?
        .map(|row| grant(connection, row))
        .transpose()
}

/// All clients by name.
pub(super) fn all(connection: &Connection) -> Result<Vec<ClientGrant>, Error> {
    let mut statement = connection.prepare(&format!("{COLUMNS} ORDER BY name"))?;
    let rows: Vec<ClientRow> = statement.query_map([], client_row)?.collect::<Result<_, _>>()?;
    rows.into_iter().map(|row| grant(connection, row)).collect()
}

fn grant(connection: &Connection, row: ClientRow) -> Result<ClientGrant, Error> {
    let name = ClientName::parse(&row.name).map_err(|_| Error::Inconsistent("a client has a name that is none"))?;
    let apps = if row.all_apps { Apps::All } else { Apps::Only(listed_apps(connection, &name)?) };
    let roles = roles::OF_CLIENTS.of(connection, name.as_str(), row.any_role)?;
    let operations = [(Operation::Encrypt, row.may_encrypt), (Operation::Decrypt, row.may_decrypt)];
    Ok(ClientGrant {
        name,
        apps,
        operations: operations.into_iter().filter_map(|(operation, may)| may.then_some(operation)).collect(),
        roles,
        certificate_sha256: row.certificate_sha256,
        disabled: row.disabled,
        created_at: unix_s(row.created_at)?,
    })
}

fn listed_apps(connection: &Connection, client: &ClientName) -> Result<BTreeSet<AppName>, Error> {
    let mut statement = connection.prepare("SELECT app FROM client_app WHERE client = ?1")?;
    let rows = statement.query_map([client.as_str()], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    rows.iter().map(|app| app_name(app)).collect()
}

/// Inserts or replaces a grant; date and state of an existing client stay.
pub(super) fn put(
    connection: &Connection,
    client: &NewClient,
    now: i64,
    limits: &Limits,
) -> Result<ClientGrant, Error> {
    check_limits(connection, client, limits)?;
    let may = |operation| client.operations.contains(&operation);
    connection.execute(
        "INSERT INTO client (name, created_at, disabled, may_encrypt, may_decrypt, all_apps, any_role, certificate_sha256)
         VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (name) DO UPDATE SET may_encrypt = excluded.may_encrypt, may_decrypt = excluded.may_decrypt,
             all_apps = excluded.all_apps, any_role = excluded.any_role, certificate_sha256 = excluded.certificate_sha256",
        (
            client.name.as_str(),
            now,
            may(Operation::Encrypt),
            may(Operation::Decrypt),
            client.apps == Apps::All,
            client.roles == Roles::Any,
            client.certificate_sha256,
        ),
    )?;
    put_lists(connection, client)?;
    find(connection, &client.name)?.ok_or(Error::Inconsistent("a client that was just written is missing"))
}

fn put_lists(connection: &Connection, client: &NewClient) -> Result<(), Error> {
    let name = client.name.as_str();
    connection.execute("DELETE FROM client_app WHERE client = ?1", [name])?;
    connection.execute("DELETE FROM client_role WHERE client = ?1", [name])?;
    if let Apps::Only(apps) = &client.apps {
        let mut insert = connection.prepare("INSERT INTO client_app (client, app) VALUES (?1, ?2)")?;
        for app in apps {
            apps::find(connection, app)?.ok_or_else(|| Error::UnknownApp(app.clone()))?;
            insert.execute((name, app.as_str()))?;
        }
    }
    roles::OF_CLIENTS.insert(connection, name, &client.roles)
}

fn check_limits(connection: &Connection, client: &NewClient, limits: &Limits) -> Result<(), Error> {
    let app_count = match &client.apps {
        Apps::All => 0,
        Apps::Only(apps) => apps.len(),
    };
    roles::check_entries(app_count.max(roles::count(&client.roles)), limits)?;
    // Of the others, so that replacing a grant in a full store goes through.
    let others: u32 =
        connection
            .query_row("SELECT count(*) FROM client WHERE name <> ?1", [client.name.as_str()], |row| row.get(0))?;
    let limit = limits.client_count_max;
    if others >= limit {
        let what = Counted::Clients;
        return Err(Error::TooMany { what, limit });
    }
    Ok(())
}

/// Enables or disables a client.
pub(super) fn set_state(connection: &Connection, client: &ClientName, standing: Standing) -> Result<(), Error> {
    let changed = connection.execute(
        "UPDATE client SET disabled = ?2 WHERE name = ?1",
        (client.as_str(), standing == Standing::Disabled),
    )?;
    if changed == 1 { Ok(()) } else { Err(Error::UnknownClient(client.clone())) }
}
