//! Starts and ends what follows the audit log, and logs what is wrong with it and with the log, once until it is over.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use leafseal_engine::Engine;
use leafseal_engine::audit::Recorder;

use super::forwarding::{ForwardingFigures, ForwardingThread, is_followed};
use super::older::OlderLog;
use super::{AuditError, ServerAudit};

/// How long the end of the thread is waited for at the least.
const STOP_MARGIN: Duration = Duration::from_millis(250);

/// Faults that were logged, and are not over.
#[derive(Debug, Default)]
pub(super) struct ReportedFaults {
    not_open: Option<String>,
    checkpoints: Option<String>,
}

impl ServerAudit {
    /// Whether there is anything to start.
    fn forwards(&self) -> bool {
        is_followed(&self.settings) || self.settings.witness_address.is_some()
    }

    /// Starts what follows the open log, unless it runs.
    pub(super) fn start_forwarding(&self, engine: &Engine) -> Result<(), AuditError> {
        let (Some(followed), Some(recorder)) = (self.followed.get(), self.recorder.get()) else { return Ok(()) };
        if self.forwarding.get().is_some() || !self.forwards() {
            return Ok(());
        }
        let witness = self.witness(engine)?;
        let older = match self.settings.sinks.is_empty() {
            true => Vec::new(),
            false => OlderLog::find_all(engine, &self.folder, &followed.folder),
        };
        let thread = ForwardingThread::start(&self.settings, followed, older, witness, recorder.kept_from())?;
        if let Some(address) = thread.witness_address {
            tracing::info!(%address, "witness started");
        }
        let _ = self.forwarding.set(thread);
        Ok(())
    }

    pub(super) fn stop_forwarding(&self, deadline: Instant) {
        if let Some(thread) = self.forwarding.get() {
            thread.stop_by(deadline.max(Instant::now() + STOP_MARGIN));
        }
    }

    pub(super) fn forwarding_figures(&self) -> ForwardingFigures {
        match self.forwarding.get() {
            Some(thread) => thread.figures(),
            None => ForwardingFigures::stopped(&self.settings),
        }
    }

    /// Logs why the log, or what follows it, cannot be opened, unless that was said last. It is tried again.
    pub(crate) fn report_open(&self, opened: Result<(), AuditError>) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = opened.err().map(|error| error.to_string());
        if let Some(error) = fault.as_ref().filter(|fault| reported.not_open.as_ref() != Some(fault)) {
            match self.recorder.get() {
                None => tracing::error!(
                    error,
                    "cannot open the audit log: what must wait for it is refused; it is tried again"
                ),
                Some(_) => tracing::error!(
                    error,
                    "nothing is sent from the audit log, and no log is cosigned; it is tried again"
                ),
            }
        }
        reported.not_open = fault;
    }

    /// Logs why no checkpoint can be written, or old records are not removed.
    pub(super) fn report_faults(&self) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = self.recorder.get().and_then(Recorder::checkpoint_fault);
        if let Some(error) = fault.as_ref().filter(|fault| reported.checkpoints.as_ref() != Some(fault)) {
            tracing::error!(error, "the audit log's checkpoints are not written, or old records are not removed");
        }
        reported.checkpoints = fault;
    }
}
