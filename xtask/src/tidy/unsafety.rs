//! `unsafe` is used only where it is allowed, and each unsafe function states its contract.
//!
//! The compiler refuses it by the lint `unsafe_code` of the workspace, which every package inherits. Modules that need it allow it; this
//! checks which modules do. Clippy asks for notes on blocks and implementations.

use super::{Finding, Repository};
use crate::{
    lexer::words,
    metadata::Package,
    source::{Region, SourceFile},
};

/// Files and folders that may allow it: kernels and foreign interfaces.
const PLACES: [&str; 6] = [
    "bindings/java/native/",
    "bindings/node/crypto/",
    "bindings/node/wire/",
    "bindings/python/src/ffi.rs",
    "crates/crypto/src/ffi/",
    "crates/lanes/",
];

/// The lines of a manifest that inherits the lints.
const INHERITED: &str = "[lints]\nworkspace = true\n";

/// Checks the manifests, the places that allow `unsafe`, and the contracts.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let manifests = repository.packages.iter().filter_map(|package| manifest(repository, package));
    let sources = repository.rust().flat_map(|source| [places(source), contracts(source)]);
    manifests.chain(sources.flatten()).collect()
}

fn manifest(repository: &Repository, package: &Package) -> Option<Finding> {
    let manifest = repository.find(&format!("{}/Cargo.toml", package.folder))?;
    let instead = "inherit the lints of the workspace: `[lints]` with `workspace = true`";
    (!manifest.text.contains(INHERITED)).then(|| Finding::new(manifest, 1, "the manifest lets unsafe code in", instead))
}

/// Shipped code that changes the lint elsewhere.
fn places(source: &SourceFile) -> Vec<Finding> {
    if PLACES.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    let lines = words(&source.masked.code, "unsafe_code").map(|at| source.line_of(at));
    let shipped = lines.filter(|&line| source.region(line) == Region::Shipped);
    let instead = "move unsafe code into `lanes`, an `ffi` or a binding";
    shipped.map(|line| Finding::new(source, line, "a level of the lint `unsafe_code`", instead)).collect()
}

/// Unsafe functions without a contract. Clippy's `missing_safety_doc` asks either public functions alone, or also safe ones that need
/// features of the CPU.
fn contracts(source: &SourceFile) -> Vec<Finding> {
    let code = &source.masked.code;
    let is_function = |at: &usize| code[at + "unsafe".len()..].trim_start().starts_with("fn ");
    let lines = words(code, "unsafe").filter(is_function).map(|at| source.line_of(at));
    let (code, comments): (Vec<&str>, Vec<&str>) = (code.lines().collect(), source.masked.comments.lines().collect());
    let is_above = |&line: &usize| !comments[line].trim().is_empty() || code[line].trim().starts_with("#[");
    let states = |line: usize| comments[line].contains("SAFETY:") || comments[line].contains("# Safety");
    let bare = lines.filter(|line| !(0..line - 1).rev().take_while(is_above).any(states));
    let instead = "write its contract above it, below `# Safety` or as `// SAFETY:`";
    bare.map(|line| Finding::new(source, line, "an unsafe function without a contract", instead)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    #[test]
    fn manifests_inherit_the_lints() {
        let manifest = |text| sample::findings(check, &[("crates/pool/Cargo.toml", text)]);
        assert_eq!(manifest("[package]\n\n[lints]\nworkspace = true\n"), "");
        for text in ["[package]\n", "[lints.rust]\nunsafe_code = \"allow\"\n"] {
            assert!(manifest(text).starts_with("crates/pool/Cargo.toml:1: the manifest lets unsafe code in"), "{text}");
        }
    }

    #[test]
    fn only_kernels_and_foreign_interfaces_allow_it() {
        let allow = "//! Purpose.\n#![allow(unsafe_code)]\n";
        let find = |path: &str| sample::findings(check, &[(path, allow)]);
        for path in PLACES {
            assert_eq!(find(&format!("{path}{}", if path.ends_with('/') { "a.rs" } else { "" })), "");
        }
        assert_eq!(find("crates/engine/tests/copies.rs"), "");
        for path in ["crates/crypto/src/lib.rs", "crates/pool/src/a.rs", "bindings/python/src/core.rs"] {
            assert!(find(path).starts_with(&format!("{path}:2: a level of the lint")), "{path}");
        }
    }

    #[test]
    fn unsafe_functions_have_contracts() {
        let lanes = |code: &str| sample::findings(check, &[("crates/lanes/src/lib.rs", code)]);
        for code in [
            "// SAFETY: a,\n// and b.\n#[inline]\nunsafe fn f() {}",
            "/// Does.\n///\n/// # Safety\n/// CPU.\n#[target_feature(enable = \"avx2\")]\npub unsafe fn f() {}",
            "type F = unsafe fn(u8);\n#[unsafe(no_mangle)]\nextern \"C\" fn f() {}",
        ] {
            assert_eq!(lanes(code), "", "{code}");
        }
        for code in ["pub unsafe fn f() {}", "// SAFETY: apart.\n\nunsafe fn f() {}", "// Safe.\nunsafe fn f() {}"] {
            assert!(lanes(code).contains("without a contract"), "{code}");
        }
    }
}
