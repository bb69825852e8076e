//! Runs requests on the engine: parses the parameters, drives the engine's steps, and writes the answer directly into the outgoing buffer.
//! Everything here runs on workers, one bounded step at a time.

mod call;
pub(crate) mod convert;
mod documents;
mod failures;
mod files;
mod inline;
mod list;
mod lists;
mod long;
pub(crate) mod parts;
mod queries;
mod span;
mod unsealing;
mod values;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leafseal_engine::admin::ClientName;
use leafseal_engine::pool::Cancellation;
use leafseal_engine::{
    Caller, DecisionObserver, Engine, EngineCounters, EntryPoint, Error, LookupRun, Principal, RequestAccount,
    RequestOrigin, RequestReport, ScanNews, UpkeepNews,
};
use leafseal_protocol::{ErrorCode, ErrorObject, FrameLimits, Query, answer};

use crate::interface::{PeerIdentity, RefusedCaller, Service, Tenant};
use crate::work::{BegunRequest, Request, RequestStage, RequestWork, answer_too_large};
use call::{OwnedCall, ParsedCall};
use documents::RpcDocument;
use files::RpcFile;
use list::ListWork;
pub use unsealing::UnsealRules;
use unsealing::{UnsealAttempt, Unsealer};

/// The pause of the scan while the keystore is sealed.
const SEALED_PAUSE: Duration = Duration::from_secs(1);

/// Receives reports of requests that continued after envelopes failed to decrypt.
pub trait FailureObserver: Send + Sync {
    /// Called on a worker when a request of `caller` for `app` has ended with this report, which may contain such failures.
    fn ended(&self, caller: &Caller, app: &str, report: &RequestReport);
}

struct NoObserver;

impl FailureObserver for NoObserver {
    fn ended(&self, _: &Caller, _: &str, _: &RequestReport) {}
}

/// An [`Engine`] as a [`Service`].
pub struct EngineService {
    engine: Engine,
    limits: FrameLimits,
    answer_size_max: usize,
    /// Since when the keystore has not responded.
    store_lost_since: Mutex<Option<Instant>>,
    /// The threads that read the store for requests, once started.
    lookups: Mutex<Option<Arc<LookupRun>>>,
    failures: Arc<dyn FailureObserver>,
    unsealer: Arc<Unsealer>,
    /// Whether the last step of the scan has failed.
    scan_fails: AtomicBool,
    /// Whether the last upkeep has failed.
    upkeep_fails: AtomicBool,
}

impl EngineService {
    /// `limits` are those of the listener, which `info` returns; `answer_size_max` limits the bytes of one answer: a larger one is
    /// refused with `too_large`.
    pub fn new(engine: Engine, limits: FrameLimits, answer_size_max: usize) -> Self {
        engine.prepare();
        let failures = Arc::new(NoObserver);
        let (store_lost_since, lookups) = (Mutex::default(), Mutex::default());
        let (scan_fails, upkeep_fails) = (AtomicBool::new(false), AtomicBool::new(false));
        let unsealer = Arc::default();
        Self {
            engine,
            limits,
            answer_size_max,
            failures,
            store_lost_since,
            lookups,
            unsealer,
            scan_fails,
            upkeep_fails,
        }
    }

    /// The same service, whose store these may open.
    pub fn unsealed_by(mut self, rules: UnsealRules) -> Self {
        self.unsealer = Arc::new(Unsealer::new(&self.engine, rules));
        self
    }

    /// The same service, which reports failed envelopes to `failures`.
    pub fn observed_by(mut self, failures: Arc<dyn FailureObserver>) -> Self {
        self.failures = failures;
        self
    }
}

impl Drop for EngineService {
    fn drop(&mut self) {
        // The threads end by themselves: one may be waiting for a store that does not answer.
        if let Some(run) = self.lookups.get_mut().unwrap_or_else(PoisonError::into_inner) {
            run.end();
        }
    }
}

impl Service for EngineService {
    type Caller = Caller;

    fn authenticate(&self, peer: &PeerIdentity, origin: RequestOrigin) -> Result<Arc<Caller>, RefusedCaller> {
        if let (Ok(name), true) = (ClientName::parse(&peer.name), self.unsealer.permits(&peer.certificate_sha256)) {
            // What else it may do is decided for each request.
            return Ok(Arc::new(Caller::Client { name, certificate_sha256: peer.certificate_sha256 }));
        }
        let caller = self.engine.at(origin).client(&peer.name, peer.certificate_sha256);
        caller.map(Arc::new).map_err(|error| {
            let is_temporary = matches!(error.code, ErrorCode::Unavailable | ErrorCode::Overloaded);
            let code = if is_temporary { error.code } else { ErrorCode::Forbidden };
            RefusedCaller { code, message: error.to_string() }
        })
    }

    fn refuse_peer(&self, peer: Option<&PeerIdentity>, origin: RequestOrigin, reason: &str) {
        let principal = peer.map_or(Principal::Anonymous, |peer| Principal::Client {
            name: &peer.name,
            certificate_sha256: peer.certificate_sha256,
        });
        self.engine.at(origin).refuse(principal, Error::new(ErrorCode::Forbidden, reason));
    }

    fn observe_decisions(&self, observer: Arc<dyn DecisionObserver>) {
        self.engine.observe_decisions(observer);
    }

    fn recognise(&self, peer: &PeerIdentity) -> Option<Arc<Caller>> {
        self.engine.known_client(&peer.name, peer.certificate_sha256).map(Arc::new)
    }

    fn start(&self) -> io::Result<()> {
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        if lookups.is_some() {
            return Ok(());
        }
        let run = self.engine.begin_lookups();
        for index in 0..self.engine.settings().store_lookups_max.max(1) {
            let (engine, own) = (self.engine.clone(), Arc::clone(&run));
            let thread = std::thread::Builder::new().name(format!("leafseal-lookup-{index}"));
            if let Err(error) = thread.spawn(move || engine.serve_lookups(&own)) {
                run.end();
                return Err(error);
            }
        }
        *lookups = Some(run);
        Ok(())
    }

    fn tenant<'a>(&self, caller: &'a Caller, app: Option<&'a str>) -> Tenant<'a> {
        match (app, caller) {
            (Some(app), _) if self.engine.is_known_to_use(caller, app) => Tenant::App(app),
            (_, Caller::Client { name, .. }) => Tenant::Client(name.as_str()),
            (_, Caller::OnBehalf { agent, .. }) => self.tenant(agent, app),
            (_, Caller::Owner) => Tenant::Owner,
            // Each is for one app, which the first arm handles once a request has cached it.
            (_, Caller::Anonymous | Caller::ApiKey { .. } | Caller::Token(_)) => Tenant::Public,
        }
    }

    fn request(
        &self,
        caller: &Arc<Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
        account: Option<Arc<RequestAccount>>,
    ) -> RequestStage {
        let origin = RequestOrigin { request: Some(id), ..RequestOrigin::of(EntryPoint::Rpc) };
        RequestStage::beginning(EngineRequest {
            engine: self.engine.at(origin).accounted(account),
            caller: Arc::clone(caller),
            id,
            arrived,
            cancellation,
            limits: self.limits,
            answer_size_max: self.answer_size_max,
            failures: Arc::clone(&self.failures),
            unsealer: Arc::clone(&self.unsealer),
            parameters: MethodParameters::Unread(frame),
        })
    }

    fn engine(&self) -> Option<&Engine> {
        Some(&self.engine)
    }

    fn readiness(&self) -> Result<(), String> {
        self.engine.readiness().map_err(|error| error.message)
    }

    fn counters(&self) -> EngineCounters {
        self.engine.counters()
    }

    fn scan(&self) -> Option<Duration> {
        if self.engine.is_sealed() {
            return Some(SEALED_PAUSE);
        }
        let ScanNews { edits, is_clean_again, failure, pause } = self.engine.scan_store()?;
        for edit in edits {
            tracing::error!(%edit, "found an edit in the keystore: what depends on it is refused");
        }
        if is_clean_again {
            tracing::info!("the keystore has no edits any more");
        }
        let failed = self.scan_fails.swap(failure.is_some(), Ordering::Relaxed);
        if let Some(error) = failure.filter(|_| !failed) {
            tracing::warn!(%error, "cannot scan the keystore for edits: trying again");
        }
        Some(pause)
    }

    fn upkeep(&self) -> Option<Duration> {
        if self.engine.is_sealed() {
            return Some(SEALED_PAUSE);
        }
        let UpkeepNews { done, failure, pause } = self.engine.upkeep_store()?;
        for (app, version) in done.rotated {
            tracing::info!(%app, version, "rotated the keys of an app: they had reached their age");
        }
        for app in done.deleted {
            tracing::warn!(%app, "deleted an app with its keys: its delay was over");
        }
        for (app, until) in done.put_off {
            tracing::warn!(%app, until, "put off the deletion of an app: its envelopes were opened after the request");
        }
        for (app, error) in done.failed {
            tracing::error!(%app, %error, "could not rotate or delete the keys of an app: trying again");
        }
        let failed = self.upkeep_fails.swap(failure.is_some(), Ordering::Relaxed);
        if let Some(error) = failure.filter(|_| !failed) {
            tracing::warn!(%error, "cannot keep the keystore up: due rotations and deletions are left to other engines");
        }
        Some(pause)
    }

    fn on_maintenance_due(&self, due: Box<dyn Fn() + Send + Sync>) {
        self.engine.on_store_change(due);
    }

    fn maintain(&self) {
        self.unsealer.expire(Instant::now());
        if let Err(error) = self.unsealer.record(&self.engine) {
            tracing::warn!(%error, "cannot sign what happened while the keystore was sealed: trying again");
        }
        let mut lost = self.store_lost_since.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.engine.maintain(), *lost) {
            (Err(error), None) => {
                *lost = Some(Instant::now());
                let cause = error.cause().unwrap_or_default();
                match self.engine.is_sealed() {
                    true => tracing::warn!(cause, "the keystore is sealed: waiting for leafseal unseal"),
                    false => tracing::error!(
                        cause,
                        "lost the keystore: known grants and keys stay in use for engine.store_silence_max"
                    ),
                }
            }
            (Ok(()), Some(since)) => {
                *lost = None;
                tracing::info!(seconds = since.elapsed().as_secs_f64(), "the keystore is back");
            }
            (Ok(()), None) | (Err(_), Some(_)) => {}
        }
    }
}

/// A request whose work has not begun.
struct EngineRequest {
    engine: Engine,
    caller: Arc<Caller>,
    id: u32,
    arrived: Instant,
    cancellation: Arc<Cancellation>,
    limits: FrameLimits,
    answer_size_max: usize,
    failures: Arc<dyn FailureObserver>,
    unsealer: Arc<Unsealer>,
    parameters: MethodParameters,
}

enum MethodParameters {
    /// Only the head of the frame has been read.
    Unread(Vec<u8>),
    /// The parameters are read; nothing has been done, or only the store has to be read first.
    Read(Arc<OwnedCall>),
    /// What a client has brought is being tried.
    Unsealing(Arc<UnsealAttempt>),
}

impl Request for EngineRequest {
    fn counted_work(&self) -> Option<Duration> {
        match &self.parameters {
            MethodParameters::Unread(frame) => inline::reading(&self.engine, frame.len()),
            MethodParameters::Read(call) => inline::beginning(call.parsed()),
            MethodParameters::Unsealing(_) => None,
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> Result<BegunRequest, ErrorObject> {
        match &mut self.parameters {
            MethodParameters::Unread(frame) => {
                let call = OwnedCall::read(std::mem::take(frame));
                // The next step does not begin if the deadline has passed.
                if let Some(milliseconds) = call.parsed().deadline_ms() {
                    self.cancellation.set_deadline(self.arrived + Duration::from_millis(u64::from(milliseconds)));
                }
                self.parameters = MethodParameters::Read(Arc::new(call));
                Ok(BegunRequest::More)
            }
            MethodParameters::Unsealing(attempt) => {
                answer::result(self.id, &attempt.outcome()?, out);
                Ok(BegunRequest::Done)
            }
            MethodParameters::Read(call) => {
                let call = Arc::clone(call);
                if let ParsedCall::Query(Query::Unseal(params)) = call.parsed() {
                    let attempt = self.unsealer.begin(&self.engine, &self.caller, params.secret, Instant::now())?;
                    self.parameters = MethodParameters::Unsealing(attempt);
                    return Ok(BegunRequest::More);
                }
                self.begin_work(&call, out)
            }
        }
    }
}

impl EngineRequest {
    /// Checks the request and begins its work.
    fn begin_work(&self, call: &Arc<OwnedCall>, out: &mut Vec<u8>) -> Result<BegunRequest, ErrorObject> {
        let (engine, id) = (&self.engine, self.id);
        let caller = &*convert::caller(engine, &self.caller, call.parsed().key_id())?;
        let work: Box<dyn RequestWork> = match call.parsed() {
            ParsedCall::Encrypt(params) => Box::new(ListWork::encrypt(engine, caller, id, (call, params), out)?),
            ParsedCall::Decrypt(params) => {
                Box::new(ListWork::decrypt(engine, caller, id, (call, params), &self.failures, out)?)
            }
            ParsedCall::EncryptDocument(params) => {
                Box::new(RpcDocument::encrypt(engine, caller, id, (call, params), out)?)
            }
            ParsedCall::DecryptDocument(params) => {
                Box::new(RpcDocument::decrypt(engine, caller, id, (call, params), &self.failures, out)?)
            }
            ParsedCall::EncryptFile(params) => Box::new(RpcFile::encrypt(engine, caller, id, (call, params), out)?),
            ParsedCall::DecryptFile(params) => Box::new(RpcFile::decrypt(engine, caller, id, (call, params), out)?),
            ParsedCall::Rewrap(params) => {
                Box::new(ListWork::rewrap(engine, caller, id, (call, params), &self.failures, out)?)
            }
            ParsedCall::Inspect(params) => Box::new(ListWork::inspect(engine, caller, id, (call, params), out)?),
            ParsedCall::Query(Query::UnsealKey(_)) => {
                answer::result(id, &self.unsealer.next_key(engine, &self.caller)?, out);
                return Ok(BegunRequest::Done);
            }
            ParsedCall::Query(query) => {
                queries::answer(engine, &self.caller, (id, query), &self.limits, out)?;
                let is_too_large = out.len() > self.answer_size_max;
                return if is_too_large { Err(answer_too_large(self.answer_size_max)) } else { Ok(BegunRequest::Done) };
            }
            ParsedCall::Fault(fault) => return Err(fault.clone()),
        };
        Ok(BegunRequest::Next(RequestStage::limited(work, self.answer_size_max)))
    }
}
