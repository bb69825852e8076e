//! What requests note for their accounts, and so for their audit records.

use std::sync::atomic::Ordering;

use super::Engine;
use crate::error::Error;

impl Engine {
    /// Notes, for the account, a key version with which values are sealed or opened.
    #[inline]
    pub(crate) fn note_version(&self, version: u32) {
        if let Some(account) = self.account() {
            account.add_version(version);
        }
    }

    /// Counts canaries that were opened: 0 as any other number, so that a hit takes no other steps.
    #[inline]
    pub(crate) fn count_canaries(&self, count: u64) {
        self.shared.canaries.fetch_add(count, Ordering::Relaxed);
        if let Some(account) = self.account() {
            account.add_canaries(count);
        }
    }

    /// Notes, for the account, the role of values that are sealed or opened.
    #[inline]
    pub(crate) fn note_role(&self, role: &str) {
        if let Some(account) = self.account() {
            account.add_role(role);
        }
    }

    /// Notes, for the account, that a value was refused because of its role, also if the request goes on without it.
    pub(crate) fn note_refused(&self, role: Option<&str>, refusal: &Error) {
        if let Some(account) = self.account() {
            account.add_refused(role, &refusal.message);
        }
    }
}
