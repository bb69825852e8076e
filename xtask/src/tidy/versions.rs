//! Libraries that several packages use are declared once, in the manifest of the workspace, with one version.

use std::collections::BTreeMap;

use super::{Finding, Repository};
use crate::source::SourceFile;

/// Reports manifests that set the version of a library that the workspace or another package also sets.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let manifests = repository.packages.iter().filter_map(|package| repository.find(&manifest_path(&package.folder)));
    let mut declared: BTreeMap<&str, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for manifest in manifests {
        for (line, name) in own_versions(manifest) {
            declared.entry(name).or_default().push((manifest, line));
        }
    }
    let workspace = repository.find("Cargo.toml").map(|manifest| own_versions(manifest)).unwrap_or_default();
    let is_shared = |name: &str, places: &[(&SourceFile, usize)]| {
        let is_elsewhere = places.iter().any(|(manifest, _)| manifest.path != places[0].0.path);
        is_elsewhere || workspace.iter().any(|(_, known)| *known == name)
    };
    let shared = declared.iter().filter(|(name, places)| is_shared(name, places));
    let instead = "declare it below workspace.dependencies and take it with `workspace = true`";
    shared
        .flat_map(|(name, places)| places.iter().map(move |place| (name, place)))
        .map(|(name, (manifest, line))| {
            Finding::new(manifest, *line, format!("{name} has a version of its own, and others use it too"), instead)
        })
        .collect()
}

fn manifest_path(folder: &str) -> String {
    if folder.is_empty() { "Cargo.toml".to_owned() } else { format!("{folder}/Cargo.toml") }
}

/// Returns the lines of a manifest that set the version of a library, with the library.
fn own_versions(manifest: &SourceFile) -> Vec<(usize, &str)> {
    let mut is_dependencies = false;
    let mut found = Vec::new();
    for (number, line) in manifest.text.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            is_dependencies = section.trim_end().ends_with("dependencies]");
        } else if is_dependencies
            && let Some((name, value)) = line.split_once(" = ")
            && (value.starts_with('"') || value.contains("version = "))
        {
            found.push((number + 1, name.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_library_of_several_packages_is_declared_once() {
        let findings = |workspace: &str, pool: &str, engine: &str| {
            sample::findings(
                check,
                &[("Cargo.toml", workspace), ("crates/pool/Cargo.toml", pool), ("crates/engine/Cargo.toml", engine)],
            )
        };
        let own =
            "[dependencies]\nslab = \"0.4\"\n[dev-dependencies]\nslab = { version = \"0.4\", features = [\"a\"] }\n";
        let shared = "[dependencies]\nslab.workspace = true\n[package]\nslab = \"0.4\"\n";
        assert_eq!(findings("", own, shared), "");
        let text = findings("[workspace.dependencies]\nslab = \"0.4\"\n", own, shared);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.starts_with("crates/pool/Cargo.toml:2: slab has a version of its own"), "{text}");
        assert_eq!(findings("", own, own).lines().count(), 4);
    }
}
