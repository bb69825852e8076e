//! The audit log of a server: one record for each request at its end, before its answer, and one for each refusal outside of a request.
//!
//! A record names who, from where, what and how it ended; it has no value, no context and no selector. What strangers cause, who have shown
//! no certificate and no key, is counted by address and recorded once in a while, so that they cannot fill the log.

mod administration;
mod followed_folder;
mod following;
mod forwarding;
mod naming;
mod older;
mod request;
mod strangers;
mod tally;
mod text;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafseal_engine::admin::{Operation, StoreError};
use leafseal_engine::audit::{
    AuditLog, LogError, LogName, LogRules, LogWitness, NoteFault, NoteSigner, RecordText, Recorder, RecorderRules,
    VerifierKey,
};
use leafseal_engine::{AccountedCaller, Decision, DecisionObserver, Engine, Principal, Question};
use leafseal_net::AccessRecord;
use thiserror::Error;

use crate::request_facts::without_app;
use crate::settings::{AuditDurability, AuditSettings, AuditWait};
use administration::{CarriedFault, ChangeCarrier};
use followed_folder::FollowedFolder;
use following::ReportedFaults;
pub(crate) use forwarding::ForwardingFigures;
use forwarding::{ForwardingThread, beside, is_followed};
use naming::FoundLog;
pub(crate) use request::AnswerRelease;
use strangers::{StrangerSource, Strangers};
pub(crate) use tally::AuditFigures;
use tally::AuditTally;
use text::text_of;

/// Before the name of an engine, for the key of the witness that it is: no engine can have such a name.
const WITNESS_PREFIX: &str = "witness+";

/// The kind of records of canaries that were opened, by requests and by commands.
const CANARY: &str = "canary";

/// Why an audit log is not written.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The folder, or a file in it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The keystore, which has the log's key.
    #[error("the audit log's key: {0}")]
    Store(#[from] StoreError),
    /// The keystore does not take the log's name.
    #[error(
        "cannot register the audit log in the keystore: an engine with an audit log must be able to write to it \
         (docs/guides/shared-store.md): {0}"
    )]
    NotRegistered(#[source] StoreError),
    /// The store has no root that signs.
    #[error("the keystore has no key for an audit log: leafseal store migrate makes one")]
    NoKey,
    /// What it has of the keystore's changes.
    #[error(transparent)]
    Carried(#[from] CarriedFault),
    /// The keystore does not keep records.
    #[error("audit.durable keystore needs a keystore on PostgreSQL")]
    NoFrames,
    /// The name of the engine.
    #[error("the audit log's origin: {0}")]
    Origin(#[from] NoteFault),
    /// The address of the witness, or the thread for sinks.
    #[error("audit.witness_address or audit.sinks: {0}")]
    Forwarding(#[from] std::io::Error),
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
    /// The log that is open.
    log_name: OnceLock<LogName>,
    /// The log that another engine of this name has begun, once it was noticed.
    successor: Mutex<Option<String>>,
    /// Brings changes of the keystore into it, and its origin.
    carrier: Mutex<Option<(ChangeCarrier, String)>>,
    /// Why the last attempt to open the log has failed.
    not_opened: Mutex<Option<String>>,
    strangers: Mutex<Strangers>,
    tally: AuditTally,
    /// The log that is open, for what sends its records elsewhere.
    followed: OnceLock<FollowedFolder>,
    /// What sends its records elsewhere, if there is something to send to.
    forwarding: OnceLock<ForwardingThread>,
    /// Faults that were logged last.
    reported: Mutex<ReportedFaults>,
}

impl ServerAudit {
    /// The audit log of an engine with this name; `None` without a folder.
    pub(crate) fn new(settings: &AuditSettings, name: &str) -> Option<Arc<Self>> {
        let folder = settings.folder.clone()?;
        let (recorder, not_opened, strangers) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let (settings, name) = (settings.clone(), name.to_owned());
        let (tally, followed, forwarding) = (AuditTally::default(), OnceLock::new(), OnceLock::new());
        let reported = Mutex::default();
        let (log_name, successor) = (OnceLock::new(), Mutex::default());
        Some(Arc::new(Self {
            settings,
            folder,
            name,
            recorder,
            log_name,
            successor,
            carrier: Mutex::default(),
            not_opened,
            strangers,
            tally,
            followed,
            forwarding,
            reported,
        }))
    }

    /// Opens the log, once the keystore is open, and starts what follows it, as far as that was not done; on a thread that may wait.
    pub(crate) fn open(&self, engine: &Engine) -> Result<(), AuditError> {
        if self.recorder.get().is_none() {
            self.open_recorder(engine)?;
        }
        self.start_forwarding(engine)
    }

    fn open_recorder(&self, engine: &Engine) -> Result<(), AuditError> {
        let opened = self.open_log(engine);
        let fault = opened.as_ref().err().map(ToString::to_string);
        *self.not_opened.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        if opened.is_ok() {
            // What was changed while no engine of this name ran.
            self.carry_changes(engine, crate::clock::now());
        }
        opened
    }

    fn open_log(&self, engine: &Engine) -> Result<(), AuditError> {
        let FoundLog { name, is_new, instead_of } =
            FoundLog::find(engine, &self.folder, &self.name, self.settings.durable)?;
        let key = engine.record_key(&name.signer())?.ok_or(AuditError::NoKey)?;
        if key.epoch() != name.epoch {
            // The root was replaced meanwhile.
            return Err(AuditError::Store(StoreError::Busy));
        }
        let origin = name.origin(key.store_id());
        let folder = self.folder.join(name.folder());
        let signer = NoteSigner::of_log(&origin, key.into_private_key())?;
        let followed = FollowedFolder {
            folder: folder.clone(),
            key: signer.public().clone(),
            cursors: beside(&self.folder, "cursors"),
            cursor_key: signer.cursor_key(),
        };
        let (shown, path) = (signer.public().to_text(), folder.display().to_string());
        let verifier = signer.public().clone();
        let rules = LogRules { segment_bytes: self.settings.segment_bytes, ..LogRules::default() };
        let (mut log, recovery) = match self.settings.durable {
            AuditDurability::Disk => AuditLog::open(&folder, signer, rules)?,
            AuditDurability::Keystore => {
                let frames = engine.log_frames(&origin)?.ok_or(AuditError::NoFrames)?;
                AuditLog::open_stored(&folder, signer, rules, frames)?
            }
        };
        tracing::info!(
            folder = path,
            key = shown,
            records = log.size(),
            replayed = recovery.replayed,
            "audit log opened"
        );
        // What was replayed can be read then.
        log.publish()?;
        let key = engine.record_key(&name.changes_signer())?.ok_or(AuditError::NoKey)?;
        let carrier = ChangeCarrier::find(&folder, &verifier, key, log.size())?;
        let rules = RecorderRules {
            waiting_bytes_max: self.settings.waiting_bytes_max,
            gathering: self.settings.gathering,
            write_wait_max: self.settings.write_wait_max,
            checkpoint_interval: self.settings.checkpoint_interval,
            retention: Some(Duration::from_secs(u64::from(self.settings.retention_days) * 86_400))
                .filter(|kept_for| !kept_for.is_zero()),
            ..RecorderRules::default()
        };
        let recorder = Recorder::start(log, rules, Box::new(unix_us));
        if is_followed(&self.settings) {
            // Until it is known what those that follow need.
            recorder.kept_from().store(0, Ordering::Relaxed);
        }
        let mut started = RecordText::new("start");
        started
            .text("version", env!("CARGO_PKG_VERSION"))
            .number("torn_bytes", recovery.torn_bytes as u64)
            .number("new_log", u64::from(is_new))
            .maybe("instead_of", instead_of.as_deref());
        let _ = recorder.record(&started.finish());
        *self.carrier.lock().unwrap_or_else(PoisonError::into_inner) = Some((carrier, origin));
        let _ = self.log_name.set(name);
        let _ = self.recorder.set(recorder);
        let _ = self.followed.set(followed);
        Ok(())
    }

    /// The witness that this engine is, and where it listens.
    fn witness(&self, engine: &Engine) -> Result<Option<(SocketAddr, LogWitness)>, AuditError> {
        let Some(address) = self.settings.witness_address else { return Ok(None) };
        let key = engine.record_key(&format!("{WITNESS_PREFIX}{}", self.name))?.ok_or(AuditError::NoKey)?;
        let epoch = key.epoch();
        let name = format!("leafseal/{}/{}/{epoch}/witness", key.store_id(), self.name);
        let signer = NoteSigner::of_witness(&name, key.into_private_key())?;
        tracing::info!(key = signer.public().to_text(), logs = self.settings.witness_logs.len(), "witness opened");
        let logs = self.settings.witness_logs.iter().filter_map(|key| VerifierKey::parse(key).ok()).collect();
        let state = beside(&self.folder, &format!("witness-{}-{epoch}", self.name));
        let key = signer.public().to_text() + "\n";
        let witness = LogWitness::open(signer, logs, &state)?;
        // For who asks it. It is not read again.
        std::fs::write(state.join("key"), key)?;
        Ok(Some((address, witness)))
    }

    /// Why the log takes no records, while that is so.
    pub(crate) fn fault(&self) -> Option<String> {
        match self.recorder.get() {
            Some(recorder) => recorder.fault(),
            None => self.not_opened.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// What it has done, for metrics.
    pub(crate) fn figures(&self) -> AuditFigures {
        let recorder = self.recorder.get().map(Recorder::figures).unwrap_or_default();
        self.tally.figures(self.fault().is_some(), recorder, self.forwarding_figures())
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

    fn record(&self, mut text: RecordText) {
        if let Some(recorder) = self.recorder.get() {
            // A record that is refused is counted, and the log will say so.
            let _ = recorder.record(&text.finish());
        }
    }

    /// Records a request that has opened a canary, besides its record as a request.
    pub(crate) fn record_canary(&self, record: &AccessRecord<'_>) {
        self.record(text_of(CANARY, record));
    }

    /// Records what was changed in the keystore. On a thread that may wait.
    pub(crate) fn carry_changes(&self, engine: &Engine, now: Instant) {
        let mut carrier = self.carrier.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some((carrier, log)), Some(recorder)) = (&mut *carrier, self.recorder.get()) else { return };
        let (carried, found) = match carrier.carry(engine, recorder) {
            Ok(true) => (Ok(()), self.look_for_namesake(engine)),
            Ok(false) => (Ok(()), Ok(())),
            Err(error) => (Err(error), Ok(())),
        };
        if let Err(error) = carried.and(found) {
            tracing::debug!(%error, "cannot read the changes of the keystore for the audit log; tried again");
        }
        carrier.save_due(log, recorder, now);
    }

    /// Notices that another engine has begun a log under this engine's name. Each goes on with its own.
    fn look_for_namesake(&self, engine: &Engine) -> Result<(), StoreError> {
        let Some(own) = self.log_name.get() else { return Ok(()) };
        let Some(found) = engine.audit_log(&own.engine)? else { return Ok(()) };
        let mut successor = self.successor.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = found.id != own.id && successor.as_ref() != Some(&found.id);
        if is_other {
            tracing::warn!(
                engine = own.engine,
                own = own.id,
                other = found.id,
                "another engine has begun an audit log under this engine's name: give each its own server.name"
            );
            let mut text = RecordText::new("namesake");
            text.text("log", &found.id);
            self.record(text);
            *successor = Some(found.id);
        }
        Ok(())
    }

    /// Lets nobody wait for a disk that hangs, and records how often strangers were refused, when that is due and the log takes records.
    /// Call it once in a while.
    pub(crate) fn tidy(&self, now: Instant) {
        let Some(recorder) = self.recorder.get() else { return };
        recorder.watch(now);
        if recorder.fault().is_some() {
            return;
        }
        let due = self.strangers().take_due(now, self.settings.strangers_bytes_max);
        self.record_each(due);
        self.report_faults();
    }

    /// Takes no more records, and makes those that it has durable, until a time. Answers that wait for theirs are released or withheld
    /// then.
    pub(crate) fn close(&self, deadline: Instant) {
        match self.recorder.get() {
            Some(_) => {
                let last = self.strangers().take(self.settings.strangers_bytes_max);
                self.record_each(last);
            }
            None => match self.strangers().waiting() {
                0 => {}
                requests => tracing::warn!(requests, "refused strangers are in no audit log: it was never opened"),
            },
        }
        if let Some(recorder) = self.recorder.get()
            && !recorder.close_by(deadline)
        {
            tracing::error!("the audit log did not end in time: its last records may be lost");
        }
        self.stop_forwarding(deadline);
    }

    /// Counts a peer whose TLS handshake failed.
    pub(crate) fn handshake_failed(&self, address: IpAddr) {
        self.count_stranger(StrangerSource::handshake(address));
    }

    fn count_stranger(&self, source: StrangerSource) {
        self.tally.count_stranger();
        self.strangers().count(source, crate::clock::now());
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_each(&self, texts: Vec<Vec<u8>>) {
        for text in texts {
            // One that is refused is counted, and the log will say so.
            let _ = self.recorder.get().map(|recorder| recorder.record(&text));
        }
    }
}

impl DecisionObserver for ServerAudit {
    fn decided(&self, decision: &Decision<'_>) {
        if decision.refusal.is_none() || decision.is_accounted {
            return;
        }
        // The identity is what was refused: names and ids are what the peer writes, except in a certificate of a known authority.
        if decision.principal == Principal::Anonymous || decision.question == Question::Identity {
            let (kind, client) = (decision.principal.kind(), decision.principal.client());
            let source = StrangerSource::caller(decision.origin.address, kind, client);
            return self.count_stranger(source);
        }
        self.record(text_of("refusal", &without_app(AccessRecord::of(decision))));
    }
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
