//! Modules of a crate do not import each other in a cycle, parent and child aside: each can be read, tested and moved without the other.
//!
//! A module counts with everything inside of it: if `a::b` imports `c`, nothing in `c` imports `a`. Counts paths that begin with `crate` or
//! `super`, in shipped code, and paths that begin with a module imported by such a path. A name that a module hands on with `use` counts as
//! the module's that it comes from.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Repository, modules};
use crate::{
    lexer::{is_name, words},
    source::{Region, SourceFile},
};

/// Modules that may hand on a name one to the next.
const HANDS_MAX: usize = 8;

/// Modules that import each other in a cycle, once for each cycle.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let targets = repository.packages.iter().flat_map(|package| &package.targets);
    let crates = targets
        .filter(|target| target.is_shipped())
        .map(|target| Crate::new(modules::tree(&repository.sources, target)));
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
type ModulePath = Vec<String>;

/// The modules of one target, and which imports which.
struct Crate<'a> {
    sources: BTreeMap<ModulePath, &'a SourceFile>,
    /// The siblings that each module imports, with everything inside of both.
    imports: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
}

impl<'a> Crate<'a> {
    fn new(sources: BTreeMap<ModulePath, &'a SourceFile>) -> Self {
        let names = names(&sources);
        let mut all: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (module, source) in &sources {
            for target in imports(module, source, &sources, &names) {
                let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
                all.entry(target[..=common].to_vec()).or_default();
                all.entry(module[..=common].to_vec()).or_default().insert(target[..=common].to_vec());
            }
        }
        Self { sources, imports: all }
    }

    /// The file of a module, or the first inside of it.
    fn file(&self, module: &ModulePath) -> String {
        let inside = self.sources.range(module.clone()..).next();
        inside.map_or_else(String::new, |(_, source)| source.path.clone())
    }

    /// Each cycle: the path of its first file, and its modules in order.
    fn cycles(&self) -> Vec<(String, Vec<String>)> {
        let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            self.imports.keys().map(|module| (module, self.reached(module))).collect();
        let mut cycles = Vec::new();
        let mut reported = BTreeSet::new();
        for (&module, others) in &reached {
            if reported.contains(module) || !others.contains(module) {
                continue;
            }
            let cycle: Vec<&ModulePath> =
                others.iter().copied().filter(|other| reached[*other].contains(module)).collect();
            reported.extend(cycle.iter().copied());
            cycles.push((self.file(module), cycle.iter().map(|path| path.join("::")).collect()));
        }
        cycles
    }

    /// All that `module` imports, and what that imports, and so on.
    fn reached(&self, module: &ModulePath) -> BTreeSet<&ModulePath> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&ModulePath> = self.imports[module].iter().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(&self.imports[next]);
            }
        }
        reached
    }
}

/// The names that modules hand on, with the paths that they come from: `a::B` for `b::B`, if `a` has `use crate::b::B`.
fn names(modules: &BTreeMap<ModulePath, &SourceFile>) -> BTreeMap<ModulePath, ModulePath> {
    let mut names = BTreeMap::new();
    for (module, source) in modules {
        let code = &source.masked.code;
        for at in words(code, "use").filter(|&at| source.region(source.line_of(at)) == Region::Shipped) {
            let inline = modules::inline_around(source, at);
            let inside: ModulePath = module.iter().cloned().chain(inline).collect();
            paths(code, at + "use".len(), &mut Vec::new(), &mut |path| {
                let is_child = path.first().is_some_and(|name| {
                    let child: ModulePath = inside.iter().cloned().chain([(*name).to_owned()]).collect();
                    modules.contains_key(&child)
                });
                let target = match path.first() {
                    Some(&("crate" | "super")) => absolute(path, inside.clone()),
                    Some(&"self") => absolute(&path[1..], inside.clone()),
                    _ if is_child => absolute(path, inside.clone()),
                    _ => None,
                };
                if let (Some(target), Some(name)) = (target, path.last()) {
                    names.insert(inside.iter().cloned().chain([(*name).to_owned()]).collect(), target);
                }
            });
        }
    }
    names
}

/// The module that `path` leads to, by the names that modules hand on.
fn module_of(
    mut path: ModulePath,
    modules: &BTreeMap<ModulePath, &SourceFile>,
    names: &BTreeMap<ModulePath, ModulePath>,
) -> ModulePath {
    for _ in 0..HANDS_MAX {
        let length = (0..=path.len()).rev().find(|&length| modules.contains_key(&path[..length])).unwrap_or_default();
        match path.get(..=length).and_then(|name| names.get(name)) {
            Some(target) if *target != path[..=length] => {
                path = target.iter().chain(&path[length + 1..]).cloned().collect();
            }
            _ => {
                path.truncate(length);
                break;
            }
        }
    }
    path
}

/// The modules whose names `source` uses, without its ancestors and descendants.
fn imports(
    module: &ModulePath,
    source: &SourceFile,
    modules: &BTreeMap<ModulePath, &SourceFile>,
    names: &BTreeMap<ModulePath, ModulePath>,
) -> BTreeSet<ModulePath> {
    let code = &source.masked.code;
    let begins = words(code, "crate::").chain(words(code, "super::"));
    // The second `super` of `super::super` is no beginning.
    let begins = begins.filter(|&at| !code[..at].ends_with("::"));
    let shipped = begins.filter(|&at| source.region(source.line_of(at)) == Region::Shipped);
    let inside = |at: usize| {
        let inline = modules::inline_around(source, at);
        module.iter().cloned().chain(inline).collect::<ModulePath>()
    };
    let mut found = Vec::new();
    for at in shipped {
        paths(code, at, &mut Vec::new(), &mut |path| found.extend(absolute(path, inside(at))));
    }
    let imported: Vec<ModulePath> =
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
    let targets = found.into_iter().map(|path| module_of(path, modules, names));
    let targets = targets.filter(|target| modules.contains_key(target));
    targets.filter(|target| !target.starts_with(module) && !module.starts_with(target)).collect()
}

/// `path` from the crate's root, if it is used in module `inside`.
fn absolute(path: &[&str], inside: ModulePath) -> Option<ModulePath> {
    let supers = path.iter().take_while(|name| **name == "super").count();
    let (base, rest) = match path.first()? {
        &"crate" => (ModulePath::new(), &path[1..]),
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
            ("crates/pool/src/c.rs", "mod d;\nuse d::D;\n"),
            ("crates/pool/src/c/d.rs", "use super::C;\n"),
        ]);
        assert_eq!(text, "", "parent and child may know each other");
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
        let through = |e: &str| {
            let files = [
                LIB,
                ("crates/pool/src/b.rs", "mod d;\nmod e;\n"),
                ("crates/pool/src/b/d.rs", "use super::e::E;\n"),
                ("crates/pool/src/b/e.rs", e),
            ];
            cycles(&files)
        };
        assert!(through("use crate::b;\nfn e() { b::d::f() }\n").contains("modules import each other: b::d, b::e"));
        assert_eq!(through("use crate::b;\nfn e() { b::f() }\n"), "");
    }

    #[test]
    fn a_module_counts_with_everything_inside_of_it() {
        let text = cycles(&[
            LIB,
            ("crates/pool/src/a.rs", "use crate::c::C;\n"),
            ("crates/pool/src/c.rs", "mod d;\nmod e;\n"),
            ("crates/pool/src/c/d.rs", "use super::super::a::A;\nuse super::e::E;\n"),
            ("crates/pool/src/c/e.rs", "use crate::c::d::D;\n"),
        ]);
        let found: Vec<&str> = text.lines().collect();
        assert_eq!(found.len(), 2, "{text}");
        assert!(found[0].contains("each other: a, c;") && found[1].contains("each other: c::d, c::e;"), "{text}");
    }

    #[test]
    fn a_name_that_is_handed_on_counts_as_that_of_its_module() {
        let b = "use crate::A;\n// crate::a::A\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", b)];
        assert!(cycles(&files).contains("a, b"));
        let b = b.replacen("use crate::A", "use crate::Other", 1);
        let files = [LIB, ("crates/pool/src/a.rs", "use crate::b::B;\n"), ("crates/pool/src/b.rs", &b)];
        assert_eq!(cycles(&files), "", "tests and comments make no cycle");
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
