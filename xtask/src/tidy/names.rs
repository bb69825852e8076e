//! One name, one meaning: a crate may not declare a type whose name another crate declares.
//!
//! Counts structs, enums, unions, traits and type aliases of shipped code, private ones too: a reader who searches for a name should find
//! one type. Associated types and test code do not count. Names that were shared before the rule are listed, and the list may only get
//! shorter.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Repository};
use crate::{
    lexer::{is_name, words},
    source::{Region, SourceFile},
};

/// Names that several crates may declare: `Readme` compiles the examples of a crate's README, and napi's macros know `Result` by its name.
const SHARED: &[&str] = &["Readme", "Result"];

const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// A declared type: its crate, its file and its line.
type Declaration<'a> = (&'a str, &'a SourceFile, usize);

/// Reports each declaration of a name that a crate earlier in the alphabet declares too, and entries of the list that allow nothing.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    check_except(repository, SHARED)
}

fn check_except(repository: &Repository, shared: &[&str]) -> Vec<Finding> {
    let declared = declarations(repository);
    let mut findings = Vec::new();
    for (name, places) in &declared {
        let crates: BTreeSet<&str> = places.iter().map(|&(crate_name, ..)| crate_name).collect();
        let is_shared = shared.contains(name);
        if crates.len() < 2 || is_shared {
            continue;
        }
        let first = crates.iter().next().copied().unwrap_or_default();
        for &(_, source, line) in places.iter().filter(|&&(crate_name, ..)| crate_name != first) {
            findings.push(Finding::new(
                source,
                line,
                format!("`{name}` is also a type of `{first}`"),
                "name it after its domain, or list it in xtask/src/tidy/names.rs with a reason",
            ));
        }
    }
    findings.extend(shared.iter().filter(|name| !is_repeated(&declared, name)).map(|name| Finding {
        path: file!().to_owned(),
        line: 1,
        what: format!("`{name}` is a type of one crate only"),
        instead: "delete its entry in the list of shared names".to_owned(),
    }));
    findings
}

/// Whether several crates declare the name.
fn is_repeated(declared: &BTreeMap<&str, Vec<Declaration<'_>>>, name: &str) -> bool {
    let crates = declared.get(name).into_iter().flatten().map(|&(crate_name, ..)| crate_name);
    crates.collect::<BTreeSet<_>>().len() > 1
}

/// All types by name.
fn declarations(repository: &Repository) -> BTreeMap<&str, Vec<Declaration<'_>>> {
    let mut declared: BTreeMap<&str, Vec<Declaration<'_>>> = BTreeMap::new();
    for source in repository.rust() {
        let Some(crate_name) = crate_of(source) else { continue };
        for (name, line) in types(source) {
            declared.entry(name).or_default().push((crate_name, source, line));
        }
    }
    declared
}

/// Returns the crate of a source below `src`: its folder's name.
fn crate_of(source: &SourceFile) -> Option<&str> {
    let (folder, _) = source.path.split_once("/src/")?;
    folder.rsplit('/').next()
}

/// Returns the names of the types that a source declares in shipped lines, with their lines.
fn types(source: &SourceFile) -> impl Iterator<Item = (&str, usize)> {
    let code = &source.masked.code;
    let found = KEYWORDS.iter().flat_map(move |keyword| words(code, keyword).map(move |at| (keyword, at)));
    found.filter_map(move |(&keyword, at)| {
        let rest = code[at + keyword.len()..].strip_prefix(' ')?;
        let end = rest.bytes().position(|byte| !is_name(byte)).unwrap_or(rest.len());
        let name = &rest[..end];
        let line = source.line_of(at);
        let is_associated = keyword == "type" && is_indented(code, at);
        let declares = name.starts_with(|letter: char| letter.is_ascii_uppercase()) && !is_associated;
        (declares && source.region(line) == Region::Shipped).then_some((name, line))
    })
}

/// Whether the line of `at` begins with a space: an alias is then a part of a trait or an implementation.
fn is_indented(code: &str, at: usize) -> bool {
    let start = code[..at].rfind('\n').map_or(0, |line_break| line_break + 1);
    code[start..].starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn found(files: &[(&str, &str)]) -> String {
        sample::findings(|repository| check_except(repository, &[]), files)
    }

    #[test]
    fn a_type_of_two_crates_is_reported() {
        for declaration in ["struct State;", "pub enum State {}", "pub(crate) trait State {}", "type State = u8;"] {
            let text = format!("//! Purpose.\n{declaration}\n");
            let text = found(&[("crates/a/src/lib.rs", "struct State {}"), ("crates/b/src/x.rs", &text)]);
            assert!(text.starts_with("crates/b/src/x.rs:2: `State` is also a type of `a`; "), "{declaration}: {text}");
            assert_eq!(text.lines().count(), 1, "{declaration}");
        }
    }

    #[test]
    fn one_crate_tests_comments_and_associated_types_may_repeat_a_name() {
        for other in [
            "// struct State;",
            "fn f() { let a = \"struct State\"; }",
            "#[cfg(test)]\nmod tests {\n    struct State;\n}",
            "impl A for B {\n    type State = u8;\n}",
            "struct StateOfB;",
        ] {
            let files = [("crates/a/src/lib.rs", "struct State;"), ("crates/b/src/lib.rs", other)];
            assert_eq!(found(&files), "", "{other}");
        }
        let within = [("crates/a/src/lib.rs", "struct State;"), ("crates/a/src/x.rs", "struct State;")];
        assert_eq!(found(&within), "");
        let tests = [("crates/a/src/lib.rs", "struct State;"), ("crates/b/tests/it/x.rs", "struct State;")];
        assert_eq!(found(&tests), "");
    }

    #[test]
    fn a_listed_name_is_shared() {
        let files = [("crates/a/src/lib.rs", "struct State;"), ("bindings/b/src/lib.rs", "struct State;")];
        let repository = sample::repository(&files);
        assert_eq!(check_except(&repository, &[]).len(), 1);
        assert_eq!(check_except(&repository, &["State"]), []);
        let stale = check_except(&sample::repository(&files[..1]), &["State"]);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].to_string().contains("`State` is a type of one crate only"), "{}", stale[0]);
    }
}
