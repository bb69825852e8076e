//! Generates files in other languages, and pages, from the facts that the Rust crates declare. `cargo xtask generate` writes them; tidy
//! reports a file that is stale.
//!
//! A generator is a pure function from the repository's files to outputs: add it to [`GENERATORS`]. Each language has its own file.

mod go;
mod go_queries;
mod java;
mod java_queries;
mod marks;
mod names;
mod options;
mod pages;
mod python;
mod queries;
mod query_vectors;
mod reference;
mod rules;
mod typescript;

use std::{borrow::Cow, error::Error, fs, path::Path};

use crate::source::SourceFile;

/// The command that renews the files.
pub(crate) const COMMAND: &str = "cargo xtask generate";

/// A generated file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GeneratedFile {
    /// Below the repository's root, with `/` between the parts.
    pub(crate) path: Cow<'static, str>,
    pub(crate) text: String,
}

/// Returns the outputs, or why a source cannot be used.
type Generator = fn(&[SourceFile]) -> Result<Vec<GeneratedFile>, String>;

const GENERATORS: [Generator; 8] = [
    go::outputs,
    java::outputs,
    pages::outputs,
    python::outputs,
    query_vectors::outputs,
    reference::outputs,
    rules::outputs,
    typescript::outputs,
];

/// All generated files of the repository with these files.
///
/// # Errors
/// The message of the generator that failed.
pub(crate) fn outputs(sources: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let outputs: Result<Vec<Vec<GeneratedFile>>, String> =
        GENERATORS.iter().map(|generator| generator(sources)).collect();
    Ok(outputs?.into_iter().flatten().collect())
}

/// Writes the generated files of the repository at `root`, or only compares them.
///
/// # Errors
/// If files cannot be read or written, sources are invalid, or `only_check` finds stale files.
pub(crate) fn run(root: &Path, sources: &[SourceFile], only_check: bool) -> Result<(), Box<dyn Error>> {
    let stale = stale(sources)?;
    if only_check && !stale.is_empty() {
        let paths: Vec<&str> = stale.iter().map(|output| &*output.path).collect();
        return Err(format!("stale: {}; run `{COMMAND}`", paths.join(", ")).into());
    }
    for output in &stale {
        let path = root.join(&*output.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, &output.text)?;
        println!("{}", output.path);
    }
    Ok(())
}

/// The generated files that are missing or differ.
///
/// # Errors
/// As for [`outputs`].
pub(crate) fn stale(sources: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let is_current =
        |output: &GeneratedFile| sources.iter().any(|source| source.path == output.path && source.text == output.text);
    Ok(outputs(sources)?.into_iter().filter(|output| !is_current(output)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source;

    #[test]
    fn generated_files_are_current_and_reported_once_changed() {
        let mut sources = source::load(&source::root()).expect("the repository can be read");
        let fresh = stale(&sources).expect("valid sources");
        assert_eq!(fresh, Vec::new(), "run `{COMMAND}`");
        let first = outputs(&sources).expect("valid sources").remove(0);
        sources.retain(|source| source.path != first.path);
        assert_eq!(stale(&sources), Ok(vec![first]));
    }
}
