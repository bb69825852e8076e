//! `unsafe` is used only where it is allowed, and each unsafe function states its contract. Clippy asks the same of blocks and
//! implementations.
//!
//! Every crate forbids it at its root, except `lanes` (kernels), the bindings (foreign interfaces), and `crypto` and the binding for
//! Python, which deny it except in their `ffi` modules.

use super::{Finding, Repository};
use crate::{lexer::words, source::Source};

/// Crates that may use `unsafe` anywhere.
const UNSAFE_CRATES: [&str; 2] = ["lanes", "bindings"];

/// Crates that may use `unsafe` only in their module `ffi`, with their folders.
const FFI_CRATES: [(&str, &str); 2] = [("crypto", "crates/crypto/src/"), ("python", "bindings/python/src/")];

/// Checks the crate roots, the place of each `unsafe`, and the contracts.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    roots(repository)
        .into_iter()
        .chain(repository.rust().flat_map(|source| [places(source), contracts(source)]).flatten())
        .collect()
}

fn roots(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &repository.packages {
        let attribute = match package.name.as_str() {
            name if UNSAFE_CRATES.contains(&name) => continue,
            name if FFI_CRATES.iter().any(|(crate_name, _)| *crate_name == name) => "#![deny(unsafe_code)]",
            _ => "#![forbid(unsafe_code)]",
        };
        let roots = package.targets.iter().filter(|target| target.is_shipped());
        for source in roots.filter_map(|target| repository.find(&target.path)) {
            if !source.masked.code.contains(attribute) {
                findings.push(Finding::new(
                    source,
                    1,
                    "the crate's root lets unsafe code in",
                    format!("write `{attribute}` below its purpose"),
                ));
            }
        }
    }
    findings
}

/// In crates with such a module, `unsafe` and the permission for it are allowed only there.
fn places(source: &Source) -> Vec<Finding> {
    let folder = FFI_CRATES.iter().find_map(|(_, folder)| source.path.starts_with(folder).then_some(folder));
    let Some(folder) = folder else { return Vec::new() };
    if source.path.ends_with("/src/ffi.rs") || source.path.contains("/src/ffi/") {
        return Vec::new();
    }
    let code = &source.masked.code;
    let opens_ffi = |at: usize| code[at..].split_once(']').is_some_and(|(_, rest)| names_ffi(rest));
    let allowed = words(code, "allow(unsafe_code)").filter(|&at| !opens_ffi(at));
    let found = words(code, "unsafe").chain(allowed);
    found
        .map(|at| Finding::new(source, source.line_of(at), "unsafe outside `ffi`", format!("move it into {folder}ffi")))
        .collect()
}

fn names_ffi(rest: &str) -> bool {
    let words: Vec<&str> = rest.split_whitespace().take(3).collect();
    words.starts_with(&["mod", "ffi;"]) || words.get(1..).is_some_and(|tail| tail == ["mod", "ffi;"])
}

/// Unsafe functions without a contract. Clippy's `missing_safety_doc` asks either public functions alone, or also safe ones that need
/// features of the CPU.
fn contracts(source: &Source) -> Vec<Finding> {
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
    fn crate_roots_keep_unsafe_out() {
        let root = |name: &str, code: &str| {
            let folder = if name == "wire" { "bindings/node/wire".into() } else { format!("crates/{name}") };
            sample::findings(check, &[(&format!("{folder}/Cargo.toml"), ""), (&format!("{folder}/src/lib.rs"), code)])
        };
        assert_eq!(root("pool", "#![forbid(unsafe_code)]"), "");
        assert_eq!(root("lanes", ""), "");
        assert_eq!(root("wire", ""), "");
        assert_eq!(root("crypto", "#![deny(unsafe_code)]\n#[allow(unsafe_code)]\nmod ffi;\n"), "");
        assert!(root("pool", "// #![forbid(unsafe_code)]").contains("write `#![forbid(unsafe_code)]`"));
        assert!(root("crypto", "").contains("write `#![deny(unsafe_code)]`"));
    }

    #[test]
    fn crates_with_a_module_for_it_contain_unsafe_only_there() {
        let block = "fn f() {\n    // SAFETY: checked above.\n    unsafe { g() }\n}\n";
        assert_eq!(sample::findings(check, &[("crates/crypto/src/ffi.rs", block)]), "");
        assert_eq!(sample::findings(check, &[("crates/crypto/src/ffi/aead.rs", block)]), "");
        assert!(
            sample::findings(check, &[("crates/crypto/src/aead.rs", block)])
                .contains("aead.rs:3: unsafe outside `ffi`")
        );
        assert_eq!(sample::findings(check, &[("bindings/python/src/ffi.rs", block)]), "");
        assert!(
            sample::findings(check, &[("bindings/python/src/core.rs", block)])
                .contains("move it into bindings/python/src/ffi")
        );
        let allow = "#[allow(unsafe_code)]\nmod aead;\n#[allow(unsafe_code)]\npub mod ffi;\n";
        let text = sample::findings(check, &[("crates/crypto/src/lib.rs", allow)]);
        assert!(text.starts_with("crates/crypto/src/lib.rs:1: unsafe outside"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
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
