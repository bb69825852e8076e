//! `bench`: an engine under load, measured from outside.

pub(super) mod engine;
mod handshakes;
mod table;

use crate::arguments::{BenchArguments, BenchCommand, GlobalArguments};
use crate::failure::{CommandFailure, CommandOutcome, plain};
use crate::note::note;
use crate::signals::{self, StopSignals};

use leafseal_load::LoadError;

/// `leafseal bench`.
pub(super) fn run(global: &GlobalArguments, arguments: &BenchArguments) -> CommandOutcome {
    if cfg!(debug_assertions) {
        note("leafseal: warning: not a release build: the figures are not representative");
    }
    match &arguments.command {
        None => table::run(global, &arguments.table),
        Some(BenchCommand::Handshakes(arguments)) => handshakes::run(global, arguments),
    }
}

/// Runs `work` on this thread. A signal ends it early without a message: the engine that it started is stopped, its folder removed.
fn block_on<T>(work: impl Future<Output = CommandOutcome<T>>) -> CommandOutcome<T> {
    signals::runtime()?.block_on(async {
        let mut signals = StopSignals::listen()?;
        tokio::select! {
            result = work => result,
            _ = signals.next() => Err(CommandFailure::interrupted()),
        }
    })
}

/// Whether nothing listens at the address, as opposed to a failure of this machine.
fn is_out_of_reach(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as E;
    matches!(
        error.kind(),
        E::ConnectionRefused | E::ConnectionReset | E::TimedOut | E::HostUnreachable | E::NetworkUnreachable
    )
}

impl From<LoadError> for CommandFailure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Client(error) => error.into(),
            LoadError::NoAnswer(_) => Self::unreachable(error.to_string()),
            LoadError::NoEngine(_) => Self::usage(error.to_string()),
            LoadError::Refused(_) | LoadError::WrongAnswer(_) => Self::failed(error.to_string()),
            LoadError::System { what, error } if is_out_of_reach(&error) => {
                Self::unreachable(format!("{what}: {}", plain(&error)))
            }
            LoadError::System { .. } => CommandFailure::internal(error.to_string()),
        }
    }
}
