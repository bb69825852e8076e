//! The checks that `make test`, and therefore `.ci/run`, run beside the tests, in the same order.
//!
//! Each step prints its title; the first failure ends the run. Clippy and the tests share the profile `checked`, so that the C libraries
//! are built once.

use std::{env, ffi::OsString, io, path::Path, process::Command};

use thiserror::Error;

use crate::{
    deny::{Stamp, StampError},
    tidy,
};

/// A step that is a command of cargo.
struct CheckStep {
    title: &'static str,
    arguments: &'static [&'static str],
}

const BEFORE_TIDY: [CheckStep; 2] = [
    CheckStep { title: "fmt: the code is formatted", arguments: &["fmt", "--all", "--check"] },
    CheckStep {
        title: "clippy: no warning in any target",
        arguments: &["clippy", "--workspace", "--all-targets", "--profile", "checked", "--", "-D", "warnings"],
    },
];

/// The input of [`Stamp`]. Advisories need a download; `make audit` checks them.
const DENY: [CheckStep; 2] = [
    CheckStep {
        title: "deny: one crypto stack in what ships",
        arguments: &["deny", "--all-features", "--exclude-dev", "--log-level", "error", "check", "bans"],
    },
    CheckStep {
        title: "deny: licences and sources, those of the tests included",
        arguments: &["deny", "--all-features", "--log-level", "error", "check", "licenses", "sources"],
    },
];

/// Why the checks failed.
#[derive(Debug, Error)]
pub(crate) enum CheckError {
    /// A command could not be started.
    #[error("cannot start {0}: {1}")]
    Start(&'static str, io::Error),
    /// A command failed and printed why.
    #[error("failed: {0}")]
    Failed(&'static str),
    /// Tidy printed this many findings.
    #[error("tidy: {0} to mend")]
    Tidy(usize),
    /// The repository could not be read.
    #[error("tidy: {0}")]
    Read(String),
    /// The stamp of cargo-deny could not be compared or written.
    #[error("deny: {0}")]
    Stamp(#[from] StampError),
}

/// Runs every step on the repository at `root`.
pub(crate) fn check(root: &Path) -> Result<(), CheckError> {
    for step in &BEFORE_TIDY {
        cargo(root, step)?;
    }
    tidy(root)?;
    deny(root)
}

/// Runs cargo-deny, unless it has approved the same dependencies before.
fn deny(root: &Path) -> Result<(), CheckError> {
    let stamp = Stamp::of(root)?;
    if stamp.is_approved(root) {
        println!("== deny: nothing changed since the last approval");
        return Ok(());
    }
    const TOOL: &str = "cargo-deny";
    run(TOOL, Command::new(root.join("scripts/setup.sh")).arg("deny").current_dir(root))?;
    for step in &DENY {
        cargo(root, step)?;
    }
    Ok(stamp.approve(root)?)
}

fn cargo(root: &Path, step: &CheckStep) -> Result<(), CheckError> {
    println!("== {}", step.title);
    let mut command = Command::new(env!("CARGO"));
    run(step.title, command.args(step.arguments).current_dir(root).env("PATH", path_with_tools(root)))
}

fn run(title: &'static str, command: &mut Command) -> Result<(), CheckError> {
    let status = command.status().map_err(|error| CheckError::Start(title, error))?;
    if status.success() { Ok(()) } else { Err(CheckError::Failed(title)) }
}

/// Returns the search path, with the folder of the tools that `scripts/setup.sh` installs first.
fn path_with_tools(root: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(root.join(".tools").join("bin")).chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

/// Runs only tidy and prints its findings.
pub(crate) fn tidy(root: &Path) -> Result<(), CheckError> {
    println!("== tidy: edges, files, words and lengths");
    let repository = tidy::Repository::load(root).map_err(|error| CheckError::Read(error.to_string()))?;
    let findings = tidy::run(&repository);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(CheckError::Tidy(findings.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::root;

    #[test]
    fn a_failing_command_is_an_error() {
        let step = |arguments| CheckStep { title: "a", arguments };
        assert!(matches!(cargo(&root(), &step(&["no-such-command"])), Err(CheckError::Failed("a"))));
        assert!(cargo(&root(), &step(&["--version"])).is_ok());
    }

    #[test]
    fn installed_tools_come_first() {
        let first = env::split_paths(&path_with_tools(Path::new("repository"))).next();
        assert_eq!(first, Some(Path::new("repository/.tools/bin").to_owned()));
    }
}
