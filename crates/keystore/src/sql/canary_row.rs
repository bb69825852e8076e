//! A canary among the rows of an app.

use super::value::SqlRow;
use crate::StoreError;
use crate::canary::{Canary, CanaryDigest};

/// The place of their table in the entry of an app.
pub(super) const CANARIES: usize = 2;

/// A row of `app_canary`.
pub(super) struct CanaryRow {
    pub(super) digest: CanaryDigest,
    pub(super) created_at: u64,
    pub(super) scheme: String,
}

impl CanaryRow {
    pub(super) fn read(row: &SqlRow) -> Result<Self, StoreError> {
        Ok(Self { digest: row.array(1)?, created_at: row.unix_s(2)?, scheme: row.text(3)?.to_owned() })
    }

    pub(super) fn shown(&self) -> Canary {
        Canary { id: Canary::id_of(&self.digest), scheme: self.scheme.clone(), created_at: self.created_at }
    }
}
