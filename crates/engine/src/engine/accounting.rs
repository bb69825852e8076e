//! What requests note for their accounts, and so for their audit records.

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
