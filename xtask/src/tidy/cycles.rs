//! Modules of a crate do not import each other in a cycle, parent and child aside: each can be read, tested and moved without the other.
//!
//! Counts paths that begin with `crate` or `super`, in shipped code, and paths that begin with a module imported by such a path. A name
//! that a parent re-exports counts as the parent's.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Repository, modules};
use crate::{
    lexer::{is_name, words},
    metadata::Package,
    source::{Region, Source},
};

/// Modules that import each other in a cycle, once for each cycle.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.packages.iter().flat_map(|package| check_package(repository, package)).collect()
}

fn check_package(repository: &Repository, package: &Package) -> Vec<Finding> {
    let shipped = package.targets.iter().filter(|target| target.is_shipped());
    let crates = shipped.map(|target| Crate::new(modules::tree(&repository.sources, target)));
    let cycles = crates.flat_map(|one| one.cycles());
    let findings = cycles.map(|(path, cycle)| Finding {
        path,
        line: 1,
        what: format!("modules import each other: {}", cycle.join(", ")),
        instead: "move what both need to a module that imports neither".to_owned(),
    });
    findings.collect()
}

/// A module by its names, from the crate's root down; the root has none.
type Path = Vec<String>;

/// The modules of one target, and which imports which.
struct Crate<'a> {
    sources: BTreeMap<Path, &'a Source>,
    imports: BTreeMap<Path, BTreeSet<Path>>,
}

impl<'a> Crate<'a> {
    fn new(sources: BTreeMap<Path, &'a Source>) -> Self {
        let imports = sources.iter().map(|(module, source)| (module.clone(), imports(module, source, &sources)));
        let imports = imports.collect();
        Self { sources, imports }
    }

    /// Each cycle: the path of its first file, and its modules in order.
    fn cycles(&self) -> Vec<(String, Vec<String>)> {
        let reached: BTreeMap<&Path, BTreeSet<&Path>> =
            self.imports.keys().map(|module| (module, self.reached(module))).collect();
        let mut cycles = Vec::new();
        let mut reported = BTreeSet::new();
        for (&module, others) in &reached {
            if reported.contains(module) || !others.contains(module) {
                continue;
            }
            let cycle: Vec<&Path> = others.iter().copied().filter(|other| reached[*other].contains(module)).collect();
            reported.extend(cycle.iter().copied());
            cycles.push((self.sources[module].path.clone(), cycle.iter().map(|path| path.join("::")).collect()));
        }
        cycles
    }

    /// All that `module` imports, and what that imports, and so on.
    fn reached(&self, module: &Path) -> BTreeSet<&Path> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&Path> = self.imports[module].iter().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(&self.imports[next]);
            }
        }
        reached
    }
}

/// The modules whose names `source` uses, without its ancestors and descendants.
fn imports(module: &Path, source: &Source, modules: &BTreeMap<Path, &Source>) -> BTreeSet<Path> {
    let code = &source.masked.code;
    let begins = words(code, "crate::").chain(words(code, "super::"));
    // The second `super` of `super::super` is no beginning.
    let begins = begins.filter(|&at| !code[..at].ends_with("::"));
    let shipped = begins.filter(|&at| source.region(source.line_of(at)) == Region::Shipped);
    let inside = |at: usize| {
        let inline = modules::inline_around(source, at);
        module.iter().cloned().chain(inline).collect::<Path>()
    };
    let mut found = Vec::new();
    for at in shipped {
        paths(code, at, &mut Vec::new(), &mut |path| found.extend(absolute(path, inside(at))));
    }
    let imported: Vec<Path> =
        found.iter().filter(|path| !path.is_empty() && modules.contains_key(*path)).cloned().collect();
    for base in imported {
        let name = base.last().map_or("", String::as_str);
        let start = format!("{name}::");
        let used = words(code, &start).filter(|&at| !code[..at].ends_with("::"));
        for at in used.filter(|&at| source.region(source.line_of(at)) == Region::Shipped) {
            let rest =
                |path: &[&str]| base.iter().cloned().chain(path[1..].iter().map(|name| (*name).to_owned())).collect();
            paths(code, at, &mut Vec::new(), &mut |path| found.push(rest(path)));
        }
    }
    let targets = found.into_iter().filter_map(|path| {
        (0..=path.len()).rev().map(|length| path[..length].to_vec()).find(|path| modules.contains_key(path))
    });
    targets.filter(|target| !target.starts_with(module) && !module.starts_with(target)).collect()
}

/// `path` from the crate's root, if it is used in module `inside`.
fn absolute(path: &[&str], inside: Path) -> Option<Path> {
    let supers = path.iter().take_while(|name| **name == "super").count();
    let (base, rest) = match path.first()? {
        &"crate" => (Path::new(), &path[1..]),
        _ => (inside[..inside.len().checked_sub(supers)?].to_vec(), &path[supers..]),
    };
    Some(base.into_iter().chain(rest.iter().map(|name| (*name).to_owned())).collect())
}

/// Passes `each` every path of the tree at `at`, such as both of `crate::a::{b::C, d}`; returns the offset after the tree.
fn paths<'c>(code: &'c str, at: usize, before: &mut Vec<&'c str>, each: &mut impl FnMut(&[&'c str])) -> usize {
    let depth = before.len();
    let mut at = skip(code, at);
    loop {
        if code[at..].starts_with('{') {
            at = skip(code, at + 1);
            while at < code.len() && !code[at..].starts_with('}') {
                let end = paths(code, at, before, each);
                let end = if code[end..].starts_with(',') { end + 1 } else { end };
                // Whatever is neither name nor comma, such as `as` or `*`, is passed over.
                let next = code[at..].chars().next().map_or(1, char::len_utf8);
                at = skip(code, end.max(at + next));
            }
            at = skip(code, at + 1).min(code.len());
            break;
        }
        let length = code.as_bytes()[at..].iter().take_while(|&&byte| is_name(byte)).count();
        before.push(&code[at..at + length]);
        at += length;
        let after = skip(code, at);
        if !code[after..].starts_with("::") {
            each(before);
            at = after;
            break;
        }
        at = skip(code, after + 2);
    }
    before.truncate(depth);
    at
}

/// The next offset from `at` that is no white space.
fn skip(code: &str, at: usize) -> usize {
    let at = at.min(code.len());
    code.len() - code[at..].trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn cycles(files: &[(&str, &str)]) -> String {
        let mut all = vec![("crates/pool/Cargo.toml", "")];
        all.extend(files);
        sample::findings(check, &all)
    }

    const LIB: (&str, &str) = ("crates/pool/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");

    #[test]
    fn a_cycle_is_named_once_with_all_its_modules() {
        let text = cycles(&[
            LIB,
            ("crates/pool/src/a.rs", "use crate::{b::{self, B}, c::C};\n"),
            ("crates/pool/src/b.rs", "fn b() -> super::c::C {}\n"),
            ("crates/pool/src/c.rs", "mod d;\n"),
            ("crates/pool/src/c/d.rs", "use super::super::a::A;\nuse super::C;\n"),
        ]);
        assert_eq!(text, "", "what a child imports is the child's, and parent and child may know each other");
        let text = cycles(&[
            LIB,
            ("crates/pool/src/a.rs", "use crate::{c::C, b::{self as other, B}};\n"),
            ("crates/pool/src/b.rs", "fn b() -> super::c::C {}\n"),
            ("crates/pool/src/c.rs", "use crate::a;\n"),
        ]);
        assert!(text.starts_with("crates/pool/src/a.rs:1: modules import each other: a, b, c; move"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn a_path_through_an_imported_module_counts() {
        let files = [
            LIB,
            ("crates/pool/src/a.rs", "use crate::b;\nfn a() { b::d::f() }\n"),
            ("crates/pool/src/b.rs", "mod d;\n"),
            ("crates/pool/src/b/d.rs", "use crate::a::A;\n"),
        ];
        assert!(cycles(&files).contains("modules import each other: a, b::d"));
        let apart = [files[0], ("crates/pool/src/a.rs", "use crate::b;\nfn a() { b::f() }\n"), files[2], files[3]];
        assert_eq!(cycles(&apart), "");
    }

    #[test]
    fn tests_and_the_names_that_the_root_hands_on_make_no_cycle() {
        let b = "use crate::A;\n// crate::a::A\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert_eq!(cycles(&files), "");
    }

    #[test]
    fn super_in_an_inline_module_is_the_file() {
        let b = "mod inner {\n    use super::a::A;\n    use super::super::a::A as B;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert!(cycles(&files).contains("a, b"));
        let b = "mod inner {\n    use super::a::A;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert_eq!(cycles(&files), "");
    }
}
