//! Style as a test: each rule reads the repository and reports findings as `file:line: what; instead`.
//!
//! A rule is a pure function from [`Repository`] to findings. Its file begins with its table of data and ends with tests of valid and
//! invalid samples. Exceptions are lines of that table, never marks in the checked code.

mod calls;
mod claims;
mod cycles;
mod edges;
mod features;
mod generated;
mod links;
mod modules;
mod names;
mod records;
mod results;
mod shape;
mod statements;
mod unsafety;
mod versions;
mod walkthrough;
mod words;

use std::{error::Error, fmt, path::Path};

use crate::{
    metadata::{self, Package},
    source::{self, SourceFile},
};

/// The input of the rules.
#[derive(Debug)]
pub(crate) struct Repository {
    /// Every text file that git would track, by path.
    pub sources: Vec<SourceFile>,
    /// The members of the product's workspace.
    pub packages: Vec<Package>,
    /// Packages of separate workspaces: the fuzz targets and the candidate benches.
    pub packages_apart: Vec<Package>,
}

/// Manifests of the separate workspaces, if they exist.
const MANIFESTS_APART: [&str; 2] = ["fuzz/Cargo.toml", "benches/candidates/Cargo.toml"];

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    instead: String,
}

impl Finding {
    /// A finding in `source` at line `line`, counted from 1.
    fn new(source: &SourceFile, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { path: source.path.clone(), line, what: what.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.instead)
    }
}

const RULES: [fn(&Repository) -> Vec<Finding>; 17] = [
    edges::check,
    modules::check,
    cycles::check,
    names::check,
    unsafety::check,
    features::check,
    calls::check,
    shape::check,
    statements::check,
    words::check,
    records::check,
    claims::check,
    links::check,
    walkthrough::check,
    results::check,
    generated::check,
    versions::check,
];

impl Repository {
    /// Reads the repository at `root`.
    pub(crate) fn load(root: &Path) -> Result<Self, Box<dyn Error>> {
        let mut packages_apart = Vec::new();
        for manifest in MANIFESTS_APART.map(|path| root.join(path)) {
            if manifest.exists() {
                packages_apart.extend(metadata::load(root, &manifest)?);
            }
        }
        let packages = metadata::load(root, &root.join("Cargo.toml"))?;
        Ok(Self::new(source::load(root)?, packages, packages_apart))
    }

    fn new(mut sources: Vec<SourceFile>, packages: Vec<Package>, packages_apart: Vec<Package>) -> Self {
        modules::mark_tests(&mut sources, packages.iter().chain(&packages_apart));
        Self { sources, packages, packages_apart }
    }

    fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().filter(|source| source.is_rust())
    }

    fn find(&self, path: &str) -> Option<&SourceFile> {
        self.sources.iter().find(|source| source.path == path)
    }
}

/// Returns all findings, sorted by file and line.
pub(crate) fn run(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(repository)).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// The common helpers of the rules' tests.
#[cfg(test)]
mod sample {
    use super::*;
    use crate::metadata::{CargoTarget, Dependency, DependencyUse, crate_name};

    /// Creates a repository of these files, with a library package for every `…/Cargo.toml` among them.
    pub(super) fn repository(files: &[(&str, &str)]) -> Repository {
        let sources = files.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        let manifests = files.iter().filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
        Repository::new(sources, manifests.map(|folder| package(folder, &[])).collect(), Vec::new())
    }

    /// Creates a library package in `folder` with these dependencies.
    pub(super) fn package(folder: &str, dependencies: &[(&str, DependencyUse)]) -> Package {
        let last = folder.rsplit('/').next().unwrap_or_default();
        let name = crate_name(folder).unwrap_or(last);
        Package {
            folder: folder.into(),
            name: name.into(),
            dependencies: dependencies
                .iter()
                .map(|&(name, used_by)| Dependency { name: name.into(), used_by })
                .collect(),
            targets: vec![CargoTarget {
                path: format!("{folder}/src/lib.rs"),
                kinds: vec![cargo_metadata::TargetKind::Lib],
            }],
        }
    }

    /// Returns the findings of `rule` as text, joined by line breaks.
    pub(super) fn findings(rule: fn(&Repository) -> Vec<Finding>, files: &[(&str, &str)]) -> String {
        rule(&repository(files)).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_fault_and_remedy() {
        let source = SourceFile::new("crates/pool/src/lib.rs", "");
        let finding = Finding::new(&source, 3, "dbg!", "remove it");
        assert_eq!(finding.to_string(), "crates/pool/src/lib.rs:3: dbg!; remove it");
    }

    #[test]
    fn every_rule_runs_and_findings_come_in_order() {
        let lib = "//! What this crate is for, said once.\nmod a;\nmod b;\nfn f() { g().unwrap(); }\t\n// @: later\n"
            .replace('@', concat!("TO", "DO"));
        let findings = run(&sample::repository(&[
            ("crates/pool/Cargo.toml", ""),
            ("crates/pool/src/lib.rs", &lib),
            ("crates/pool/src/a.rs", "//! What this file is for, said once.\nuse crate::b::B;\n"),
            ("crates/pool/src/b.rs", "//! What this file is for, said once.\nuse crate::a::A;\n"),
            ("crates/pool/src/lonely.rs", "//! What this file is for, said once.\n"),
            ("vectors/a.json", "{}"),
            ("docs/threat-model.md", "`tests/a.py::test_b`\n[page](none.md)\n"),
            ("docs/request.md", "[a](../vectors/a.json) `absent`\n"),
        ]));
        assert!(findings.is_sorted());
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        // One for each rule: edges, modules, cycles, unsafety, calls, shape, words, records, claims, links, walkthrough.
        let parts = [
            "no lints",
            "no target reaches",
            "modules import each other: a, b",
            "lets unsafe code in",
            "unwrap()",
            "a tab",
            "do it now",
            "no test names this file",
            "is no test",
            "a link to",
            "contains `absent`",
        ];
        for part in parts {
            assert!(found.iter().any(|line| line.contains(part)), "{part} is missing from {found:#?}");
        }
    }
}
