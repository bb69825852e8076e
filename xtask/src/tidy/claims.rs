//! Every attack in the threat model refers to a test of the defence, and every test that the page refers to exists.

use super::{Finding, Repository};
use crate::source::SourceFile;

const PAGE: &str = "docs/threat-model.md";
/// The heading of the table whose rows must name tests.
const ATTACKS: &str = "## Attacks and defences";

/// Rows without tests, and tests that do not exist.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let Some(page) = repository.find(PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut is_in_table = false;
    for (number, line) in page.lines() {
        if line.starts_with("## ") {
            is_in_table = line == ATTACKS;
        }
        let named: Vec<(&str, &str)> = references(line).collect();
        if is_in_table && is_row(line) && named.is_empty() {
            let instead = "add `PATH::NAME` of a test that shows it, or remove the claim";
            findings.push(Finding::new(page, number, "an attack without a test", instead));
        }
        // The last cell contains only references.
        let tests = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        if is_in_table && is_row(line) && references(tests).count() != quoted(tests).count() {
            let instead = "write `PATH::NAME` with the whole path of the file";
            findings.push(Finding::new(page, number, "a test that cannot be found by its path", instead));
        }
        for (path, name) in named.into_iter().filter(|(path, name)| !has_test(repository, path, name)) {
            let what = format!("`{path}::{name}` is no test");
            findings.push(Finding::new(page, number, what, "name a test function of that file"));
        }
    }
    findings
}

/// A row with content: neither the header of the table nor the line below it.
fn is_row(line: &str) -> bool {
    line.starts_with("| ") && !line.starts_with("| attack |")
}

/// `PATH::NAME` in backticks, where PATH has a folder.
fn references(line: &str) -> impl Iterator<Item = (&str, &str)> {
    quoted(line).filter_map(|text| text.rsplit_once("::")).filter(|(path, _)| path.contains('/'))
}

/// The text in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn has_test(repository: &Repository, path: &str, name: &str) -> bool {
    let defines = |source: &SourceFile| {
        if source.is_rust() {
            // In a test macro the attribute is not necessarily on the line above.
            source.text.contains(&format!("fn {name}("))
                && ["test]", "test(", "on_both_databases!"].iter().any(|mark| source.text.contains(mark))
        } else if path.ends_with(".py") {
            name.starts_with("test_") && source.text.contains(&format!("def {name}("))
        } else {
            // Node's tests have texts for names.
            source.text.contains(&format!("'{name}'"))
        }
    };
    repository.find(path).is_some_and(defines)
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    #[test]
    fn attacks_name_tests_that_exist() {
        let test = ("crates/a/tests/b.rs", "#[test]\nfn it_holds() {}\n");
        let python = ("tests/interop/test_c.py", "def test_d() -> None: ...\n");
        let page =
            |cell: &str| format!("{ATTACKS}\n\n| attack | why |\n|---|---|\n| x | {cell} |\n\n## Other\n| y | z |\n");
        let found = |cell: &str| findings(check, &[(PAGE, &page(cell)), test, python]);
        assert_eq!(found("`crates/a/tests/b.rs::it_holds`"), "");
        assert_eq!(found("so. `tests/interop/test_c.py::test_d`"), "");
        assert!(found("because").contains("threat-model.md:5: an attack without a test"));
        assert!(found("`std::fmt` prints").contains("an attack without a test"), "a path of Rust is no file");
        assert!(found("`crates/a/tests/b.rs::it_holds`, `b::it_holds`").contains("cannot be found by its path"));
        for missing in ["crates/a/tests/b.rs::it_fails", "crates/a/tests/c.rs::it_holds", "tests/interop/test_c.py::d"]
        {
            assert!(found(&format!("`{missing}`")).contains("is no test; name a test function"), "{missing}");
        }
    }
}
