//! Files and modules: each Rust file states its purpose, is named in snake case and belongs to a target.
//!
//! The rule follows `mod` lines from cargo's targets, and reports files that no target reaches, which the compiler never reads. The same
//! walk identifies files that are test code because only tests declare them.

use std::collections::{BTreeMap, HashMap};

use cargo_metadata::TargetKind;

use super::{Finding, Repository};
use crate::{
    lexer::{is_name, words},
    metadata::{CargoTarget, Package},
    source::{Region, SourceFile},
};

/// Minimum words of the sentence that opens a file.
const PURPOSE_WORDS_MIN: usize = 3;

/// Checks purpose, name and reachability of every Rust file.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let packages = repository.packages.iter().chain(&repository.packages_apart);
    let reached = reach(&repository.sources, packages);
    repository.rust().flat_map(|source| [purpose(source), name(source), dead(source, &reached)]).flatten().collect()
}

fn purpose(source: &SourceFile) -> Option<Finding> {
    let opening = source.text.lines().map_while(|line| line.strip_prefix("//!"));
    let opening = opening.take_while(|line| !line.trim().is_empty()).collect::<Vec<_>>().join(" ");
    let is_sentence = opening.contains(['.', ':', '?']) && opening.split_whitespace().count() >= PURPOSE_WORDS_MIN;
    let instead = "open the file with `//!` and a full sentence on its purpose";
    (!is_sentence).then(|| Finding::new(source, 1, "the file does not say what it is for", instead))
}

fn name(source: &SourceFile) -> Option<Finding> {
    let stem = source.name().trim_end_matches(".rs");
    let is_snake = stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    (!is_snake).then(|| Finding::new(source, 1, "the file's name is not in snake case", "rename it"))
}

fn dead(source: &SourceFile, reached: &HashMap<String, Region>) -> Option<Finding> {
    let instead = "declare it with `mod` in its parent, or delete it";
    (!reached.contains_key(&source.path)).then(|| Finding::new(source, 1, "no target reaches this file", instead))
}

/// Marks as test code every file that only tests reach.
pub(super) fn mark_tests<'a>(sources: &mut [SourceFile], packages: impl Iterator<Item = &'a Package>) {
    let reached = reach(sources, packages);
    for source in sources {
        if reached.get(&source.path) == Some(&Region::Test) {
            source.make_test();
        }
    }
}

/// Every file that a target reaches through `mod`, and whether anything shipped reaches it.
fn reach<'a>(sources: &[SourceFile], packages: impl Iterator<Item = &'a Package>) -> HashMap<String, Region> {
    let files: HashMap<&str, &SourceFile> = sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut reached: HashMap<String, Region> = HashMap::new();
    let mut open: Vec<(String, Region, ModuleFolder)> =
        packages.flat_map(|package| &package.targets).map(start).collect();
    while let Some((path, region, place)) = open.pop() {
        let Some(source) = files.get(path.as_str()) else {
            continue;
        };
        // A file is visited again only if shipped code reaches it after tests did.
        if reached.get(&path).is_some_and(|&known| known == Region::Shipped || region == Region::Test) {
            continue;
        }
        reached.insert(path, region);
        for module in declared(source) {
            let region = if source.region(module.line) == Region::Test { Region::Test } else { region };
            for (path, place) in module.candidates(source, place) {
                open.push((path, region, place));
            }
        }
    }
    reached
}

fn start(target: &CargoTarget) -> (String, Region, ModuleFolder) {
    let is_shipped = target.is_shipped() || target.kinds.contains(&TargetKind::CustomBuild);
    let region = if is_shipped { Region::Shipped } else { Region::Test };
    (target.path.clone(), region, ModuleFolder::OwnsFolder)
}

/// Returns the modules of a target that shipped code declares, by their paths.
pub(super) fn tree<'a>(sources: &'a [SourceFile], target: &CargoTarget) -> BTreeMap<Vec<String>, &'a SourceFile> {
    let files: HashMap<&str, &SourceFile> = sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut tree = BTreeMap::new();
    let mut open = vec![(Vec::new(), target.path.clone(), ModuleFolder::OwnsFolder)];
    while let Some((names, path, place)) = open.pop() {
        let Some(source) = files.get(path.as_str()) else { continue };
        for module in declared(source).into_iter().filter(|module| source.region(module.line) == Region::Shipped) {
            let names: Vec<String> = names.iter().chain(&module.names).cloned().collect();
            open.extend(module.candidates(source, place).into_iter().map(|(path, place)| (names.clone(), path, place)));
        }
        tree.insert(names, *source);
    }
    tree
}

/// Names of the inline modules of this file around byte `at`, the outermost first.
pub(super) fn inline_around(source: &SourceFile, at: usize) -> Vec<String> {
    let code = &source.masked.code;
    let opened = words(code, "mod").take_while(|&word| word < at).filter_map(|word| {
        let rest = code[word + 3..].trim_start();
        let name: String = rest.chars().take_while(|&letter| u8::try_from(letter).is_ok_and(is_name)).collect();
        let open = code.len() - rest[name.len()..].trim_start().len();
        let is_around = code[open..].starts_with('{') && crate::lexer::closing(code, open) > at;
        is_around.then_some(name)
    });
    opened.collect()
}

/// The folder of a file's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModuleFolder {
    /// The file's own folder: the file is a target's root, `mod.rs`, or the target of `#[path]`.
    OwnsFolder,
    /// The folder with the file's name.
    FolderOfItsName,
}

/// A `mod name;`.
#[derive(Debug)]
struct Module {
    line: usize,
    /// Names of the enclosing inline modules, then its own.
    names: Vec<String>,
    /// The path in `#[path = "…"]`.
    path: Option<String>,
}

impl Module {
    /// Paths at which the compiler looks for the module's file.
    fn candidates(&self, source: &SourceFile, place: ModuleFolder) -> Vec<(String, ModuleFolder)> {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if let Some(path) = &self.path {
            return vec![(normal(&format!("{folder}/{path}")), ModuleFolder::OwnsFolder)];
        }
        let base = match place {
            ModuleFolder::OwnsFolder => folder,
            ModuleFolder::FolderOfItsName => source.path.trim_end_matches(".rs"),
        };
        let stem = format!("{base}/{}", self.names.join("/"));
        vec![
            (format!("{stem}.rs"), ModuleFolder::FolderOfItsName),
            (format!("{stem}/mod.rs"), ModuleFolder::OwnsFolder),
        ]
    }
}

/// `path` with its `..` resolved.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the modules that `source` declares without a body.
fn declared(source: &SourceFile) -> Vec<Module> {
    let code = &source.masked.code;
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut modules = Vec::new();
    for at in words(code, "mod") {
        let rest = code[at + 3..].trim_start();
        let name: String = rest.chars().take_while(|&letter| u8::try_from(letter).is_ok_and(is_name)).collect();
        let after = rest[name.len()..].trim_start();
        inline.retain(|(_, end)| *end > at);
        if after.starts_with('{') {
            inline.push((name, crate::lexer::closing(code, code.len() - after.len())));
        } else if after.starts_with(';') {
            let mut names: Vec<String> = inline.iter().map(|(name, _)| name.clone()).collect();
            names.push(name);
            modules.push(Module { line: source.line_of(at), names, path: path_attribute(source, at) });
        }
    }
    modules
}

/// Returns the file of a `#[path]` attribute before `at`.
fn path_attribute(source: &SourceFile, at: usize) -> Option<String> {
    let item = source.masked.code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
    let attribute = item + source.masked.code[item..at].find("#[path")?;
    source.text[attribute..at].split('"').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    const SAID: &str = "//! Says what this file is for.\n";

    fn check_files(files: &[(&str, &str)]) -> String {
        let mut all = vec![("crates/pool/Cargo.toml", "")];
        all.extend(files);
        sample::findings(check, &all)
    }

    #[test]
    fn a_file_states_its_purpose() {
        let lib = |text: &str| check_files(&[("crates/pool/src/lib.rs", text)]);
        assert_eq!(lib(SAID), "");
        assert_eq!(lib("//! Says what this file is for,\n//! in two lines.\n//!\n//! More."), "");
        for bad in
            ["", "// Says what this file is for.\n", "//! Pool.\n", "use std::fs;\n//! Says what this file is for.\n"]
        {
            assert!(lib(bad).contains("does not say what it is for"), "{bad}");
        }
    }

    #[test]
    fn names_are_in_snake_case() {
        let text = check_files(&[
            ("crates/pool/src/lib.rs", "//! Says what this file is for.\n#[path = \"Fair-Queue.rs\"]\nmod queue;\n"),
            ("crates/pool/src/Fair-Queue.rs", SAID),
        ]);
        assert_eq!(text, "crates/pool/src/Fair-Queue.rs:1: the file's name is not in snake case; rename it");
    }

    #[test]
    fn a_file_that_nothing_declares_is_dead() {
        let lib = "//! Says what this file is for.\nmod a;\nmod b { mod c; }\n// mod e;\n";
        let text = check_files(&[
            ("crates/pool/src/lib.rs", lib),
            ("crates/pool/src/a.rs", "//! Says what this file is for.\nmod d;\n"),
            ("crates/pool/src/a/d.rs", SAID),
            ("crates/pool/src/b/c/mod.rs", SAID),
            ("crates/pool/src/e.rs", SAID),
            ("crates/pool/src/a/e.rs", SAID),
        ]);
        let dead: Vec<_> = text.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
        assert_eq!(dead, ["crates/pool/src/e.rs", "crates/pool/src/a/e.rs"], "{text}");
        assert!(text.contains("no target reaches this file"));
    }

    #[test]
    fn a_module_declared_only_by_tests_is_test_code() {
        let repository = sample::repository(&[
            ("crates/pool/Cargo.toml", ""),
            ("crates/pool/src/lib.rs", "//! Lib.\n#[cfg(test)]\nmod slow;\nmod fast;\n"),
            ("crates/pool/src/slow.rs", "//! Slow.\nmod inner;\n"),
            ("crates/pool/src/slow/inner.rs", "//! Inner.\n"),
            ("crates/pool/src/fast.rs", "//! Fast.\n"),
        ]);
        let region = |path| repository.find(path).expect("it is in the sample").region(1);
        assert_eq!(region("crates/pool/src/slow.rs"), Region::Test);
        assert_eq!(region("crates/pool/src/slow/inner.rs"), Region::Test);
        assert_eq!(region("crates/pool/src/fast.rs"), Region::Shipped);
    }
}
