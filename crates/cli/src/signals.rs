//! The signals that end a command, and the runtime of a command that waits for them.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Outcome};

/// Waits for SIGINT or SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on a signal is kept, so that none is lost between readiness and waiting. On a runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Outcome<Self> {
        Ok(Self { interrupt: kept(SignalKind::interrupt())?, terminate: kept(SignalKind::terminate())? })
    }

    /// The next of either.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// SIGHUP, which asks for the configuration to be read anew.
///
/// # Errors
/// When the system refuses.
pub fn hangups() -> Outcome<Signal> {
    kept(SignalKind::hangup())
}

fn kept(kind: SignalKind) -> Outcome<Signal> {
    signal(kind).map_err(|error| Failure::internal(format!("cannot wait for signals: {error}")))
}

/// A runtime on the thread that calls.
///
/// # Errors
/// When the system refuses.
pub fn runtime() -> Outcome<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error: io::Error| Failure::internal(format!("no runtime: {error}")))
}
