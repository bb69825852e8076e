//! Signals that end a command, and the runtime of a command that waits for them.

use std::io;
use std::time::Duration;

use leafseal_net::ignores_signal;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::failure::{CommandFailure, CommandOutcome};

/// Which signal arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedSignal {
    /// SIGINT, from a user at the keyboard, who does not want to wait.
    Interrupt,
    /// SIGTERM, as service managers send it.
    Terminate,
}

/// Waits for SIGINT or SIGTERM.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// From here on signals are queued, so that none is lost between readiness and waiting. Call it on a runtime.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen() -> CommandOutcome<Self> {
        Ok(Self { interrupt: kept(SignalKind::interrupt())?, terminate: kept(SignalKind::terminate())? })
    }

    /// The next of these signals.
    pub(crate) async fn next(&mut self) -> ReceivedSignal {
        tokio::select! {
            _ = self.interrupt.recv() => ReceivedSignal::Interrupt,
            _ = self.terminate.recv() => ReceivedSignal::Terminate,
        }
    }

    /// Waits for this time, or until a signal arrives.
    pub(crate) async fn next_within(&mut self, limit: Duration) {
        // Either way the wait is over.
        let _ = timeout(limit, self.next()).await;
    }
}

/// Waits for a signal that ends a command which does not wait for signals itself. A signal that the process ignored from the start stays
/// ignored.
pub(crate) struct TerminationSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl TerminationSignals {
    /// As [`StopSignals::listen`].
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen() -> CommandOutcome<Self> {
        Ok(Self {
            interrupt: kept_unless_ignored(SignalKind::interrupt())?,
            terminate: kept_unless_ignored(SignalKind::terminate())?,
            hangup: kept_unless_ignored(SignalKind::hangup())?,
        })
    }

    /// The number of the next signal.
    pub(crate) async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            () = received(&mut self.interrupt) => SignalKind::interrupt(),
            () = received(&mut self.terminate) => SignalKind::terminate(),
            () = received(&mut self.hangup) => SignalKind::hangup(),
        };
        u8::try_from(kind.as_raw_value()).unwrap_or_default()
    }
}

/// SIGHUP, which requests a reload of the configuration.
///
/// # Errors
/// If the system refuses.
pub(crate) fn hangups() -> CommandOutcome<Signal> {
    kept(SignalKind::hangup())
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn kept_unless_ignored(kind: SignalKind) -> CommandOutcome<Option<Signal>> {
    if ignores_signal(kind.as_raw_value()) { Ok(None) } else { kept(kind).map(Some) }
}

fn kept(kind: SignalKind) -> CommandOutcome<Signal> {
    signal(kind).map_err(|error| CommandFailure::internal(format!("cannot wait for signals: {error}")))
}

/// A runtime on the calling thread.
///
/// # Errors
/// If the system refuses.
pub(crate) fn runtime() -> CommandOutcome<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error: io::Error| CommandFailure::internal(format!("no runtime: {error}")))
}
