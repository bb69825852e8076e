//! The walk through the code names functions, types and settings that the files it links to contain.

use super::links::{resolve, targets};
use super::{Finding, Repository};
use crate::lexer::words;

const PAGES: [&str; 2] = ["docs/request.md", "docs/where.md"];
/// Pages that list settings and error codes, which are not always names in the code.
const REFERENCES: [&str; 2] = ["docs/configuration.md", "docs/errors.md"];

/// Names in backticks that occur in no file, of those that the same section of the page links to, nor in a reference. Sections without
/// links are introductions.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in PAGES.iter().filter_map(|path| repository.find(path)) {
        let lines: Vec<(usize, &str)> = page.lines().collect();
        for section in lines.chunk_by(|_, (_, next)| !next.starts_with("## ")) {
            let linked: Vec<String> =
                section.iter().flat_map(|(_, line)| targets(line)).filter_map(|target| resolve(page, target)).collect();
            for &(number, line) in section.iter().filter(|_| !linked.is_empty()) {
                let is_known = |name: &&str| {
                    is_listed(repository, name) || linked.iter().any(|path| contains(repository, path, name))
                };
                let missing = names(line).filter(|name| !is_known(name));
                findings.extend(missing.map(|name| {
                    let what = format!("no file that this section links to contains `{name}`");
                    Finding::new(page, number, what, "use the present name, or link to its file")
                }));
            }
        }
    }
    findings
}

/// The parts of the paths in backticks, `Engine` and `encryptor` of `Engine::encryptor`; not file names, nor anything else.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:<>".contains(&byte));
    let parts = quoted.filter(is_path).flat_map(|text| text.split([':', '<', '>']));
    parts.filter(|part| part.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// Whether the code of a file or folder contains a name; of a module's file, also that of the files beside it.
fn contains(repository: &Repository, path: &str, name: &str) -> bool {
    let folder = format!("{}/", path.strip_suffix("/mod.rs").unwrap_or(path));
    let files = repository.rust().filter(|source| source.path == path || source.path.starts_with(&folder));
    files.into_iter().any(|source| words(&source.masked.code, name).next().is_some())
}

fn is_listed(repository: &Repository, name: &str) -> bool {
    let pages = REFERENCES.iter().filter_map(|path| repository.find(path));
    pages.into_iter().any(|page| words(&page.text, name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    #[test]
    fn names_stand_in_the_code_of_linked_files() {
        let code = ("crates/a/src/b.rs", "//! Purpose: `gone`.\nfn present() {}\nstruct Kind;\n");
        let beside = ("crates/a/src/c/d.rs", "fn beside() {}\n");
        let listed = (REFERENCES[0], "`server.limit_max`\n");
        let found = |text: &str| findings(check, &[(PAGES[0], text), code, beside, listed]);
        let link = "[b](../crates/a/src/b.rs)";
        for good in [
            "`present`",
            "`Kind::present`",
            "`Kind<present>`",
            "`--option`",
            "`b.rs`",
            "`[0, 7]`",
            "no name",
            "`limit_max`",
        ] {
            assert_eq!(found(&format!("{link} {good}")), "", "{good}");
        }
        assert_eq!(found("[c](../crates/a/src/c/mod.rs) `beside`"), "");
        for bad in ["`gone`", "`Kind::absent`", "`beside`"] {
            assert!(found(&format!("{link}\n{bad}")).contains("request.md:2: no file that this section"), "{bad}");
        }
        assert!(
            found(&format!("{link}\n## Next\n[d](../crates/a/src/c/d.rs) `present`")).contains(":3: "),
            "links count in their section"
        );
        assert_eq!(found("`gone`"), "");
    }
}
