//! Experiments on an engine, for those who develop it (`docs/benchmarks.md`): whether small requests wait for large ones, what an overload
//! does, and what long mixed work does. Each starts its own engines with the program `leafseal`, and prints a report.

mod arguments;
mod echo;
mod engine;
mod error;
mod floor;
mod interference;
mod overload;
mod report;
mod run;
mod soak;
mod threads;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;

/// As a shell reports SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match run::run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error::ExperimentError::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            eprintln!("experiments: {error}");
            ExitCode::FAILURE
        }
    }
}
