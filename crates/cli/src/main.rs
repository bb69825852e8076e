//! The program `leafseal`: parses the command line, runs one command, and converts its outcome to an exit code.
//!
//! Guarantees: every failure is one clear line on standard error and an exit code; it contains no value, key or root key. Even a panic,
//! which would be a bug, prints its location without its text, and no core dump is written unless the
//! environment permits it.

mod accepted;
mod access_log;
mod allocator;
mod arguments;
mod certificates;
mod commands;
mod config;
mod context;
mod core_dumps;
mod descriptors;
mod envelopes;
mod failure;
mod identity;
mod input;
mod interruption;
mod log;
mod note;
mod output;
mod paths;
mod progress;
#[cfg(test)]
mod reference;
mod signals;
mod transform;
mod watched;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::arguments::Arguments;
use crate::core_dumps::{CORE_DUMPS_VARIABLE, CoreDumps};
use crate::failure::{CommandFailure, Exit};
use crate::note::note;

fn main() -> ExitCode {
    // The process of a library that this program does not trust: nothing else of it runs there.
    #[cfg(feature = "pkcs11")]
    if std::env::args_os().nth(1).is_some_and(|first| first == leafseal_custody::PKCS11_HOST) {
        return leafseal_custody::pkcs11_host();
    }
    // Before any secret is read. A system that does not permit it causes a warning, not a failure.
    let dumps = CoreDumps::parse(std::env::var_os(CORE_DUMPS_VARIABLE).as_deref());
    if dumps.is_none() {
        note(format_args!("leafseal: {CORE_DUMPS_VARIABLE} must be off or without-keys: core dumps stay off"));
    }
    if let Err(error) = dumps.unwrap_or(CoreDumps::Off).apply() {
        note(format_args!("leafseal: cannot turn core dumps off: {error}"));
    }
    // The text of a panic could contain anything; its location suffices to find it.
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        note(format_args!("leafseal: internal error at {place}: please report this"));
    }));
    let matches = Arguments::command().get_matches();
    let mut arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    arguments.global.command_name = command_name(&matches);
    match catch_unwind(AssertUnwindSafe(|| commands::run(arguments))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            tell(&failure);
            ExitCode::from(failure.exit as u8)
        }
        Err(_) => ExitCode::from(Exit::Internal as u8),
    }
}

/// The words of a command.
fn command_name(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut next = matches.subcommand();
    while let Some((word, matches)) = next {
        words.push(word);
        next = matches.subcommand();
    }
    words.join(" ")
}

/// Ends the process from a thread other than the main one, which may be blocked on input.
#[allow(clippy::disallowed_methods, reason = "`main` may be blocked; the temporary file is removed")]
fn end_now(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

fn tell(failure: &CommandFailure) {
    for line in failure.message.lines() {
        note(format_args!("leafseal: {line}"));
    }
}
