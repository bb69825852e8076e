//! The part of `cargo metadata` that the rules need, as plain data with paths below the repository's root.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand, TargetKind};

use crate::source::relative;

/// How a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// By the library or program, or by its build script.
    Shipped,
    /// Only by tests and benchmarks.
    Test,
}

/// One line of a package's dependencies.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name, not what it may be renamed to.
    pub name: String,
    /// The users of the dependency.
    pub used_by: Use,
}

/// A file that the compiler starts from.
#[derive(Clone, Debug)]
pub struct Target {
    /// Path below the repository's root.
    pub path: String,
    /// Cargo's kinds.
    pub kinds: Vec<TargetKind>,
}

impl Target {
    /// Whether the target is built into the product.
    pub fn is_shipped(&self) -> bool {
        use TargetKind::{Bin, CDyLib, Lib, ProcMacro, RLib, StaticLib};
        self.kinds.iter().any(|kind| matches!(kind, Lib | RLib | Bin | CDyLib | StaticLib | ProcMacro))
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

/// The members of the workspace whose manifest is `manifest`, as declared (nothing is resolved, so nothing is downloaded).
///
/// # Errors
/// Cargo cannot be run, or refuses a manifest.
pub fn load(root: &Path, manifest: &Path) -> Result<Vec<Package>, cargo_metadata::Error> {
    let metadata = MetadataCommand::new().cargo_path(env!("CARGO")).manifest_path(manifest).no_deps().exec()?;
    Ok(metadata.packages.iter().map(|item| package(root, item)).collect())
}

fn package(root: &Path, item: &cargo_metadata::Package) -> Package {
    let manifest = relative(root, item.manifest_path.as_std_path());
    let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
    let name = if folder.starts_with("bindings/") { "bindings" } else { short(&item.name) };
    Package {
        name: name.to_owned(),
        folder,
        dependencies: item.dependencies.iter().map(dependency).collect(),
        targets: item.targets.iter().map(|item| target(root, item)).collect(),
    }
}

fn dependency(item: &cargo_metadata::Dependency) -> Dependency {
    let used_by = if item.kind == DependencyKind::Development { Use::Test } else { Use::Shipped };
    Dependency { name: item.name.clone(), used_by }
}

fn target(root: &Path, item: &cargo_metadata::Target) -> Target {
    Target { path: relative(root, item.src_path.as_std_path()), kinds: item.kind.clone() }
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
