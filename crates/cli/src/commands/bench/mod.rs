//! `bench`: an engine under load, measured from outside.

pub(super) mod engine;
mod interference;
mod overload;
mod soak;
mod table;

use crate::arguments::{BenchArguments, BenchCommand, Place};
use crate::failure::{Exit, Failure, Outcome, plain};
use crate::output::note;

use fieldseal_load::LoadError;
use tokio::signal::unix::{SignalKind, signal};

/// `fieldseal bench`.
pub fn run(place: &Place, arguments: &BenchArguments) -> Outcome {
    let is_echo = matches!(arguments.command, Some(BenchCommand::Echo(_)));
    if cfg!(debug_assertions) && !is_echo {
        note("fieldseal: this is no release build: the figures mean little");
    }
    match &arguments.command {
        None => table::run(place, &arguments.table),
        Some(BenchCommand::Interference(arguments)) => interference::run(place, arguments),
        Some(BenchCommand::Overload(arguments)) => overload::run(place, arguments),
        Some(BenchCommand::Soak(arguments)) => soak::run(place, arguments),
        Some(BenchCommand::Echo(arguments)) => interference::echo(arguments),
    }
}

/// Runs `work` on this thread alone, and ends it early when the program is told to stop: what it has started and made by then ends
/// and goes with it.
fn block_on<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let no_runtime = |error| Failure { exit: Exit::Internal, message: format!("no runtime: {error}") };
    runtime.map_err(no_runtime)?.block_on(async {
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt()).map_err(no_runtime)?,
            signal(SignalKind::terminate()).map_err(no_runtime)?,
        );
        tokio::select! {
            result = work => result,
            _ = interrupt.recv() => Err(Failure::failed("interrupted")),
            _ = terminate.recv() => Err(Failure::failed("told to stop")),
        }
    })
}

/// Whether nobody answered, rather than something of this machine having failed.
fn is_out_of_reach(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as E;
    matches!(
        error.kind(),
        E::ConnectionRefused | E::ConnectionReset | E::TimedOut | E::HostUnreachable | E::NetworkUnreachable
    )
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Client(error) => error.into(),
            LoadError::NoAnswer(_) => Self::unreachable(error.to_string()),
            LoadError::Refused(_) | LoadError::WrongAnswer(_) => Self::failed(error.to_string()),
            LoadError::System { what, error } if is_out_of_reach(&error) => {
                Self::unreachable(format!("{what}: {}", plain(&error)))
            }
            LoadError::System { .. } => Self { exit: Exit::Internal, message: error.to_string() },
        }
    }
}
