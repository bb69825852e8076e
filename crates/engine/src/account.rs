//! What one request has done, for its audit record: who it was from, which app, how many values, under which key versions and roles.
//! Whoever works on the request adds to it; nothing of it is a value, a context or a selector.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use leafseal_errors::{Decision, Operation, Principal, Question};

use crate::counters::{ValueCounts, ValueTotals};

/// Key versions, and roles, that a record names; of more it says that there were more.
pub const NAMED_MAX: usize = 16;

/// The account of one request, shared by all who work on it.
#[derive(Debug, Default)]
pub struct RequestAccount {
    caller: OnceLock<AccountedCaller>,
    sealed: ValueTotals,
    opened: ValueTotals,
    canaries: AtomicU64,
    /// The version that was noted last, with a mark that there is one: most requests have one.
    last_version: AtomicU64,
    versions: Mutex<Named<u32>>,
    roles: SeenRoles,
    /// Values that were refused because of their role, with the first reason.
    refused: AtomicU64,
    refused_roles: Mutex<Named<String>>,
    refusal: OnceLock<String>,
}

/// Roles without a lock: most values have one that was seen before.
#[derive(Debug, Default)]
struct SeenRoles {
    first: [OnceLock<String>; NAMED_MAX],
    has_more: AtomicBool,
}

impl SeenRoles {
    fn add(&self, role: &str) {
        let is_known = |place: &OnceLock<String>| place.get_or_init(|| role.to_owned()) == role;
        if !self.first.iter().any(is_known) {
            self.has_more.store(true, Ordering::Relaxed);
        }
    }

    fn names(&self) -> Named<String> {
        let mut names: Vec<String> = self.first.iter().map_while(OnceLock::get).cloned().collect();
        names.sort_unstable();
        Named { names, has_more: self.has_more.load(Ordering::Relaxed) }
    }
}

/// Who a request was from, and what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountedCaller {
    /// As [`Principal::kind`].
    pub kind: &'static str,
    /// The name in the client's certificate.
    pub client: Option<String>,
    /// SHA-256 of the certificate.
    pub certificate_sha256: Option<[u8; 32]>,
    /// The id of the API key.
    pub key: Option<String>,
    /// The id of the token.
    pub token: Option<String>,
    /// Where it is, if that is known.
    pub address: Option<IpAddr>,
    /// As [`leafseal_errors::EntryPoint::as_str`].
    pub entry_point: &'static str,
    /// The app, if one of that name could exist.
    pub app: Option<String>,
    /// What was to be done.
    pub operations: Vec<Operation>,
    /// What was decided first.
    pub question: Question,
    /// The reason of a refusal.
    pub refusal: Option<String>,
}

impl AccountedCaller {
    /// Whether nothing proves who it is: it has shown nothing, or what it has shown was refused, as a wrong API key that a relay brings.
    pub fn is_stranger(&self) -> bool {
        let is_refused_identity = self.question == Question::Identity && self.refusal.is_some();
        is_refused_identity || self.kind == Principal::Anonymous.kind()
    }

    /// Those of a decision.
    pub fn of(decision: &Decision<'_>) -> Self {
        let principal = decision.principal;
        let certificate_sha256 = match principal {
            Principal::Client { certificate_sha256, .. } => Some(certificate_sha256),
            _ => None,
        };
        let token = match principal {
            Principal::Token { id } => Some(id.to_owned()),
            _ => None,
        };
        Self {
            kind: principal.kind(),
            client: principal.client().map(str::to_owned),
            certificate_sha256,
            key: principal.key().map(str::to_owned),
            token,
            address: decision.origin.address,
            entry_point: decision.origin.entry_point.as_str(),
            app: decision.app.map(str::to_owned),
            operations: decision.operations.to_vec(),
            question: decision.question,
            refusal: decision.refusal.map(|refusal| refusal.reason.to_owned()),
        }
    }
}

/// The first of some names, and whether there were more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T> {
    /// In order, [`NAMED_MAX`] at most.
    pub names: Vec<T>,
    /// Whether there were others.
    pub has_more: bool,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { names: Vec::new(), has_more: false }
    }
}

impl<T: Ord> Named<T> {
    fn add<Q: Ord + ?Sized>(&mut self, name: &Q, own: impl FnOnce() -> T)
    where
        T: std::borrow::Borrow<Q>,
    {
        let Err(place) = self.names.binary_search_by(|known| known.borrow().cmp(name)) else { return };
        if self.names.len() < NAMED_MAX { self.names.insert(place, own()) } else { self.has_more = true }
    }
}

impl RequestAccount {
    /// The first decision about the request says who it is from.
    pub(crate) fn decided(&self, decision: &Decision<'_>) {
        if self.caller.get().is_none() {
            let _ = self.caller.set(AccountedCaller::of(decision));
        }
    }

    pub(crate) fn add_sealed(&self, counts: ValueCounts) {
        self.sealed.add(counts);
    }

    pub(crate) fn add_opened(&self, counts: ValueCounts) {
        self.opened.add(counts);
    }

    pub(crate) fn add_canaries(&self, count: u64) {
        self.canaries.fetch_add(count, Ordering::Relaxed);
    }

    /// A key version with which values were sealed or opened.
    pub(crate) fn add_version(&self, version: u32) {
        let marked = u64::from(version) + 1;
        if self.last_version.swap(marked, Ordering::Relaxed) != marked {
            self.versions.lock().unwrap_or_else(PoisonError::into_inner).add(&version, || version);
        }
    }

    /// The role of a value that was sealed or opened.
    pub(crate) fn add_role(&self, role: &str) {
        self.roles.add(role);
    }

    /// A value that was refused because of its role, or because it has none.
    pub(crate) fn add_refused(&self, role: Option<&str>, reason: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(role) = role {
            self.refused_roles.lock().unwrap_or_else(PoisonError::into_inner).add(role, || role.to_owned());
        }
        self.refusal.get_or_init(|| reason.to_owned());
    }

    /// Who it is from; `None` if nothing was decided, as for a request that is no valid one.
    pub fn caller(&self) -> Option<&AccountedCaller> {
        self.caller.get()
    }

    /// Values that were sealed.
    pub fn sealed(&self) -> ValueCounts {
        self.sealed.now()
    }

    /// Values that were opened.
    pub fn opened(&self) -> ValueCounts {
        self.opened.now()
    }

    /// How often canaries were opened.
    pub fn canaries(&self) -> u64 {
        self.canaries.load(Ordering::Relaxed)
    }

    /// Key versions of these values.
    pub fn versions(&self) -> Named<u32> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Roles of these values.
    pub fn roles(&self) -> Named<String> {
        self.roles.names()
    }

    /// Values that were refused because of their role.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Roles of these values.
    pub fn refused_roles(&self) -> Named<String> {
        self.refused_roles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the request, or the first of these values, was refused.
    pub fn refusal(&self) -> Option<&str> {
        let of_request = self.caller().and_then(|caller| caller.refusal.as_deref());
        of_request.or(self.refusal.get().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_in_order() {
        let account = RequestAccount::default();
        for version in [3, 3, 1, 2, 1, 3] {
            account.add_version(version);
        }
        assert_eq!(account.versions(), Named { names: vec![1, 2, 3], has_more: false });
        for number in 0..NAMED_MAX {
            account.add_role(&format!("role-{number:02}"));
            account.add_role("role-00");
        }
        assert!(!account.roles().has_more);
        account.add_role("role-99");
        account.add_refused(Some("secret"), "it may not");
        account.add_refused(None, "another reason");
        assert_eq!(
            (account.refused(), account.refused_roles().names, account.refusal()),
            (2, vec!["secret".to_owned()], Some("it may not"))
        );
        let roles = account.roles();
        assert!(roles.has_more && roles.names.len() == NAMED_MAX && roles.names.is_sorted());
    }
}
