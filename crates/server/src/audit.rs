//! The audit log of a server: one record for each request at its end, before its answer, and one for each refusal outside of a request.
//!
//! A record names who, from where, what and how it ended; it has no value, no context and no selector. What strangers cause, who have shown
//! no certificate and no key, is counted by address and recorded once in a while, so that they cannot fill the log.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafseal_engine::admin::{Operation, StoreError};
use leafseal_engine::audit::{
    AuditLog, Durability, LogError, LogRules, NoteFault, NoteSigner, RecordText, RecordTicket, Recorder, RecorderRules,
};
use leafseal_engine::{AccountedCaller, Decision, DecisionObserver, Engine, Principal, RequestAccount};
use leafseal_net::client_of;
use leafseal_protocol::{ErrorCode, ErrorObject, Method};
use thiserror::Error;

use crate::settings::{AuditSettings, AuditWait};

/// Before the name of an engine, for its log's key: no engine can have such a name.
const SIGNER_PREFIX: &str = "audit+";
/// How long strangers are counted before a record says how often they were refused.
const STRANGERS_INTERVAL: Duration = Duration::from_secs(60);
/// Addresses of strangers that are counted apart; all others together.
const STRANGERS_MAX: usize = 64;

/// Why an audit log is not written.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The folder, or a file in it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The keystore, which has the log's key.
    #[error("the audit log's key: {0}")]
    Store(#[from] StoreError),
    /// The store has no root that signs.
    #[error("the keystore has no key for an audit log: leafseal store migrate makes one")]
    NoKey,
    /// The name of the engine.
    #[error("the audit log's origin: {0}")]
    Origin(#[from] NoteFault),
}

/// The log of one server.
#[derive(Debug)]
pub(crate) struct ServerAudit {
    settings: AuditSettings,
    folder: PathBuf,
    /// The engine's name.
    name: String,
    /// Once the keystore is open.
    recorder: OnceLock<Recorder>,
    /// Why the last attempt to open the log has failed.
    not_opened: Mutex<Option<String>>,
    strangers: Mutex<Strangers>,
}

/// Refusals of strangers since the last record of them.
#[derive(Debug, Default)]
struct Strangers {
    since: Option<Instant>,
    of_address: BTreeMap<IpAddr, u64>,
    of_others: u64,
}

/// How a request ended.
pub(crate) struct EndedRequest<'a> {
    pub(crate) method: Option<Method>,
    /// The outcome, in a word.
    pub(crate) outcome: &'static str,
    pub(crate) failed: Option<&'a ErrorObject>,
    pub(crate) bytes_in: usize,
    pub(crate) bytes_out: usize,
    pub(crate) took: Duration,
}

/// What becomes of an answer.
pub(crate) enum AnswerRelease {
    /// It is sent.
    Now,
    /// It is sent once its record is durable.
    Durable(HeldAnswer),
    /// This is sent in its place.
    Withheld(ErrorObject),
}

/// An answer that waits for its record.
pub(crate) struct HeldAnswer {
    audit: Arc<ServerAudit>,
    ticket: RecordTicket,
}

impl HeldAnswer {
    /// Calls `send` once the record is durable, or with what is to be sent instead.
    pub(crate) fn release(self, send: impl FnOnce(Result<(), ErrorObject>) + Send + 'static) {
        let then = |durability| match durability {
            Durability::Durable => send(Ok(())),
            Durability::Refused => send(Err(unavailable())),
        };
        match self.audit.recorder.get() {
            Some(recorder) => recorder.when_durable(self.ticket, then),
            None => then(Durability::Refused),
        }
    }
}

/// A request that is recorded at its end.
#[derive(Debug)]
pub(crate) struct AuditedRequest {
    audit: Arc<ServerAudit>,
    account: Arc<RequestAccount>,
    address: Option<IpAddr>,
    id: Option<u32>,
}

impl AuditedRequest {
    /// A request of a peer at this address, and its account.
    pub(crate) fn begin(audit: &Arc<ServerAudit>, address: Option<IpAddr>, id: Option<u32>) -> Self {
        Self { audit: Arc::clone(audit), account: Arc::default(), address, id }
    }

    pub(crate) fn account(&self) -> Arc<RequestAccount> {
        Arc::clone(&self.account)
    }

    /// Writes the record.
    pub(crate) fn end(self, ended: &EndedRequest<'_>) -> AnswerRelease {
        let Self { audit, account, address, id } = self;
        let Some(caller) = account.caller() else {
            // Nothing was decided: a health check, a list of methods, a request that is none.
            return AnswerRelease::Now;
        };
        if caller.is_anonymous() {
            audit.count_stranger(address, crate::clock::now());
            return AnswerRelease::Now;
        }
        let text = request_text(caller, &account, ended, address, id);
        let waits = audit.waits(caller, ended.failed.is_some());
        let recorded = audit.recorder.get().map(|recorder| recorder.record(&text.finish()));
        match recorded {
            Some(Ok(ticket)) if waits => AnswerRelease::Durable(HeldAnswer { audit, ticket }),
            Some(Err(_)) | None if waits => AnswerRelease::Withheld(unavailable()),
            _ => AnswerRelease::Now,
        }
    }
}

fn unavailable() -> ErrorObject {
    let message = "the audit log takes no records, and this answer must not go out without one: see the engine's log";
    ErrorObject::new(ErrorCode::Unavailable, message)
}

fn request_text(
    caller: &AccountedCaller,
    account: &RequestAccount,
    ended: &EndedRequest<'_>,
    address: Option<IpAddr>,
    id: Option<u32>,
) -> RecordText {
    let (sealed, opened, versions, roles) = (account.sealed(), account.opened(), account.versions(), account.roles());
    let text = caller_text(RecordText::new("request"), caller, address)
        .maybe("method", ended.method.map(Method::as_str))
        .maybe("app", caller.app.as_deref().filter(|_| caller.refusal.is_none()))
        .text("outcome", ended.outcome)
        .number("sealed", sealed.public_key + sealed.symmetric)
        .number("sealed_symmetric", sealed.symmetric)
        .number("opened", opened.public_key + opened.symmetric)
        .number("opened_symmetric", opened.symmetric)
        .numbers("versions", &versions.names)
        .texts("roles", roles.names.iter().map(String::as_str));
    let more = [("more_versions", versions.has_more), ("more_roles", roles.has_more)];
    let text = more.into_iter().fold(text, |text, (name, is_so)| text.number(name, u64::from(is_so)));
    text.number("bytes_in", ended.bytes_in as u64)
        .number("bytes_out", ended.bytes_out as u64)
        .number("duration_us", u64::try_from(ended.took.as_micros()).unwrap_or(u64::MAX))
        .number("request", id.map_or(0, u64::from))
}

fn caller_text(text: RecordText, caller: &AccountedCaller, address: Option<IpAddr>) -> RecordText {
    text.text("entry_point", caller.entry_point)
        .text("caller", caller.kind)
        .maybe("client", caller.client.as_deref())
        .shown("certificate", caller.certificate_sha256.map(hex::encode))
        .maybe("key", caller.key.as_deref())
        .maybe("token", caller.token.as_deref())
        .shown("address", address.or(caller.address))
        .texts("operations", caller.operations.iter().map(|operation| operation.as_str()))
}

impl ServerAudit {
    /// The audit log of an engine with this name; `None` without a folder.
    pub(crate) fn new(settings: &AuditSettings, name: &str) -> Option<Arc<Self>> {
        let folder = settings.folder.clone()?;
        let (recorder, not_opened, strangers) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let (settings, name) = (settings.clone(), name.to_owned());
        Some(Arc::new(Self { settings, folder, name, recorder, not_opened, strangers }))
    }

    /// Opens the log, once the keystore is open; on a thread that may wait.
    pub(crate) fn open(&self, engine: &Engine) -> Result<(), AuditError> {
        if self.recorder.get().is_some() {
            return Ok(());
        }
        let opened = self.open_log(engine);
        let fault = opened.as_ref().err().map(ToString::to_string);
        *self.not_opened.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        opened
    }

    fn open_log(&self, engine: &Engine) -> Result<(), AuditError> {
        let key = engine.record_key(&format!("{SIGNER_PREFIX}{}", self.name))?.ok_or(AuditError::NoKey)?;
        let origin = format!("leafseal/{}/{}/{}", key.store_id(), self.name, key.epoch());
        let folder = self.folder.join(format!("{}-{}", self.name, key.epoch()));
        let signer = NoteSigner::of_log(&origin, key.into_private_key())?;
        let (shown, path) = (signer.public().to_text(), folder.display().to_string());
        let (log, recovery) = AuditLog::open(
            &folder,
            signer,
            LogRules { segment_bytes: self.settings.segment_bytes, ..LogRules::default() },
        )?;
        tracing::info!(
            folder = path,
            key = shown,
            records = log.size(),
            replayed = recovery.replayed,
            "audit log opened"
        );
        let rules = RecorderRules {
            waiting_bytes_max: self.settings.waiting_bytes_max,
            checkpoint_interval: self.settings.checkpoint_interval,
            ..RecorderRules::default()
        };
        let recorder = Recorder::start(log, rules, Box::new(unix_us));
        let started = RecordText::new("start")
            .text("version", env!("CARGO_PKG_VERSION"))
            .number("torn_bytes", recovery.torn_bytes as u64);
        let _ = recorder.record(&started.finish());
        let _ = self.recorder.set(recorder);
        Ok(())
    }

    /// Why the log takes no records, while that is so.
    pub(crate) fn fault(&self) -> Option<String> {
        match self.recorder.get() {
            Some(recorder) => recorder.fault(),
            None => self.not_opened.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether any answer waits for its record.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.settings.wait != AuditWait::None
    }

    fn waits(&self, caller: &AccountedCaller, has_failed: bool) -> bool {
        match self.settings.wait {
            AuditWait::None => false,
            AuditWait::Decrypt if has_failed => false,
            AuditWait::Decrypt => caller.operations.iter().any(|operation| *operation != Operation::Encrypt),
            AuditWait::All => true,
        }
    }

    fn record(&self, text: RecordText) {
        if let Some(recorder) = self.recorder.get() {
            // A record that is refused is counted, and the log will say so.
            let _ = recorder.record(&text.finish());
        }
    }

    /// Records how often strangers were refused, when that is due. Call it once in a while.
    pub(crate) fn tidy(&self, now: Instant) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.since.is_none_or(|since| now.saturating_duration_since(since) < STRANGERS_INTERVAL) {
            return;
        }
        let Strangers { of_address, of_others, .. } = std::mem::take(&mut *strangers);
        drop(strangers);
        for (address, refusals) in of_address {
            self.record(RecordText::new("strangers").shown("address", Some(address)).number("requests", refusals));
        }
        if of_others > 0 {
            self.record(RecordText::new("strangers").number("requests", of_others));
        }
    }

    fn count_stranger(&self, address: Option<IpAddr>, now: Instant) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        strangers.since.get_or_insert(now);
        // One client of IPv6 has many addresses.
        let address = address.map(client_of);
        let has_room = strangers.of_address.len() < STRANGERS_MAX;
        match address {
            Some(address) if has_room || strangers.of_address.contains_key(&address) => {
                *strangers.of_address.entry(address).or_default() += 1;
            }
            _ => strangers.of_others += 1,
        }
    }
}

impl DecisionObserver for ServerAudit {
    fn decided(&self, decision: &Decision<'_>) {
        let Some(refusal) = decision.refusal.filter(|_| !decision.is_accounted) else { return };
        if decision.principal == Principal::Anonymous {
            return self.count_stranger(decision.origin.address, crate::clock::now());
        }
        let caller = AccountedCaller::of(decision);
        let text = caller_text(RecordText::new("refusal"), &caller, None);
        self.record(
            text.text("outcome", refusal.code.as_str()).number("request", decision.origin.request.map_or(0, u64::from)),
        );
    }
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
