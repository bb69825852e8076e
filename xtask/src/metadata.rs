//! The part of `cargo metadata` that the rules need, as plain data.

use std::{fmt, path::Path, process::Command};

use serde_json::Value;

use crate::source::relative;

/// How a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// By the library or program, or by its build script.
    Shipped,
    /// By tests and benches alone.
    Test,
}

/// One line of a package's dependencies.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name, not what it may be renamed to.
    pub name: String,
    /// Who uses it.
    pub used_by: Use,
}

/// A file that the compiler starts from.
#[derive(Clone, Debug)]
pub struct Target {
    /// Path below the repository's root.
    pub path: String,
    /// Cargo's kinds: `lib`, `bin`, `test`, `bench`, `example`, `custom-build`, …
    pub kinds: Vec<String>,
}

impl Target {
    /// Whether the target is built into the product.
    pub fn is_shipped(&self) -> bool {
        let shipped = ["lib", "rlib", "bin", "cdylib", "staticlib", "proc-macro"];
        self.kinds.iter().any(|kind| shipped.contains(&kind.as_str()))
    }
}

/// A member of a workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Folder below the repository's root.
    pub folder: String,
    /// Name without the project's prefix, as in the table of crates; `bindings` for every binding.
    pub name: String,
    /// Its direct dependencies.
    pub dependencies: Vec<Dependency>,
    /// Its targets.
    pub targets: Vec<Target>,
}

/// Why `cargo metadata` gave nothing to read.
#[derive(Debug)]
pub struct MetadataError(String);

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo metadata: {}", self.0)
    }
}

impl std::error::Error for MetadataError {}

/// The members of the workspace whose manifest is `manifest`, as declared (nothing is resolved, so nothing is downloaded).
pub fn load(root: &Path, manifest: &Path) -> Result<Vec<Package>, MetadataError> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .map_err(|error| MetadataError(error.to_string()))?;
    if !output.status.success() {
        return Err(MetadataError(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let value: Value = serde_json::from_slice(&output.stdout).map_err(|error| MetadataError(error.to_string()))?;
    packages(root, &value).ok_or_else(|| MetadataError("a field is missing".into()))
}

fn packages(root: &Path, value: &Value) -> Option<Vec<Package>> {
    value["packages"].as_array()?.iter().map(|item| package(root, item)).collect()
}

fn package(root: &Path, item: &Value) -> Option<Package> {
    let manifest = relative(root, Path::new(item["manifest_path"].as_str()?));
    let folder = manifest.strip_suffix("Cargo.toml")?.trim_end_matches('/').to_owned();
    let name = item["name"].as_str()?;
    let name = if folder.starts_with("bindings/") { "bindings" } else { short(name) };
    let dependencies = item["dependencies"].as_array()?.iter().map(dependency).collect::<Option<_>>()?;
    let targets = item["targets"].as_array()?.iter().map(|item| target(root, item)).collect::<Option<_>>()?;
    Some(Package { name: name.to_owned(), folder, dependencies, targets })
}

fn dependency(item: &Value) -> Option<Dependency> {
    let used_by = if item["kind"].as_str() == Some("dev") { Use::Test } else { Use::Shipped };
    Some(Dependency { name: item["name"].as_str()?.to_owned(), used_by })
}

fn target(root: &Path, item: &Value) -> Option<Target> {
    let kinds = item["kind"].as_array()?.iter().map(|kind| kind.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    Some(Target { path: relative(root, Path::new(item["src_path"].as_str()?)), kinds })
}

/// A package's name without the project's prefix.
pub fn short(name: &str) -> &str {
    name.strip_prefix("fieldseal-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::root;

    #[test]
    fn reads_this_workspace() {
        let root = root();
        let packages = load(&root, &root.join("Cargo.toml")).expect("the workspace has metadata");
        let xtask = packages.iter().find(|package| package.name == "xtask").expect("this package is a member");
        assert_eq!(xtask.folder, "xtask");
        assert_eq!(xtask.targets[0].path, "xtask/src/main.rs");
        assert!(xtask.targets[0].is_shipped());
        assert!(xtask.dependencies.iter().any(|dependency| dependency.name == "serde_json"));
        assert!(packages.iter().any(|package| package.name == "crypto" && package.folder == "crates/crypto"));
    }

    #[test]
    fn a_broken_manifest_is_an_error() {
        let root = root();
        assert!(load(&root, &root.join("xtask/src/main.rs")).is_err());
    }
}
