//! Roles that a client or an API key is limited to, as rows.

use std::collections::{BTreeMap, BTreeSet};

use super::value::{Sql, params};
use crate::error::LimitedEntries;
use crate::model::Roles;
use crate::store::StoreLimits;
use crate::{RoleName, StoreError};

/// A table of roles by owner.
pub(super) struct RoleTable {
    select: &'static str,
    select_all: &'static str,
    insert: &'static str,
}

pub(super) const OF_CLIENTS: RoleTable = RoleTable {
    select: "SELECT role FROM client_role WHERE client = ?1",
    select_all: "SELECT role, client FROM client_role",
    insert: "INSERT INTO client_role (client, role) VALUES (?1, ?2)",
};

pub(super) const OF_API_KEYS: RoleTable = RoleTable {
    select: "SELECT role FROM api_key_role WHERE api_key = ?1",
    select_all: "SELECT role, api_key FROM api_key_role",
    insert: "INSERT INTO api_key_role (api_key, role) VALUES (?1, ?2)",
};

impl RoleTable {
    /// The roles of an owner.
    pub(super) fn of(&self, sql: &mut dyn Sql, owner: &str) -> Result<BTreeSet<RoleName>, StoreError> {
        sql.rows(self.select, params![owner])?.iter().map(|row| role(row.text(0)?)).collect()
    }

    /// The roles of every owner that has some, in one query.
    pub(super) fn all(&self, sql: &mut dyn Sql) -> Result<BTreeMap<String, BTreeSet<RoleName>>, StoreError> {
        let mut roles: BTreeMap<String, BTreeSet<RoleName>> = BTreeMap::new();
        for row in sql.rows(self.select_all, &[])? {
            roles.entry(row.text(1)?.to_owned()).or_default().insert(role(row.text(0)?)?);
        }
        Ok(roles)
    }

    /// Adds the roles of an owner that has none yet.
    pub(super) fn insert(&self, sql: &mut dyn Sql, owner: &str, roles: &Roles) -> Result<(), StoreError> {
        let Roles::Only(roles) = roles else { return Ok(()) };
        for role in roles {
            sql.execute(self.insert, params![owner, role.as_str()])?;
        }
        Ok(())
    }
}

fn role(stored: &str) -> Result<RoleName, StoreError> {
    RoleName::parse(stored).map_err(|_| StoreError::Inconsistent("a role has a name that is none"))
}

/// Refuses more entries of one grant than there may be.
pub(super) fn check_entries(count: usize, limits: &StoreLimits) -> Result<(), StoreError> {
    let limit = limits.grant_entry_count_max;
    if count > limit as usize { Err(StoreError::TooMany { what: LimitedEntries::GrantEntries, limit }) } else { Ok(()) }
}

/// How many entries the list of roles has.
pub(super) fn count(roles: &Roles) -> usize {
    match roles {
        Roles::Any => 0,
        Roles::Only(roles) => roles.len(),
    }
}
