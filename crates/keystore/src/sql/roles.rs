//! Roles that a client or an API key is limited to, as rows.

use std::collections::BTreeSet;

use super::value::{SqlRow, params};
use crate::error::LimitedEntries;
use crate::model::Roles;
use crate::store::StoreLimits;
use crate::{RoleName, StoreError};

/// The roles that rows of an owner name in their second column.
pub(super) fn read(rows: &[SqlRow]) -> Result<BTreeSet<RoleName>, StoreError> {
    rows.iter().map(|row| role(row.text(1)?)).collect()
}

/// The rows of an owner.
pub(super) fn rows(owner: &str, roles: &Roles) -> Vec<SqlRow> {
    match roles {
        Roles::Any => Vec::new(),
        Roles::Only(roles) => roles.iter().map(|role| SqlRow(params![owner, role.as_str()].to_vec())).collect(),
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
