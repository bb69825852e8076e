//! Whether cargo-deny has approved the dependencies as they are: a stamp in the repository stands for its last success.
//!
//! The checks of bans, licences and sources depend only on what is locked, on `deny.toml` and on what the manifests declare. Where these
//! are unchanged, `check` neither runs nor builds cargo-deny, which takes minutes. The stamp saves time and proves nothing: `make audit`,
//! which a release runs, ignores it.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::Path,
};

use cargo_metadata::{MetadataCommand, Package};
use thiserror::Error;

/// The stamp's file, relative to the repository's root.
const STAMP: &str = "deny.stamp";

const NOTE: &str = "# The dependencies that cargo-deny approved last. `make check` writes it; commit it with them.\n";

/// Why the stamp cannot be compared or written.
#[derive(Debug, Error)]
pub(crate) enum StampError {
    /// The workspace's manifests could not be read.
    #[error(transparent)]
    Manifests(#[from] cargo_metadata::Error),
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    File(&'static str, io::Error),
}

/// The stamp of the dependencies as they are now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp(String);

impl Stamp {
    /// Computes the stamp of the workspace at `root`.
    ///
    /// # Errors
    /// Fails if a manifest, the lock file or the rules cannot be read.
    pub(crate) fn of(root: &Path) -> Result<Self, StampError> {
        let metadata = MetadataCommand::new().cargo_path(env!("CARGO")).current_dir(root).no_deps().exec()?;
        let read = |name| fs::read_to_string(root.join(name)).map_err(|error| StampError::File(name, error));
        Ok(Self::new(&read("Cargo.lock")?, &read("deny.toml")?, &metadata.packages))
    }

    /// A new compiler may change the hash: cargo-deny then runs once more than it has to.
    fn new(lock: &str, rules: &str, packages: &[Package]) -> Self {
        let mut hasher = DefaultHasher::new();
        (lock, rules).hash(&mut hasher);
        let mut packages: Vec<&Package> = packages.iter().collect();
        packages.sort_by_key(|package| &package.name);
        for package in packages {
            (package.name.as_str(), &package.license, &package.features).hash(&mut hasher);
            for dependency in &package.dependencies {
                let target = dependency.target.as_ref().map(ToString::to_string);
                (&dependency.name, dependency.req.to_string(), dependency.kind.to_string(), target).hash(&mut hasher);
                (dependency.optional, dependency.uses_default_features, &dependency.features).hash(&mut hasher);
                (&dependency.source.as_ref().map(ToString::to_string), &dependency.registry).hash(&mut hasher);
            }
        }
        Self(format!("{NOTE}{:016x}\n", hasher.finish()))
    }

    /// Whether cargo-deny has approved these dependencies.
    pub(crate) fn is_approved(&self, root: &Path) -> bool {
        fs::read_to_string(root.join(STAMP)).is_ok_and(|approved| approved == self.0)
    }

    /// Records the approval.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn approve(&self, root: &Path) -> Result<(), StampError> {
        fs::write(root.join(STAMP), &self.0).map_err(|error| StampError::File(STAMP, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::root;

    #[test]
    fn each_input_changes_the_stamp() {
        let metadata = MetadataCommand::new().cargo_path(env!("CARGO")).current_dir(root()).no_deps().exec();
        let packages = metadata.expect("the workspace").packages;
        let stamp = Stamp::new("lock", "rules", &packages);
        assert_eq!(stamp, Stamp::new("lock", "rules", &packages));
        assert_ne!(stamp, Stamp::new("lock 2", "rules", &packages));
        assert_ne!(stamp, Stamp::new("lock", "rules 2", &packages));
        let changes: [fn(&mut Package); 5] = [
            |package| package.license = None,
            |package| package.features.clear(),
            |package| package.dependencies.clear(),
            |package| package.dependencies[0].uses_default_features ^= true,
            |package| package.dependencies[0].kind = cargo_metadata::DependencyKind::Development,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = packages.clone();
            let is_full = |package: &&mut Package| !package.features.is_empty() && !package.dependencies.is_empty();
            change(changed.iter_mut().find(is_full).expect("a package with features and dependencies"));
            assert_ne!(stamp, Stamp::new("lock", "rules", &changed), "{number}");
        }
    }

    #[test]
    fn an_approval_holds_until_something_changes() {
        let folder = std::env::temp_dir().join(format!("leafseal-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (old, new) = (Stamp::new("lock", "rules", &[]), Stamp::new("lock 2", "rules", &[]));
        assert!(!old.is_approved(&folder));
        old.approve(&folder).expect("written");
        assert!(old.is_approved(&folder) && !new.is_approved(&folder));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
