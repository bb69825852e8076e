//! Roles that a client or an API key is limited to, as rows.

use rusqlite::Connection;

use crate::error::Counted;
use crate::model::Roles;
use crate::store::Limits;
use crate::{Error, RoleName};

/// A table of roles by owner.
pub(super) struct RoleTable {
    select: &'static str,
    insert: &'static str,
}

pub(super) const OF_CLIENTS: RoleTable = RoleTable {
    select: "SELECT role FROM client_role WHERE client = ?1",
    insert: "INSERT INTO client_role (client, role) VALUES (?1, ?2)",
};

pub(super) const OF_API_KEYS: RoleTable = RoleTable {
    select: "SELECT role FROM api_key_role WHERE api_key = ?1",
    insert: "INSERT INTO api_key_role (api_key, role) VALUES (?1, ?2)",
};

impl RoleTable {
    /// The roles of an owner.
    pub(super) fn of(&self, connection: &Connection, owner: &str, any_role: bool) -> Result<Roles, Error> {
        if any_role {
            return Ok(Roles::Any);
        }
        let mut statement = connection.prepare(self.select)?;
        let rows = statement.query_map([owner], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        let role =
            |name: &String| RoleName::parse(name).map_err(|_| Error::Inconsistent("a role has a name that is none"));
        Ok(Roles::Only(rows.iter().map(role).collect::<Result<_, _>>()?))
    }

    /// Adds the roles of an owner that has none yet.
    pub(super) fn insert(&self, connection: &Connection, owner: &str, roles: &Roles) -> Result<(), Error> {
        let Roles::Only(roles) = roles else { return Ok(()) };
        let mut insert = connection.prepare(self.insert)?;
        for role in roles {
            insert.execute((owner, role.as_str()))?;
        }
        Ok(())
    }
}

/// Refuses more entries of one grant than there may be.
pub(super) fn check_entries(count: usize, limits: &Limits) -> Result<(), Error> {
    let limit = limits.grant_entry_count_max;
    if count > limit as usize { Err(Error::TooMany { what: Counted::GrantEntries, limit }) } else { Ok(()) }
}

/// How many entries the list of roles has.
pub(super) fn count(roles: &Roles) -> usize {
    match roles {
        Roles::Any => 0,
        Roles::Only(roles) => roles.len(),
    }
}
