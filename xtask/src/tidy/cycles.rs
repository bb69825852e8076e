//! The modules of a crate form no import cycle, except parent and child: each can be read, tested and moved on its own.
//!
//! Counts paths that begin with `crate` or `super`, in shipped code. A name that a parent re-exports counts as the parent's.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Repository, modules};
use crate::{
    lexer::{is_name, words},
    metadata::Package,
    source::{Region, Source},
};

/// Crate, and modules of it that still import each other. A line goes when its circle is cut; none is added.
const KNOWN: [(&str, &[&str]); 3] = [
    // A kernel's path names its table, and the table's entries are points of that path's curve.
    ("lanes", &["ec::curve", "ec::element", "ec::path", "ec::point", "ec::scalar", "ec::table"]),
    ("lanes", &["gcm::hash", "gcm::key"]),
    ("lanes", &["text::frame", "text::steps"]),
];

/// This file, for findings about the table.
const TABLE: &str = "xtask/src/tidy/cycles.rs";

/// Reports cycles that are not in the table, and lines of the table that are no longer cycles.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    check_against(&KNOWN, repository)
}

fn check_against(known: &[(&str, &[&str])], repository: &Repository) -> Vec<Finding> {
    repository.packages.iter().flat_map(|package| check_package(known, repository, package)).collect()
}

fn check_package(known: &[(&str, &[&str])], repository: &Repository, package: &Package) -> Vec<Finding> {
    let shipped = package.targets.iter().filter(|target| target.is_shipped());
    let crates = shipped.map(|target| Crate::new(modules::tree(&repository.sources, target)));
    let cycles: Vec<(String, Vec<String>)> = crates.flat_map(|one| one.cycles()).collect();
    let known: Vec<&[&str]> =
        known.iter().filter(|(name, _)| *name == package.name).map(|(_, modules)| *modules).collect();
    let new = cycles.iter().filter(|(_, cycle)| !known.iter().any(|modules| cycle == modules));
    let new = new.map(|(path, cycle)| Finding {
        path: path.clone(),
        line: 1,
        what: format!("modules import each other: {}", cycle.join(", ")),
        instead: "move what both need to a module that imports neither".to_owned(),
    });
    let gone = known.iter().filter(|modules| !cycles.iter().any(|(_, cycle)| cycle == *modules));
    let gone = gone.map(|modules| Finding {
        path: TABLE.to_owned(),
        line: 1,
        what: format!("{} no longer has the cycle of {}", package.name, modules.join(", ")),
        instead: "remove the line from KNOWN, or shorten it to the rest of the cycle".to_owned(),
    });
    new.chain(gone).collect()
}

/// A module by its names, from the crate's root down; the root has none.
type Path = Vec<String>;

/// The modules of one target and their imports.
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

    /// Returns each cycle: the path of its first file, and its modules in order.
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

    /// Returns the transitive imports of `module`.
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
    // The second `super` of `super::super` does not start a path.
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
                // Skips everything except names and commas, such as `as` or `*`.
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

/// Returns the next offset from `at` that is not white space.
fn skip(code: &str, at: usize) -> usize {
    let at = at.min(code.len());
    code.len() - code[at..].trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn cycles(known: &[(&str, &[&str])], files: &[(&str, &str)]) -> String {
        let mut all = vec![("crates/pool/Cargo.toml", "")];
        all.extend(files);
        let findings = check_against(known, &sample::repository(&all));
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    const LIB: (&str, &str) = ("crates/pool/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");

    #[test]
    fn a_cycle_is_named_once_with_all_its_modules() {
        let text = cycles(
            &[],
            &[
                LIB,
                ("crates/pool/src/a.rs", "use crate::{b::{self, B}, c::C};\n"),
                ("crates/pool/src/b.rs", "fn b() -> super::c::C {}\n"),
                ("crates/pool/src/c.rs", "mod d;\n"),
                ("crates/pool/src/c/d.rs", "use super::super::a::A;\nuse super::C;\n"),
            ],
        );
        assert_eq!(text, "", "what a child imports is the child's, and parent and child may know each other");
        let text = cycles(
            &[],
            &[
                LIB,
                ("crates/pool/src/a.rs", "use crate::{c::C, b::{self as other, B}};\n"),
                ("crates/pool/src/b.rs", "fn b() -> super::c::C {}\n"),
                ("crates/pool/src/c.rs", "use crate::a;\n"),
            ],
        );
        assert!(text.starts_with("crates/pool/src/a.rs:1: modules import each other: a, b, c; move"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn tests_and_reexports_of_the_root_make_no_cycle() {
        let b = "use crate::A;\n// crate::a::A\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert_eq!(cycles(&[], &files), "");
    }

    #[test]
    fn super_in_an_inline_module_is_the_file() {
        let b = "mod inner {\n    use super::a::A;\n    use super::super::a::A as B;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert!(cycles(&[], &files).contains("a, b"));
        let b = "mod inner {\n    use super::a::A;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert_eq!(cycles(&[], &files), "");
    }

    #[test]
    fn known_cycles_pass_until_they_are_removed() {
        let a = ("crates/pool/src/a.rs", "use crate::b::B;\n");
        let known: [(&str, &[&str]); 1] = [("pool", &["a", "b"])];
        assert_eq!(cycles(&known, &[LIB, a, ("crates/pool/src/b.rs", "use crate::a::A;\n")]), "");
        let text = cycles(&known, &[LIB, a, ("crates/pool/src/b.rs", "")]);
        assert!(text.starts_with("xtask/src/tidy/cycles.rs:1: pool no longer has the cycle of a, b; remove"), "{text}");
    }
}
