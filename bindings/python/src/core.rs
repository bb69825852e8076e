//! An engine as Python sees it: the calls that block a thread, those of asyncio, and the rules of a process that forks.

use std::collections::HashMap;
use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use leafseal_client::{Client, ClientSettings, ClientTls, ClientTlsFiles};
use leafseal_engine::{DecisionCounts, Engine, EntryPoint, ProcessMark};
use leafseal_protocol::ErrorCode;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::delivery::{Delivery, OutcomeSlot};
use crate::fault::CallFault;
use crate::objects::{self, InputForm};
use crate::options::{CallDirection, OperationOptions, duration};
use crate::work::{CallWork, Done};
use crate::{folder, local, remote};

/// How often a call that blocks runs the handlers of signals, for example of Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);
/// How often a local engine looks for changes of its store.
const MAINTENANCE: Duration = Duration::from_secs(1);
/// The frame of Python that a warning names: the caller of `Engine.open`, beyond `open` and `_open`.
const WARNING_LEVEL: i32 = 3;
/// Threads that drive connections.
const THREADS: usize = 1;

/// Where calls run.
#[derive(Clone)]
enum Backend {
    Local(Engine),
    Remote(Client),
}

/// An engine in this process, or a client of remote ones.
#[pyclass(frozen, module = "leafseal._native")]
pub(crate) struct Core {
    /// Always present until the drop.
    parts: Option<(Backend, Runtime)>,
    /// Cancelled when the engine is closed; each call has a child.
    open: CancellationToken,
    /// The process that made it: its threads do not exist in a fork.
    process: ProcessMark,
    /// The time limit of calls that have none.
    timeout: Option<Duration>,
    /// Counts the decisions of an engine in this process.
    decisions: Arc<DecisionCounts>,
}

impl Drop for Core {
    fn drop(&mut self) {
        let Some((backend, runtime)) = self.parts.take() else { return };
        if self.process.is_current() {
            self.open.cancel();
            runtime.shutdown_background();
        } else {
            // The threads of the runtime do not exist in this process, and may have held its locks when it was forked.
            let _ = ManuallyDrop::new((backend, runtime));
        }
    }
}

#[pymethods]
impl Core {
    /// Opens the engine of a folder; `root_key` overrides its file.
    #[staticmethod]
    #[pyo3(signature = (folder, root_key=None, timeout=None))]
    fn open(
        py: Python<'_>,
        folder: PathBuf,
        root_key: Option<String>,
        timeout: Option<f64>,
    ) -> Result<Self, CallFault> {
        let root_key = root_key.map(Zeroizing::new);
        let timeout = timeout.map(|seconds| duration("timeout", seconds)).transpose()?;
        let (core, warning) = py.detach(|| {
            let opened = folder::open(&folder, root_key.as_deref().map(String::as_str))?;
            let runtime = runtime()?;
            runtime.spawn(maintain(opened.engine.clone()));
            Ok::<_, CallFault>((Self::new(Backend::Local(opened.engine), runtime, timeout), opened.warning))
        })?;
        if let Some(warning) = warning {
            let text = CString::new(warning).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, WARNING_LEVEL)?;
        }
        Ok(core)
    }

    /// An engine that encrypts with public keys and does nothing else.
    #[staticmethod]
    #[pyo3(signature = (apps, timeout=None))]
    fn of_public_keys(
        py: Python<'_>,
        apps: Vec<(String, u32, Vec<u8>, Vec<u8>)>,
        timeout: Option<f64>,
    ) -> Result<Self, CallFault> {
        let timeout = timeout.map(|seconds| duration("timeout", seconds)).transpose()?;
        py.detach(|| {
            let (engine, runtime) = (folder::of_public_keys(apps)?, runtime()?);
            runtime.spawn(maintain(engine.clone()));
            Ok(Self::new(Backend::Local(engine), runtime, timeout))
        })
    }

    /// Creates a client; its first call connects.
    #[staticmethod]
    #[pyo3(signature = (
        addresses, ca, certificate, key, *, files=None, server_name=None, connections_max=None, connect_timeout=None, timeout=None,
        retries_max=None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn connect(
        addresses: Vec<String>,
        ca: Vec<u8>,
        certificate: Vec<u8>,
        key: Vec<u8>,
        files: Option<[PathBuf; 3]>,
        server_name: Option<String>,
        connections_max: Option<usize>,
        connect_timeout: Option<f64>,
        timeout: Option<f64>,
        retries_max: Option<u32>,
    ) -> Result<Self, CallFault> {
        let private_key_pem = Zeroizing::new(key);
        let files = files.map(|[authorities, certificate_chain, private_key]| ClientTlsFiles {
            authorities,
            certificate_chain,
            private_key,
        });
        let tls = ClientTls { authorities_pem: ca, certificate_chain_pem: certificate, private_key_pem, files };
        let mut settings = ClientSettings { addresses, server_name, ..ClientSettings::new("", tls) };
        if let Some(count) = connections_max {
            settings.connections_max = count;
        }
        if let Some(count) = retries_max {
            settings.retries_max = count;
        }
        if let Some(seconds) = connect_timeout {
            settings.connect_timeout = duration("connect_timeout", seconds)?;
        }
        if let Some(seconds) = timeout {
            settings.request_timeout = duration("timeout", seconds)?;
        }
        let runtime = runtime()?;
        let client = Client::new(settings)?;
        Ok(Self::new(Backend::Remote(client), runtime, None))
    }

    /// Whether calls are made by clients of a remote engine.
    #[getter]
    fn is_remote(&self) -> bool {
        matches!(self.parts, Some((Backend::Remote(_), _)))
    }

    /// Ends calls that are running, and refuses others.
    fn close(&self) {
        self.open.cancel();
    }

    /// Whether this process is a fork of the one that created the engine: then no call works.
    #[getter]
    fn forked(&self) -> bool {
        !self.process.is_current()
    }

    /// The number of decisions about calls by outcome, without outcomes that have not occurred. A remote engine counts its own.
    #[getter]
    fn decisions(&self) -> HashMap<&'static str, u64> {
        self.decisions.of(EntryPoint::Library).filter(|(_, count)| *count > 0).collect()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.open.is_cancelled()
    }

    /// Runs a call and returns its result, or with `report` a pair of result and report.
    #[pyo3(signature = (method, encrypts, input, options, report=false, contexts=None))]
    #[allow(clippy::too_many_arguments, reason = "the parts of a call")]
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        encrypts: bool,
        input: &Bound<'py, PyAny>,
        options: Py<OperationOptions>,
        report: bool,
        contexts: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, CallFault> {
        let (work, form) = read(method, encrypts, input, contexts, options)?;
        let done = match self.parts()? {
            (Backend::Local(engine), _) => {
                let limit = self.limit(&work);
                py.detach(|| local::run(engine, &work, &mut self.between_steps(&self.open, limit, true)))?
            }
            (Backend::Remote(client), runtime) => {
                let open = self.open.clone();
                let call = remote(client.clone(), Arc::new(work), open);
                let ended = block_on(py, runtime, self.process, call)?;
                return finish(py, ended.0, &form, &ended.1, report);
            }
        };
        finish(py, done, &form, &work, report)
    }

    /// Starts a call; `notify` is called without arguments by a thread of this engine once [`AsyncioCall::result`] is there, through
    /// `event_loop.call_soon_threadsafe`.
    #[pyo3(signature = (method, encrypts, input, options, event_loop, notify, report=false, contexts=None))]
    #[allow(clippy::too_many_arguments, reason = "as `call`, with the event loop")]
    fn start(
        &self,
        method: &str,
        encrypts: bool,
        input: &Bound<'_, PyAny>,
        options: Py<OperationOptions>,
        event_loop: Py<PyAny>,
        notify: Py<PyAny>,
        report: bool,
        contexts: Option<&Bound<'_, PyAny>>,
    ) -> Result<AsyncioCall, CallFault> {
        let (backend, runtime) = self.parts()?;
        let (work, form) = read(method, encrypts, input, contexts, options)?;
        let cancel = self.open.child_token();
        let work = Arc::new(work);
        let task = AsyncioCall { slot: Arc::default(), cancel: cancel.clone(), form, report };
        let deliver = Delivery::new(&task.slot, event_loop, notify);
        match backend {
            Backend::Local(engine) => {
                let (engine, limit) = (engine.clone(), self.limit(&work));
                let open = self.open.clone();
                let mut between_steps = self.between_steps(&cancel, limit, false);
                runtime.spawn_blocking(move || {
                    let outcome = local::run(&engine, &work, &mut between_steps);
                    let outcome = outcome.map(|done| (done, work));
                    deliver.send(outcome.map_err(|fault| ended(&open, &cancel).unwrap_or(fault)));
                });
            }
            Backend::Remote(client) => {
                let (client, open) = (client.clone(), self.open.clone());
                runtime.spawn(async move {
                    let outcome = remote(client, work, cancel.clone()).await;
                    deliver.send(outcome.map_err(|fault| ended(&open, &cancel).unwrap_or(fault)));
                });
            }
        }
        Ok(task)
    }
}

impl Core {
    fn new(backend: Backend, runtime: Runtime, timeout: Option<Duration>) -> Self {
        let (open, decisions) = (CancellationToken::new(), Arc::<DecisionCounts>::default());
        if let Backend::Local(engine) = &backend {
            engine.observe_decisions(Arc::<DecisionCounts>::clone(&decisions));
        }
        Self { parts: Some((backend, runtime)), open, process: ProcessMark::current(), timeout, decisions }
    }

    /// Checks that a call may begin.
    fn parts(&self) -> Result<&(Backend, Runtime), CallFault> {
        check_process(self.process)?;
        if self.open.is_cancelled() {
            return Err(CallFault::closed());
        }
        self.parts.as_ref().ok_or_else(CallFault::closed)
    }

    /// The check between two steps of a local call: cancellation, the time limit, and signals if the call runs on a thread of Python. A
    /// handler may fork: the call ends in the fork.
    fn between_steps(
        &self,
        cancel: &CancellationToken,
        limit: Option<Instant>,
        handles_signals: bool,
    ) -> impl FnMut() -> Result<(), CallFault> + Send + 'static {
        let (cancel, process) = (cancel.clone(), self.process);
        let mut signals_at = Instant::now() + SIGNALS;
        move || {
            if cancel.is_cancelled() {
                return Err(CallFault::closed());
            }
            let now = Instant::now();
            if limit.is_some_and(|limit| now >= limit) {
                return Err(CallFault::deadline());
            }
            if handles_signals && now >= signals_at {
                signals_at = now + SIGNALS;
                Python::attach(|py| py.check_signals())?;
            }
            check_process(process)
        }
    }

    fn limit(&self, work: &CallWork) -> Option<Instant> {
        work.options().timeout.or(self.timeout).and_then(|time| Instant::now().checked_add(time))
    }
}

fn read(
    method: &str,
    encrypts: bool,
    input: &Bound<'_, PyAny>,
    contexts: Option<&Bound<'_, PyAny>>,
    options: Py<OperationOptions>,
) -> Result<(CallWork, InputForm), CallFault> {
    let direction = if encrypts { CallDirection::Encrypt } else { CallDirection::Decrypt };
    let (input, form) = objects::input(method, direction, input)?;
    options.get().check_fit(direction, input.is_of_documents())?;
    let contexts = contexts.map(objects::contexts).transpose()?;
    if let Some(contexts) = &contexts {
        options.get().check_contexts(contexts.len(), input.list_len())?;
    }
    Ok((CallWork { direction, input, contexts, options }, form))
}

fn finish<'py>(
    py: Python<'py>,
    done: Done,
    form: &InputForm,
    work: &CallWork,
    with_report: bool,
) -> Result<Bound<'py, PyAny>, CallFault> {
    let report = with_report.then(|| objects::report(py, &done.report)).transpose()?;
    let result = objects::result(py, done, form, work.direction, work.options().column_type.as_ref())?;
    match report {
        None => Ok(result),
        Some(report) => Ok((result, report).into_pyobject(py)?.into_any()),
    }
}

/// A remote call that ends when `cancel` does.
async fn remote(
    client: Client,
    work: Arc<CallWork>,
    cancel: CancellationToken,
) -> Result<(Done, Arc<CallWork>), CallFault> {
    let done = cancel.run_until_cancelled(remote::run(client, Arc::clone(&work))).await;
    Ok((done.unwrap_or_else(|| Err(CallFault::closed()))?, work))
}

/// Looks for changes of the store, and ends what has expired.
async fn maintain(engine: Engine) {
    let hinted = Arc::new(Notify::new());
    let hint = Arc::clone(&hinted);
    engine.on_store_change(Box::new(move || hint.notify_one()));
    let mut ticks = interval(MAINTENANCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = hinted.notified() => {}
        }
        // The engine itself refuses calls once the store has been silent for too long.
        let _ = engine.maintain();
    }
}

/// Waits for a call, and in between runs the handlers of signals; their exceptions end the call. It ends too in a process that a handler
/// forked, where the runtime has no threads.
fn block_on<T: Send>(
    py: Python<'_>,
    runtime: &Runtime,
    process: ProcessMark,
    call: impl Future<Output = Result<T, CallFault>> + Send,
) -> Result<T, CallFault> {
    let mut call = Box::pin(call);
    loop {
        match py.detach(|| runtime.block_on(async { timeout(SIGNALS, call.as_mut()).await })) {
            Ok(ended) => return ended,
            Err(_) => {
                py.check_signals()?;
                check_process(process)?;
            }
        }
    }
}

/// Checks that this process is the one that created the engine.
fn check_process(process: ProcessMark) -> Result<(), CallFault> {
    if process.is_current() {
        return Ok(());
    }
    let message = "the engine was created before this process was forked: create one after the fork".to_owned();
    Err(CallFault::new(ErrorCode::Forked, message))
}

/// Why a call ended, if it was cancelled: the engine was closed, or the call itself.
fn ended(open: &CancellationToken, cancel: &CancellationToken) -> Option<CallFault> {
    match (open.is_cancelled(), cancel.is_cancelled()) {
        (true, _) => Some(CallFault::closed()),
        (false, true) => Some(CallFault::cancelled()),
        (false, false) => None,
    }
}

fn runtime() -> Result<Runtime, CallFault> {
    let built = Builder::new_multi_thread().worker_threads(THREADS).thread_name("leafseal-py").enable_all().build();
    built.map_err(|error| CallFault::settings(format!("no thread can be started: {error}")))
}

/// A call of asyncio. Dropping it cancels the call.
#[pyclass(frozen, name = "Task", module = "leafseal._native")]
pub(crate) struct AsyncioCall {
    slot: OutcomeSlot,
    cancel: CancellationToken,
    form: InputForm,
    report: bool,
}

impl Drop for AsyncioCall {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[pymethods]
impl AsyncioCall {
    /// Ends the call, at the engine too.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The result, once, after the notification.
    fn result<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, CallFault> {
        let outcome = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (done, work) = outcome.unwrap_or_else(|| Err(CallFault::cancelled()))?;
        finish(py, done, &self.form, &work, self.report)
    }
}
