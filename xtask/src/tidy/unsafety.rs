//! `unsafe` is used only where it is allowed, and each use states why it is sound.
//!
//! Every crate forbids it at its root, except `lanes` (kernels), the bindings (foreign interfaces), and `crypto` and the binding for
//! Python, which deny it except in their `ffi` modules.

use super::{Finding, Repository};
use crate::{lexer::words, source::Source};

/// Crates that may use `unsafe` anywhere.
const UNSAFE_CRATES: [&str; 2] = ["lanes", "bindings"];

/// Crates that may use `unsafe` only in their module `ffi`, with their folders.
const FFI_CRATES: [(&str, &str); 2] = [("crypto", "crates/crypto/src/"), ("python", "bindings/python/src/")];

/// Maximum code lines of one statement between the note and the word `unsafe`.
const STATEMENT_LINES_MAX: usize = 6;

/// Checks the crate roots, and place and notes of each `unsafe`.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = roots(repository);
    for source in repository.rust() {
        findings.extend(places(source));
        findings.extend(notes(source));
    }
    findings
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

fn notes(source: &Source) -> Vec<Finding> {
    let code = &source.masked.code;
    let needing = words(code, "unsafe").filter(|&at| needs_note(code[at + "unsafe".len()..].trim_start()));
    let lines = needing.map(|at| source.line_of(at)).filter(|&line| !is_noted(source, line));
    let instead = "write `// SAFETY:` above it: the fact that makes it sound, and where that was checked";
    lines.map(|line| Finding::new(source, line, "unsafe without a note", instead)).collect()
}

/// Whether the code after `unsafe` opens a block, a named function or an implementation; types and attributes need no note.
fn needs_note(rest: &str) -> bool {
    let declares = |keyword| rest.strip_prefix(keyword).is_some_and(|tail: &str| tail.starts_with([' ', '<']));
    rest.starts_with('{') || declares("fn") || declares("impl")
}

fn is_noted(source: &Source, line: usize) -> bool {
    let code: Vec<&str> = source.masked.code.split('\n').take(line).collect();
    let comments: Vec<&str> = source.masked.comments.split('\n').take(line).collect();
    let has_note = |index: usize| comments[index].contains("SAFETY:") || comments[index].contains("# Safety");
    if has_note(line - 1) {
        return true;
    }
    let mut code_lines = 0;
    for index in (0..line - 1).rev() {
        let (code, is_comment) = (code[index].trim(), !comments[index].trim().is_empty());
        let is_attribute = code.starts_with("#[");
        match (has_note(index), code.is_empty(), is_attribute) {
            (true, _, _) => return true,
            (false, true, _) if is_comment => {}
            (false, true, _) => return false,
            (false, false, true) => {}
            (false, false, false) if code.ends_with([';', '{', '}']) || code_lines == STATEMENT_LINES_MAX => {
                return false;
            }
            (false, false, false) => code_lines += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn lanes(code: &str) -> String {
        sample::findings(check, &[("crates/lanes/src/lib.rs", code)])
    }

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
    fn each_use_has_its_note() {
        let noted = [
            "// SAFETY: a.\nunsafe { f() }",
            "// SAFETY: a,\n// and b.\n#[inline]\nunsafe impl Send for A {}",
            "/// Does.\n///\n/// # Safety\n/// CPU.\n#[target_feature(enable = \"avx2\")]\npub unsafe fn f() {}",
            "// SAFETY: a.\nlet x: u8 =\n    unsafe { f() };",
            "let x = unsafe { f() }; // SAFETY: a.",
            "type F = unsafe fn(u8);\n#[unsafe(no_mangle)]\nextern \"C\" fn f() {}",
        ];
        for code in noted {
            assert_eq!(lanes(code), "", "{code}");
        }
        let bare = [
            "unsafe { f() }",
            "// SAFETY: of another.\nf();\nunsafe { f() }",
            "// SAFETY: apart.\n\nunsafe { f() }",
            "// Safe.\nunsafe impl Send for A {}",
            "pub unsafe fn f() {}",
        ];
        for code in bare {
            assert!(lanes(code).contains("unsafe without a note"), "{code}");
        }
    }
}
