//! The checks that `make test`, and therefore `.ci/run`, run before the tests, in the same order.
//!
//! Each step prints its title; the first failure ends the run. Clippy and the tests share the profile `checked`, so that the C libraries
//! are built once.

use std::{env, ffi::OsString, io, path::Path, process::Command};

use thiserror::Error;

use crate::tidy;

/// The command of a step.
enum Step {
    Cargo { title: &'static str, arguments: &'static [&'static str] },
    Tidy,
}

const STEPS: [Step; 5] = [
    Step::Cargo { title: "fmt: the code is formatted", arguments: &["fmt", "--all", "--check"] },
    Step::Cargo {
        title: "clippy: no warning in any target",
        arguments: &["clippy", "--workspace", "--all-targets", "--profile", "checked", "--", "-D", "warnings"],
    },
    Step::Tidy,
    Step::Cargo {
        title: "deny: one crypto stack in what ships",
        arguments: &["deny", "--all-features", "--exclude-dev", "--log-level", "error", "check", "bans"],
    },
    // Advisories need a download; `make audit` checks them.
    Step::Cargo {
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
}

/// Runs every step on the repository at `root`.
pub(crate) fn check(root: &Path) -> Result<(), CheckError> {
    for step in &STEPS {
        match step {
            Step::Cargo { title, arguments } => cargo(root, title, arguments)?,
            Step::Tidy => tidy(root)?,
        }
    }
    Ok(())
}

fn cargo(root: &Path, title: &'static str, arguments: &[&str]) -> Result<(), CheckError> {
    println!("== {title}");
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root).env("PATH", path_with_tools(root));
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
        assert!(matches!(cargo(&root(), "a", &["no-such-command"]), Err(CheckError::Failed("a"))));
        assert!(cargo(&root(), "b", &["--version"]).is_ok());
    }

    #[test]
    fn installed_tools_come_first() {
        let first = env::split_paths(&path_with_tools(Path::new("repository"))).next();
        assert_eq!(first, Some(Path::new("repository/.tools/bin").to_owned()));
    }
}
