//! The facts about one request from which every rendering of it is made: its record in the audit log, its line in the log if decryption
//! fails, and its line in the access log of the API.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::admin::AppName;
use leafseal_engine::{AccountedCaller, Named, RequestAccount};
use leafseal_net::{AccessRecord, counted};
use leafseal_protocol::Method;

/// What is known about a request before its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestFacts {
    /// What is known of the peer without an account.
    pub(crate) peer: Option<Arc<AccessRecord<'static>>>,
    /// What its workers note.
    pub(crate) account: Option<Arc<RequestAccount>>,
    /// The app that it names, where there is no account.
    pub(crate) app: Option<Box<str>>,
    /// The peer's address.
    pub(crate) address: Option<IpAddr>,
    /// Its id on its connection.
    pub(crate) id: Option<u32>,
    /// The trace that it belongs to.
    pub(crate) trace: Option<Box<str>>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRequest {
    pub(crate) method: Option<Method>,
    /// The outcome, in a word.
    pub(crate) outcome: &'static str,
    pub(crate) has_failed: bool,
    pub(crate) bytes_in: usize,
    pub(crate) bytes_out: usize,
    pub(crate) took: Duration,
}

impl RequestFacts {
    /// The record of the request at its end. The app of a refused request is any text that its caller chose, so it has none.
    pub(crate) fn record(&self, ended: &EndedRequest) -> AccessRecord<'_> {
        let caller = self.account.as_ref().and_then(|account| account.caller());
        let known = match (caller, &self.peer) {
            (Some(caller), _) => of_caller(caller),
            (None, Some(peer)) => AccessRecord::clone(peer),
            (None, None) => AccessRecord::default(),
        };
        let named = self.app.as_deref().filter(|app| AppName::parse(app).is_ok());
        let record = AccessRecord {
            method: ended.method.map(|method| method.as_str().into()),
            app: known.app.clone().or(named.map(Cow::Borrowed)),
            outcome: Some(ended.outcome.into()),
            bytes_in: counted(ended.bytes_in as u64),
            bytes_out: counted(ended.bytes_out as u64),
            duration_us: Some(u64::try_from(ended.took.as_micros()).unwrap_or(u64::MAX)),
            request: self.id.map(u64::from),
            trace: self.trace.as_deref().map(Cow::Borrowed),
            address: self.address.or(known.address),
            ..known
        };
        let record = match &self.account {
            Some(account) => worked(account, record),
            None => record,
        };
        if caller.is_some_and(|caller| caller.refusal.is_some()) { without_app(record) } else { record }
    }
}

/// The record of a refusal: without the app, which is any name that the caller chose, also in the reason.
pub(crate) fn without_app(mut record: AccessRecord<'_>) -> AccessRecord<'_> {
    if let (Some(app), Some(reason)) = (record.app.take(), &record.reason) {
        let named = format!("app {app}");
        record.reason = Some(reason.replace(&named, "app …").into());
    }
    record
}

/// Adds what the workers noted.
fn worked<'r>(account: &'r RequestAccount, record: AccessRecord<'r>) -> AccessRecord<'r> {
    let (sealed, opened, versions) = (account.sealed(), account.opened(), account.versions());
    let (roles, refused_roles) = (account.roles(), account.refused_roles());
    let lists = [("versions", versions.has_more), ("roles", roles.has_more), ("refused_roles", refused_roles.has_more)];
    let owned = |named: Named<String>| named.names.into_iter().map(Cow::Owned).collect();
    AccessRecord {
        reason: account.refusal().map(Cow::Borrowed),
        sealed: counted(sealed.public_key + sealed.symmetric),
        sealed_symmetric: counted(sealed.symmetric),
        opened: counted(opened.public_key + opened.symmetric),
        opened_symmetric: counted(opened.symmetric),
        canary: counted(account.canaries()),
        refused: counted(account.refused()),
        versions: versions.names,
        roles: owned(roles),
        refused_roles: owned(refused_roles),
        cut: lists.into_iter().filter(|(_, has_more)| *has_more).map(|(list, _)| list.into()).collect(),
        ..record
    }
}

fn of_caller(caller: &AccountedCaller) -> AccessRecord<'_> {
    AccessRecord {
        entry_point: Some(caller.entry_point.into()),
        caller: Some(caller.kind.into()),
        client: caller.client.as_deref().map(Cow::Borrowed),
        certificate: caller.certificate_sha256,
        key: caller.key.as_deref().map(Cow::Borrowed),
        token: caller.token.as_deref().map(Cow::Borrowed),
        address: caller.address,
        operations: caller.operations.iter().map(|operation| operation.as_str().into()).collect(),
        app: caller.app.as_deref().map(Cow::Borrowed),
        ..AccessRecord::default()
    }
}
