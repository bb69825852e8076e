//! The part of `cargo metadata` that the rules need, as plain data with paths relative to the repository's root.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, MetadataCommand, Node, PackageId, TargetKind};

use crate::source::relative;

/// How a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyUse {
    /// By the library or program, or by its build script.
    Shipped,
    /// Only by tests and benchmarks.
    Test,
}

/// A dependency of a package.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    /// The package's original name, even if the dependency renames it.
    pub name: String,
    /// The user of the dependency.
    pub used_by: DependencyUse,
}

/// The root file of a target.
#[derive(Clone, Debug)]
pub(crate) struct CargoTarget {
    /// Path relative to the repository's root.
    pub path: String,
    /// Cargo's kinds.
    pub kinds: Vec<TargetKind>,
}

impl CargoTarget {
    /// Whether the target is built into the product.
    pub(crate) fn is_shipped(&self) -> bool {
        use TargetKind::{Bin, CDyLib, Lib, ProcMacro, RLib, StaticLib};
        self.kinds.iter().any(|kind| matches!(kind, Lib | RLib | Bin | CDyLib | StaticLib | ProcMacro))
    }
}

/// A member of a workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// Folder relative to the repository's root.
    pub folder: String,
    /// Name without the project's prefix, as in the table of crates; see [`crate_name`] for bindings.
    pub name: String,
    /// Its direct dependencies.
    pub dependencies: Vec<Dependency>,
    /// Its targets.
    pub targets: Vec<CargoTarget>,
}

/// A third-party package in a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThirdParty {
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SPDX expression of its licence; empty if it declares none.
    pub license: String,
    /// The URL of its repository; empty if it declares none.
    pub repository: String,
    /// The folder of its source.
    pub folder: PathBuf,
}

/// The members of the workspace whose manifest is `manifest`, as declared (nothing is resolved, so nothing is downloaded).
///
/// # Errors
/// Fails if Cargo cannot be run or reports an invalid manifest.
pub(crate) fn load(root: &Path, manifest: &Path) -> Result<Vec<Package>, cargo_metadata::Error> {
    let metadata = MetadataCommand::new().cargo_path(env!("CARGO")).manifest_path(manifest).no_deps().exec()?;
    Ok(metadata.packages.iter().map(|item| package(root, item)).collect())
}

/// Returns the third-party packages in `program`, a member of the workspace at `root`, built for `target`: its direct and transitive
/// dependencies, sorted by name. Packages that only build scripts or tests use are excluded.
///
/// Cargo unifies features over the workspace, so the list may contain packages that only another member enables.
///
/// # Errors
/// Fails if Cargo cannot be run or reports an invalid workspace or target.
pub(crate) fn libraries(
    root: &Path,
    (program, features): (&str, &[&str]),
    target: &str,
) -> Result<Vec<ThirdParty>, cargo_metadata::Error> {
    let mut options = ["--locked", "--filter-platform", target].map(str::to_owned).to_vec();
    options.extend(features.iter().map(|feature| format!("--features={program}/{feature}")));
    let metadata = MetadataCommand::new().cargo_path(env!("CARGO")).current_dir(root).other_options(options).exec()?;
    let nodes = metadata.resolve.iter().flat_map(|graph| &graph.nodes);
    let nodes: BTreeMap<&PackageId, &Node> = nodes.map(|node| (&node.id, node)).collect();
    let mut open: Vec<&PackageId> =
        metadata.packages.iter().filter(|item| item.name == program).map(|item| &item.id).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            let is_linked =
                |kinds: &[cargo_metadata::DepKindInfo]| kinds.iter().any(|item| item.kind == DependencyKind::Normal);
            open.extend(dependencies.filter(|item| is_linked(&item.dep_kinds)).map(|item| &item.pkg));
        }
    }
    let others = metadata.packages.iter().filter(|item| item.source.is_some() && found.contains(&item.id));
    let mut libraries: Vec<ThirdParty> = others.map(library).collect();
    libraries.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(libraries)
}

fn library(item: &cargo_metadata::Package) -> ThirdParty {
    ThirdParty {
        name: item.name.to_string(),
        version: item.version.to_string(),
        license: item.license.clone().unwrap_or_default(),
        repository: item.repository.clone().unwrap_or_default(),
        folder: item.manifest_path.as_std_path().parent().map(Path::to_owned).unwrap_or_default(),
    }
}

fn package(root: &Path, item: &cargo_metadata::Package) -> Package {
    let manifest = relative(root, item.manifest_path.as_std_path());
    let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
    Package {
        name: crate_name(&folder).unwrap_or(short(&item.name)).to_owned(),
        folder,
        dependencies: item.dependencies.iter().map(dependency).collect(),
        targets: item.targets.iter().map(|item| target(root, item)).collect(),
    }
}

/// The name of a binding in the table of crates: one for all, except for the binding that runs the engine.
pub(crate) fn crate_name(folder: &str) -> Option<&'static str> {
    match folder {
        "bindings/python" => Some("python"),
        _ => folder.starts_with("bindings/").then_some("bindings"),
    }
}

fn dependency(item: &cargo_metadata::Dependency) -> Dependency {
    let used_by = if item.kind == DependencyKind::Development { DependencyUse::Test } else { DependencyUse::Shipped };
    Dependency { name: item.name.clone(), used_by }
}

fn target(root: &Path, item: &cargo_metadata::Target) -> CargoTarget {
    CargoTarget { path: relative(root, item.src_path.as_std_path()), kinds: item.kind.clone() }
}

/// A package's name without the project's prefix.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("leafseal-").unwrap_or(name)
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
    fn reads_what_the_program_is_built_from() {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let libraries = libraries(&root(), ("leafseal-cli", &[]), &target).expect("the workspace has metadata");
        let find = |name: &str| libraries.iter().find(|library| library.name == name);
        let boring = find("boring-sys").expect("TLS is linked");
        assert!(boring.license == "MIT" && boring.folder.join("Cargo.toml").exists());
        // Dependencies of our own packages, of a build script, and of tests.
        for name in ["leafseal-engine", "bindgen", "criterion"] {
            assert!(find(name).is_none(), "{name}");
        }
        assert!(super::libraries(&root(), ("leafseal-cli", &[]), "no-such-target").is_err());
    }

    #[test]
    fn a_broken_manifest_is_an_error() {
        let root = root();
        assert!(load(&root, &root.join("xtask/src/main.rs")).is_err());
    }
}
