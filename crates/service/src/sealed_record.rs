//! The record of a sealed keystore: who was refused meanwhile, and who tried to open it. Kept in memory, bounded, and signed once the store
//! is open, since nothing can be signed before.
//!
//! [`SealedRecord`] collects events, `line` writes and reads the signed lines, and `verify` checks them in a log.

mod line;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leafseal_engine::admin::{RecordKey, new_challenge};
use leafseal_engine::{Decision, DecisionObserver, Principal};
use leafseal_protocol::{ErrorObject, UnsealResult};
use serde_json::{Map, Value, json};

pub(crate) use line::SignedLine;
use line::{Place, signed_lines};
pub use verify::{RecordFault, RecordReport, VerifiedRecord, VerifyError, verify_records};

/// Longest text of a reason, in bytes.
const REASON_SIZE_MAX: usize = 200;

/// The records of an engine.
#[derive(Clone, Debug, Default)]
pub struct RecordRules {
    /// The name of the engine, for which [`is_signer`](leafseal_engine::admin::is_signer) holds.
    pub engine: String,
    /// Bytes of events that are kept; 0: nothing is recorded.
    pub bytes_max: usize,
}

/// How much of the room events of a kind may take, and how they are counted if they do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    /// Anybody can cause these: they leave half of the room to the others.
    Refusal,
    /// Of the clients that may open the store.
    Unsealing,
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Refusal => "refusals",
            Self::Unsealing => "unsealing",
        }
    }
}

/// Collects what happens while the store is sealed. Never waits for anything but its own short lock.
#[derive(Debug, Default)]
pub(crate) struct SealedRecord {
    rules: RecordRules,
    /// The certificates of clients that may open the store.
    unsealers: Vec<[u8; 32]>,
    /// Whether there is a recording: every decision asks, while the store is open, too.
    is_recording: AtomicBool,
    recording: Mutex<Option<Recording>>,
    /// Of the next line. Locked by the thread that ends a record alone.
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Recording {
    sealed_at_ms: u64,
    events: Vec<String>,
    size: usize,
    /// Events that did not fit.
    omitted: BTreeMap<&'static str, u64>,
    /// Who opened the store; nobody if it opened by itself.
    opened_by: Option<Value>,
}

impl SealedRecord {
    pub(crate) fn new(rules: RecordRules, unsealers: Vec<[u8; 32]>) -> Self {
        let place = Place { start: new_challenge(), ..Place::default() };
        let (is_recording, recording) = (AtomicBool::new(false), Mutex::default());
        Self { rules, unsealers, is_recording, recording, place: Mutex::new(place) }
    }

    /// Begins to record, unless it does already.
    pub(crate) fn begin(&self) {
        if self.rules.bytes_max > 0 {
            self.lock().get_or_insert_with(|| Recording { sealed_at_ms: now_ms(), ..Recording::default() });
            self.is_recording.store(true, Ordering::Relaxed);
        }
    }

    /// Notes how an attempt to open the store has ended. A refusal by a decision is noted as that.
    pub(crate) fn attempted(&self, principal: Principal<'_>, outcome: &Result<UnsealResult, ErrorObject>) {
        let (mut event, mut opened_by) = (described(principal), None);
        match outcome {
            Ok(UnsealResult { status, missing }) => {
                opened_by = (status == UnsealResult::UNSEALED).then(|| Value::Object(event.clone()));
                event.insert("outcome".to_owned(), json!(status));
                event.insert("missing".to_owned(), json!(missing));
            }
            Err(error) if error.code == leafseal_protocol::ErrorCode::Forbidden => return,
            Err(error) => {
                event.insert("outcome".to_owned(), json!("refused"));
                event.insert("code".to_owned(), json!(error.code.as_str()));
            }
        }
        self.note(EventKind::Unsealing, "unseal", event);
        if let (Some(recording), Some(_)) = (&mut *self.lock(), &opened_by) {
            recording.opened_by = opened_by;
        }
    }

    /// Ends the record of a store that is open now: its signed lines, for the log. `key` is called if there is one; while it fails, the
    /// record is kept.
    pub(crate) fn end<E>(&self, key: impl FnOnce(&str) -> Result<Option<RecordKey>, E>) -> Result<Vec<SignedLine>, E> {
        if self.lock().is_none() {
            return Ok(Vec::new());
        }
        // Outside of the lock, which network threads take: the store is read, and lines are signed.
        let Some(key) = key(&self.rules.engine)? else { return Ok(Vec::new()) };
        self.is_recording.store(false, Ordering::Relaxed);
        let Some(recording) = self.lock().take() else { return Ok(Vec::new()) };
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(signed_lines(&recording, &self.rules.engine, &key, &mut place))
    }

    fn refused(&self, decision: &Decision<'_>, event: &str) {
        let (Some(refusal), true) = (decision.refusal, self.is_recording.load(Ordering::Relaxed)) else { return };
        let mut facts = described(decision.principal);
        let mut add = |name: &str, value: Value| facts.insert(name.to_owned(), value);
        if let Some(address) = decision.origin.address {
            add("address", json!(address.to_string()));
        }
        add("entry_point", json!(decision.origin.entry_point.as_str()));
        add("question", json!(decision.question.as_str()));
        if !decision.operations.is_empty() {
            let operations: Vec<&str> = decision.operations.iter().map(|operation| operation.as_str()).collect();
            add("operations", json!(operations));
        }
        if let Some(app) = decision.app {
            add("app", json!(app));
        }
        add("code", json!(refusal.code.as_str()));
        if event == "refused" {
            let size = refusal.reason.floor_char_boundary(REASON_SIZE_MAX);
            add("reason", json!(refusal.reason[..size]));
        }
        let may_unseal = matches!(decision.principal, Principal::Client { certificate_sha256, .. }
            if self.unsealers.contains(&certificate_sha256));
        self.note(if may_unseal { EventKind::Unsealing } else { EventKind::Refusal }, event, facts);
    }

    fn note(&self, kind: EventKind, event: &str, facts: Map<String, Value>) {
        let mut all = Map::from_iter([("at_ms".to_owned(), json!(now_ms())), ("event".to_owned(), json!(event))]);
        all.extend(facts);
        let text = Value::Object(all).to_string();
        let room = match kind {
            EventKind::Refusal => self.rules.bytes_max / 2,
            EventKind::Unsealing => self.rules.bytes_max,
        };
        let mut recording = self.lock();
        let Some(recording) = &mut *recording else { return };
        if recording.size + text.len() <= room {
            recording.size += text.len();
            recording.events.push(text);
        } else {
            *recording.omitted.entry(kind.as_str()).or_default() += 1;
        }
    }

    /// A panic leaves a record as good as any.
    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DecisionObserver for SealedRecord {
    fn decided(&self, decision: &Decision<'_>) {
        self.refused(decision, "refused");
    }

    fn sealed(&self, undecided: &Decision<'_>) {
        self.refused(undecided, "sealed");
    }
}

/// Who a caller is, without anything secret.
fn described(principal: Principal<'_>) -> Map<String, Value> {
    let mut facts = Map::new();
    let mut add = |name: &str, value: &str| facts.insert(name.to_owned(), json!(value));
    add("caller", principal.kind());
    if let Some(client) = principal.client() {
        add("client", client);
    }
    if let Some(key) = principal.key() {
        add("key", key);
    }
    match principal {
        Principal::Client { certificate_sha256, .. } => {
            add("certificate_sha256", &hex::encode(certificate_sha256));
        }
        Principal::Token { id } => {
            add("token", id);
        }
        Principal::Owner | Principal::Anonymous | Principal::ApiKey { .. } | Principal::OnBehalf { .. } => {}
    }
    facts
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
